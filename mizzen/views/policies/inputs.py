"""What a comparison of policies is given on the command line: where the jobs are from, their speeds, and the policies."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from core.nouns.ids import GLOBAL_LOG
from core.sharing.jobs import SharingJob
from core.sharing.policies import POLICIES
from core.sharing.speeds import SPREAD, BadSpeeds, SpeedTable, with_shapes
from core.sharing.traces import BadTrace, jobs_of, rows_of
from mizzen.jobs.section import nearest
from mizzen.jobs.speeds_file import load_speeds
from mizzen.terminal.output import MISUSED, CommandError
from mizzen.views.logs.logged_jobs import logged_jobs

SUFFIX_OF_LOGS = ".sqlite"
SUFFIX_OF_POLICIES = ".py"
SPEEDS_BESIDE = ("simulation_throughputs.json", "speeds.yaml")
"""Files of speeds that are looked for beside a trace, and in the folder above."""


class Input(Struct, frozen=True):
    """The jobs, and how fast they are."""

    jobs: tuple[SharingJob, ...]
    table: SpeedTable
    notes: tuple[str, ...] = ()
    """What was left out and what was guessed, a sentence each."""
    references: SpeedTable | None = None
    """All that the file of speeds has, where the table is only of the jobs."""


def input_of(source: str, speeds: Path | None, gpu_types: Sequence[str]) -> Input:
    """Return the jobs of a trace file, of a log file, or of the running plane's queue (`global`). Raises CommandError.

    speeds      a file of speeds; None: for a trace the one that lies beside it
    gpu_types   of the fleet, which a log need not name
    """
    table = _table(speeds) if speeds is not None else None
    if source == GLOBAL_LOG or source.endswith(SUFFIX_OF_LOGS):
        # Of a type that the file of speeds has, however it is written, the file's name: else a job would have a speed on one of the two alone.
        names = {name.casefold(): name for name in (table.gpu_types if table is not None else ())}
        types = [names.get(name.casefold(), name) for name in gpu_types]
        found = logged_jobs(source, table, types)
        return _that_can_run(Input(found.jobs, found.table, found.notes, table), types)
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(
            f"{source} cannot be read ({error}); name a trace, a log's file or `global`"
        ) from error
    table = table or _table(_beside(path))
    try:
        rows = rows_of(text)
        jobs = jobs_of(rows, table)
    except BadTrace as error:
        raise CommandError(f"{source}: {error}") from error
    whole, notes = with_shapes(table, ((job.model, job.gpus) for job in jobs))
    return Input(jobs, whole, notes)


def policies_of(text: str) -> tuple[str, ...]:
    """Return the policies that are named, apart by commas; empty: all. A path of a file is a policy of one's own. Raises CommandError."""
    named = (name.strip() for name in text.split(","))
    names = tuple(dict.fromkeys(name for name in named if name)) or tuple(POLICIES)
    for name in names:
        if name in POLICIES or name.endswith(SUFFIX_OF_POLICIES):
            continue
        hint = nearest(name, tuple(POLICIES))
        mean = f" (did you mean `{hint}`?)" if hint else ""
        raise CommandError(f"there is no policy `{name}`{mean}; `mizzen policy list` shows them", MISUSED)
    return names


def plain(error: Exception, policy: str) -> str:
    """Return what an error says, without the name of the policy's own file before it."""
    path = Path(policy)
    return str(error).removeprefix(f"{path.name}: ").removeprefix(f"{path.stem}: ")


def _that_can_run(given: Input, gpu_types: Sequence[str]) -> Input:
    """Return the jobs of a log that have a speed on some type of the fleet; others are left out, and said. Raises CommandError."""
    names = {name.casefold() for name in gpu_types}
    jobs = tuple(
        job
        for job in given.jobs
        if any(
            speed > 0 and gpu_type.removesuffix(SPREAD).casefold() in names
            for gpu_type, speed in given.table.alone[job.model, job.gpus].items()
        )
    )
    left_out = len(given.jobs) - len(jobs)
    note = f"left out, for they run on none of the fleet's GPU types: {left_out} jobs"
    if not jobs:
        raise CommandError(f"no job of the log has a speed on {', '.join(sorted(gpu_types))}")
    notes = (*given.notes, note) if left_out else given.notes
    return Input(jobs, given.table, notes, given.references)


def _beside(path: Path) -> Path:
    for folder in (path.absolute().parent, path.absolute().parent.parent):
        for name in SPEEDS_BESIDE:
            if (folder / name).is_file():
                return folder / name
    raise CommandError(
        f"no speeds are known: name a file of them with --speeds, or put {SPEEDS_BESIDE[0]} beside {path.name}"
    )


def _table(path: Path) -> SpeedTable:
    try:
        return load_speeds(path)
    except (BadSpeeds, OSError) as error:
        raise CommandError(str(error)) from error

"""What a comparison of policies is given on the command line: where the jobs are from, the fleet, and the policies."""

import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from core.nouns.ids import GLOBAL_LOG
from core.sharing.building import Pool
from core.sharing.jobs import SharingJob
from core.sharing.policies import POLICIES
from core.sharing.speeds import BadSpeeds, SpeedTable, with_shapes
from core.sharing.traces import BadTrace, jobs_of, rows_of
from mizzen.jobs.section import nearest
from mizzen.jobs.speeds_file import load_speeds
from mizzen.terminal.output import MISUSED, CommandError
from mizzen.views.logs.logged_jobs import logged_jobs

SUFFIX_OF_LOGS = ".sqlite"
SUFFIX_OF_POLICIES = ".py"
HERE = "here"
"""The region of GPUs that name none."""
GPUS_MAX = 10_000_000
POOLS_MAX = 1_000
SPEEDS_BESIDE = ("simulation_throughputs.json", "speeds.yaml")
"""Files of speeds that are looked for beside a trace, and in the folder above."""
_POOL = re.compile(r"(?:(?P<region>[\w.-]+)/)?(?P<type>[\w.-]+)=(?P<gpus>[0-9]{1,9})")


class Input(Struct, frozen=True):
    """The jobs, and how fast they are."""

    jobs: tuple[SharingJob, ...]
    table: SpeedTable
    notes: tuple[str, ...] = ()
    """What was left out and what was guessed, a sentence each."""


def input_of(source: str, speeds: Path | None, gpu_types: Sequence[str]) -> Input:
    """Return the jobs of a trace file, of a log file, or of the running plane's queue (`global`). Raises CommandError.

    speeds      a file of speeds; None: for a trace the one that lies beside it
    gpu_types   of the fleet, which a log need not name
    """
    table = _table(speeds) if speeds is not None else None
    if source == GLOBAL_LOG or source.endswith(SUFFIX_OF_LOGS):
        found = logged_jobs(source, table, gpu_types)
        return _that_can_run(Input(found.jobs, found.table, found.notes), gpu_types)
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


def pools_of(text: str, known: Sequence[str] = ()) -> tuple[Pool, ...]:
    """Return the pools of `V100=36,eu/K80=24`. Types are those of `known`, if any, however they are written. Raises CommandError."""
    names = {name.casefold(): name for name in known}
    pools = []
    for part in text.split(","):
        match = _POOL.fullmatch(part.strip())
        if match is None or not 0 < int(match["gpus"]) <= GPUS_MAX:
            raise CommandError(
                f"--gpus: {part!r} is no number of GPUs of a type; write for example V100=36,eu/K80=24",
                MISUSED,
            )
        gpu_type = names.get(match["type"].casefold(), match["type"])
        if known and gpu_type not in known:
            raise CommandError(
                f"--gpus: no speeds are known on {gpu_type}; they are on {', '.join(known)}", MISUSED
            )
        pools.append(Pool(match["region"] or HERE, gpu_type, int(match["gpus"])))
    places = [(pool.region, pool.gpu_type) for pool in pools]
    twice = sorted({place for place in places if places.count(place) > 1})
    if twice or len(pools) > POOLS_MAX:
        why = f"{twice[0][0]}/{twice[0][1]} stands twice" if twice else f"{POOLS_MAX} pools are the most"
        raise CommandError(f"--gpus: {why}", MISUSED)
    return tuple(pools)


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
            speed > 0 and gpu_type.casefold() in names
            for gpu_type, speed in given.table.alone[job.model, job.gpus].items()
        )
    )
    left_out = len(given.jobs) - len(jobs)
    note = f"left out, for they run on none of the fleet's GPU types: {left_out} jobs"
    if not jobs:
        raise CommandError(f"no job of the log has a speed on {', '.join(sorted(gpu_types))}")
    return Input(jobs, given.table, (*given.notes, note) if left_out else given.notes)


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

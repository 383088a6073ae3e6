"""`mizzen submit`: a job file or a script becomes a workload, and its id is all that is printed."""

import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from mizzen.answers import (
    FAILED,
    INTERRUPTED,
    MISUSED,
    CommandError,
    explained,
    tell_json,
    tell_json_line,
    tell_note,
    tell_problem,
)
from mizzen.options import Json

if (
    TYPE_CHECKING
):  # What reads files and what speaks to planes is loaded when it is needed: help is shown at once.
    from core.nouns.workload import JobSpec, WorkloadSpec
    from mizzen.jobs.file import Job
    from runtime.yaml_tree import Tree

KEY_LENGTH_MAX = 256


def submit(
    file: Annotated[
        str, Parameter(help="A job file or a script; - reads standard input.", allow_leading_hyphen=True)
    ],
    /,
    *arguments: Annotated[str, Parameter(help="For the script, or for `run` where it says $@; behind --.")],
    name: Annotated[str, Parameter(help="Instead of the name that the file gives.")] = "",
    priority: Annotated[str, Parameter(help="From 0, the lowest, to 6.")] = "",
    tenant: Annotated[str, Parameter(help="On whose account.")] = "",
    region: Annotated[tuple[str, ...], Parameter(help="Where it may run; can be given again.")] = (),
    key: Annotated[str, Parameter(help="The same key never submits twice; drawn if not given.")] = "",
    set_: Annotated[
        tuple[str, ...],
        Parameter(name="--set", help="Any field, as in resources.gpus=H100:4; can be given again."),
    ] = (),
    dry_run: Annotated[
        bool, Parameter(negative=(), help="Only tell what would be asked for; needs no plane.")
    ] = False,
    wait: Annotated[
        bool,
        Parameter(
            name=("--wait", "-w"), negative=(), help="Wait for its end; fails if it does not complete."
        ),
    ] = False,
    json: Json = False,
) -> int:
    """Submit a job file or a script; only its id is printed."""
    if len(key) > KEY_LENGTH_MAX or not key.isprintable():
        raise CommandError(f"a key has {KEY_LENGTH_MAX} printable characters at most", MISUSED)
    changes = {"name": name, "priority": priority, "tenant": tenant}
    job = _job(file, arguments, changes, region, set_, is_json=json)
    if dry_run:
        _tell(job.spec, is_json=json)
        return 0
    return _submit(job, key or uuid.uuid4().hex, is_waiting=wait, is_json=json)


def _submit(job: "Job", key: str, *, is_waiting: bool, is_json: bool) -> int:
    import asyncio

    from mizzen.plane import client_of, find_plane, submitter
    from mizzen.submission import ended, submitted

    workload = ""

    async def run() -> str:
        nonlocal workload
        async with client_of(find_plane(), submitter()) as bus:
            accepted = workload = await submitted(bus, job, key)
            if is_json:
                tell_json_line({"workload": workload})
            else:
                print(workload, flush=True)
            return await ended(bus, accepted) if is_waiting else ""

    try:
        phase = asyncio.run(run())
    except KeyboardInterrupt:
        if workload:
            text = f"{workload} goes on; `mizzen cancel {workload}` ends it"
            tell_problem(text, is_json=is_json)
        return INTERRUPTED
    if phase and is_json:
        tell_json_line({"workload": workload, "phase": phase})
    if phase in {"", "COMPLETED"}:
        return 0
    tell_problem(f"{workload} has ended {phase}; `mizzen show {workload}` tells why", is_json=is_json)
    return FAILED


def _job(
    file: str,
    arguments: Sequence[str],
    changes: dict[str, str],
    regions: Sequence[str],
    sets: Sequence[str],
    *,
    is_json: bool,
) -> "Job":
    """The workload that is meant: what the file says, changed by what the command line says. Raises CommandError."""
    from msgspec.structs import replace

    from mizzen.jobs.file import read_job
    from mizzen.jobs.section import JobFileError
    from mizzen.jobs.source import read_settings, read_source, sheet_of
    from runtime.yaml_tree import Listing, Place, Problem, Text, with_fields

    if file.startswith("-") and file != "-":
        raise CommandError(f"there is no option {file}; `mizzen submit --help` shows what there is", MISUSED)
    trees: list[tuple[str, Tree]] = [
        (field, Text(Place(f"--{field}"), value)) for field, value in changes.items() if value
    ]
    if regions:
        place = Place("--region")
        trees.append(("regions", Listing(place, tuple(Text(place, region) for region in regions))))
    try:
        with explained():
            source = read_source(file)
        problems: list[Problem] = []
        trees += read_settings(sets, problems)
        sheet = sheet_of(source, arguments, os.environ, [path for path, _ in trees])
        for note in sheet.notes:
            tell_note(note, is_json=is_json)
        fields = with_fields(sheet.fields, trees, problems)
        return read_job(replace(sheet, fields=fields, problems=[*sheet.problems, *problems]), Path.cwd())
    except JobFileError as error:
        told = [str(problem) for problem in error.problems]
        if len(told) == 1 and not error.problems[0].place.line:
            raise CommandError(told[0], MISUSED) from error
        called = "standard input" if file == "-" else file
        count = "a problem" if len(told) == 1 else f"{len(told)} problems"
        raise CommandError(f"nothing was submitted: {called} has {count}", MISUSED, told) from error


def _tell(spec: "WorkloadSpec", *, is_json: bool) -> None:
    """What would be asked for; as JSON exactly so."""
    import msgspec

    from core.nouns.workload import NEVER
    from mizzen.jobs.values import span_text

    if is_json:
        tell_json(msgspec.to_builtins(spec))
        return
    retry = f"task_failed {spec.retry.task_failed}, start_failed {spec.retry.start_failed}"
    lines = [
        ("name", spec.name),
        ("tenant", spec.tenant),
        ("priority", str(spec.priority)),
        ("kind", str(spec.kind)),
        ("regions", ", ".join(spec.regions) or "any"),
        ("retry", retry),
        ("max duration", span_text(spec.max_duration) if spec.max_duration != NEVER else "none"),
        ("grace", span_text(spec.grace) if spec.grace != NEVER else "as the plane has it"),
    ]
    for job in spec.jobs:
        lines += [("", ""), *_lines_of(job)]
    for called, text in lines:
        print(f"{called:<14}{text}".rstrip())


def _lines_of(job: "JobSpec") -> list[tuple[str, str]]:
    from core.nouns.quantities import MILLI
    from mizzen.jobs.values import span_text

    need = f"{job.gpu_type}:{job.need.gpu_milli / MILLI:g}"
    need += f", {job.need.cpu_milli / MILLI:g} CPUs" if job.need.cpu_milli else ""
    need += f", {job.need.memory_bytes / (1 << 30):g} GiB" if job.need.memory_bytes else ""
    lines = [("job", job.name), ("tasks", f"{job.tasks} of {need}")]
    if job.emulation is not None:
        return [*lines, ("emulates", f"{span_text(job.emulation.work)} of work")]
    assert job.program is not None
    program = job.program
    first, *more = program.run.strip().split("\n")
    lines += [
        ("run", f"{first} (and {len(more)} more lines)" if more else first),
        ("directory", program.directory),
    ]
    lines += [("env", f"{name}={text}") for name, text in program.env.items()]
    lines += [("secret", name) for name in program.secrets]
    if program.checkpoint_dir:
        lines.append(("checkpoints", program.checkpoint_dir))
    if program.early_warning:
        lines.append(("early warning", span_text(program.early_warning)))
    return lines

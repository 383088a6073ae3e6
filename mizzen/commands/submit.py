"""`mizzen submit`: a job file or a script becomes a workload, and its id is all that is printed."""

import uuid
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from mizzen.terminal.options import Json
from mizzen.terminal.output import (
    FAILED,
    INTERRUPTED,
    MISUSED,
    CommandError,
    tell_json,
    tell_json_line,
    tell_lines,
    tell_problem,
)

if (
    TYPE_CHECKING
):  # What reads files and what speaks to planes is loaded when it is needed: help is shown at once.
    from core.nouns.workload import JobSpec, WorkloadSpec
    from mizzen.jobs.file import Job

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
    test_only: Annotated[
        bool, Parameter(negative=(), help="Only tell whether it would be accepted, and when it would start.")
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
    from mizzen.jobs.given import job_given

    if len(key) > KEY_LENGTH_MAX or not key.isprintable():
        raise CommandError(f"a key has {KEY_LENGTH_MAX} printable characters at most", MISUSED)
    changes = {"name": name, "priority": priority, "tenant": tenant}
    job = job_given(
        file, arguments, fields=changes, regions=region, settings=set_, command="submit", is_json=json
    )
    if test_only:
        if dry_run or wait:
            raise CommandError(
                "--test-only submits nothing: it goes neither with --dry-run nor with --wait", MISUSED
            )
        _test(job, is_json=json)
        return 0
    if dry_run:
        _tell(job.spec, is_json=json)
        return 0
    return _submit(job, key or uuid.uuid4().hex, is_waiting=wait, is_json=json)


def _test(job: "Job", *, is_json: bool) -> None:
    import msgspec

    from mizzen.actions.submit import tested
    from mizzen.views.plane_reads import on_plane
    from mizzen.views.workloads.start_estimates import outcome_of

    found = on_plane(lambda bus, _: tested(bus, job))
    if is_json:
        tell_json(msgspec.to_builtins(found))
    else:
        tell_lines(outcome_of(found))


def _submit(job: "Job", key: str, *, is_waiting: bool, is_json: bool) -> int:
    import asyncio

    from mizzen.actions.submit import ended, submitted
    from mizzen.connect.plane import client_of, find_plane, submitter

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


def _tell(spec: "WorkloadSpec", *, is_json: bool) -> None:
    """What would be asked for; as JSON exactly so."""
    import msgspec

    from core.nouns.operation import ControlSpec
    from core.nouns.workload import NEVER
    from mizzen.jobs.values import span_text
    from mizzen.views.phrases.quota_text import priority_text
    from mizzen.views.phrases.text import control_text, share_text

    if is_json:
        tell_json(msgspec.to_builtins(spec))
        return
    retry = f"task_failed {spec.retry.task_failed}, start_failed {spec.retry.start_failed}"
    lines = [
        ("name", spec.name),
        ("tenant", spec.tenant),
        ("priority", priority_text(spec, None)),
        ("kind", str(spec.kind)),
        ("regions", ", ".join(spec.regions) or "any"),
        ("retry", retry),
        ("max duration", span_text(spec.max_duration) if spec.max_duration != NEVER else "none"),
        ("grace", span_text(spec.grace) if spec.grace != NEVER else "as the plane has it"),
    ]
    if spec.data:
        lines.insert(5, ("reads", ", ".join(spec.data)))
    if spec.share is not None:
        lines.append(("share", share_text(spec.share)))
    if spec.control != ControlSpec():
        lines.append(("control", control_text(spec)))
    if spec.is_incremental:
        lines.append(("placement", "incremental: some of its tasks may start before the others have a place"))
    for job in spec.jobs:
        lines += [("", ""), *_lines_of(job)]
    for called, text in lines:
        print(f"{called:<14}{text}".rstrip())


def _lines_of(job: "JobSpec") -> list[tuple[str, str]]:
    from core.nouns.quantities import MILLI
    from mizzen.jobs.values import span_text

    gpus = f"{job.need.gpu_milli / MILLI:g}"
    need = " or ".join(f"{name}:{gpus}" for name in (job.gpu_type, *job.or_types))
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

"""`mizzen submit`: a job file or a script becomes a workload or a pipeline, and its id is all that is printed."""

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
    tell_note,
    tell_problem,
)

if (
    TYPE_CHECKING
):  # What reads files and what speaks to planes is loaded when it is needed: help is shown at once.
    from bus.port import Bus
    from core.nouns.pipeline import PipelineSpec, StageSpec
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
        return _test(job, is_json=json)
    if dry_run:
        _tell(job, is_json=json)
        return 0
    return _submit(job, key or uuid.uuid4().hex, is_waiting=wait, is_json=json)


def _test(job: "Job", *, is_json: bool) -> int:
    """Tell what would come of it; fails if it would be refused."""
    import msgspec

    from mizzen.actions.function_calls import check_credentials
    from mizzen.actions.submit import pipeline_tested, tested
    from mizzen.connect.plane import find_plane
    from mizzen.views.plane_reads import on_plane

    check_credentials(job, find_plane())
    found: object
    is_refused = False
    if job.pipeline is None:
        from mizzen.views.workloads.start_estimates import outcome_of

        found = start = on_plane(lambda bus, _: tested(bus, job))
        lines = [] if is_json else outcome_of(start)
    else:
        from mizzen.views.pipelines.tested import lines_of_test

        found = course = on_plane(lambda bus, _: pipeline_tested(bus, job))
        lines = [] if is_json else lines_of_test(course)
        is_refused = course.is_refused
    if is_json:
        tell_json(msgspec.to_builtins(found))
    else:
        tell_lines(lines)
    return FAILED if is_refused else 0


def _submit(job: "Job", key: str, *, is_waiting: bool, is_json: bool) -> int:
    import asyncio

    from core.nouns.ids import PipelineId, WorkloadId
    from mizzen.actions import submit as actions
    from mizzen.actions.function_calls import check_credentials
    from mizzen.connect.plane import client_of, find_plane, submitter

    called = ""
    plane = find_plane()
    check_credentials(job, plane)

    async def run() -> str:
        nonlocal called
        async with client_of(plane, submitter()) as bus:
            called = await _accepted(bus, job, key, is_json=is_json)
            if not is_waiting:
                return ""
            if job.pipeline is None:
                return await actions.ended(bus, WorkloadId(called))
            return await actions.pipeline_ended(bus, PipelineId(called))

    try:
        end = asyncio.run(run())
    except KeyboardInterrupt:
        if called:
            text = f"{called} goes on; `mizzen cancel {called}` ends it"
            tell_problem(text, is_json=is_json)
        return INTERRUPTED
    if end and is_json:
        is_plain = job.pipeline is None
        tell_json_line(
            {"workload": called, "phase": end} if is_plain else {"pipeline": called, "outcome": end}
        )
    if end in {"", "COMPLETED", "met"}:
        return 0
    command = f"mizzen show {called}" if job.pipeline is None else actions.show_command(called)
    tell_problem(f"{called} has ended {end}; `{command}` tells why", is_json=is_json)
    return FAILED


async def _accepted(bus: "Bus", job: "Job", key: str, *, is_json: bool) -> str:
    """The id under which a job is accepted, which is told at once."""
    from core.nouns.pipeline import NoDeadline
    from mizzen.actions.submit import pipeline_submitted, submitted

    if job.pipeline is None:
        workload = await submitted(bus, job, key)
        if is_json:
            tell_json_line({"workload": workload})
        else:
            print(workload, flush=True)
        return workload
    answer = await pipeline_submitted(bus, job, key)
    if is_json:
        tell_json_line({"pipeline": answer.pipeline, "workloads": answer.workloads})
    else:
        print(answer.pipeline, flush=True)
    why = {
        NoDeadline.INFEASIBLE: "even if nothing else ran, the pipeline would be late",
        NoDeadline.OVER_BUDGET: "the tenant's budget of work under deadlines is spent; `mizzen quota deadlines` shows the budget",
    }  # fmt: skip
    if answer.no_deadline is not NoDeadline.NONE:
        text = f"{answer.pipeline} was accepted without a deadline: {why[answer.no_deadline]}"
        tell_note(text, is_json=is_json)
    return answer.pipeline


def _tell(job: "Job", *, is_json: bool) -> None:
    """What would be asked for; as JSON exactly so."""
    import msgspec

    if is_json:
        tell_json(msgspec.to_builtins(job.spec if job.pipeline is None else job.pipeline))
        return
    lines = _lines_of_pipeline(job.pipeline) if job.pipeline is not None else _lines_of_workload(job.spec)
    for called, text in lines:
        print(f"{called:<14}{text}".rstrip())


def _lines_of_pipeline(spec: "PipelineSpec") -> list[tuple[str, str]]:
    """What holds for all stages, and then each of them."""
    from mizzen.jobs.values import span_text
    from mizzen.views.phrases.text import instant_text

    lines = [("pipeline", spec.name)]
    if spec.deadline:
        lines.append(("deadline", instant_text(spec.deadline)))
    if spec.within:
        lines.append(("within", f"{span_text(spec.within)} of the submission"))
    if spec.deadline or spec.within:
        lines.append(("on late", str(spec.on_late)))
    if len(spec.stages) > 1:
        text = "in one region" if spec.is_together else "each stage in any region"
        lines.append(("together", text))
    for stage in spec.stages:
        lines += [("", ""), *_lines_of_stage(stage), *_lines_of_workload(stage.workload)]
    return lines


def _lines_of_stage(stage: "StageSpec") -> list[tuple[str, str]]:
    """When a stage may begin."""
    from mizzen.jobs.values import window_text

    lines = [("stage", stage.name), ("after", ", ".join(stage.after) or "nothing: from the submission on")]
    if stage.begins is not None:
        lines.append(("begins", f"{window_text(stage.begins)}, UTC"))
    return lines


def _lines_of_workload(spec: "WorkloadSpec") -> list[tuple[str, str]]:
    """All that holds for a workload, and then each of its jobs."""
    from core.nouns.operation import ControlSpec
    from core.nouns.workload import NEVER
    from mizzen.jobs.values import span_text
    from mizzen.views.phrases.quota_text import priority_text
    from mizzen.views.phrases.text import control_text, share_text

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
    if spec.expected:
        lines.append(("expected", span_text(spec.expected)))
    if spec.input_size:
        lines.append(("input", str(spec.input_size)))
    if spec.share is not None:
        lines.append(("share", share_text(spec.share)))
    if spec.control != ControlSpec():
        lines.append(("control", control_text(spec)))
    if spec.is_incremental:
        lines.append(("placement", "incremental: some of its tasks may start before the others have a place"))
    for job in spec.jobs:
        lines += [("", ""), *_lines_of(job)]
    return lines


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

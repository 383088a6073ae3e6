"""A story as `mizzen show` tells it to people, and as JSON has it."""

from collections.abc import Iterable
from typing import Any

import msgspec

from core.messages.queue import WorkloadExplained
from core.nouns.instant import Instant
from core.nouns.operation import ControlSpec
from core.nouns.workload import NEVER, JobSpec, Kind, WorkloadSpec
from mizzen.views.phrases.pipeline_text import place_text, waiting_text
from mizzen.views.phrases.quota_text import priority_text, standing_text
from mizzen.views.phrases.reservation_text import promised_text
from mizzen.views.phrases.text import (
    amount_text,
    asker_text,
    blame_text,
    columns_text,
    conflict_text,
    control_text,
    instant_text,
    nodes_text,
    share_text,
    time_text,
)
from mizzen.views.workloads.region_answers import answer_lines
from mizzen.views.workloads.story import Attempt, Story

INDENT = "  "
ATTEMPTS = (
    "EPOCH",
    "REGION",
    "STATE",
    "CAUSE",
    "BLAME",
    "EXIT",
    "AWARDED",
    "STARTED",
    "ENDED",
    "RAN",
    "SAVED",
    "NODELIST",
)
FIGURES = ("EPOCH", "EXIT", "RAN", "SAVED")


def builtins_of(
    story: Story, live: WorkloadExplained | None
) -> dict[str, Any]:  # Any: whatever JSON can hold
    """All that is told, and what the queue says now."""
    told: dict[str, Any] = msgspec.to_builtins(story, str_keys=True)
    for found, attempt in zip(told["attempts"], story.attempts, strict=True):
        found["state"] = attempt.state
        found["blame"] = blame_text(attempt.end_cause or attempt.stop_cause, attempt.asked_by)
        if attempt.placement is not None:
            found["placement"]["node_runs"] = [list(run) for run in attempt.placement.node_runs]
    told["reason"] = live.reason if live is not None else ""
    told["sentence"] = live.sentence if live is not None else ""
    told["level"] = live.level if live is not None else None
    told["standing"] = live.standing if live is not None else ""
    told["rank"] = live.rank if live is not None else -1
    told["stage"] = msgspec.to_builtins(live.stage) if live is not None else None
    told["promised"] = msgspec.to_builtins(live.promised) if live is not None else None
    return told


def lines_of(story: Story, live: WorkloadExplained | None, now: Instant) -> list[str]:
    """For people."""
    spec = story.spec
    fields = [
        ("state", _state(story, live)),
        ("tenant", spec.tenant),
        ("priority", f"{priority_text(spec, live)}; {spec.kind}"),
        ("regions", ", ".join(spec.regions) or "any"),
        *([("reads", ", ".join(spec.data))] if spec.data else []),
        ("submitted", f"{instant_text(story.submitted_at)} by {story.submitter or 'an unknown user'}"),
    ]
    quota = standing_text(live, spec) if live is not None and not story.phase.is_terminal else ""
    if quota:
        fields.append(("stands", quota))
    if story.is_held and not story.phase.is_terminal:
        fields.append(("held", f"yes; `mizzen release {story.workload}` lets it run"))
    if live is not None and live.stage is not None:
        fields.append(("pipeline", place_text(live.stage)))
        fields += [("waits", text.removeprefix("waits "))] if (text := waiting_text(live.stage)) else []
    if live is not None and live.promised is not None:
        fields.append(("starts", promised_text(live.promised)))
    promised = story.attempts[-1] if story.attempts and story.attempts[-1].state == "promised" else None
    if promised is not None and promised.placement is not None:
        victims = ", ".join(f"{workload} (attempt {epoch})" for workload, epoch in promised.placement.victims)
        until = instant_text(promised.asked_until)
        fields.append(
            ("waits for", f"{victims} to stop; their controllers are asked until {until} at the latest")
        )
    if story.changed_at:
        changed = f"{instant_text(story.changed_at)} by {story.changed_by}, revision {story.spec_revision}"
        fields.append(("changed", changed))
    if story.cancel_requested_at:
        fields.append(("cancelled", f"{instant_text(story.cancel_requested_at)} by {story.cancelled_by}"))
    if story.ended_at:
        span = time_text(story.ended_at - story.submitted_at)
        fields.append(("ended", f"{instant_text(story.ended_at)}, {span} after it was submitted"))
    fields += limits_of(spec)
    tasks = f"{story.tasks_failed} of tasks, of which {_retried(spec)} retried"
    starts = f"{story.starts_failed} of starts, of which {spec.retry.start_failed} are"
    fields.append(("failures", f"{tasks}; {starts}"))
    lines = [f"{story.workload} {story.name}", *field_lines(fields), *job_lines(spec)]
    if story.attempts:
        table = columns_text(ATTEMPTS, [_attempt(one, now) for one in story.attempts], None, FIGURES)
        lines += ["", *(f"{INDENT}{line}" for line in table)]
    answers = answer_lines(story, live)
    if answers:
        lines += ["", *(f"{INDENT}{line}" for line in answers)]
    touched = [text for attempt in story.attempts if (text := _touched(attempt))]
    if touched:
        lines += ["", *(f"{INDENT}{text}" for text in touched)]
    return lines


def field_lines(fields: Iterable[tuple[str, str]]) -> list[str]:
    """Below the name of what has them."""
    return [f"{INDENT}{name:<13} {value}" for name, value in fields]


def limits_of(spec: WorkloadSpec) -> list[tuple[str, str]]:
    """What was asked for besides, where it is not as it is for everybody."""
    fields = []
    if spec.max_duration != NEVER:
        fields.append(("max duration", time_text(spec.max_duration)))
    if spec.grace != NEVER:
        fields.append(("grace", time_text(spec.grace)))
    if spec.move_after != NEVER:
        fields.append(("region loss", f"it moves after {time_text(spec.move_after)} of silence"))
    if spec.share is not None:
        fields.append(("share", share_text(spec.share)))
    if spec.control != ControlSpec():
        fields.append(("control", control_text(spec)))
    return fields


def job_lines(spec: WorkloadSpec) -> list[str]:
    """Its jobs, each below an empty line."""
    return [line for job in spec.jobs for line in ("", *_job(job))]


def _touched(attempt: Attempt) -> str:
    """What happened to single tasks of an attempt, and to a gang while it kept its place; empty if nothing did."""
    if attempt.declined and attempt.tries:
        met = conflict_text(attempt.region, attempt.tries, attempt.conflict, attempt.conflict_nodes)
        return f"attempt {attempt.epoch}: {attempt.declined}{met}"
    counts = (("down", attempt.tasks_down), ("started again", attempt.restarts))
    told = ", ".join(f"{what} {count}" for what, count in counts if count)
    if attempt.tasks_unplaced:
        whole = attempt.tasks_placed + attempt.tasks_unplaced
        placed = f"{attempt.tasks_placed} of {whole} tasks have a place, and the others are looking for one"
        told = f"{placed}; {told}" if told else placed
    if attempt.operations_asked:
        operations = f"operations asked for {attempt.operations_asked}, over {attempt.operations_done}"
        told = f"{told}; {operations}" if told else operations
    if attempt.destroyed:
        lost = f"{attempt.destroyed} GPU-seconds of its work were lost"
        told = f"{told}; {lost}" if told else lost
    return f"attempt {attempt.epoch}: {told}" if told else ""


def _retried(spec: WorkloadSpec) -> str:
    limit = spec.retry.task_failed
    if spec.kind != Kind.SERVICE:
        return f"{limit} are"
    return f"{limit} in a row are" if limit >= 0 else "all are"


def _state(story: Story, live: WorkloadExplained | None) -> str:
    newest = story.newest
    text = str(story.phase)
    if newest is not None and not newest.declined and not newest.closed_as:
        text += f" in {newest.region}, attempt {newest.epoch} {newest.state}"
    if live is not None and live.reason:
        text += f" ({live.reason}): {live.sentence}"
    return text


def _job(job: JobSpec) -> list[str]:
    lines = [f"{INDENT}{'job':<13} {job.name}: {job.tasks} x {amount_text(job.need)} on {job.type_text}"]
    if job.emulation is not None:
        spans = [f"{time_text(job.emulation.work)} of work"]
        if job.emulation.checkpoint_every != NEVER:
            spans.append(f"a checkpoint every {time_text(job.emulation.checkpoint_every)}")
        if job.emulation.fails_after != NEVER:
            spans.append(f"exit code {job.emulation.exit_code} after {time_text(job.emulation.fails_after)}")
        if job.emulation.set_up != NEVER:
            spans.append(f"{time_text(job.emulation.set_up)} to set up")
        lines.append(f"{INDENT}{'emulates':<13} {', '.join(spans)}")
    if job.program is not None:
        first, *more = job.program.run.strip().splitlines() or [""]
        lines.append(f"{INDENT}{'run':<13} {first}{f' (and {len(more)} more lines)' if more else ''}")
        if job.program.directory:
            lines.append(f"{INDENT}{'directory':<13} {job.program.directory}")
        lines += [f"{INDENT}{'env':<13} {name}={value}" for name, value in job.program.env.items()]
    return lines


def _attempt(attempt: Attempt, now: Instant) -> tuple[object, ...]:
    cause = attempt.declined or attempt.end_cause or attempt.stop_cause
    if attempt.stopped_for:
        cause += f" for {attempt.stopped_for}"
    if who := asker_text(cause, attempt.asked_by):
        cause += f" by {who}"
    ran = (attempt.ended_at or now) - attempt.started_at if attempt.started_at else 0
    return (
        attempt.epoch,
        attempt.region,
        attempt.state,
        cause or "-",
        blame_text(attempt.end_cause or attempt.stop_cause, attempt.asked_by) or "-",
        attempt.exit_code if attempt.end_cause else "-",
        instant_text(attempt.awarded_at),
        instant_text(attempt.started_at) if attempt.started_at else "-",
        instant_text(attempt.ended_at) if attempt.ended_at else "-",
        time_text(ran) if attempt.started_at else "-",
        attempt.saved_step or "-",
        nodes_text(attempt.region, attempt.placement.node_runs) if attempt.placement else "-",
    )

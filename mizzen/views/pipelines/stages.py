"""One pipeline: its deadline, its stages with start deadlines and forecasts, and every change with its cause."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from bus.port import Bus
from core.events.pipelines import PipelineSubmitted, StagesReprioritised
from core.fact import Fact
from core.messages.pipelines import Expected, PipelineShown, ShownStage, ShowPipeline
from core.nouns.ids import GLOBAL_LOG, PipelineId
from core.nouns.instant import SECOND, Instant
from core.nouns.pipeline import Outcome
from core.nouns.workload import Phase
from mizzen.connect.plane import ask
from mizzen.jobs.values import window_text
from mizzen.terminal.output import MISUSED, CommandError
from mizzen.views.phrases.durations import moment_text, short_text
from mizzen.views.phrases.pipeline_text import NO_DEADLINES, OUTCOMES, cause_text
from mizzen.views.phrases.text import columns_text, gpus_text, instant_text
from mizzen.views.plane_reads import facts_about

COLUMNS = ("STAGE", "WORKLOAD", "STATE", "GPUS", "START-BY", "LAXITY", "STARTS", "ENDS", "BAND", "AFTER")
CRITICAL = "*"
NONE = "-"
INDENT = "  "
TO_START = (Phase.PENDING, Phase.AWARDED)
"""Phases of stages that have a start ahead of them. A stage that has started keeps the last word about being late, which no longer counts."""
UNTOLD = "changes of start deadlines are missing: the log is for operators alone"


class Change(Struct, frozen=True):
    """One start deadline that moved."""

    at: Instant
    stage: str
    old: Instant
    new: Instant
    is_late: bool
    cause: str


class PipelineTold(Struct, frozen=True):
    """A pipeline and what happened to its start deadlines."""

    shown: PipelineShown
    changes: tuple[Change, ...] = ()


def pipeline_of(text: str) -> PipelineId:
    """Return the pipeline that is meant by `p-7`, or by `7`. Raises CommandError."""
    number = text.removeprefix("p-")
    if not (number.isascii() and number.isdigit()):
        raise CommandError(
            f"{text} is no pipeline; an id is one like p-7, and `mizzen pipeline` lists them", MISUSED
        )
    return PipelineId(f"p-{number}")


async def pipeline_told(bus: Bus, pipeline: PipelineId) -> PipelineTold:
    """Return a pipeline; its changes are missing where the credentials are a tenant's. Raises CommandError."""
    shown = await ask(bus, ShowPipeline(pipeline), PipelineShown)
    if bus.tenant:
        return PipelineTold(shown)
    return PipelineTold(shown, changes_of(await facts_about(bus, GLOBAL_LOG, pipeline)))


def changes_of(facts: Sequence[Fact]) -> tuple[Change, ...]:
    """Return every change of a start deadline, from the facts about one pipeline."""
    names: list[str] = []
    by_workload: dict[str, str] = {}
    found = []
    for fact in facts:
        if isinstance(fact.event, PipelineSubmitted):
            names = [stage.name for stage in fact.event.stages]
            by_workload = {stage.workload: stage.name for stage in fact.event.stages}
        elif isinstance(fact.event, StagesReprioritised):
            cause = cause_text(fact.event.cause, by_workload.get(fact.event.by, fact.event.by))
            found += [
                Change(fact.at, names[one.stage], one.old, one.new, one.is_late, cause)
                for one in fact.event.stages
            ]
    return tuple(found)


def builtins_of(told: PipelineTold) -> Mapping[str, Any]:  # Any: whatever JSON can hold
    """As JSON has it; instants are nanoseconds since 1970."""
    found: dict[str, Any] = msgspec.to_builtins(told.shown)
    return {**found, "changes": msgspec.to_builtins(told.changes)}


def lines_of(told: PipelineTold, width: int | None = None) -> list[str]:
    """For people."""
    shown = told.shown
    lines = [_headline(shown)]
    if shown.no_deadline:
        asked = moment_text(shown.asked_due_at, shown.now)
        lines.append(
            f"{INDENT}it has no deadline, although {asked} was asked for: {NO_DEADLINES[shown.no_deadline]}"
        )
    if shown.region:
        verb = "ran" if shown.outcome else "run"
        lines.append(f"{INDENT}its stages {verb} in {shown.region}, where the first was placed")
    lines += ["", *stage_table(shown.stages, shown.now, width)]
    if any(stage.is_critical for stage in shown.stages) and not shown.outcome:
        lines.append(f"{CRITICAL} a stage by which the end is determined")
    waiting = [stage for stage in shown.stages if stage.phase in TO_START]
    lines += [f"{stage.name} begins {window_text(stage.begins)}, UTC" for stage in waiting if stage.begins]
    lines += [f"{stage.name} can no longer be in time" for stage in waiting if stage.is_late]
    return [*lines, *_change_lines(told.changes, shown.now)]


def _headline(shown: PipelineShown) -> str:
    text = f"{shown.pipeline} {shown.name} of {shown.tenant}"
    due = f"the deadline {moment_text(shown.due_at, shown.now)}" if shown.due_at else "no deadline"
    if shown.outcome is Outcome.LATE:
        return f"{text} ended {short_text(shown.late_by)} after {due}"
    if shown.outcome is Outcome.MET:
        before = shown.due_at - shown.ended_at
        return f"{text} met {due}, {short_text(before)} before it" if shown.due_at else f"{text} completed"
    if shown.outcome:
        return f"{text} {'was' if shown.outcome is Outcome.CANCELLED else 'has'} {OUTCOMES[shown.outcome]}; {due}"
    if shown.ends is None:
        return f"{text} has a stage that ended without completion; {due}"
    left = shown.due_at - shown.now
    until = (
        f", in {short_text(left)}"
        if shown.due_at and left > 0
        else ", which has passed"
        if shown.due_at
        else ""
    )
    return f"{text} has {due}{until}, and is likely to end at {expected_text(shown.ends, shown.now)}"


def expected_text(expected: Expected, now: Instant) -> str:
    """An instant to be expected, with its band unless that has no width."""
    middle, low, high = (moment_text(at, now) for at in (expected.likely, expected.soon, expected.late))
    return middle if low == high else f"{middle} (between {low} and {high})"


def stage_table(stages: Sequence[ShownStage], now: Instant, width: int | None = None) -> list[str]:
    """Return the table of a pipeline's stages: STARTS and ENDS are past or forecast, BAND is that of the end."""
    has_workloads = any(stage.workload for stage in stages)
    columns = [name for name in COLUMNS if has_workloads or name not in ("WORKLOAD", "STATE")]
    rows = [
        [cell for name, cell in zip(COLUMNS, _cells(stage, now), strict=True) if name in columns]
        for stage in stages
    ]
    return columns_text(columns, rows, width, ("GPUS", "LAXITY"))


def _cells(stage: ShownStage, now: Instant) -> tuple[object, ...]:
    is_over, needs_start = stage.phase.is_terminal, stage.start_by and stage.phase in TO_START
    never_ran = is_over and stage.phase is not Phase.COMPLETED and stage.starts.likely == stage.ended_at
    laxity = stage.start_by - now
    soon, late = moment_text(stage.ends.soon, now), moment_text(stage.ends.late, now)
    return (
        f"{stage.name}{CRITICAL if stage.is_critical and not is_over else ''}",
        stage.workload,
        f"{stage.phase} ({stage.reason})" if stage.reason else stage.phase,
        gpus_text(stage.gpu_milli) if stage.gpu_milli else NONE,
        moment_text(stage.start_by, now) if stage.start_by else NONE,
        (short_text(laxity) if laxity >= 0 else f"-{short_text(-laxity)}") if needs_start else NONE,
        NONE if never_ran else moment_text(stage.starts.likely, now),
        moment_text(stage.ends.likely, now),
        NONE if is_over or soon == late else f"{soon}-{late}",
        ", ".join(stage.after) or NONE,
    )


def _change_lines(changes: Sequence[Change], now: Instant) -> list[str]:
    if not changes:
        return []
    return [
        "",
        "start deadlines moved:",
        *(
            f"{INDENT}{instant_text(one.at)}  {one.stage}: {_moved_text(one, now)}; {one.cause}"
            for one in changes
        ),
    ]


def _moved_text(change: Change, now: Instant) -> str:
    late = ", and it can no longer be in time" if change.is_late else ""
    moved = change.new - change.old
    if abs(moved) < SECOND:
        return f"still {moment_text(change.new, now)}{late or ', and it can be in time again'}"
    word = "later" if moved > 0 else "earlier"
    return f"{moment_text(change.new, now)}, {short_text(abs(moved))} {word}{late}"

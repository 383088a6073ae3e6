"""Pipelines in sentences: deadlines, outcomes, what a stage waits for, and why a start deadline moved."""

from collections.abc import Sequence

from core.messages.queue import StageTold
from core.nouns.pipeline import Cause, NoDeadline, Outcome
from mizzen.views.phrases.durations import short_text

CAUSES = {
    Cause.BOUND: "{by} runs",
    Cause.ENDED: "{by} completed",
    Cause.FAILED: "an attempt of {by} ended without completion",
    Cause.MOVED: "{by} moves to another region",
    Cause.CHANGED: "its user changed {by}",
    Cause.TIME: "run times and waits of other work, or the passing of time",
}
NO_DEADLINES = {
    NoDeadline.NONE: "",
    NoDeadline.INFEASIBLE: "it would be late even if nothing else ran",
    NoDeadline.OVER_BUDGET: "its tenant's budget of work under deadlines is spent",
}
OUTCOMES = {
    Outcome.NONE: "goes on",
    Outcome.MET: "met",
    Outcome.LATE: "late",
    Outcome.FAILED: "failed",
    Outcome.CANCELLED: "cancelled",
}


def outcome_text(outcome: Outcome, due_at: int) -> str:
    """The end of a pipeline in a word. A pipeline without a deadline has none to meet."""
    return "completed" if outcome is Outcome.MET and not due_at else OUTCOMES[outcome]


def runs_text(stages: Sequence[str]) -> str:
    """The stages that run: `prep runs`, or `a, b run`."""
    return f"{', '.join(stages)} {'runs' if len(stages) == 1 else 'run'}"


def cause_text(cause: Cause, by: str) -> str:
    """Why start deadlines moved; `by` is the stage that caused it."""
    return CAUSES[cause].format(by=by)


def waiting_text(stage: StageTold) -> str:
    """What a stage waits for: `waits for prep, which will take 40m more`; empty: for no stage and no window."""
    if stage.waits_for:
        last = max(stage.waits_for, key=lambda one: one.left)
        if last.left < 0:
            return f"waits for {', '.join(one.stage for one in stage.waits_for)}"
        others = [one.stage for one in stage.waits_for if one is not last]
        also = f", and for {', '.join(others)}" if others else ""
        return f"waits for {last.stage}, which will take {short_text(last.left)} more{also}"
    if stage.begins_in > 0:
        return f"may begin in {short_text(stage.begins_in)}"
    return ""


def place_text(stage: StageTold) -> str:
    """Of which pipeline a workload is a stage, and by when it must start."""
    text = f"the one stage of {stage.pipeline}"
    if stage.stage:
        text = f"stage {stage.stage} of {stage.pipeline} ({stage.name})"
    if stage.region:
        text += f", held to {stage.region} with its other stages"
    if stage.start_in is None:
        return text
    if stage.is_late:
        return f"{text}; it can no longer meet its deadline, and counts as work without one"
    if stage.start_in < 0:
        return f"{text}; it should have started {short_text(-stage.start_in)} ago to be sure of its deadline"
    return f"{text}; it must start within {short_text(stage.start_in)}"

"""What would come of a pipeline: its forecast, and for an infeasible deadline how to make it feasible."""

from core.messages.pipelines import PipelineTested
from core.nouns.instant import SECOND
from core.nouns.pipeline import NoDeadline
from mizzen.jobs.values import span_text
from mizzen.views.phrases.durations import moment_text, short_text
from mizzen.views.phrases.pipeline_text import NO_DEADLINES
from mizzen.views.pipelines.stages import expected_text, stage_table


def lines_of_test(tested: PipelineTested) -> list[str]:
    """For people."""
    now, ends = tested.now, tested.ends
    end = f"it is likely to end in {short_text(ends.likely - now)}, at {expected_text(ends, now)}"
    lines = [f"it would be accepted; {end}"]
    if tested.no_deadline is NoDeadline.INFEASIBLE:
        due = moment_text(tested.due_at, now)
        earliest = moment_text(tested.earliest + SECOND - 1, now)
        span = _rounded_up(tested.earliest - now)
        lines = [f"its deadline {due} cannot be met: {NO_DEADLINES[tested.no_deadline]}", end]
        lines.append(f"the earliest deadline that can be met is {earliest}, in {span}")
        lines.append(
            f"or {tested.shorten} would have to take {_rounded_up(tested.shorten_by)} less"
            if tested.shorten_by
            else f"to shorten one stage is not enough; {tested.shorten} takes longest"
        )
        lines.append(
            "with `on_late: accept` it is taken without a deadline"
            if tested.is_refused
            else "it would be accepted without a deadline"
        )
    elif tested.no_deadline:
        lines.append(f"it would have no deadline: {NO_DEADLINES[tested.no_deadline]}")
    elif tested.due_at:
        slack = tested.due_at - ends.likely
        word = f"{short_text(slack)} before" if slack >= 0 else f"{short_text(-slack)} after"
        lines.append(f"that is {word} its deadline {moment_text(tested.due_at, now)}")
    return [*lines, "", *stage_table(tested.stages, now)]


def _rounded_up(span: int) -> str:
    """A span that is typed into a job file afterwards: every unit of it, and no second too short."""
    return span_text(-(-span // SECOND) * SECOND)

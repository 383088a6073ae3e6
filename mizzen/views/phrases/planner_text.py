"""What the planner tells of one of its concerns, within a sentence."""

from core.messages.planning import ConcernShown
from mizzen.views.phrases.text import time_text

NO_PLANNER = "no planner answers: the fleet file starts one with `planner: true`"


def planner_text(planner: ConcernShown | None) -> str:
    """Return why nothing newer is planned; empty: the newest problem was solved.

    planner   None: no planner answers
    """
    if planner is None:
        return NO_PLANNER
    if not planner.has_solver:
        return "the planner has no solver: install Mizzen with the extra `planner` where it runs"
    if planner.failures:
        times = "once" if planner.failures == 1 else f"{planner.failures} times in a row"
        waits = planner.again_in < 0 or planner.is_solving
        again = "" if waits else f", and tries again in {time_text(planner.again_in)}"
        return f"the planner failed {times}{again}: {planner.why}"
    return "the planner is at work" if planner.is_solving else ""

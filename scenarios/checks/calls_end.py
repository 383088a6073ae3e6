"""Calls of functions end once for their callers, and those that may be begun once are not begun twice (docs/functions.md).

Seen by the callers, and by the executors where the world shows them (`scenarios/accounting/calls.py`).
"""

from scenarios.check import Check, Run

PROBLEMS_MAX = 5


class CallsEnd(Check, frozen=True):
    """Every call has one answer, unless its caller left; what is done was begun, and has the value of that call. No call that may be begun
    once is begun twice, and none of the others is lost.
    """

    async def at_end(self, run: Run) -> list[str]:
        """Return what callers and executors saw otherwise."""
        return run.calls.problems()[:PROBLEMS_MAX]

"""Stages of pipelines run in turn and in one region, and each pipeline ends once, as its stages did.

Seen in the queue's log alone (`scenarios/accounting/pipelines.py`).
"""

from scenarios.check import Check, Run

PROBLEMS_MAX = 5


class Pipelines(Check, frozen=True):
    """No stage is awarded before those that it waits for have completed. Stages after one that failed or was cancelled are cancelled. Stages
    that run together run in one region, unless that was given up. Every pipeline ends once: met or late by the end of its last stage.
    """

    async def at_end(self, run: Run) -> list[str]:
        """Return what the log says otherwise, and the pipelines that have not ended."""
        kept = run.witness.pipelines
        left = [f"{name} has not ended" for name in kept.open()]
        return [*kept.wrong[:PROBLEMS_MAX], *left[:PROBLEMS_MAX]]

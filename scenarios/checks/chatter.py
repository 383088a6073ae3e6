"""Nobody talks in circles: what is said again is said again after a while, not as fast as the bus can carry it.

Two that answer each other without end break no invariant and keep nothing from ending; they only fill a bus of thousands of
machines. Of a thousand scenarios of the swarm the most talkative said 60 messages for each fact; two in a circle say
thousands a second.
"""

from typing import ClassVar

from scenarios.check import Check
from scenarios.run import Run

MESSAGES_MIN = 10_000
"""Below which nothing is concluded."""
MESSAGES_PER_FACT_MAX = 60


class Chatter(Check, frozen=True):
    """All messages of the run but heads and beats, beside all facts."""

    sees_through: ClassVar[bool] = True

    async def at_end(self, run: Run) -> list[str]:
        """That there were too many."""
        said, facts = run.world.messages(), sum(run.witness.facts.values())
        if said <= MESSAGES_MIN + MESSAGES_PER_FACT_MAX * facts:
            return []
        return [f"{said} messages were said for {facts} facts: somebody talks in circles"]

"""Nobody talks in circles: what is said again is said again after a while, not as fast as the bus can carry it.

Two that answer each other without end break no invariant and keep nothing from ending; they only fill a bus of thousands of
machines. Of a thousand scenarios of the swarm the most talkative said 60 messages for each fact; two in a circle say
thousands a second.
"""

from collections import Counter
from typing import ClassVar

from core.messages.base import Message
from core.messages.workers import StopTasks, WorkerReport
from scenarios.check import Check
from scenarios.run import Run

MESSAGES_MIN = 10_000
"""Below which nothing is concluded."""
MESSAGES_PER_FACT_MAX = 60
SAID_OF_ATTEMPT_MAX = 500
"""Orders to stop, and reports, of one attempt. Said again every five seconds, it would take an hour to come to that."""


class Chatter(Check, frozen=True):
    """All messages of the run but heads and beats, beside all facts."""

    sees_through: ClassVar[bool] = True

    def begin(self, run: Run) -> None:
        """Count what brokers and workers say to each other of each attempt."""
        said: Counter[tuple[str, str, int]] = Counter()
        found = run.outcome.problems

        def overhear(_: str, message: Message) -> None:
            what = message.tasks if isinstance(message, WorkerReport) else message
            assert not isinstance(what, Message) or isinstance(what, StopTasks), message
            key = (type(message).__name__, what.workload, what.epoch)
            said[key] += 1
            if said[key] == SAID_OF_ATTEMPT_MAX:
                found.append(
                    f"{key[0]} was said {said[key]} times of {key[1]}.{key[2]}: somebody talks in circles"
                )

        run.world.overhear((StopTasks, WorkerReport), overhear)

    async def at_end(self, run: Run) -> list[str]:
        """That there were too many."""
        said, facts = run.world.messages(), sum(run.witness.facts.values())
        if said <= MESSAGES_MIN + MESSAGES_PER_FACT_MAX * facts:
            return []
        return [f"{said} messages were said for {facts} facts: somebody talks in circles"]

"""Nobody talks in circles: what is said again is said again after a while, not as fast as the bus can carry it.

Two that answer each other without end break no invariant and keep nothing from ending; they only fill a bus of thousands of
machines. Of a thousand scenarios of the swarm the most talkative said 60 messages for each fact; two in a circle say
thousands a second.
"""

from collections import Counter
from typing import ClassVar

from core.messages.base import Message
from core.messages.functions import ServerReport
from core.messages.workers import StopTasks, WorkerReport
from core.nouns.ids import ShareKey
from scenarios.check import Check, Run

MESSAGES_MIN = 10_000
"""Below which nothing is concluded."""
MESSAGES_PER_FACT_MAX = 60
MESSAGES_PER_SHARE_MAX = 30
"""One fact tells of all tasks of a service at once, each of which is prepared, started, reported and stopped by itself."""
SAID_OF_SHARE_MAX = 500
"""Orders to stop, and reports, of one share: of what a worker has of a gang, or of one run of a task that stands alone. Said again every five seconds, it would take an hour to come to that."""

MESSAGES_PER_CALL_MAX = 15
"""Of a function: to a router, a server and back, each said again when messages are lost or processes die."""
REPORTS_PER_SECOND_MAX = 2
"""Of one function server to one router, beside those at changes: twice as many as while nothing happens."""


class Chatter(Check, frozen=True):
    """All messages of the run but heads and beats, beside all facts."""

    sees_through: ClassVar[bool] = True

    def begin(self, run: Run) -> None:
        """Count what brokers and workers say to each other of each share."""
        said: Counter[tuple[str, ShareKey]] = Counter()
        found = run.outcome.problems

        def overhear(_: str, message: Message) -> None:
            what = message.tasks if isinstance(message, WorkerReport) else message
            assert not isinstance(what, Message) or isinstance(what, StopTasks), message
            key = (type(message).__name__, what.key)
            said[key] += 1
            run.shares.add(what.key)
            if said[key] == SAID_OF_SHARE_MAX:
                found.append(
                    f"{key[0]} was said {said[key]} times of {what.workload}.{what.epoch}: somebody talks in circles"
                )

        run.world.overhear((StopTasks, WorkerReport), overhear)
        reports: Counter[tuple[str, str, str]] = Counter()
        begun = run.world.now()

        def overhear_report(_: str, message: Message) -> None:
            assert isinstance(message, ServerReport), message
            key = (message.region, message.server, message.router)
            reports[key] += 1
            seconds, calls = run.world.now() - begun, len(run.calls.rows)
            most = MESSAGES_MIN + REPORTS_PER_SECOND_MAX * seconds + MESSAGES_PER_CALL_MAX * calls
            if reports[key] == int(most) + 1:
                found.append(f"{key[1]} reported {reports[key]} times to {key[2]}: somebody talks in circles")

        run.world.overhear((ServerReport,), overhear_report)

    async def at_end(self, run: Run) -> list[str]:
        """That there were too many."""
        said, facts = run.world.messages(), sum(run.witness.facts.values())
        wanted = MESSAGES_PER_FACT_MAX * facts + MESSAGES_PER_SHARE_MAX * len(run.shares)
        wanted += MESSAGES_PER_CALL_MAX * len(run.calls.rows)
        if said <= MESSAGES_MIN + wanted:
            return []
        return [f"{said} messages were said for {facts} facts: somebody talks in circles"]

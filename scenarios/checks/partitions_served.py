"""No partition stays behind at an agent that is asked again and again.

An agent that takes in rows alone takes in each partition once in `sync_every`, as its requests come. A partition that it never
took in again would be searched by old rows, and hide what came free there: neither breaks an invariant.
"""

from typing import ClassVar

from msgspec import Struct

from core.events.agents import AgentsSet
from core.fact import Fact
from core.messages.agents import AgentPresent
from core.messages.base import Message
from core.nouns.agents import DEFAULT_SYNC_EVERY, AgentView
from core.nouns.ids import AgentName, LogName, RegionName, region_log
from core.nouns.instant import MILLISECOND, SECOND
from scenarios.check import Check, Run

SLACK_SECONDS = 10.0
"""For messages on their way."""
REQUESTS_MIN = 2
"""Of an agent, once a partition was behind for that long: the first may be of a round long past."""
PROBLEMS_MAX = 3


class _Behind(Struct):
    """An agent that has a partition far behind its newest one."""

    since: float
    """In seconds of the world's clock."""
    requests: int
    """That it had decided before the partition was behind for longer than it may be."""


class PartitionsServed(Check, frozen=True):
    """The ages of partitions that agents tell with their beats."""

    sees_through: ClassVar[bool] = True

    def begin(self, run: Run) -> None:
        """Look at each beat."""
        cycles: dict[LogName, float] = {}
        behind: dict[tuple[RegionName, AgentName], _Behind] = {}
        found = run.outcome.problems
        mine = [0]

        def take(fact: Fact) -> None:
            if isinstance(fact.event, AgentsSet):
                # The longest so far: a shorter one holds once everything was taken in by it.
                cycle = fact.event.settings.sync_every / SECOND
                cycles[fact.log] = max(cycle, cycles.get(fact.log, 0.0))

        def overhear(_: str, message: Message) -> None:
            assert isinstance(message, AgentPresent), message
            told, key = message.figures, (message.region, message.agent)
            cycle = cycles.get(region_log(message.region), DEFAULT_SYNC_EVERY / SECOND)
            bound = 2 * cycle + SLACK_SECONDS
            spread = (told.oldest_ms - told.freshest_ms) * MILLISECOND / SECOND
            known = behind.get(key)
            if (
                told.view != AgentView.PARSYNC
                or spread <= bound
                or (known and told.requests < known.requests)
            ):
                behind.pop(key, None)
            elif known is None:
                behind[key] = _Behind(run.world.now(), told.requests)
            elif run.world.now() - known.since <= bound:
                known.requests = told.requests
            elif told.requests >= known.requests + REQUESTS_MIN:
                del behind[key]
                mine[0] += 1
                if mine[0] <= PROBLEMS_MAX:
                    found.append(
                        f"{message.region}: a partition of {message.agent} is {spread:.0f} s older than its newest one, "
                        f"though {told.requests - known.requests} requests came since that was more than {bound:.0f} s"
                    )

        run.witness.watchers.append(take)
        run.world.overhear((AgentPresent,), overhear)

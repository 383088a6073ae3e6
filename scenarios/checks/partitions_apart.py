"""No two agents own one partition in one round, and no partition is without an owner.

Brokers tell each agent its turn with each request; from turns follow the partitions. Two owners would choose the same nodes again
and again, and a partition without an owner would be nobody's first choice: neither breaks an invariant.
"""

from typing import ClassVar

from core.messages.agents import FindBid, PlaceAward
from core.messages.base import Message
from core.nouns.agents import DEFAULT_PARTITIONS, Turn
from core.nouns.ids import AgentName, RegionName
from core.placing.partitions import owned_by
from scenarios.check import Check, Run

ROUNDS_KEPT_MAX = 1_000
"""Rounds of which owners are remembered."""
PROBLEMS_MAX = 3


class PartitionsApart(Check, frozen=True):
    """All requests to agents that take in rows alone."""

    sees_through: ClassVar[bool] = True

    def begin(self, run: Run) -> None:
        """Look at the turn of each request."""
        owners: dict[tuple[RegionName, int, int], dict[int, AgentName]] = {}
        found = run.outcome.problems
        mine = [0]

        def overhear(_: str, message: Message) -> None:
            assert isinstance(message, FindBid | PlaceAward), message
            turn = message.turn
            if turn.is_full or mine[0] >= PROBLEMS_MAX:
                return
            key = (message.region, turn.agents, turn.round)
            if key not in owners:
                problems = _problems_of(turn)
                found.extend(f"{message.region}, {problem}" for problem in problems)
                mine[0] += len(problems)
            known = owners.setdefault(key, {})
            for partition in owned_by(turn, DEFAULT_PARTITIONS):
                other = known.setdefault(partition, message.agent)
                if other != message.agent and turn.agents <= DEFAULT_PARTITIONS:
                    mine[0] += 1
                    found.append(
                        f"{message.region}, round {turn.round}: {other} and {message.agent} own partition {partition}"
                    )
                    return
            while len(owners) > ROUNDS_KEPT_MAX:
                del owners[next(iter(owners))]

        run.world.overhear((FindBid, PlaceAward), overhear)


def _problems_of(turn: Turn) -> list[str]:
    """Return whether a round leaves partitions without an owner."""
    owned = {
        partition
        for index in range(turn.agents)
        for partition in owned_by(Turn(index, turn.agents, turn.round, is_full=False), DEFAULT_PARTITIONS)
    }
    missing = sorted(set(range(DEFAULT_PARTITIONS)) - owned)
    return [f"round {turn.round}: nobody owns partition {missing[0]}"] if missing else []

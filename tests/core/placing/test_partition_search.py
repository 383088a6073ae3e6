"""Which of several partitions that its strategy puts first an agent takes."""

# rows: S6, S9

import numpy as np
import pytest

from core.nouns.agents import Turn
from core.placing.partition_search import Knowledge
from core.placing.partitions import owned_by
from core.placing.pick.nodes import Choice
from core.placing.strategies.latency_first import latency_first
from core.placing.strategies.strategy import Flags, Numbers

PARTITIONS = 16
ALL = np.ones(PARTITIONS, dtype=bool)
FULL_ONES = np.zeros(PARTITIONS, dtype=np.int64)


def knowledge(turn: Turn) -> Knowledge:
    """All partitions are as fresh as each other."""
    owned = owned_by(turn, PARTITIONS)
    return Knowledge(np.zeros(PARTITIONS, dtype=np.int64), owned, latency_first, round=turn.round)


def gone_through(one: Knowledge, opens: Numbers = FULL_ONES) -> list[int]:
    """The order in which an agent comes to its own partitions, if each is full after one task."""
    left, order = np.isin(np.arange(PARTITIONS), list(one.owned)), list[int]()
    while left.any():
        order.append(one.one_of(left, opens, Choice("any")))
        left[order[-1]] = False
    return order


@pytest.mark.parametrize("agents", [1, 2, 3, 4, 5, 8, 16, 20])
def test_owner_begins_where_the_owner_before_ended(agents: int) -> None:
    """Its claims that are still on their way when the round ends are elsewhere, in whichever round."""
    for number in range(2 * PARTITIONS):
        before = gone_through(knowledge(Turn(0, agents, number)))
        # The agent whose partitions those are in the next round.
        heir = gone_through(knowledge(Turn((0 - 1) % min(agents, PARTITIONS), agents, number + 1)))
        assert set(before) == set(heir) == set(owned_by(Turn(0, agents, number), PARTITIONS))
        assert heir[0] == before[-1]
        assert heir[1:] == before[:-1]


def test_own_partition_without_breaking_into_an_empty_node_comes_first() -> None:
    """Whatever the round: large gangs need empty nodes."""
    opens = FULL_ONES.copy()
    opens[[0, 4, 12]] = 1
    for number in range(0, 32, 4):
        assert 8 == gone_through(knowledge(Turn(0, 4, number)), opens)[0]


@pytest.mark.parametrize("strategy_says", [[3], [3, 7]])
def test_strategy_comes_before_the_round(strategy_says: list[int]) -> None:
    """An agent takes one of those that its strategy put first, its own or not."""
    first: Flags = np.zeros(PARTITIONS, dtype=bool)
    first[strategy_says] = True
    taken = {
        knowledge(Turn(0, 4, number)).one_of(first, FULL_ONES, Choice(f"w-{number}")) for number in range(40)
    }
    assert taken == set(strategy_says)


def test_agent_that_owns_nothing_before_others_draws() -> None:
    """With `statesync` all partitions are as good as each other: one is drawn."""
    one = Knowledge(np.zeros(PARTITIONS, dtype=np.int64), range(PARTITIONS), latency_first)
    assert set(range(PARTITIONS)) == {
        one.one_of(ALL, FULL_ONES, Choice(f"w-{number}")) for number in range(400)
    }

"""Partitions: how racks are dealt, who owns which in a round, and that no two agents own one."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.nouns.agents import AgentSettings, AgentView, Rotation, Turn
from core.nouns.fleet import NodeGroup
from core.nouns.ids import AgentName
from core.nouns.instant import MILLISECOND, Instant, Nanoseconds, seconds
from core.nouns.quantities import Amount
from core.placing.index.layout import NO_NODE, Layout
from core.placing.partitions import (
    NO_PARTITION,
    Partitions,
    full_of,
    is_newer,
    owned_by,
    round_span,
    turn_of,
)
from tests.core.properties import PROPERTY

NODE = Amount(8_000, 64_000, 512 << 30)
PARSYNC = AgentSettings(view=AgentView.PARSYNC)
TYPES = ("A100", "H100", "V100")


def groups_of(racks: list[tuple[int, int]], per_rack: int) -> list[NodeGroup]:
    """So many racks of a type in a zone, by the numbers of type and zone, one after the other."""
    found, node, rack = [], 0, 0
    for number, (kind, count) in enumerate(racks):
        zone = f"zone-{number % 3}"
        found.append(NodeGroup(node, count * per_rack, NODE, TYPES[kind], rack, per_rack, zone=zone))
        node, rack = node + count * per_rack, rack + count
    return found


# How racks are dealt.


@PROPERTY
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 40)), min_size=1, max_size=6),
    st.integers(1, 5),
    st.integers(1, 80),
)
def test_each_type_is_dealt_evenly(racks: list[tuple[int, int]], per_rack: int, wanted: int) -> None:
    """S1, S16: of each node type, and of all racks, two partitions differ by a rack at most; every node is in one of them."""
    layout = Layout(groups_of(racks, per_rack))
    partitions = Partitions({"training": layout}, wanted)
    total = sum(count for _, count in racks)
    assert min(wanted, total) == partitions.count
    by_type: dict[str, Counter[int]] = {}
    for slot in np.flatnonzero(layout.node != NO_NODE).tolist():
        kind = layout.clusters[layout.cluster_of_pod[slot // layout.pod_slots]].node_type
        partition = partitions.of(int(layout.node[slot]))
        assert partition == partitions.of_row["training"][slot // layout.rack_slots] != NO_PARTITION
        by_type.setdefault(kind, Counter())[partition] += 1
    for counts in (*by_type.values(), sum(by_type.values(), Counter())):
        each = [counts[partition] for partition in range(partitions.count)]
        assert max(each) - min(each) <= per_rack, each


def test_counts_are_within_two_percent_where_racks_are_many() -> None:
    """S1: 10,240 nodes in four zones: of each type every partition has as many racks as any other."""
    groups = groups_of([(0, 320), (1, 320)] * 2, 16)
    partitions = Partitions({"training": Layout(groups)}, 64)
    counts = Counter(partitions.of_node.tolist())
    assert {len(partitions.of_node) // 64} == set(counts.values())


def test_dealing_in_blocks_gives_neighbours_to_one_partition() -> None:
    """The ablation: a partition is a run of racks, and so mostly of one type."""
    layout = Layout(groups_of([(0, 8), (1, 8)], 2))
    blocks = Partitions({"training": layout}, 4, in_blocks=True)
    assert [0] * 8 + [1] * 8 + [2] * 8 + [3] * 8 == blocks.of_node.tolist()


def test_racks_of_all_pools_are_dealt_together() -> None:
    """One partition has racks of each pool, and there are no more partitions than racks."""
    one, other = groups_of([(0, 3)], 2), groups_of([(1, 2)], 2)
    shifted = [
        replace(group, first=group.first + 6, rack_first=group.rack_first + 3, pool="service")
        for group in other
    ]
    partitions = Partitions({"service": Layout(shifted), "training": Layout(one)}, 64)
    assert 5 == partitions.count
    assert sorted([0, 0, 1, 1, 2, 2, 3, 3, 4, 4]) == sorted(partitions.of_node.tolist())
    assert NO_PARTITION == partitions.of(10) == partitions.of(-1)


def test_region_without_nodes_has_one_partition() -> None:
    """A number of partitions of which something can be the remainder."""
    assert 1 == Partitions({}, 64).count


# Who owns which.


@PROPERTY
@given(st.integers(1, 200), st.integers(1, 64), st.integers(0, 10**15))
def test_owned_sets_are_disjoint_and_together_all(partitions: int, agents: int, number: int) -> None:
    """S2: for every N, P and r; with more agents than partitions, each of them owns one, and none is left out."""
    owned = [set(owned_by(Turn(agent, agents, number), partitions)) for agent in range(agents)]
    assert set(range(partitions)) == set().union(*owned)
    if agents <= partitions:
        assert partitions == sum(map(len, owned))
        assert all(p % agents == (i + number) % agents for i, mine in enumerate(owned) for p in mine)
    else:
        assert [{(i + number) % partitions} for i in range(agents)] == owned


@PROPERTY
@given(st.integers(1, 64), st.integers(1, 64), st.integers(0, 10**9))
def test_every_agent_owns_every_partition_once_in_a_cycle(partitions: int, agents: int, number: int) -> None:
    """S12: after N rounds, so within `sync_every`, an agent has owned all of them: what is freed is seen by each, and by one at once."""
    seen: Counter[int] = Counter()
    for round_ in range(number, number + agents):
        seen.update(owned_by(Turn(agents // 2, agents, round_), partitions))
    assert set(range(partitions)) == set(seen)
    if agents <= partitions:
        assert {1} == set(seen.values())


def test_same_rotation_gives_all_agents_the_same() -> None:
    """S4: the ablation leaves the agent out of the rule."""
    for number in range(8):
        mine = {tuple(owned_by(Turn(agent, 4, number), 16, Rotation.SAME)) for agent in range(4)}
        assert 1 == len(mine)


@pytest.mark.parametrize(("partitions", "agents"), [(64, 14), (64, 3), (7, 7)])
def test_partition_of_a_dead_agent_goes_to_the_next(partitions: int, agents: int) -> None:
    """S10: while nobody knows of the death, a partition is without an owner for one round, a part of `sync_every`; never for two."""
    dead = 1
    for partition in range(partitions):
        unserved = [
            number
            for number in range(3 * agents)
            if partition in owned_by(Turn(dead, agents, number), partitions)
        ]
        assert all(later - earlier > 1 for earlier, later in pairwise(unserved))
    span = round_span(PARSYNC, agents, is_full=False)
    assert span <= PARSYNC.sync_every


# Turns.


def names(count: int) -> list[AgentName]:
    """Agents that are present."""
    return [AgentName(f"a{number}") for number in range(count)]


def test_turns_of_a_round() -> None:
    """S11: the first `full` by name fold every fact; the others are numbered from 0, and a round lasts a part of `sync_every`."""
    now = Instant(seconds(100))
    agents = names(6)
    turns = [turn_of(PARSYNC, agents, agent, now) for agent in agents]
    assert [True, True, False, False, False, False] == [turn.is_full for turn in turns]
    assert [0, 1, 2, 3] == [turn.index for turn in turns[2:]]
    assert {(4, 100 * 8)} == {(turn.agents, turn.round) for turn in turns[2:]}
    assert Nanoseconds(125 * MILLISECOND) == round_span(PARSYNC, 4, is_full=False)


def test_all_are_full_where_facts_are_streamed() -> None:
    """As they are where there are no more agents than full ones."""
    agents = names(3)
    assert agents == list(full_of(AgentSettings(), agents))
    assert agents[:2] == list(full_of(PARSYNC, agents))
    assert agents[:1] == list(full_of(PARSYNC, agents[:1]))
    assert {True} == {turn_of(AgentSettings(), agents, agent, Instant(0)).is_full for agent in agents}


def test_turn_is_newer_by_time_whatever_the_number_of_agents() -> None:
    """S11: rounds of eight agents are half as long as rounds of four, so the numbers alone say nothing."""
    assert is_newer(Turn(0, 4, 101), Turn(0, 4, 100))
    assert not is_newer(Turn(0, 4, 100), Turn(0, 4, 100))
    assert not is_newer(Turn(0, 8, 150), Turn(0, 4, 100))
    assert is_newer(Turn(0, 4, 80), Turn(0, 8, 150))

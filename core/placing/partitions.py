"""Partitions of a region: sets of racks, which agents own in turn, so that no two agents own one partition at the same time.

Racks are dealt in turn: node type after node type, and the racks of a type in the order of the layouts, cluster after cluster. The
numbers of racks of one type in two partitions therefore differ by one at most, and so do the numbers of all racks. Dealing depends
on the nodes and on the number of partitions alone: agents that come or go change who owns a partition, and deal nothing anew.

In round r, agent i of N owns each partition p of P with p mod N = (i + r) mod N; if N > P, partition (i + r) mod P alone. For every
N ≤ P the owned sets of two agents are disjoint, and together they are all partitions.

source    ParSync (ATC'21), spec/protean-parsync.md §2.4; P ≥ N is enough
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from core.nouns.agents import AgentSettings, Rotation, Turn
from core.nouns.ids import AgentName
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.limits import STRIPE_SPAN
from core.placing.index.layout import NO_NODE, Layout

NO_PARTITION = -1


class Partitions:
    """The partition of each rack of a region's pools.

    count      partitions: as many as wanted, or as there are racks
    of_row     by pool: (rows,) the partition of each row of slots (core/placing/index/layout.py), NO_PARTITION for padding
    of_node    (node numbers,) the same by node
    """

    def __init__(self, layouts: Mapping[str, Layout], wanted: int, *, in_blocks: bool = False) -> None:
        """in_blocks   deal runs of neighbouring racks instead: the ablation of spec/protean-parsync.md §5.3"""
        units = sorted(unit for name in sorted(layouts) for unit in _units_of(name, layouts[name]))
        self.count = max(1, min(wanted, len(units)))
        self.of_row: dict[str, NDArray[np.int16]] = {
            name: np.full(layout.slots // layout.rack_slots, NO_PARTITION, dtype=np.int16)
            for name, layout in layouts.items()
        }
        numbers = dealt(len(units), self.count, in_blocks=in_blocks).tolist()
        for partition, (_, name, first, last) in zip(numbers, units, strict=True):
            self.of_row[name][first:last] = partition
        nodes = max((len(layout.slot_of) for layout in layouts.values()), default=0)
        self.of_node = np.full(nodes, NO_PARTITION, dtype=np.int16)
        for name, layout in layouts.items():
            there = np.flatnonzero(layout.node != NO_NODE)
            self.of_node[layout.node[there]] = self.of_row[name][there // layout.rack_slots]
        self._of_node: list[int] = self.of_node.tolist()

    def of(self, node: int) -> int:
        """Return the partition of a node; NO_PARTITION if no pool has the node."""
        return self._of_node[node] if 0 <= node < len(self._of_node) else NO_PARTITION


def dealt(units: int, partitions: int, *, in_blocks: bool = False) -> NDArray[np.int64]:
    """Return (units,) the partition of each of the racks, in order: in turn, or as runs of neighbours."""
    positions = np.arange(units, dtype=np.int64)
    return positions * partitions // max(1, units) if in_blocks else positions % partitions


def _units_of(name: str, layout: Layout) -> list[tuple[str, str, int, int]]:
    """Return the racks of a pool, each within one cluster: the node type, the pool, the first row, and the row after the last."""
    by_row = layout.rack.reshape(-1, layout.rack_slots).max(axis=1, initial=NO_NODE)
    rows_per_pod = layout.pod_slots // layout.rack_slots
    found: list[tuple[str, str, int, int]] = []
    before: tuple[int, int] | None = None
    for row, rack in enumerate(by_row.tolist()):
        cluster = int(layout.cluster_of_pod[row // rows_per_pod])
        if rack == NO_NODE:
            continue
        if before == (cluster, rack) and found[-1][3] == row:
            found[-1] = (*found[-1][:3], row + 1)
        else:
            found.append((layout.clusters[cluster].node_type, name, row, row + 1))
        before = (cluster, rack)
    return found


def owned_by(turn: Turn, partitions: int, rotation: str = Rotation.DIFFERENT) -> range:
    """Return the partitions that an agent owns in a round, ascending."""
    first, step = offset_of(turn, partitions, rotation)
    return range(first, partitions, step)


def offset_of(turn: Turn, partitions: int, rotation: str = Rotation.DIFFERENT) -> tuple[int, int]:
    """Return the first partition that an agent owns in a round, and the distance to the next one."""
    step = max(1, min(turn.agents, partitions))
    return (turn.round + (turn.index if rotation == Rotation.DIFFERENT else 0)) % step, step


def round_span(settings: AgentSettings, agents: int, *, is_full: bool) -> Nanoseconds:
    """Return how long a round of so many agents lasts.

    Agents that fold every fact see all partitions alike: a round only says which they look at first.
    """
    if is_full:
        return STRIPE_SPAN
    return Nanoseconds(max(1, settings.sync_every // max(1, agents)))


def turn_of(settings: AgentSettings, agents: Sequence[AgentName], agent: AgentName, now: Instant) -> Turn:
    """Return the turn of one of the agents that are present, which are given by number, ascending."""
    full = full_of(settings, agents)
    position = agents.index(agent)
    is_full = position < len(full)
    index, count = (position, len(full)) if is_full else (position - len(full), len(agents) - len(full))
    return Turn(index, count, now // round_span(settings, count, is_full=is_full), is_full)


def full_of(settings: AgentSettings, agents: Sequence[AgentName]) -> Sequence[AgentName]:
    """Return the agents, of those that are present, that fold every fact."""
    return agents[: settings.full] if settings.has_rows_alone else agents


def is_newer(turn: Turn, known: Turn) -> bool:
    """Return whether a turn is later than a known one, also if the number of agents changed between the two."""
    return turn.round * known.agents > known.round * turn.agents


def rounds_between(known: Turn, turn: Turn) -> int:
    """Return the rounds from a known turn to a later one, in rounds of the later one; at least 1.

    The number of agents may have changed between the two: rounds then last another span.
    """
    return max(1, (turn.round * known.agents - known.round * turn.agents) // known.agents)

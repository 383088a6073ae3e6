"""A region as an agent with partitions believes it: node rows, taken in partition by partition.

The agent folds no holdings. It hears of every row that changed, but holds the rows back until it takes their partition in: then a
node's last row counts. While it owns a partition, it takes rows in as they are told. So all that the agent believes of one partition
is the region as it was at one sequence of the log, and a search of the partition can be repeated from there. What rows do not tell
(joins, pools, prices, planned work, settings) is folded at once, and makes the agent take in everything before it searches again: no
partition is older than the rules by which it is searched.

source    ParSync (ATC'21), spec/protean-parsync.md §2.4
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from core.events.agents import AgentsSet
from core.events.pools import NodesPooled
from core.events.region import NodesJoined
from core.fact import Event, Fact
from core.images import RegionImage
from core.images.agents import Agents
from core.images.base import Section
from core.images.capacity import Capacity
from core.images.devices import SharedNode
from core.images.maintenance import Maintenance
from core.images.pools import Pools
from core.images.prices import PriceList
from core.images.reservations import Starts
from core.nouns.agents import AgentView, Turn
from core.nouns.instant import Instant, after
from core.nouns.quantities import MILLI
from core.placing.index.kept import Kept
from core.placing.index.layout import layouts_of
from core.placing.index.owners import Owners
from core.placing.partitions import (
    NO_PARTITION,
    Partitions,
    is_newer,
    offset_of,
    owned_by,
    rounds_between,
)
from core.rows import Row, row_of

FOLDED: dict[str, type[Section]] = {
    "agents": Agents,
    "maintenance": Maintenance,
    "pools": Pools,
    "prices": PriceList,
}
"""Sections that the agent folds."""
WANTED: frozenset[type[Event]] = frozenset(
    {NodesJoined, NodesPooled, *(event for section in FOLDED.values() for event in section.FOLDS)}
)
"""The facts that the agent folds: of all others it takes in the rows."""


def reduced(image: RegionImage) -> RegionImage:
    """Return an image with the rows of all nodes, and without what rows do not tell: holdings, promises and reservations.

    Sections that the agent folds are the same objects; the image must have those of core/placing/placer.py.
    """
    capacity = Capacity()
    for name, worker in image.capacity.workers.items():
        capacity.add_nodes(name, worker.inventory, worker.sequence)
    kept = Kept(image.starts, Owners.of(image.capacity))
    for node in range(len(image.capacity.node_type)):
        if image.capacity.has_node(node):
            put_row(capacity, row_of(image.capacity, node, kept))
    sections = {**image.sections, "capacity": capacity, "starts": Starts()}
    return RegionImage(sections)


def put_row(capacity: Capacity, row: Row) -> Row:
    """Set what a reduced image knows of a node; return the row as a search is to see it: a kept node takes no tasks."""
    node, gpu, cpu, memory, is_open, shared, kept = row
    is_open = 1 if is_open and not kept else 0
    capacity.gpu.free[node], capacity.cpu.free[node], capacity.memory.free[node] = gpu, cpu, memory
    capacity.closed[node] = 0 if is_open else 1
    if shared:
        capacity.devices.by_node[node] = _devices_with(shared)
    else:
        capacity.devices.by_node.pop(node, None)
    return node, gpu, cpu, memory, is_open, shared, 0


def _devices_with(free_milli: int) -> SharedNode:
    """Return shared devices with so much free in all: only the sum matters to tasks of whole devices."""
    most = MILLI - 1
    parts = [most] * (free_milli // most) + ([free_milli % most] if free_milli % most else [])
    return SharedNode({number: MILLI - part for number, part in enumerate(parts)})


class Believed:
    """The rows that an agent has taken in, and those that it holds back."""

    def __init__(self, image: RegionImage, sequence: int, at: Instant) -> None:
        """image   reduced, of the region at a sequence of its log: everything is taken in"""
        self.image = image
        self.sequence = sequence
        """Of the region's log: rows up to there were told."""
        self.turn: Turn | None = None
        """The newest turn in which partitions were taken in; None: none by the present settings."""
        self.turn_at = at
        """When the agent heard of that turn first, by its own clock."""
        self.is_stale = False
        """Whether a fact that was folded makes the rows that are held back wanted at once."""
        self._folded = RegionImage({name: image.sections[name] for name in FOLDED})
        self._takes = 0
        self._owned = range(0)
        self._deal(at)

    def _deal(self, at: Instant) -> None:
        """Deal the racks into partitions, all of which are as old as the newest rows: nothing is held back."""
        wanted = self.image.agents.settings.partitions
        self.partitions = Partitions(layouts_of(self.image.capacity), wanted)
        count = self.partitions.count
        self._told: list[dict[int, Row]] = [{} for _ in range(count)]
        self.taken: list[int] = [self.sequence] * count
        """By partition, the sequence at which its rows hold."""
        self.taken_at: list[Instant] = [at] * count
        self.fresh: NDArray[np.int64] = np.full(count, self._takes, dtype=np.int64)
        """(partitions,) Grows with each taking in."""

    # Hearing.

    def fold(self, fact: Fact) -> None:
        """Fold one of the facts in `WANTED`."""
        if isinstance(fact.event, NodesJoined):
            self.image.capacity.add_nodes(fact.event.worker, fact.event.inventory, fact.sequence)
        elif isinstance(fact.event, NodesPooled):
            self.image.capacity.pool(fact.event.nodes, fact.event.pool, fact.sequence)
        else:
            self._folded.fold(fact)
        if isinstance(fact.event, AgentsSet):
            # Rounds of other settings may be of another length: their numbers cannot be compared.
            self.turn = None
        self.is_stale = True

    def tell(self, sequence: int, rows: Iterable[Row], at: Instant) -> list[Row]:
        """Hold back the rows of a batch that ends at this sequence; take in those of owned partitions, and return them.

        Nodes that joined are in no partition yet: everything is taken in before the next search.
        """
        told, partition_of, owned = self._told, self.partitions.of, self._owned
        taken: list[Row] = []
        for row in rows:
            partition = max(0, partition_of(row[0]))
            if partition in owned and not self.is_stale:
                taken.append(put_row(self.image.capacity, row))
            else:
                told[partition][row[0]] = row
        self.sequence = sequence
        if not self.is_stale:
            for partition in owned:
                self.taken[partition], self.taken_at[partition] = sequence, at
        return taken

    def sequence_of(self, node: int) -> int:
        """Return the sequence at which the taken rows of a node hold; -1 for a node that is not dealt yet."""
        partition = self.partitions.of(node)
        return self.taken[partition] if partition != NO_PARTITION else -1

    # Taking in.

    def due(self, turn: Turn, at: Instant) -> Sequence[int] | None:
        """Return the partitions to take in before a search of this turn; None: the search may begin.

        Those are the partitions that the agent owns, and those of the rounds since its last request: so at a search no partition is
        older than `sync_every`, however seldom the agent is asked.
        """
        every = range(self.partitions.count)
        if self.is_stale:
            return every
        known, settings = self.turn, self.image.agents.settings
        if not self._is_news(turn, at):
            return None  # The same round, one long past, or of another number of agents: the newest known is as good.
        if known is not None and at >= after(self.turn_at, settings.sync_every):
            return every
        if settings.view == AgentView.STATESYNC:
            has_begun = known is None or turn.round // turn.agents != known.round // known.agents
            return every if has_begun else None
        count = self.partitions.count
        first, step = offset_of(turn, count, settings.rotation)
        rounds = step if known is None else rounds_between(known, turn)
        return [partition for partition in every if (first - partition) % step < rounds]

    def take_in(self, partitions: Iterable[int], turn: Turn | None, at: Instant) -> list[Row]:
        """Take rows in; return them as searches are to see them."""
        rows: list[Row] = []
        capacity, settings = self.image.capacity, self.image.agents.settings
        first, step = 0, 1
        if turn is not None and settings.view == AgentView.PARSYNC:
            first, step = offset_of(turn, self.partitions.count, settings.rotation)
        self._takes += step
        for partition in partitions:
            held = self._told[partition]
            rows.extend(put_row(capacity, row) for row in held.values())
            held.clear()
            self.taken[partition], self.taken_at[partition] = self.sequence, at
            # A partition that was owned so many rounds ago is the less fresh: other agents own it by now.
            self.fresh[partition] = self._takes - (first - partition) % step
        if self.is_stale:
            self.is_stale = False
            self._deal(at)
        if turn is not None and self._is_news(turn, at):
            self.turn, self.turn_at = turn, at
        self._owned = self._owned_now()
        return rows

    def _is_news(self, turn: Turn, at: Instant) -> bool:
        """Return whether a turn is to be followed: a later one, or any once the known one is as old as a whole cycle.

        So a clock of the broker that was set back stops the rounds for `sync_every` at most.
        """
        known = self.turn
        if known is None or is_newer(turn, known):
            return True
        return turn != known and at >= after(self.turn_at, self.image.agents.settings.sync_every)

    def _owned_now(self) -> range:
        """Return the partitions of which rows are taken in as they are told."""
        settings = self.image.agents.settings
        if self.turn is None or settings.view != AgentView.PARSYNC:
            return range(0)
        return owned_by(self.turn, self.partitions.count, settings.rotation)

    @property
    def is_whole(self) -> bool:
        """Whether all partitions are as new as the newest rows, so that the region can be searched as one."""
        return not self.is_stale and all(taken == self.sequence for taken in self.taken)

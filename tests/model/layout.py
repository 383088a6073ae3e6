"""What a state of the model holds, packed in one whole number. Numbers are small, compare at once and cannot
be changed in place; a field is a few bits of one. Here are also the questions that several roles ask of a
state.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from tests.model.rules import Bounds

REGIONS = ("A", "B")


class Phase(IntEnum):
    """The workload's place in the queue's log."""

    PENDING = 0
    AWARDED = 1
    BOUND = 2
    ENDED = 3


class Status(IntEnum):
    """What a region's image says of one epoch. A forgotten epoch is one that nothing is known of: `UNKNOWN`
    again.
    """

    UNKNOWN = 0
    PROMISED = 1
    GRANTED = 2
    STARTED = 3
    ENDING = 4
    COMPLETED = 5
    LOST = 6  # Ended without completing: preempted, stopped or failed.
    DECLINED = 7


LIVE = frozenset({Status.GRANTED, Status.STARTED, Status.ENDING})
OVER = frozenset({Status.COMPLETED, Status.LOST, Status.DECLINED})


class Report(IntEnum):
    """An end that a worker reports until told that it is recorded."""

    NOTHING = 0
    COMPLETED = 1
    EMPTY = 2


class Victim(IntEnum):
    """Who else holds a region's capacity."""

    NOBODY = 0
    RUNS = 1
    MARKED = 2  # Will be told to stop whatever happens: only with `withdrawn_promise_spares` off.
    ENDING = 3


class Action(NamedTuple):
    """Something that may happen. `fire` returns the state after it, or the same state where it cannot happen
    or changes nothing.
    """

    label: str
    fire: Callable[[int], int]
    is_sure: Callable[[int], bool]


def always(state: int) -> bool:
    """For what somebody does sooner or later: reads on, or says again until it is heard."""
    return True


def never(state: int) -> bool:
    """For misfortune, changes of mind and messages that nobody repeats."""
    return False


class Field:
    """A few bits of a state."""

    __slots__ = ("clear", "low", "shift")

    def __init__(self, shift: int, width: int) -> None:
        self.shift = shift
        self.low = (1 << width) - 1
        self.clear = ~(self.low << shift)

    def of(self, state: int) -> int:
        return state >> self.shift & self.low

    def put(self, state: int, value: int) -> int:
        return state & self.clear | value << self.shift


class Layout:
    """The fields of a state. Lists are indexed by region, then agent, then epoch; there is no epoch 0."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.epochs = range(1, bounds.epochs + 1)
        self._width = 0

        # The queue: durable, but for the last three, which are notes and lost at a crash.
        self.epoch = self._field(2)
        self.phase = self._field(2)
        self.place = [self._field(1) for _ in range(bounds.epochs + 1)]
        self.is_cancelled = self._field(1)
        self.has_bid = [self._field(1) for _ in REGIONS]
        self.has_seen_grant = self._field(1)
        self.told_not_recorded = self._field(2)  # 1 + region; only with `record_before_telling` off.

        # The stores: durable, but for the cursor, which is how far each has read the global log.
        self.cursor = [self._field(3) for _ in REGIONS]
        self.free = [self._field(2) for _ in REGIONS]
        self.lost = [self._field(1) for _ in REGIONS]
        self.victim = [self._field(2) for _ in REGIONS]
        self.status = self._by_epoch(3)

        # The workers. `heard` is the highest epoch of which a command was heard; `runs` is physical.
        self.heard = [self._field(2) for _ in REGIONS]
        self.is_cut = [self._field(1) for _ in REGIONS]
        self.runs = self._by_epoch(1)
        self.report = self._by_epoch(2)

        # What was ever said. A message stays: it may be heard never, once or many times, soon or late.
        self.award_said = self._by_epoch(1)
        self.start_said = self._by_epoch(1)
        self.words_lost = self._by_epoch(1)  # Only with `resaid_until_shown` off.

        # Each agent: the epoch in its hands (0: none), and which epochs it has ever sent a claim for. Agents
        # of a region are interchangeable.
        self.agent = [[self._field(2 + bounds.epochs) for _ in range(bounds.agents)] for _ in REGIONS]
        self.in_hand = [[Field(agent.shift, 2) for agent in agents] for agents in self.agent]
        self.claim_said = [
            [[Field(agent.shift + 1 + e, 1) for e in (1, *self.epochs)] for agent in agents]
            for agents in self.agent
        ]

        # What must never happen and leaves no other mark on the state.
        self.refused_unread = self._field(1)
        self.stopped_for_nothing = self._field(1)

    def _field(self, width: int) -> Field:
        self._width += width
        return Field(self._width - width, width)

    def _by_epoch(self, width: int) -> list[list[Field]]:
        return [[self._field(width) for _ in range(self.bounds.epochs + 1)] for _ in REGIONS]

    # The global log need not be kept as a list: its facts that a store asks about are, in order, "epoch 1
    # awarded", "epoch 1 over", "epoch 2 awarded" and so on, and last "workload ended". Counted from 1, epoch
    # e is awarded by fact 2e-1 and over by fact 2e; the end comes after an "over" (or at the start), so it is
    # fact 2e+1 where e is the last epoch. A cursor is the number of facts read.

    def head(self, state: int) -> int:
        """How many such facts the global log holds."""
        phase = self.phase.of(state)
        if phase == Phase.PENDING:
            return 2 * self.epoch.of(state)
        return 2 * self.epoch.of(state) + (1 if phase == Phase.ENDED else -1)

    def stands(self, region: int, epoch: int, state: int) -> bool:
        """Whether the award of this epoch to this region stands, in the queue's log."""
        if self.epoch.of(state) != epoch or self.place[epoch].of(state) != region:
            return False
        return self.phase.of(state) in (Phase.AWARDED, Phase.BOUND)

    def stands_as_read(self, region: int, epoch: int, state: int) -> bool:
        """The same, by as much of that log as the region's store has read. Fact 2e-1 may also be the end,
        after epoch e-1.
        """
        has_read = self.cursor[region].of(state) == 2 * epoch - 1 and self.epoch.of(state) >= epoch
        return has_read and self.place[epoch].of(state) == region

    def is_superseded_as_read(self, region: int, epoch: int, state: int) -> bool:
        """Whether the store has read that a later epoch was awarded, or that the workload ended."""
        return self.cursor[region].of(state) >= 2 * epoch + 1

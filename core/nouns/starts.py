"""Starts that are promised: what a region can promise of one, and why one that was reserved is over."""

from enum import StrEnum

from msgspec import Struct

from core.nouns.instant import Nanoseconds
from core.nouns.placement import Spread


class EarliestStart(Struct, frozen=True):
    """The earliest start that a region can promise to a workload for which there is no room now."""

    start_in: Nanoseconds = Nanoseconds(0)
    """Time from the computation until all attempts that are in the way have surely ended."""
    spreads: tuple[Spread, ...] = ()
    """Where it would go then, one for each job; empty: no start can be promised."""
    unbounded_gpu_milli: int = 0
    """GPU milli held by work without a guaranteed end, on nodes of the types that the workload accepts."""

    @property
    def is_promisable(self) -> bool:
        """Whether there is one."""
        return bool(self.spreads)


class StartOver(StrEnum):
    """Why a reserved start is one no more, or never was."""

    USED = "used"
    """Its workload has its capacity, here or elsewhere."""
    GIVEN_UP = "given_up"
    """It was cancelled, held or changed, or was promised another start."""
    NO_TURN = "no_turn"
    """Its workload is over its tenant's quota by now, may be lent nothing, or is of a lower level: others come first."""
    DISPLACED = "displaced"
    """Work of a higher level took the room."""
    NODE_CLOSED = "node_closed"
    """A node on which it was to start was lost, or closed."""
    LAPSED = "lapsed"
    """Its time passed, and its workload had not got the room."""
    NO_ROOM = "no_room"
    """The region never had it: others had come first."""
    UNREACHABLE = "unreachable"
    """The region did not say whether it has it."""


SENTENCES: dict[StartOver, str] = {
    StartOver.USED: "it has its capacity",
    StartOver.GIVEN_UP: "it was cancelled, held or changed",
    StartOver.NO_TURN: "other workloads come first by now, by level, quota or lag",
    StartOver.DISPLACED: "work of a higher level took the capacity",
    StartOver.NODE_CLOSED: "a node on which it was to start was lost or closed",
    StartOver.LAPSED: "its time passed, and the capacity had not come free",
    StartOver.NO_ROOM: "other workloads had come first",
    StartOver.UNREACHABLE: "the region did not answer",
}

assert set(SENTENCES) == set(StartOver)

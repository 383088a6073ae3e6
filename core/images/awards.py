"""A section of the queue's image: which awards stand, for placement stores and task control."""

from msgspec import Struct, field

from core.events.moves import MoveBegun, MoveEnded
from core.events.queue import (
    AttemptClosed,
    AwardReturned,
    CancelRequested,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadsForgotten,
)
from core.events.sharing import RoundBegun
from core.fact import Fact
from core.images.base import Section
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.instant import Nanoseconds
from core.nouns.operation import ROUND, TRANSFER
from core.nouns.workload import Consent


class AwardRow(Struct, rename={"is_active": "is_standing"}, gc=False):
    """The newest award of a workload."""

    epoch: int
    region: RegionName
    sequence: int
    is_active: bool
    is_bound: bool = False
    """Whether all of its tasks were up."""
    is_over: bool = False
    """Whether its workload has ended for good."""
    is_cancel_requested: bool = False
    """True if the user wants the workload ended: a store then charges the stop to no budget."""
    abandoned: dict[int, RegionName] = field(default_factory=dict)
    """Regions of abandoned attempts, by epoch. By consent, these run beside newer ones until their regions' logs show their end."""
    moving: str = ""
    """The source of the operation by which it is to make way for its next attempt, in another region or another round; empty: it stays."""
    move_deadline: Nanoseconds = Nanoseconds(0)
    """From the request on, after which it is stopped unasked."""


class Awards(Section):
    """Which awards stand: what a placement store needs to know of the queue."""

    FOLDS = {
        WorkloadAwarded: "_awarded",
        AwardReturned: "_returned",
        WorkloadBound: "_bound",
        AttemptClosed: "_closed",
        CancelRequested: "_cancel_requested",
        WorkloadCancelled: "_cancelled",
        WorkloadsForgotten: "_forgotten",
        MoveBegun: "_move_begun",
        MoveEnded: "_move_ended",
        RoundBegun: "_round_begun",
    }

    rows: dict[WorkloadId, AwardRow] = field(default_factory=dict)

    def stands(self, workload: WorkloadId, epoch: int, region: RegionName) -> bool:
        """Whether this region may start this attempt, as far as the fold has come."""
        row = self.rows.get(workload)
        return row is not None and row.is_active and row.epoch == epoch and row.region == region

    def has_superseded(self, workload: WorkloadId, epoch: int) -> bool:
        """Whether nothing can come of this attempt any more. Ask only about awards that the fold has passed."""
        row = self.rows.get(workload)
        return row is None or row.epoch > epoch or (row.epoch == epoch and not row.is_active)

    def was_abandoned(self, workload: WorkloadId, epoch: int) -> bool:
        """Whether it was agreed that this attempt may run beside newer ones."""
        row = self.rows.get(workload)
        return row is not None and epoch in row.abandoned

    def _awarded(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadAwarded)
        before = self.rows.get(event.workload)
        abandoned = before.abandoned if before is not None else {}
        self.rows[event.workload] = AwardRow(
            event.epoch, event.region, fact.sequence, is_active=True, abandoned=abandoned
        )

    def _returned(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AwardReturned)
        self.rows[event.workload].is_active = False

    def _closed(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AttemptClosed)
        row = self.rows[event.workload]
        row.is_active = False
        row.is_over = event.phase.is_terminal
        if event.consent is not Consent.NOBODY:
            row.abandoned[event.epoch] = event.region

    def _bound(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadBound)
        row = self.rows.get(event.workload)
        if row is not None:
            row.is_bound = True

    def _cancel_requested(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, CancelRequested)
        row = self.rows.get(event.workload)
        if row is not None:
            row.is_cancel_requested = True

    def _cancelled(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadCancelled)
        row = self.rows.get(event.workload)
        if row is not None:
            row.is_over = True

    def _move_begun(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, MoveBegun)
        row = self.rows.get(event.workload)
        if row is not None and row.epoch == event.epoch:
            row.moving, row.move_deadline = f"{TRANSFER}{event.revision}", event.deadline

    def _move_ended(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, MoveEnded)
        row = self.rows.get(event.workload)
        if row is not None:
            row.moving = ""

    def _round_begun(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, RoundBegun)
        for workload in event.leaves:
            row = self.rows.get(workload)
            if row is not None and row.is_active:
                row.moving, row.move_deadline = f"{ROUND}{event.number}", event.deadline

    def _forgotten(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadsForgotten)
        for workload in event.workloads:
            self.rows.pop(workload, None)

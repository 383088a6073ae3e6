"""Two sections of a region's image: planned work on nodes, and the recent stops of each requester."""

from msgspec import Struct, field

from core.events.control import (
    DestructionHalted,
    MaintenanceMoved,
    MaintenancePlanned,
    NodesClosed,
    NodesOpened,
    OperationsBegun,
    Runs,
    ScopeJoined,
)
from core.events.log import LogOpened
from core.events.region import StopOrdered
from core.fact import Fact
from core.images.base import Section
from core.nouns.instant import Instant, Nanoseconds, after, seconds
from core.nouns.maintenance import ClosureKind, MaintenanceKind, MaintenancePhase, Scope
from core.nouns.placement import numbers_in, runs_of


class MaintenanceRow(Struct):
    """One maintenance."""

    kind: MaintenanceKind
    scope: Scope
    nodes: Runs
    planned_at: int
    starts_in: int
    """Nanoseconds from then."""
    lasts: int
    lead: int
    reason: str
    by: str
    phase: MaintenancePhase = MaintenancePhase.PLANNED
    moved_at: int = 0
    """When it entered its phase."""
    key: str = ""
    """Of the request."""

    @property
    def starts_at(self) -> int:
        """When its window begins, on the keeper's clock."""
        return self.planned_at + self.starts_in


class Maintenance(Section):
    """Every maintenance that is not over, and the numbers by which the next ones are called."""

    FOLDS = {
        MaintenancePlanned: "_planned",
        MaintenanceMoved: "_moved",
        NodesClosed: "_closed",
        NodesOpened: "_opened",
        ScopeJoined: "_scope_joined",
    }

    rows: dict[str, MaintenanceRow] = field(default_factory=dict)
    planned: int = 0
    """How many there have been."""
    drains: int = 0
    """How many there have been."""
    revision: int = 0
    """Grows with every drain and every lifting of one: a command names the one that it was given for."""

    def _planned(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, MaintenancePlanned)
        self.planned += 1
        self.rows[event.maintenance] = MaintenanceRow(
            event.kind,
            event.scope,
            event.nodes,
            fact.at,
            event.starts_in,
            event.lasts,
            event.lead,
            event.reason,
            event.by,
            moved_at=fact.at,
            key=event.key,
        )

    def _moved(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, MaintenanceMoved)
        if event.phase in (MaintenancePhase.OVER, MaintenancePhase.CANCELLED):
            del self.rows[event.maintenance]
            return
        row = self.rows[event.maintenance]
        row.phase, row.moved_at = event.phase, fact.at

    def _closed(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, NodesClosed)
        if event.kind is ClosureKind.DRAIN:
            self.drains += 1
            self.revision += 1

    def _opened(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, NodesOpened)
        self.revision += event.kind is ClosureKind.DRAIN

    def _scope_joined(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, ScopeJoined)
        row = self.rows.get(event.source)
        if row is not None:
            row.nodes = runs_of([*numbers_in(row.nodes), *numbers_in(event.nodes)])


BUDGET_SPAN: Nanoseconds = seconds(60)
HELD_TO = ("ack_lease", "destruction_min", "destruction_share", "move_patience")


class Destruction(Section):
    """What each requester has had stopped in the last minute of this log's time."""

    FOLDS = {
        LogOpened: "_opened",
        StopOrdered: "_stop",
        OperationsBegun: "_begun",
        DestructionHalted: "_halted",
    }

    stops: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """By requester: when, and how many."""
    halted: dict[str, int] = field(default_factory=dict)
    """Requesters that went over their budgets, with the time of the last record."""
    settings: dict[str, int] = field(default_factory=dict)
    """Limits recorded for this term, so that a check of an old log uses the limits of its time; older terms recorded no limits."""

    def spent(self, requester: str, now: Instant) -> int:
        """Stops in the minute before `now`."""
        return sum(
            count for at, count in self.stops.get(requester, ()) if after(Instant(at), BUDGET_SPAN) > now
        )

    def is_told(self, requester: str, now: Instant) -> bool:
        """Whether it was said within the last minute that it goes over its budget."""
        at = self.halted.get(requester)
        return at is not None and after(Instant(at), BUDGET_SPAN) > now

    def _opened(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, LogOpened)
        self.settings = {name: event.settings[name] for name in HELD_TO if name in event.settings}

    def _stop(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, StopOrdered)
        if event.requester:
            self._spend(event.requester, 1, fact.at)

    def _begun(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, OperationsBegun)
        if event.charged:
            self._spend(event.requester, event.charged, fact.at)

    def _spend(self, requester: str, count: int, at: Instant) -> None:
        """Add stops of a requester. Requesters without a stop for a minute are dropped: the number of names has no bound."""
        for name in [n for n, known in self.stops.items() if _is_past(known[-1][0], at)]:
            del self.stops[name]
        kept = [
            (was, number)
            for was, number in self.stops.get(requester, ())
            if after(Instant(was), BUDGET_SPAN) > at
        ]
        if kept and kept[-1][0] == at:
            kept[-1] = (at, kept[-1][1] + count)
        else:
            kept.append((at, count))
        self.stops[requester] = kept

    def _halted(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, DestructionHalted)
        for name in [n for n, told in self.halted.items() if _is_past(told, fact.at)]:
            del self.halted[name]
        self.halted[event.requester] = fact.at


def _is_past(at: int, now: Instant) -> bool:
    return after(Instant(at), BUDGET_SPAN) <= now

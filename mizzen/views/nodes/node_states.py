"""What a node is to operators: open, or why nothing new is placed on it, and until when."""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from core.images import RegionImage
from core.images.closures import Closure
from core.nouns.instant import Instant
from core.nouns.maintenance import ClosureKind, MaintenancePhase
from core.nouns.placement import numbers_in
from mizzen.views.nodes.occupants import forced_at, tasks_there
from mizzen.views.phrases.durations import clock_text, short_text

SECTIONS = ("capacity", "control", "maintenance")
"""Of a region's image: what is read here."""
REASON_SHOWN_MAX = 48
"""Letters of a reason in a table; JSON has it whole."""


class State(StrEnum):
    """What keeps new work away from a node: of several, the one that is the hardest to get over."""

    LOST = "lost"
    QUARANTINED = "quarantined"
    MAINTENANCE = "maintenance"
    DRAINING = "draining"
    DRAINED = "drained"
    SUSPECT = "suspect"
    DISPUTED = "disputed"
    OPEN = "open"


class ClosedBy(Struct, frozen=True):
    """One of the things that close a node. Times are instants; 0: there is none."""

    source: str
    kind: ClosureKind
    reason: str
    since: int
    by: str = ""
    forced_at: int = 0
    """When what is still there is stopped unasked."""
    phase: str = ""
    """Of a maintenance; its window too."""
    starts_at: int = 0
    ends_at: int = 0


class NodeState(Struct, frozen=True):
    """What a node is, but for what it holds. Nodes of which this is the same can be told in one line."""

    is_lost: bool
    is_empty: bool
    """Whether nothing may still run there. Only told of nodes that are to be empty."""
    closed_by: tuple[ClosedBy, ...]
    """The hardest to get over first."""

    @property
    def state(self) -> State:
        """In a word."""
        if self.is_lost:
            return State.LOST
        return self.word_of(self.closed_by[0]) if self.closed_by else State.OPEN

    def word_of(self, closed: ClosedBy) -> State:
        """What one of these closures makes of the node."""
        match closed.kind:
            case ClosureKind.QUARANTINE:
                return State.QUARANTINED
            case ClosureKind.MAINTENANCE:
                return State.MAINTENANCE
            case ClosureKind.SUSPECT:
                return State.SUSPECT
            case ClosureKind.DISPUTED:
                return State.DISPUTED
        return State.DRAINED if self.is_empty else State.DRAINING


class NodeStates:
    """Of all nodes of a region."""

    def __init__(self, image: RegionImage) -> None:
        self._capacity = image.capacity
        self.left = tasks_there(image)
        """By node, tasks that may still run there."""
        self._closed: dict[int, list[ClosedBy]] = {}
        for source, closure in sorted(
            image.capacity.closures.items(), key=lambda item: (len(item[0]), item[0])
        ):
            for node, closed in _closed_by(image, source, closure):
                self._closed.setdefault(node, []).append(closed)

    def of(self, node: int) -> NodeState:
        """One node's."""
        closed = tuple(sorted(self._closed.get(node, ()), key=_hardness))
        is_emptied = any(one.kind.empties for one in closed)
        return NodeState(self._capacity.is_lost[node], is_emptied and not self.left[node], closed)


def state_text(state: NodeState, left: int, use: str, now: Instant) -> str:
    """For people: each thing that closes it, or what an open one is used for.

    left   tasks that may still run there
    """
    parts = ["lost"] if state.is_lost else []
    parts += [_closed_text(state, one, left, now) for one in state.closed_by]
    return "; ".join(parts) or f"open ({use})"


def _closed_text(state: NodeState, closed: ClosedBy, left: int, now: Instant) -> str:
    word = state.word_of(closed)
    details = []
    if word in (State.DRAINING, State.DRAINED, State.MAINTENANCE):
        details.append(closed.source)
    if word is State.MAINTENANCE:
        is_open = closed.phase == MaintenancePhase.OPEN
        opens = f"opens in {short_text(closed.starts_at - now)}"
        details.append(f"until {clock_text(closed.ends_at, now)}" if is_open else opens)
    if left and closed.kind.empties:
        details.append(f"{left} {'task' if left == 1 else 'tasks'} left")
    if not closed.kind.empties:
        details.append(_cut(closed.reason))
    return f"{word} ({', '.join(details)})"


def _closed_by(image: RegionImage, source: str, closure: Closure) -> Iterable[tuple[int, ClosedBy]]:
    planned = image.maintenance.rows.get(source)
    shared = ClosedBy(
        source=source,
        kind=closure.kind,
        reason=closure.reason,
        since=closure.at,
        by=closure.by,
        forced_at=forced_at(image, source) if closure.kind.empties else 0,
        phase=str(planned.phase) if planned is not None else "",
        starts_at=planned.starts_at if planned is not None else 0,
        ends_at=planned.starts_at + planned.lasts if planned is not None else 0,
    )
    for node in numbers_in(closure.nodes):
        own = closure.each.get(node)
        yield node, shared if own is None else ClosedBy(source, closure.kind, own.reason, own.at, closure.by)


_HARDNESS = {kind: place for place, kind in enumerate(
    (
        ClosureKind.QUARANTINE, ClosureKind.MAINTENANCE, ClosureKind.DRAIN, ClosureKind.SUSPECT,
        ClosureKind.DISPUTED,
    )
)}  # fmt: skip


def _hardness(closed: ClosedBy) -> tuple[bool, int, int, str]:
    """A window that is open comes before a quarantine: somebody may have a hand in the machine."""
    is_open = closed.phase == MaintenancePhase.OPEN
    return (not is_open, _HARDNESS[closed.kind], len(closed.source), closed.source)


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= REASON_SHOWN_MAX else f"{text[: REASON_SHOWN_MAX - 1]}…"

"""What operators and the broker ask a region's placement store about nodes: drains, maintenance, quarantine, suspicion, losses."""

from core.messages.base import Answer, Message
from core.nouns.ids import RegionName, WorkerName
from core.nouns.maintenance import ClosureKind, MaintenanceKind, MaintenancePhase, Scope


class DrainNodes(Message, frozen=True, tag="drain-nodes"):
    """Nothing new there, and what runs there leaves once its application agrees."""

    region: RegionName
    scope: Scope
    reason: str
    revision: int
    """Of the region's drains, as the operator saw them; another one is refused as superseded."""
    deadline: int = 0
    """Nanoseconds after which the rest is stopped; 0: never unasked."""
    by: str = ""
    lasts: int = 0
    """For defragmentation: nanoseconds after which it lifts itself, or before, once all its nodes are free; 0: somebody lifts it."""
    sequence: int = 0
    """Of the region's log, as who asks saw it: if one of the nodes changed since, it is refused as superseded. 0: never."""
    key: str = ""
    """Chosen by the operator: the same key again answers the same drain, for as long as it stands."""


class LiftDrain(Message, frozen=True, tag="lift-drain"):
    """A drain for defragmentation has come to its end: its nodes are free, or its time is over."""

    region: RegionName
    drain: str


class UndrainNodes(Message, frozen=True, tag="undrain-nodes"):
    """Lift every drain of these nodes, or one drain whole."""

    region: RegionName
    scope: Scope
    revision: int
    by: str = ""
    drain: str = ""
    """The one to lift: then the scope says nothing."""


class PlanMaintenance(Message, frozen=True, tag="plan-maintenance"):
    """Work on these nodes, in a window."""

    region: RegionName
    scope: Scope
    kind: MaintenanceKind
    starts_in: int
    """Nanoseconds; below zero is the past, and refused."""
    lasts: int
    lead: int
    """Nanoseconds before the window at which notice is given."""
    planned: int
    """How many maintenances the region has had, as the operator saw it; with another count it is refused as superseded."""
    reason: str = ""
    by: str = ""
    key: str = ""
    """Chosen by the operator: the same key again answers the same maintenance, for as long as it stands."""


class CancelMaintenance(Message, frozen=True, tag="cancel-maintenance"):
    """It does not take place, or is over early."""

    region: RegionName
    maintenance: str
    reason: str = ""
    by: str = ""


class ReleaseNodes(Message, frozen=True, tag="release-nodes"):
    """These nodes leave the quarantine: an operator says so."""

    region: RegionName
    scope: Scope
    reason: str
    by: str = ""
    sequence: int = 0
    """Of the region's log, as the operator saw it: if one of them changed since, it is refused as superseded. A repeat that
    comes late lets nobody out who came in after it was given."""


class NodesAnswered(Answer, frozen=True, tag="nodes-answered"):
    """What an operator asked for is recorded."""

    source: str
    """The drain's or the maintenance's name."""
    nodes: int
    revision: int


class MoveMaintenance(Message, frozen=True, tag="move-maintenance"):
    """Its time has come."""

    region: RegionName
    maintenance: str
    phase: MaintenancePhase


class CloseNodes(Message, frozen=True, tag="close-nodes"):
    """Quarantine, or suspicion."""

    region: RegionName
    kind: ClosureKind
    nodes: tuple[int, ...]
    reason: str
    until_checked: bool = False
    """Of a quarantine: a passed check lets them out; otherwise an operator does."""
    sequence: int = 0
    """Of the region's log when that was seen: nodes that changed since are left, so that a late repeat undoes no release."""


class OpenNodes(Message, frozen=True, tag="open-nodes"):
    """A suspicion is lifted, or a check was passed."""

    region: RegionName
    kind: ClosureKind
    nodes: tuple[int, ...]
    reason: str = ""
    sequence: int = 0
    """As in `CloseNodes`."""


class RecordDomainLoss(Message, frozen=True, tag="record-domain-loss"):
    """Workers of one power domain or zone went silent together."""

    region: RegionName
    domain: str
    workers: tuple[WorkerName, ...]
    sequence: int
    """Of the region's log when that was seen: a later return is not undone by it."""


MESSAGES: tuple[type[Message], ...] = (
    DrainNodes,
    LiftDrain,
    UndrainNodes,
    PlanMaintenance,
    CancelMaintenance,
    ReleaseNodes,
    NodesAnswered,
    MoveMaintenance,
    CloseNodes,
    OpenNodes,
    RecordDomainLoss,
)

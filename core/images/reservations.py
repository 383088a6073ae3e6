"""A section of a region's image: the starts that are reserved in it, and why others are over."""

from msgspec import Struct, field

from core.events.region import ClaimGranted
from core.events.starts import StartReserved, StartUnreserved
from core.fact import Fact
from core.images.base import Section
from core.nouns.ids import TenantName, WorkloadId
from core.nouns.limits import UNRESERVED_KEPT_MAX
from core.nouns.placement import Spread
from core.nouns.starts import StartOver
from core.nouns.workload import JobSpec


class ReservedStart(Struct):
    """Nodes that are kept for the start of one workload."""

    revision: int
    sequence: int
    """Of the fact that reserved it: by it rules name it."""
    starts_at: int
    """When its nodes are surely free."""
    level: int
    kind: str
    tenant: TenantName
    jobs: tuple[JobSpec, ...]
    spreads: tuple[Spread, ...]
    global_sequence: int

    def nodes(self) -> list[int]:
        """The nodes that are kept, ascending, each once."""
        return sorted({node for spread in self.spreads for node in spread.nodes})


class OverStart(Struct):
    """The newest revision of a workload's that is over here."""

    revision: int
    reason: StartOver


class Starts(Section):
    """At most one a workload, and no node in two of them."""

    FOLDS = {StartReserved: "_reserved", StartUnreserved: "_unreserved", ClaimGranted: "_granted"}

    rows: dict[WorkloadId, ReservedStart] = field(default_factory=dict)
    over: dict[WorkloadId, OverStart] = field(default_factory=dict)
    """The newest last; the oldest of too many is forgotten."""

    def _reserved(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, StartReserved)
        self.over.pop(event.workload, None)
        self.rows[event.workload] = ReservedStart(
            event.revision,
            fact.sequence,
            fact.at + event.start_in,
            event.level,
            event.kind,
            event.tenant,
            event.jobs,
            event.spreads,
            event.global_sequence,
        )

    def _unreserved(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, StartUnreserved)
        self._end(event.workload, event.revision, event.reason)

    def _granted(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, ClaimGranted)
        row = self.rows.get(event.workload)
        if row is not None:
            self._end(event.workload, row.revision, StartOver.USED)

    def _end(self, workload: WorkloadId, revision: int, reason: StartOver) -> None:
        row = self.rows.get(workload)
        if row is not None and row.revision <= revision:
            del self.rows[workload]
        self.over.pop(workload, None)
        self.over[workload] = OverStart(revision, reason)
        while len(self.over) > UNRESERVED_KEPT_MAX:
            del self.over[next(iter(self.over))]

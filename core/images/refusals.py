"""A section of the queue's image: for which reasons regions refuse the shapes that wait, and since when.

The section tells users why a workload waits, also after the queue has started again and no region has answered yet. No decision of the
queue depends on the section: after a start regions are asked again. Plans of pools read which work lacks room.
"""

from msgspec import Struct, field

from core.events.queue import NotedRefusal, RefusalsNoted
from core.fact import Fact
from core.images.base import Section
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.limits import NOTED_BEFORE_MAX, NOTED_SHAPES_MAX
from core.nouns.placement import Shortage


class HeldReason(Struct):
    """A region's reason, with the figures of the refusal."""

    reason: str
    since: int
    missing_gpu_milli: int = 0
    missing_cpu_milli: int = 0
    shortage: Shortage | None = None
    before: list[tuple[str, int]] = field(default_factory=list)
    """Earlier reasons and the time since which each held, the newest first."""


class RefusedRow(Struct):
    """One request."""

    shape: str
    """Digest of the workloads' shape."""
    workload: WorkloadId
    """One of the shape."""
    kind: str = ""
    node_types: tuple[str, ...] = ()
    gpu_milli: int = 0
    """Of all such workloads, when it was noted."""
    regions: dict[RegionName, HeldReason] = field(default_factory=dict)


class Refusals(Section):
    """Requests that every region refuses, by digest, the one noted longest ago first."""

    FOLDS = {RefusalsNoted: "_noted"}

    rows: dict[str, RefusedRow] = field(default_factory=dict)

    def _noted(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, RefusalsNoted)
        if event.gone:
            gone = frozenset(event.gone)
            self.rows = {request: row for request, row in self.rows.items() if row.shape not in gone}
        for one in event.shapes:
            row = self.rows.pop(one.request, None) or RefusedRow(one.shape, one.workload)
            row.workload = one.workload
            row.kind, row.node_types, row.gpu_milli = one.kind, one.node_types, one.gpu_milli
            for refusal in one.refusals:
                row.regions[refusal.region] = _held(refusal, fact.at, row.regions.get(refusal.region))
            self.rows[one.request] = row
        while len(self.rows) > NOTED_SHAPES_MAX:
            del self.rows[next(iter(self.rows))]


def _held(refusal: NotedRefusal, at: int, was: HeldReason | None) -> HeldReason:
    before = [] if was is None else [(was.reason, was.since), *was.before][:NOTED_BEFORE_MAX]
    return HeldReason(
        refusal.reason,
        at - refusal.held,
        refusal.missing_gpu_milli,
        refusal.missing_cpu_milli,
        refusal.shortage,
        before,
    )

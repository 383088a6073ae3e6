"""Copies that waiting work needs: where no region has both the data and the hardware, to where the fewest bytes are missing.

source    MAST §4.3: if every region abandons a workload for its data, replication begins, and the workload waits
"""

from collections.abc import Iterator

from msgspec import Struct

from components.job_queue.ordering import bring_up
from components.job_queue.state.queue_state import QueueState, why_not_asked
from core.images.queue import WorkloadRow
from core.nouns.data import UNSTATED
from core.nouns.ids import DatasetName, RegionName, WorkloadId
from core.nouns.instant import Instant
from core.nouns.limits import READS_LOOKED_AT_MAX
from core.nouns.reasons import Reason
from core.nouns.tenant import OVER_LEVEL
from core.ranking.scan import QuotaClass


class WaitingGroup(Struct, frozen=True):
    """Pending workloads of one shape, level and quota class that read data; the first is an example."""

    workload: WorkloadId
    level: int
    row: WorkloadRow
    reasons: dict[RegionName, Reason | None]
    """Why each region that the workload may use is not asked for a bid; None: it is."""

    @property
    def lacks_data_everywhere(self) -> bool:
        """True if no region is asked, and data is missing where the hardware is."""
        found = self.reasons.values()
        return None not in found and Reason.NO_DATA in found


def waiting_groups(state: QueueState, now: Instant) -> Iterator[WaitingGroup]:
    """Yield groups of pending workloads that read data, in rank order, of the first `READS_LOOKED_AT_MAX` groups of all work."""
    bring_up(state, now)
    for ((level, quota_class), _), example in state.order.groups(0, READS_LOOKED_AT_MAX):
        row = state.image.workloads.rows[example.workload]
        spec = row.spec
        if not spec.data or quota_class is QuotaClass.BLOCKED:
            continue
        asked = -level if quota_class is QuotaClass.NOMINAL else OVER_LEVEL
        regions = spec.regions or tuple(state.regions)
        reasons = {region: why_not_asked(state, region, spec, asked) for region in regions}
        yield WaitingGroup(example.workload, asked, row, reasons)


class WantedCopy(Struct, frozen=True):
    """A copy that is to be ordered as soon as storage, links and the day's bytes allow."""

    dataset: DatasetName
    target: RegionName
    workload: WorkloadId
    level: int


def wanted_copies(state: QueueState, now: Instant) -> list[WantedCopy]:
    """Return the copies that waiting work needs, in rank order, those included that are ordered already."""
    found: dict[tuple[DatasetName, RegionName], WantedCopy] = {}
    for group in waiting_groups(state, now) if state.data.pending else ():
        if not group.lacks_data_everywhere:
            continue
        target = _target(state, group)
        if target is None:
            continue
        for dataset in sorted(state.image.datasets.missing_in(target, group.row.spec.data)):
            wanted = WantedCopy(dataset, target, group.workload, group.level)
            found.setdefault((dataset, target), wanted)
    return list(found.values())


def _target(state: QueueState, group: WaitingGroup) -> RegionName | None:
    """Return the region with the hardware where the fewest bytes are missing, copies under way not counted, and that can store the rest."""
    ranked = []
    for region, reason in group.reasons.items():
        if reason is Reason.NO_DATA and region in state.data.services:
            missing = _missing_bytes(state, group, region)
            if missing is not None:
                ranked.append((missing, region))
    return min(ranked)[1] if ranked else None


def _missing_bytes(state: QueueState, group: WaitingGroup, region: RegionName) -> int | None:
    """Return the bytes that a region lacks and no copy under way brings; None if it cannot have them."""
    datasets, copies = state.image.datasets, state.image.copies
    capacity = state.image.data_settings.storage_of(region)
    coming = {order.dataset for order in copies.orders.values() if order.target == region}
    lacking = [name for name in datasets.missing_in(region, group.row.spec.data) if name not in coming]
    if not lacking:
        return 0
    known = [datasets.rows.get(name) for name in lacking]
    if capacity == UNSTATED or any(row is None or not row.regions for row in known):
        return None  # Its storage is not stated, or some of the data is in no region.
    size = sum(row.size for row in known if row is not None)
    return size if state.data.stored[region] + expected_in(state, region) + size <= capacity else None


def expected_in(state: QueueState, region: RegionName) -> int:
    """Return the bytes of copies under way to a region."""
    return sum(order.bytes for order in state.image.copies.orders.values() if order.target == region)

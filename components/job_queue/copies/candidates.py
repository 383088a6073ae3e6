"""Copies that waiting work needs: where no region has both the data and the hardware, to where the fewest bytes are missing.

source    MAST §4.3: if every region abandons a workload for its data, replication begins, and the workload waits
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from msgspec import Struct

from components.job_queue.ordering import bring_up
from components.job_queue.state.queue_state import QueueState, why_not_asked
from core.images.copies import copy_key
from core.images.queue import WorkloadRow
from core.nouns.data import UNSTATED
from core.nouns.ids import DatasetName, RegionName, WorkloadId
from core.nouns.instant import Instant
from core.nouns.limits import COPY_TRIES_MAX, GROUPS_LOOKED_AT_MAX, READS_LOOKED_AT_MAX
from core.nouns.reasons import Reason
from core.nouns.tenant import FRESH_LEVEL, OVER_LEVEL
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
    """Yield groups of pending workloads that read data, in rank order: the first `READS_LOOKED_AT_MAX` of the first `GROUPS_LOOKED_AT_MAX`."""
    bring_up(state, now)
    looked_at = 0
    for ((level, quota_class), _), example in state.order.groups(0, GROUPS_LOOKED_AT_MAX):
        row = state.image.workloads.rows[example.workload]
        spec = row.spec
        if not spec.data or quota_class is QuotaClass.BLOCKED:
            continue
        if looked_at == READS_LOOKED_AT_MAX:
            return
        looked_at += 1
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
    is_home: bool
    """Whether the work reads only fresh data, so that the target must become the home."""


def wanted_copies(state: QueueState, now: Instant) -> list[WantedCopy]:
    """Return the copies that waiting work needs, in rank order, those included that are ordered already."""
    found: dict[tuple[DatasetName, RegionName], WantedCopy] = {}
    coming = Coming(state)
    for group in waiting_groups(state, now) if state.data.pending else ():
        if not group.lacks_data_everywhere:
            continue
        target = _target(state, group, coming)
        if target is None:
            continue
        is_home = group.row.spec.needs_fresh_data and group.level >= FRESH_LEVEL
        for dataset in sorted(state.image.datasets.missing_in(target, group.row.spec.data)):
            wanted = WantedCopy(dataset, target, group.workload, group.level, is_home)
            found.setdefault((dataset, target), wanted)
    return list(found.values())


class Coming:
    """Copies under way, by their target: counted once for all groups that are looked at."""

    def __init__(self, state: QueueState) -> None:
        self.datasets: defaultdict[RegionName, set[DatasetName]] = defaultdict(set)
        self.bytes: Counter[RegionName] = Counter()
        for order in state.image.copies.orders.values():
            self.datasets[order.target].add(order.dataset)
            self.bytes[order.target] += order.bytes


def _target(state: QueueState, group: WaitingGroup, coming: Coming) -> RegionName | None:
    """Return the region with the hardware where the fewest bytes are missing, copies under way not counted, and that can have the rest.

    A region to which such a copy has failed time and again comes behind all others.
    """
    ranked = []
    for region, reason in group.reasons.items():
        if reason is Reason.NO_DATA and region in state.data.services:
            missing = state.image.datasets.missing_in(region, group.row.spec.data)
            lacking = [name for name in missing if name not in coming.datasets[region]]
            if _can_have(state, lacking, region, coming.bytes[region]):
                rows = state.image.datasets.rows
                size = sum(rows[name].size for name in lacking)
                ranked.append((_failed(state, lacking, region), size, region))
    return min(ranked)[2] if ranked else None


def _can_have(state: QueueState, lacking: list[DatasetName], region: RegionName, expected: int) -> bool:
    """Return whether a region has storage for datasets, and an open link from a region that holds each.

    lacking    that no copy under way brings
    expected   bytes of copies under way to the region
    """
    settings, datasets = state.image.data_settings, state.image.datasets
    size = 0
    for name in lacking:
        row = datasets.rows.get(name)
        if row is None or not any(
            serves_data(state, source) and settings.rate_of(source, region) for source in row.regions
        ):
            return False
        size += row.size
    capacity = settings.storage_of(region)
    used = state.data.stored[region] + expected
    return not lacking or (capacity != UNSTATED and used + size <= capacity)


def _failed(state: QueueState, lacking: list[DatasetName], region: RegionName) -> bool:
    """Return whether a copy of one of these datasets failed so often in a row that the next try comes much later."""
    failures = state.image.copies.failures
    known = (failures.get(copy_key(name, region)) for name in lacking)
    return any(one is not None and one.times >= COPY_TRIES_MAX for one in known)


def serves_data(state: QueueState, region: RegionName) -> bool:
    """Return whether a region has a data service, and is not abandoned."""
    return region in state.data.services and region not in state.image.regions.abandoned


def expected_in(state: QueueState, region: RegionName) -> int:
    """Return the bytes of copies under way to a region."""
    return sum(order.bytes for order in state.image.copies.orders.values() if order.target == region)

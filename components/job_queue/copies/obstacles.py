"""Why no copy is ordered that pending work needs, for people: the first of the rules of orders.py that stands against the copy."""

from components.job_queue.copies.candidates import expected_in, serves_data
from components.job_queue.state.queue_state import QueueState
from core.images.copies import copy_key
from core.images.datasets import DatasetRow
from core.nouns.data import UNSTATED, CopyObstacle
from core.nouns.ids import DatasetName, RegionName
from core.nouns.instant import Instant
from core.nouns.limits import LINK_COPIES_MAX
from core.rules.data.copies import day_limit, fits_day, may_try, spent_now


def obstacle_in(
    state: QueueState, data: tuple[DatasetName, ...], region: RegionName, now: Instant
) -> CopyObstacle | None:
    """Return why a region with the hardware gets no copies of the data that it lacks; None: they are under way, or may be ordered."""
    datasets = state.image.datasets
    coming = {one.dataset for one in state.image.copies.orders.values() if one.target == region}
    lacking = [name for name in sorted(datasets.missing_in(region, data)) if name not in coming]
    rows = [datasets.rows.get(name, DatasetRow()) for name in lacking]
    if not lacking:
        return None
    if not all(row.regions for row in rows):
        return CopyObstacle.NOWHERE
    if not state.image.data_settings.policy.is_automatic:
        return CopyObstacle.NOT_AUTOMATIC
    return _of_storage(state, rows, region) or next(
        filter(None, (_of_copy(state, *one, region, now) for one in zip(lacking, rows, strict=True))), None
    )


def _of_storage(state: QueueState, rows: list[DatasetRow], region: RegionName) -> CopyObstacle | None:
    """Return why a region cannot hold these datasets."""
    capacity = state.image.data_settings.storage_of(region)
    if region not in state.data.services:
        return CopyObstacle.NO_SERVICE
    if capacity == UNSTATED:
        return CopyObstacle.UNSTATED
    size = state.data.stored[region] + expected_in(state, region) + sum(row.size for row in rows)
    return CopyObstacle.STORAGE_FULL if size > capacity else None


def _of_copy(
    state: QueueState, dataset: DatasetName, row: DatasetRow, target: RegionName, now: Instant
) -> CopyObstacle | None:
    """Return why one dataset cannot be copied to a region that can hold it."""
    settings, copies = state.image.data_settings, state.image.copies
    sources = [region for region in row.regions if serves_data(state, region)]
    rates = {region: settings.rate_of(region, target) for region in sources}
    if not sources:
        return CopyObstacle.NO_SOURCE
    if not any(rates.values()):
        return CopyObstacle.LINK_CLOSED
    if target in copies.drops.get(dataset, ()):
        return CopyObstacle.BEING_DELETED
    if state.data.readers[dataset, target]:
        return CopyObstacle.STILL_READ
    if copy_key(dataset, target) in copies.failures and not may_try(copies, dataset, target, now):
        return CopyObstacle.TRIED_LATER
    limit = day_limit(settings.policy, state.data.total)
    if not fits_day(spent_now(copies, now, limit), row.size, limit):
        return CopyObstacle.DAY_SPENT
    used = [(one.source, one.target) for one in copies.orders.values()]
    if all(used.count((region, target)) >= LINK_COPIES_MAX for region, rate in rates.items() if rate):
        return CopyObstacle.LINK_BUSY
    return None

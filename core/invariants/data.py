"""Rule 2 of the invariants (DESIGN §11) for data: no workload is awarded to a region without the data that it reads.

Checked at every award by the queue's own log: by the region's datasets at the decision. Datasets that operators remove later are not
considered. Copies are checked at every order and deletion: the last whole copy of a dataset never goes, no copy is deleted while an
active award reads it or it would be the last, no copy replaces files that one reads, and orders keep within the target's storage and the day's bytes.
"""

from core.events.copies import CopyOrdered, DropCleared, DropOrdered
from core.events.queue import WorkloadAwarded
from core.fact import Fact
from core.images import GlobalImage
from core.images.copies import day_of
from core.nouns.data import UNSTATED
from core.nouns.ids import DatasetName, RegionName, WorkloadId
from core.rules.data.copies import bytes_of, day_limit
from core.rules.data.datasets import against_data


def check_data(fact: Fact, before: GlobalImage) -> list[str]:
    """Return the violations by an award, an order of a copy or a deletion, before the fact is folded."""
    match fact.event:
        case WorkloadAwarded() as award:
            return _check_award(award, before)
        case CopyOrdered() as order:
            return _check_order(order, before, fact)
        case DropOrdered() as drop:
            return _check_others(drop, before)
        case DropCleared() as drop:
            return _check_others(drop, before) + [
                f"the copy of {drop.dataset} in {drop.region} is deleted, and {workload} reads it there"
                for workload in _readers(before, drop.dataset, drop.region)
            ]
    return []


def _check_others(drop: DropOrdered | DropCleared, before: GlobalImage) -> list[str]:
    """Return the violation if no other region, of those that are not abandoned, has all of the dataset."""
    row = before.datasets.rows.get(drop.dataset)
    others = set(row.regions) - {drop.region} - before.regions.abandoned.keys() if row is not None else ()
    return [] if others else [f"the last whole copy of {drop.dataset}, in {drop.region}, is to be deleted"]


def _readers(image: GlobalImage, dataset: DatasetName, region: RegionName) -> list[WorkloadId]:
    return [
        workload
        for workload, row in image.workloads.rows.items()
        if row.is_active and row.region == region and dataset in row.spec.data
    ]


def _check_award(award: WorkloadAwarded, before: GlobalImage) -> list[str]:
    row = before.workloads.rows.get(award.workload)
    if row is None:
        return []
    missing = before.datasets.missing_in(award.region, row.spec.data)
    where = f"and is awarded to {award.region}, where that is not"
    if missing:
        return [f"{award.workload} reads {', '.join(missing)}, {where}"]
    level = award.level if award.level is not None else row.spec.priority or 0
    against = against_data(before.datasets, row.spec, award.region, level)
    return [f"{award.workload} reads what is fresh, {where}"] if against is not None else []


def _check_order(order: CopyOrdered, before: GlobalImage, fact: Fact) -> list[str]:
    found = []
    row = before.datasets.rows.get(order.dataset)
    if row is None or order.source not in row.regions:
        found.append(
            f"copy {order.copy} of {order.dataset} is ordered from {order.source}, where that is not"
        )
    capacity = before.data_settings.storage_of(order.target)
    needed = stored_in(before, order.target) + order.bytes
    if capacity == UNSTATED or needed > capacity:
        found.append(
            f"copy {order.copy} of {order.dataset} is ordered to {order.target}, which cannot store it"
        )
    found += [
        f"copy {order.copy} of {order.dataset} is ordered to {order.target}, where {workload} reads what it replaces"
        for workload in _readers(before, order.dataset, order.target)
    ]
    limit = day_limit(before.data_settings.policy, bytes_of(before.datasets))
    spent = before.copies.spent_on(max(day_of(fact.at), before.copies.day), limit)
    if spent and spent + order.bytes > limit:
        found.append(
            f"copy {order.copy} of {order.dataset} makes {spent + order.bytes} bytes in a day of {limit} at most"
        )
    return found


def stored_in(image: GlobalImage, region: RegionName) -> int:
    """Return the bytes of datasets in a region, of those that are to be deleted, and of copies under way there."""
    rows, copies = image.datasets.rows, image.copies
    there = sum(row.size for row in rows.values() if region in row.regions)
    leaving = sum(rows[name].size for name, regions in copies.drops.items() if region in regions)
    return there + leaving + sum(order.bytes for order in copies.orders.values() if order.target == region)

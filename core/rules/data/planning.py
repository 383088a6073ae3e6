"""When data is planned anew, and the problem that is solved then: demand and waits, open hardware, and where each dataset is.

The demand of a row of `readings` is the GPUs held in the last weeks or wanted in the last hours; while some of its work waits, those wanted now
if they are more. Orders that stand count as carried out. A plan may copy the plan's part of a day's bytes, or the largest dataset.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from zlib import crc32

from msgspec import Struct

from core.data_places.asked import AskedData, AskedJob, AskedTable
from core.data_places.problem import NO_HOME
from core.images import GlobalImage
from core.images.capacity import Capacity
from core.images.data_settings import DataSettings
from core.images.datasets import DatasetRow
from core.images.readings import ReadingRow, Readings, reading_key
from core.nouns.data import UNSTATED, DataBasis
from core.nouns.fleet import will_do
from core.nouns.ids import DatasetName, RegionName
from core.nouns.instant import SECOND, Instant, Nanoseconds, after
from core.nouns.limits import (
    DATA_BASIS_PARTS,
    DATA_LOOK_MAX,
    DATA_MOVED_PERMILLE,
    PLAN_ACTIONS_MAX,
    PLAN_BYTES_MAX,
)
from core.nouns.maintenance import ClosureKind
from core.nouns.placement import numbers_in
from core.rules.data.copies import PLAN_PART, bytes_of, day_limit, is_carried_out

ACTION_BYTES = 60
"""Of an encoded action, at most, without its four names."""
Supply = Mapping[RegionName, Mapping[str, int]]
"""Open GPU milli by region and node type."""


class Demand(Struct, frozen=True):
    """A row of `readings` that is wanted."""

    key: str
    row: ReadingRow
    gpu_milli: int


def demand_of(readings: Readings, now: Instant) -> list[Demand]:
    """Return the rows with any demand."""
    waits = waiting_of(readings)
    found = []
    for key, row in readings.rows.items():
        now_wanted = row.wanted.gpu_milli if waits[waits_key(row.data, row.types)] else 0
        gpu_milli = max(readings.gpus_of(row, now), now_wanted)
        if gpu_milli:
            found.append(Demand(key, row, gpu_milli))
    return found


def waiting_of(readings: Readings) -> Counter[str]:
    """Return the GPU milli that wait, by `waits_key`. Work over quota waits at the lowest band, and is wanted at the band of its priority."""
    found: Counter[str] = Counter()
    for one in readings.waiting:
        found[waits_key(one.data, one.types)] += one.gpu_milli
    return found


def waits_key(data: tuple[DatasetName, ...], types: tuple[str, ...]) -> str:
    """Return the key of work that waits: as a row of `readings`, of whatever band."""
    return reading_key(data, types, 0)


def supply_of(capacity: Capacity) -> dict[str, int]:
    """Return the GPU milli of a region by node type, of nodes that are open or closed for maintenance, which ends."""
    found: Counter[str] = Counter()
    closed = {
        node
        for closure in capacity.closures.values()
        if closure.kind is not ClosureKind.MAINTENANCE
        for node in numbers_in(closure.nodes)
    }
    for node, node_type in enumerate(capacity.node_type):
        if node_type and not capacity.is_lost[node] and node not in closed:
            found[node_type] += capacity.gpu.total[node]
    return dict(sorted(found.items()))


def basis_of(queue: GlobalImage, demand: Iterable[Demand], supply: Supply) -> DataBasis:
    """Return the basis of a plan that would be made now."""
    wanted, waiting = [0] * DATA_BASIS_PARTS, [0] * DATA_BASIS_PARTS
    for one in demand:
        wanted[_part(one.key)] += one.gpu_milli
    for key, gpu_milli in waiting_of(queue.readings).items():
        waiting[_part(key)] += gpu_milli
    return DataBasis(
        tuple(wanted),
        tuple(waiting),
        tuple((region, name, milli) for region, types in supply.items() for name, milli in types.items()),
        bytes_of(queue.datasets),
        settings_revision(queue),
    )


def settings_revision(queue: GlobalImage) -> int:
    """Return a number that grows with each operator's word about storage, links or policy."""
    settings = queue.data_settings
    storage = sum(row.revision for row in settings.storage.values())
    return settings.policy_revision + storage + sum(row.revision for row in settings.links.values())


def has_moved(known: DataBasis, now: DataBasis) -> bool:
    """Return whether demand, waits, a region's supply or all bytes changed by `DATA_MOVED_PERMILLE`."""
    demand = max(sum(known.demand), sum(now.demand))
    return (
        _is_large(_difference(known.demand, now.demand), demand)
        or _is_large(_difference(known.waiting, now.waiting), demand)
        or _is_large(abs(known.bytes - now.bytes), max(known.bytes, now.bytes))
        or _supply_moved(known, now)
    )


def looked_at_next(queue: GlobalImage, basis: DataBasis, now: Instant) -> Instant:
    """Return when data is to be planned, if its basis does not move until then; now or before: data is to be planned now.

    That is a day after the newest plan, or as soon as the policy allows if that plan is carried out or its basis has moved; at once if there is
    no plan, or an operator set storage or policy since.
    """
    copies, rows, policy = queue.copies, queue.datasets.rows, queue.data_settings.policy
    plan = copies.plan
    if not plan.number or plan.basis.settings != basis.settings:
        return now
    left = any(not is_carried_out(action, rows[action.dataset]) for action in copies.actions.values())
    if (plan.actions and not left) or has_moved(plan.basis, basis):
        return after(Instant(plan.at), Nanoseconds(policy.replan_seconds * SECOND))
    return after(Instant(plan.at), DATA_LOOK_MAX)


def asked_of(queue: GlobalImage, demand: Iterable[Demand], supply: Supply) -> AskedData:
    """Return the problem of the regions that `supply` names."""
    regions = tuple(sorted(supply))
    places = {region: place for place, region in enumerate(regions)}
    settings, policy = queue.data_settings, queue.data_settings.policy
    tables = tuple(_tables(queue, places, supply.keys()))
    limit = day_limit(policy, bytes_of(queue.datasets)) * PLAN_PART[0] // PLAN_PART[1]
    totals: Counter[str] = Counter()
    for types in supply.values():
        totals.update(types)
    gpu_types = tuple(sorted(totals))
    used: Counter[RegionName] = Counter()
    for dataset, leaving in queue.copies.drops.items():
        used.update(dict.fromkeys(leaving, queue.datasets.rows[dataset].size))
    for table in tables:
        if not table.size:  # Storage is taken all the same.
            size = queue.datasets.rows[table.name].size
            used.update({region: size for region, place in places.items() if table.copies >> place & 1})
    longest = [
        max((len(name) for name in names), default=0) for names in ([one.name for one in tables], regions)
    ]
    action_bytes = ACTION_BYTES + longest[0] + 2 * longest[1]
    return AskedData(
        regions,
        gpu_types,
        tuple(_storage(settings, region, regions) for region in regions),
        tuple(used[region] for region in regions),
        tuple(tuple(supply[region].get(name, 0) for name in gpu_types) for region in regions),
        tables,
        tuple(_jobs(demand, tables, totals, gpu_types)),
        max(limit, max((one.size for one in tables), default=0)),
        min(PLAN_ACTIONS_MAX, PLAN_BYTES_MAX // action_bytes),
        policy.extra_permille,
        policy.has_disaster_copies,
    )


def _storage(settings: DataSettings, target: RegionName, regions: Iterable[RegionName]) -> int:
    """Return the storage of a region, or `UNSTATED` if no link there is open: nothing can come."""
    can_come = any(settings.rate_of(source, target) for source in regions if source != target)
    return settings.storage_of(target) if can_come else UNSTATED


def _tables(
    queue: GlobalImage, places: Mapping[RegionName, int], regions: Iterable[RegionName]
) -> Iterable[AskedTable]:
    """Yield the datasets that are in some of these regions, as they are once all orders that stand are carried out.

    A dataset that no region can send has the size 0: no plan makes copies of such. Only a region with stated storage has a data service.
    """
    settings = queue.data_settings
    senders = {
        source
        for source in regions
        if settings.storage_of(source) != UNSTATED
        and any(settings.rate_of(source, target) for target in regions if target != source)
    }
    homes: dict[DatasetName, RegionName] = {}
    coming: dict[DatasetName, set[RegionName]] = {}
    for order in queue.copies.orders.values():
        coming.setdefault(order.dataset, set()).add(order.target)
        if order.is_move:
            homes[order.dataset] = order.target
    going = {(action.dataset, action.source) for action in queue.copies.to_drop.values()}
    going |= {
        (order.dataset, row.home)
        for order in queue.copies.orders.values()
        if order.is_move
        and not order.keeps
        and (row := queue.datasets.rows[order.dataset]).home not in (None, order.target)
    }
    for name, row in queue.datasets.rows.items():
        there = {*row.regions, *coming.get(name, ())} & places.keys()
        left = {region for region in there if (name, region) not in going} or there
        if not left:
            continue
        home = _home_of(row, homes.get(name), left)
        mask = sum(1 << places[region] for region in left)
        size = 0 if senders.isdisjoint(left) else row.size
        yield AskedTable(
            name, size, NO_HOME if home is None else places[home], mask, row.is_pinned, row.revision
        )


def _home_of(row: DatasetRow, moves_to: RegionName | None, regions: set[RegionName]) -> RegionName | None:
    """Return the home; of a home in an abandoned region the first region that has the dataset. None: all are alike."""
    home = row.home if row.is_pinned or moves_to is None else moves_to
    return home if home in regions or home is None else min(regions)


def _jobs(
    demand: Iterable[Demand],
    tables: tuple[AskedTable, ...],
    totals: Mapping[str, int],
    gpu_types: tuple[str, ...],
) -> Iterable[AskedJob]:
    """Yield demand for hardware that is open and data that is held in some region. Of several types that will do, the commonest counts."""
    places = {table.name: place for place, table in enumerate(tables)}
    chosen: dict[tuple[str, ...], int | None] = {}
    for one in demand:
        row = one.row
        if row.types not in chosen:
            accepted = [name for name in gpu_types if will_do(name, row.types, is_for_gpus=True)]
            best = max(accepted, key=lambda name: totals[name], default="")
            chosen[row.types] = gpu_types.index(best) if totals.get(best) else None
        gpu_type = chosen[row.types]
        if gpu_type is not None and all(name in places for name in row.data):
            yield AskedJob(tuple(places[name] for name in row.data), gpu_type, row.band, one.gpu_milli)


def _part(key: str) -> int:
    return crc32(key.encode()) % DATA_BASIS_PARTS


def _difference(known: tuple[int, ...], now: tuple[int, ...]) -> int:
    known = known or (0,) * len(now)
    return sum(abs(before - after_) for before, after_ in zip(known, now, strict=True))


def _is_large(change: int, whole: int) -> bool:
    return change > 0 and 1_000 * change >= DATA_MOVED_PERMILLE * whole


def _supply_moved(known: DataBasis, now: DataBasis) -> bool:
    """Return whether the open GPUs of a region changed by enough."""
    before, since = ({(region, name): milli for region, name, milli in one.supply} for one in (known, now))
    change: Counter[RegionName] = Counter()
    whole: Counter[RegionName] = Counter()
    for region, name in {**before, **since}:
        old, new = before.get((region, name), 0), since.get((region, name), 0)
        change[region] += abs(new - old)
        whole[region] += max(old, new)
    return any(_is_large(change[region], whole[region]) for region in change)

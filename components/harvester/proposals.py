"""Proposals about one zone: offers of calm nodes, and recalls where the pool's settings allow less than is harvested."""

from collections.abc import Iterable
from heapq import nsmallest
from itertools import chain, islice

from components.harvester.state import HarvesterState
from core.messages.harvest import OfferHarvest, RecallHarvest
from core.nouns.harvest import HarvestPart, HarvestSettings
from core.nouns.harvest_limits import HARVEST_AT_ONCE_MAX, HARVESTED_OF_SERVER_MAX
from core.nouns.ids import AttemptKey, RegionName
from core.nouns.instant import Instant
from core.nouns.placement import runs_of
from core.nouns.pool import harvest_of
from core.nouns.quantities import MILLI, NOTHING, Amount
from core.rules.harvest.zones import Zone, ZoneKey, is_empty, units

LOOKED_AT_MAX = 4 * HARVEST_AT_ONCE_MAX
"""Calm nodes of a zone of which one proposal is made, the longest calm first: a decision about 25,000 nodes would take 0.2 s."""

Sizes = dict[tuple[Amount, AttemptKey | None], list[int]]
"""Nodes by their new size, and by the lending attempt."""


def proposal(
    state: HarvesterState, region: RegionName, key: ZoneKey, now: Instant
) -> OfferHarvest | RecallHarvest | None:
    """Return the recalls that a zone calls for, or else the offers, if there are any."""
    zone = state.zones.zones.get(key)
    if zone is None:
        return None
    revision = state.image.harvest.revision
    recalled = _excess(state, zone)
    if recalled:
        return RecallHarvest(region, revision, _parts(recalled))
    settings = harvest_of(zone.pool, state.image.pools.of(zone.pool))
    offered = _growth(state, zone, settings, now) if settings.is_on else {}
    return OfferHarvest(region, revision, _parts(offered), state.sequence) if offered else None


def _parts(sizes: Sizes) -> tuple[HarvestPart, ...]:
    return tuple(HarvestPart(runs_of(nodes), size, primary) for (size, primary), nodes in sizes.items())


def _excess(state: HarvesterState, zone: Zone) -> Sizes:
    """Return the sizes that bring a zone back within the pool's settings: empty nodes shrink first, the highest number first."""
    pools = state.image.pools
    over = zone.harvested - zone.may_have(pools)
    over_empty = zone.empty_harvested - zone.empty_may_be(pools)
    is_off = not harvest_of(zone.pool, pools.of(zone.pool)).is_on
    found: Sizes = {}
    if over <= 0 and over_empty <= 0 and not is_off:
        return found
    capacity, nodes = state.image.capacity, state.image.harvest.nodes
    mine = [node for node, known in nodes.items() if known.size != NOTHING and state.zones.of(node) is zone]
    count = 0
    for node in sorted(mine, key=lambda node: (not is_empty(capacity, node), -node)):
        known = nodes[node]
        if count >= HARVEST_AT_ONCE_MAX:
            break
        if is_off:
            for lent in known.lent:
                if lent.size != NOTHING:
                    found.setdefault((NOTHING, lent.key), []).append(node)
                    count += 1
        has = units(capacity, node, known.free)
        is_surplus = over_empty > 0 and is_empty(capacity, node)
        if known.free == NOTHING or not (is_off or ((over > 0 or is_surplus) and has)):
            continue
        left = 0 if is_off or is_surplus else max(0, has - max(over, 0)) // MILLI * MILLI
        found.setdefault((_scaled(known.free, left, has), None), []).append(node)
        over, over_empty, count = over - (has - left), over_empty - is_surplus, count + 1
    return found


def _growth(state: HarvesterState, zone: Zone, settings: HarvestSettings, now: Instant) -> Sizes:
    """Return offers of a zone's calm nodes, as far as the pool's settings allow: partly used nodes come first."""
    capacity, pools = state.image.capacity, state.image.pools
    room = zone.may_have(pools) - zone.harvested
    empty_room = zone.empty_may_be(pools) - zone.empty_harvested
    watch = state.watches.get(zone.key)
    if watch is None:
        return {}
    calm: Iterable[int] = watch.regraded
    if room >= MILLI:
        others = (node for node in watch.ready if node not in watch.regraded)
        calm = chain(watch.regraded, others, state.calmed(zone.key, now))
    wanted = islice(
        (node for node in calm if _may_grow(state, node, settings) and state.zones.of(node) is zone),
        LOOKED_AT_MAX,
    )
    found: Sizes = {}
    for node in nsmallest(HARVEST_AT_ONCE_MAX, wanted, key=lambda node: (is_empty(capacity, node), node)):
        known = state.image.harvest.nodes.get(node)
        was = known.free if known is not None else NOTHING
        size, has = state.seen[node], units(capacity, node, was)
        full = units(capacity, node, size)
        fresh = is_empty(capacity, node) and not has
        if full - has > room:
            size = _scaled(size, (has + room) // MILLI * MILLI, full)
        added = units(capacity, node, size) - has
        if size == NOTHING or not size.covers(was) or (fresh and empty_room < 1):
            continue
        if size == was and (known is None or known.within == settings.grace):
            continue
        found.setdefault((size, None), []).append(node)
        room, empty_room = room - added, empty_room - fresh
    return found


def _may_grow(state: HarvesterState, node: int, settings: HarvestSettings) -> bool:
    """Return whether a node has more to offer now, and a function server that is heard."""
    known = state.image.harvest.nodes.get(node)
    if known is not None:
        if not known.is_calm:
            return False
        if known.free == state.seen.get(node) and known.within == settings.grace:
            return False
    row = state.servers.get(state.image.capacity.worker_of[node])
    if row is None or not row.is_heard or state.seen.get(node, NOTHING) == NOTHING:
        return False
    return node in row.nodes or len(row.nodes) < HARVESTED_OF_SERVER_MAX


def _scaled(size: Amount, part: int, whole: int) -> Amount:
    """Return the part of a size that a part of its units has, in whole cores."""
    if part <= 0 or not whole:
        return NOTHING
    if part >= whole:
        return size
    gpu_milli = size.gpu_milli * part // whole // MILLI * MILLI
    return Amount(
        gpu_milli, size.cpu_milli * part // whole // MILLI * MILLI, size.memory_bytes * part // whole
    )

"""The figures of harvested capacity for operators, by pool."""

from components.harvester.servers import use_of
from components.harvester.state import HarvesterState
from core.images.harvest_history import PoolHistory
from core.messages.harvest import HarvestShown, ShownHarvest
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.pool import harvest_of
from core.nouns.quantities import NOTHING
from core.rules.harvest.odds import recalls_per_node_hour

UNCONFIRMED_SHOWN_MAX = 100


def shown(state: HarvesterState, now: Instant) -> HarvestShown:
    """Return the figures of all pools of which something is harvested, was lately, or may be."""
    harvest, pools = state.image.harvest, state.image.pools
    names = {key[0] for key in state.zones.zones if harvest_of(key[0], pools.of(key[0])).is_on}
    rows = tuple(_shown(state, pool, now) for pool in sorted({*names, *harvest.pools}))
    heard = sum(row.is_heard for row in state.servers.values())
    return HarvestShown(rows, recalls_per_node_hour(harvest.pools.values(), now), heard)


def _shown(state: HarvesterState, pool: str, now: Instant) -> ShownHarvest:
    harvest = state.image.harvest
    history = harvest.pools.get(pool) or PoolHistory()
    settings = harvest_of(pool, state.image.pools.of(pool))
    offered = used = recalled = NOTHING
    unconfirmed = []
    for node, known in harvest.nodes.items():
        if known.pool != pool:
            continue
        offered, recalled = offered.plus(known.size), recalled.plus(known.recalled)
        used = used.plus(use_of(state.servers.get(state.image.capacity.worker_of[node]), node))
        if known.unconfirmed_at:
            unconfirmed.append(node)
    total = history.day_until(now)
    releases = sorted(history.releases)
    return ShownHarvest(
        pool,
        settings.is_on,
        history.nodes,
        offered,
        used,
        recalled,
        total.recalls,
        total.lost,
        total.lost_span,
        total.node_span,
        _percentile(releases, 50),
        _percentile(releases, 99),
        settings.grace,
        tuple(sorted(unconfirmed)[:UNCONFIRMED_SHOWN_MAX]),
    )


def _percentile(ascending: list[Nanoseconds], percent: int) -> Nanoseconds:
    """Return the least value that so many percent of all do not exceed; 0 without any."""
    if not ascending:
        return Nanoseconds(0)
    return ascending[-(-len(ascending) * percent // 100) - 1]

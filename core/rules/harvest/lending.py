"""Rules for capacity that tasks lend: devices that are idle for a while.

The store judges reports of tasks by `may_lend`, and the broker sends only reports that the store would record.
"""

from core.images.capacity import Capacity
from core.images.harvest import Harvest
from core.images.pools import Pools
from core.nouns.harvest import IDLE_SPANS_MAX, LEND_INTERVAL
from core.nouns.ids import AttemptKey
from core.nouns.instant import MILLISECOND
from core.nouns.limits import NODE_BYTES_MAX, SPAN_MAX
from core.nouns.placement import needs_of
from core.nouns.pool import harvest_of
from core.nouns.quantities import MILLI, NOTHING, Amount
from core.nouns.workload import Emulation
from core.rules.scopes import group_of


def lent_by(harvest: Harvest, key: AttemptKey, node: int) -> tuple[Amount, int]:
    """Return the amount that an attempt lends of a node by the log, and the number of its newest report."""
    known = harvest.nodes.get(node)
    lent = known.lent_by(key) if known is not None else None
    return (NOTHING, 0) if lent is None else (lent.size, lent.number)


def may_lend(
    capacity: Capacity, harvest: Harvest, pools: Pools, key: AttemptKey, node: int, size: Amount
) -> bool:
    """Return whether an attempt may lend more of a node than before: whole devices of its own, in a pool that is harvested.

    size  the whole amount that the attempt is to lend there
    """
    was, _ = lent_by(harvest, key, node)
    known, pool = harvest.nodes.get(node), group_of(capacity, node).pool
    if not harvest_of(pool, pools.of(pool)).is_on or not capacity.is_open(node):
        return False
    if known is not None and not known.is_calm:
        return False
    return size.covers(was) and not size.gpu_milli % MILLI and _held(capacity, key, node).covers(size)


def problems_of_idling(emulation: Emulation, need: Amount) -> list[str]:
    """Return the problems of the cycle in which devices of an emulated task of this need are idle."""
    found = []
    if len(emulation.idle) > IDLE_SPANS_MAX:
        found.append(f"emulation.idle: a cycle has {IDLE_SPANS_MAX} spans at most")
    if any(not LEND_INTERVAL <= span <= SPAN_MAX for span, _ in emulation.idle):
        found.append(
            f"emulation.idle: a span lasts {LEND_INTERVAL // MILLISECOND} ms at least, and a hundred years at most"
        )
    devices = need.gpu_milli // MILLI
    if any(not 0 <= count <= devices for _, count in emulation.idle):
        found.append(f"emulation.idle: a task holds {devices} whole devices; it can lend none to all of them")
    if not 0 <= emulation.keeps_bytes <= NODE_BYTES_MAX:
        found.append(f"emulation.keeps_bytes: {emulation.keeps_bytes} is not between 0 and {NODE_BYTES_MAX}")
    return found


def _held(capacity: Capacity, key: AttemptKey, node: int) -> Amount:
    """Return the amount that an attempt without an order to stop holds on a node."""
    held = capacity.holding(*key)
    if held is None or held.is_ending:
        return NOTHING
    return needs_of(held.claim).get(node, NOTHING)

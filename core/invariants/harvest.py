"""Invariants of harvested capacity: functions may use only what is free, or what a task lends of its own, and a recall ends in time.

The rules are written a second time, without the functions by which the store decides, so that a mistake there is found here.
"""

from collections.abc import Iterable

from core.events.harvest import HarvestOffered, HarvestReleased
from core.fact import Fact
from core.images import RegionImage
from core.images.harvest import HarvestedNode
from core.invariants.control import Finding
from core.nouns.harvest import RELEASE_SPAN, release_due
from core.nouns.instant import SECOND
from core.nouns.placement import needs_of, numbers_in
from core.nouns.pool import harvest_of
from core.nouns.quantities import MILLI, NOTHING, Amount
from core.rules.scopes import group_of

Texts = Iterable[str]
LATE = 5 * SECOND
"""In the log's time, between two facts that both show the same recall overdue: a store that was held up records the end of it first."""


def check_harvest_fact(fact: Fact, before: RegionImage) -> list[Finding]:
    """Return violations of rule 1 by facts of harvested capacity, before the fact is folded."""
    match fact.event:
        case HarvestOffered() as event:
            texts: Texts = [
                text
                for part in event.parts
                for node in numbers_in(part.nodes)
                for text in _offered(node, before)
            ]
        case HarvestReleased() as event:
            texts = [
                f"node {part.node}: a recall is released, and none stands"
                for part in event.parts
                if not _awaits(before.harvest.nodes.get(part.node))
            ]
        case _:
            return []
    return [(1, text) for text in texts]


def _offered(node: int, before: RegionImage) -> Texts:
    """Yield violations by an offer: where the node's own pool is not harvested, the node is closed, or a recall stands."""
    capacity, known = before.capacity, before.harvest.nodes.get(node)
    pool = group_of(capacity, node).pool
    if not harvest_of(pool, before.pools.of(pool)).is_on:
        yield f"node {node}: offered, and pool {pool} is not harvested"
    if capacity.is_lost[node] or capacity.closed[node]:
        yield f"node {node}: offered, and it takes no new work"
    if _awaits(known):
        yield f"node {node}: offered, and a recall of it stands or is unconfirmed"


def _awaits(known: HarvestedNode | None) -> bool:
    return known is not None and (bool(known.recalls) or known.unconfirmed_at > 0)


def check_harvested(image: RegionImage, nodes: Iterable[int]) -> list[str]:
    """Return violations of rule 1 on some nodes: what is harvested is free there, or held by the attempt that lends it."""
    found = []
    for node in nodes:
        known = image.harvest.nodes.get(node)
        if known is None or known.size == NOTHING:
            continue
        if image.capacity.closed[node]:
            found.append(f"node {node}: it takes no new work, and {known.size} of it is harvested")
        free = _free(image, node)
        if not free.covers(known.free):
            found.append(f"node {node}: {known.free} of it is harvested, and {free} is free")
        for lent in known.lent:
            held = image.capacity.holding(*lent.key)
            mine = (
                needs_of(held.claim).get(node, NOTHING)
                if held is not None and lent.size != NOTHING
                else NOTHING
            )
            if not mine.covers(lent.size):
                found.append(f"node {node}: {lent.workload}.{lent.epoch} lends {lent.size}, and holds {mine}")
    return found


def _free(image: RegionImage, node: int) -> Amount:
    """Return what is free on a node, of devices only whole ones."""
    capacity = image.capacity
    gpu_milli = capacity.gpu.free[node]
    if node in capacity.devices.by_node:
        gpu_milli = capacity.devices_if_kept(node).whole * MILLI
    return Amount(gpu_milli, capacity.cpu.free[node], capacity.memory.free[node])


class RecallWatch:
    """Whether each recall of a region ends in time, by the log's own time."""

    def __init__(self) -> None:
        self._late: tuple[int, int, int] | None = None
        """An overdue recall by node and revision, and when a fact first showed it."""
        self._look_after = 0
        """No recall is overdue up to then: those that stood at the last look are due later, and younger ones have their time."""

    def look(self, at: int, image: RegionImage) -> list[str]:
        """Return a violation if the recall that is due first is overdue, and was at a fact some time before."""
        if at <= self._look_after:
            self._late = None
            return []
        harvest = image.harvest
        recalls = ((node, one) for node in harvest.recalling for one in harvest.nodes[node].recalls)
        due, node, revision, began = min(
            (
                (release_due(one.at, harvest.opened_at, one.within), node, one.revision, one.at)
                for node, one in recalls
            ),
            default=(at + RELEASE_SPAN, -1, 0, 0),
        )
        self._look_after = min(due, at + RELEASE_SPAN)
        if at <= due:
            self._late = None
            return []
        if self._late is None or self._late[:2] != (node, revision):
            self._late = (node, revision, at)
        if at - self._late[2] < LATE:
            return []
        self._late = (node, revision, at)
        return [
            f"node {node}: a recall stands since {began}, longer than its grace and the time to release it"
        ]

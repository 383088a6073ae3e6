"""The harvester's memory: images of the region and of tenants, calm nodes by zone, and function servers."""

from collections import deque
from collections.abc import Iterator

from msgspec import Struct, field

from core.agenda import Agenda
from core.fact import Note
from core.images import GlobalImage, RegionImage
from core.images.harvest import HarvestedNode
from core.messages.harvest import NodeUse, ServerSized
from core.nouns.harvest_limits import (
    HARVEST_SAY_AGAIN,
    HARVEST_TOGETHER,
    SERVER_TRIED_AGAIN,
    SERVER_TRIES_MAX,
    SIZES_A_SECOND,
    SIZES_INTERVAL,
)
from core.nouns.ids import WorkerName
from core.nouns.instant import Instant, Nanoseconds, after, earliest
from core.nouns.pool import harvest_of
from core.nouns.quantities import NOTHING, Amount
from core.rules.harvest.zones import HarvestZones, ZoneKey, offerable

SECTIONS = ("capacity", "pools", "harvest")
"""Sections of the region's image."""
OF_TENANTS = ("tenants",)
"""Sections of the queue's image."""


class ZoneLooked(Note, frozen=True):
    """Note: a zone was looked at."""

    zone: ZoneKey
    has_proposed: bool
    """True after a proposal, which is made again until the log shows the outcome."""


class ServersTold(Note, frozen=True):
    """Note: these function servers were told their sizes."""

    servers: tuple[str, ...]


class ServerHeard(Note, frozen=True):
    """Note: a function server has answered."""

    said: ServerSized


class OddsSaid(Note, frozen=True):
    """Note: routers were told how often harvested capacity is recalled."""


class ZoneWatch(Struct):
    """The nodes of one zone that may be offered, and those that soon may be."""

    calming: deque[tuple[Instant, int]] = field(default_factory=deque)
    """Nodes, each with when the available capacity last grew: the longest calm first. Outdated entries are passed over."""
    ready: dict[int, None] = field(default_factory=dict)
    """Nodes that were calm for long enough, and have more to offer."""
    regraded: dict[int, None] = field(default_factory=dict)
    """Harvested nodes of which the grace is to change."""


class ServerRow(Struct):
    """One function server."""

    wanted: int
    """Revision of the newest change of the nodes."""
    heard: int = -1
    """Newest revision of which the server has told; -1 before the first answer."""
    told_at: Instant = Instant(0)
    tries: int = 0
    """Sizes told since the server was heard."""
    uses: dict[int, NodeUse] = field(default_factory=dict)
    nodes: dict[int, None] = field(default_factory=dict)
    """Nodes that are harvested, give capacity back, or are unconfirmed."""
    losses: dict[int, tuple[int, Nanoseconds]] = field(default_factory=dict)
    """By node, calls that were ended and the run time of these, which no release in the log has told yet."""

    def losses_with(self, use: NodeUse, *, is_awaited: bool) -> tuple[int, Nanoseconds]:
        """Return the losses of a node that are to be told, with those that a server's newest word adds.

        is_awaited  a recall stands: a server that was not heard before tells of the losses since
        """
        calls, span = self.losses.get(use.node, (0, Nanoseconds(0)))
        before = self.uses.get(use.node)
        if self.heard < 0 and not is_awaited:
            return calls, span
        if self.heard < 0 or before is None or before.lost > use.lost or before.lost_span > use.lost_span:
            return calls + use.lost, Nanoseconds(span + use.lost_span)
        return calls + use.lost - before.lost, Nanoseconds(span + use.lost_span - before.lost_span)

    def losses_told(self, node: int, calls: int, span: Nanoseconds) -> None:
        """Forget the losses of a node that a release has told."""
        known = self.losses.pop(node, None)
        if known is not None and (known[0] > calls or known[1] > span):
            self.losses[node] = (max(0, known[0] - calls), Nanoseconds(max(0, known[1] - span)))

    @property
    def is_heard(self) -> bool:
        """Return whether the server lives, as far as is known."""
        return self.heard >= 0 and self.tries < SERVER_TRIES_MAX


def is_active(known: HarvestedNode) -> bool:
    """Return whether the function server has to know of a node."""
    return known.size != NOTHING or not known.is_calm


class HarvesterState:
    """Images, and indexes made from them."""

    def __init__(self) -> None:
        self.image = RegionImage.empty(SECTIONS)
        self.sequence = 0
        """Of the newest fact in the image."""
        self.queue = GlobalImage.empty(OF_TENANTS)
        self.zones = HarvestZones(self.image.capacity, self.image.harvest)
        self.watches: dict[ZoneKey, ZoneWatch] = {}
        self.zones_due: Agenda[ZoneKey] = Agenda()
        self.since: dict[int, Instant] = {}
        """Time at which the offerable capacity of each node last grew."""
        self.seen: dict[int, Amount] = {}
        """Offerable capacity of each node."""
        self.servers: dict[str, ServerRow] = {}
        self.servers_due: Agenda[str] = Agenda()
        self.odds_at: Instant | None = None
        """When routers are told next; unset until tenants' settings are known. Without these, every tenant would seem to take all risks."""

    def adopt(self, image: RegionImage, sequence: int, at: Instant) -> None:
        """Go on from an image of the region: all capacity has been available since now, and no function server was heard."""
        self.image, self.sequence = image, sequence
        self.zones = HarvestZones(image.capacity, image.harvest)
        self.watches, self.since, self.seen, self.servers = {}, {}, {}, {}
        self.zones_due, self.servers_due = Agenda(), Agenda()
        for worker, row in image.capacity.workers.items():
            self.server(worker)
            self.servers_due.put(worker, at)
            for node in row.inventory.numbers():
                self.see_node(node, at)
        for node in image.harvest.nodes:
            self.node_changed(node, at)
        for pool in sorted({key[0] for key in self.zones.zones}):
            self.settings_changed(pool, after(at, HARVEST_TOGETHER))

    # Zones.

    def watch(self, key: ZoneKey) -> ZoneWatch:
        """Return the watch over a zone."""
        return self.watches.setdefault(key, ZoneWatch())

    def after_of(self, key: ZoneKey) -> Nanoseconds | None:
        """Return how long capacity of a zone is to be calm before an offer; None where the pool is not harvested."""
        settings = harvest_of(key[0], self.image.pools.of(key[0]))
        return settings.after if settings.is_on else None

    def look_at(self, key: ZoneKey, at: Instant) -> None:
        """Have a zone looked at by then."""
        self.zones_due.put(key, min(at, self.zones_due.at(key) or at))

    def see_node(self, node: int, at: Instant) -> None:
        """Note a node of which the offerable capacity may have changed. Only growth begins the calm anew: the rest was available before."""
        now, before = offerable(self.image.capacity, node), self.seen.get(node)
        key = self.zones.of(node).key
        if before == now:
            return
        self.seen[node] = now
        if before is None or not before.covers(now):
            self._begin_calm(node, at)
        wait = self.after_of(key)
        if wait is not None:
            self.look_at(key, after(at, Nanoseconds(max(wait, HARVEST_TOGETHER))))
        if self.zones.zones[key].harvested:
            self.look_at(key, after(at, HARVEST_TOGETHER))

    def _begin_calm(self, node: int, at: Instant) -> None:
        watch = self.watch(self.zones.of(node).key)
        self.since[node] = at
        watch.ready.pop(node, None)
        watch.calming.append((at, node))

    def calmed(self, key: ZoneKey, now: Instant) -> Iterator[int]:
        """Yield the nodes of a zone that have become calm, in order."""
        wait, watch = self.after_of(key), self.watches.get(key)
        if wait is None or watch is None:
            return
        for at, node in watch.calming:
            if after(at, wait) > now:
                break
            if self.since.get(node) == at and self.zones.of(node).key == key:
                yield node

    def settings_changed(self, pool: str, at: Instant) -> None:
        """Look at a pool's zones, and at harvested nodes of which the grace is to change."""
        settings = harvest_of(pool, self.image.pools.of(pool))
        for key in self.zones.zones:
            if key[0] == pool:
                self.look_at(key, at)
        for node, known in self.image.harvest.nodes.items():
            key = self.zones.of(node).key
            if key[0] == pool and settings.is_on and known.free != NOTHING and known.within != settings.grace:
                self.watch(key).regraded[node] = None

    def zone_looked(self, looked: ZoneLooked, now: Instant) -> None:
        """Move the nodes that have become calm, and find when to look again."""
        watch, wait = self.watch(looked.zone), self.after_of(looked.zone)
        if wait is not None:
            watch.ready.update(dict.fromkeys(self.calmed(looked.zone, now)))
            while watch.calming and after(watch.calming[0][0], wait) <= now:
                watch.calming.popleft()
        next_calm = after(watch.calming[0][0], wait) if watch.calming and wait is not None else None
        again = after(now, HARVEST_SAY_AGAIN) if looked.has_proposed else None
        at = earliest(next_calm, again)
        if at is None:
            self.zones_due.drop(looked.zone)
        else:
            self.zones_due.put(looked.zone, max(at, after(now, HARVEST_TOGETHER)))

    def tell_odds(self, at: Instant) -> None:
        """Have routers told by then, once tenants' settings are known."""
        if self.odds_at is not None:
            self.odds_at = min(self.odds_at, at)

    # Servers.

    def server(self, worker: str) -> ServerRow:
        """Return the row of a worker's function server."""
        if worker not in self.servers:
            self.servers[worker] = ServerRow(self.image.harvest.revision)
        return self.servers[worker]

    def ask_anew(self, worker: str, at: Instant) -> None:
        """Take the function server of a worker that is back for unheard, and ask at once: it may have been set up anew."""
        row = self.server(worker)
        row.heard, row.tries = -1, 0
        self.servers_due.put(worker, at)

    def node_changed(self, node: int, at: Instant) -> None:
        """Have the function server of a node told the new size."""
        harvest = self.image.harvest
        worker = self.image.capacity.worker_of[node]
        row, known = self.server(worker), harvest.nodes[node]
        if is_active(known):
            row.nodes[node] = None
        else:
            row.nodes.pop(node, None)
        self._growth_changed(node, known, at)
        if known.revision > row.wanted:
            row.wanted = known.revision
            self.servers_due.put(worker, at)
        elif row.nodes and worker not in self.servers_due:
            self.servers_due.put(worker, after(at, HARVEST_SAY_AGAIN))

    def _growth_changed(self, node: int, known: HarvestedNode, at: Instant) -> None:
        """Bring a node up to date that was offered, recalled or released: further growth has to be calm anew."""
        key = self.zones.of(node).key
        watch, wait = self.watch(key), self.after_of(key)
        settings = harvest_of(key[0], self.image.pools.of(key[0]))
        if known.free == NOTHING or known.within == settings.grace or not known.is_calm:
            watch.regraded.pop(node, None)
        if known.free == self.seen.get(node):
            watch.ready.pop(node, None)
        elif known.is_calm and wait is not None:
            self._begin_calm(node, at)
            self.look_at(key, after(at, Nanoseconds(max(wait, HARVEST_TOGETHER))))
        if watch.ready and wait is not None:
            self.look_at(key, after(at, HARVEST_TOGETHER))

    def told(self, worker: str, at: Instant) -> None:
        """Note that a server was told, and find when to repeat that: a silent one is asked for ever, as it never speaks first."""
        row = self.server(worker)
        row.told_at, row.tries = at, row.tries + 1
        span = self._again_in(row)
        if span is None:
            self.servers_due.drop(worker)
        else:
            self.servers_due.put(worker, after(at, span))

    def _again_in(self, row: ServerRow) -> Nanoseconds | None:
        """Return after which time a server is told the sizes again, unless only changes matter."""
        nodes = self.image.harvest.nodes
        is_awaited = row.heard < row.wanted or any(not nodes[node].is_calm for node in row.nodes)
        spread = Nanoseconds(len(self.servers) * HARVEST_SAY_AGAIN // SIZES_A_SECOND)
        if row.tries >= SERVER_TRIES_MAX:
            return Nanoseconds(max(SERVER_TRIED_AGAIN, spread))
        if is_awaited:
            return HARVEST_SAY_AGAIN
        return Nanoseconds(max(SIZES_INTERVAL, spread)) if row.nodes else None

    def is_awaited(self, node: int) -> bool:
        """Return whether a recall of a node stands."""
        known = self.image.harvest.nodes.get(node)
        return known is not None and bool(known.recalls)

    def heard(self, said: ServerSized, at: Instant) -> None:
        """Note the answer of a server, and look at the zones of a server that was silent before."""
        row = self.server(said.server)
        was_heard = row.is_heard
        for use in said.uses:
            calls, span = row.losses_with(use, is_awaited=self.is_awaited(use.node))
            if calls or span:
                row.losses[use.node] = (calls, span)
        row.heard, row.tries = said.revision, 0
        row.uses = {use.node: use for use in said.uses}
        if row.heard < row.wanted:
            self.servers_due.put(said.server, max(at, after(row.told_at, HARVEST_TOGETHER)))
        if not was_heard:
            inventory = self.image.capacity.workers[WorkerName(said.server)].inventory
            for node in inventory.numbers():
                key = self.zones.of(node).key
                if self.after_of(key) is not None:
                    self.look_at(key, after(at, HARVEST_TOGETHER))

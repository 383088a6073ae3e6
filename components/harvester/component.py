"""The harvester of a region: proposes which free capacity functions may use, and tells function servers and routers.

The component keeps no log. The region's store judges each proposal, so a repeated, late or wrong one has no effect. The work for a fact
depends on the touched nodes, not on the size of the region: a node is offered once the capacity was available for the pool's span, in
the order in which nodes became so.
"""

from components.harvester.proposals import proposal
from components.harvester.servers import is_well_formed, releases, sizes_of
from components.harvester.shown import shown
from components.harvester.state import (
    OF_TENANTS,
    SECTIONS,
    HarvesterState,
    OddsSaid,
    ServerHeard,
    ServersTold,
    ZoneLooked,
)
from components.replies import answered
from core.component import NOTHING, Decision, Follow, ImageAdopted, Images
from core.events.harvest import HarvestReleased
from core.events.pools import NodesPooled, PoolChanged
from core.events.region import NodesJoined, NodesReturned
from core.events.tenants import TenantSet
from core.fact import NO_LOG, Fact
from core.images import GlobalImage, Image, RegionImage
from core.messages.base import Envelope, Message, Woken
from core.messages.harvest import HarvestOdds, ServerSized, ShowHarvest, TenantHarvest
from core.nouns.harvest import KEEPS, USES_ALL
from core.nouns.harvest_limits import ODDS_INTERVAL
from core.nouns.ids import GLOBAL_LOG, LogName, RegionName, region_log
from core.nouns.instant import Instant, after, earliest
from core.nouns.pool import harvest_of
from core.rules.harvest.odds import recalls_per_node_hour
from core.touched import touched_by

SERVERS_AT_ONCE = 64
"""Function servers that are told their sizes in one decision."""


class Harvester:
    """The harvester of one region."""

    noun = "harvester"
    keeps: LogName | None = None
    hears: tuple[type[Message], ...] = (ServerSized, ShowHarvest)

    def __init__(self, region: RegionName, routers: tuple[str, ...]) -> None:
        self.region = region
        self.routers = routers
        self.name = f"harvester.{region}"
        self.scope = (region,)
        self.follows = (
            Follow(region_log(region), SECTIONS),
            Follow(GLOBAL_LOG, OF_TENANTS, is_required=False),
        )

    def initial(self, images: Images) -> HarvesterState:
        """Return the state of the followed images: all capacity has been available since now, and no function server was heard."""
        state = HarvesterState()
        for image, sequence in images.followed.values():
            self._adopt(state, image, sequence, images.at)
        return state

    def due(self, state: HarvesterState) -> Instant | None:
        """Return when to look at a zone, or to tell a function server or the routers."""
        return earliest(state.zones_due.due(), state.servers_due.due(), state.odds_at)

    def decide(self, state: HarvesterState, envelope: Envelope) -> Decision:
        """Propose, tell, or answer."""
        match envelope.message:
            case Woken():
                return self._woken(state, envelope.at)
            case ServerSized() as said if is_well_formed(state, said):
                released = releases(state, self.region, said)
                return Decision((ServerHeard(said),), (released,) if released is not None else ())
            case ShowHarvest():
                return answered(shown(state, envelope.at))
        return NOTHING

    def _woken(self, state: HarvesterState, now: Instant) -> Decision:
        if state.odds_at is not None and state.odds_at <= now:
            return Decision((OddsSaid(),), tuple(self._odds(state, now)))
        servers = state.servers_due.passed(now, SERVERS_AT_ONCE)
        if servers:
            told = tuple(sizes_of(state, self.region, server) for server in servers)
            return Decision((ServersTold(tuple(servers)),), told)
        zones = state.zones_due.passed(now, 1)
        if zones:
            proposed = proposal(state, self.region, zones[0], now)
            note = ZoneLooked(zones[0], proposed is not None)
            return Decision((note,), (proposed,) if proposed is not None else ())
        return NOTHING

    def _odds(self, state: HarvesterState, now: Instant) -> list[HarvestOdds]:
        pools = state.image.pools
        settings = [harvest_of(key[0], pools.of(key[0])) for key in state.zones.zones]
        grace = min((one.grace for one in settings if one.is_on), default=KEEPS.grace)
        tenants = tuple(
            TenantHarvest(tenant, row.settings.harvest)
            for tenant, row in sorted(state.queue.tenants.rows.items())
            if row.settings.harvest != USES_ALL
        )
        recalls = recalls_per_node_hour(state.image.harvest.pools.values(), now)
        return [HarvestOdds(self.region, router, recalls, grace, tenants) for router in self.routers]

    # Folding.

    def evolve(self, state: HarvesterState, fact: Fact) -> HarvesterState:
        """Fold a fact of the region or of the queue, or a note."""
        if fact.log == GLOBAL_LOG:
            state.queue.fold(fact)
            if isinstance(fact.event, TenantSet):
                state.tell_odds(fact.heard_at)
        elif fact.log != NO_LOG:
            self._fold_region(state, fact)
        else:
            self._evolve_note(state, fact)
        return state

    def _fold_region(self, state: HarvesterState, fact: Fact) -> None:
        nodes, harvested = touched_by(state.image.capacity, fact), state.image.harvest.touched_by(fact)
        state.image.fold(fact)
        state.sequence = fact.sequence
        now, event = fact.heard_at, fact.event
        match event:
            case NodesJoined(worker=worker, inventory=inventory):
                state.zones.join(inventory.groups)
                state.server(worker)
                state.servers_due.put(worker, now)
            case NodesPooled():
                state.zones.pool(nodes)
                for node in nodes:
                    state.seen.pop(node, None)
            case PoolChanged(pool=pool):
                state.settings_changed(pool, now)
                state.tell_odds(now)
            case HarvestReleased(parts=parts):
                for part in parts:
                    row = state.server(state.image.capacity.worker_of[part.node])
                    row.losses_told(part.node, part.lost, part.lost_span)
            case NodesReturned(worker=worker):
                state.ask_anew(worker, now)
        state.zones.update(nodes)
        state.zones.update(harvested)
        for node in nodes:
            state.see_node(node, now)
        for node in harvested:
            state.node_changed(node, now)

    def _evolve_note(self, state: HarvesterState, fact: Fact) -> None:
        match fact.event:
            case ZoneLooked() as looked:
                state.zone_looked(looked, fact.at)
            case ServersTold(servers):
                for server in servers:
                    state.told(server, fact.at)
            case ServerHeard(said):
                state.heard(said, fact.at)
            case OddsSaid():
                state.odds_at = after(fact.at, ODDS_INTERVAL)
            case ImageAdopted(_, image, sequence):
                self._adopt(state, image, sequence, fact.at)

    def _adopt(self, state: HarvesterState, image: Image, sequence: int, at: Instant) -> None:
        if isinstance(image, GlobalImage):
            state.queue = image
            state.odds_at = at
        else:
            assert isinstance(image, RegionImage)
            state.adopt(image, sequence, at)

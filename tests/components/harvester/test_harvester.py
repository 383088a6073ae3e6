"""What a harvester proposes of a region's free capacity, and what function servers and routers hear of it."""

from typing import Any

import pytest

from components.harvester.component import Harvester
from core.codec import encode
from core.component import Decision
from core.events.control import NodesClosed, NodesOpened
from core.events.harvest import HarvestOffered, HarvestRecalled, HarvestReleased
from core.events.pools import NodesPooled, PoolChanged
from core.events.region import AttemptEnded, CheckpointCommitted, GangStarted, NodesLost, NodesReturned
from core.events.tenants import TenantSet
from core.messages.harvest import (
    HarvestOdds,
    HarvestShown,
    NodeReleased,
    NodeSize,
    NodeUse,
    OfferHarvest,
    RecallHarvest,
    ReleaseHarvest,
    ServerSized,
    SizeServer,
    TenantHarvest,
)
from core.nouns.harvest import HarvestPart, HarvestSettings, HarvestUse, ReleasedPart, Why
from core.nouns.harvest_limits import (
    HARVEST_SAY_AGAIN,
    HARVESTED_OF_SERVER_MAX,
    ODDS_INTERVAL,
    SERVER_TRIED_AGAIN,
    SERVER_TRIES_MAX,
    SIZES_INTERVAL,
)
from core.nouns.ids import GLOBAL_LOG, TenantName, WorkerName
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.limits import MESSAGE_BYTES_MAX
from core.nouns.maintenance import ClosureKind
from core.nouns.placement import numbers_in
from core.nouns.pool import PoolSettings
from core.nouns.quantities import NOTHING, Amount
from core.nouns.tenant import TenantSettings
from core.nouns.workload import EndCause
from tests.builders import EU, EU_LOG, NODE, a_claim, attempt, granted, joined, promised
from tests.components.support.harvest import GRACE, OFF, ON, POOL, Start, a_harvester, gpus, show, sized
from tests.components.support.machine import Machine
from tests.matching import said, said_once

W1 = attempt("w-1")
AFTER = seconds(10)


def sizes(decision: Decision, kind: type[OfferHarvest | RecallHarvest] = OfferHarvest) -> dict[int, Amount]:
    """The sizes that are proposed, by node."""
    found: dict[int, Amount] = {}
    for message in said(decision, kind):
        for part in message.parts:
            found |= dict.fromkeys(numbers_in(part.nodes), part.size)
    return found


def offered(machine: Machine[Any], decision: Decision) -> None:
    """The store records the first proposal."""
    message = said(decision, OfferHarvest)[0]
    parts = tuple(HarvestPart(part.nodes, part.size, pool=POOL) for part in message.parts)
    machine.fact(EU_LOG, HarvestOffered(machine.state.image.harvest.revision + 1, parts, GRACE))


def recalled(machine: Machine[Any], decision: Decision) -> None:
    """The store records it."""
    message = said(decision, RecallHarvest)[0]
    machine.fact(EU_LOG, HarvestRecalled(machine.state.image.harvest.revision + 1, message.parts, Why.SET))


def all_offered(start: Start, settings: PoolSettings = ON) -> Machine[Any]:
    """What may be offered of four nodes is."""
    machine = a_harvester(start, settings)
    offered(machine, machine.wait(seconds(11)))
    machine.wake()
    sized(machine)
    return machine


def answered_at_once(machine: Machine[Any], span: Nanoseconds) -> Decision:
    """So much passes, in which the function server answers whatever it is told. Return all that was decided."""
    decisions = []
    for _ in range(span // SECOND):
        decisions.append(machine.wait(Nanoseconds(SECOND)))
        if told(decisions[-1]):
            sized(machine)
    return Decision(messages=tuple(message for one in decisions for message in one.messages))


def test_capacity_is_offered_once_it_was_calm_for_long_enough(start: Start) -> None:
    """In one proposal of runs, which is said again until the log shows it."""
    machine = a_harvester(start)
    assert {} == sizes(machine.wait(Nanoseconds(AFTER - 1)))
    decision = machine.wait(Nanoseconds(1))
    assert [OfferHarvest(EU, 0, (HarvestPart(((0, 3),), NODE),), 2)] == said(decision, OfferHarvest)
    assert dict.fromkeys(range(4), NODE) == sizes(machine.wait(HARVEST_SAY_AGAIN))
    offered(machine, decision)
    assert {} == sizes(machine.wait(seconds(60)))


def test_only_growth_begins_the_calm_anew(start: Start) -> None:
    """What a grant leaves was available before; what its end frees is not yet calm."""
    machine = a_harvester(start)
    machine.wait(seconds(9))
    machine.fact(EU_LOG, granted(a_claim("w-1", placed={0: 3})))
    assert {0: Amount(5_000, 64_000, NODE.memory_bytes)} == {
        node: size for node, size in sizes(machine.wait(seconds(1.5))).items() if node == 0
    }
    machine.fact(EU_LOG, AttemptEnded(*W1, EndCause.COMPLETED))
    assert 0 not in sizes(machine.wait(seconds(9)))
    assert NODE == sizes(machine.wait(seconds(1)))[0]


def test_partly_used_nodes_come_first(start: Start) -> None:
    """So that empty ones are left for those who need a whole node."""
    machine = a_harvester(start, PoolSettings(harvest=HarvestSettings(is_on=True, keep=15)))
    machine.fact(EU_LOG, granted(a_claim("w-1", placed={3: 4})))
    found = sizes(machine.wait(seconds(11)))
    assert {3: 4_000, 0: 8_000, 1: 1_000} == {node: size.gpu_milli for node, size in found.items()}


@pytest.mark.parametrize(
    ("settings", "devices"),
    [
        (PoolSettings(harvest=HarvestSettings(is_on=True, keep=10)), 22),
        (PoolSettings(limit=500, harvest=HarvestSettings(is_on=True)), 16),
        (PoolSettings(reserve=1, harvest=HarvestSettings(is_on=True)), 24),
        (PoolSettings(reserve=1, harvest=HarvestSettings(is_on=True, takes_reserve=True)), 32),
        (OFF, 0),
        (PoolSettings(), 0),
    ],
)
def test_settings_of_the_pool_bound_what_is_offered(
    start: Start, settings: PoolSettings, devices: int
) -> None:
    """What it keeps, its limit and its reserve; by themselves only the nodes of the pool `harvest` are."""
    machine = a_harvester(start, settings)
    assert 1_000 * devices == sum(size.gpu_milli for size in sizes(machine.wait(seconds(10.5))).values())


def test_closed_and_lost_nodes_are_not_offered(start: Start) -> None:
    """Nor promised ones; once open again, they have to be calm anew."""
    machine = a_harvester(start)
    machine.fact(
        EU_LOG,
        NodesClosed("d-1", ClosureKind.DRAIN, ((1, 1),), "old"),
        granted(a_claim("w-1", placed={2: 8})),
        promised(a_claim("w-2", placed={2: 8, 3: 2}, victims=(W1,))),
    )
    assert {0: 8_000, 3: 6_000} == {
        node: one.gpu_milli for node, one in sizes(machine.wait(seconds(10.5))).items()
    }
    machine.fact(EU_LOG, NodesOpened("d-1", ClosureKind.DRAIN, ((1, 1),)))
    assert 1 not in sizes(machine.wait(seconds(9.9)))
    assert NODE == sizes(machine.wait(seconds(1)))[1]
    machine.fact(EU_LOG, NodesLost(WorkerName("w0"), (0, 1, 2, 3)))
    assert {} == sizes(machine.wait(seconds(60)))
    machine.fact(EU_LOG, NodesReturned(WorkerName("w0"), (0, 1, 2, 3)))
    assert 0 in sizes(answered_at_once(machine, seconds(12)))


def test_nothing_is_offered_where_no_function_server_is_heard(start: Start) -> None:
    """Nobody would use it, or give it back. A server that comes late is asked as long as its worker is in the region."""
    machine = start(Harvester(EU, ("r0",)))
    machine.fact(EU_LOG, joined(), PoolChanged(POOL, ON))
    assert {} == sizes(machine.wait(seconds(600)))
    decision = machine.wait(SERVER_TRIED_AGAIN)
    assert 1 == len(told(decision))
    sized(machine)
    assert dict.fromkeys(range(4), NODE) == sizes(machine.wait(seconds(1)))


def test_server_of_a_machine_that_is_back_is_asked_at_once(start: Start) -> None:
    """A loss ends the harvest of its nodes, so nothing else would have the server told. Before it answers, nothing is offered."""
    machine = all_offered(start)
    machine.fact(EU_LOG, NodesLost(WorkerName("w0"), (0, 1, 2, 3)))
    machine.wait(seconds(120))
    machine.fact(EU_LOG, NodesReturned(WorkerName("w0"), (0, 1, 2, 3)))
    assert 1 == len(told(machine.wake()))
    assert {} == sizes(machine.wait(seconds(60)))
    assert dict.fromkeys(range(4), NODE) == sizes(answered_at_once(machine, seconds(40)))


def test_settings_that_change_recall(start: Start) -> None:
    """Turned off, all of it; with a larger keep as much as is missing, empty nodes with the highest numbers first."""
    machine = all_offered(start)
    machine.fact(EU_LOG, PoolChanged(POOL, PoolSettings(harvest=HarvestSettings(is_on=True, keep=11))))
    decision = machine.wait(seconds(0.5))
    assert {3: 0, 2: 5_000} == {node: size.gpu_milli for node, size in sizes(decision, RecallHarvest).items()}
    recalled(machine, decision)
    assert {} == sizes(machine.wait(seconds(2)), RecallHarvest)
    machine.fact(EU_LOG, PoolChanged(POOL, OFF))
    assert dict.fromkeys(range(3), NOTHING) == sizes(machine.wait(seconds(0.5)), RecallHarvest)


def test_pool_that_is_turned_off_recalls_what_tasks_lend(start: Start) -> None:
    """By attempt and node."""
    machine = a_harvester(start)
    lent = HarvestPart(((0, 0),), Amount(2_000), W1, POOL, 1)
    machine.fact(EU_LOG, granted(a_claim("w-1", placed={0: 2})), HarvestOffered(1, (lent,), GRACE))
    machine.fact(EU_LOG, PoolChanged(POOL, OFF))
    message = said(machine.wait(seconds(0.5)), RecallHarvest)[0]
    assert [HarvestPart(((0, 0),), NOTHING, W1)] == list(message.parts)


def test_new_grace_is_offered_at_once(start: Start) -> None:
    """With the same sizes."""
    machine = all_offered(start)
    machine.fact(
        EU_LOG, PoolChanged(POOL, PoolSettings(harvest=HarvestSettings(is_on=True, grace=seconds(5))))
    )
    assert dict.fromkeys(range(4), NODE) == sizes(machine.wait(seconds(0.5)))


def test_promise_recalls_nothing_elsewhere(start: Start) -> None:
    """Its grant recalls what it needs, where it needs it."""
    machine = all_offered(start)
    machine.fact(
        EU_LOG,
        granted(a_claim("w-1", placed={0: 8})),
        promised(a_claim("w-2", placed={0: 8, 1: 8}, victims=(W1,))),
    )
    assert {} == sizes(machine.wait(seconds(30)), RecallHarvest)


def test_node_that_goes_to_another_pool_is_judged_by_its_settings(start: Start) -> None:
    """And has to be calm there."""
    machine = a_harvester(start, PoolSettings())
    machine.fact(EU_LOG, NodesPooled(((1, 2),), "harvest"))
    assert {1: NODE, 2: NODE} == sizes(machine.wait(seconds(11)))


# Servers.


def told(decision: Decision) -> list[SizeServer]:
    """What function servers hear."""
    return said(decision, SizeServer)


def test_servers_hear_their_sizes_until_they_confirm(start: Start) -> None:
    """At each change, every second until they have heard, and now and then."""
    machine = a_harvester(start)
    offered(machine, machine.wait(seconds(11)))
    (message,) = told(machine.wake())
    assert ("w0", 1) == (message.server, message.revision)
    assert NodeSize(0, NODE, NODE, GRACE) == message.sizes[0]
    assert [0, 1, 2, 3] == [size.node for size in message.sizes]
    assert 3 == len(told(machine.wait(Nanoseconds(3 * HARVEST_SAY_AGAIN))))
    sized(machine)
    machine.wait(HARVEST_SAY_AGAIN)
    assert 2 == len(told(machine.wait(Nanoseconds(2 * SIZES_INTERVAL))))


def test_server_that_was_set_up_anew_hears_its_sizes_at_once(start: Start) -> None:
    """It says that it knows of none."""
    machine = all_offered(start)
    machine.wait(seconds(4))
    sized(machine, revision=0)
    assert 1 == len(told(machine.wake()))


def test_recalled_node_is_told_at_once_and_released_when_it_is_left(start: Start) -> None:
    """H-1: not before its server has heard of the recall, nor while executors are on devices that were recalled."""
    machine = all_offered(start)
    machine.fact(EU_LOG, granted(a_claim("w-1", placed={0: 6})))
    (message,) = told(machine.wake())
    assert (2_000, GRACE) == (message.sizes[0].size.gpu_milli, message.sizes[0].within)
    assert [] == said(sized(machine, {0: NOTHING}, revision=1), ReleaseHarvest)
    assert [] == said(sized(machine, {0: gpus(3)}), ReleaseHarvest)
    assert 1 <= len(told(machine.wait(HARVEST_SAY_AGAIN)))
    uses = (NodeUse(0, gpus(2), 1, seconds(4)),)
    release = said_once(machine.hear(ServerSized(EU, "w0", 2, uses)), ReleaseHarvest)
    assert (NodeReleased(0, 2, 1, seconds(4)),) == release.parts
    assert 1 == len(said(sized(machine, {0: gpus(2)}), ReleaseHarvest))
    machine.fact(EU_LOG, HarvestReleased((ReleasedPart(0, 2, seconds(1)),)))
    assert [] == said(sized(machine, {0: gpus(2)}), ReleaseHarvest)


def test_recalls_of_one_node_are_released_in_their_order(start: Start) -> None:
    """What was recalled later may still be in use."""
    machine = all_offered(start)
    machine.fact(EU_LOG, granted(a_claim("w-1", placed={0: 2})), granted(a_claim("w-2", placed={0: 4})))
    release = said_once(sized(machine, {0: gpus(5)}), ReleaseHarvest)
    assert (NodeReleased(0, 2),) == release.parts
    release = said_once(sized(machine, {0: gpus(2)}), ReleaseHarvest)
    assert (NodeReleased(0, 3),) == release.parts


def test_losses_are_told_once_whichever_recalls_are_over(start: Start) -> None:
    """H-8: with the next release of the node that is recorded, though the server counts anew at each recall, and a start has ended one."""
    machine = all_offered(start)

    def hears(left: int, lost: int, span: float) -> list[NodeReleased]:
        use = NodeUse(0, gpus(left), lost, seconds(span))
        words = ServerSized(EU, "w0", machine.state.image.harvest.revision, (use,))
        return [part for one in said(machine.hear(words), ReleaseHarvest) for part in one.parts]

    machine.fact(EU_LOG, granted(a_claim("w-1", placed={0: 2})))
    assert [] == hears(8, 1, 4)
    machine.fact(EU_LOG, granted(a_claim("w-2", placed={0: 3})))
    assert [NodeReleased(0, 2, 1, seconds(4))] == hears(6, 0, 0)
    assert [NodeReleased(0, 2, 2, seconds(6))] == hears(5, 1, 2)
    machine.fact(EU_LOG, HarvestReleased((ReleasedPart(0, 2, seconds(1), 2, seconds(6)),)))
    assert [] == hears(4, 2, 5)
    machine.fact(EU_LOG, GangStarted(*attempt("w-2")), granted(a_claim("w-3", placed={0: 1})))
    assert [NodeReleased(0, 4, 2, seconds(4))] == hears(2, 1, 1)


def test_server_that_was_never_heard_tells_of_the_recall_that_stands(start: Start) -> None:
    """Its older losses were told to the harvester before."""
    machine = all_offered(start)
    machine.fact(EU_LOG, granted(a_claim("w-1", placed={0: 2})))
    again = machine.restart()
    again.wake()
    uses = (NodeUse(0, gpus(6), 1, seconds(4)), NodeUse(1, gpus(8), 3, seconds(9)))
    release = said_once(again.hear(ServerSized(EU, "w0", 2, uses)), ReleaseHarvest)
    assert (NodeReleased(0, 2, 1, seconds(4)),) == release.parts
    again.fact(EU_LOG, NodesClosed("d-1", ClosureKind.DRAIN, ((1, 1),), "old"))
    uses = (NodeUse(0, gpus(6), 1, seconds(4)), NodeUse(1, NOTHING, 4, seconds(10)))
    release = said_once(again.hear(ServerSized(EU, "w0", 3, uses)), ReleaseHarvest)
    assert NodeReleased(1, 3, 1, seconds(1)) in release.parts


def test_sizes_of_many_nodes_that_tasks_lend_are_cut(start: Start) -> None:
    """To as many as one message holds, the first first: with free ones, for which there is a limit too."""
    machine = start(Harvester(EU, ("r0",)))
    count = HARVESTED_OF_SERVER_MAX + 10
    parts = (HarvestPart(((0, count - 1),), gpus(2), W1, POOL, 1),)
    placed = dict.fromkeys(range(count), 2)
    machine.fact(
        EU_LOG, joined("w0", 0, count), PoolChanged(POOL, ON), granted(a_claim("w-1", placed=placed))
    )
    machine.fact(EU_LOG, HarvestOffered(1, parts, GRACE))
    (message,) = told(machine.wake())
    assert list(range(HARVESTED_OF_SERVER_MAX)) == [size.node for size in message.sizes]
    assert len(encode(message)) < MESSAGE_BYTES_MAX
    sized(machine)
    machine.fact(EU_LOG, NodesClosed("d-1", ClosureKind.DRAIN, ((0, 4),), "old"))
    machine.fact(EU_LOG, HarvestReleased(tuple(ReleasedPart(node, 2, seconds(1)) for node in range(5))))
    (message,) = told(machine.wait(seconds(1)))[-1:]
    assert list(range(5, HARVESTED_OF_SERVER_MAX + 5)) == [size.node for size in message.sizes]


def test_cores_are_given_back_at_once(start: Start) -> None:
    """Executors go on more slowly; only the end of a node's harvest ends them."""
    machine = all_offered(start)
    machine.fact(EU_LOG, granted(a_claim("w-1", placed={0: 2})))
    assert 1 == len(said(sized(machine, {0: Amount(6_000, 64_000)}), ReleaseHarvest))
    machine.fact(EU_LOG, NodesClosed("d-1", ClosureKind.DRAIN, ((1, 1),), "old"))
    release = said_once(sized(machine, {1: Amount(0, 1_000)}), ReleaseHarvest)
    assert [0] == [part.node for part in release.parts]


def test_unconfirmed_node_is_released_once_its_server_is_heard(start: Start) -> None:
    """Then it may be offered again, once it is calm."""
    machine = all_offered(start)
    machine.fact(EU_LOG, NodesClosed("d-1", ClosureKind.DRAIN, ((0, 0),), "old"))
    machine.fact(EU_LOG, HarvestReleased((ReleasedPart(0, 2, seconds(35), is_confirmed=False),)))
    machine.fact(EU_LOG, NodesOpened("d-1", ClosureKind.DRAIN, ((0, 0),)))
    assert {} == sizes(machine.wait(seconds(30)))
    release = said_once(sized(machine), ReleaseHarvest)
    assert (NodeReleased(0, 2),) == release.parts
    machine.fact(EU_LOG, HarvestReleased((ReleasedPart(0, 2, Nanoseconds(0)),)))
    assert {0: NODE} == sizes(machine.wait(seconds(11)))


def test_server_that_says_what_cannot_be_is_ignored(start: Start) -> None:
    """Of another's node, less than nothing, of a revision to come, and of a worker that there is not."""
    machine = all_offered(start)
    for words in (
        ServerSized(EU, "w0", 1, (NodeUse(9, NOTHING),)),
        ServerSized(EU, "w0", 1, (NodeUse(-1, NOTHING),)),
        ServerSized(EU, "w0", 1, (NodeUse(0, Amount(-1)),)),
        ServerSized(EU, "w0", 1, (NodeUse(0, NOTHING, -1),)),
        ServerSized(EU, "w0", 99, ()),
        ServerSized(EU, "w9", 1, ()),
    ):
        assert Decision() == machine.hear(words), words


def test_silent_server_is_told_ever_less_often_and_offered_nothing(start: Start) -> None:
    """Until it is heard."""
    machine = all_offered(start)
    machine.fact(EU_LOG, granted(a_claim("w-1", placed={0: 8})))
    assert SERVER_TRIES_MAX <= len(told(machine.wait(Nanoseconds(20 * HARVEST_SAY_AGAIN)))) < 15
    assert 2 == len(told(machine.wait(Nanoseconds(2 * SERVER_TRIED_AGAIN))))
    machine.fact(
        EU_LOG, AttemptEnded(*W1, EndCause.COMPLETED), HarvestReleased((ReleasedPart(0, 2, seconds(1)),))
    )
    assert {} == sizes(machine.wait(seconds(30)))
    sized(machine)
    assert {0: NODE} == sizes(machine.wait(seconds(1)))


# Routers.


def test_routers_hear_no_odds_before_the_tenants_are_known(start: Start) -> None:
    """H-9: a tenant that said `none` would seem to take all. Routers that hear nothing send nothing to harvested capacity."""
    careful = TenantSet(TenantName("ml"), 1, TenantSettings(harvest=HarvestUse(is_on=False)))
    machine = start(Harvester(EU, ("r0",)), unknown=(GLOBAL_LOG,))
    machine.fact(EU_LOG, joined(), PoolChanged(POOL, ON))
    assert [] == said(machine.wait(seconds(60)), HarvestOdds)
    machine.adopt(GLOBAL_LOG, careful)
    (odds,) = said(machine.wake(), HarvestOdds)
    assert (TenantHarvest(TenantName("ml"), HarvestUse(is_on=False)),) == odds.tenants


def test_routers_hear_the_odds_at_changes_and_now_and_then(start: Start) -> None:
    """With the shortest grace, and the tenants that want less."""
    machine = a_harvester(start)
    assert 2 == len(said(machine.wait(Nanoseconds(2 * ODDS_INTERVAL)), HarvestOdds))
    bounded = HarvestUse(risk_max=1_000)
    machine.fact(GLOBAL_LOG, TenantSet(TenantName("ml"), 1, TenantSettings(harvest=bounded)))
    machine.fact(GLOBAL_LOG, TenantSet(TenantName("web"), 1, TenantSettings()))
    odds = said_once(machine.wake(), HarvestOdds)
    assert ((TenantHarvest(TenantName("ml"), bounded),), "r0", GRACE) == (
        odds.tenants,
        odds.router,
        odds.grace,
    )
    assert 41_667 == odds.recalls
    machine.fact(
        EU_LOG, PoolChanged("harvest", PoolSettings(harvest=HarvestSettings(is_on=True, grace=seconds(2))))
    )
    machine.fact(EU_LOG, NodesPooled(((1, 1),), "harvest"))
    machine.fact(EU_LOG, PoolChanged("service", PoolSettings()))
    assert seconds(2) == said_once(machine.wake(), HarvestOdds).grace


def test_operators_see_what_is_harvested(start: Start) -> None:
    """By pool: offered, used, recalled, how soon it came back, and what is unconfirmed."""
    machine = all_offered(start)
    machine.fact(EU_LOG, granted(a_claim("w-1", placed={0: 4, 1: 8})))
    sized(machine, {0: gpus(6), 2: gpus(1)})
    unconfirmed = ReleasedPart(1, 2, seconds(35), is_confirmed=False)
    machine.fact(EU_LOG, HarvestReleased((ReleasedPart(0, 2, seconds(3), 1, seconds(9)), unconfirmed)))
    shown = said_once(show(machine), HarvestShown)
    (row,) = shown.pools
    assert (POOL, True, 3, 1) == (row.pool, row.is_on, row.nodes, shown.servers)
    assert (20_000, 7_000, 0) == (row.offered.gpu_milli, row.used.gpu_milli, row.recalled.gpu_milli)
    assert (2, 1, seconds(9), (1,)) == (row.recalls, row.lost, row.lost_span, row.unconfirmed)
    assert (seconds(3), seconds(35), GRACE) == (row.reclaim_p50, row.reclaim_p99, row.grace)
    assert shown.recalls_per_node_hour > 41_667


# Cost.


def test_fact_costs_nothing_where_it_touches_no_node(start: Start) -> None:
    """Nothing is due for it."""
    machine = a_harvester(start, PoolSettings(harvest=HarvestSettings(is_on=True, keep=9)))
    machine.fact(EU_LOG, granted(a_claim("w-1", placed={0: 1})))
    offered(machine, machine.wait(seconds(11)))
    sized(machine)
    machine.wait(seconds(30))
    before = machine.component.due(machine.state)
    machine.fact(EU_LOG, GangStarted(*W1), CheckpointCommitted(*W1, 7))
    assert before == machine.component.due(machine.state)

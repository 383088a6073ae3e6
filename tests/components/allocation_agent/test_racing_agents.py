"""Sixteen agents over one store, each behind the log: whatever they claim at once, what the store grants keeps every rule."""

import random
from collections import Counter

import pytest
from msgspec.structs import replace

from bench.support.agents.lagging import EAST, Asked, Crowd
from core.events.region import ClaimGranted
from core.images import RegionImage
from core.invariants.consistency import check_ledger, check_region_fact
from core.messages.nodes import DrainNodes
from core.messages.pools import SetPool
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import WorkerName
from core.nouns.limits import CLAIM_TRIES_MAX
from core.nouns.maintenance import Scope, ScopeKind
from core.nouns.pool import PoolSettings
from core.nouns.workload import Extent, Kind, Topology
from core.placing.index.owners import Owners
from tests.builders import NODE, a_job

AGENTS = 16
POOL = "training"


def inventories(nodes: int = 32, a_rack: int = 4) -> list[Inventory]:
    """One worker with so many nodes of 8 GPUs, four in a rack, in one pool."""
    group = NodeGroup(0, nodes, NODE, "H100", 0, a_rack, zone="zone-0", pool=POOL)
    return [Inventory(WorkerName("w0"), (group,))]


def a_crowd(nodes: int = 32, *, lag: int = 24) -> Crowd:
    """Agents that all want the same nodes."""
    return Crowd(inventories(nodes), agents=AGENTS, lag=lag, stripes=False)


def verdicts(crowd: Crowd) -> Counter[str]:
    """Return the number of claims by the store's verdict."""
    return Counter(verdict for _, verdict, _ in crowd.claims)


def drawn(dice: random.Random) -> Asked:
    """Anything: parts of GPUs, whole ones, gangs, tenants who share with nobody, services in part, more and less urgent."""
    gpus, tasks = dice.choice((0.4, 0.6, 1, 2, 4, 8)), dice.choice((1, 1, 1, 2, 3, 6))
    kind = dice.choice((Kind.TRAINING, Kind.BATCH, Kind.SERVICE))
    job = replace(a_job(tasks, gpus), is_alone=dice.random() < 0.1)
    return Asked(
        (job,),
        dice.choice((1, 3, 5)),
        kind,
        dice.choice(("ada", "bob")),
        is_incremental=kind is Kind.SERVICE,
    )


def end_some(crowd: Crowd, dice: random.Random, share: float = 0.3) -> None:
    """So many of what runs ends, and whoever waits for victims has them told to."""
    for workload, epoch, _ in crowd.capacity.live():
        if epoch == 1 and dice.random() < share:
            crowd.end(workload)


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_granted_against_a_rule(seed: int) -> None:
    """P3, T1, T4, T6: the auditor finds nothing in what sixteen racing agents were granted: no node has more than it is, each
    hard rule is kept at each grant, and every claim came to an end within its tries.
    """
    dice, crowd = random.Random(seed), a_crowd()
    for _ in range(6):
        crowd.place(*(drawn(dice) for _ in range(AGENTS)))
        end_some(crowd, dice)
    crowd.catch_up()
    found = verdicts(crowd)
    assert min(found["granted"], found["conflict"]) > 10, found
    image, owners = RegionImage.empty(), Owners()
    for fact in crowd.facts:
        assert [] == check_region_fact(EAST, fact, image, None, owners), fact
        image.fold(fact)
        owners = Owners.of(image.capacity)
    assert [] == check_ledger(crowd.capacity)
    tries = Counter((claim.workload, claim.epoch) for claim, _, _ in crowd.claims)
    assert max(tries.values()) <= CLAIM_TRIES_MAX
    assert not any(agent.state.claims for agent in crowd.agents)


def test_log_is_the_state() -> None:
    """P4: sequences grow by one, and the log folded anew is the store's image, bit for bit; so is what each agent has folded."""
    dice, crowd = random.Random(5), a_crowd(16)
    for _ in range(3):
        crowd.place(*(drawn(dice) for _ in range(AGENTS)))
        end_some(crowd, dice)
    crowd.catch_up()
    again = RegionImage.empty()
    for number, fact in enumerate(crowd.facts, 1):
        assert number == fact.sequence
        again.fold(fact)
    assert crowd.state.image.digest() == again.digest()
    for agent in crowd.agents:
        assert again.capacity.gpu.free == agent.state.image.capacity.gpu.free


def test_two_that_fit_together_are_both_granted() -> None:
    """P18, L2: sixteen of half a GPU each, all chosen on one old view of the same node, are sixteen grants, fifteen of them merged."""
    crowd = Crowd(inventories(1), agents=AGENTS, lag=100, stripes=False)
    crowd.place(*(Asked((a_job(1, 0.5),)) for _ in range(AGENTS)))
    assert {"granted": AGENTS} == verdicts(crowd)
    assert [False] + [True] * 15 == [event.is_merged for event in crowd.recorded(ClaimGranted)]


def test_race_for_the_last_nodes_leaves_the_reserve() -> None:
    """P23: none of the agents' own views shows the reserve broken, and all claims together would: the store grants what the
    reserve leaves and no more; healing work takes it.
    """
    crowd = a_crowd(8)
    crowd.say(SetPool(EAST, POOL, PoolSettings(reserve=2), 0, "olga"))
    crowd.catch_up()
    crowd.place(*(Asked((a_job(1, 1),), kind=Kind.TRAINING, tenant=f"t{n}") for n in range(AGENTS)))
    crowd.place(*(Asked((a_job(1, 8),)) for _ in range(AGENTS)))
    used = [held for held in crowd.capacity.gpu.held if held]
    assert 6 == len(used)
    assert verdicts(crowd)["conflict"]
    crowd.catch_up()
    crowd.place(*(Asked((a_job(1, 8),), is_healing=True) for _ in range(2)))
    assert 8 == sum(held > 0 for held in crowd.capacity.gpu.held)


def test_race_up_to_the_limit() -> None:
    """P24: each agent sees room for its claim under the limit, and all together are over it: the store stops at it; two points
    more admit just what they are.
    """
    crowd = a_crowd(25)
    crowd.say(SetPool(EAST, POOL, PoolSettings(limit=500), 0, "olga"))
    crowd.catch_up()
    for _ in range(10):
        crowd.place(*(Asked((a_job(1, 1),)) for _ in range(AGENTS)))
    assert 100_000 == sum(crowd.capacity.gpu.held)
    crowd.say(SetPool(EAST, POOL, PoolSettings(limit=520), 1, "olga"))
    crowd.catch_up()
    crowd.place(*(Asked((a_job(1, 1),)) for _ in range(AGENTS)))
    assert 104_000 == sum(crowd.capacity.gpu.held)


def test_drained_node_gets_nothing_from_old_views() -> None:
    """P5: agents that have not heard of a drain claim its nodes, and are refused from the drain's sequence on."""
    crowd = a_crowd(2)
    drained = DrainNodes(EAST, Scope(ScopeKind.NODE, ("0",)), "", 0, 0)
    crowd.say(drained)
    sequence = len(crowd.facts)
    crowd.place(*(Asked((a_job(1, 1),)) for _ in range(8)))
    grants = [fact.event for fact in crowd.facts[sequence:] if isinstance(fact.event, ClaimGranted)]
    assert {1} == {node for event in grants for spread in event.claim.spreads for node in spread.nodes}
    assert verdicts(crowd)["conflict"]


def test_replicas_keep_to_their_racks() -> None:
    """P26, T5: services that race are spread over racks as evenly as a service alone is, for the store grants only the nodes that
    the agent chose; and tasks that must lie in one rack all do.
    """
    crowd = a_crowd(64)
    spread = replace(a_job(8, 1), topology=Topology(spread=Extent.RACK))
    packed = replace(a_job(4, 4), topology=Topology(pack=Extent.RACK))
    crowd.place(
        *(Asked((spread,), kind=Kind.SERVICE) for _ in range(8)), *(Asked((packed,)) for _ in range(8))
    )
    racks = {
        claim.workload: Counter(
            crowd.capacity.rack[node]
            for one in claim.spreads
            for node, tasks in zip(one.nodes, one.tasks, strict=True)
            for _ in range(tasks)
        )
        for claim in (event.claim for event in crowd.recorded(ClaimGranted))
    }
    services = [counts for name, counts in racks.items() if int(name[2:]) <= 8]
    gangs = [counts for name, counts in racks.items() if int(name[2:]) > 8]
    assert [8] * 8 == [len(counts) for counts in services]
    assert [1] * 8 == [len(counts) for counts in gangs]


def test_agent_counts_its_grants_until_the_log_shows_them() -> None:
    """P21, L3: an agent that was answered before it received the fact does not choose the same capacity for its next claim."""
    crowd = Crowd(inventories(4), agents=1, lag=1_000)
    for _ in range(4):
        crowd.place(Asked((a_job(1, 8),)))
    assert {"granted": 4} == verdicts(crowd)
    (agent,) = crowd.agents
    assert 4 == len(agent.state.overlay.keys())
    crowd.catch_up()
    assert () == agent.state.overlay.keys()


def test_agent_counts_its_promises_until_the_log_shows_them() -> None:
    """P25: a promise over victims is reserved by the log itself from its fact on, and is not counted a second time."""
    crowd = Crowd(inventories(1), agents=1, lag=1_000)
    crowd.place(Asked((a_job(1, 8),), priority=1))
    crowd.catch_up()
    crowd.place(Asked((a_job(1, 8),), priority=5))
    assert {"granted": 1, "promised": 1} == verdicts(crowd)
    (agent,) = crowd.agents
    assert 1 == len(agent.state.overlay.keys())
    crowd.catch_up()
    assert () == agent.state.overlay.keys()


@pytest.mark.parametrize(
    ("topology", "racks"),
    [
        pytest.param(Topology(spread=Extent.RACK), [3, 3, 2, 2], id="spread"),
        pytest.param(Topology(), [3, 3, 2, 2], id="a service that says nothing"),
        pytest.param(Topology(pack=Extent.RACK), [10], id="pinned to one rack"),
        pytest.param(Topology(zones=("zone-1",)), [5, 5], id="pinned to a zone"),
        pytest.param(Topology(spread=Extent.RACK, zones=("zone-1",)), [5, 5], id="spread in a zone"),
    ],
)
def test_spread_is_even_unless_it_is_pinned(topology: Topology, racks: list[int]) -> None:
    """T5, P26: ten replicas over four racks of two zones; a pin overrides that, and what is left of it is spread again."""
    halves = [
        NodeGroup(4 * half, 4, NODE, "H100", 2 * half, 2, zone=f"zone-{half}", pool=POOL) for half in (0, 1)
    ]
    crowd = Crowd([Inventory(WorkerName("w0"), tuple(halves))], agents=2)
    crowd.place(Asked((replace(a_job(10, 1), topology=topology),), kind=Kind.SERVICE))
    (granted,) = crowd.recorded(ClaimGranted)
    (spread,) = granted.claim.spreads
    found: Counter[int] = Counter()
    for node, tasks in zip(spread.nodes, spread.tasks, strict=True):
        found[crowd.capacity.rack[node]] += tasks
    assert racks == sorted(found.values(), reverse=True)
    if topology.zones:
        assert {4, 5, 6, 7} >= set(spread.nodes)

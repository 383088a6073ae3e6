"""Tasks that are to be spread and lie together: the store grants that only where their agent could see no room elsewhere."""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from bench.support.agents.lagging import EAST, Asked, Crowd
from components.allocation_agent.component import AllocationAgent
from core.component import Decision
from core.events.region import ClaimGranted
from core.fact import Note
from core.messages.agents import ClaimAnswered, PlaceAward
from core.messages.base import Envelope, Message
from core.messages.nodes import DrainNodes
from core.messages.pools import SetPool
from core.messages.store import SubmitClaim
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import AttemptKey, TenantName, WorkerName, WorkloadId
from core.nouns.maintenance import Scope, ScopeKind
from core.nouns.placement import Claim, NodeRow, Spread, View
from core.nouns.pool import PoolSettings
from core.nouns.reasons import Reason
from core.nouns.workload import Extent, JobSpec, Kind, Topology
from tests.builders import NODE, a_claim, a_job, amount

POOL = "training"
SIX_RACKS = (
    NodeGroup(0, 4, NODE, "H100", 0, 2, zone="a"),  # racks 0 and 1 of pod 0
    NodeGroup(4, 4, NODE, "H100", 16, 2, zone="b"),  # racks 16 and 17 of pod 1
    NodeGroup(8, 2, NODE, "A100", 32, 2, zone="b"),
    NodeGroup(10, 2, NODE, "H100", 33, 2, zone="b", pool="free"),
)
ONE_EACH, TWO_TOGETHER = {0: 1, 2: 1, 4: 1}, {0: 2, 2: 1}
GRANTED, CROWDED = ("granted", ""), ("conflict", Reason.CROWDED)
Parts = dict[str, Any]  # Any: fields of a view


def a_region(make: type[AllocationAgent] = AllocationAgent) -> Crowd:
    """One agent, four racks of one type and pool in two zones, and two racks of others."""
    return Crowd([Inventory(WorkerName("w0"), SIX_RACKS)], agents=1, make=make)


def spread_over(tasks: int, extent: Extent = Extent.RACK, gpus: float = 1, **more: Any) -> JobSpec:
    """Tasks that ask to be spread."""
    return replace(a_job(tasks, gpus), topology=Topology(spread=extent, **more))


def fill(crowd: Crowd, *nodes: int, gpus: float = 8) -> WorkloadId:
    """Somebody has so much of each of these."""
    placed = dict.fromkeys(nodes, 1)
    award = crowd.award(Asked(()))
    made = a_claim(award.workload, placed=placed, gpus=gpus, award_sequence=award.award_sequence, region=EAST)
    (answer,) = crowd.say(SubmitClaim(EAST, made))
    assert isinstance(answer, ClaimAnswered)
    assert "granted" == answer.verdict
    return award.workload


def judged(
    crowd: Crowd, job: JobSpec, placed: dict[int, int], kind: Kind = Kind.TRAINING, **view: Any
) -> ClaimAnswered:
    """What the store says of a claim of one job, chosen on all that it has recorded, unless the view says otherwise."""
    nodes = tuple(sorted(placed))
    made = a_claim(jobs=(job,), spreads=(Spread(nodes, tuple(placed[node] for node in nodes)),), kind=kind)
    return said_of(crowd, made, **view)


def said_of(crowd: Crowd, made: Claim, **view: Any) -> ClaimAnswered:
    """The same of any claim."""
    award = crowd.award(Asked(()))
    seen = View(len(crowd.facts), settings_revision=crowd.state.image.pools.revision)
    made = replace(made, region=EAST, workload=award.workload, award_sequence=award.award_sequence)
    (answer,) = crowd.say(SubmitClaim(EAST, replace(made, view=replace(seen, **view))))
    assert isinstance(answer, ClaimAnswered)
    return answer


def words(answer: ClaimAnswered) -> tuple[str, str]:
    """The verdict and the reason."""
    return answer.verdict, answer.reason


@pytest.mark.parametrize(
    ("job", "placed", "kind", "found"),
    [
        pytest.param(spread_over(3), ONE_EACH, Kind.TRAINING, GRANTED, id="one in each rack"),
        pytest.param(spread_over(3), TWO_TOGETHER, Kind.TRAINING, CROWDED, id="two in one rack"),
        pytest.param(spread_over(3), {0: 1, 1: 1, 2: 1}, Kind.TRAINING, CROWDED, id="on two nodes of it"),
        pytest.param(spread_over(5), {0: 2, 2: 1, 4: 1, 6: 1}, Kind.TRAINING, GRANTED, id="all racks"),
        pytest.param(a_job(3), TWO_TOGETHER, Kind.SERVICE, CROWDED, id="a service that says nothing"),
        pytest.param(a_job(3), TWO_TOGETHER, Kind.TRAINING, GRANTED, id="a gang that says nothing"),
        pytest.param(
            replace(a_job(2), topology=Topology(pack=Extent.RACK)),
            {0: 2},
            Kind.SERVICE,
            GRANTED,
            id="a service in one rack",
        ),
        pytest.param(spread_over(2, Extent.POD), {0: 1, 2: 1}, Kind.TRAINING, CROWDED, id="one pod"),
        pytest.param(spread_over(2, Extent.POD), {0: 1, 4: 1}, Kind.TRAINING, GRANTED, id="two pods"),
        pytest.param(spread_over(2, Extent.ZONE), {4: 1, 6: 1}, Kind.TRAINING, CROWDED, id="one zone"),
        pytest.param(spread_over(3, Extent.ZONE), {0: 1, 4: 2}, Kind.TRAINING, GRANTED, id="both zones"),
        pytest.param(
            spread_over(3, pack=Extent.ZONE), {0: 2, 2: 1}, Kind.TRAINING, GRANTED, id="all of one zone"
        ),
        pytest.param(spread_over(2, pack=Extent.ZONE), {0: 2}, Kind.TRAINING, CROWDED, id="half of one zone"),
        pytest.param(spread_over(2, zones=("a",)), {0: 1, 2: 1}, Kind.TRAINING, GRANTED, id="its only zone"),
    ],
)
def test_spread_is_checked_again(
    job: JobSpec, placed: dict[int, int], kind: Kind, found: tuple[str, str]
) -> None:
    """P26: no two tasks in one rack (pod, zone) while another has room, and the row of a node that has some is told."""
    crowd = a_region()
    answer = judged(crowd, job, placed, kind)
    assert found == words(answer)
    if found == CROWDED:
        (row,) = answer.rows
        assert row == crowd.capacity.node_row(row.node)
        assert row.node not in placed


def all_full(crowd: Crowd) -> Parts:
    """By others who came first."""
    fill(crowd, 4, 5, 6, 7)
    return {}


def came_free(crowd: Crowd) -> Parts:
    """After the view."""
    workload = fill(crowd, 4, 5, 6, 7)
    seen = len(crowd.facts)
    crowd.end(workload)
    return {"sequence": seen}


def offered_elsewhere(_: Crowd) -> Parts:
    """By the agent itself."""
    return {"learnt": tuple(NodeRow(node, amount(), is_open=True) for node in (4, 5, 6, 7))}


def drained(crowd: Crowd) -> Parts:
    """All nodes of the other racks."""
    for number, node in enumerate("4567"):
        crowd.say(DrainNodes(EAST, Scope(ScopeKind.NODE, (node,)), "", number, 0))
    return {}


def somebody_is_alone(crowd: Crowd) -> Parts:
    """A tenant who shares nodes with nobody has a little of each."""
    job = replace(a_job(4, 1), is_alone=True)
    made = a_claim(jobs=(job,), spreads=(Spread((4, 5, 6, 7), (1, 1, 1, 1)),))
    assert "granted" == said_of(crowd, replace(made, tenant=TenantName("bob"))).verdict
    return {}


def kept_in_reserve(crowd: Crowd) -> Parts:
    """The nodes that are empty."""
    fill(crowd, 0, 2, gpus=1)
    crowd.say(SetPool(EAST, POOL, PoolSettings(reserve=1), 0, "olga"))
    return {}


def limited(crowd: Crowd) -> Parts:
    """What an agent sees then, the store does not know."""
    crowd.say(SetPool(EAST, POOL, PoolSettings(limit=900), 0, "olga"))
    return {}


def set_since(crowd: Crowd) -> Parts:
    """The pool kept something when the agent looked."""
    crowd.say(SetPool(EAST, POOL, PoolSettings(reserve=1), 0, "olga"))
    crowd.say(SetPool(EAST, POOL, PoolSettings(), 1, "olga"))
    return {"settings_revision": 1}


def ahead(crowd: Crowd) -> Parts:
    """Of a log that the store has lost."""
    return {"sequence": len(crowd.facts) + 1}


def of_part(_: Crowd) -> Parts:
    """More nodes were other than the log shows them than it names."""
    return {"is_whole": False}


@pytest.mark.parametrize(
    "scene",
    [
        all_full,
        came_free,
        offered_elsewhere,
        drained,
        somebody_is_alone,
        kept_in_reserve,
        limited,
        set_since,
        ahead,
        of_part,
    ],
)
def test_agent_is_not_blamed_for_facts_beyond_its_view(scene: Callable[[Crowd], Parts]) -> None:
    """P26, P3: a view that is merely old is never refused for it, nor is capacity that is kept from a claim counted as free."""
    crowd = a_region()
    view = scene(crowd)
    assert GRANTED == words(judged(crowd, spread_over(3), TWO_TOGETHER, **view))


def used_in_part(crowd: Crowd) -> Parts:
    """A reserve keeps nodes that are empty, and no others."""
    kept_in_reserve(crowd)
    fill(crowd, 4, gpus=1)
    return {}


def one_node_is_old_news(crowd: Crowd) -> Parts:
    """The others have changed since."""
    seen = len(crowd.facts)
    fill(crowd, 5, 6, 7, gpus=1)
    return {"sequence": seen}


def one_is_open(crowd: Crowd) -> Parts:
    """The only node with room."""
    fill(crowd, 5, 6, 7)
    return {}


@pytest.mark.parametrize("scene", [used_in_part, one_node_is_old_news, one_is_open])
def test_one_node_is_enough(scene: Callable[[Crowd], Parts]) -> None:
    """P26: what the agent could see of one rack speaks against it, whatever happened in others."""
    crowd = a_region()
    view = scene(crowd)
    answer = judged(crowd, spread_over(3), TWO_TOGETHER, **view)
    assert (CROWDED, [4]) == (words(answer), [row.node for row in answer.rows])


@pytest.mark.parametrize(("gpus", "found"), [(4, CROWDED), (5, GRANTED)])
def test_other_jobs_of_the_claim_take_capacity(gpus: int, found: tuple[str, str]) -> None:
    """P26: capacity is what one task more would find beside all that the claim itself puts there."""
    crowd = a_region()
    fill(crowd, 4, 5, 6, 7)
    jobs = (spread_over(2, gpus=4), replace(a_job(2, gpus), name="cache"))
    made = a_claim(jobs=jobs, spreads=(Spread((0,), (2,)), Spread((2, 3), (1, 1))))
    assert found == words(said_of(crowd, made))


class Crowding(AllocationAgent):
    """Its first claim puts all tasks of a job on one node, whatever their topology."""

    def _claimed(
        self,
        asked: PlaceAward,
        envelope: Envelope,
        spreads: tuple[Spread, ...],
        victims: tuple[AttemptKey, ...],
        view: View,
        *notes: Note,
    ) -> Decision:
        together = tuple(Spread(one.nodes[:1], (sum(one.tasks),)) for one in spreads)
        return super()._claimed(asked, envelope, together, victims, view, *notes)


def test_agent_that_did_not_spread_tries_again() -> None:
    """P26: it is answered as of any conflict, nothing is closed for it, and what is granted is spread."""
    crowd = a_region(Crowding)
    crowd.place(Asked((spread_over(4),)))
    assert {"conflict": 1, "granted": 1} == Counter(verdict for _, verdict, _ in crowd.claims)
    (granted,) = crowd.recorded(ClaimGranted)
    (spread,) = granted.claim.spreads
    assert 4 == len({crowd.capacity.rack[node] for node in spread.nodes})
    assert {} == crowd.capacity.closures


class Listening(Crowd):
    """It counts why claims were not granted."""

    def __init__(self, *args: Any, **parts: Any) -> None:
        self.reasons: Counter[str] = Counter()
        super().__init__(*args, **parts)

    def say(self, message: Message) -> tuple[Message, ...]:
        answers = super().say(message)
        self.reasons.update(answer.reason for answer in answers if isinstance(answer, ClaimAnswered))
        return answers


def drawn(dice: random.Random) -> Asked:
    """Jobs that lie together, are spread, or both, alone or two of them."""
    pack, spread = dice.choice(
        (
            (Extent.ANY, Extent.RACK),
            (Extent.ANY, Extent.POD),
            (Extent.ANY, Extent.ZONE),
            (Extent.ZONE, Extent.RACK),
        )
    )
    jobs = tuple(
        replace(
            spread_over(dice.choice((2, 3, 5, 9)), spread, dice.choice((0.4, 1, 2)), pack=pack),
            name=name,
            is_alone=dice.random() < 0.07,
        )
        for name in dice.choice((("main",), ("main", "cache")))
    )
    kind = dice.choice((Kind.TRAINING, Kind.SERVICE))
    return Asked(jobs, dice.choice((1, 3, 5)), kind, dice.choice(("ada", "bob")), dice.random() < 0.1)


@pytest.mark.parametrize("seed", range(3))
def test_agents_that_race_are_never_told_so(seed: int) -> None:
    """P26, P3: however old their views, while room comes and goes, nodes close, and pools keep more or less of it."""
    dice = random.Random(seed)
    crowd = Listening([Inventory(WorkerName("w0"), SIX_RACKS)], agents=8, lag=24)
    for turn in range(6):
        crowd.place(*(drawn(dice) for _ in range(8)))
        for workload, epoch, _ in crowd.capacity.live():
            if epoch == 1 and dice.random() < 0.5:
                crowd.end(workload)
        kept = PoolSettings(reserve=dice.choice((0, 1)), limit=dice.choice((1_000, 800)))
        crowd.say(SetPool(EAST, POOL, kept, crowd.state.image.pools.revision, "olga"))
        crowd.say(DrainNodes(EAST, Scope(ScopeKind.NODE, (str(turn),)), "", turn, 0))
    assert min(crowd.reasons[""], crowd.reasons[Reason.CONFLICT]) > 10, crowd.reasons
    assert 0 == crowd.reasons[Reason.CROWDED]

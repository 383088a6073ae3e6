"""A region's log tells what functions may use, and an owner has its capacity back within the fact that needs it."""

import random
from copy import deepcopy
from typing import Any

import pytest
from msgspec.structs import replace

from core.events.control import ClaimRevised, DomainLost, NodesClosed, TasksUp
from core.events.harvest import HarvestOffered, HarvestRecalled, HarvestReleased
from core.events.pools import NodesPooled, PoolChanged
from core.events.region import AttemptEnded, GangStarted, NodesJoined, NodesLost, StopOrdered
from core.fact import Event, Fact
from core.images import RegionImage
from core.images.harvest import HarvestedNode
from core.images.harvest_history import HOUR, HarvestHour
from core.invariants.harvest import check_harvested
from core.nouns.harvest import HarvestPart, HarvestSettings, ReleasedPart, Why
from core.nouns.ids import AttemptKey, WorkerName
from core.nouns.instant import MILLISECOND, SECOND, Instant, Nanoseconds
from core.nouns.maintenance import ClosureKind
from core.nouns.operation import TaskMove
from core.nouns.placement import needs_of
from core.nouns.pool import PoolSettings
from core.nouns.quantities import NOTHING, Amount
from core.nouns.workload import EndCause, Kind
from core.rules.harvest.odds import recalls_per_node_hour
from core.rules.harvest.zones import HarvestZones, offerable
from core.touched import touched_by
from tests.builders import (
    NODE,
    START,
    a_claim,
    a_fact,
    a_job,
    a_region,
    a_spread,
    attempt,
    folded,
    granted,
    joined,
    opened,
)
from tests.components.support.harvest import GRACE, POOL, gpus
from tests.core.histories import RegionHistory
from tests.core.properties import SEEDS

W1 = attempt("w-1")


def offered(
    *parts: tuple[int, Amount], revision: int = 1, primary: AttemptKey | None = None, number: int = 0
) -> HarvestOffered:
    """The store has recorded these sizes."""
    sizes = tuple(HarvestPart(((node, node),), size, primary, POOL, number) for node, size in parts)
    return HarvestOffered(revision, sizes, GRACE)


def released(
    node: int, revision: int, after: int = 0, **parts: Any
) -> HarvestReleased:  # Any: parts of a release
    """And that a node's function server gave back."""
    return HarvestReleased((ReleasedPart(node, revision, Nanoseconds(after), **parts),))


def a_harvest(*events: Event) -> RegionImage:
    """Four nodes have joined, and then this."""
    return a_region(joined(), *events)


def node(image: RegionImage, number: int = 0) -> HarvestedNode:
    """What is known of one."""
    return image.harvest.nodes[number]


def test_offer_grows_and_recall_shrinks() -> None:
    """H-1: a size is what functions may use now; what they may still be using is recalled, with its reason."""
    image = a_harvest(offered((0, gpus(4))), offered((0, gpus(8)), revision=2))
    assert (gpus(8), NOTHING) == (node(image).size, node(image).recalled)
    less = HarvestPart(((0, 0),), gpus(2))
    folded(image, (HarvestRecalled(3, (less,), Why.SET),), first=4)
    assert (gpus(2), gpus(6)) == (node(image).size, node(image).recalled)
    assert (Why.SET, GRACE, 3) == (
        node(image).recalls[0].why,
        node(image).recalls[0].within,
        image.harvest.revision,
    )
    folded(image, (released(0, 3, 5 * SECOND),), first=5)
    assert node(image).is_calm
    assert [5 * SECOND] == image.harvest.pools[POOL].releases


def test_grant_recalls_what_it_needs_in_the_same_fact() -> None:
    """H-1: of a node that is harvested whole, the rest stays harvested; of other nodes everything."""
    image = a_harvest(offered((0, gpus(8)), (1, gpus(8))), granted(a_claim("w-1", placed={0: 3})))
    assert (5_000, 3_000) == (node(image).size.gpu_milli, node(image).recalled.gpu_milli)
    assert W1 == node(image).recalls[0].by
    assert gpus(8) == node(image, 1).size
    assert 2 == image.harvest.revision


def test_last_device_takes_the_rest_of_its_node_along() -> None:
    """Without devices nothing is offered of such a node, so nothing is left there. Else it would count node-hours of no use for calls."""
    image = a_harvest(offered((0, gpus(8)), (1, gpus(4)), (2, Amount(0, 64_000, 1))))
    assert 3 == image.harvest.pools[POOL].nodes
    grants = (granted(a_claim("w-1", placed={0: 8})), granted(a_claim("w-2", placed={1: 3})))
    folded(image, grants, first=3)
    assert (NOTHING, gpus(8)) == (node(image).size, node(image).recalled)
    assert (1_000, 2) == (node(image, 1).size.gpu_milli, image.harvest.pools[POOL].nodes)
    cores = tuple(HarvestPart(((one, one),), Amount(0, 1_000, 1)) for one in (1, 2))
    folded(image, (HarvestRecalled(4, cores, Why.SET),), first=5)
    assert (NOTHING, Amount(0, 1_000, 1)) == (node(image, 1).size, node(image, 2).size)
    assert 1 == image.harvest.pools[POOL].nodes


def test_short_harvests_between_long_gangs_are_often_recalled() -> None:
    """H-9: nodes that are harvested for ten minutes, until a gang takes all devices for hours, are recalled six times an hour."""
    image, at, sequence = a_harvest(), START, 2
    for gang in range(5):
        for events, span in (
            ((offered(*((one, NODE) for one in range(4)), revision=image.harvest.revision + 1),), HOUR // 6),
            (
                [granted(a_claim(f"w-{gang}-{one}", placed={one: 8})) for one in range(4)]
                + [GangStarted(*attempt(f"w-{gang}-{one}")) for one in range(4)],
                4 * HOUR,
            ),
            ([AttemptEnded(*attempt(f"w-{gang}-{one}"), EndCause.COMPLETED) for one in range(4)], 0),
        ):
            for event in events:
                sequence += 1
                image.fold(a_fact(event, sequence, at=at))
            at = Instant(at + span)
    hours = sum(hour.node_span for hour in image.harvest.pools[POOL].hours.values()) * MILLISECOND / HOUR
    assert 5 * 4 / 6 == pytest.approx(hours)
    assert recalls_per_node_hour(image.harvest.pools.values(), at) > 1_500_000


def test_grant_recalls_only_what_does_not_lie_beside_the_harvest() -> None:
    """As its fact says, in each resource."""
    job = replace(a_job(2), need=Amount(2_000, 8_000, 64))
    claim = a_claim("w-1", jobs=(job,), spreads=(a_spread({0: 1, 1: 1}),))
    spares = ((0, Amount(1_000, 3_000, 0)), (1, Amount(8_000, 64_000, NODE.memory_bytes)))
    image = a_harvest(offered((0, gpus(4)), (1, gpus(4))), replace(granted(claim), spares=spares))
    assert (Amount(1_000, 5_000, 64), NOTHING) == (node(image).recalled, node(image, 1).recalled)


def test_part_of_a_device_recalls_the_device() -> None:
    """A device is recalled whole: parts that lie together on one device recall one, and a pair that cannot two."""
    for gpus_each, tasks, left in ((0.5, 2, 7_000), (0.3, 3, 7_000), (0.6, 2, 6_000), (1.5, 1, 6_000)):
        job = a_job(tasks, gpus_each)
        claim = a_claim("w-1", jobs=(job,), spreads=(a_spread({0: tasks}),))
        image = a_harvest(offered((0, gpus(8))), granted(claim))
        assert left == node(image).size.gpu_milli, gpus_each
        assert [] == check_harvested(image, [0])


def test_guest_recalls_no_device() -> None:
    """It lies on its host's."""
    image = a_harvest(offered((0, gpus(7))), granted(replace(a_claim("w-1"), beside=attempt("w-2"))))
    assert gpus(7).gpu_milli == node(image).size.gpu_milli


def test_start_of_an_attempt_ends_its_recalls() -> None:
    """Its machine said that executors have left; of others that says nothing."""
    mine, others = granted(a_claim("w-1", placed={0: 2, 1: 1})), granted(a_claim("w-2", placed={0: 1}))
    image = a_harvest(offered((0, gpus(8)), (1, gpus(8))), mine, others, GangStarted(*W1))
    assert [attempt("w-2")] == [one.by for one in node(image).recalls]
    assert node(image, 1).is_calm
    assert [0] == list(image.harvest.recalling)
    assert {"w-2"} == set(image.harvest.awaited)
    assert [2 * SECOND, 2 * SECOND] == image.harvest.pools[POOL].releases


def test_attempt_that_ends_before_it_starts_leaves_its_recall() -> None:
    """Executors leave all the same, and their server says when they have."""
    image = a_harvest(
        offered((0, gpus(8))),
        granted(a_claim("w-1", placed={0: 2})),
        AttemptEnded(*W1, EndCause.START_FAILED),
    )
    assert 1 == len(node(image).recalls)
    assert {} == image.harvest.awaited


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (NodesClosed("d-1", ClosureKind.DRAIN, ((0, 1),), "its fan rattles"), Why.CLOSED),
        (NodesPooled(((0, 1),), "service"), Why.POOLED),
    ],
)
def test_closed_and_moved_nodes_give_all_back(event: Event, why: Why) -> None:
    """Also what a task lends there."""
    image = a_harvest(
        offered((0, gpus(4)), (2, gpus(8))),
        granted(a_claim("w-1", placed={0: 2})),
        offered((0, Amount(2_000)), revision=3, primary=W1, number=1),
        event,
    )
    assert NOTHING == node(image).size
    assert [Why.GRANTED, why, why] == [one.why for one in node(image).recalls]
    (hour,) = image.harvest.pools[POOL].hours.values()
    assert (2, 1_500) == (hour.recalls, hour.weight), "half of it by the grant, and all of the rest once"
    assert gpus(8) == node(image, 2).size


@pytest.mark.parametrize(
    "event", [NodesLost(WorkerName("w0"), (0, 1)), DomainLost("p", (WorkerName("w0"),), ((0, 3),))]
)
def test_lost_node_has_nothing_to_give_back(event: Event) -> None:
    """Its machine is silent: no recall stands, and a later word about it is known as late by the revision."""
    image = a_harvest(
        offered((0, gpus(8))),
        granted(a_claim("w-1", placed={0: 2})),
        released(0, 0, is_confirmed=False),
        event,
    )
    assert (NOTHING, NOTHING, True) == (node(image).size, node(image).recalled, node(image).is_calm)
    assert 3 == node(image).revision == image.harvest.revision
    assert 0 == image.harvest.pools[POOL].nodes


@pytest.mark.parametrize(
    "events",
    [
        (StopOrdered(*W1, EndCause.CANCELLED),),
        (AttemptEnded(*W1, EndCause.COMPLETED),),
        (ClaimRevised(*W1, 1, (TaskMove(0, 0, 0),)),),
        (ClaimRevised(*W1, 1, (TaskMove(0, 0, -1),)),),
    ],
)
def test_lent_capacity_goes_back_with_its_task(events: tuple[Event, ...]) -> None:
    """Stopped, ended, started again, or gone."""
    image = a_harvest(
        granted(a_claim("w-1", placed={0: 2}, kind=Kind.SERVICE)),
        offered((0, Amount(2_000)), primary=W1, number=4),
        *events,
    )
    assert (NOTHING, Amount(2_000)) == (node(image).size, node(image).recalled)
    assert Why.ENDED == node(image).recalls[0].why


def test_tasks_want_back_what_they_lend() -> None:
    """The number of their word is known from then on, until the attempt has ended."""
    part = HarvestPart(((0, 0),), NOTHING, W1, POOL, 5)
    image = a_harvest(
        granted(a_claim("w-1", placed={0: 2})),
        offered((0, Amount(2_000)), primary=W1, number=4),
        HarvestRecalled(2, (part,), Why.WANTED),
        released(0, 2),
    )
    lent = node(image).lent_by(W1)
    assert lent is not None
    assert (NOTHING, 5, True) == (lent.size, lent.number, node(image).is_calm)
    folded(image, (AttemptEnded(*W1, EndCause.COMPLETED),), first=6)
    assert ([], {}) == (node(image).lent, image.harvest.lenders)


def test_task_that_comes_recalls_what_it_takes() -> None:
    """As the fact says; all of the node where it does not."""
    image = a_harvest(
        offered((1, gpus(8)), (2, gpus(8))),
        granted(a_claim("w-1", placed={0: 2}, kind=Kind.SERVICE)),
        ClaimRevised(*W1, 1, (TaskMove(0, 0, 1), TaskMove(1, 0, 2)), ((1, Amount(1_000)),)),
    )
    assert (7_000, 1_000) == (node(image, 1).size.gpu_milli, node(image, 1).recalled.gpu_milli)
    assert (NOTHING, gpus(8)) == (node(image, 2).size, node(image, 2).recalled)


def test_task_that_is_up_ends_the_recall_for_it() -> None:
    """Once all of its attempt are up that come to the node; with the attempt all of that is forgotten."""
    image = a_harvest(
        offered((1, gpus(8))),
        granted(a_claim("w-1", placed={0: 2}, kind=Kind.SERVICE)),
        ClaimRevised(*W1, 1, (TaskMove(0, 0, 1), TaskMove(1, 0, 1)), ((1, Amount(2_000)),)),
        TasksUp(*W1, (0,)),
    )
    assert [W1] == [one.by for one in node(image, 1).recalls]
    folded(image, (TasksUp(*W1, (1,)),), first=6)
    assert ([], {}, {}) == (node(image, 1).recalls, image.harvest.coming, image.harvest.recalling)
    assert [2 * SECOND] == image.harvest.pools[POOL].releases
    moved = ClaimRevised(*W1, 2, (TaskMove(0, 1, 0),), ((0, Amount(1_000)),))
    folded(image, (offered((0, gpus(8)), revision=3), moved), first=7)
    assert {W1[0]: {1: {0: 0}}} == image.harvest.coming
    folded(image, (AttemptEnded(*W1, EndCause.COMPLETED),), first=9)
    assert {} == image.harvest.coming
    assert 1 == len(node(image).recalls)


def test_task_that_comes_recalls_all_of_its_node() -> None:
    """Where a fact does not say how much it needs."""
    image = a_harvest(
        offered((1, gpus(8))),
        granted(a_claim("w-1", placed={0: 2}, kind=Kind.SERVICE)),
        ClaimRevised(*W1, 1, (TaskMove(0, 0, 1),)),
    )
    assert (NOTHING, gpus(8)) == (node(image, 1).size, node(image, 1).recalled)


def test_recalls_end_in_their_order() -> None:
    """A release names the newest recall that is over; what was recalled later stands."""
    image = a_harvest(
        offered((0, gpus(8))), granted(a_claim("w-1", placed={0: 2})), granted(a_claim("w-2", placed={0: 2}))
    )
    folded(image, (released(0, 2, SECOND),), first=5)
    assert [attempt("w-2")] == [one.by for one in node(image).recalls]
    assert START + 4 * SECOND == image.harvest.recalling[0]


def test_release_that_nobody_confirmed_is_marked_until_its_server_is_heard() -> None:
    """By a release of recalls that stand no more."""
    image = a_harvest(offered((0, gpus(8))), granted(a_claim("w-1", placed={0: 2})))
    folded(image, (released(0, 2, 35 * SECOND, is_confirmed=False),), first=4)
    assert (START + 4 * SECOND, False) == (node(image).unconfirmed_at, node(image).is_calm)
    folded(image, (released(0, 2, lost=1, lost_span=Nanoseconds(SECOND)),), first=5)
    assert node(image).is_calm
    assert [35 * SECOND] == image.harvest.pools[POOL].releases
    assert [(1, SECOND)] == [(hour.lost, hour.lost_span) for hour in image.harvest.pools[POOL].hours.values()]


def test_node_hours_are_counted_by_hours() -> None:
    """From the first device on until the last, whatever the size in between; a recall counts for its part of the devices."""
    image = a_region(joined())
    begin = Instant(10 * HOUR + HOUR // 2)
    facts: list[tuple[int, Event]] = [
        (0, offered((0, gpus(8)), (1, gpus(8)))),
        (HOUR, granted(a_claim("w-1", placed={0: 4}))),
        (2 * HOUR, NodesClosed("d-1", ClosureKind.DRAIN, ((0, 0),), "old")),
    ]
    for place, (later, event) in enumerate(facts):
        image.fold(a_fact(event, place + 2, at=Instant(begin + later)))
    history = image.harvest.pools[POOL]
    hour = HOUR // MILLISECOND
    assert {10: hour, 11: 2 * hour, 12: hour} == {at: one.node_span for at, one in history.hours.items()}
    assert [HarvestHour(2 * hour, 1, 500), HarvestHour(hour, 1, 1_000)] == [
        history.hours[11],
        history.hours[12],
    ]
    assert (1, hour // 2) == (history.nodes, history.node_span_until(begin + 5 * HOUR // 2))


def test_opening_of_a_log_is_known_once_something_is_harvested() -> None:
    """Older logs tell nothing of it, so that a snapshot of theirs needs no fold of all facts."""
    assert 0 == a_harvest(opened(2)).harvest.opened_at
    image = a_harvest(offered((0, gpus(8))), opened(2))
    assert START + 3 * SECOND == image.harvest.opened_at


class Offering:
    """A history into which offers of whatever may be offered are drawn, and releases of whatever stands."""

    def __init__(self, seed: int) -> None:
        self.history = RegionHistory(seed)
        self.dice = random.Random(f"offers-{seed}")
        self.history.say(opened())
        self.history.say(PoolChanged(POOL, PoolSettings(harvest=HarvestSettings(is_on=True))))

    def step(self) -> None:
        """One more step of the history, and of what is harvested."""
        self.history.step()
        image = self.history.image
        nodes = [one for one, kind in enumerate(image.capacity.node_type) if kind]
        if not nodes:
            return
        number, revision = self.dice.choice(nodes), image.harvest.revision + 1
        known = image.harvest.nodes.get(number) or HarvestedNode(POOL, GRACE, 0)
        size = offerable(image.capacity, number)
        choice = self.dice.randrange(4)
        if choice == 0 and known.is_calm and size.covers(known.free) and size not in (NOTHING, known.free):
            self.history.say(offered((number, size), revision=revision))
        elif choice == 1 and known.recalls:
            self.history.say(
                released(number, known.recalls[0].revision, is_confirmed=self.dice.random() < 0.7)
            )
        elif choice == 2 and known.unconfirmed_at:
            self.history.say(released(number, known.revision))
        elif choice == 3 and image.capacity.live() and known.is_calm and image.capacity.is_open(number):
            self._lend(image, revision)

    def _lend(self, image: RegionImage, revision: int) -> None:
        workload, epoch, held = self.dice.choice(image.capacity.live())
        for number, need in needs_of(held.claim).items():
            known = image.harvest.nodes.get(number)
            whole = Amount(need.gpu_milli // 1000 * 1000)
            if held.is_ending or whole == NOTHING or not image.capacity.is_open(number):
                continue
            if known is None or known.is_calm:
                self.history.say(
                    offered((number, whole), revision=revision, primary=(workload, epoch), number=1)
                )
                return


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_harvested_is_always_free_or_lent(seed: int) -> None:
    """H-1: at every fact of a history with grants, moves, losses, closures and ends; and figures by zone equal a count from scratch."""
    offering = Offering(seed)
    for _ in range(250):
        offering.step()
    image = RegionImage.empty()
    zones = HarvestZones(image.capacity, image.harvest)
    harvested = 0
    for fact in offering.history.facts:
        nodes, mine = touched_by(image.capacity, fact), image.harvest.touched_by(fact)
        before = deepcopy(image.harvest.nodes)
        image.fold(fact)
        _update(zones, fact, [*nodes, *mine])
        assert [] == check_harvested(image, range(len(image.capacity.node_type))), fact.event
        assert [] == [
            one for one, known in image.harvest.nodes.items() if before.get(one) != known and one not in mine
        ]
        harvested += sum(known.size != NOTHING for known in image.harvest.nodes.values())
        again = HarvestZones(image.capacity, image.harvest)
        assert _filled(again) == _filled(zones), fact.event
    assert harvested > 100
    counts = {name: history.nodes for name, history in image.harvest.pools.items()}
    for pool, count in counts.items():
        now = [
            known for known in image.harvest.nodes.values() if known.pool == pool and known.size != NOTHING
        ]
        assert count == len(now)


def _update(zones: HarvestZones, fact: Fact, nodes: list[int]) -> None:
    event = fact.event
    if isinstance(event, NodesJoined):
        zones.join(event.inventory.groups)
    elif isinstance(event, NodesPooled):
        zones.pool(nodes)
    zones.update(nodes)


def _filled(zones: HarvestZones) -> dict[object, object]:
    return {key: zone for key, zone in zones.zones.items() if zone.total or zone.harvested}

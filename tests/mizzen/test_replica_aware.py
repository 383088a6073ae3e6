"""A controller that knows where replicas lie, alone, against misfortune, and with a region's own rules."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
from msgspec.structs import replace

from bench.support.task_control.model import JOB, ServiceModel
from core.messages.control import OperationAsked, OperationCompleted, TaskControlRequest
from core.nouns.ids import TenantName
from core.nouns.operation import WHOLE, Ack, OperationKind, Outcome
from mizzen.control.harness import ControllerHarness
from mizzen.control.replica_aware import ReplicaAware
from mizzen.control.shards import Shards
from tests.mizzen.releasing import Misfortune

# Four zones of two tasks, and each shard in three of them.
ZONES = {task: task // 2 for task in range(8)}
SHARDS = Shards([[0, 2, 4], [1, 3, 6], [2, 5, 7], [0, 3, 5], [1, 4, 7], [3, 4, 6]], zones=ZONES)
# A row of tasks, each of which shares a shard with the next.
CHAIN = Shards([[task, task + 1] for task in range(5)])


def asked(
    *tasks: int,
    sequence: int = 1,
    first: int | None = None,
    kind: OperationKind = OperationKind.UPDATE,
    deadline: int = 0,
    notice: str = "",
) -> TaskControlRequest:
    """Operation n + 100 is on task n, unless another first number is given."""
    return TaskControlRequest(
        TenantName("t"),
        "c",
        JOB,
        tuple(
            OperationAsked(task + 100 if first is None else first + place, kind, task, "", notice, deadline)
            for place, task in enumerate(tasks)
        ),
        (),
        (),
        (),
        sequence,
    )


def tasks_of(acks: Sequence[Ack]) -> list[int]:
    """Of operations that have the numbers of `asked`."""
    return sorted(ack.operation - 100 for ack in acks)


def test_no_shard_loses_two() -> None:
    """T21: some go at once, so that every shard keeps two, and nobody else goes while they are away."""
    controller = ReplicaAware(SHARDS)
    first = tasks_of(controller.decide(asked(*range(8))))
    assert len(first) > 1
    assert (SHARDS.lost(SHARDS.flags(first)) <= 1).all()
    rest = [task for task in range(8) if task not in first]
    assert [] == controller.decide(replace(asked(*rest, sequence=2), unhealthy=tuple(first)))


def test_unplanned_losses_count() -> None:
    """T21: beside a task that failed by itself only those may go that share no shard with it, as its own zone does not."""
    controller = ReplicaAware(SHARDS)
    request = replace(asked(0, 1, 2, 4, 5, 6), unhealthy=(3,))
    assert [2] == tasks_of(controller.decide(request))


def test_an_acknowledgement_counts_though_nothing_was_heard_of_it() -> None:
    """The answer was perhaps lost and perhaps not: its task may be stopped any moment until a newer request tells otherwise."""
    controller = ReplicaAware(CHAIN)
    assert [1] == tasks_of(controller.decide(asked(1)))
    # Asked again, word for word, it is acknowledged again. In a newer request it neither waits nor is over.
    assert [1] == tasks_of(controller.decide(asked(1)))
    assert [3] == tasks_of(controller.decide(asked(0, 2, 3, sequence=2)))


def test_operation_that_is_asked_for_again_was_not_acknowledged() -> None:
    """A newer request that lists it shows that the answer came to nothing, and the choice is free again."""
    controller = ReplicaAware(CHAIN)
    assert [1] == tasks_of(controller.decide(asked(1)))
    assert [1, 3, 5] == tasks_of(controller.decide(asked(1, 3, 5, sequence=2)))


def test_an_older_request_is_not_answered() -> None:
    """Its answer would count for nothing; what it acknowledges would be taken for down."""
    controller = ReplicaAware(CHAIN)
    controller.decide(asked(1, sequence=5))
    assert [] == controller.decide(asked(3, sequence=4))
    assert [3] == tasks_of(controller.decide(asked(3, sequence=6)))


def test_completed_frees_the_neighbours() -> None:
    """Once it is told that the operation is over, the shards of its task have all their replicas."""
    controller = ReplicaAware(CHAIN)
    controller.decide(asked(1))
    over = (OperationCompleted(101, OperationKind.UPDATE, 1, Outcome.HEALTHY),)
    assert [0, 2] == tasks_of(controller.decide(replace(asked(0, 2, sequence=2), completed=over)))


def test_a_new_process_heeds_acks_of_the_one_before_it() -> None:
    """T21: the request has them: a restarted controller does not let a second replica go beside one that is about to."""
    request = replace(asked(0, 2, 3, sequence=2), acked=(1,))
    assert [3] == tasks_of(ReplicaAware(CHAIN).decide(request))


def test_operation_with_a_deadline_comes_first() -> None:
    """T21: maintenance before release, and of two maintenances the one that is due first, though others were more."""
    controller = ReplicaAware(CHAIN)
    release = asked(0, 2, 4)
    due = asked(1, kind=OperationKind.MOVE, deadline=50, notice="m-2")
    later = asked(3, 5, kind=OperationKind.MOVE, deadline=900, notice="m-1")
    together = replace(release, requests=release.requests + later.requests + due.requests)
    assert [1, 3, 5] == tasks_of(controller.decide(together))
    only = replace(release, requests=(*asked(0, 2).requests, *due.requests))
    assert [1] == tasks_of(ReplicaAware(CHAIN).decide(only))
    crossed = asked(2, kind=OperationKind.MOVE, deadline=900, notice="m-1")
    both = replace(release, requests=(*crossed.requests, *due.requests))
    assert [1] == tasks_of(ReplicaAware(CHAIN).decide(both))


def test_maintenance_that_comes_later_goes_before_a_planned_release() -> None:
    """The plan of a release does not keep work on nodes waiting that could begin now."""
    controller = ReplicaAware(SHARDS)
    controller.decide(asked(*range(8)))
    # Zone 0 is under way but for task 1, which is over; zone 1 would be next.
    over = (OperationCompleted(101, OperationKind.UPDATE, 1, Outcome.HEALTHY),)
    waiting = asked(2, 3, 4, 5, 7, sequence=2)
    urgent = asked(6, kind=OperationKind.MOVE, deadline=50, notice="m-1")
    request = replace(waiting, requests=waiting.requests + urgent.requests, completed=over, unhealthy=(0,))
    assert 6 in tasks_of(controller.decide(request))


def test_a_task_that_is_down_comes_back_at_once() -> None:
    """Its start takes nobody away; nor does its move at a deadline; nor its update, while its shards have all the rest."""
    for kind, deadline in ((OperationKind.START, 0), (OperationKind.MOVE, 30), (OperationKind.UPDATE, 0)):
        request = replace(asked(1, kind=kind, deadline=deadline), unhealthy=(1,))
        assert [1] == tasks_of(ReplicaAware(CHAIN).decide(request))


def test_an_update_of_a_task_that_is_down_waits_while_a_shard_suffers() -> None:
    """A shard that has lost two gets back the first that can start: nobody makes that take longer for a release."""
    request = replace(asked(1, 2), unhealthy=(1, 2))
    assert [] == ReplicaAware(CHAIN).decide(request)
    start = replace(asked(1, 2, kind=OperationKind.START), unhealthy=(1, 2))
    assert [1, 2] == tasks_of(ReplicaAware(CHAIN).decide(start))


def test_task_that_was_stopped_for_good_stays_lost() -> None:
    """T21: a job shrank: the replicas of the task that is no more are gone until the controller is told where they are now."""
    controller = ReplicaAware(CHAIN)
    assert [1] == tasks_of(controller.decide(asked(1, kind=OperationKind.STOP)))
    over = (OperationCompleted(101, OperationKind.STOP, 1, Outcome.GONE),)
    assert [3] == tasks_of(controller.decide(replace(asked(0, 2, 3, sequence=2), completed=over)))
    controller.lay_out(Shards([[0, 2], [2, 3]]))
    assert [0, 3] == tasks_of(controller.decide(asked(0, 2, 3, sequence=3)))


def test_an_operation_that_is_stuck_keeps_only_its_neighbours_waiting() -> None:
    """A task that never comes back stands in the way of those that share a shard with it, and of nobody else for ever."""
    controller = ReplicaAware(Shards([[0, 1], [2, 3], [4, 5]]))
    assert [0, 2] == tasks_of(controller.decide(asked(0, 1, 2, 3)))
    over = (OperationCompleted(102, OperationKind.UPDATE, 2, Outcome.HEALTHY),)
    waits = replace(asked(1, 3, sequence=2), completed=over, unhealthy=(0,))
    assert [3] == tasks_of(controller.decide(waits))
    over = (OperationCompleted(103, OperationKind.UPDATE, 3, Outcome.HEALTHY),)
    others = replace(asked(1, 4, sequence=3), completed=over, unhealthy=(0,))
    assert [4] == tasks_of(controller.decide(others))


def test_the_first_plan_does_not_count_on_tasks_that_failed() -> None:
    """A task that is acknowledged because it is down anyhow may stay down for long: what can go without it goes first."""
    failed = asked(0, kind=OperationKind.START)
    layout = Shards([[0, 1], [0, 2], [0, 3], [1, 4], [2, 4], [3, 4]])
    request = replace(asked(1, 2, 3, 4), unhealthy=(0,))
    request = replace(request, requests=request.requests + failed.requests)
    assert [0, 4] == tasks_of(ReplicaAware(layout).decide(request))


def test_two_may_be_down_where_the_application_says_so() -> None:
    """`down_max` counts the replicas of each shard."""
    shards = Shards([[0, 1, 2]])
    assert 1 == len(ReplicaAware(shards).decide(asked(0, 1, 2)))
    assert 2 == len(ReplicaAware(shards, down_max=2).decide(asked(0, 1, 2)))


def test_tasks_without_replicas_never_wait_and_whole_gangs_always() -> None:
    """The first hold nothing; the second would take everything down."""
    controller = ReplicaAware(CHAIN)
    request = asked(77, WHOLE, first=1)
    assert [Ack(1)] == controller.decide(request)


def test_a_zone_that_is_nearly_over_does_not_let_single_tasks_of_all_others_go() -> None:
    """The last tasks of a zone leave room for a few tasks of every other, which would then keep whole zones waiting."""
    dice = np.random.default_rng(1)
    sizes = (30, 28, 26)
    starts = (0, 30, 58)
    table = [
        [start + int(dice.integers(size)) for start, size in zip(starts, sizes, strict=True)]
        for _ in range(400)
    ]
    zones = {task: zone for zone, start in enumerate(starts) for task in range(start, start + sizes[zone])}
    model = ServiceModel()
    model.ask(OperationKind.UPDATE, range(84))
    controller = ReplicaAware(Shards(table, zones=zones))
    batches: list[set[int]] = []

    def let_go() -> None:
        while (request := model.request()) is not None:
            acks = controller.decide(request)
            if not acks and not request.completed:
                return
            gone = model.begin(model.answer(request.sequence, acks))
            batches.extend([{zones[task] for task in gone}] if gone else [])

    let_go()
    while model.operations:
        # The oldest that is away comes back, one after the other.
        model.come_up([next(iter(model.down))])
        let_go()
    assert all(len(batch) == 1 for batch in batches), "what goes together is of one zone"
    order = [zone for (zone,) in batches]
    assert sorted(order) == order, "and no zone is begun before all of the one before it was let go"


@pytest.mark.parametrize("down_max", [1, 2])
def test_misfortune_never_makes_it_lose_a_second_replica(down_max: int) -> None:
    """T21: whatever is lost, late, repeated, expired, failing or dying: whoever is let go leaves each shard all but `down_max`."""
    stopped = 0
    for seed in range(150):
        dice = random.Random(seed)
        tasks = dice.randrange(4, 12)
        table = [dice.sample(range(tasks), 3) for _ in range(dice.randrange(1, 12))]
        zones = {task: task % 3 for task in range(tasks)} if seed % 2 else None
        shards = Shards(table, zones=zones)

        def judge(gone: set[int], beside: set[int], shards: Shards = shards, seed: int = seed) -> None:
            theirs = (shards.table[:, :, None] == np.flatnonzero(shards.flags(gone))).any(axis=(1, 2))
            lost = shards.lost(shards.flags(gone | beside))
            assert (lost[theirs] <= down_max).all(), f"seed {seed}"

        run = Misfortune(
            lambda shards=shards: ReplicaAware(shards, down_max=down_max).decide,  # type: ignore[misc]
            tasks,
            judge,
            seed,
        )
        run.play()
        stopped += run.stopped
    assert stopped > 1_000, "it does let tasks go"


async def test_with_the_rules_of_a_region() -> None:
    """T21: a service is updated in a region's own words: at no time are two replicas of a shard away, and all are updated."""
    harness = ControllerHarness(ReplicaAware(SHARDS), tasks=8, unavailable_max=8, takes_seconds=240)
    await harness.change()
    await harness.pass_seconds(4 * 240)
    assert {} == harness.operations
    assert [] == harness.unavailable()
    for moment in harness.timeline:
        assert (SHARDS.lost(SHARDS.flags(moment.unavailable)) <= 1).all(), moment
    assert all(harness.run_of(task) == 1 for task in range(8))
    assert 0 == harness.ignored


async def test_the_job_s_own_limit_holds_its_acknowledgements_back() -> None:
    """T18 beside T21: of a zone that may go, the region lets one go at a time; nobody else is let go for the ones that wait."""
    harness = ControllerHarness(ReplicaAware(SHARDS), tasks=8, unavailable_max=1, takes_seconds=200)
    await harness.change()
    await harness.pass_seconds(8 * 200 + 10)
    assert {} == harness.operations
    assert max(len(moment.unavailable) for moment in harness.timeline) == 1

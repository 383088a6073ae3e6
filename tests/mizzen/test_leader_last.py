"""A controller that lets followers go first, and the leader when nothing else is left."""

import random
from functools import partial

import pytest
from msgspec.structs import replace

from bench.support.task_control.model import JOB
from core.messages.control import OperationAsked, OperationCompleted, TaskControlRequest
from core.nouns.ids import TenantName
from core.nouns.operation import WHOLE, Ack, OperationKind, Outcome
from mizzen.control.harness import ControllerHarness
from mizzen.control.leader_last import LeaderLast
from tests.mizzen.releasing import Misfortune


async def nobody() -> int | None:
    """For tests that say who leads."""
    raise AssertionError("not asked here")


def asked(
    *tasks: int, sequence: int = 1, kind: OperationKind = OperationKind.UPDATE, deadline: int = 0
) -> TaskControlRequest:
    """Operation n + 100 is on task n."""
    requests = tuple(OperationAsked(task + 100, kind, task, "", "", deadline) for task in tasks)
    return TaskControlRequest(TenantName("t"), "c", JOB, requests, (), (), (), sequence)


def over(task: int) -> tuple[OperationCompleted, ...]:
    """The task is healthy after its operation."""
    return (OperationCompleted(task + 100, OperationKind.UPDATE, task, Outcome.HEALTHY),)


def tasks_of(acks: list[Ack]) -> list[int]:
    """Of operations that have the numbers of `asked`."""
    return [ack.operation - 100 for ack in acks]


def test_followers_one_by_one_and_then_the_leader() -> None:
    """T21: each follower when the one before it is back, and the leader last of all."""
    controller = LeaderLast(nobody)
    assert [1] == tasks_of(controller.decide(asked(0, 1, 2), 0))
    under_way = replace(asked(0, 2, sequence=2), unhealthy=(1,))
    assert [] == controller.decide(under_way, 0)
    assert [2] == tasks_of(controller.decide(replace(asked(0, 2, sequence=3), completed=over(1)), 0))
    assert [] == controller.decide(replace(asked(0, sequence=4), unhealthy=(2,)), 0)
    assert [0] == tasks_of(controller.decide(replace(asked(0, sequence=5), completed=over(2)), 0))


def test_so_many_at_once() -> None:
    """`parallel` followers are away at most, also those of which nothing was heard since they were let go."""
    controller = LeaderLast(nobody, parallel=2)
    assert [1, 2] == tasks_of(controller.decide(asked(0, 1, 2, 3), 0))
    assert [] == controller.decide(asked(0, 3, sequence=2), 0)
    assert [3] == tasks_of(controller.decide(replace(asked(0, 3, sequence=3), completed=over(1)), 0))


def test_a_leader_that_changes_is_respected() -> None:
    """T21: the old one is a follower then, and the new one comes last, wherever it stood in the order."""
    controller = LeaderLast(nobody)
    assert [1] == tasks_of(controller.decide(asked(0, 1, 2), 0))
    now = replace(asked(0, 2, sequence=2), completed=over(1))
    assert [0] == tasks_of(controller.decide(now, 2))
    assert [2] == tasks_of(controller.decide(replace(asked(2, sequence=3), completed=over(0)), 2))


def test_a_leader_that_was_let_go_already_leaves_no_last_one() -> None:
    """T21: the leadership moved to a task that is over: the old leader goes as any other."""
    controller = LeaderLast(nobody)
    assert [0] == tasks_of(controller.decide(asked(0), 1))


def test_no_task_is_released_beside_a_failure() -> None:
    """T21: a group that lost one by itself loses no other by plan; the one that is lost may start again."""
    controller = LeaderLast(nobody, parallel=2)
    failed = replace(asked(1, 2), unhealthy=(3,))
    assert [] == controller.decide(failed, 0)
    start = asked(3, kind=OperationKind.START)
    both = replace(failed, requests=failed.requests + start.requests, sequence=2)
    assert [3] == tasks_of(controller.decide(both, 0))
    # It was let go, and still counts as a failure until it is back.
    assert [] == controller.decide(replace(asked(1, 2, sequence=3), unhealthy=(3,)), 0)
    back = replace(asked(1, 2, sequence=4), completed=over(3))
    assert [1, 2] == tasks_of(controller.decide(back, 0))


def test_an_update_of_a_task_that_is_down_waits_while_another_is_missing() -> None:
    """The only one that is down may be updated before it comes back; of two, none is kept away for longer than it must."""
    alone = replace(asked(1), unhealthy=(1,))
    assert [1] == tasks_of(LeaderLast(nobody).decide(alone, 0))
    both = replace(asked(1, 2), unhealthy=(1, 2))
    assert [] == LeaderLast(nobody).decide(both, 0)


def test_no_task_is_released_without_a_known_leader() -> None:
    """During an election each of them may be the next leader."""
    assert [] == LeaderLast(nobody).decide(asked(0, 1), None)


def test_operation_with_a_deadline_comes_first() -> None:
    """The follower on the node that is worked on soonest, then the next, then one that is only released."""
    request = replace(
        asked(1),
        requests=(
            *asked(1).requests,
            *asked(2, deadline=900).requests,
            *asked(3, deadline=50).requests,
        ),
    )
    assert [3, 2, 1] == tasks_of(LeaderLast(nobody, parallel=3).decide(request, 0))


def test_a_new_process_heeds_acks_of_the_one_before_it() -> None:
    """The request has them."""
    assert [] == LeaderLast(nobody).decide(replace(asked(2, 3), acked=(1,)), 0)


def test_a_whole_gang_is_not_let_go() -> None:
    """It would take the leader with it."""
    assert [] == LeaderLast(nobody).decide(asked(WHOLE), 0)


def test_tasks_that_were_stopped_for_good_keep_no_other_waiting() -> None:
    """The group shrank: the tasks that are left go on with their release."""
    controller = LeaderLast(nobody)
    controller.decide(asked(2, kind=OperationKind.STOP), 0)
    gone = (OperationCompleted(102, OperationKind.STOP, 2, Outcome.GONE),)
    assert [1] == tasks_of(controller.decide(replace(asked(0, 1, sequence=2), completed=gone), 0))


@pytest.mark.parametrize("parallel", [1, 3])
def test_misfortune_never_takes_more_than_allowed(parallel: int) -> None:
    """T21: whatever is lost, late, repeated, expired or dying, no more than `parallel` are away by plan, none beside a failure,
    and the leader goes alone.
    """
    runs: list[Misfortune] = []
    for seed in range(150):

        def judge(gone: set[int], beside: set[int], seed: int = seed) -> None:
            assert set() == runs[-1].failed, f"seed {seed}"
            assert len(gone | beside) <= parallel, f"seed {seed}"
            assert 0 not in gone or (not beside and len(gone) == 1), f"seed {seed}"

        tasks = random.Random(seed).randrange(2, 9)
        make = partial(LeaderLast, nobody, parallel=parallel)
        runs.append(Misfortune(lambda make=make: partial(make().decide, leader=0), tasks, judge, seed))  # type: ignore[misc]
        runs[-1].play()
    assert sum(run.stopped for run in runs) > 500, "it does let tasks go"


async def test_with_the_rules_of_a_region() -> None:
    """T21: in a region's own words: followers two at a time, and the leader, who has changed in between, alone at the end."""
    leader = 0

    async def who_leads() -> int | None:
        return leader

    harness = ControllerHarness(
        LeaderLast(who_leads, parallel=2), tasks=5, unavailable_max=5, takes_seconds=60
    )
    await harness.change()
    assert [1, 2] == harness.unavailable()
    leader = 4
    await harness.pass_seconds(60)
    assert [0, 3] == harness.unavailable()
    await harness.pass_seconds(60)
    assert [4] == harness.unavailable()
    await harness.pass_seconds(60)
    assert {} == harness.operations
    assert all(harness.run_of(task) == 1 for task in range(5))

"""The harness asks a controller as a region does and allows what a region allows: the real rules, in a test's own time."""

import asyncio
from collections.abc import Callable, Iterable

import pytest

from core.images.control import TaskPhase
from core.messages.control import TaskControlRequest
from core.nouns.instant import SECOND
from core.nouns.limits import ACK_LEASE, FAILURE_DEADLINE
from core.nouns.maintenance import MaintenanceKind
from core.nouns.operation import WHOLE, Ack, Answer, OperationKind, Outcome, task_number
from mizzen import TaskController
from mizzen.control.harness import ControllerHarness, RegionRefused

Decide = Callable[[TaskControlRequest], Iterable[Ack]]
UPDATE, MOVE, RESTART = OperationKind.UPDATE, OperationKind.MOVE, OperationKind.RESTART
DEADLINE = FAILURE_DEADLINE / SECOND


class Says(TaskController):
    """Answers as it is told to."""

    def __init__(self, decide: Decide) -> None:
        self.decide = decide

    async def process(self, request: TaskControlRequest) -> Iterable[Ack]:
        return self.decide(request)


def all_of(request: TaskControlRequest) -> list[Ack]:
    """Let all proceed."""
    return [Ack(asked.operation) for asked in request.requests]


def none_of(_: TaskControlRequest) -> list[Ack]:
    """Let all wait."""
    return []


def last_first(request: TaskControlRequest) -> list[Ack]:
    """One after the other, the last first."""
    return [] if request.unhealthy else [Ack(asked.operation) for asked in request.requests[-1:]]


def said(harness: ControllerHarness) -> list[tuple[list[int], list[int], tuple[int, ...]]]:
    """Of each request: what is asked, what is completed, and who is unhealthy."""
    return [
        (
            [asked.task for asked in request.requests],
            [done.task for done in request.completed],
            request.unhealthy,
        )
        for request in harness.requests
    ]


async def test_published_example() -> None:
    """T11: only what was acknowledged proceeds: [t0, t1] -> [t1]; t1 done, [t0] -> [t0]; t0 done, [] -> [] (Twine fig. 8)."""
    harness = ControllerHarness(Says(last_first), tasks=2, takes_seconds=60)
    await harness.operate(UPDATE)
    assert [1] == harness.unavailable()
    assert [0] == harness.waiting()
    await harness.pass_seconds(60)
    assert ([0], [], 60.0) == (harness.unavailable(), harness.waiting(), harness.now_seconds)
    await harness.pass_seconds(60)
    assert ([], {}) == (harness.unavailable(), harness.operations)
    assert [
        ([0, 1], [], ()),
        ([0], [], (1,)),
        ([0], [1], ()),
        ([], [0], ()),
    ] == said(harness)


async def test_sequence_grows_with_whatever_is_new() -> None:
    """T10: no two requests that differ have one number, and later ones have higher numbers."""
    harness = ControllerHarness(Says(last_first), tasks=4, takes_seconds=30)
    await harness.operate(UPDATE)
    await harness.fail(0)
    await harness.pass_seconds(1000)
    numbers = [request.sequence for request in harness.requests]
    assert sorted(set(numbers)) == numbers
    assert len(numbers) > 6


async def test_completed_is_told_once_after_it_is_healthy() -> None:
    """T12: each operation once, in a request of which its task is not unhealthy any more."""
    harness = ControllerHarness(Says(all_of), tasks=3, takes_seconds=30, unavailable_max=2)
    numbers = await harness.operate(UPDATE)
    await harness.pass_seconds(600)
    told = [(done.operation, done.outcome) for request in harness.requests for done in request.completed]
    assert [(number, Outcome.HEALTHY) for number in numbers] == sorted(told)
    for request in harness.requests:
        assert not {done.task for done in request.completed} & set(request.unhealthy)


async def test_unhealthy_is_the_whole_set() -> None:
    """T13: tasks that failed, whose node is lost, and that are being touched, in every request."""
    harness = ControllerHarness(
        Says(
            lambda request: [
                Ack(one.operation) for one in request.requests if one.kind is UPDATE and one.task == 5
            ]
        ),
        tasks=6,
        domains={"east": [0, 1]},
        unavailable_max=6,
    )
    await harness.lose("east")
    await harness.fail(3)
    await harness.operate(UPDATE, [4, 5])
    assert (0, 1, 3) == harness.requests[-2].unhealthy
    assert (0, 1, 3, 5) == harness.requests[-1].unhealthy
    assert [0, 1, 3, 5] == harness.unavailable()


async def test_ignored_acks_are_counted() -> None:
    """T14: acks of an old request, of operations that are not there or were acknowledged, and of operations that were not asked."""
    harness = ControllerHarness(Says(none_of), tasks=3)
    first, second, third = await harness.operate(UPDATE)
    old = harness.requests[-1].sequence
    await harness.fail(2)
    await harness.say([Ack(first)], sequence=old)
    assert ([], 1) == (harness.begun(), harness.ignored)
    await harness.say([Ack(99), Ack(second, Answer.IGNORE)])
    assert ([], 3) == (harness.begun(), harness.ignored)
    harness = ControllerHarness(Says(lambda _: [Ack(1), Ack(77)]), tasks=3)
    await harness.operate(UPDATE)
    assert [0] == harness.begun()
    assert harness.ignored >= 1
    assert third == 3


async def test_release_waits_for_ever_and_maintenance_does_not() -> None:
    """T17: nothing optional begins unasked, not in a day; what has a deadline begins at it, and not before."""
    harness = ControllerHarness(Says(none_of), tasks=3, spares=3)
    await harness.operate(UPDATE, [0])
    await harness.pass_seconds(86_400)
    assert ([0], []) == (harness.waiting(), harness.unavailable())
    await harness.notice(1, starts_in_seconds=600, lasts_seconds=300)
    await harness.pass_seconds(599)
    assert ([0, 1], []) == (harness.waiting(), harness.unavailable())
    await harness.pass_seconds(1)
    assert ([0], [1]) == (harness.waiting(), harness.unavailable())
    await harness.pass_seconds(60)
    assert [] == harness.unavailable(), "it was moved to a spare node"


async def test_silent_controller() -> None:
    """T20: whoever is away is asked when it is back; until then what is optional waits, and what is not keeps its deadline."""
    harness = ControllerHarness(Says(all_of), tasks=3, takes_seconds=10)
    harness.is_reachable = False
    await harness.operate(UPDATE, [0])
    await harness.fail(1)
    await harness.pass_seconds(DEADLINE + 9)
    assert ([], [0], [1]) == (harness.requests, harness.waiting(), harness.unavailable())
    await harness.pass_seconds(1)
    assert (TaskPhase.UP, 1) == (harness.phase_of(1), harness.run_of(1))
    harness.is_reachable = True
    await harness.pass_seconds(2)
    assert ([], [0]) == (harness.waiting(), harness.unavailable())


@pytest.mark.parametrize(
    ("answer", "kind", "stays"),
    [
        (Answer.MOVE, MaintenanceKind.POWER, False),
        (Answer.PROCEED, MaintenanceKind.REBOOT, False),
        (Answer.STOP_AND_RETURN, MaintenanceKind.REBOOT, True),
        (Answer.IGNORE, MaintenanceKind.NETWORK, True),
    ],
)
async def test_answers_to_maintenance(answer: Answer, kind: MaintenanceKind, *, stays: bool) -> None:
    """T16: move now, stop when it begins and come back to the same node, or do nothing."""
    harness = ControllerHarness(
        Says(lambda request: [Ack(one.operation, answer) for one in request.requests]),
        tasks=2,
        spares=1,
        takes_seconds=10,
    )
    node = harness.node_of(0)
    await harness.notice(0, kind=kind, starts_in_seconds=100, lasts_seconds=50)
    goes_now = answer in (Answer.MOVE, Answer.PROCEED)
    assert ([0] if goes_now else []) == harness.unavailable()
    await harness.pass_seconds(101)
    assert ([0] if answer is Answer.STOP_AND_RETURN else []) == harness.unavailable()
    await harness.pass_seconds(60)
    assert ([], stays) == (harness.unavailable(), harness.node_of(0) == node)
    assert (0 if answer is Answer.IGNORE else 1) == harness.run_of(0)


@pytest.mark.parametrize("is_gang", [False, True])
async def test_node_that_is_drained_while_its_task_is_to_return(*, is_gang: bool) -> None:
    """T16: it goes elsewhere instead."""
    harness = ControllerHarness(
        Says(lambda request: [Ack(one.operation, Answer.STOP_AND_RETURN) for one in request.requests]),
        tasks=1,
        spares=1,
        is_gang=is_gang,
        takes_seconds=10,
    )
    node = harness.node_of(0)
    await harness.notice(0, kind=MaintenanceKind.REBOOT, starts_in_seconds=100, lasts_seconds=500)
    await harness.pass_seconds(110)
    assert 1 == len(harness.unavailable())
    await harness.drain(0)
    await harness.pass_seconds(60)
    assert ([], False) == (harness.unavailable(), harness.node_of(0) == node)


async def test_node_that_is_drained_while_its_task_is_to_return_and_no_other_is_free() -> None:
    """T16, T17: after a minute it returns all the same; it leaves when its controller agrees, as others do."""
    harness = ControllerHarness(
        Says(
            lambda request: [
                Ack(one.operation, Answer.STOP_AND_RETURN) for one in request.requests if one.notice[0] == "m"
            ]
        ),
        tasks=3,
        takes_seconds=10,
    )
    await harness.notice(1, kind=MaintenanceKind.REBOOT, starts_in_seconds=100, lasts_seconds=500)
    await harness.pass_seconds(590)
    drain = await harness.drain(1)
    await harness.pass_seconds(59)
    assert [1] == harness.unavailable()
    await harness.pass_seconds(12)
    assert ([], 1) == (harness.unavailable(), harness.node_of(1))
    assert ([1], drain) == (harness.waiting(), harness.requests[-1].requests[0].notice)
    await harness.pass_seconds(4000)
    assert ([], 1) == (harness.unavailable(), harness.run_of(1))


async def test_limits_hold_whatever_is_acknowledged() -> None:
    """T18: more than the job allows is not begun, with everything acknowledged; a failure counts against it."""
    harness = ControllerHarness(Says(all_of), tasks=10, unavailable_max=3, takes_seconds=60)
    await harness.fail(9)
    await harness.operate(UPDATE)
    assert ([0, 1, 9], 3) == (harness.unavailable(), len(harness.unavailable()))
    await harness.pass_seconds(1)
    assert harness.acked(), "more than may begin"
    await harness.pass_seconds(2 * ACK_LEASE / SECOND)
    assert 3 >= max(len(moment.unavailable) for moment in harness.timeline)
    await harness.until(lambda: not harness.operations)
    assert [1] * 10 == [harness.run_of(task) for task in range(10)]


async def test_drain_and_undrain() -> None:
    """What is to leave waits for its controller; nobody is asked any more once the drain is lifted."""
    harness = ControllerHarness(Says(none_of), tasks=4, spares=1, takes_seconds=10)
    name = await harness.drain(0, 1)
    assert ([0, 1], name) == (harness.waiting(), harness.requests[-1].notices[0].notice)
    await harness.undrain(0, 1)
    assert {Outcome.WITHDRAWN} == {done.outcome for done in harness.requests[-1].completed}
    assert ([], []) == (harness.waiting(), harness.unavailable())
    await harness.drain(2, deadline_seconds=20)
    await harness.pass_seconds(30)
    assert ([], 1) == (harness.unavailable(), harness.run_of(2))
    maintenance = await harness.notice(3, starts_in_seconds=60, lasts_seconds=60)
    await harness.cancel(maintenance)
    await harness.pass_seconds(100)
    assert 0 == harness.run_of(3)


async def test_lost_domain_moves_to_spares() -> None:
    """T23: its tasks are unavailable together, and are placed on whatever is free; the domain's return gives its nodes back."""
    harness = ControllerHarness(Says(all_of), tasks=4, domains={"east": [0, 2]}, spares=2, takes_seconds=10)
    await harness.lose("east")
    assert [0, 2] == harness.unavailable()
    await harness.pass_seconds(10)
    assert [] == harness.unavailable()
    await harness.restore("east")
    await harness.drain(1)
    await harness.pass_seconds(10)
    assert ([], 0) == (harness.unavailable(), harness.node_of(1))


async def test_large_domain_of_scattered_tasks_is_lost_whole() -> None:
    """T23: every second task of some thousands, which are more sorts of nodes than one fact could tell of."""
    east = list(range(0, 3_000, 2))
    harness = ControllerHarness(Says(none_of), tasks=3_000, domains={"east": east}, takes_seconds=10)
    await harness.lose("east")
    assert east == harness.unavailable()
    await harness.restore("east")
    await harness.until(lambda: not harness.unavailable())


async def test_jobs_are_told_apart() -> None:
    """Tasks of the second job have numbers of their own; a job that grows or shrinks asks for it."""
    harness = ControllerHarness(
        Says(all_of), tasks={"web": 2, "index": 2}, spares=2, takes_seconds=10, unavailable_max=2
    )
    await harness.operate(RESTART, [task_number(1, 0)])
    assert [task_number(1, 0)] == harness.unavailable()
    await harness.pass_seconds(10)
    await harness.change(tasks=4, job=1)
    assert [task_number(1, 2), task_number(1, 3)] == harness.unavailable()
    await harness.pass_seconds(10)
    await harness.change(tasks=1, job=0)
    await harness.pass_seconds(10)
    assert ([], TaskPhase.UP) == (harness.unavailable(), harness.phase_of(task_number(1, 3)))
    with pytest.raises(KeyError):
        harness.phase_of(1)
    await harness.change()
    await harness.until(lambda: not harness.operations)
    assert 1 == harness.run_of(0)


async def test_gang_is_touched_whole() -> None:
    """It ends by a move and comes back as the next attempt; a restart keeps it where it is."""
    harness = ControllerHarness(Says(all_of), tasks=4, is_gang=True, spares=4, takes_seconds=30)
    await harness.operate(RESTART)
    assert ([WHOLE], 1) == (harness.unavailable(), harness.epoch)
    await harness.pass_seconds(30)
    assert ([], 1, {}) == (harness.unavailable(), harness.epoch, harness.operations)
    await harness.operate(MOVE)
    assert ([WHOLE], 2) == (harness.unavailable(), harness.epoch)
    await harness.pass_seconds(30)
    assert [] == harness.unavailable()
    assert [Outcome.HEALTHY] * 2 == [
        done.outcome for request in harness.requests for done in request.completed
    ]


async def test_gang_waits_for_its_checkpoint() -> None:
    """An acknowledgement for after a checkpoint is followed when one is committed that is newer, and not when it is not."""
    harness = ControllerHarness(
        Says(lambda request: [Ack(one.operation, after_checkpoint=True) for one in request.requests]),
        tasks=2,
        is_gang=True,
        spares=2,
    )
    await harness.checkpoint(5)
    await harness.operate(MOVE)
    await harness.pass_seconds(300)
    assert ([WHOLE], 1) == (harness.acked(), harness.epoch)
    await harness.checkpoint(6)
    assert 2 == harness.epoch


async def test_gang_that_lost_a_node_comes_back_elsewhere() -> None:
    """When there is room: until then it has no attempt."""
    harness = ControllerHarness(
        Says(none_of), tasks=2, is_gang=True, domains={"east": [0], "west": [1]}, spares=1, takes_seconds=10
    )
    await harness.lose("east")
    await harness.pass_seconds(10)
    assert ([], 2) == (harness.unavailable(), harness.epoch)
    await harness.lose("west")
    await harness.pass_seconds(1000)
    assert [WHOLE] == harness.unavailable()
    await harness.restore("east")
    await harness.pass_seconds(10)
    assert ([], 3) == (harness.unavailable(), harness.epoch)


async def test_timeline_tells_each_change() -> None:
    """When, how much is asked, acknowledged, under way and done, and who is unavailable."""
    harness = ControllerHarness(Says(last_first), tasks=2, takes_seconds=60)
    await harness.operate(UPDATE)
    await harness.pass_seconds(600)
    assert [
        (0.0, 0, 0, 0, 0, ()),
        (0.0, 1, 1, 1, 0, (1,)),
        (60.0, 0, 2, 1, 1, (0,)),
        (120.0, 0, 2, 0, 2, ()),
    ] == [(m.at_seconds, m.waiting, m.acked, m.begun, m.done, m.unavailable) for m in harness.timeline]


async def test_mistakes_of_a_controller_are_raised() -> None:
    """In a test they are what one looks for; a region takes them for silence, and so does a forgiving harness."""

    def fail(_: TaskControlRequest) -> Iterable[Ack]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await ControllerHarness(Says(fail)).operate(UPDATE)
    with pytest.raises(Exception, match="return \\[\\] to let all wait"):
        await ControllerHarness(Says(lambda _: None)).operate(UPDATE)  # type: ignore[arg-type,return-value]
    harness = ControllerHarness(Says(fail), is_forgiving=True)
    await harness.operate(UPDATE)
    await harness.pass_seconds(10)
    assert harness.silences > 2, "it is asked again"
    harness._controller.decide = all_of  # type: ignore[attr-defined]
    await harness.pass_seconds(2)
    assert [0] == harness.unavailable()


async def test_reconsidered() -> None:
    """A controller that has come to another mind is asked again, in the same words."""
    is_ready = False
    harness = ControllerHarness(Says(lambda request: all_of(request) if is_ready else []), tasks=1)
    await harness.operate(UPDATE)
    await harness.pass_seconds(100)
    assert 1 == len(harness.requests), "nothing is new"
    is_ready = True
    await harness.reconsider()
    assert [harness.requests[0]] == harness.requests[1:2]
    assert [0] == harness.unavailable()


async def test_refusals_are_explained() -> None:
    """What no region does is an error of the test."""
    harness = ControllerHarness(Says(none_of), tasks=2)
    with pytest.raises(RegionRefused, match="stand alone"):
        await harness.operate(OperationKind.CHECKPOINT_AND_STOP)
    with pytest.raises(ValueError, match="there is no task 7"):
        ControllerHarness(Says(all_of), tasks=2, domains={"east": [7]})
    with pytest.raises(AssertionError, match="nothing more happens"):
        await harness.until(lambda: False)
    await harness.operate(UPDATE)
    with pytest.raises(AssertionError, match="does not hold after"):
        await harness.until(lambda: False, at_most_seconds=5)


def test_runs_without_any_plugin() -> None:
    """In a plain test, by asyncio alone."""

    async def scene() -> list[int]:
        harness = ControllerHarness(Says(all_of), tasks=2, unavailable_max=2)
        await harness.operate(UPDATE)
        return harness.unavailable()

    assert [0, 1] == asyncio.run(scene())

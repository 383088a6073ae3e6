"""A region whose parts work together: what happens to tasks, from a wish or a misfortune to health, and in which order."""

from collections.abc import Callable, Iterable

import pytest
from msgspec.structs import replace

from core.events.control import (
    ClaimRevised,
    DomainLost,
    NodesClosed,
    OperationsBegun,
    OperationsDone,
    TasksDown,
    TasksGone,
    TasksUp,
)
from core.events.region import AttemptEnded, CheckpointCommitted, GangStarted, NodesLost, StopOrdered
from core.images.control import TaskPhase
from core.messages.control import ChangeAttempt, TaskControlRequest
from core.messages.nodes import DrainNodes, PlanMaintenance, UndrainNodes
from core.nouns.ids import WorkerName
from core.nouns.instant import seconds
from core.nouns.limits import FAILURE_DEADLINE, PRESENCE_SILENCE_MAX
from core.nouns.maintenance import MaintenanceKind, Scope, ScopeKind
from core.nouns.operation import WHOLE, Ack, Answer, ControlSpec, OperationKind, Outcome
from core.nouns.workload import EndCause, Kind
from tests.builders import EU, a_claim, attempt
from tests.components.support.region import Controller, Region, Start

W0, W1 = WorkerName("w0"), WorkerName("w1")
CONTROLLED = ControlSpec(controller="shards", unavailable_max=100)
SERVICE = replace(a_claim("w-1", placed={0: 1, 1: 1, 2: 1}, gpus=8, kind=Kind.SERVICE), control=CONTROLLED)
"""Three tasks, each of a whole node: two at the first worker, one at the second."""
GANG = replace(a_claim("w-1", placed={0: 1, 2: 1}, gpus=8), control=CONTROLLED)


def agrees(request: TaskControlRequest) -> Iterable[Ack]:
    """To all that is asked."""
    return [Ack(asked.operation) for asked in request.requests]


def answers(answer: Answer, *, after_checkpoint: bool = False) -> Controller:
    """This, to all that is asked."""
    return lambda request: [Ack(asked.operation, answer, after_checkpoint) for asked in request.requests]


def silent(request: TaskControlRequest) -> None:
    """Nobody is there."""


def a_region(start: Start, claim: object = SERVICE, controller: Controller = agrees) -> Region:
    """The service is up, or the gang runs."""
    region = Region(start)
    region.controller = controller
    region.wait(seconds(1))
    region.grant(claim)  # type: ignore[arg-type]
    region.wait(seconds(1))
    assert region.recorded(GangStarted)
    return region


def drain(region: Region, worker: str, deadline: int = 0) -> None:
    """An operator wants a worker's nodes empty."""
    revision = region.store.state.image.maintenance.revision
    region.hear(DrainNodes(EU, Scope(ScopeKind.WORKER, (worker,)), "because", revision, deadline))


def maintain(region: Region, worker: str, kind: MaintenanceKind = MaintenanceKind.REBOOT) -> None:
    """Work on a worker's nodes is planned: notice in 10 s, the window in 70 s, for 100 s."""
    scope = Scope(ScopeKind.WORKER, (worker,))
    planned = region.store.state.image.maintenance.planned
    region.hear(PlanMaintenance(EU, scope, kind, seconds(70), seconds(100), seconds(60), planned))


def kinds(region: Region, *of: type) -> list[str]:
    """What happened, of these sorts, in order."""
    return [type(one).__name__ for _, one in region.happened if isinstance(one, of)]


# Services.


def test_service_comes_up(start: Start) -> None:
    """Every task on its node, once."""
    region = a_region(start)
    assert region.is_up()
    assert {0: [(W0, 0)], 1: [(W0, 0)], 2: [(W1, 0)]} == region.running()
    assert [] == region.recorded(TasksUp, TasksDown, ClaimRevised)


def test_order_in_which_a_lost_task_is_replaced(start: Start) -> None:
    """T19: out of discovery, its controller asked, new room, started, in discovery; and nothing of the others is touched."""
    region = a_region(start)
    region.workers[W1].is_cut = True
    begun = len(region.happened)
    region.until(lambda: bool(region.recorded(TasksUp)), seconds(60))
    region.happened = region.happened[begun:]
    order = kinds(region, NodesLost, TasksGone, TaskControlRequest, OperationsBegun, ClaimRevised, TasksUp)
    steps = ("NodesLost", "TaskControlRequest", "OperationsBegun", "ClaimRevised", "TasksUp")
    assert list(steps) == sorted(steps, key=order.index)
    assert (2,) == region.requests()[0].unhealthy
    assert {0: 0, 1: 1, 2: 4} == region.nodes() or {0: 0, 1: 1, 2: 5} == region.nodes()
    assert {0: 0, 1: 0, 2: 1} == region.runs()
    assert [(WorkerName("w2"), 1)] == [at for at in region.running()[2] if at[0] != W1]


def test_task_that_fails_starts_again_where_it_was(start: Start) -> None:
    """T9, T19: it alone, once its controller has agreed."""
    region = a_region(start)
    region.workers[W0].fail(1)
    region.settle()
    assert not region.is_up(1)
    assert region.is_up(0, 2)
    region.until(region.is_up, seconds(10))
    assert {0: 0, 1: 1, 2: 2} == region.nodes()
    assert {0: 0, 1: 1, 2: 0} == region.runs()
    assert [] == region.doubles()


def test_only_acknowledged_operations_proceed(start: Start) -> None:
    """T11: one task of three is restarted, the others are asked for again, and begin when their controller agrees."""
    region = a_region(start)
    seen: list[tuple[int, ...]] = []
    allowed = [0]

    def picky(request: TaskControlRequest) -> Iterable[Ack]:
        seen.append(tuple(asked.task for asked in request.requests))
        return [Ack(asked.operation) for asked in request.requests if asked.task in allowed]

    region.controller = picky
    region.operate(OperationKind.RESTART)
    region.wait(seconds(30))
    assert {0: 1, 1: 0, 2: 0} == region.runs()
    assert region.is_up()
    assert (0, 1, 2) == seen[0]
    assert (1, 2) == seen[-1]
    allowed.append(2)
    region.wait(seconds(30))
    assert {0: 1, 1: 0, 2: 1} == region.runs()
    assert [(1,)] == seen[-1:]


def test_completed_operation_is_told_once_and_after_health(start: Start) -> None:
    """T12: in the first request after the task is up again, and in no later one that was answered."""
    region = a_region(start)
    region.operate(OperationKind.RESTART, 1)
    region.wait(seconds(60))
    healthy_at = next(i for i, (_, one) in enumerate(region.happened) if isinstance(one, TasksUp))
    told = [
        (i, done)
        for i, (_, one) in enumerate(region.happened)
        if isinstance(one, TaskControlRequest)
        for done in one.completed
    ]
    assert [(1, OperationKind.RESTART, Outcome.HEALTHY)] == [
        (one.task, one.kind, one.outcome) for _, one in told
    ]
    assert told[0][0] > healthy_at


@pytest.mark.parametrize("answer", [Answer.PROCEED, Answer.MOVE])
def test_drained_worker_is_left(start: Start, answer: Answer) -> None:
    """T16: its tasks move at once, to nodes that are open."""
    region = a_region(start, controller=answers(answer))
    drain(region, "w1")
    region.until(lambda: region.is_up() and region.nodes()[2] > 3, seconds(10))
    assert {0: 0, 1: 1} == {task: node for task, node in region.nodes().items() if task < 2}
    assert [] == region.doubles()


def test_task_that_stops_and_returns(start: Start) -> None:
    """T16: it runs until the work begins, and starts again on the same node when it is over."""
    region = a_region(start, controller=answers(Answer.STOP_AND_RETURN))
    maintain(region, "w1")
    region.wait(seconds(69))
    assert region.is_up()
    region.wait(seconds(3))
    assert TaskPhase.GONE is region.row().tasks[2].phase
    region.workers[W1].lose_power()
    region.wait(seconds(90))
    assert TaskPhase.GONE is region.row().tasks[2].phase
    region.wait(seconds(20))
    assert region.is_up()
    assert ({0: 0, 1: 1, 2: 2}, {0: 0, 1: 0, 2: 1}) == (region.nodes(), region.runs())


def test_task_that_ignores_its_maintenance(start: Start) -> None:
    """T16: work on a switch is waited out: nothing happens to it."""
    region = a_region(start, controller=answers(Answer.IGNORE))
    maintain(region, "w1", MaintenanceKind.NETWORK)
    region.wait(seconds(200))
    assert {0: 0, 1: 0, 2: 0} == region.runs()
    assert Outcome.IGNORED in {one.outcome for one in region.recorded(OperationsDone)}
    assert [] == region.recorded(OperationsBegun, TasksDown)


@pytest.mark.parametrize("controller", [silent, lambda request: ()], ids=["silent", "refusing"])
def test_release_waits_for_ever_and_maintenance_does_not(start: Start, controller: Controller) -> None:
    """T17, T20: without a word a restart stays asked for; tasks leave nodes that are worked on when the window opens."""
    region = a_region(start, controller=controller)
    region.operate(OperationKind.RESTART, 0)
    maintain(region, "w1")
    region.wait(seconds(65))
    assert {0: 0, 1: 0, 2: 0} == region.runs()
    region.wait(seconds(20))
    assert region.is_up()
    assert {0: 0, 1: 0, 2: 1} == region.runs()
    assert region.nodes()[2] > 3
    region.wait(seconds(600))
    assert {0: 0, 1: 0, 2: 1} == region.runs()


def test_lost_task_of_an_unreachable_controller(start: Start) -> None:
    """T20: it is replaced when its deadline has passed, and not before."""
    region = a_region(start, controller=silent)
    region.workers[W1].is_cut = True
    region.until(lambda: bool(region.recorded(NodesLost)), seconds(60))
    region.wait(seconds(FAILURE_DEADLINE / 10**9 - 2))
    assert {0: 0, 1: 0, 2: 0} == region.runs()
    region.wait(seconds(10))
    assert region.is_up()
    assert region.nodes()[2] > 3


def test_worker_that_was_cut_off_comes_back(start: Start) -> None:
    """T26: what it ran is stopped before anything else may run there; the run that counts goes on."""
    region = a_region(start)
    region.workers[W1].is_cut = True
    region.until(lambda: bool(region.recorded(TasksUp)), seconds(60))
    region.workers[W1].is_cut = False
    region.until(lambda: 1 == len(region.running()[2]), seconds(60))
    assert [1] == [run for _, run in region.running()[2]]
    region.wait(seconds(60))
    assert region.is_up()
    assert not region.store.state.image.capacity.is_lost[2]
    assert {} == region.workers[W1].shares


def test_strict_task_never_runs_twice(start: Start) -> None:
    """T26: its replacement starts when the run that was cut off has stopped by itself."""
    strict = replace(SERVICE, control=replace(CONTROLLED, is_strict=True, isolation=seconds(60)))
    region = a_region(start, strict)
    cut_at = region.now
    worker = region.workers[W1]
    worker.is_cut = True
    region.until(lambda: region.now >= cut_at + seconds(60), seconds(61))
    for key in list(worker.shares):
        worker.end(key, -2)
    region.until(region.is_up, seconds(120))
    assert [] == region.doubles()
    assert region.now >= cut_at + seconds(60) + seconds(30)


# Gangs.


def test_gang_that_is_restarted_in_place(start: Start) -> None:
    """T11: whole, once its controller agreed; on the same nodes, from the checkpoint that it wrote."""
    region = a_region(start, GANG)
    region.workers[W0].save(50)
    region.operate(OperationKind.RESTART)
    region.until(lambda: bool(region.recorded(TasksUp)), seconds(10))
    assert {WHOLE: [(W0, 1), (W1, 1)]} == region.running()
    assert {(1, 50)} == {ran.resume for ran in region.ran if ran.key.run == 1}
    assert [] == region.recorded(AttemptEnded, StopOrdered)
    assert [] == region.doubles()


def test_gang_that_waits_for_a_checkpoint_before_it_moves(start: Start) -> None:
    """T16: it is stopped once it has saved a newer step than it had, and goes back to the queue."""
    region = a_region(start, GANG, answers(Answer.MOVE, after_checkpoint=True))
    region.workers[W0].save(10)
    drain(region, "w1")
    region.wait(seconds(30))
    assert [] == region.recorded(StopOrdered)
    region.workers[W0].save(20)
    region.until(lambda: bool(region.recorded(AttemptEnded)), seconds(10))
    order = kinds(region, CheckpointCommitted, NodesClosed, OperationsBegun, StopOrdered, AttemptEnded)
    assert [
        "CheckpointCommitted", "NodesClosed", "CheckpointCommitted", "OperationsBegun", "StopOrdered", "AttemptEnded",
    ] == order  # fmt: skip
    assert EndCause.DRAINED == region.recorded(AttemptEnded)[0].cause


def test_gang_that_stops_and_returns(start: Start) -> None:
    """T16: it runs until the work begins, outlives the reboot of its nodes, and starts there again when it is over."""
    region = a_region(start, GANG, answers(Answer.STOP_AND_RETURN))
    maintain(region, "w1")
    region.wait(seconds(69))
    assert {WHOLE: [(W0, 0), (W1, 0)]} == region.running()
    region.wait(seconds(3))
    assert {} == region.running()
    region.workers[W1].lose_power()
    region.workers[W1].is_cut = True
    region.wait(PRESENCE_SILENCE_MAX)
    region.wait(seconds(10))
    assert region.recorded(NodesLost)
    region.workers[W1].is_cut = False
    region.wait(seconds(120))
    assert {WHOLE: [(W0, 1), (W1, 1)]} == region.running()
    assert [] == region.recorded(AttemptEnded)


# Misfortune.


def misfortune(region: Region, deeds: int, is_over: Callable[[], bool] = lambda: False) -> None:
    """One message in four is lost, workers are cut off and lose their power, followers die, tasks fail and are touched, nodes
    are drained and worked on.
    """
    dice = region.dice
    region.loses = 0.25
    for _ in range(deeds):
        if is_over():
            break
        worker = region.workers[dice.choice(list(region.workers))]
        task = dice.choice(region.tasks())
        deed = dice.choice(
            ("fail", "power", "cut", "follower", "restart", "move", "drain", "undrain", "maintain", "resize")
        )
        match deed:
            case "fail":
                for one in region.workers.values():
                    one.fail(task)
            case "power":
                worker.lose_power()
            case "cut":
                worker.is_cut = not worker.is_cut
            case "follower":
                region.restart(dice.choice(("broker", "agent", "control")))
            case "drain":
                drain(region, worker.name, dice.choice((0, 20)) * 10**9)
            case "undrain":
                undrain(region)
            case "maintain":
                maintain(region, worker.name)
            case "resize":
                resize(region, dice.randint(1, 4))
            case _:
                region.operate(OperationKind(deed), *([] if task < 0 else [task]))
        region.wait(seconds(dice.choice((1, 5, 40))))


def calm(region: Region) -> None:
    """Nothing is lost any more, everybody can be reached, and no node is kept empty."""
    region.loses = 0.0
    for worker in region.workers.values():
        worker.is_cut = False
    region.wait(seconds(300))
    undrain(region)


@pytest.mark.parametrize("seed", range(6))
def test_service_comes_right_after_misfortune(start: Start, seed: int) -> None:
    """T25, T26: in the end all of it is up, each task runs once, in the run that the log shows; and no run of a task ever began
    while another went on whose worker was not taken for lost.
    """
    region = a_region(start)
    region.dice.seed(seed)
    misfortune(region, 12)
    calm(region)
    region.until(lambda: region.is_up() and is_single(region), seconds(900))
    assert set(range(region.row().jobs[0].tasks)) == set(region.running())
    assert {task: row.run for task, row in region.row().tasks.items()} == {
        task: runs[0][1] for task, runs in region.running().items()
    }
    assert [] == doubles(region)


@pytest.mark.parametrize("seed", range(6))
def test_gang_comes_right_after_misfortune(start: Start, seed: int) -> None:
    """T25, T26: in the end all of it runs, in the run that the log shows, or it has ended and nothing of it runs; and no run of
    it ever began while another went on whose worker was not taken for lost.
    """
    region = a_region(start, GANG, some_answer(seed))
    region.dice.seed(seed)
    misfortune(region, 12, is_over=lambda: bool(region.recorded(AttemptEnded)))
    calm(region)
    if region.recorded(AttemptEnded):
        region.until(lambda: region.running() == {}, seconds(300))
    else:
        region.until(lambda: region.is_up() and len(region.running().get(WHOLE, ())) == 2, seconds(900))
        assert {W0: region.runs()[WHOLE], W1: region.runs()[WHOLE]} == dict(region.running()[WHOLE])
    assert [] == doubles(region)


def some_answer(seed: int) -> Controller:
    """Moves, or returns."""
    return answers(Answer.STOP_AND_RETURN) if seed % 2 else agrees


def doubles(region: Region) -> list[object]:
    """Runs that overlapped, the first of them on a worker that was never taken for lost."""
    lost = {one.worker for one in region.recorded(NodesLost)}
    lost.update(worker for one in region.recorded(DomainLost) for worker in one.workers)
    return [pair for pair in region.doubles() if pair[0].worker not in lost]


def is_single(region: Region) -> bool:
    """Whether every task runs once."""
    return all(len(runs) == 1 for runs in region.running().values())


def resize(region: Region, tasks: int) -> None:
    """Its user wants so many tasks, and a gang as they are."""
    row = region.store.state.image.control.spec_of(*attempt())
    if row is not None and row.stands_alone:
        jobs = (replace(row.jobs[0], tasks=tasks),)
        region.hear(ChangeAttempt(EU, *attempt(), row.revision + 1, jobs))


def undrain(region: Region) -> None:
    """No drain closes any node."""
    revision = region.store.state.image.maintenance.revision
    region.hear(UndrainNodes(EU, Scope(ScopeKind.WORKER, tuple(region.workers)), revision))

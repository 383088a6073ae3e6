"""The control section of a region's image: what tasks and operations become, fact by fact, and how requests are numbered."""

import pytest
from msgspec.structs import replace

from components.task_control.operations import closing_of
from components.task_control.requests import request_of
from core.events.control import (
    AcksExpired,
    AttemptChanged,
    ClaimRevised,
    ControlAnswered,
    ControlForgotten,
    DomainLost,
    NodesClosed,
    NodesOpened,
    OperationsBegun,
    OperationsDone,
    OperationsRequested,
    OperationsStuck,
    TasksDown,
    TasksGone,
    TasksUp,
)
from core.events.region import (
    AttemptEnded,
    CheckpointCommitted,
    GangStarted,
    NodesLost,
    NodesReturned,
    StopOrdered,
)
from core.fact import Event
from core.images import RegionImage
from core.images.control import FORGIVEN_AFTER, AttemptControl, TaskPhase
from core.invariants.consistency import check_ledger
from core.invariants.control import check_control
from core.messages.control import TaskControlRequest
from core.nouns.ids import AttemptKey, WorkerName
from core.nouns.instant import Instant, Nanoseconds, after, seconds
from core.nouns.maintenance import ClosureKind
from core.nouns.operation import (
    WHOLE,
    Ack,
    Answer,
    BegunBy,
    ControlSpec,
    OperationKind,
    Outcome,
    TaskMove,
    task_number,
)
from core.nouns.workload import Emulation, EndCause, Kind
from tests.builders import EU, START, a_claim, a_fact, a_job, a_region, a_spread, attempt, granted, joined
from tests.core.histories import RegionHistory
from tests.core.properties import SEEDS

W1 = attempt()
W0 = WorkerName("w0")
UP, STARTING, DOWN, GONE = TaskPhase.UP, TaskPhase.STARTING, TaskPhase.DOWN, TaskPhase.GONE
SERVICE = replace(
    a_claim("w-1", placed={0: 2, 1: 1}, kind=Kind.SERVICE), control=ControlSpec("shards"), spec_revision=3
)
GANG = replace(a_claim("w-1", placed={0: 2}), control=ControlSpec("trainer"), spec_revision=3)
BEGUN = [joined(), granted(SERVICE), GangStarted(*W1)]
"""Three tasks that stand alone are up: two on the first node, one on the second."""


def asked(
    kind: OperationKind = OperationKind.RESTART, *tasks: int, first: int = 1, source: str = ""
) -> Event:
    """Something is to happen to these tasks."""
    return OperationsRequested(*W1, first, kind, tasks or (0,), "because", source, 0, "user:ada")


def begun(*operations: int, by: BegunBy = BegunBy.ACK) -> Event:
    """These begin."""
    return OperationsBegun(*W1, operations, by, "user:ada")


def row(*events: Event, of: tuple[Event, ...] = ()) -> AttemptControl:
    """The attempt's after these events, on top of the three tasks, or of something else."""
    found = a_region(*(of or BEGUN), *events).control.row(*W1)
    assert found is not None
    return found


def phases(found: AttemptControl) -> list[TaskPhase]:
    """Of its tasks, by their numbers."""
    return [found.tasks[number].phase for number in sorted(found.tasks)]


# Requests.


def content(request: TaskControlRequest) -> TaskControlRequest:
    """What it says, whatever its number."""
    return replace(request, sequence=0)


@pytest.mark.parametrize("seed", SEEDS)
def test_requests_of_a_random_history_are_numbered(seed: int) -> None:
    """T10: the sequence strictly increases: it grows with each fact by which the request differs, and with no other.

    Two requests that differ never have one number, so an answer tells which of them it was given on. (The end of a drain on some
    of its nodes changes no request, and renumbers it: what is asked for on them is withdrawn at once.)
    """
    image = RegionImage.empty()
    before: dict[AttemptKey, TaskControlRequest] = {}
    differed = 0
    for fact in RegionHistory(seed).draw(250):
        image.fold(fact)
        for key in image.control.all_keys():
            found = image.control.row(*key)
            assert found is not None
            if not found.spec.controller:
                continue  # Nobody is asked.
            now = request_of(EU, image, closing_of(image), key, found, START)
            was = before.get(key, now)
            if content(was) != content(now):
                assert fact.sequence == now.sequence > was.sequence, fact.event
                differed += 1
            elif not isinstance(fact.event, NodesOpened):
                assert was.sequence == now.sequence, fact.event
            before[key] = now
        assert [] == check_control(image), fact.event
    assert differed > 5


# Tasks.


def test_tasks_of_a_service_are_there_from_the_grant_on() -> None:
    """Ranks are numbered node by node; they are starting until all are up."""
    found = row(of=(joined(), granted(SERVICE)))
    assert [0, 0, 1] == [found.tasks[task_number(0, rank)].node for rank in range(3)]
    assert [STARTING] * 3 == phases(found)
    assert [0, 1, 2] == found.unavailable()
    assert [UP] * 3 == phases(row())
    assert [3, 3, 3] == [task.revision for task in row().tasks.values()]


def test_tasks_of_several_jobs() -> None:
    """Each job numbers its own."""
    claim = replace(
        SERVICE,
        jobs=(a_job(1), a_job(2, name="eval")),
        spreads=(a_spread({0: 1}), a_spread({0: 1, 2: 1})),
    )
    found = row(of=(joined(), granted(claim)))
    assert {task_number(0, 0): 0, task_number(1, 0): 0, task_number(1, 1): 2} == {
        number: task.node for number, task in found.tasks.items()
    }


def test_gang_has_no_row_before_it_is_asked_about() -> None:
    """Then it counts as one task, which is up; and its controller is asked on what the gang has saved."""
    image = a_region(joined(), granted(GANG), CheckpointCommitted(*W1, 70))
    assert image.control.row(*W1) is None
    spec = image.control.spec_of(*W1)
    assert spec is not None
    assert (70, 3) == (spec.saved_step, spec.revision)
    found = row(asked(OperationKind.MOVE, WHOLE), of=(joined(), granted(GANG), CheckpointCommitted(*W1, 70)))
    assert {WHOLE: UP} == {number: task.phase for number, task in found.tasks.items()}
    assert 70 == found.saved_step


def test_task_that_fails_by_itself() -> None:
    """It is out of discovery with its cause; the room is its own still."""
    found = row(TasksDown(*W1, (1,), EndCause.TASK_FAILED, 3))
    assert [UP, DOWN, UP] == phases(found)
    assert ([1], EndCause.TASK_FAILED, 1) == (
        found.unavailable(),
        found.tasks[1].cause,
        found.tasks[1].failures,
    )
    found = row(TasksDown(*W1, (1,), EndCause.TASK_FAILED, 3, is_gone=True))
    assert [UP, GONE, UP] == phases(found)
    assert [UP, GONE, UP] == phases(row(TasksDown(*W1, (1,), EndCause.TASK_FAILED), TasksGone(*W1, (1,))))


def again(number: int = 1, revision: int = 1) -> list[Event]:
    """It fails, and is started again where it was."""
    node = 0 if number < 2 else 1
    return [
        TasksDown(*W1, (number,), EndCause.TASK_FAILED, 3, is_gone=True),
        ClaimRevised(*W1, revision, (TaskMove(number, node, node),)),
        TasksUp(*W1, (number,)),
    ]


def test_failures_in_a_row() -> None:
    """Each counts until the task has been up for long; then it begins anew. A run that never came up counts too."""
    found = row(*again(), *again(revision=2))
    assert (2, 2, UP) == (found.tasks[1].failures, found.tasks[1].run, found.tasks[1].phase)
    image = a_region(*BEGUN, *again())
    late = after(Instant(START + seconds(7)), FORGIVEN_AFTER)
    image.fold(a_fact(TasksDown(*W1, (1,), EndCause.TASK_FAILED), 7, at=late))
    found_late = image.control.row(*W1)
    assert found_late is not None
    assert 1 == found_late.tasks[1].failures
    found = row(*again()[:2], TasksDown(*W1, (1,), EndCause.START_FAILED))
    assert 2 == found.tasks[1].failures
    assert 0 == row(TasksDown(*W1, (1,), EndCause.NODE_FAILED)).tasks[1].failures


def test_tasks_of_lost_nodes() -> None:
    """They are down at once, and gone when the node is back and empty. Others are left alone."""
    history = [joined("w0", 0, 1), joined("w1", 1, 3), granted(SERVICE), GangStarted(*W1)]
    lost = NodesLost(W0, (0,))
    assert [DOWN, DOWN, UP] == phases(row(lost, of=(*history,)))
    assert [GONE, GONE, UP] == phases(row(lost, NodesReturned(W0, (0,)), of=(*history,)))
    both = DomainLost("power-0", (W0, WorkerName("w1")), ((0, 3),))
    assert [DOWN] * 3 == phases(row(both, of=(*history,)))
    assert {EndCause.NODE_LOST} == {task.cause for task in row(both, of=(*history,)).tasks.values()}


def test_starting_task_of_a_lost_node() -> None:
    """It is down too: nobody will tell that it is up."""
    found = row(NodesLost(W0, (0, 1, 2, 3)), of=(joined(), granted(SERVICE)))
    assert [DOWN] * 3 == phases(found)


def test_task_that_moves() -> None:
    """Its newest run is elsewhere; its number stays, and so does its room's sum."""
    move = [asked(OperationKind.MOVE, 1), begun(1), TasksGone(*W1, (1,))]
    revised = ClaimRevised(*W1, 1, (TaskMove(1, 0, 3),))
    image = a_region(*BEGUN, *move, revised)
    found = image.control.row(*W1)
    assert found is not None
    assert (3, 1, STARTING) == (found.tasks[1].node, found.tasks[1].run, found.tasks[1].phase)
    assert 1 == found.claim_revision
    assert [7_000, 7_000, 8_000, 7_000] == image.capacity.gpu.free
    held = image.capacity.holding(*W1)
    assert held is not None
    assert (a_spread({0: 1, 1: 1, 3: 1}), 1, 3) == (
        held.claim.spreads[0],
        held.claim.revision,
        held.claim.jobs[0].tasks,
    )
    shown = image.attempts.row(*W1)
    assert shown is not None
    assert (a_spread({0: 1, 1: 1, 3: 1}),) == shown.spreads
    assert [] == check_control(image)


def test_task_that_leaves_for_good() -> None:
    """Its room is free, and nobody waits for it any more."""
    stop = [asked(OperationKind.STOP, 2), begun(1), TasksGone(*W1, (2,))]
    image = a_region(*BEGUN, *stop, ClaimRevised(*W1, 1, (TaskMove(2, 1, -1),)))
    found = image.control.row(*W1)
    assert found is not None
    assert [0, 1] == sorted(found.tasks)
    assert [] == found.unavailable()
    assert [6_000, 8_000, 8_000, 8_000] == image.capacity.gpu.free


def test_task_that_leaves_while_all_are_told_to_stop() -> None:
    """What it gives back was counted as ending: nothing is negative."""
    stop = [
        asked(OperationKind.STOP, 2),
        begun(1),
        StopOrdered(*W1, EndCause.CANCELLED),
        TasksGone(*W1, (2,)),
    ]
    image = a_region(*BEGUN, *stop, ClaimRevised(*W1, 1, (TaskMove(2, 1, -1),)))
    assert [] == check_ledger(image.capacity)
    assert [2_000, 0, 0, 0] == image.capacity.gpu.ending


def test_task_that_is_new() -> None:
    """It is nowhere until it has room; withdrawn before that, it never was."""
    new = task_number(0, 3)
    found = row(asked(OperationKind.START, new))
    assert (-1, -1, GONE) == (found.tasks[new].node, found.tasks[new].run, found.tasks[new].phase)
    placed = row(asked(OperationKind.START, new), begun(1), ClaimRevised(*W1, 1, (TaskMove(new, -1, 2),)))
    assert (2, 0, STARTING, 3) == (
        placed.tasks[new].node,
        placed.tasks[new].run,
        placed.tasks[new].phase,
        placed.tasks[new].revision,
    )
    withdrawn = row(asked(OperationKind.START, new), OperationsDone(*W1, (1,), Outcome.WITHDRAWN))
    assert [0, 1, 2] == sorted(withdrawn.tasks)


def test_changed_job() -> None:
    """Tasks are behind until they have a run of it; one that only has more or fewer fellows is not."""
    other = replace(SERVICE.jobs[0], emulation=Emulation(work=Nanoseconds(5)))
    found = row(AttemptChanged(*W1, 4, (other,)), *again())
    assert (4, [3, 4, 3]) == (found.revision, [task.revision for task in found.tasks.values()])
    grown = row(AttemptChanged(*W1, 4, (replace(SERVICE.jobs[0], tasks=5),)))
    assert [4, 4, 4] == [task.revision for task in grown.tasks.values()]


# Operations.


def test_operation_through_its_life() -> None:
    """Asked, acknowledged, begun, over, and told."""
    found = row(asked())
    assert ("asked", 2) == (found.operations[1].phase, found.next_operation)
    answered = ControlAnswered(*W1, found.changed, (Ack(1),))
    assert "acked" == row(asked(), answered).operations[1].phase
    found = row(asked(), answered, begun(1))
    assert ("begun", BegunBy.ACK, [DOWN, UP, UP]) == (
        found.operations[1].phase,
        found.operations[1].by,
        phases(found),
    )
    assert OperationKind.RESTART == found.tasks[0].cause
    done = [asked(), answered, begun(1), TasksGone(*W1, (0,))]
    done += [ClaimRevised(*W1, 1, (TaskMove(0, 0, 0),)), TasksUp(*W1, (0,))]
    done += [OperationsDone(*W1, (1,), Outcome.HEALTHY)]
    found = row(*done)
    assert ("done", Outcome.HEALTHY, [UP] * 3) == (
        found.operations[1].phase,
        found.operations[1].outcome,
        phases(found),
    )
    assert {} == row(*done, ControlAnswered(*W1, found.changed, ())).operations


def test_operation_without_a_controller() -> None:
    """It is gone once it is over."""
    alone = (joined(), granted(replace(SERVICE, control=ControlSpec())), GangStarted(*W1))
    assert {} == row(asked(), OperationsDone(*W1, (1,), Outcome.WITHDRAWN), of=alone).operations


def test_ack_that_expires_or_waits_for_a_checkpoint() -> None:
    """It is asked for again; what it waited for is forgotten."""
    gang = (joined(), granted(GANG), CheckpointCommitted(*W1, 70))
    waits = [asked(OperationKind.MOVE, WHOLE), ControlAnswered(*W1, 4, (Ack(1, after_checkpoint=True),))]
    assert 70 == row(*waits, of=gang).operations[1].after_step
    found = row(*waits, AcksExpired(*W1, (1,)), of=gang)
    assert ("asked", -1) == (found.operations[1].phase, found.operations[1].after_step)


def test_start_that_begins_takes_nothing_down() -> None:
    """It stops nothing; and it is asked for no more, whoever let it begin."""
    gone = TasksDown(*W1, (0,), EndCause.TASK_FAILED, is_gone=True)
    before, found = (
        row(gone, asked(OperationKind.START, 0)),
        row(gone, asked(OperationKind.START, 0), begun(1, by=BegunBy.DEADLINE)),
    )
    assert [GONE, UP, UP] == phases(found)
    assert found.changed > before.changed


def test_stuck_operation_is_marked() -> None:
    """That changes no request."""
    before, found = row(asked(), begun(1)), row(asked(), begun(1), OperationsStuck(*W1, (1,)))
    assert (True, before.changed) == (found.operations[1].is_stuck, found.changed)


def test_request_when_a_drain_is_lifted() -> None:
    """Its notice is told no more, so the request is another, before what was asked for is withdrawn."""
    closed = NodesClosed("d-1", ClosureKind.DRAIN, ((0, 0),), "fan")
    drained = [closed, asked(OperationKind.MOVE, 0, source="d-1")]
    found = row(*drained, NodesOpened("d-1", ClosureKind.DRAIN, ((0, 0),)))
    assert found.changed > row(*drained).changed
    other = NodesClosed("d-2", ClosureKind.DRAIN, ((3, 3),), "fan")
    same = row(*drained, other, NodesOpened("d-2", ClosureKind.DRAIN, ((3, 3),)))
    assert same.changed == row(*drained).changed, "nothing of it is there"


@pytest.mark.parametrize("is_gang", [False, True])
def test_request_when_nodes_are_drained_behind_an_operation(*, is_gang: bool) -> None:
    """Its notice is news, and so is its end; what is closed for no leaving, or elsewhere, is none; nor is it when nobody is asked."""
    of = (joined(), granted(GANG if is_gang else SERVICE), GangStarted(*W1))
    held = asked(OperationKind.RESTART, WHOLE if is_gang else 0)
    drain, lift = (kind("d-1", ClosureKind.DRAIN, ((0, 0),), "fan") for kind in (NodesClosed, NodesOpened))
    before, noticed = row(held, of=of), row(held, drain, of=of)
    assert noticed.changed > before.changed
    assert row(held, drain, lift, of=of).changed > noticed.changed
    elsewhere = replace(drain, nodes=((3, 3),))
    suspect = NodesClosed("suspicion", ClosureKind.SUSPECT, ((0, 0),), "fan")
    for news in (elsewhere, suspect):
        assert before.changed == row(held, news, of=of).changed


# Ends.


ENDED = AttemptEnded(*W1, EndCause.MOVED)


def test_end_of_a_service() -> None:
    """Whatever was asked of its tasks, begun or not, is gone with it, and told."""
    found = row(asked(OperationKind.MOVE, 0, 1), begun(1), ENDED)
    assert {1: Outcome.GONE, 2: Outcome.GONE} == {n: o.outcome for n, o in found.operations.items()}
    assert ({}, True) == (found.tasks, found.is_ended)


def test_end_of_a_gang_by_an_operation() -> None:
    """That one is over when the workload is healthy again, wherever that is; others are gone."""
    gang = (joined(), granted(GANG), GangStarted(*W1))
    found = row(asked(OperationKind.MOVE, WHOLE), begun(1), ENDED, of=gang)
    assert "begun" == found.operations[1].phase
    found = row(asked(OperationKind.MOVE, WHOLE), ENDED, of=gang)
    assert Outcome.GONE == found.operations[1].outcome


def test_end_of_an_attempt_without_a_waiting_controller() -> None:
    """Nothing of its control is left."""
    for claim in (SERVICE, GANG):
        image = a_region(joined(), granted(claim), GangStarted(*W1), ENDED)
        assert ({}, {}) == (image.control.rows, image.control.specs)
    alone = replace(GANG, control=ControlSpec())
    image = a_region(joined(), granted(alone), asked(OperationKind.MOVE, WHOLE), begun(1), ENDED)
    assert {} == image.control.rows


@pytest.mark.parametrize("last", ["answered", "forgotten"])
def test_rows_of_an_ended_attempt_go_once_its_outcomes_are_told(last: str) -> None:
    """Or when no controller takes them."""
    image = a_region(*BEGUN, asked(), ENDED)
    found = image.control.row(*W1)
    assert found is not None
    told = ControlAnswered(*W1, found.changed, ()) if last == "answered" else ControlForgotten(*W1)
    image.fold(a_fact(told, 6))
    assert {} == image.control.rows


def test_paused_gang() -> None:
    """Stopped where it is, it keeps its room and starts again there, as another run."""
    gang = (joined(), granted(GANG), GangStarted(*W1))
    pause = [asked(OperationKind.RESTART, WHOLE), begun(1), TasksGone(*W1, (WHOLE,))]
    found = row(*pause, of=gang)
    assert (True, GONE) == (found.is_paused, found.tasks[WHOLE].phase)
    image = a_region(*gang, *pause, ClaimRevised(*W1, 1, (TaskMove(WHOLE, -1, -1),)), TasksUp(*W1, (WHOLE,)))
    back = image.control.row(*W1)
    assert back is not None
    assert (1, UP, False) == (back.tasks[WHOLE].run, back.tasks[WHOLE].phase, back.is_paused)
    assert [6_000, 8_000, 8_000, 8_000] == image.capacity.gpu.free
    assert [] == check_control(image)


def test_answers_that_a_request_may_get() -> None:
    """Each is kept as it was said."""
    closed = NodesClosed("m-1", ClosureKind.MAINTENANCE, ((0, 0),), "fan")
    for answer in Answer:
        found = row(
            closed, asked(OperationKind.MOVE, 0, source="m-1"), ControlAnswered(*W1, 5, (Ack(1, answer),))
        )
        assert answer == found.operations[1].answer

"""The tasks of an attempt and what each operation waits for: given what happened in a region, exactly these."""

from collections.abc import Sequence

import pytest

from core.events.control import (
    AttemptChanged,
    ClaimRevised,
    DestructionHalted,
    OperationsDone,
    OperationsRequested,
    TasksDown,
    TasksUp,
)
from core.events.region import AttemptEnded, GangStarted, NodesLost, StopOrdered
from core.fact import Event
from core.messages.control import ControllerShown
from core.nouns.ids import TenantName, WorkerName
from core.nouns.instant import SECOND, Instant
from core.nouns.maintenance import MaintenanceKind
from core.nouns.operation import WHOLE, Answer, OperationKind, Outcome, TaskMove, task_number
from core.nouns.workload import EndCause
from mizzen.views.tasks.operation_waits import Controllers
from mizzen.views.tasks.task_list import changed, line_of
from mizzen.views.tasks.task_table import TaskShown, ranks_text, rows_of, table_of
from tests.builders import EU, a_claim, a_job, a_spread, attempt, granted, promised
from tests.mizzen.nodes_scene import (
    HOUR,
    W1,
    ack,
    answered,
    asked,
    at,
    begun,
    drained,
    failed,
    gang,
    gone,
    moved,
    noticed,
    opens,
    planned,
    region,
    saved,
    service,
    stuck,
    two_jobs,
    up,
)

NOW = at(100)
GANG = gang("w-1", {0: 2, 4: 1})
HELD_GANG = gang("w-1", {0: 2}, "trainer")
SERVICE = service("w-1", {0: 1, 1: 1, 2: 1})
HELD = service("w-1", {0: 1, 1: 1}, "replicas")
RESTART = OperationKind.RESTART
IN_WINDOW = (planned(0), *noticed(0))


def rows(*events: Event, now: Instant = NOW, controllers: Controllers | None = None) -> list[TaskShown]:
    """Of the first attempt of w-1, after these."""
    return rows_of(region(*events), attempt(), now, controllers or {})


def replicas(heard_ago: int, tenant: str = "ml") -> Controllers:
    """The region last heard the controller so long ago."""
    return {(tenant, "replicas"): ControllerShown(TenantName(tenant), "replicas", heard_ago, 1, 0)}


def users(*tasks: int, kind: OperationKind = RESTART, deadline: int = 0) -> OperationsRequested:
    """Its user wants it."""
    return asked("w-1", *tasks, source="", kind=kind, deadline=deadline, requester="user:ada")


# What an operation waits for. Two facts of nodes and two of the workload come first: what is asked is the fifth fact.

WAITS: dict[str, tuple[Sequence[Event], tuple[str, str]]] = {
    "a controller": ((*HELD, users(0)), ("controller", "the word of controller replicas")),
    "a controller, until its deadline": (
        (*HELD, users(0, deadline=107 * SECOND)),
        ("controller", "the word of controller replicas, for 12s at the most"),
    ),
    "a controller, of a gang": ((*HELD_GANG, users()), ("controller", "the word of controller trainer")),
    "nothing, without a controller": ((*SERVICE, users(0)), ("turn", "its turn, which is next")),
    "nothing, once acknowledged": (
        (*HELD, users(0), answered("w-1", ack())),
        ("turn", "its turn, which is next"),
    ),
    "others of its job": (
        (*SERVICE, failed("w-1", 1), users(0)),
        ("limit", "others of its job, of which 1 may be down at once"),
    ),
    "others of its job, though acknowledged": (
        (*HELD, failed("w-1", 1), users(0), answered("w-1", ack())),
        ("limit", "others of its job, of which 1 may be down at once"),
    ),
    "not others, where it is down itself": (
        (*SERVICE, failed("w-1", 0, is_gone=True), users(0, kind=OperationKind.MOVE)),
        ("turn", "its turn, which is next"),
    ),
    "a checkpoint": (
        (*HELD_GANG, saved("w-1", 40), users(), answered("w-1", ack(after_checkpoint=True))),
        ("checkpoint", "a checkpoint after step 40"),
    ),
    "no checkpoint any more": (
        (*HELD_GANG, users(), answered("w-1", ack(after_checkpoint=True)), saved("w-1", 1)),
        ("turn", "its turn, which is next"),
    ),
    "a window": (
        (
            *HELD,
            *IN_WINDOW,
            asked("w-1", 0, source="m-1"),
            answered("w-1", ack(answer=Answer.STOP_AND_RETURN)),
        ),
        ("window", "the window of m-1, which opens in 58m"),
    ),
    "a window that is open": (
        (
            *HELD,
            *IN_WINDOW,
            asked("w-1", 0, source="m-1"),
            answered("w-1", ack(answer=Answer.STOP_AND_RETURN)),
            opens(),
        ),
        ("turn", "its turn, which is next"),
    ),
    "nothing at all, as its controller wants it": (
        (
            *HELD,
            planned(0, kind=MaintenanceKind.NETWORK),
            *noticed(0),
            asked("w-1", 0, source="m-1", deadline=HOUR),
            answered("w-1", ack(answer=Answer.IGNORE)),
        ),
        ("stays", "nothing: its controller wants it to be left alone"),
    ),
    "its run to stop": ((*SERVICE, users(0), begun("w-1")), ("stopping", "its run to stop")),
    "its gang to stop": (
        (*GANG, users(), begun("w-1")),
        ("stopping", "its gang to stop"),
    ),
    "its node": (
        (*SERVICE, users(0), begun("w-1"), gone("w-1", 0)),
        ("node", "its node, on which it starts again"),
    ),
    "its node, for a gang": (
        (*GANG, users(), begun("w-1"), gone("w-1")),
        ("node", "its node, on which it starts again"),
    ),
    "its node, after a failure": (
        (*SERVICE, failed("w-1", 0, is_gone=True), users(0, kind=OperationKind.START), begun("w-1")),
        ("node", "its node, on which it starts again"),
    ),
    "another node": (
        (*SERVICE, users(0, kind=OperationKind.MOVE), begun("w-1"), gone("w-1", 0)),
        ("room", "capacity on another node"),
    ),
    "a node for one that never had any": (
        (*SERVICE, users(7, kind=OperationKind.START), begun("w-1")),
        ("room", "capacity on a node"),
    ),
    "the end of a window": (
        (
            *HELD,
            *IN_WINDOW,
            asked("w-1", 0, source="m-1"),
            answered("w-1", ack(answer=Answer.STOP_AND_RETURN)),
            opens(),
            begun("w-1"),
            gone("w-1", 0),
        ),
        ("return", "the end of m-1, after which it starts there again"),
    ),
    "another node, for its own is drained": (
        (
            *HELD,
            *IN_WINDOW,
            asked("w-1", 0, source="m-1"),
            answered("w-1", ack(answer=Answer.STOP_AND_RETURN)),
            opens(),
            begun("w-1"),
            gone("w-1", 0),
            drained(0),
        ),
        ("room", "capacity on another node: its own is drained"),
    ),
    "its new run to come up": (
        (*SERVICE, users(0), begun("w-1"), gone("w-1", 0), moved("w-1", 0, 0, 0)),
        ("start", "its new run to come up"),
    ),
    "its gang to come up": (
        (*GANG, users(), begun("w-1"), gone("w-1"), ClaimRevised(W1, 1, 1, (TaskMove(WHOLE, -1, -1),))),
        ("start", "its gang to come up"),
    ),
}


@pytest.mark.parametrize("what", WAITS)
def test_wait_of_an_operation(what: str) -> None:
    """In a word for programs, and in words for people."""
    events, wanted = WAITS[what]
    (shown,) = {row.operation.number: row.operation for row in rows(*events) if row.operation}.values()
    assert wanted == (shown.waits, shown.waits_for)


def test_budget_holds_for_a_minute() -> None:
    """Whoever has had too much stopped waits so long."""
    events = (*SERVICE, asked("w-1", 0), DestructionHalted("operator:ada@desk", 90, 60))
    text = "the budget of stops a minute, which operator:ada@desk has used up"
    for now, wanted in ((at(6 + 59), text), (at(6 + 60), "its turn, which is next")):
        operation = rows(*events, now=now)[0].operation
        assert operation is not None
        assert wanted == operation.waits_for


@pytest.mark.parametrize(
    ("controllers", "wanted"),
    [
        pytest.param(None, "", id="nobody tells"),
        pytest.param(replicas(5 * SECOND), "", id="heard lately"),
        pytest.param(replicas(31 * SECOND), ", which is unreachable (last heard 31s ago)", id="silent"),
        pytest.param(replicas(-1), ", which is unreachable (never heard)", id="never heard"),
        pytest.param(replicas(-1, "other"), "", id="another tenant's"),
    ],
)
def test_controller_that_does_not_answer(controllers: Controllers | None, wanted: str) -> None:
    """It is told once it was asked for long enough; before, and of one that answers, its name is all."""
    (first, _) = rows(*HELD, users(0), controllers=controllers)
    assert first.operation is not None
    assert f"the word of controller replicas{wanted}" == first.operation.waits_for
    (first, _) = rows(*HELD, users(0), controllers=controllers, now=at(5 + 30))
    assert first.operation is not None
    assert "the word of controller replicas" == first.operation.waits_for


# Tasks that stand alone.


def test_tasks_that_stand_alone() -> None:
    """Each with its own node, state, cause and runs, since its own last change."""
    found = rows(
        *SERVICE,
        failed("w-1", 1),
        failed("w-1", 2, is_gone=True),
        asked("w-1", 2, source="", kind=OperationKind.START, requester="health"),
        begun("w-1"),
        moved("w-1", 2, 2, 5),
        now=at(20),
    )
    assert [
        ("main/0", 0, "up", "", 16 * SECOND, 0, 0),
        ("main/1", 1, "down", "task_failed", 15 * SECOND, 0, 1),
        ("main/2", 5, "starting", "task_failed", 11 * SECOND, 1, 1),
    ] == [(ranks_text(row), row.node, row.state, row.cause, row.ago, row.run, row.failures) for row in found]
    assert [None, None, 1] == [row.operation.number if row.operation else None for row in found]


def test_tasks_are_in_the_order_of_jobs_and_ranks() -> None:
    """Also those that came later, before they have a node."""
    claim = a_claim(
        jobs=(a_job(2, name="serve"), a_job(1, name="route")),
        spreads=(a_spread({0: 2}), a_spread({1: 1})),
        kind="service",  # type: ignore[arg-type]  # as it comes from a log
    )
    late = OperationsRequested(W1, 1, 1, OperationKind.START, (task_number(0, 2),), "grown", "r-1")
    found = rows(granted(claim), GangStarted(W1, 1), late)
    assert ["serve/0", "serve/1", "serve/2", "route/0"] == [ranks_text(row) for row in found]
    assert (-1, "gone", -1) == (found[2].node, found[2].state, found[2].run)


def test_operation_that_is_over_is_not_shown() -> None:
    """Also while its controller is still to be told of it."""
    found = rows(*HELD, users(0), OperationsDone(W1, 1, (1,), Outcome.WITHDRAWN))
    assert [None, None] == [row.operation for row in found]


def test_task_on_a_lost_node() -> None:
    """It is down, and why is told."""
    found = rows(*SERVICE, NodesLost(WorkerName("w0"), (0, 1, 2, 3)))
    assert [("down", "node_lost")] * 3 == [(row.state, row.cause) for row in found]


def test_tasks_that_are_all_told_to_stop() -> None:
    """What is up is stopping, and what is down stays so."""
    found = rows(*SERVICE, failed("w-1", 1), StopOrdered(W1, 1, EndCause.CANCELLED))
    assert [("stopping", "cancelled"), ("down", "task_failed"), ("stopping", "cancelled")] == [
        (row.state, row.cause) for row in found
    ]


# Gangs.


def test_gang_is_told_by_node() -> None:
    """Its ranks are numbered node by node, job by job; since when it is up only its workload knows."""
    found = rows(*two_jobs("w-1", {0: 2, 4: 1}, {5: 2}))
    assert [("train/0-1", 0), ("train/2", 4), ("eval/0-1", 5)] == [
        (ranks_text(row), row.node) for row in found
    ]
    assert {("up", "", -1, 0)} == {(row.state, row.cause, row.ago, row.run) for row in found}


@pytest.mark.parametrize(
    ("events", "state"),
    [
        pytest.param([GANG[0]], ("starting", ""), id="granted"),
        pytest.param(GANG, ("up", ""), id="started"),
        pytest.param(
            [*GANG, StopOrdered(W1, 1, EndCause.PREEMPTED)], ("stopping", "preempted"), id="stopped"
        ),
        pytest.param([GANG[0], users()], ("starting", ""), id="asked before it has started"),
        pytest.param([*GANG, users(), begun("w-1")], ("down", "restart"), id="restarted"),
        pytest.param([*GANG, users(), begun("w-1"), gone("w-1")], ("gone", "restart"), id="paused"),
    ],
)
def test_state_of_a_gang(events: Sequence[Event], state: tuple[str, str]) -> None:
    """One for all of it."""
    found = rows(*events)
    assert 2 == len(found)
    assert {state} == {(row.state, row.cause) for row in found}


def test_operation_of_a_gang_stands_beside_each_of_its_nodes() -> None:
    """It is one and the same."""
    found = rows(*GANG, users())
    assert [1, 1] == [row.operation.number if row.operation else 0 for row in found]
    assert [-1, -1] == [row.ago for row in found], "it was up long before it was asked for anything"


@pytest.mark.parametrize(
    ("events", "ago"),
    [
        pytest.param(GANG, 7, id="up"),
        pytest.param([*GANG, users()], 7, id="up, and something is asked for"),
        pytest.param([GANG[0]], -1, id="starting"),
        pytest.param([*GANG, StopOrdered(W1, 1, EndCause.PREEMPTED)], -1, id="stopping"),
        pytest.param([*GANG, users(), begun("w-1")], 94 * SECOND, id="down"),
        pytest.param([*GANG, users(), begun("w-1"), gone("w-1")], 93 * SECOND, id="gone"),
        pytest.param(
            [
                *GANG,
                users(),
                begun("w-1"),
                gone("w-1"),
                ClaimRevised(W1, 1, 1, (TaskMove(WHOLE, -1, -1),)),
                TasksUp(W1, 1, (WHOLE,)),
            ],
            91 * SECOND,
            id="up again",
        ),
    ],
)
def test_since_when_a_gang_is_so(events: Sequence[Event], ago: int) -> None:
    """The queue knows since when it is up; the region's log, what has happened since it was first touched."""
    assert {ago} == {row.ago for row in rows_of(region(*events), attempt(), NOW, up_for=7)}


def test_gang_with_changed_jobs() -> None:
    """It is shown as it is, and not as it will be."""
    found = rows(*GANG, AttemptChanged(W1, 1, 1, (a_job(9),)))
    assert ["main/0-1", "main/2"] == [ranks_text(row) for row in found]


def test_attempt_that_holds_nothing_has_no_tasks() -> None:
    """Not promised, not ended, not known."""
    assert [] == rows()
    assert [] == rows(promised(a_claim()))
    assert [] == rows(*GANG, users(), AttemptEnded(W1, 1, EndCause.COMPLETED))
    assert [] == rows(*service("w-1", {0: 1}, "replicas"), users(0), AttemptEnded(W1, 1, EndCause.CANCELLED))


# For people.


def test_table() -> None:
    """Where each is, and what is next."""
    found = rows(*HELD, users(0), failed("w-1", 1), now=at(70))
    assert [
        "TASK    NODE  STATE  CAUSE         FOR  RUN  OPERATION  WAITS FOR",
        "main/0  eu-0  up     -            1:06    0  restart 1  the word of controller replicas (new PDU)",
        "main/1  eu-1  down   task_failed  1:04    0  -",
    ] == table_of(EU, found)


def test_operation_that_is_stuck_is_told_first() -> None:
    """Somebody should look."""
    found = rows(*SERVICE, asked("w-1", 0), begun("w-1"), stuck("w-1"))
    assert "STUCK: its run to stop (d-1: new PDU)" in table_of(EU, found)[1]


def test_line_of_a_task() -> None:
    """For whoever follows without a terminal."""
    first, second = rows(*HELD, users(0), failed("w-1", 1))
    assert "main/0 up on eu-0; restart 1 (new PDU) waits for the word of controller replicas" == line_of(
        EU, first
    )
    assert "main/1 down on eu-1, task_failed" == line_of(EU, second)


def test_only_changed_tasks_are_told_again() -> None:
    """Time that goes by is no change; another reason to wait is one."""
    known = {ranks_text(row): row for row in rows(*HELD, users(0, deadline=HOUR), now=at(10))}
    assert [] == changed(known, rows(*HELD, users(0, deadline=HOUR), now=at(50)))
    answer = answered("w-1", ack())
    assert ["main/0"] == [
        ranks_text(row) for row in changed(known, rows(*HELD, users(0, deadline=HOUR), answer))
    ]
    down = TasksDown(W1, 1, (task_number(0, 1),), "task_failed")
    assert ["main/1"] == [
        ranks_text(row) for row in changed(known, rows(*HELD, users(0, deadline=HOUR), down))
    ]
    assert 2 == len(changed({}, rows(*HELD)))


def test_controller_that_falls_silent_is_a_change() -> None:
    """Whoever follows is told that nobody answers, once."""
    events = (*HELD, users(0))
    known = {ranks_text(row): row for row in rows(*events, controllers=replicas(SECOND))}
    silent = rows(*events, controllers=replicas(40 * SECOND))
    assert ["main/0"] == [ranks_text(row) for row in changed(known, silent)]
    known = {ranks_text(row): row for row in silent}
    assert [] == changed(known, rows(*events, controllers=replicas(50 * SECOND)))


def test_task_that_is_up_again_is_told() -> None:
    """With its new run."""
    before = {ranks_text(row): row for row in rows(*SERVICE)}
    again = rows(*SERVICE, failed("w-1", 0, is_gone=True), moved("w-1", 0, 0, 0), up("w-1", 0))
    assert [("main/0", "up", 1)] == [(ranks_text(row), row.state, row.run) for row in changed(before, again)]


def test_time_of_a_keeper_that_is_ahead() -> None:
    """Nothing is since the future."""
    assert [0, 0] == [row.ago for row in rows(*HELD, users(0), now=at(1))]

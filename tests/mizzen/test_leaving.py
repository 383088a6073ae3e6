"""What tasks that are to leave their nodes wait for: given what happened in a region, exactly this."""

from collections.abc import Sequence

import pytest

from core.events.control import DestructionHalted, OperationsDone
from core.events.region import NodesLost, StopOrdered
from core.fact import Event
from core.images import RegionImage
from core.nouns.ids import WorkerName
from core.nouns.instant import Instant
from core.nouns.maintenance import MaintenanceKind
from core.nouns.operation import WHOLE, Answer, OperationKind, Outcome, task_number
from core.nouns.workload import EndCause
from mizzen.views.nodes.occupants import Occupant, Wait, WaitKind, Waits, occupants, tasks_there
from tests.mizzen.nodes_scene import (
    HOUR,
    MINUTE,
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


def waits(image: RegionImage, source: str = "d-1", now: Instant = NOW) -> list[Wait]:
    """Of everybody on the source's nodes, in the order of occupants."""
    rows = image.maintenance.rows
    runs = rows[source].nodes if source in rows else image.capacity.closures[source].nodes
    found = Waits(image, source, now)
    return [found.of(one) for one in occupants(image) if any(a <= one.node <= b for a, b in runs)]


K = WaitKind
GANG = gang("w-1", {0: 2})
HELD_GANG = gang("w-1", {0: 2}, "shards")
SERVICE = service("w-1", {0: 1})
HELD = service("w-1", {0: 1}, "shards")
IN_WINDOW = (planned(0), *noticed(0))
OF_M = {"source": "m-1", "deadline": 30 * MINUTE}
FORCED = 30 * MINUTE
OF_ADA = "operator:ada@desk"

DRAINS: dict[str, tuple[Sequence[Event], Wait]] = {
    # Two facts of nodes, two of the workload: what is closed is the fifth fact, and what is asked the sixth.
    "nobody has asked yet": ((*GANG, drained(0)), Wait(K.UNASKED, at(5))),
    "nobody has asked yet, and there is a deadline": (
        (*GANG, drained(0, deadline=MINUTE)),
        Wait(K.UNASKED, at(5), at(5) + MINUTE),
    ),
    "a gang's controller": ((*HELD_GANG, drained(0), asked("w-1")), Wait(K.CONTROLLER, at(6), 0, "ml/shards")),
    "a task's controller, until its deadline": (
        (*HELD, drained(0, deadline=MINUTE), asked("w-1", 0, deadline=MINUTE)),
        Wait(K.CONTROLLER, at(6), at(6) + MINUTE, "ml/shards"),
    ),
    "nobody, without a controller": ((*GANG, drained(0), asked("w-1")), Wait(K.TURN, at(6))),
    "nobody, once acknowledged": (
        (*HELD_GANG, drained(0), asked("w-1"), answered("w-1", ack())),
        Wait(K.TURN, at(7)),
    ),
    "a checkpoint": (
        (*HELD_GANG, saved("w-1", 40), drained(0), asked("w-1"), answered("w-1", ack(after_checkpoint=True))),
        Wait(K.CHECKPOINT, at(8), 0, "40"),
    ),
    "nobody, once that checkpoint is there": (
        (*HELD_GANG, drained(0), asked("w-1"), answered("w-1", ack(after_checkpoint=True)), saved("w-1", 1)),
        Wait(K.TURN, at(7)),
    ),
    "a restart that was asked for before": (
        (*HELD, asked("w-1", 0, source="", kind=OperationKind.RESTART), drained(0)),
        Wait(K.FIRST, at(5), 0, "restart"),
    ),
    "a restart that has begun": (
        (*SERVICE, asked("w-1", 0, source="", kind=OperationKind.RESTART), begun("w-1"), drained(0)),
        Wait(K.FIRST, at(6), 0, "restart"),
    ),
    "a gang's restart, which leaves it where it is": (
        (*GANG, asked("w-1", source="", kind=OperationKind.RESTART), drained(0)),
        Wait(K.FIRST, at(5), 0, "restart"),
    ),
    "a gang's update, by which it goes too": (
        (*HELD_GANG, asked("w-1", source="r-2", kind=OperationKind.UPDATE), drained(0)),
        Wait(K.CONTROLLER, at(5), 0, "ml/shards"),
    ),
    "its run to stop": ((*SERVICE, drained(0), asked("w-1", 0), begun("w-1")), Wait(K.STOPPING, at(7), 0, "d-1")),
    "its run to stop, for long": (
        (*SERVICE, drained(0), asked("w-1", 0), begun("w-1"), stuck("w-1")),
        Wait(K.STUCK, at(7), 0, "move"),
    ),
    "its gang to stop": (
        (*GANG, drained(0), asked("w-1"), begun("w-1"), StopOrdered(W1, 1, EndCause.DRAINED)),
        Wait(K.STOPPING, at(7), 0, "drained"),
    ),
    "its gang to stop, for long": (
        (*GANG, drained(0), asked("w-1"), begun("w-1"), StopOrdered(W1, 1, EndCause.DRAINED), stuck("w-1")),
        Wait(K.STUCK, at(7), 0, "drained"),
    ),
    "its gang to stop, which somebody cancelled": (
        (*GANG, drained(0), StopOrdered(W1, 1, EndCause.CANCELLED)),
        Wait(K.STOPPING, 0, 0, "cancelled"),
    ),
    "room elsewhere": (
        (*SERVICE, drained(0), asked("w-1", 0), begun("w-1"), gone("w-1", 0)),
        Wait(K.ROOM, at(8)),
    ),
    "room elsewhere, for long": (
        (*SERVICE, drained(0), asked("w-1", 0), begun("w-1"), gone("w-1", 0), stuck("w-1")),
        Wait(K.STUCK, at(8), 0, "room"),
    ),
    "room, after it failed by itself": ((*SERVICE, drained(0), failed("w-1", 0, is_gone=True)), Wait(K.ROOM, at(6))),
    "what is left of its run, after it failed": (
        (*SERVICE, drained(0), failed("w-1", 0)),
        Wait(K.STOPPING, at(6), 0, "task_failed"),
    ),
    "its node, which nobody hears": (
        (*HELD, drained(0), asked("w-1", 0), NodesLost(WorkerName("w0"), (0, 1, 2, 3))),
        Wait(K.LOST),
    ),
    "the budget of who asked": (
        (*SERVICE, drained(0), asked("w-1", 0), DestructionHalted(OF_ADA, 70, 60)),
        Wait(K.BUDGET, at(6), 0, OF_ADA),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAINS)
def test_wait_of_a_drain(name: str) -> None:
    """Without a deadline nothing forces it; the reason of its wait, since when and until when follows from the facts."""
    events, wait = DRAINS[name]
    now = at(20)
    assert [wait] == waits(region(*events), now=now)


WINDOWS: dict[str, tuple[Sequence[Event], Wait]] = {
    "notice": ((*HELD, planned(0)), Wait(K.NOTICE, 0, at(5) + HOUR)),
    "its controller, at the most until the window": (
        (*HELD, *IN_WINDOW, asked("w-1", 0, **OF_M)),  # type: ignore[arg-type]
        Wait(K.CONTROLLER, at(8), at(8) + FORCED, "ml/shards"),
    ),
    "the window": (
        (*HELD, *IN_WINDOW, asked("w-1", 0, **OF_M), answered("w-1", ack(answer=Answer.STOP_AND_RETURN))),  # type: ignore[arg-type]
        Wait(K.WINDOW, at(9), at(8) + FORCED, "m-1"),
    ),
    "nobody, once the window has come": (
        (
            *HELD,
            *IN_WINDOW,
            asked("w-1", 0, **OF_M),  # type: ignore[arg-type]
            answered("w-1", ack(answer=Answer.STOP_AND_RETURN)),
            opens(),
        ),
        Wait(K.TURN, at(9), at(8) + FORCED),
    ),
    "the end of the maintenance, to return": (
        (
            *HELD,
            *IN_WINDOW,
            asked("w-1", 0, **OF_M),  # type: ignore[arg-type]
            answered("w-1", ack(answer=Answer.STOP_AND_RETURN)),
            opens(),
            begun("w-1"),
            gone("w-1", 0),
        ),
        Wait(K.RETURN, at(12), 0, "m-1"),
    ),
    "the end of the maintenance, as a gang": (
        (
            *HELD_GANG,
            *IN_WINDOW,
            asked("w-1", **OF_M),  # type: ignore[arg-type]
            answered("w-1", ack(answer=Answer.STOP_AND_RETURN)),
            opens(),
            begun("w-1"),
            gone("w-1"),
        ),
        Wait(K.RETURN, at(12), 0, "m-1"),
    ),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_wait_of_a_maintenance(name: str) -> None:
    """Before its notice no controller is asked; then until the window at the most, or in it, or until it is over."""
    events, wait = WINDOWS[name]
    assert [wait] == waits(region(*events), "m-1")


def test_task_may_stay_where_the_work_allows_it() -> None:
    """What its controller wants left alone waits for nothing, while the word stands and after it was noted as over."""
    net = MaintenanceKind.NETWORK
    events = [
        *HELD,
        planned(0, kind=net),
        *noticed(0),
        asked("w-1", 0, source="m-1", deadline=30 * MINUTE),
        answered("w-1", ack(answer=Answer.IGNORE)),
    ]
    assert [Wait(K.STAYS, at(9))] == waits(region(*events), "m-1")
    over = OperationsDone(W1, 1, (1,), Outcome.IGNORED)
    assert [Wait(K.STAYS)] == waits(region(*events, over), "m-1")


def test_budget_is_waited_for_only_for_a_minute() -> None:
    """What was refused a minute ago says nothing about now."""
    image = region(*SERVICE, drained(0), asked("w-1", 0), DestructionHalted(OF_ADA, 70, 60))
    assert [K.BUDGET] == [wait.kind for wait in waits(image, now=Instant(at(7) + MINUTE - 1))]
    assert [K.TURN] == [wait.kind for wait in waits(image, now=Instant(at(7) + MINUTE))]


def test_limit_counts_whatever_is_down() -> None:
    """Of a job that allows one of its three tasks to be down, a second one waits, also when the first failed elsewhere."""
    tasks = service("w-1", {0: 2, 4: 1})
    image = region(*tasks, drained(0), asked("w-1", 0, 1), begun("w-1", 1))
    limit = Wait(K.LIMIT, at(6), 0, "1 of 3")
    assert [Wait(K.STOPPING, at(7), 0, "d-1"), limit] == waits(image)
    image = region(*tasks, failed("w-1", 2), drained(0), asked("w-1", 0, 1))
    assert [Wait(K.LIMIT, at(7), 0, "1 of 3")] * 2 == waits(image)
    more = service("w-1", {0: 2, 4: 1}, unavailable_max=2)
    image = region(*more, failed("w-1", 2), drained(0), asked("w-1", 0, 1))
    assert [Wait(K.TURN, at(7))] * 2 == waits(image)


def test_occupants_of_nodes() -> None:
    """A gang's tasks of all its jobs; independent tasks where their newest run is, and not where they were before."""
    image = region(*two_jobs("w-1", {0: 2, 1: 1}, {1: 4}), *service("w-2", {1: 1, 4: 1}))
    key = ("w-1", 1)
    found = list(occupants(image))
    assert [
        Occupant(key, 0, WHOLE, 2, True),  # type: ignore[arg-type]
        Occupant(key, 1, WHOLE, 1, True),  # type: ignore[arg-type]
        Occupant(key, 1, WHOLE, 4, True),  # type: ignore[arg-type]
        Occupant(("w-2", 1), 1, task_number(0, 0), 1, True),  # type: ignore[arg-type]
        Occupant(("w-2", 1), 4, task_number(0, 1), 1, True),  # type: ignore[arg-type]
    ] == found
    assert {0: 2, 1: 6, 4: 1} == tasks_there(image)
    one = (*service("w-2", {1: 1, 4: 1}), drained(1), asked("w-2", 0), begun("w-2"))
    assert {1: 1, 4: 1} == tasks_there(region(*one))
    assert {4: 1} == tasks_there(region(*one, gone("w-2", 0)))
    assert {4: 1, 5: 1} == tasks_there(region(*one, gone("w-2", 0), moved("w-2", 0, 1, 5)))
    assert {4: 1, 5: 1} == tasks_there(region(*one, gone("w-2", 0), moved("w-2", 0, 1, 5), up("w-2", 0)))


def test_paused_gang_holds_its_nodes_and_is_not_there() -> None:
    """Nothing of it runs until the maintenance is over: the nodes are empty, though their room is not free."""
    events = (*HELD_GANG, *IN_WINDOW, asked("w-1", **OF_M), answered("w-1", ack(answer=Answer.STOP_AND_RETURN)), opens(), begun("w-1"))  # type: ignore[arg-type]  # fmt: skip
    assert {0: 2} == tasks_there(region(*events))
    assert {} == tasks_there(region(*events, gone("w-1")))

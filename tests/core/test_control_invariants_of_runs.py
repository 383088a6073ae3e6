"""What must hold of runs that operations touch, of nodes and of maintenance: each broken once, and told."""

from msgspec.structs import replace

from core.events.control import (
    ClaimRevised,
    MaintenanceMoved,
    NodesClosed,
    NodesOpened,
    ScopeJoined,
    TasksDown,
    TasksGone,
    TasksUp,
)
from core.events.region import (
    GangStarted,
    NodesLost,
    NodesReturned,
)
from core.fact import Event
from core.invariants.consistency import check_region_fact
from core.invariants.control import check_control_fact
from core.nouns.ids import WorkerName
from core.nouns.instant import SECOND
from core.nouns.limits import MOVE_PATIENCE
from core.nouns.maintenance import ClosureKind, MaintenanceKind, MaintenancePhase
from core.nouns.operation import WHOLE, Answer, OperationKind, TaskMove
from core.nouns.workload import EndCause
from tests.builders import (
    EU,
    a_claim,
    a_fact,
    a_job,
    a_region,
    a_spread,
    attempt,
    granted,
    joined,
    opened,
    promised,
)
from tests.core.test_control_invariants import (
    BEFORE,
    CLOSED,
    DRAINED,
    MOVE,
    NAME,
    NOTICED,
    OF_GANG,
    OPEN,
    RESTART,
    SERVICE,
    W1,
    WORK,
    answered,
    asked,
    begun,
    broken,
    planned,
)

# Runs.


def test_phases_follow_each_other() -> None:
    """T19: only what is alive goes down, only what is down is gone, only what starts is up."""
    down, gone, up = TasksDown(*W1, (0,), EndCause.TASK_FAILED), TasksGone(*W1, (0,)), TasksUp(*W1, (0,))
    assert [] == broken(down)
    assert [f"{NAME}TasksDown of task 0, which is down"] == broken(down, down)
    assert [f"{NAME}TasksGone of task 0, which is up"] == broken(gone)
    assert [] == broken(gone, down)
    assert [f"{NAME}TasksUp of task 0, which is up"] == broken(up)
    assert [f"{NAME}TasksUp of task 0, which is gone"] == broken(up, down, gone)
    assert [f"{NAME}TasksUp of task 9, which is unknown"] == broken(TasksUp(*W1, (9,)))


GONE: tuple[Event, ...] = (
    asked(MOVE),
    answered(),
    begun(),
    TasksGone(*W1, (0,)),
)
"""The first task was moved, and nothing of it is left."""


def revised(*moves: tuple[int, int, int], revision: int = 1) -> Event:
    """New runs."""
    return ClaimRevised(*W1, revision, tuple(TaskMove(*move) for move in moves))


def test_revision_that_breaks_nothing() -> None:
    """T6: what is gone starts where there is room."""
    assert [] == broken(revised((0, 0, 3)), *GONE)
    assert [] == broken(revised((0, 0, 0)), *GONE)


def test_invalid_revision() -> None:
    """T19: numbered through; of a task that is gone, once, and by an operation that has begun."""
    assert [f"{NAME}revision 2 after 0"] == broken(revised((0, 0, 3), revision=2), *GONE)
    assert f"{NAME}task 1 has a new run, and is up" in broken(revised((1, 0, 3)), *GONE)
    assert f"{NAME}task 0 has a new run, and is gone" in broken(revised((0, 1, 3)), *GONE)
    assert f"{NAME}task 0 has 2 new runs at once" in broken(revised((0, 0, 3), (0, 0, 2)), *GONE)
    failed = TasksDown(*W1, (1,), EndCause.TASK_FAILED, is_gone=True)
    wanted = [f"{NAME}task 1 has a new run, and nothing has begun on it"]
    assert wanted == broken(revised((1, 0, 3)), failed)
    assert [f"{NAME}task 0 has node -1 by move"] == broken(revised((0, 0, -1)), *GONE)
    stop = (asked(OperationKind.STOP), answered(), begun(), TasksGone(*W1, (0,)))
    assert [] == broken(revised((0, 0, -1)), *stop)
    assert [f"{NAME}task 0 has node 3 by stop"] == broken(revised((0, 0, 3)), *stop)


def test_gang_that_returns_to_a_lost_node() -> None:
    """All of its nodes are looked at, though it keeps its places."""
    away = (
        asked(RESTART, WHOLE),
        answered(),
        begun(),
        TasksDown(*W1, (WHOLE,), EndCause.TASK_FAILED),
        TasksGone(*W1, (WHOLE,)),
    )
    again = ClaimRevised(*W1, 1, (TaskMove(WHOLE, -1, -1),))
    assert [] == broken(again, *away, before=OF_GANG)
    lost = NodesLost(WorkerName("w0"), (0,))
    assert [f"{NAME}task -1 starts on node 0, which is not open"] == broken(
        again, *away, lost, before=OF_GANG
    )


def test_revision_of_a_claim_that_holds_nothing() -> None:
    """Rule 1: there is nothing that could be revised."""
    image = a_region(*BEFORE, *GONE)
    del image.capacity.holdings[W1[0]]
    found = check_control_fact(a_fact(revised((0, 0, 3)), len(BEFORE) + len(GONE) + 1), image)
    assert (1, f"{NAME}a claim is revised, and it holds nothing") in found


def test_revision_without_capacity() -> None:
    """T1, T6: rules 1 and 2: held by others, promised, of another type, closed, lost, unknown."""
    full = granted(a_claim("w-2", placed={3: 8}))
    wanted = [f"{NAME}tasks start without room on node 3"]
    assert wanted == broken(revised((0, 0, 3)), *GONE, full)
    victim = granted(a_claim("w-2", placed={2: 1}, priority=1))
    waiting = promised(a_claim("w-3", placed={3: 8, 2: 8}, priority=5, victims=(attempt("w-2"),)))
    assert wanted == broken(revised((0, 0, 3)), *GONE, victim, waiting)
    other = joined("w1", 4, 1, gpu_type="A100")
    text = "task 0 starts on node {}, which is {}"
    assert [NAME + text.format(4, "none for it")] == broken(revised((0, 0, 4)), *GONE, other)
    assert [NAME + text.format(77, "none for it")] == broken(revised((0, 0, 77)), *GONE)
    shut = NodesClosed("d-2", ClosureKind.DRAIN, ((3, 3),), "fan")
    assert [NAME + text.format(3, "not open")] == broken(revised((0, 0, 3)), *GONE, shut)
    away = (joined("w1", 4, 1), NodesLost(WorkerName("w1"), (4,)))
    assert [NAME + text.format(4, "not open")] == broken(revised((0, 0, 4)), *GONE, *away)
    lost = NodesLost(WorkerName("w0"), (0, 1, 2, 3))
    assert [NAME + text.format(0, "not open")] == broken(revised((0, 0, 0)), *GONE, lost)
    assert [] == broken(revised((0, 0, 0)), *GONE, lost, NodesReturned(WorkerName("w0"), (0, 1, 2, 3)))


def test_revision_that_puts_a_job_on_several_types() -> None:
    """T4: rule 2: a task that moves stays with the others on one type, though another would do; one alone may go there."""
    other = joined("w1", 4, 1, gpu_type="A100")
    for tasks, wanted in ((2, [f"{NAME}tasks of one job are on nodes of several types"]), (1, [])):
        job = replace(a_job(tasks), or_types=("A100",))
        claim = replace(SERVICE, jobs=(job,), spreads=(a_spread({0: tasks}),))
        before = (opened(), joined(), other, granted(claim), GangStarted(*W1))
        assert wanted == broken(revised((0, 0, 4)), *GONE, before=before)
        assert [] == broken(revised((0, 0, 3)), *GONE, before=before)


def test_revision_into_a_window() -> None:
    """T22: nothing starts where work needs the node empty, wherever it was before."""
    assert [f"{NAME}task 0 starts on node 0 while that is worked on"] == broken(
        revised((0, 0, 0)), *GONE, *WORK, OPEN
    )
    network = (planned(MaintenanceKind.NETWORK), NOTICED, CLOSED, OPEN)
    assert [] == broken(revised((0, 0, 0)), *GONE, *network)


def test_task_that_is_up_on_a_lost_node() -> None:
    """Nobody can know that."""
    image = a_region(*BEFORE, *GONE, revised((0, 0, 3)))
    image.capacity.is_lost[3] = True
    found = check_control_fact(a_fact(TasksUp(*W1, (0,)), 20), image)
    assert [(6, f"{NAME}TasksUp of task 0 on node 3, which is lost")] == found


# Nodes and maintenance.


def test_maintenance_out_of_its_time() -> None:
    """T22: notice not before its lead, open not before its window, each phase after the one before it."""
    m = "m-1: "
    assert [] == broken(NOTICED, planned(), after=30 * SECOND)
    assert [f"{m}notice is given too soon"] == broken(NOTICED, planned(), after=30 * SECOND - 1)
    noticed = (planned(starts_in=5 * SECOND), NOTICED, CLOSED)
    assert [] == broken(OPEN, *noticed, after=3 * SECOND)
    assert [f"{m}opens before its window"] == broken(OPEN, *noticed, after=3 * SECOND - 1)
    assert [f"{m}open after planned"] == broken(OPEN, planned(), after=99 * SECOND)
    assert [f"{m}opens, and its nodes are not closed"] == broken(OPEN, *noticed[:2], after=9 * SECOND)
    assert [f"{m}noticed after nothing"] == broken(NOTICED)
    over = MaintenanceMoved("m-1", MaintenancePhase.OVER)
    assert [f"{m}over after noticed"] == broken(over, *noticed)
    again = MaintenanceMoved("m-1", MaintenancePhase.PLANNED)
    assert [f"{m}planned after planned"] == broken(again, planned())


def test_maintenance_that_cannot_be() -> None:
    """T22: in the past, twice under one name, on nodes that are not there."""
    assert ["m-1: its window begins in the past"] == broken(planned(starts_in=-SECOND))
    assert ["m-1: planned twice"] == broken(planned(), planned())
    elsewhere = replace(planned(), nodes=((3, 4),))
    assert ["m-1: there is no node 4"] == broken(elsewhere)


def test_closures_that_cannot_be() -> None:
    """Of nodes that are not there; opened by what does not close them."""
    assert ["d-1: there is no node 9"] == broken(NodesClosed("d-1", ClosureKind.DRAIN, ((9, 9),), "fan"))
    lifted = NodesOpened("d-1", ClosureKind.DRAIN, ((0, 1),))
    assert ["d-1: opens node 1, which it does not close"] == broken(lifted, DRAINED)
    assert 2 == len(broken(lifted))


def test_return_to_a_node_that_is_drained() -> None:
    """T16: what stopped to return moves instead; what is only restarted may start again."""
    over = MaintenanceMoved("m-1", MaintenancePhase.OVER)
    opened = NodesOpened("m-1", ClosureKind.MAINTENANCE, ((0, 0),))
    drain = NodesClosed("d-9", ClosureKind.DRAIN, ((0, 0),), "fan")
    back = ClaimRevised(*W1, 1, (TaskMove(0, 0, 0),))
    gone = TasksGone(*W1, (0,))
    returns = (
        *WORK,
        asked(MOVE, source="m-1"),
        answered(sequence=8, answer=Answer.STOP_AND_RETURN),
        OPEN,
        begun(),
        gone,
        opened,
        over,
    )
    assert [] == broken(back, *returns)
    too_soon = ["w-1.1: task 0 returns to node 0, which is drained"]
    assert too_soon == broken(back, *returns, drain, after=MOVE_PATIENCE - 1)
    assert [] == broken(back, *returns, drain, after=MOVE_PATIENCE)
    has_come = replace(drain, deadline=MOVE_PATIENCE)
    assert too_soon == broken(back, *returns, has_come, after=MOVE_PATIENCE)
    to_come = replace(drain, deadline=MOVE_PATIENCE + 1)
    assert [] == broken(back, *returns, to_come, after=MOVE_PATIENCE)
    older = (replace(BEFORE[0], settings={}), *BEFORE[1:])
    assert [] == broken(back, *returns, drain, before=older), "older terms were held to none"
    assert [] == broken(back, asked(RESTART, 0), answered(), begun(), gone, drain)


def test_nodes_that_cannot_join_a_closed_scope() -> None:
    """T22: nodes that are unknown, were in it already, are in use, or join a closure that is over."""
    into = ScopeJoined("d-1", ClosureKind.DRAIN, ((0, 0),))
    assert [
        "d-1: is joined by nodes, and is over",
        "d-1: node 0 joins it, and something runs there",
    ] == broken(into)
    again = ["d-1: node 0 joins it, and was in it", "d-1: node 0 joins it, and something runs there"]
    assert again == broken(into, DRAINED)
    assert ["d-1: there is no node 9"] == broken(replace(into, nodes=((9, 9),)), DRAINED)
    worked_on = replace(planned(), nodes=((3, 3),))
    assert ["m-1: node 3 joins it, and was in it"] == broken(
        replace(into, source="m-1", nodes=((3, 3),)), worked_on
    )
    assert [] == broken(replace(into, nodes=((3, 3),)), DRAINED)


def test_grant_on_a_closed_node() -> None:
    """Rule 2: nothing new is placed there."""
    image = a_region(joined(), DRAINED)
    fact = a_fact(granted(a_claim("w-9", placed={0: 1})), 3)
    assert [(2, "w-9.1: granted on node 0, which is not open")] == check_region_fact(EU, fact, image, None)

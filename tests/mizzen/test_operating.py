"""Having tasks restarted and moved: asked of a real store, judged by it and by task control, and told as it stands."""

import asyncio
import contextlib
import io
import json
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from bus.catalogue import CONTROLLER
from bus.port import Address
from core.events.control import ControlAnswered, OperationsBegun, OperationsRequested
from core.events.region import StopOrdered
from core.fact import Event
from core.messages.control import ControllerShown, TaskControlRequest, TaskControlResponse
from core.messages.queue import CancelWorkload
from core.messages.store import OrderStop, RecordEnd
from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import seconds
from core.nouns.limits import OPERATIONS_AT_ONCE_MAX
from core.nouns.operation import (
    WHOLE,
    Ack,
    Answer,
    BegunBy,
    ControlSpec,
    OperationKind,
    task_number,
)
from core.nouns.workload import EndCause, Kind
from mizzen.actions.task_operations import Operated, Wish, lines_of, operate, ranks_of, tasks_meant
from mizzen.connect.plane import RequestRefused, submitter
from mizzen.terminal.output import MISUSED, CommandError
from mizzen.views.tasks import controller_table
from mizzen.views.tasks import task_list as tasks
from mizzen.views.tasks.controller_table import ControllerRow, heard_text
from mizzen.views.tasks.task_table import ranks_text
from tests.builders import EU, EU_LOG, a_claim, a_job, a_spec, a_spread, granted
from tests.mizzen.half_plane import HalfPlane, awarded, half_plane
from tests.mizzen.nodes_scene import (
    ack,
    answered,
    asked,
    begun,
    drained,
    gang,
    gone,
    nodes,
    noticed,
    opens,
    planned,
    region,
    service,
)
from tests.runtime.aids import Place, virtual

W1 = WorkloadId("w-1")
NODES = nodes("w0", 0)
FREE = (NODES, *service("w-1", {0: 1, 1: 1, 2: 1}))
HELD = (NODES, *service("w-1", {0: 1, 1: 1, 2: 1}, "replicas"))
GANG = (NODES, *gang("w-1", {0: 2}))
HELD_GANG = (NODES, *gang("w-1", {0: 2}, "trainer"))
RESTART, MOVE = OperationKind.RESTART, OperationKind.MOVE
SPEC = a_spec(kind=Kind.SERVICE)


async def plane_of(place: Place, events: Sequence[Event]) -> HalfPlane:
    """The workload runs there."""
    return await half_plane(place, events, *awarded(), spec=SPEC)


async def operated(plane: HalfPlane, workload: WorkloadId, wish: Wish) -> Operated:
    """It is asked for."""
    return await operate(plane.bus, workload, wish, plane.now)


async def answer(place: Place, *acks: Ack) -> None:
    """The controller says this to the newest request that it is sent."""
    heard: list[TaskControlRequest] = []
    bus = place.network.endpoint("controller")
    await bus.listen(
        Address(CONTROLLER.noun, ("ml", "replicas")),
        lambda parcel, _: heard.append(parcel.message),  # type: ignore[arg-type]  # nothing else is said there
    )
    await place.until(lambda: bool(heard))
    bus.say(TaskControlResponse(EU, TenantName("ml"), "replicas", W1, 1, heard[-1].sequence, acks))
    await place.sleep(1)


# Asking.


@virtual
async def test_tasks_that_wait_for_their_controller(place: Place) -> None:
    """One operation for each that was named, in its user's name; nothing begins, and who decides is told."""
    plane = await plane_of(place, HELD)
    done = await operated(plane, W1, Wish(RESTART, (0, 2), reason="new certificate"))
    (asked,) = await plane.events(EU_LOG, OperationsRequested)
    assert (RESTART, (0, 2), "new certificate", "", 0, f"user:{submitter()}") == (
        asked.kind,
        asked.tasks,
        asked.reason,
        asked.source,
        asked.deadline,
        asked.requester,
    )
    assert ((1, 2), (), ["main/0", "main/2"]) == (
        done.operations,
        done.known,
        [ranks_text(row) for row in done.tasks],
    )
    await place.sleep(60)
    assert [] == await plane.events(EU_LOG, OperationsBegun)
    assert [
        "w-1: restart of 2 tasks is asked for",
        "  they wait for the word of controller replicas",
        "`mizzen tasks w-1 -w` follows them",
    ] == lines_of(done)


@virtual
async def test_tasks_without_a_controller(place: Place) -> None:
    """All of them are asked for, and one begins: a tenth of three is less than one, and one at least may be down."""
    plane = await plane_of(place, FREE)
    done = await operated(plane, W1, Wish(MOVE))
    assert (1, 2, 3) == done.operations
    await place.sleep(30)
    assert [((1,), BegunBy.LIMITS)] == [
        (event.operations, event.by) for event in await plane.events(EU_LOG, OperationsBegun)
    ]
    found = await tasks.seen(plane.bus, W1, plane.now)
    assert [("down", "stopping"), ("up", "limit"), ("up", "limit")] == [
        (row.state, row.operation.waits) for row in found.tasks if row.operation is not None
    ]


@virtual
async def test_asked_for_again(place: Place) -> None:
    """Nothing is asked for twice, and what was asked for before is told so, under the kind that it has."""
    plane = await plane_of(place, HELD)
    await operated(plane, W1, Wish(RESTART, (0,)))
    again = await operated(plane, W1, Wish(RESTART, (0,)))
    assert ((1,), (1,)) == (again.operations, again.known)
    assert [
        "w-1: restart of task main/0 is asked for",
        "  it waits, asked for before, for the word of controller replicas",
        "`mizzen tasks w-1 -w` follows it",
    ] == lines_of(again)
    moved = await operated(plane, W1, Wish(MOVE, (0, 1)))
    assert 2 == len(await plane.events(EU_LOG, OperationsRequested))
    assert [
        "w-1: move of 2 tasks is asked for",
        "  main/0 has a restart already, which comes first and waits for the word of controller replicas",
        "  main/1 waits for the word of controller replicas",
        "`mizzen tasks w-1 -w` follows them",
    ] == lines_of(moved)


@virtual
async def test_deadline(place: Place) -> None:
    """It takes the place of what would wait for ever, and begins unasked."""
    plane = await plane_of(place, HELD)
    await operated(plane, W1, Wish(RESTART, (0,)))
    done = await operated(plane, W1, Wish(RESTART, (0,), deadline=seconds(20)))
    assert ((2,), ()) == (done.operations, done.known)
    await place.sleep(19)
    assert [] == await plane.events(EU_LOG, OperationsBegun)
    await place.sleep(5)
    assert [((2,), BegunBy.DEADLINE)] == [
        (event.operations, event.by) for event in await plane.events(EU_LOG, OperationsBegun)
    ]


@virtual
async def test_gang_is_asked_for_whole(place: Place) -> None:
    """It has one operation, and who decides is told."""
    plane = await plane_of(place, HELD_GANG)
    done = await operated(plane, W1, Wish(MOVE))
    (asked,) = await plane.events(EU_LOG, OperationsRequested)
    assert (WHOLE,) == asked.tasks
    assert [
        "w-1: move of its gang is asked for",
        "  it waits for the word of controller trainer",
        "`mizzen tasks w-1 -w` follows it",
    ] == lines_of(done)


@virtual
async def test_gang_without_a_controller_is_moved_at_once(place: Place) -> None:
    """Its attempt is told to end, for that cause."""
    plane = await plane_of(place, GANG)
    done = await operated(plane, W1, Wish(MOVE))
    assert (1,) == done.operations
    await place.sleep(5)
    assert [EndCause.MOVED] == [event.cause for event in await plane.events(EU_LOG, StopOrdered)]


@virtual
async def test_more_tasks_than_one_fact_holds(place: Place) -> None:
    """Each of them has its operation all the same."""
    count = OPERATIONS_AT_ONCE_MAX + 5
    claim = a_claim(jobs=(a_job(count, 0.001),), spreads=(a_spread({0: count}),), kind=Kind.SERVICE)
    claim = replace(claim, control=ControlSpec("replicas"), tenant=TenantName("ml"))
    plane = await plane_of(place, (NODES, granted(claim), gang("w-1", {0: 1})[1]))
    done = await operated(plane, W1, Wish(RESTART))
    assert (count, count) == (len(set(done.operations)), len(done.tasks))
    assert 2 == len(await plane.events(EU_LOG, OperationsRequested))
    assert [
        f"w-1: restart of {count} tasks is asked for",
        "  they wait for the word of controller replicas",
    ] == lines_of(done)[:2]


@virtual
async def test_controller_that_agrees(place: Place) -> None:
    """What it let go begins; the rest goes on waiting, and the table tells which."""
    plane = await plane_of(place, HELD)
    await operated(plane, W1, Wish(RESTART))
    await answer(place, Ack(2))
    assert [(Ack(2),)] == [event.acks for event in await plane.events(EU_LOG, ControlAnswered)]
    found = await tasks.seen(plane.bus, W1, plane.now)
    assert ["controller", "stopping", "controller"] == [
        row.operation.waits for row in found.tasks if row.operation is not None
    ]


# What cannot be asked for.


@virtual
async def test_workload_of_which_nothing_runs(place: Place) -> None:
    """It waits, or has ended: the user is told which, and what tells more."""
    plane = await half_plane(place, [NODES])
    with pytest.raises(
        CommandError, match="w-1 is PENDING, so nothing of it runs; `mizzen explain w-1` tells why"
    ):
        await operated(plane, W1, Wish(RESTART))
    await place.ask(CancelWorkload(W1))
    with pytest.raises(CommandError, match="w-1 has ended CANCELLED, so there is nothing to touch"):
        await operated(plane, W1, Wish(RESTART))
    with pytest.raises(RequestRefused, match="No workload of this id is known"):
        await operated(plane, WorkloadId("w-9"), Wish(RESTART))


@virtual
async def test_workload_that_was_only_awarded(place: Place) -> None:
    """Its region has not placed it yet."""
    plane = await half_plane(place, [NODES], awarded()[0])
    with pytest.raises(CommandError, match="w-1 was awarded to eu and nothing of it is there yet"):
        await operated(plane, W1, Wish(RESTART))


@virtual
async def test_workload_that_is_to_end(place: Place) -> None:
    """The store refuses it."""
    plane = await plane_of(place, [*FREE, StopOrdered(W1, 1, EndCause.CANCELLED)])
    with pytest.raises(RequestRefused, match="so there is nothing to touch"):
        await operated(plane, W1, Wish(RESTART))
    assert [] == await plane.events(EU_LOG, OperationsRequested)


@virtual
async def test_region_that_does_not_answer(place: Place) -> None:
    """It is named."""
    plane = await plane_of(place, FREE)
    plane.readers[EU_LOG].kill()
    with pytest.raises(CommandError, match="region eu: no process answers"):
        await operated(plane, W1, Wish(RESTART))


# Which tasks.


@pytest.mark.parametrize(
    ("text", "ranks"),
    [("3", (3,)), ("3,5-7", (3, 5, 6, 7)), ("7, 0-1,1", (0, 1, 7)), ("4-4", (4,)), ("999999", (999_999,))],
)
def test_ranks(text: str, ranks: tuple[int, ...]) -> None:
    """Each once, ascending."""
    assert ranks == ranks_of(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x", "x is no rank; write --tasks 3,5-7"),
        ("1,,2", "'1,,2' is no rank"),
        ("-1", "-1 is no rank"),
        ("1-", "1- is no rank"),
        ("1-2-3", "1-2-3 is no rank"),
        ("²", "² is no rank"),
        ("0-1000000", "0-1000000 is no rank"),
        ("7-5", "7-5 ends before it begins; write 5-7"),
    ],
)
def test_ranks_that_are_none(text: str, said: str) -> None:
    """They are told, and how to write them."""
    with pytest.raises(CommandError) as caught:
        ranks_of(text)
    assert said in str(caught.value)
    assert MISUSED == caught.value.exit_code


TWO_JOBS = granted(
    a_claim(
        jobs=(a_job(2, name="serve"), a_job(1, name="route")),
        spreads=(a_spread({0: 2}), a_spread({1: 1})),
        kind=Kind.SERVICE,
    )
)
ROUTE = task_number(1, 0)


@pytest.mark.parametrize(
    ("wish", "meant"),
    [
        (Wish(RESTART), (0, 1, ROUTE)),
        (Wish(RESTART, job="serve"), (0, 1)),
        (Wish(RESTART, (0,), "route"), (ROUTE,)),
        (Wish(RESTART, (1,), "serve"), (1,)),
    ],
)
def test_tasks_that_are_meant(wish: Wish, meant: tuple[int, ...]) -> None:
    """All, those of a job, or some of those."""
    row = region(TWO_JOBS).control.row(W1, 1)
    assert row is not None
    assert meant == tasks_meant(row, wish)


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (Wish(RESTART, (0,)), "it has several jobs, serve, route; name one of them with --job"),
        (Wish(RESTART, job="x"), "it has no job x; it has serve, route"),
        (Wish(RESTART, (0, 2, 9), "serve"), "job serve has no task 2; its last is 1"),
    ],
)
def test_tasks_that_are_not_there(wish: Wish, said: str) -> None:
    """What there is, is told."""
    row = region(TWO_JOBS).control.row(W1, 1)
    assert row is not None
    with pytest.raises(CommandError) as caught:
        tasks_meant(row, wish)
    assert (said, MISUSED) == (str(caught.value), caught.value.exit_code)


@pytest.mark.parametrize("wish", [Wish(RESTART, (0,)), Wish(RESTART, job="main")])
def test_single_tasks_of_a_gang(wish: Wish) -> None:
    """It is touched whole."""
    row = region(*gang("w-1", {0: 2})).control.spec_of(W1, 1)
    assert row is not None
    with pytest.raises(
        CommandError, match="its tasks are a gang, and are touched together; leave --tasks and"
    ):
        tasks_meant(row, wish)


# What is told.


def test_operation_that_is_over_before_it_is_told() -> None:
    """It may be done already; and a workload without tasks has nothing to ask for."""
    done = Operated(W1, EU, 1, RESTART, (1,), (), ())
    assert ["w-1: restart of a task is asked for", "  it is done already"] == lines_of(done)
    done = replace(done, operations=(1, 2))
    assert "  2 are done already" == lines_of(done)[1]
    assert ["w-1 has no tasks now, so nothing was asked for"] == lines_of(replace(done, operations=()))


# The tasks and the controllers of a plane.


@virtual
async def test_tasks_of_a_waiting_or_ended_workload(place: Place) -> None:
    """There are none, and the command that tells more is named."""
    plane = await half_plane(place, [NODES])
    found = await tasks.seen(plane.bus, W1, plane.now)
    assert () == found.tasks
    assert (
        "w-1 train is PENDING (waiting_turn); it has no tasks now, and `mizzen explain w-1` tells more"
        == (tasks.without_text(found))
    )
    await place.ask(CancelWorkload(W1))
    found = await tasks.seen(plane.bus, W1, plane.now)
    assert [
        "w-1 train is CANCELLED; it has no tasks now, and `mizzen show w-1` tells more"
    ] == tasks.lines_of(found)


@virtual
async def test_tasks_while_task_control_is_away(place: Place) -> None:
    """What waits for a controller is known all the same, and only whether it answers is not."""
    plane = await plane_of(place, HELD)
    await operated(plane, W1, Wish(RESTART, (0,)))
    plane.control.kill()
    (first, *_) = (await tasks.seen(plane.bus, W1, plane.now)).tasks
    assert first.operation is not None
    assert "the word of controller replicas" == first.operation.waits_for


@virtual
async def test_following_tasks_without_a_terminal(place: Place) -> None:
    """A line for each change, until the workload has ended; what is as it was is not told again."""
    plane = await plane_of(place, HELD)
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        watching = place.loop.create_task(tasks.watch(plane.bus, W1, plane.now, is_json=False))
        await place.sleep(5)
        await operated(plane, W1, Wish(RESTART, (0,)))
        await answer(place, Ack(1))
        await place.sleep(5)
        await place.ask(CancelWorkload(W1))
        await place.sleep(5)
        plane.bus.say(OrderStop(EU, W1, 1, EndCause.CANCELLED))
        plane.bus.say(RecordEnd(EU, W1, 1, EndCause.CANCELLED))
        await watching
    assert [
        "w-1 train is RUNNING in eu, attempt 1",
        "main/0 up on eu-0",
        "main/1 up on eu-1",
        "main/2 up on eu-2",
        "main/0 up on eu-0; restart 1 (its user asked for it) waits for the word of controller replicas",
        "main/0 down on eu-0, restart; restart 1 (its user asked for it) waits for its run to stop",
        "w-1 train is CANCELLED",
    ] == told.getvalue().splitlines()


@virtual
async def test_following_tasks_while_the_plane_is_away(place: Place) -> None:
    """It goes on for a minute without an answer, as JSON too, and then says what is wrong."""
    plane = await plane_of(place, HELD)
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        watching = place.loop.create_task(tasks.watch(plane.bus, W1, plane.now, is_json=True))
        await place.sleep(5)
        plane.readers[EU_LOG].kill()
        await place.sleep(50)
        assert not watching.done()
        with pytest.raises(CommandError, match="region eu: no process answers"):
            await watching
    lines = [json.loads(line) for line in told.getvalue().splitlines()]
    assert ["RUNNING", "up", "up", "up"] == [line.get("phase") or line["state"] for line in lines]


@virtual
async def test_controllers_of_a_plane(place: Place) -> None:
    """Those that are asked, those that have answered, and the region that does not tell."""
    plane = await plane_of(place, HELD)
    ((row,), silent) = await controller_table.rows_of_plane(plane.bus, "")
    assert (-1, 0, False, []) == (row.shown.heard_ago, row.shown.waiting, row.is_unreachable, silent)
    await operated(plane, W1, Wish(RESTART, (0, 1)))
    await place.sleep(3)
    ((row,), silent) = await controller_table.rows_of_plane(plane.bus, "eu")
    assert ("eu", "ml", "replicas", -1, 2, False, []) == (
        row.region,
        row.shown.tenant,
        row.shown.controller,
        row.shown.heard_ago,
        row.shown.waiting,
        row.is_unreachable,
        silent,
    )
    await place.sleep(30)
    ((row,), _) = await controller_table.rows_of_plane(plane.bus, "eu")
    assert row.is_unreachable
    await answer(place, Ack(1), Ack(9))
    ((row,), _) = await controller_table.rows_of_plane(plane.bus, "")
    assert (1, 1, False) == (row.shown.waiting, row.shown.ignored, row.is_unreachable)
    assert controller_table.table_of([row], None)[1].split()[:4] == ["eu", "ml", "replicas", "1s"]
    assert controller_table.builtins_of(row)["waiting"] == 1
    plane.control.kill()
    (found, silent) = await controller_table.rows_of_plane(plane.bus, "")
    assert ([], ["eu"]) == (found, [name for name, _ in silent])
    with pytest.raises(CommandError, match="there is no region us; there are eu"):
        await controller_table.rows_of_plane(plane.bus, "us")


@virtual
async def test_controller_that_has_not_answered_for_long(place: Place) -> None:
    """Whoever asks for more is told so, and who asks just after the first word is not."""
    plane = await plane_of(place, HELD)
    done = await operated(plane, W1, Wish(RESTART, (0,)))
    assert "  it waits for the word of controller replicas" in lines_of(done)
    await place.sleep(31)
    done = await operated(plane, W1, Wish(RESTART, (0, 1)))
    assert [
        "  main/0 waits, asked for before, for the word of controller replicas, which is unreachable (never heard)",
        "  main/1 waits for the word of controller replicas",
    ] == lines_of(done)[1:3]


@virtual
async def test_two_operators_ask_at_the_same_time(place: Place) -> None:
    """The request is made once more, on the facts by then."""
    plane = await plane_of(place, HELD)
    both = await asyncio.gather(
        operated(plane, W1, Wish(RESTART, (0,))), operated(plane, W1, Wish(RESTART, (1,)))
    )
    assert [(1,), (2,)] == sorted(done.operations for done in both)
    assert [(), ()] == [done.known for done in both]


@pytest.mark.parametrize(
    ("heard", "asked", "text"),
    [
        (5, 99, "5s ago"),
        (30, 99, "30s ago"),
        (31, 99, "unreachable (31s ago)"),
        (31, 30, "31s ago"),
        (4_000, None, "1h6m ago"),
        (None, None, "never"),
        (None, 30, "never"),
        (None, 31, "unreachable (never)"),
    ],
)
def test_controller_that_is_unreachable(heard: int | None, asked: int | None, text: str) -> None:
    """It is asked for so long and says nothing; whoever is not asked may be silent for ever."""
    spans = [seconds(span) if span is not None else -1 for span in (heard, asked)]
    shown = ControllerShown(TenantName("ml"), "replicas", spans[0], int(asked is not None), 0, "", spans[1])
    assert text == heard_text(ControllerRow(EU, shown))


@virtual
async def test_task_that_was_to_return_to_a_drained_node_is_told_to_move(place: Place) -> None:
    """`mizzen tasks` names why it does not come back, over the same images."""
    events = (
        *HELD,
        planned(0),
        *noticed(0),
        asked("w-1", 0, source="m-1"),
        answered("w-1", ack(answer=Answer.STOP_AND_RETURN)),
        opens(),
        begun("w-1"),
        gone("w-1", 0),
        drained(0),
    )
    plane = await plane_of(place, events)
    (first, *_) = (await tasks.look_at(plane.bus, EU, (W1, 1), plane.now)).tasks
    assert first.operation is not None
    assert "capacity on another node: its own is drained" == first.operation.waits_for

"""How far drains and maintenances are: given a region's image, exactly these rows, and exactly these lines."""

from core.events.region import NodesLost
from core.images import RegionImage
from core.nouns.ids import WorkerName
from core.nouns.instant import Instant
from core.nouns.maintenance import ClosureKind, MaintenanceKind
from core.nouns.operation import Answer
from mizzen.views.nodes.drain_progress import (
    LeavingRow,
    Progress,
    RackRow,
    builtins_of,
    progress_of,
    sources_of,
)
from mizzen.views.nodes.drain_text import brief_of, lines_of, overview_of
from mizzen.views.nodes.occupants import Wait, WaitKind
from tests.builders import EU
from tests.mizzen.nodes_scene import (
    HOUR,
    MINUTE,
    W1,
    W2,
    W3,
    ack,
    answered,
    asked,
    at,
    begun,
    drained,
    gang,
    gone,
    moved,
    noticed,
    opens,
    planned,
    region,
    service,
    stuck,
    two_jobs,
    up,
)

BUSY = (
    *gang("w-1", {0: 2, 2: 2}, "trainer"),
    *service("w-2", {1: 2, 5: 1}, "shards"),
    *service("w-3", {3: 1, 6: 1}),
)
DRAINING = region(
    *BUSY,
    drained(0, 1, 2, 3, 4, 5),
    asked("w-1"),
    asked("w-2", 0, 1, 2, deadline=10 * MINUTE),
    asked("w-3", 0),
    begun("w-3"),
    gone("w-3", 0),
)
"""Nodes of `w0` are in racks 0 and 1, those of `w1` from rack 2 on."""


def progress(image: RegionImage, source: str = "d-1") -> Progress:
    """It is there."""
    found = progress_of(EU, image, source, at(30))
    assert found is not None
    return found


def test_rows_of_a_drain() -> None:
    """Rack by rack what is empty, who is left, and what each waits for; those first who most likely want a look."""
    found = progress(DRAINING)
    trainer = Wait(WaitKind.CONTROLLER, at(10), 0, "ml/trainer")
    shards = Wait(WaitKind.CONTROLLER, at(11), at(11) + 10 * MINUTE, "ml/shards")
    room = Wait(WaitKind.ROOM, at(14))
    assert (
        RackRow(
            rack=0,
            nodes=2,
            empty=0,
            lost=0,
            left=4,
            rows=(
                LeavingRow(0, W1, 1, 2, True, ((0, 0),), trainer),
                LeavingRow(0, W2, 1, 2, True, ((1, 1),), shards),
            ),
        ),
        RackRow(
            rack=1,
            nodes=2,
            empty=1,
            lost=0,
            left=2,
            rows=(
                LeavingRow(1, W1, 1, 2, True, ((2, 2),), trainer),
                LeavingRow(1, W3, 1, 1, False, ((3, 3),), room),
            ),
        ),
        RackRow(
            rack=2, nodes=2, empty=1, lost=0, left=1, rows=(LeavingRow(2, W2, 1, 1, True, ((5, 5),), shards),)
        ),
    ) == found.racks
    assert (6, 2, 0, 7, 0, 1) == (
        found.nodes,
        found.empty,
        found.lost,
        found.left,
        found.staying,
        found.gone,
    )
    assert (W1, W2) == found.workloads
    assert ("new PDU", "ada@desk", at(9), 0, ((0, 5),)) == (
        found.reason,
        found.by,
        found.since,
        found.forced_at,
        found.node_runs,
    )
    assert not found.is_done


def test_lines_of_a_drain() -> None:
    """Whether it is done, then who does not move, then the racks; a controller that is not heard is told to be so."""
    found, now = progress(DRAINING), Instant(at(9) + 5 * MINUTE)
    assert [
        "d-1 of eu: 2 of 6 nodes are empty, 7 tasks of 2 workloads to go",
        (
            "  ! w-1: 4 tasks have waited 4m59s for its controller ml/trainer: "
            "nothing forces it; `mizzen drain d-1 --deadline 10m` would"
        ),
        (
            "  ! w-2: 3 tasks have waited 4m58s for its controller ml/shards, not heard for 1m30s: "
            "it is stopped unasked when its time is up"
        ),
        (
            "  ! w-3: 1 task has waited 4m55s for capacity elsewhere (it has stopped): "
            "`mizzen nodes --region eu` tells how much is free"
        ),
        "  eu-[0-5], racks 0-2; drained 5m ago by ada@desk: new PDU",
        "",
        "  RACK  EMPTY  WORKLOAD  TASKS  NODELIST  SINCE   FORCED  WAITS FOR",
        "     0  0/2    w-1           2  eu-0      4m59s    never  its controller ml/trainer",
        "     0  0/2    w-2           2  eu-1      4m58s  in 5m2s  its controller ml/shards, not heard for 1m30s",
        "     1  1/2    w-1           2  eu-2      4m59s    never  its controller ml/trainer",
        "     1  1/2    w-3           1  eu-3      4m55s        -  capacity elsewhere (it has stopped)",
        "     2  1/2    w-2           1  eu-5      4m58s  in 5m2s  its controller ml/shards, not heard for 1m30s",
    ] == lines_of(found, now, {"ml/shards": 90 * 1_000_000_000, "ml/trainer": 0})


def test_no_alarm_before_anything_is_late() -> None:
    """A controller that was asked a moment ago, and one that is forced in time and answers, needs no operator."""
    soon = at(15)
    assert 1 == len(brief_of(progress(DRAINING), soon, {}))
    later = Instant(at(9) + MINUTE)
    assert ["w-1", "w-3"] == [
        line.split()[1].rstrip(":") for line in brief_of(progress(DRAINING), later, {})[1:]
    ]


def test_one_cause_is_one_alarm() -> None:
    """However many workloads wait for it: whoever is woken has one thing to do about it."""
    work = [event for number in range(1, 6) for event in gang(f"w-{number}", {0: 1})]
    (_, call) = brief_of(progress(region(*work, drained(0))), Instant(at(13) + MINUTE), {})
    assert (
        "  ! w-1, w-2, w-3 and 2 more: 5 tasks have waited 1m for task control of eu to ask for it: "
        "see that task control of eu is up"
    ) == call


def test_drain_is_done_when_nothing_runs_there() -> None:
    """Not before its last task stopped; and whether that has found room by then does not matter to the nodes."""
    events = [*service("w-3", {3: 1, 6: 1}), drained(3), asked("w-3", 0), begun("w-3")]
    assert not progress(region(*events)).is_done
    events += [gone("w-3", 0)]
    found = progress(region(*events))
    assert (True, 1, 1) == (found.is_done, found.empty, found.gone)
    assert "d-1 of eu: 1 node is empty" == lines_of(found, at(9))[0]
    events += [moved("w-3", 0, 3, 7), up("w-3", 0)]
    found = progress(region(*events))
    assert (True, 1, 0, ()) == (found.is_done, found.empty, found.gone, found.racks[0].rows)


def test_racks_that_are_empty_take_one_line() -> None:
    """Nobody reads a hundred of them at night."""
    image = region(*gang("w-1", {7: 1}), drained(0, 1, 2, 3, 6, 7))
    lines = lines_of(progress(image), at(6))
    assert "d-1 of eu: 5 of 6 nodes are empty, 1 task of 1 workload to go" == lines[0]
    assert "  racks 0-1: empty" == lines[-1]
    assert [
        "     3  1/2    w-1           1  eu-7         1s   never  task control of eu to ask for it"
    ] == lines[4:-1]


def test_lost_node_is_never_empty() -> None:
    """What runs on it nobody knows, whatever the books say: it holds nothing up, and it is told."""
    lost = NodesLost(WorkerName("w0"), (0, 1, 2, 3))
    found = progress(region(*BUSY, drained(0, 1, 5), asked("w-1"), lost))
    assert (3, 0, 2, 1) == (found.nodes, found.empty, found.lost, found.left)
    assert [WaitKind.LOST, WaitKind.LOST] == [row.wait.kind for row in found.racks[0].rows]
    assert (
        "d-1 of eu: 0 of 3 nodes are empty, 2 are lost, 1 task of 1 workload to go"
        == lines_of(found, at(20))[0]
    )
    found = progress(region(drained(0, 1), lost))
    assert (True, 0, 2) == (found.is_done, found.empty, found.lost)
    assert [
        "d-1 of eu: 0 of 2 nodes are empty, 2 are lost, nothing else is left",
        "  eu-[0-1], rack 0; drained 7s ago by ada@desk: new PDU",
        "  rack 0: 2 nodes are lost; it is not known which tasks run there",
    ] == lines_of(found, at(10))


def test_jobs_of_one_gang_are_one_row() -> None:
    """Where two of its jobs share a node, their tasks are counted together."""
    found = progress(region(*two_jobs("w-1", {0: 2, 1: 1}, {1: 4}), drained(0, 1)))
    ((row,),) = [rack.rows for rack in found.racks]
    assert (7, ((0, 1),), 7) == (row.tasks, row.nodes, found.left)


def test_row_tells_the_longest_wait_and_the_nearest_deadline() -> None:
    """Of tasks that wait for the same thing and were asked at different times."""
    found = progress(
        region(
            *service("w-2", {0: 2}, "shards"),
            drained(0),
            asked("w-2", 0, deadline=HOUR),
            asked("w-2", 1, deadline=MINUTE, first=2),
        )
    )
    ((row,),) = [rack.rows for rack in found.racks]
    assert Wait(WaitKind.CONTROLLER, at(6), at(7) + MINUTE, "ml/shards") == row.wait


def test_drains_of_the_same_nodes_are_told_apart() -> None:
    """Each with its own nodes and its own deadline; the tasks are on their way whoever asked first."""
    image = region(
        *service("w-2", {0: 1, 1: 1}),
        drained(0, 1),
        drained(1, source="d-2", deadline=MINUTE),
        asked("w-2", 0, 1),
    )
    assert ["d-1", "d-2"] == sources_of(image, ClosureKind.DRAIN)
    assert [] == sources_of(image, ClosureKind.MAINTENANCE)
    first, second = progress(image, "d-1"), progress(image, "d-2")
    assert (2, 0, 2) == (first.left, first.forced_at, first.nodes)
    assert (1, at(6) + MINUTE, 1) == (second.left, second.forced_at, second.nodes)
    assert "forced in 50s" in lines_of(second, at(16))[0]
    assert "forced" not in lines_of(first, at(16))[0]


def test_there_is_nothing_of_an_unknown_name() -> None:
    """Nor of what is closed for another reason than a drain or a maintenance."""
    assert progress_of(EU, DRAINING, "d-9", at(30)) is None
    assert progress_of(EU, DRAINING, "m-1", at(30)) is None
    assert progress_of(EU, DRAINING, "quarantine", at(30)) is None


def test_json_has_everything() -> None:
    """And whether it is done."""
    told = builtins_of(progress(DRAINING))
    assert (False, "d-1", "drain", 7) == (told["is_done"], told["source"], told["kind"], told["left"])
    assert {"kind": "room", "since": at(14), "forced_at": 0, "what": ""} == told["racks"][1]["rows"][1][
        "wait"
    ]


# Maintenance.


def test_planned_maintenance_touches_nothing_yet() -> None:
    """It is known when notice is given and when the window opens; until then everybody stays where it is."""
    image = region(*BUSY, planned(0, 1))
    found = progress(image, "m-1")
    assert {WaitKind.NOTICE} == {row.wait.kind for rack in found.racks for row in rack.rows}
    assert (at(9) + HOUR, at(9) + HOUR / 2, at(9) + 2.5 * HOUR) == (
        found.starts_at,
        found.notice_at,
        found.ends_at,
    )
    lines = lines_of(found, at(10))
    assert (
        "m-1 of eu: opens in 59m at 01:16Z, notice in 29m, 0 of 2 nodes are empty, 4 tasks of 2 workloads to go"
        == lines[0]
    )
    assert "  eu-[0-1], rack 0, for 1h30m; power work planned 1s ago by ada@desk: new PDU" == lines[1]
    assert "     0  0/2    w-1           2  eu-0          -  in 59m  the notice in 29m" == lines[4]


def test_notice_is_given() -> None:
    """What each waits for, and that it is stopped when the window opens at the latest."""
    image = region(
        *BUSY,
        planned(0, 1),
        *noticed(0, 1),
        asked("w-1", source="m-1", deadline=30 * MINUTE),
        asked("w-2", 0, 1, source="m-1", deadline=30 * MINUTE),
        answered("w-2", ack(1, Answer.STOP_AND_RETURN)),
    )
    lines = lines_of(progress(image, "m-1"), Instant(at(12) + 5 * MINUTE))
    assert (
        "m-1 of eu: opens in 54m at 01:16Z, 0 of 2 nodes are empty, 4 tasks of 2 workloads to go" == lines[0]
    )
    assert [
        "     0  0/2    w-1           2  eu-0         5m  in 25m  its controller ml/trainer",
        "     0  0/2    w-2           1  eu-1      4m59s  in 25m  its controller ml/shards",
        "     0  0/2    w-2           1  eu-1      4m58s  in 25m  the window (it returns afterwards)",
    ] == lines[4:]


def test_open_window_with_tasks_is_an_alarm() -> None:
    """Whoever stands before the rack reads first that something may still run in it; and then that nothing does."""
    events = [
        *BUSY,
        planned(1),
        *noticed(1),
        asked("w-2", 0, 1, source="m-1", deadline=MINUTE),
        opens(),
        begun("w-2", 1, 2),
    ]
    lines = lines_of(progress(region(*events), "m-1"), Instant(at(9) + HOUR + MINUTE))
    assert [
        "m-1 of eu: open until 02:46Z, 0 of 1 node is empty, 2 tasks of 1 workload to go",
        "  ! the window is open, and 2 tasks may still run: do not touch those nodes yet",
    ] == lines[:2]
    events += [stuck("w-2")]
    lines = lines_of(progress(region(*events), "m-1"), Instant(at(9) + HOUR + MINUTE))
    assert lines[2].startswith("  ! w-2: 1 task has waited")
    events += [gone("w-2", 0, 1)]
    lines = lines_of(progress(region(*events), "m-1"), Instant(at(9) + HOUR + MINUTE))
    assert "m-1 of eu: open until 02:46Z, 1 node is empty" == lines[0]


def test_task_that_may_stay_holds_nothing_up() -> None:
    """Work on a switch is done with the tasks that their controller wants left alone still there, and that is no alarm."""
    image = region(
        *service("w-2", {1: 2}, "shards"),
        planned(1, kind=MaintenanceKind.NETWORK),
        *noticed(1),
        asked("w-2", 0, 1, source="m-1", deadline=MINUTE),
        answered("w-2", ack(1, Answer.IGNORE), ack(2, Answer.IGNORE)),
        opens(),
    )
    found = progress(image, "m-1")
    assert (True, 2, 0, 0) == (found.is_done, found.staying, found.empty, found.left)
    lines = lines_of(found, Instant(at(5) + HOUR))
    assert (
        "m-1 of eu: open until 02:46Z, 0 of 1 node is empty, 2 tasks may stay, nothing else is left"
        == lines[0]
    )
    assert "     0  0/1    w-2           2  eu-1        59m       -  nothing: it may stay" == lines[-1]


def test_overview_has_unfinished_drains_first() -> None:
    """A line for each; the maintenance with the nearest window before those that are to come."""
    image = region(
        *gang("w-1", {5: 1}),
        drained(0),
        drained(5, source="d-2", deadline=10 * MINUTE),
        planned(5, source="m-1", starts_in=3 * HOUR),
        planned(5, source="m-2"),
    )
    drains = [progress(image, name) for name in ("d-1", "d-2")]
    assert [
        "REGION  NAME  STATE                      NODES  EMPTY  LEFT  WORKLOADS  NODELIST  REASON",
        "eu      d-2   draining, forced in 9m57s      1      0     1          1  eu-5      new PDU",
        "eu      d-1   drained                        1      1     0          0  eu-0      new PDU",
    ] == overview_of(drains, at(9))
    works = [progress(image, name) for name in ("m-1", "m-2")]
    lines = overview_of(works, at(9))
    assert ["NAME", "m-2", "m-1"] == [line.split()[1] for line in lines]
    assert "power opens in 59m at 01:16Z, notice in 29m" in lines[1]

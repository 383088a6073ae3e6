"""What `mizzen nodes` tells: given a region's image, exactly these rows."""

from core.events.control import NodesClosed, NodesOpened
from core.events.region import NodesLost, StopOrdered
from core.images import RegionImage
from core.nouns.ids import WorkerName
from core.nouns.instant import Instant
from core.nouns.maintenance import ClosureKind
from core.nouns.placement import runs_of
from core.nouns.workload import EndCause
from mizzen.views.nodes.node_states import NodeStates, State, state_text
from mizzen.views.nodes.node_table import NodesRow, builtins_of, rows_of, table_of
from tests.builders import EU
from tests.mizzen.nodes_scene import (
    HOUR,
    MINUTE,
    W1,
    asked,
    at,
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

NOW = at(20)


def quarantined(node: int, reason: str) -> NodesClosed:
    """One node."""
    return NodesClosed("quarantine", ClosureKind.QUARANTINE, runs_of([node]), reason)


def states(image: RegionImage, now: Instant = NOW) -> list[tuple[str, str]]:
    """Of each row, its nodes and its state for people."""
    rows = rows_of(EU, image, is_each=False)
    return [(_nodes(row), state_text(row.condition, row.tasks, row.use, now)) for row in rows]


def _nodes(row: NodesRow) -> str:
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in row.node_runs)


def test_open_nodes_tell_their_use() -> None:
    """As sinfo calls it: idle, mixed, full, and ending while an attempt is told to stop."""
    assert [("0-3", "open (idle)"), ("4-7", "open (idle)")] == states(region())
    image = region(*gang("w-1", {0: 8, 4: 8, 5: 8, 6: 8, 7: 8}))
    assert [("0-3", "open (mixed)"), ("4-7", "open (full)")] == states(image)
    image = region(*gang("w-1", {0: 8}), StopOrdered(W1, 1, EndCause.DRAINED))
    assert ("0-3", "open (ending)") == states(image)[0]


def test_drained_nodes_are_told_apart_from_those_that_are_not_empty() -> None:
    """A line for each state of like nodes, with the tasks that are left; a task that has stopped is not."""
    events = [*service("w-1", {0: 2, 3: 1}), drained(0, 1, 2)]
    assert [
        ("0", "draining (d-1, 2 tasks left)"),
        ("1-2", "drained (d-1)"),
        ("3", "open (mixed)"),
        ("4-7", "open (idle)"),
    ] == states(region(*events))
    events += [asked("w-1", 0, 1), begun("w-1", 1, 2), gone("w-1", 0)]
    assert ("0", "draining (d-1, 1 task left)") == states(region(*events))[0]
    events += [gone("w-1", 1)]
    assert ("0-2", "drained (d-1)") == states(region(*events))[0]


def test_maintenance_tells_when_it_opens_and_when_it_is_over() -> None:
    """Nothing before notice is given: until then the nodes take work as any others."""
    events = [*gang("w-1", {0: 1}), planned(0, 1)]
    assert ("0-3", "open (mixed)") == states(region(*events))[0]
    events += noticed(0, 1)
    assert [
        ("0", "maintenance (m-1, opens in 48m, 1 task left)"),
        ("1", "maintenance (m-1, opens in 48m)"),
    ] == states(region(*events), Instant(at(5) + 12 * MINUTE))[:2]
    events += [opens()]
    assert [
        ("0", "maintenance (m-1, until 02:46Z, 1 task left)"),
        ("1", "maintenance (m-1, until 02:46Z)"),
    ] == states(region(*events), Instant(at(5) + HOUR))[:2]


def test_quarantine_tells_why_node_by_node() -> None:
    """Nodes come into it one by one, each for its own reason, and leave it so; what a drain closes is one line all the same."""
    events = [
        quarantined(1, "failed 3 of 3 attempts soon after their start"),
        quarantined(2, "GPU 4: 12 uncorrectable ECC errors in the last hour"),
    ]
    assert [
        ("0,3", "open (idle)"),
        ("1", "quarantined (failed 3 of 3 attempts soon after their start)"),
        ("2", "quarantined (GPU 4: 12 uncorrectable ECC errors in the last …)"),
    ] == states(region(*events))[:3]
    left = NodesOpened("quarantine", ClosureKind.QUARANTINE, runs_of([2]))
    again = quarantined(2, "fell off the bus")
    assert ("2", "quarantined (fell off the bus)") == states(region(*events, left, again))[2]
    assert [
        ("0,2-3", "open (idle)"),
        ("1", "quarantined (failed 3 of 3 attempts soon after their start)"),
    ] == states(region(*events, left))[:2]


def test_all_that_closes_a_node_is_told() -> None:
    """The hardest to get over first: a loss, a window that is open, the quarantine, work to come, a drain, a suspicion."""
    suspect = NodesClosed("suspicion", ClosureKind.SUSPECT, runs_of(range(4)), "missed beats")
    lost = NodesLost(WorkerName("w0"), (0, 1, 2, 3))
    events = [suspect, drained(1, 2, 3), planned(2, 3), *noticed(2, 3), quarantined(3, "ill")]
    now = Instant(at(5) + MINUTE)
    assert [
        ("0", "suspect (missed beats)"),
        ("1", "drained (d-1); suspect (missed beats)"),
        ("2", "maintenance (m-1, opens in 59m); drained (d-1); suspect (missed beats)"),
        ("3", "quarantined (ill); maintenance (m-1, opens in 59m); drained (d-1); suspect (missed beats)"),
    ] == states(region(*events), now)[:4]
    image = region(*events, opens(), lost)
    assert (
        "3",
        "lost; maintenance (m-1, until 02:46Z); quarantined (ill); drained (d-1); suspect (missed beats)",
    ) == (states(image, now)[3])
    known = NodeStates(image)
    words = [State.LOST] * 4 + [State.OPEN] * 4
    assert words == [known.of(node).state for node in range(8)]


def test_rows_add_up() -> None:
    """Whatever the states: each node is in one row, and the rows of one call and of the other hold the same."""
    image = region(
        *gang("w-1", {0: 4, 4: 8}),
        *service("w-2", {1: 2, 6: 1}),
        drained(0, 1, 2, 6),
        quarantined(5, "ill"),
        NodesLost(WorkerName("w0"), (0, 1, 2, 3)),
    )
    for is_each in (True, False):
        rows = rows_of(EU, image, is_each=is_each)
        numbers = [node for row in rows for a, b in row.node_runs for node in range(a, b + 1)]
        assert list(range(8)) == sorted(numbers)
        assert 64_000 == sum(row.total for row in rows)
        assert 15 == sum(row.tasks for row in rows)
        for row in rows:
            assert row.total == row.free + row.held + row.ending + row.lost
    assert 8 == len(rows_of(EU, image, is_each=True))


def test_table_and_json() -> None:
    """JSON has the parts: the state in a word, the use, and each closure with its times, its reason in full and by whom."""
    why = "failed 3 of 3 attempts soon after their start"
    image = region(drained(0, 1, 2, 3, deadline=MINUTE), *gang("w-1", {0: 1}), quarantined(7, why))
    rows = rows_of(EU, image, is_each=False)
    assert [
        "REGION  NODELIST  NODES  TYPE  WORKER  STATE                        GPUS  FREE  HELD  ENDING  LOST  WORKLOADS",
        "eu      eu-0          1  H100  w0      draining (d-1, 1 task left)     8     7     1       0     0  w-1",
    ] == table_of(rows[:1], NOW, None)
    told = [builtins_of(row) for row in rows]
    assert ["draining", "drained", "open", "quarantined"] == [one["state"] for one in told]
    assert ["mixed", "idle", "idle", "idle"] == [one["use"] for one in told]
    assert [1, 0, 0, 0] == [one["tasks"] for one in told]
    (drain,) = told[0]["closed_by"]
    assert {
        "source": "d-1",
        "kind": "drain",
        "reason": "new PDU",
        "since": at(3),
        "by": "ada@desk",
        "forced_at": at(3) + MINUTE,
        "phase": "",
        "starts_at": 0,
        "ends_at": 0,
    } == drain
    (ill,) = told[3]["closed_by"]
    assert ("quarantine", why, at(6)) == (ill["source"], ill["reason"], ill["since"])


def test_place_of_nodes_is_told_to_programs() -> None:
    """By zone, power domain and pool, which `mizzen drain` takes."""
    image = region(nodes("w2", 8, power="power-3", pool="service"))
    told = builtins_of(rows_of(EU, image, is_each=False)[-1])
    assert ("zone-2", "power-3", "service") == (told["zone"], told["power_domain"], told["pool"])

"""Operators empty nodes of a plane that runs, plan work on them and give them back: by the commands, as they are typed."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from bus.port import Bus
from core.messages.nodes import CloseNodes
from core.messages.queue import CancelWorkload
from core.nouns.ids import RegionName
from core.nouns.maintenance import ClosureKind
from core.nouns.workload import Phase
from mizzen.cli import main
from tests.mizzen.running import RunningPlane
from tests.worlds.plane import work

pytestmark = pytest.mark.processes

Captured = pytest.CaptureFixture[str]
ENDLESS = 600_000
LOOKS_MAX = 400
R0 = RegionName("r0")


def ask(capsys: Captured, *words: str, exit_code: int = 0) -> str:
    """What a command prints."""
    capsys.readouterr()
    assert exit_code == main(words), capsys.readouterr().err
    return capsys.readouterr().out


def ask_json(capsys: Captured, *words: str) -> Any:  # Any: whatever JSON can hold
    """The same, as JSON."""
    return json.loads(ask(capsys, *words, "--json"))


def refused(capsys: Captured, *words: str) -> list[str]:
    """What is wrong with a command, a line each; with JSON, the same."""
    capsys.readouterr()
    assert 2 == main(words)
    out, err = capsys.readouterr()
    assert "" == out
    lines = err.splitlines()
    assert 2 == main([*words, "--json"])
    told = json.loads(capsys.readouterr().err)
    assert [*told.get("problems", ()), f"mizzen: {told['error']}"] == lines
    return [*lines[:-1], lines[-1].removeprefix("mizzen: ")]


def until(look: Callable[[], Any], holds: Callable[[Any], bool]) -> None:  # Any: whatever JSON can hold
    """Look until it is so; whatever is asked of a plane takes it a moment."""
    for _ in range(LOOKS_MAX):
        if holds(look()):
            return
    pytest.fail(f"it does not come to hold: {look()}")


def states(capsys: Captured) -> dict[int, str]:
    """Of r0's nodes."""
    rows = ask_json(capsys, "nodes", "--region", "r0", "--all")
    return {row["node_runs"][0][0]: row["state"] for row in rows}


def test_rack_is_drained_and_opened_again(plane: RunningPlane, capsys: Captured) -> None:
    """T11: work that runs there leaves, without a controller at once; the command waits until it has, and tells the reason of its wait."""
    workload = plane.submit(work("movable", milliseconds=ENDLESS, region="r0", save_every=20))
    plane.until(workload, Phase.RUNNING)
    (row,) = [row for row in ask_json(capsys, "nodes", "--region", "r0", "--all") if row["workloads"]]
    ((was, _),) = row["node_runs"]
    said = ask(capsys, "drain", f"r0-{was}", "--reason", "new fan", "-w").splitlines()
    assert said[0].startswith(f"d-1 drains r0-{was} (1 node): 1 task of 1 workload will leave, when")
    assert "d-1 of r0: 1 node is empty" == said[-1]
    assert {node: "drained" if node == was else "open" for node in range(4)} == states(capsys)
    # It goes on elsewhere, and not there.
    plane.until(workload, Phase.RUNNING)
    (row,) = [row for row in ask_json(capsys, "nodes", "--region", "r0", "--all") if row["workloads"]]
    assert [[was, was]] != row["node_runs"]
    # Looked at once: by its name, and among all.
    assert "d-1 of r0: 1 node is empty" in ask(capsys, "drain", "d-1")
    ((only,),) = [ask_json(capsys, "drain")]
    assert ("d-1", True, "new fan", [[was, was]]) == (
        only["source"],
        only["is_done"],
        only["reason"],
        only["node_runs"],
    )
    (look,) = ask_json(capsys, "drain", "d-1", "--region", "r0")
    assert ("r0", "d-1", only) == (look["region"], look["source"], look["progress"])
    # Names are a region's own.
    ask(capsys, "drain", "r1-0", "--reason", "new fan")
    assert ["r0 and r1 have a drain d-1 each; say which by --region"] == refused(capsys, "drain", "d-1")
    assert "r1-0 (1 node): d-1 lifted\n" == ask(capsys, "undrain", "d-1", "--region", "r1")
    # Back again.
    assert f"r0-{was} (1 node): d-1 lifted\n" == ask(capsys, "undrain", f"r0-{was}")
    assert set(states(capsys).values()) == {"open"}
    assert 1 == main(["drain", "d-1"])
    assert "there is no drain d-1 in r0 any more" in capsys.readouterr().err
    assert 1 == main(["drain", "-w"])
    assert "there is no drain to watch" in capsys.readouterr().err
    plane.say(CancelWorkload(workload))
    plane.until(workload, Phase.CANCELLED)


def test_drain_that_is_refused(plane: RunningPlane, capsys: Captured) -> None:
    """With everything that is wrong at once, and what to say instead; nothing is recorded of it."""
    assert [
        "--reason: say why; operators that find the nodes drained will ask",
        "--deadline: soon is no span; write for example 90s, 5m, 1h30m or 1:30:00",
        "r0 has no rack 9; it has 0-1",
        "3 things are wrong; nothing was asked for",
    ] == refused(capsys, "drain", "--rack", "9", "--region", "r0", "--deadline", "soon")
    assert ["say which region by --region; there are here, r0, r1"] == refused(
        capsys, "drain", "--rack", "0", "--reason", "x"
    )
    assert ["it is every node of r1; if that is meant, say --yes"] == refused(
        capsys, "drain", "--all", "--region", "r1", "--reason", "x"
    )
    assert ["name nodes in one way only: nodes by name and --zone are given"] == refused(
        capsys, "drain", "r0-1", "--zone", "zone-0", "--reason", "x"
    )
    assert ["--reason: say why; operators that find the nodes drained will ask"] == refused(
        capsys, "drain", "r0-1"
    )
    assert ["--deadline: soon is no span; write for example 90s, 5m, 1h30m or 1:30:00"] == refused(
        capsys, "drain", "d-1", "--deadline", "soon"
    )
    assert ["m-1 has its reason; say --cancel to take it back"] == refused(
        capsys, "maintain", "m-1", "--reason", "x"
    )
    assert set(states(capsys).values()) == {"open"}


def test_maintenance_from_its_plan_to_its_end(plane: RunningPlane, capsys: Captured) -> None:
    """T22: planned, noticed, open and over; the nodes are closed from the notice on and open again afterwards."""
    scope = ("--worker", "w1", "--region", "r0")
    words = ("--kind", "power", "--start", "in 2h", "--for", "90m", "--notice", "30m", "--reason", "new PDU")
    said = ask(capsys, "maintain", *scope, *words)
    name = said.split()[0]
    assert "in 2h" in said
    assert "on r0-[2-3] (2 nodes): 0 tasks of 0 workloads there now" in said
    assert set(states(capsys).values()) == {"open"}
    assert "power opens in 1h59m at" in ask(capsys, "maintain")
    assert f"{name} of r0: opens in 1h59m at" in ask(capsys, "maintain", name)
    assert f"{name} of r0 is cancelled\n" == ask(capsys, "maintain", name, "--cancel", "--reason", "no parts")
    # One that begins at once.
    words = ("--kind", "reboot", "--start", "now", "--for", "90m", "--notice", "0", "--reason", "new kernel")
    name = ask_json(capsys, "maintain", *scope, *words)["name"]
    until(lambda: ask_json(capsys, "maintain", name)[0]["progress"]["phase"], "open".__eq__)
    assert {0: "open", 1: "open", 2: "maintenance", 3: "maintenance"} == states(capsys)
    assert f"maintenance ({name}, until " in ask(capsys, "nodes", "--region", "r0")
    assert f"{name} of r0 is over before its time\n" == ask(capsys, "maintain", name, "--cancel")
    assert set(states(capsys).values()) == {"open"}
    assert [] == ask_json(capsys, "maintain", "--region", "r0")


def test_maintenance_that_is_refused(plane: RunningPlane, capsys: Captured) -> None:
    """T22: the past, unknown racks and nonsense, all of it at once, and with what to say instead."""
    start = ("--start", "2020-01-01T00:00")
    lines = refused(
        capsys,
        "maintain",
        "--rack",
        "7",
        "--region",
        "r0",
        "--kind",
        "magic",
        *start,
        "--for",
        "0",
        "--notice",
        "9d",
    )
    assert [
        "--kind: magic is no kind of work; there are network, reboot, hardware, power",
        "--for: 0 is no time at all",
        "--notice: 9d is too long; 7 days is the most",
        "--reason: say why; operators that find the nodes closed will ask",
        "r0 has no rack 7; it has 0-1",
        "6 things are wrong; nothing was asked for",
    ] == [line for line in lines if not line.startswith("--start")]
    (start_line,) = [line for line in lines if line.startswith("--start")]
    assert start_line.startswith("--start: 2020-01-01T00:00 has passed, ")
    assert [
        "--kind: say what is done; there are network, reboot, hardware, power",
        "--start: say when the window opens: now, 'in 2h' or 2026-11-22T03:00",
        "--for: say how long the window is, as in 90m",
        "--reason: say why; operators that find the nodes closed will ask",
        "4 things are wrong; nothing was asked for",
    ] == refused(capsys, "maintain", "r0-1")
    assert ["--cancel takes the name of one maintenance, as in m-3, and a --reason"] == refused(
        capsys, "maintain", "m-1", "m-2", "--cancel"
    )
    assert [] == ask_json(capsys, "maintain")


def test_node_leaves_the_quarantine(plane: RunningPlane, capsys: Captured) -> None:
    """`mizzen nodes` tells why it is there; an operator's word lets it out, and to lift a drain does not."""

    async def close(bus: Bus) -> None:
        bus.say(CloseNodes(R0, ClosureKind.QUARANTINE, (1,), "GPU 3 fell off its bus"))

    plane.call(close(plane.call(plane.world.client("client.health"))))
    until(lambda: states(capsys), lambda found: found[1] == "quarantined")
    assert "quarantined (GPU 3 fell off its bus)" in ask(capsys, "nodes", "--region", "r0")
    assert 1 == main(["undrain", "r0-1"])
    assert "none of these nodes is drained" in capsys.readouterr().err
    assert "r0-1 (1 node): released from quarantine\n" == ask(
        capsys, "nodes", "release", "r0-1", "--reason", "replaced"
    )
    assert set(states(capsys).values()) == {"open"}


def test_region_that_is_down(plane: RunningPlane, capsys: Captured) -> None:
    """What can be told of the others is; what is asked of it says which region it is."""
    with plane.without("reader", "r0"):
        assert 1 == main(["drain"])
        out, err = capsys.readouterr()
        assert "" == out
        assert "mizzen: region r0: no process answers" in err
        assert 1 == main(["drain", "r0-1", "--reason", "x"])
        assert "mizzen: region r0: no process answers" in capsys.readouterr().err
    with plane.without("placement_store", "r0"):
        assert 1 == main(["drain", "r0-1", "--reason", "x"])
        assert "no process answers; that part of the plane is down" in capsys.readouterr().err

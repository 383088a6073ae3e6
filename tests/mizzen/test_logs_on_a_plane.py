"""What a plane that runs tells of its logs and their images, and of the output of tasks."""

import asyncio
import json
import sqlite3

import pytest

from core.images import decode_image
from core.nouns.ids import GLOBAL_LOG, WorkloadId
from core.nouns.workload import Phase
from mizzen.cli import main
from mizzen.views.logs import fact_stream
from tests.mizzen.asking import Captured, ask, ask_json, ended, refused
from tests.mizzen.running import RunningPlane

pytestmark = pytest.mark.processes


# Logs and images.


def test_log_of_a_plane(plane: RunningPlane, running: WorkloadId, capsys: Captured) -> None:
    """The newest facts, some from a sequence on, or all about one thing."""
    first = ask(capsys, "log global --first 1 --count 2").splitlines()
    assert ["1", "log-opened"] == [first[0].split()[0], first[0].split()[3]]
    assert 2 == len(first)
    about = [json.loads(line) for line in ask(capsys, f"log region.r0 --about {running} --json").splitlines()]
    assert ["claim-granted", "gang-started"] == [fact["type"] for fact in about[:2]]
    assert {running} == {fact["about"] for fact in about}
    assert {"at", "time", "actor", "cause", "event", "log", "sequence", "type", "about"} == set(about[0])
    assert about[:1] == [
        json.loads(line)
        for line in ask(capsys, f"log region.r0 --about {running} --json --count 1").splitlines()
    ]
    assert about[1:2] == [
        json.loads(line)
        for line in ask(
            capsys, f"log region.r0 --about {running} --json --count 1 --first {about[1]['sequence']}"
        ).splitlines()
    ]
    newest = ask(capsys, "log global --count 3").splitlines()
    assert 3 == len(newest)
    assert int(newest[0].split()[0]) > 2
    assert "" == ask(capsys, "log global --first 999999")
    assert refused(capsys, "log region.moon", 2).startswith(
        "there is no log region.moon; the plane has global"
    )


def test_log_that_is_followed(
    plane: RunningPlane, waiting: WorkloadId, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes is told as it comes, from the plane and from the file."""
    for log in ("global", str(plane.world.directory / "global.sqlite")):
        steps = [["hold", waiting], ["release", waiting], []]

        async def next_step(steps: list[list[str]] = steps) -> None:
            if not steps:
                raise KeyboardInterrupt
            words = steps.pop(0)
            assert 0 == (await asyncio.to_thread(main, words) if words else 0)

        monkeypatch.setattr(fact_stream, "pause", next_step)
        out = ask(capsys, f"log {log} --about {waiting} -f", 130)
        told = [line.split()[3] for line in out.splitlines() if len(line.split()) > 3]
        assert ["workload-held", "workload-released"] == told[-2:]
        assert "workload-submitted" == told[0]


def test_replay_comes_to_the_digest_of_the_keeper(
    plane: RunningPlane, running: WorkloadId, capsys: Captured
) -> None:
    """P4: by the log's name or its file; to a sequence too; with every check on the way."""
    ask(capsys, f"cancel -w {running}")
    for log, role, region in (("global", "job_queue", ""), ("region.r0", "placement_store", "r0")):
        state = plane.world.unit(role, region).state
        for name in (log, str(plane.world.directory / f"{log}.sqlite")):
            told = ask_json(capsys, f"replay {name} --check")
            assert (log, state.sequence, state.image.digest(), []) == (
                told["log"],
                told["sequence"],
                told["digest"],
                told["violations"],
            )
        assert f"{state.image.digest()}\n" == ask(capsys, f"replay {log} --digest")
        early = ask_json(capsys, f"replay {log} --until 3")
        assert 3 == early["sequence"]
        assert early["digest"] != state.image.digest()
        assert "has" in refused(capsys, f"replay {log} --until 999999")
    assert "facts/s" in ask(capsys, "replay global")


def test_state_of_a_log(plane: RunningPlane, running: WorkloadId, capsys: Captured) -> None:
    """Now and at a sequence, whole or in part; of a file, or of a plane that is only known by its address."""
    told = ask_json(capsys, "state global")
    # Its reader may be a moment behind.
    while told["sections"]["workloads"]["rows"][running]["phase"] == "AWARDED":
        told = ask_json(capsys, "state global")
    known = {
        "workloads",
        "awards",
        "demand",
        "regions",
        "tenants",
        "usage",
        "history",
        "starts",
        "start_promises",
        "datasets",
        "clock",
        "refusals",
        "sharing",
        "data_settings",
        "dispatch",
        "copies",
        "readings",
        "pipelines",
    }
    assert known == set(told["sections"])
    assert "RUNNING" == told["sections"]["workloads"]["rows"][running]["phase"]
    one = ask_json(capsys, f"state global {running}")["sections"]
    assert ("RUNNING", True) == (one["workloads"]["rows"]["phase"], one["awards"]["rows"]["is_standing"])
    submitted = json.loads(ask(capsys, f"log global --about {running} --json").splitlines()[0])["sequence"]
    early = ask_json(capsys, f"state global {running} --at {submitted} --section workloads")
    assert ("PENDING", submitted) == (early["sections"]["workloads"]["rows"]["phase"], early["sequence"])
    path = plane.world.directory / "region.r0.sqlite"
    held = ask_json(capsys, f"state {path} {running}")["sections"]["capacity"]
    assert 1 == held["holdings"]["1"]["claim"]["epoch"]
    assert 8_000 == ask_json(capsys, f"state {path} r0-1")["sections"]["capacity"]["node"]["gpu"]["total"]
    assert "has nothing of w-99999" in refused(capsys, "state global w-99999")
    assert "has no section nodes; it has workloads, awards, regions" in refused(
        capsys, "state global --section nodes", 2
    )
    assert "has" in refused(capsys, "state global --at 999999")


def test_plane_that_is_known_by_its_address(
    plane: RunningPlane, running: WorkloadId, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything but its files."""
    monkeypatch.setenv("MIZZEN_NATS_URL", plane.world.url)
    monkeypatch.setenv("MIZZEN_FLEET", plane.world.plan.fleet)
    assert running in ask(capsys, "queue")
    assert running in ask_json(capsys, "state global --section workloads")["sections"]["workloads"]["rows"]
    assert "the plane tells only the newest image" in refused(capsys, "state global --at 3")
    assert "name its path" in refused(capsys, "replay global")


def test_image_on_the_plane_is_the_fold(plane: RunningPlane, capsys: Captured) -> None:
    """What `state` shows of a running plane is what its file folds to."""
    path = plane.world.directory / "global.sqlite"
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        (count,) = connection.execute("SELECT max(sequence) FROM facts").fetchone()
    told = ask_json(capsys, f"state {path} --at {count}")
    assert count == told["sequence"]
    image = plane.world.unit("job_queue").state.image
    assert decode_image(GLOBAL_LOG, image.encode()).digest() == image.digest()


# Output of tasks.


def test_output_of_tasks(plane: RunningPlane, capsys: Captured) -> None:
    """Of one rank or of all, in one attempt or the newest, all of it or its last lines."""
    spec = plane.program("talks", "for i in 1 2 3; do echo $i from $RANK; done", tasks=2)
    workload = ended(plane, spec, Phase.COMPLETED)
    assert "1 from 0\n2 from 0\n3 from 0\n" == ask(capsys, f"logs {workload}")
    assert "2 from 1\n3 from 1\n" == ask(capsys, f"logs {workload} --rank 1 --tail 2 --attempt 1")
    assert "" == ask(capsys, f"logs {workload} --tail 0")
    lines = ask(capsys, f"logs {workload} --rank all").splitlines()
    assert [f"[{rank}] {number} from {rank}" for rank in (0, 1) for number in (1, 2, 3)] == lines
    told = [json.loads(line) for line in ask(capsys, f"logs {workload} --json").splitlines()]
    assert "1 from 0\n2 from 0\n3 from 0\n" == "".join(one["text"] for one in told)
    assert (1, "main", 0, 0) == tuple(told[0][name] for name in ("epoch", "job", "rank", "offset"))
    assert "job main has no rank 2; it has 0 to 1" in refused(capsys, f"logs {workload} --rank 2", 2)
    assert "has no job other; it has main" in refused(capsys, f"logs {workload} --job other", 2)
    assert "has no attempt 9 that was placed; there are 1" in refused(
        capsys, f"logs {workload} --attempt 9", 2
    )


def test_output_is_followed_over_a_restart(plane: RunningPlane, capsys: Captured) -> None:
    """Until the workload has ended, from before it was placed."""
    spec = plane.program("again", "echo attempt $MIZZEN_ATTEMPT; sleep 0.1; echo over; exit 3", retries=1)
    workload = plane.submit(spec)
    capsys.readouterr()
    assert 0 == main(["logs", workload, "-f"])
    out, err = capsys.readouterr()
    assert "attempt 1\nover\nattempt 2\nover\n" == out
    assert "mizzen: note: attempt 2 in here\n" == err
    assert "attempt 1\nover\n" == ask(capsys, f"logs {workload} --attempt 1")


def test_output_that_is_not_there(
    plane: RunningPlane, running: WorkloadId, waiting: WorkloadId, capsys: Captured
) -> None:
    """Of emulated tasks, and of one that was never placed."""
    assert "is emulated, and emulated tasks write nothing" in refused(capsys, f"logs {running}")
    assert "is PENDING and has not been placed" in refused(capsys, f"logs {waiting}")

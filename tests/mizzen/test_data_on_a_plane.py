"""An operator says where data is on a plane that runs, by the commands, as they are typed."""

import pytest

from core.nouns.workload import Phase
from tests.mizzen.asking import Captured, ask, ask_json, refused
from tests.mizzen.running import RunningPlane
from tests.worlds.plane import PATIENCE_SECONDS, work

pytestmark = pytest.mark.processes


def all_are_heard(plane: RunningPlane) -> bool:
    """Whether the queue knows what every region has."""
    state = plane.world.unit("job_queue").state
    return all(image is not None and image.hardware.rows for image in state.regions.values())


def test_data_is_placed_listed_and_waited_for(plane: RunningPlane, capsys: Captured) -> None:
    """Work that reads what is nowhere waits with that reason, and runs where it is once it is somewhere."""
    assert "name the regions that hold clicks" in refused(capsys, "data place clicks", 2)
    assert "regions: mars is not in the fleet" in refused(capsys, "data place clicks mars")
    assert "no operator placed clicks" in refused(capsys, "data drop clicks")
    assert "No operator has said where a dataset of this name is: dataset: clicks" in refused(
        capsys, "data copies clicks"
    )
    assert "home: it is none of the regions that hold it" in refused(
        capsys, "data place clicks r0 --home r1", 2
    )
    workload = plane.submit(work("reads", milliseconds=10, data=["clicks"]))
    plane.call(plane.world.until(lambda: all_are_heard(plane), PATIENCE_SECONDS, "regions are heard"))
    told = ask(capsys, f"explain {workload}")
    assert told.startswith(
        f"{workload} is PENDING (no_data): A dataset that the workload reads is missing there"
    )
    assert 2 == told.count("it lacks clicks")
    (line,) = [line.split() for line in ask(capsys, "data").splitlines() if line.startswith("clicks")]
    assert ["clicks", "-", "-", "-", "0", "1"] == line[:6]
    placed = ask(capsys, "data place clicks r1 --home r1 --size 5MB").splitlines()[1].split()
    assert ["clicks", "5MB", "r1", "r1"] == placed[:4]
    plane.until(workload, Phase.COMPLETED)
    (shown,) = ask_json(capsys, f"show {workload}")["attempts"]
    assert "r1" == shown["region"]
    assert "  reads         clicks\n" in ask(capsys, f"show {workload}")
    assert ["clicks", "5MB", "-", "-"] == ask(capsys, "data drop clicks").splitlines()[1].split()[:4]
    (row,) = [row for row in ask_json(capsys, "data") if row["dataset"] == "clicks"]
    assert (2, [], None) == (row["revision"], row["regions"], row["home"])


def test_storage_links_and_policy_are_shown_and_set(plane: RunningPlane, capsys: Captured) -> None:
    """What is not named stays; a region without a data service has no storage; each mistake is told with how to write it."""
    shown = ask(capsys, "data storage").splitlines()
    assert ["REGION", "STORAGE", "USED", "COMING", "SERVICE"] == shown[0].split()
    assert "no data service: give it `data` in the fleet file" in refused(capsys, "data storage r0 40TB")
    assert "say how much r0 may hold" in refused(capsys, "data storage r0", 2)
    assert "size: 40x is no size" in refused(capsys, "data storage r0 40x", 2)
    assert "no data service" in refused(capsys, "data storage r0 900PB")
    assert "size: 2EB is no size" in refused(capsys, "data storage r0 2EB", 2)
    assert "size: 2000PB is more than an exbibyte" in refused(capsys, "data storage r0 2000PB", 2)
    assert "rate: 0.5 is less than a byte" in refused(capsys, "data links r0 r1 0.5", 2)
    assert "1GB/s" in ask(capsys, "data links r0 r1 1GB/s")
    assert "say from where, to where and how fast" in refused(capsys, "data links r0", 2)
    assert "target: a link goes to another region" in refused(capsys, "data links r0 r0 1GB", 2)
    told = ask(capsys, "data policy --automatic off --per-day 5 --disaster off --replan 1h")
    assert "automatic     off" in told
    assert "per day       5 % of the bytes" in told
    assert "extra         125 % of them" in told
    assert "replan" in refused(capsys, "data policy --replan soon", 2)
    assert "replan: from 5m to 1d, and not 10s" in refused(capsys, "data policy --replan 10s", 2)
    assert "neither on nor off" in refused(capsys, "data policy --automatic maybe", 2)
    assert "per_day" in refused(capsys, "data policy --per-day lots", 2)
    assert "per_day: from 0 to 100 percent, and not 101" in refused(capsys, "data policy --per-day 101", 2)
    policy = ask_json(capsys, "data policy --automatic on --disaster on --per-day 2 --replan 5m")["policy"]
    assert {
        "is_automatic": True,
        "day_permille": 20,
        "day_bytes_min": 10**12,
        "extra_permille": 1250,
        "has_disaster_copies": True,
        "replan_seconds": 300,
    } == policy
    assert "there is no plan yet" in ask(capsys, "data plan")
    assert [] == ask_json(capsys, "data copies")["orders"]
    assert ask(capsys, "data copies -w").startswith("COPY")

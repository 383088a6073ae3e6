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
    assert ["clicks", "-", "-", "1"] == line
    assert ["clicks", "r1", "r1", "1"] == ask(capsys, "data place clicks r1 --home r1").split()[4:]
    plane.until(workload, Phase.COMPLETED)
    (shown,) = ask_json(capsys, f"show {workload}")["attempts"]
    assert "r1" == shown["region"]
    assert "  reads         clicks\n" in ask(capsys, f"show {workload}")
    assert ["clicks", "-", "-", "0"] == ask(capsys, "data drop clicks").splitlines()[1].split()
    (row,) = [row for row in ask_json(capsys, "data") if row["dataset"] == "clicks"]
    assert (2, [], None) == (row["revision"], row["regions"], row["home"])

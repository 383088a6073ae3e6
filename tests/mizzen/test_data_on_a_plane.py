"""An operator says where data is on a plane that runs, by the commands, as they are typed."""

import pytest

from core.nouns.workload import Phase
from tests.mizzen.asking import Captured, ask, ask_json, refused
from tests.mizzen.running import RunningPlane
from tests.worlds.plane import work

pytestmark = pytest.mark.processes


def test_data_is_placed_listed_and_waited_for(plane: RunningPlane, capsys: Captured) -> None:
    """Work that reads what is nowhere waits with that reason, and runs where it is once it is somewhere."""
    assert "name the regions that hold clicks" in refused(capsys, "data place clicks", 2)
    assert "regions: mars is not in the fleet" in refused(capsys, "data place clicks mars")
    assert "home: it is none of the regions that hold it" in refused(
        capsys, "data place clicks r0 --home r1", 2
    )
    workload = plane.submit(work("reads", milliseconds=10, data=["clicks"]))
    assert f"{workload} waits" in ask(capsys, f"explain {workload}")
    assert ask(capsys, f"explain {workload}").count("it lacks clicks") == 2
    (line,) = [line.split() for line in ask(capsys, "data").splitlines() if line.startswith("clicks")]
    assert ["clicks", "-", "-", "1"] == line
    said = ask(capsys, "data place clicks r1 --home r1").splitlines()
    assert ["clicks", "r1", "r1", "1"] == said[1].split()
    plane.until(workload, Phase.COMPLETED)
    (shown,) = ask_json(capsys, f"show {workload}")["attempts"]
    assert "r1" == shown["region"]
    assert "  reads         clicks\n" in ask(capsys, f"show {workload}")
    assert ["clicks", "-", "-", "0"] == ask(capsys, "data drop clicks").splitlines()[1].split()
    (row,) = [row for row in ask_json(capsys, "data") if row["dataset"] == "clicks"]
    assert (2, [], None) == (row["revision"], row["regions"], row["home"])

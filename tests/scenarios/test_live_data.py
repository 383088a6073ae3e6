"""Datasets that jobs of a run waited for: their files, who serves them, and what the log and the program tell of them."""

from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from core.events.copies import CopyMade, CopyOrdered
from core.events.queue import WorkloadBound, WorkloadSubmitted
from core.fact import Fact
from core.nouns.ids import GLOBAL_LOG, DatasetName, RegionName, WorkloadId
from core.nouns.instant import SECOND, Instant
from runtime.plane import FLEET_FILE
from scenarios.play.live_data import DataRead, data_read, lines_of_data
from scenarios.play.live_gangs import GangLook
from scenarios.play.processes import make_run_directory
from scenarios.scenario import ScenarioError, ScenarioSpec, parse_scenario, scenario_written
from tests.builders import a_spec

HERE, WEST = RegionName("here"), RegionName("west")
CORPUS = DatasetName("corpus")
W1, W2 = WorkloadId("w-1"), WorkloadId("w-2")
MADE = DataRead("charlm", W1, CORPUS, WEST, HERE, 4_000_000, 2.0, 3.0, 3.5, 4_000_000, 4.5, 2.5)
TEXT = """
name: kept
survives: What is kept as files.
fleet:
  regions:
    east: {nodes: 2, gpu_type: H100}
    west: {nodes: 2, gpu_type: H100}
    here: {this_machine: true}
  data: {directories: [west, here], datasets: {corpus: {home: west, gb: 0.0025}}}
workload: {steady: {workloads: 1, hours: 1}}
"""


def kept(old: str = "", new: str = "") -> ScenarioSpec:
    """Return the scenario of `TEXT`, with a part of the text replaced."""
    return parse_scenario(TEXT.replace(old, new) if old else TEXT, "kept.yaml")


def look(*lines: str) -> GangLook:
    """Return what a program told."""
    found = GangLook("charlm")
    found.take(1, "".join(f"{line}\n" for line in lines).encode())
    return found


def facts(*told: tuple[float, WorkloadSubmitted | WorkloadBound | CopyOrdered | CopyMade]) -> list[Fact]:
    """Return these as facts of the queue's log, each at its second."""
    return [
        Fact(GLOBAL_LOG, number, Instant(round(at * SECOND)), "", "", event)
        for number, (at, event) in enumerate(told, start=1)
    ]


def test_job_that_waited_for_a_copy() -> None:
    """Of the copy that was made, and not of one that was ordered before and failed; another job has no part in it."""
    ordered = CopyOrdered(1, CORPUS, WEST, HERE, 4_000_000, 2_000_000)
    spec = replace(a_spec(), data=(CORPUS,))
    told = facts(
        (10, WorkloadSubmitted(W1, 1, spec, "user")),
        (10.5, WorkloadSubmitted(W2, 2, spec, "user")),
        (10.7, ordered),
        (11, replace(ordered, copy=2)),
        (13, CopyMade(2, CORPUS, HERE, 2)),
        (13.2, WorkloadBound(W2, 1, HERE, 1)),
        (13.5, WorkloadBound(W1, 1, HERE, 2)),
        (19, WorkloadBound(W1, 2, HERE, 3)),
    )
    program = look("data corpus: 4000000 bytes", "step 1 loss 4.5", "step 20 loss 2.5")
    assert [MADE] == data_read(told, {W1: (program, (CORPUS,))})
    assert "" == MADE.problem
    line = (
        "corpus, 4.0 MB, copied from west to here in 2.0 s and verified 3.0 s after charlm asked for it; it began 0.5 s later, "
        "4.0 MB read, loss 4.500 → 2.500"
    )
    assert [("data (w-1)", line)] == lines_of_data([MADE])


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (DataRead("charlm", W1, CORPUS), "no copy of it was made"),
        (replace(MADE, began_seconds=0.0), "the job did not run"),
        (replace(MADE, began_seconds=2.9), "the job did not wait for the copy"),
        (replace(MADE, read_bytes=0), "4000000 bytes of it were copied, and 0 read"),
        (replace(MADE, loss_last=4.5), "the loss on it did not fall: 4.5 → 4.5"),
    ],
)
def test_job_that_did_not_get_its_data(row: DataRead, problem: str) -> None:
    """Each is a problem of the run."""
    assert problem == row.problem


def test_nothing_is_told_of_a_job_that_has_not_begun() -> None:
    """Nor of a copy that is under way."""
    ordered = CopyOrdered(1, CORPUS, WEST, HERE, 4_000_000, 2_000_000)
    told = facts((10, WorkloadSubmitted(W1, 1, a_spec(), "user")), (11, ordered))
    (row,) = data_read(told, {W1: (look(), (CORPUS,))})
    assert DataRead("charlm", W1, CORPUS) == row
    assert [] == lines_of_data([row])


def test_run_has_the_files_of_its_datasets(tmp_path: Path) -> None:
    """Where the dataset is at home, in files of a megabyte; other regions that keep files have empty directories."""
    run = make_run_directory(tmp_path, kept())
    regions = yaml.safe_load((run / FLEET_FILE).read_text())["regions"]
    directories = {name: region["data"] for name, region in regions.items() if region["data"]}
    assert {name: str(run / "data" / name) for name in ("west", "here")} == {
        name: data["directory"] for name, data in directories.items()
    }
    parts = sorted((run / "data" / "west" / "corpus").iterdir())
    assert ["part-0000.txt", "part-0001.txt", "part-0002.txt"] == [path.name for path in parts]
    assert [1_000_000, 1_000_000, 500_000] == [path.stat().st_size for path in parts]
    assert [] == list((run / "data" / "here").iterdir())


def test_regions_with_directories_alone_have_data_services() -> None:
    """Where none is named, all have."""
    assert (WEST, HERE) == kept().plan.data_services()
    assert ("east", "west", "here") == kept("directories: [west, here], ", "").plan.data_services()
    assert kept() == parse_scenario(scenario_written(kept()), "again.yaml")


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("[west, here]", "[west, there]", "there"),
        ("home: west", "home: east", "there is no regions with data `east`"),
    ],
)
def test_data_in_a_region_without_data(old: str, new: str, problem: str) -> None:
    """It is refused, with the name."""
    with pytest.raises(ScenarioError, match=problem):
        kept(old, new)

"""The check of copies tells of each that is not whole on its disk, and of those under way that do not end."""

from collections.abc import Iterator

import pytest

from core.events.copies import CopyMade, DropMade
from core.fact import Event
from core.images.copies import CopyRow
from core.images.datasets import DatasetRow
from core.nouns.ids import DatasetName, RegionName, WorkloadId
from runtime.virtual_loop import VirtualLoop
from scenarios.checks.copies_whole import CopiesWhole
from scenarios.play.run import Run
from scenarios.play.simulated import simulated_run
from scenarios.scenario import parse_scenario
from scenarios.worlds.simulated.world import START, SimulatedWorld
from tests.builders import a_fact
from tests.scenarios.runs import run_quietly

CLICKS, R0, R1 = DatasetName("clicks"), RegionName("r0"), RegionName("r1")
MOVING = """
name: moving
survives: Plans move a dataset, and operators say of it where it is meanwhile.
fleet: {regions: 2, nodes: 2, workers: 2, data: {link_mb_per_second: 40, datasets: {clicks: {home: r0, gb: 0.2}}}}
workload: {steady: {workloads: 12, hours: 0.1, minutes_median: 1, minutes_max: 2, gpus_max: 8, data: [clicks]}}
faults:
  - data_plan: {share: 1, times: 12}
  - dataset_set: {dataset: clicks, times: 6, for_seconds: [1, 20]}
  - crash: {role: data_service, times: 3}
calm: {minutes: 240}
"""


@pytest.fixture
def run() -> Iterator[Run]:
    """A run with two regions that has not begun; the dataset has the hash `right`."""
    loop = VirtualLoop(START)
    found = simulated_run(parse_scenario(MOVING, "moving.yaml"), 1, loop)
    found.witness.queue.datasets.rows[CLICKS] = DatasetRow((R0,), R0, 1, 10, hash="right")
    yield found
    loop.cancel_all()
    loop.close()


def told(run: Run, *events: Event) -> list[str]:
    """What the check finds when these facts become durable."""
    CopiesWhole().begin(run)
    watch = run.witness.watchers[-1]
    for event in events:
        watch(a_fact(event))
    return run.outcome.problems


def put(run: Run, region: RegionName, digest: str) -> None:
    """The dataset is on a region's disk."""
    assert isinstance(run.world, SimulatedWorld), run.world
    run.world.data.put(region, CLICKS, 10, digest)


def test_copy_that_is_whole_is_no_problem(run: Run) -> None:
    """Nor is one that is deleted and gone."""
    put(run, R1, "right")
    assert [] == told(run, CopyMade(1, CLICKS, R1, 2), DropMade(CLICKS, R0))


def test_copy_that_is_not_there(run: Run) -> None:
    """It counts for awards, and the disk has nothing."""
    assert ["copy 1 of clicks is made, and r1 does not have it"] == told(run, CopyMade(1, CLICKS, R1, 2))


def test_copy_of_other_content(run: Run) -> None:
    """It was not verified."""
    put(run, R1, "wrong")
    found = told(run, CopyMade(1, CLICKS, R1, 2))
    assert ["copy 1 of clicks is made, and has another hash in r1"] == found


def test_deleted_copy_that_is_still_there(run: Run) -> None:
    """Its bytes count for the region's storage no more."""
    put(run, R1, "right")
    assert ["the copy of clicks in r1 is deleted, and is still there"] == told(run, DropMade(CLICKS, R1))


def test_copies_and_deletions_that_do_not_end(run: Run) -> None:
    """They are waited for as long as the slowest may take, and named then."""
    copies = run.witness.queue.copies
    copies.orders[3] = CopyRow(CLICKS, R0, R1, 1000, 10, "right", False, WorkloadId(""), 0, 0, 0)
    copies.drops[CLICKS] = {R0: True}
    assert isinstance(run.world, SimulatedWorld), run.world
    begun = run.world.now()
    found = run.world.loop.run_until_complete(CopiesWhole().in_calm(run))
    assert ["copy 3 of clicks to r1 does not end", "the copy of clicks in r0 is still being deleted"] == found
    assert 200 < run.world.now() - begun < 400


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_plans_and_operators_may_contradict_each_other(seed: int) -> None:
    """A region whose copy is being deleted is not named until the deletion is over; no copy is lost, and all work ends."""
    outcome = run_quietly(parse_scenario(MOVING, "moving.yaml"), seed)
    assert "" == outcome.first_problem()
    assert (3, 6) == (outcome.strikes["crash"], outcome.strikes["dataset_set"])
    assert outcome.strikes["data_plan"] > 2, "there is none while the dataset is nowhere"

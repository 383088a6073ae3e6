"""Pods that end, gangs and several regions: what the benchmark says is held is what the regions' stores hold."""

from pathlib import Path

import pytest

from bench.packing_live import STEPS, Life, Step
from bench.support.packing.openb import nodes_in, pods_in
from bench.support.packing.run import Order
from bench.support.packing.small import small_lists


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Of nodes and of pods, drawn."""
    nodes, (pods,) = small_lists(tmp_path_factory.mktemp("lists"))
    return nodes, pods


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_held_gpus_equal_those_in_the_stores(lists: tuple[Path, Path], step: Step) -> None:
    """An ended workload holds nothing, and every region knows its own."""
    life = Life(nodes_in(lists[0]), pods_in(lists[1]), Order("bestfit", "", 42), step)
    found = life.lived()
    capacities = [region.store_state.image.capacity for region in life.regions]
    assert step.regions == len(capacities)
    assert life.held == life.gpu_milli - sum(sum(capacity.gpu.free) for capacity in capacities)
    live = [held.claim for capacity in capacities for _, _, held in capacity.live()]
    assert step.has_gangs == any(claim.jobs[0].tasks > 1 for claim in live)
    assert all(claim.jobs[0].tasks == sum(claim.spreads[0].tasks) for claim in live)
    assert 70 < found <= 100
    assert life.wanted > 0.8 * life.gpu_milli


def test_same_seed_lives_the_same(lists: tuple[Path, Path]) -> None:
    """Also who comes as a gang."""
    once, again, other = (
        Life(nodes_in(lists[0]), pods_in(lists[1]), Order("bestfit", "", seed), STEPS[2]).lived()
        for seed in (42, 42, 43)
    )
    assert once == again != other

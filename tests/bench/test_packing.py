"""The packing benchmark: lists are read and offered as published, through an agent and a store, and the figures are what was done."""

import gzip
import json
from copy import deepcopy
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.packing import findings_of
from bench.support.packing.openb import (
    FOLDER,
    NODES_FILE,
    BadList,
    Counted,
    Pod,
    job_of,
    name_of,
    nodes_in,
    offered,
    pods_in,
    published_in,
)
from bench.support.packing.page import kept_in, table_of
from bench.support.packing.prices import Learner, solver
from bench.support.packing.region import PackingRegion
from bench.support.packing.run import Order, Packed, packed_all, packed_files, seeds_of
from bench.support.packing.small import NODES, PODS, small_lists
from core.nouns.ids import WorkloadId
from core.nouns.mix import WEIGHT
from core.nouns.placement import Spread
from core.nouns.quantities import Amount
from core.placing.diagnosis.replay_choice import Outcome, retraced
from core.pricing.shapes import mix_of

MIB = 1 << 20
POD = Pod("p", Amount(500, 1_000, MIB))


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Of nodes and of pods, drawn."""
    nodes, (pods,) = small_lists(tmp_path_factory.mktemp("lists"))
    return nodes, pods


# Reading.


def test_lists_are_read_by_name(tmp_path: Path) -> None:
    """Whatever their order, compressed or not; a part of a device only of a pod of one."""
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "openb_pod_list_mine.csv.gz"
    nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\nb,2000,8,2,T4\na,1000,4,1,G2\n")
    with gzip.open(pods, "wt") as file:
        file.write(
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,x\n"
            "p2,100,1,2,1000,,LS,Running,5,9,5\np1,200,2,1,460,V100|T4,BE,Running,,,\np0,300,3,0,0,,BE,Running,1,,\n"
        )
    assert [("G2", Amount(1_000, 1_000, 4 * MIB)), ("T4", Amount(2_000, 2_000, 8 * MIB))] == [
        (node.model, node.total) for node in nodes_in(nodes)
    ]
    assert (
        Pod("p0", Amount(0, 300, 3 * MIB), (), 1, 0),
        Pod("p1", Amount(460, 200, 2 * MIB), ("T4", "V100")),
        Pod("p2", Amount(2_000, 100, MIB), (), 5, 9),
    ) == pods_in(pods)
    assert ["any", "T4"] == [job_of(pod).gpu_type for pod in pods_in(pods)[:2]]
    assert ("V100",) == job_of(pods_in(pods)[1]).or_types
    assert "mine" == name_of(pods)


@pytest.mark.parametrize("text", ["", "name,cpu_milli\n"])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    """With their name; also one that is not there."""
    path = tmp_path / "pods.csv"
    path.write_text(text)
    with pytest.raises(BadList, match="its columns are not"):
        pods_in(path)
    with pytest.raises(BadList, match="it cannot be read"):
        pods_in(tmp_path / "absent.csv")


def test_pods_are_offered_as_published(lists: tuple[Path, Path]) -> None:
    """Each of the list once, in an order of the seed's; then others of them, until one more would pass 1.3 of all GPUs."""
    pods = pods_in(lists[1])
    gpu_milli = sum(node.total.gpu_milli for node in nodes_in(lists[0]))
    found = offered(pods, gpu_milli, 42)
    assert sorted(found[:PODS], key=lambda pod: pod.name) == [*pods]
    assert found == offered(pods, gpu_milli, 42) != offered(pods, gpu_milli, 43)
    total = sum(pod.need.gpu_milli for pod in found)
    assert 1.3 * gpu_milli - 8_000 < total <= 1.3 * gpu_milli


def test_typical_shapes_are_the_most_frequent() -> None:
    """95 % of the pods, memory apart, and their weights come to one again."""
    often = [Pod(f"a{number}", Amount(500, 1_000, number * MIB)) for number in range(19)]
    seldom = [Pod("b", Amount(2_000, 1_000, MIB), ("T4",))]
    (shape,) = mix_of(Counted([*often, *seldom]).counts).shapes
    assert (0, 500, 1_000, 9 * MIB, WEIGHT) == (
        shape.gpus,
        shape.part_milli,
        shape.cpu_milli,
        shape.memory_bytes,
        shape.weight,
    )


def test_seeds_are_told_as_a_range_or_by_comma() -> None:
    """Both ends are of it."""
    assert [42, 43, 44] == seeds_of("42..44")
    assert [42, 45] == seeds_of("42,45")


# Offering.


def test_award_is_granted_where_the_agent_found_capacity_and_both_know(lists: tuple[Path, Path]) -> None:
    """An award is declined once there is no capacity; an end frees it again."""
    node = nodes_in(lists[0])[1]
    region = PackingRegion("east", [node], "fgd")
    whole = (job_of(Pod("p", Amount(node.total.gpu_milli, 1_000, MIB))),)
    first, second, third = map(WorkloadId, ("w-1", "w-2", "w-3"))
    assert (Spread((0,), (1,)),) == region.place(first, whole)
    assert () == region.place(second, whole)
    assert 0 == region.store_state.image.capacity.gpu.free[0]
    assert 0 == region.agent_state.placer.pools.available(0).gpu_milli
    region.end(first)
    assert (Spread((0,), (1,)),) == region.place(third, whole)
    assert 3 == len(region.spans)


@pytest.mark.parametrize("rules", ["fgd", "best_fit_published", "default"])
def test_choices_come_out_the_same_again(lists: tuple[Path, Path], rules: str) -> None:
    """P27: from the log at their views, by the rules and the mix that there were."""
    nodes, pods = nodes_in(lists[0]), pods_in(lists[1])
    region = PackingRegion("east", nodes, rules)
    region.set_mix(mix_of(Counted(pods).counts))
    for number, pod in enumerate(offered(pods, region.gpu_milli, 42)[:60]):
        image = deepcopy(region.agent_state.image) if number % 6 == 0 else None
        workload = WorkloadId(f"p-{number}")
        if region.place(workload, (job_of(pod),)) and image is not None:
            held = region.store_state.image.capacity.holding(workload, 1)
            assert held is not None
            assert Outcome.EQUAL is retraced(image, held.claim).outcome


def test_run_counts_placed_workloads(lists: tuple[Path, Path]) -> None:
    """While there is capacity for all nearly all is placed, and in the end most."""
    found = packed_files(*lists, Order("bestfit", "", 42))
    last = max(found.allocated)
    assert 100 == last
    assert 85 < found.allocated[last] < 100
    assert found.gpu_pods > 10 * found.gpu_pods_dropped > 0
    assert found.allocated[50] == pytest.approx(50, abs=3)


def test_same_seed_packs_the_same(lists: tuple[Path, Path]) -> None:
    """Times apart; and ties that are drawn pack otherwise than those by name."""
    once, again, drawn_ties = (
        packed_files(*lists, Order("fgd", ties, 43)).allocated for ties in ("", "name", "random")
    )
    assert once == again != drawn_ties


def test_default_learns_from_submissions_alone(lists: tuple[Path, Path]) -> None:
    """Prices are set after a hundred submissions, and after three hundred."""
    if solver() is None:
        pytest.skip("no solver is installed")
    nodes = nodes_in(lists[0])
    region = PackingRegion("east", nodes, "default")
    learner = Learner([region])
    for number in range(300):
        learner.submitted(WorkloadId(f"p-{number}"), (job_of(POD),))
        prices = region.agent_state.image.prices.prices
        assert (number >= 99) + (number >= 299) == prices.revision
        assert bool(prices.revision) == bool(prices)


# Telling.


def run_of(name: str, rules: str, at_100: float, seed: int = 42, dropped: int = 0) -> Packed:
    """One that was made up."""
    allocated = {percent: min(percent, at_100) for percent in range(80, 101)} | {100: at_100}
    return Packed(name, rules, "", seed, 100, allocated, 100, dropped, 900, 9, 100.0, 300.0, 150.0)


def test_bars_are_judged_by_published_results() -> None:
    """A bar is judged only where both sides are there."""
    runs = [
        run_of("default", "fgd", 95.0),
        run_of("cpu250", "fgd", 91.0),
        run_of("default", "default", 96.5, dropped=6),
        run_of("cpu250", "default", 93.0),
    ]
    published = {("default", "fgd"): [95.2, 95.4], ("cpu250", "fgd"): [93.2]}
    found = findings_of(runs, published, is_named=False)
    assert [
        ("fgd_default", 95.0, True, "within"),
        ("fgd_lists_within_half_a_point", 1, True, "at_least"),
        ("mean_gain_over_published_fgd", pytest.approx(0.5), False, "at_least"),
        ("worst_list_gain", pytest.approx(-0.2), False, "at_least"),
        ("default_cpu_pods_dropped_percent_max", 6, False, "at_most"),
        ("decision_p50_us", 100, True, "at_most"),
    ] == [(bar.name, bar.value, bar.met, bar.sense) for bar in found.bars]
    assert all(bool(bar.limited_by) != bar.met for bar in found.bars)
    assert {"fgd_default", "fgd_cpu250"} == {yardstick.name for yardstick in found.yardsticks}


def test_figure_has_the_name_that_is_asked_for() -> None:
    """Of one list by one rule set; of several, each with theirs."""
    one = findings_of([run_of("a", "fgd", 95.0), run_of("a", "fgd", 96.0, 43)], {}, is_named=True)
    assert 95.5 == one.figures["allocated_percent_at_100"]
    two = findings_of([run_of("a", "fgd", 95.0), run_of("b", "fgd", 96.0)], {}, is_named=True)
    assert 96.0 == two.figures["allocated_percent_at_100_fgd_b"]


def test_command_takes_files_and_keeps_its_runs(
    lists: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command is given as people type it; a kept run is not repeated."""
    nodes, pods = lists
    keep = tmp_path / "runs.json"
    words = [
        "packing",
        "--json",
        "--nodes",
        str(nodes),
        "--pods",
        str(pods),
        "--rules",
        "bestfit",
        "--ties",
        "random",
    ]
    assert 0 == main([*words, "--seeds", "42,43", "--processes", "1", "--keep", str(keep)])
    figures = json.loads(capsys.readouterr().out)["figures"]
    runs = kept_in(keep)
    assert [(42, "random"), (43, "random")] == [(one.seed, one.ties) for one in runs]
    assert figures["allocated_percent_at_100"] == pytest.approx(sum(one.at_100 for one in runs) / 2, abs=0.01)
    orders = [(pods, Order("bestfit", "random", 42))]
    assert packed_all(nodes, orders, runs, 1) == runs[:1]


def test_table_is_made_of_runs() -> None:
    """Of each list a line, with standard deviations where there are several seeds."""
    runs = [run_of("default", "fgd", 95.0), run_of("default", "fgd", 96.0, 43), run_of("a", "fgd", 90.0)]
    lines = table_of(runs, FOLDER / "absent").splitlines()
    assert ["| default | 95.50 (0.71) |  |", "| a | 90.00 |  |"] == lines[2:]


def test_small_lists_are_of_every_sort(lists: tuple[Path, Path]) -> None:
    """Parts, several devices, none, and some that name a model."""
    assert NODES == len(nodes_in(lists[0]))
    pods = pods_in(lists[1])
    wanted = {pod.need.gpu_milli for pod in pods}
    assert {0, 250, 500, 1_000, 2_000, 4_000, 8_000} == wanted
    assert any(pod.models for pod in pods)


@pytest.mark.skipif(not (FOLDER / NODES_FILE).is_file(), reason="the trace is not here")
def test_published_results_are_read() -> None:
    """There are ten seeds of each list and policy."""
    published = published_in(FOLDER)
    assert 10 == len(published["default", "fgd"])
    assert 95.23 == pytest.approx(sum(published["default", "fgd"]) / 10, abs=0.005)

"""The fleet file: what it says is the plan, and what it leaves out has a default."""

from pathlib import Path

import pytest

from runtime.fleet_file import FleetFileError, load_plan, plan_of_this_machine
from runtime.wiring import DataPlan, Unit, units_of

FLEET = """
fleet: lab
regions:
  eu: {nodes: 5, gpu_type: H100, workers: 2, agents: 3, nodes_per_rack: 2}
  us: {nodes: 1, gpu_type: A100, gpus_per_node: 4}
"""


def test_file_names_the_workers_and_their_nodes(tmp_path: Path) -> None:
    """Nodes are cut among workers, and every one of a region is of its type."""
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET)
    plan = load_plan(path)
    assert ("lab", ("eu", "us")) == (plan.fleet, plan.region_names())
    eu, us = plan.regions
    assert (3, 2) == (eu.agents, us.agents)
    assert {"w0": [0, 1, 2], "w1": [3, 4]} == {one.worker: one.numbers() for one in eu.inventories}
    assert {"w0": [0]} == {one.worker: one.numbers() for one in us.inventories}
    groups = [group for region in plan.regions for one in region.inventories for group in one.groups]
    assert [("H100", 8000), ("H100", 8000), ("A100", 4000)] == [
        (group.gpu_type, group.total.gpu_milli) for group in groups
    ]
    assert 2 == groups[0].nodes_per_rack


def test_workers_are_cut_among_zones(tmp_path: Path) -> None:
    """Zone by zone with all their racks; a zone without a worker would be none."""
    path = tmp_path / "fleet.yaml"
    path.write_text("regions: {eu: {nodes: 10, gpu_type: H100, workers: 5, nodes_per_rack: 1, zones: 2}}")
    (eu,) = load_plan(path).regions
    groups = [group for one in eu.inventories for group in one.groups]
    assert ["zone-0"] * 3 + ["zone-1"] * 2 == [group.zone for group in groups]
    racks = [{group.rack_of(node) for node in group.numbers()} for group in groups]
    assert 10 == len(set.union(*racks)) == sum(len(one) for one in racks)
    path.write_text("regions: {eu: {nodes: 10, gpu_type: H100, workers: 1, zones: 2}}")
    with pytest.raises(FleetFileError, match=r"its 2 `zones` need a worker each, .* - at `\$\.regions\.eu`"):
        load_plan(path)


def test_power_domains_are_no_zones(tmp_path: Path) -> None:
    """Workers are dealt out to power domains zone by zone, so that a domain reaches into every zone, with all its nodes."""
    path = tmp_path / "fleet.yaml"
    path.write_text("regions: {eu: {nodes: 14, gpu_type: H100, workers: 7, zones: 2, power_domains: 3}}")
    (eu,) = load_plan(path).regions
    groups = [group for one in eu.inventories for group in one.groups]
    assert [
        ("zone-0", "power-0"),
        ("zone-0", "power-1"),
        ("zone-0", "power-2"),
        ("zone-0", "power-0"),
        ("zone-1", "power-0"),
        ("zone-1", "power-1"),
        ("zone-1", "power-2"),
    ] == [(group.zone, group.power_domain) for group in groups]
    path.write_text("regions: {eu: {nodes: 14, gpu_type: H100, workers: 7, zones: 2}}")
    (eu,) = load_plan(path).regions
    assert {""} == {group.power_domain for one in eu.inventories for group in one.groups}


def test_power_domain_without_a_worker_is_refused(tmp_path: Path) -> None:
    """One that feeds nothing in any zone would be none: the largest zone has as many workers as there can be domains."""
    path = tmp_path / "fleet.yaml"
    path.write_text("regions: {eu: {nodes: 14, gpu_type: H100, workers: 7, zones: 2, power_domains: 4}}")
    domains = {group.power_domain for one in load_plan(path).regions[0].inventories for group in one.groups}
    assert {"power-0", "power-1", "power-2", "power-3"} == domains
    path.write_text("regions: {eu: {nodes: 14, gpu_type: H100, workers: 7, zones: 2, power_domains: 5}}")
    with pytest.raises(
        FleetFileError, match=r"its 5 `power_domains` .* has 4 at most - at `\$\.regions\.eu`"
    ):
        load_plan(path)
    path.write_text("regions: {eu: {nodes: 14, gpu_type: H100, power_domains: -1}}")
    with pytest.raises(FleetFileError, match="power_domains"):
        load_plan(path)


def test_worker_with_more_nodes_than_it_may_serve_is_refused(tmp_path: Path) -> None:
    """Before anything starts, with how many workers it takes; so many are enough."""
    path = tmp_path / "fleet.yaml"
    path.write_text("regions: {eu: {nodes: 100001, gpu_type: H100, workers: 2}}")
    with pytest.raises(
        FleetFileError, match=r"100001 `nodes` need 3 `workers`: one serves 50000 at most.*eu"
    ):
        load_plan(path)
    path.write_text("regions: {eu: {nodes: 100001, gpu_type: H100, workers: 3}}")
    assert 3 == len(load_plan(path).regions[0].inventories)


def test_nodes_belong_to_the_pool_that_the_file_names(tmp_path: Path) -> None:
    """All of a region's nodes, emulated or not; to `training`, if it names none. A name is part of a subject."""
    path = tmp_path / "fleet.yaml"
    path.write_text(
        "regions:\n"
        "  eu: {nodes: 2, gpu_type: H100}\n"
        "  us: {nodes: 2, gpu_type: H100, pool: service}\n"
        "  here: {this_machine: true, pool: shared, power_domains: 1}\n"
    )
    groups = {
        region.region: group
        for region in load_plan(path).regions
        for one in region.inventories
        for group in one.groups
    }
    assert {"eu": "training", "us": "service", "here": "shared"} == {
        region: group.pool for region, group in groups.items()
    }
    assert ("power-0", True) == (groups["here"].power_domain, groups["here"].runs_programs)  # type: ignore[index]
    path.write_text("regions: {eu: {nodes: 2, gpu_type: H100, pool: 'a b'}}")
    with pytest.raises(FleetFileError, match="pool"):
        load_plan(path)


def test_without_a_file_it_is_this_machine() -> None:
    """One region, `here`, with eight slots of type `cpu` under one worker, and two agents."""
    plan = plan_of_this_machine()
    assert ("mizzen", ("here",)) == (plan.fleet, plan.region_names())
    (inventory,) = plan.regions[0].inventories
    (group,) = inventory.groups
    assert ("w0", "cpu", 1, True) == (inventory.worker, group.gpu_type, group.count, group.runs_programs)
    assert 8000 == group.total.gpu_milli
    assert min(group.total.cpu_milli, group.total.memory_bytes) > 0
    agents = [unit for unit in units_of(plan) if unit.role == "allocation_agent"]
    assert [Unit("allocation_agent", plan.regions[0].region, name) for name in ("a0", "a1")] == agents


def test_region_keeps_data_as_the_file_says(tmp_path: Path) -> None:
    """In a directory, by a command or Mizzen's own program; emulated; or not at all, and then there is no data service."""
    path = tmp_path / "fleet.yaml"
    path.write_text(
        f"""
regions:
  eu: {{nodes: 1, gpu_type: H100, data: {{directory: {tmp_path}, copy: "rsync -a {{source}} {{target}}"}}}}
  us: {{nodes: 1, gpu_type: H100, data: true}}
  asia: {{nodes: 1, gpu_type: H100}}
"""
    )
    plan = load_plan(path)
    assert [DataPlan(str(tmp_path), "rsync -a {source} {target}"), DataPlan(), None] == [
        region.data for region in plan.regions
    ]
    assert ["eu", "us"] == [unit.region for unit in units_of(plan) if unit.role == "data_service"]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("{directory: datasets}", "its `directory` datasets is no absolute path"),
        ("{directory: /d, copy: 'cp {source}'}", "does not say where {target} go"),
        ("{directory: /d, copy: 'cp {source} {target} \"'}", "cannot be read as a command"),
        ("{directory: /d, rate: 5}", "unknown field"),
    ],
)
def test_data_that_cannot_be_kept_is_refused(tmp_path: Path, data: str, problem: str) -> None:
    """Before anything starts."""
    path = tmp_path / "fleet.yaml"
    path.write_text(f"regions: {{eu: {{nodes: 1, gpu_type: H100, data: {data}}}}}")
    with pytest.raises(FleetFileError) as refused:
        load_plan(path)
    assert problem in str(refused.value)

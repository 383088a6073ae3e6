"""The fleets that come with Mizzen: each can be planned, and is what its name says."""

import pytest

from scenarios.schema.fleet import fleets, plan_of, read_fleet, regions_of
from scenarios.schema.parts import FieldErrors
from scenarios.workloads.steady import Steady


@pytest.mark.parametrize("name", fleets())
def test_fleet_can_be_planned(name: str) -> None:
    """Every node has a number of its own, no rack lies in two zones, and every load of theirs fits."""
    spec = read_fleet(name, ("fleet",))
    plan = plan_of(spec, name)
    wanted = {region: one.nodes for region, one in regions_of(spec).items()}
    zone_of: dict[tuple[str, int], str] = {}
    found: dict[str, int] = {}
    for region in plan.regions:
        numbers = [number for one in region.inventories for number in one.numbers()]
        assert list(range(len(numbers))) == numbers
        found[region.region] = len(numbers)
        for group in (group for one in region.inventories for group in one.groups):
            for node in group.numbers():
                rack = (region.region, group.rack_of(node))
                assert group.zone == zone_of.setdefault(rack, group.zone)
    assert wanted == found
    assert Steady(workloads=1, hours=1).problem(spec, ()) is None


def test_fleets_have_the_nodes_of_their_names() -> None:
    """Counts that scenarios and people rely on."""
    specs = {name: regions_of(read_fleet(name, ())) for name in fleets()}
    nodes = {name: [region.nodes for region in regions.values()] for name, regions in specs.items()}
    assert [1] == nodes["one_node"]
    assert [8] == nodes["small"]
    assert 2 == len(nodes["two_regions"])
    assert [300] * 3 == nodes["three_regions"]
    assert [250] * 4 == nodes["thousand"]
    assert 10 == len(nodes["planet"]) == len(set(nodes["planet"]))
    assert {"H100", "A100"} == {region.gpu_type for region in specs["mixed"].values()}
    assert all(region.workers == region.nodes for region in specs["single_node_workers"].values())
    for region in specs["racks"].values():
        assert region.nodes == region.workers * region.nodes_per_rack


def test_switchboards_feed_parts_of_every_zone() -> None:
    """Each power domain has a worker in every zone of its region and none has a zone whole; a rack hangs on one of them."""
    plan = plan_of(read_fleet("switchboards", ("fleet",)), "fleet")
    for region in plan.regions:
        groups = [group for one in region.inventories for group in one.groups]
        places = {(group.zone, group.power_domain) for group in groups}
        assert {
            (zone, power) for zone in ("zone-0", "zone-1") for power in ("power-0", "power-1", "power-2")
        } == places
        power_of: dict[int, str] = {}
        for group in groups:
            for node in group.numbers():
                rack = group.rack_of(node)
                assert group.power_domain == power_of.setdefault(rack, group.power_domain)


def test_machines_without_gpus_are_cut_among_the_workers() -> None:
    """With numbers and racks of their own behind all others, of the type `cpu`; who has none has none."""
    region = {"nodes": 7, "gpu_type": "H100", "workers": 3, "nodes_per_rack": 2, "cpu_nodes": 5}
    plan = plan_of(read_fleet({"regions": {"eu": region}}, ("fleet",)), "fleet")
    groups = [group for one in plan.regions[0].inventories for group in one.groups]
    machines = [group for group in groups if group.gpu_type == "cpu"]
    assert [2, 2, 1] == [group.count for group in machines]
    assert {0} == {group.total.gpu_milli for group in machines}
    numbers = [number for group in groups for number in group.numbers()]
    assert list(range(12)) == sorted(numbers)
    racks = [(group.gpu_type, group.rack_of(node)) for group in groups for node in group.numbers()]
    assert len({rack for _, rack in racks}) == len(set(racks)), "no rack has both"
    with pytest.raises(FieldErrors, match="this_machine"):
        read_fleet({"regions": {"here": {"this_machine": True, "cpu_nodes": 1}}}, ("fleet",))

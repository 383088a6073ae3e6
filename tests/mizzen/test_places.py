"""Nodes as operators name them: what is meant, and everything that is wrong with it."""

import pytest

from core.events.region import NodesLost
from core.images import RegionImage
from core.nouns.ids import RegionName, WorkerName
from core.nouns.maintenance import Scope, ScopeKind
from core.nouns.placement import numbers_in
from core.rules.scopes import nodes_in
from mizzen.actions.node_scopes import BadPlace, problems_of, region_of, scope_of
from mizzen.terminal.node_options import ANYWHERE, PlaceOptions
from mizzen.terminal.output import CommandError
from tests.builders import EU, folded
from tests.mizzen.nodes_scene import nodes

CAPACITY = folded(
    RegionImage.empty(),
    [
        nodes("w0", 0, power="power-0"),
        nodes("w1", 4, power="power-1", pool="service"),
        nodes("w2", 12, power="power-0", rack=6),
        NodesLost(WorkerName("w2"), (12, 13, 14, 15)),
    ],
).capacity
"""Nodes 0-7 and 12-15, racks 0-3 and 6-7, zones 0, 1 and 3; `w2` is lost, which is no reason not to drain it."""
REGIONS = [RegionName(name) for name in ("eu", "us", "us-1", "0")]


def found(*words: str, **place: object) -> tuple[Scope, list[int]]:
    """What is meant in eu."""
    return scope_of(words, PlaceOptions(**place), EU, CAPACITY)  # type: ignore[arg-type]


def problems(*words: str, **place: object) -> tuple[str, ...]:
    """What is wrong with it."""
    with pytest.raises(BadPlace) as raised:
        found(*words, **place)
    return raised.value.problems


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (["eu-7"], [7]),
        (["eu-[0-3,7]"], [0, 1, 2, 3, 7]),
        (["eu-[7]"], [7]),
        (["7"], [7]),
        (["0-3"], [0, 1, 2, 3]),
        (["[0-1,3]", "eu-12", "12"], [0, 1, 3, 12]),
    ],
)
def test_nodes_by_name(words: list[str], numbers: list[int]) -> None:
    """As `mizzen nodes` shows them, whose lists can be given back as they are; or by their numbers in a region that is known."""
    scope, there = found(*words)
    assert numbers == there
    assert Scope(ScopeKind.NODE, tuple(str(number) for number in numbers)) == scope


PLACES: dict[str, tuple[dict[str, object], Scope, list[int]]] = {
    "rack": ({"rack": "3"}, Scope(ScopeKind.RACK, ("3",)), [6, 7]),
    "racks": ({"rack": "0, 2-3"}, Scope(ScopeKind.RACK, ("0", "2", "3")), [0, 1, 4, 5, 6, 7]),
    "power domain": ({"power_domain": "power-0"}, Scope(ScopeKind.POWER_DOMAIN, ("power-0",)), [0, 1, 2, 3, 12, 13, 14, 15]),
    "zones": ({"zone": "zone-1,zone-0"}, Scope(ScopeKind.ZONE, ("zone-1", "zone-0")), list(range(8))),
    "pool": ({"pool": "service"}, Scope(ScopeKind.POOL, ("service",)), [4, 5, 6, 7]),
    "worker": ({"worker": "w2"}, Scope(ScopeKind.WORKER, ("w2",)), [12, 13, 14, 15]),
    "all": ({"all_": True}, Scope(ScopeKind.ZONE, ("zone-0", "zone-1", "zone-3")), [*range(8), 12, 13, 14, 15]),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_nodes_by_place(name: str) -> None:
    """T22: by rack, power domain, zone, pool or worker, or all of them; and the store finds the same nodes by that scope."""
    place, scope, numbers = PLACES[name]
    assert (scope, numbers) == found(**place)
    assert (numbers, []) == nodes_in(CAPACITY, scope)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["eu-8"], ["there is no eu-8; eu has eu-[0-7,12-15]"]),
        (["eu-[6-13]", "eu-99"], ["there is no eu-[8-11,99]; eu has eu-[0-7,12-15]"]),
        (["0-16777215"], ["there is no eu-[8-11,16-16777215]; eu has eu-[0-7,12-15]"]),
        (["eu-x", "us-1", "eu-8"], ["eu-x is no node; name them as in eu-7 or eu-[0-3,7]",
                                    "us-1 is no node; name them as in eu-7 or eu-[0-3,7]",
                                    "there is no eu-8; eu has eu-[0-7,12-15]"]),
        (["eu-[3-1]"], ["eu-[3-1] is no node; name them as in eu-7 or eu-[0-3,7]"]),
        (["eu-"], ["eu- is no node; name them as in eu-7 or eu-[0-3,7]"]),
        (["99999999"], ["99999999 is no node; name them as in eu-7 or eu-[0-3,7]"]),
        (["eu-٣"], ["eu-٣ is no node; name them as in eu-7 or eu-[0-3,7]"]),
        ([""], ["'' is no node; name them as in eu-7 or eu-[0-3,7]"]),
    ],
)  # fmt: skip
def test_nodes_that_are_not_there(words: list[str], said: list[str]) -> None:
    """All of them at once, with what there is; however large a range is, it costs no more than the region has nodes."""
    assert said == list(problems(*words))


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ({"rack": "4"}, ["eu has no rack 4; it has 0-3, 6-7"]),
        ({"rack": "2-6,9,x"}, ["eu has no rack 4-5; it has 0-3, 6-7", "eu has no rack 9; it has 0-3, 6-7",
                               "eu has no rack x; it has 0-3, 6-7"]),
        ({"power_domain": "power-9"}, ["eu has no power domain power-9; it has power-0, power-1"]),
        ({"zone": "zone-0,zone-2"}, ["eu has no zone zone-2; it has zone-0, zone-1, zone-3"]),
        ({"pool": "harvest"}, ["eu has no pool harvest; it has service, training"]),
        ({"worker": "w3,w4"}, ["eu has no worker w3; it has w0, w1, w2", "eu has no worker w4; it has w0, w1, w2"]),
    ],
)  # fmt: skip
def test_places_that_are_not_there(place: dict[str, object], said: list[str]) -> None:
    """Unknown racks and the like are refused, each by its name, with what the region has."""
    assert said == list(problems(**place))


def test_nothing_is_drained_in_a_region_without_nodes() -> None:
    """Nor is there an error that nobody understands."""
    with pytest.raises(BadPlace, match="eu has no nodes yet"):
        scope_of((), PlaceOptions(all_=True), EU, RegionImage.empty().capacity)


def test_nodes_are_named_in_one_way() -> None:
    """Two ways could mean both or either; none is no way."""
    assert [] == problems_of(["eu-7"], ANYWHERE)
    assert [] == problems_of([], PlaceOptions(region="eu", rack="3"))
    (said,) = problems_of([], PlaceOptions(region="eu"))
    assert said.startswith("which nodes? name them by one of nodes (as in eu-7), --rack,")
    assert ["name nodes in one way only: nodes by name and --rack and --all are given"] == problems_of(
        ["eu-7"], PlaceOptions(rack="3", all_=True)
    )
    assert problems_of(["eu-7"], PlaceOptions(rack="3")) == list(problems("eu-7", rack="3"))


@pytest.mark.parametrize(
    ("words", "said", "region"),
    [
        (["eu-7"], "", "eu"),
        (["us-7"], "", "us"),
        (["us-1-7"], "", "us-1"),
        (["us-1"], "", "us"),
        (["us-[1-7]"], "", "us"),
        (["0-7"], "", "0"),
        (["0-7"], "0", "0"),
        (["7"], "eu", "eu"),
        ([], "us-1", "us-1"),
    ],
)
def test_region_that_is_meant(words: list[str], said: str, region: str) -> None:
    """The one that is said, or the nodes' own; names of regions may hold what looks like a number."""
    assert region == region_of(words, PlaceOptions(region=said), REGIONS)


def test_only_region_need_not_be_said() -> None:
    """Numbers alone are then nodes of it."""
    assert EU == region_of(["0-3"], ANYWHERE, [EU])
    assert EU == region_of([], PlaceOptions(rack="3"), [EU])


@pytest.mark.parametrize(
    ("words", "said", "text"),
    [
        ([], "", "say which region by --region; there are eu, us, us-1, 0"),
        (["7"], "", "say which region by --region; there are eu, us, us-1, 0"),
        (["ue-7"], "", "ue-7 is no node of eu, us, us-1, 0; name one as in eu-7"),
        (["eu-7", "us-7"], "", "nodes of eu, us are named; name those of one region at a time"),
        (
            ["us-7"],
            "eu",
            "--region says eu, and there are nodes of us too; name nodes of one region at a time",
        ),
        ([], "moon", "there is no region moon; there are eu, us, us-1, 0"),
    ],
)
def test_region_that_is_not_clear(words: list[str], said: str, text: str) -> None:
    """What to say instead."""
    with pytest.raises(CommandError) as raised:
        region_of(words, PlaceOptions(region=said), REGIONS)
    assert (text, 2) == (str(raised.value), raised.value.exit_code)
    with pytest.raises(CommandError, match="has no regions yet"):
        region_of([], ANYWHERE, [])


def test_shown_node_names_are_understood() -> None:
    """For every node by itself: a name that `mizzen nodes` prints means that node."""
    for node in numbers_in(((0, 7), (12, 15))):
        assert [node] == found(f"eu-{node}")[1]

"""Homes on the ring, and routers of functions: a change of membership moves only the part that it must."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from core.nouns.ids import FunctionId
from core.routing.policy import Candidate
from core.routing.ring import SLOTS, number_of, router_of, slot_of, start_of, walk
from tests.core.properties import PROPERTY
from tests.core.routing.servers import SCORE, a_server, candidates, functions, in_ring

NAMES = [f"w{number}" for number in range(40)]
FUNCTIONS = [FunctionId(f"ml/f{number}/0123abcd") for number in range(300)]


def ring_of(names: list[str]) -> list[Candidate]:
    """Servers at the slots of their names."""
    return in_ring([a_server(name, slot_of(name)) for name in names])


def homes(names: list[str]) -> dict[FunctionId, str]:
    """The home of each function."""
    ring = ring_of(names)
    return {function: walk(ring, function)[0].name for function in FUNCTIONS}


def test_numbers_are_the_same_everywhere() -> None:
    """Another process, machine and version of Python find the same home."""
    assert [5_658_665_142_393_113_235, 16_322_905_939_216_325_883] == [number_of("w0"), number_of(SCORE)]
    assert number_of("w0") % SLOTS == slot_of("w0")
    assert number_of(SCORE) % SLOTS == start_of(SCORE)


@PROPERTY
@given(candidates(), functions)
def test_walk_is_clockwise_from_the_functions_slot(ring: list[Candidate], function: FunctionId) -> None:
    """H-3: the order is that of the distance from the function's slot, without servers that are not usable."""
    start = start_of(function)
    usable = [one for one in ring if one.is_usable]
    assert sorted(usable, key=lambda one: ((one.slot - start) % SLOTS, one.name)) == walk(ring, function)


@PROPERTY
@given(st.lists(st.sampled_from(NAMES), min_size=2, max_size=12, unique=True))
def test_server_that_joins_or_leaves_moves_only_its_arc(names: list[str]) -> None:
    """H-3: the home of a function changes from or to that server alone, and no walk changes its order of the others."""
    mover, others = names[0], names[1:]
    before, after = homes(others), homes(names)
    assert {one for one in FUNCTIONS if before[one] != after[one]} == {
        one for one, home in after.items() if home == mover
    }
    for function in FUNCTIONS[:20]:
        walked = [one.name for one in walk(ring_of(names), function)]
        assert [one.name for one in walk(ring_of(others), function)] == [
            one for one in walked if one != mover
        ]


def test_arc_goes_from_the_server_before() -> None:
    """H-3: a server at slot 300 between 100 and 400 becomes the home of functions that start at 101 to 300."""
    ring = [a_server("a", 100), a_server("b", 400)]
    more = in_ring([*ring, a_server("c", 300)])
    moved = {start_of(one) for one in FUNCTIONS if walk(ring, one)[0] != walk(more, one)[0]}
    assert {start_of(one) for one in FUNCTIONS if 100 < start_of(one) <= 300} == moved


@PROPERTY
@given(st.lists(st.sampled_from(["r0", "r1", "r2", "r3", "r4"]), min_size=2, unique=True))
def test_router_that_leaves_moves_only_its_functions(routers: list[str]) -> None:
    """The others keep theirs."""
    for function in FUNCTIONS:
        before = router_of(function, routers)
        if before != routers[0]:
            assert before == router_of(function, routers[1:])


def test_routers_have_alike_parts() -> None:
    """Names that differ in one digit do as well as any."""
    assert "" == router_of(SCORE, [])
    counts = Counter(router_of(one, ["r0", "r1", "r2"]) for one in FUNCTIONS)
    assert 80 < min(counts.values()) <= max(counts.values()) < 120

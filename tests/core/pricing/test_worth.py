"""Tables of what room is worth: equal to trying everything, in whole numbers, and never less for more room."""

import random
from collections.abc import Sequence
from itertools import combinations_with_replacement

import numpy as np
from hypothesis import given, settings

from core.nouns.mix import Mix, TypicalShape
from core.nouns.prices import NO_PRICES, Prices
from core.nouns.quantities import MILLI
from core.pricing.shapes import may_run_on, share_of
from core.pricing.worth import CORE_PRICES, ROWS_AT_ONCE, Worth, best_fillings
from tests.core.pricing.mixes import GIB, TYPES, dices, some_prices
from tests.core.properties import PROPERTY

Node = tuple[str, int, tuple[int, ...], int, int]
"""Type, whole devices, milli free on shared ones, CPU milli, bytes."""


def a_node(dice: random.Random) -> Node:
    """With room of some sort."""
    shared = tuple(dice.choice((0, 100, 270, 500, 730, 999)) for _ in range(dice.randint(0, 3)))
    cpu, memory = dice.choice((0, 2_000, 7_999, 64_000)), dice.choice((0, GIB, 64 * GIB))
    return dice.choice(TYPES), dice.randint(0, 8), shared, cpu, memory


def worth_of(worth: Worth, nodes: Sequence[Node]) -> list[int]:
    """As the rule asks for it, all at once."""
    most = max(len(shared) for _, _, shared, _, _ in nodes)
    shared = [(*of_node, *(0,) * (most - len(of_node))) for _, _, of_node, _, _ in nodes]
    columns = [np.asarray([node[index] for node in nodes], dtype=np.int64) for index in (1, 3, 4)]
    node_type = np.asarray([TYPES.index(node[0]) for node in nodes])
    table = np.asarray(shared, dtype=np.int64).reshape(len(nodes), most)
    found: list[int] = worth.on(TYPES).of(node_type, columns[0], table, columns[1], columns[2]).tolist()
    return found


def filled_best(room: int, pays: dict[int, int]) -> int:
    """Every set of shares that fits is tried."""
    most = room // min(pays) if pays else 0
    sets = (some for count in range(most + 1) for some in combinations_with_replacement(sorted(pays), count))
    return max((sum(pays[share] for share in some) for some in sets if sum(some) <= room), default=0)


def by_hand(prices: Prices, node: Node) -> int:
    """One node, as the rule is written down, without a table."""
    node_type, whole, shared, cpu, memory = node
    rooms = [*shared, *[MILLI] * whole]
    mine = [(index, shape) for index, shape in enumerate(prices.mix.shapes) if may_run_on(shape, node_type)]
    bounds = []
    for price in CORE_PRICES:
        bound = price * cpu
        for room in rooms:
            levels = []
            for rents in prices.rents:
                pays: dict[int, int] = {}
                for index, shape in mine:
                    left = max(0, 1_000 * shape.gpu_milli - rents[index] - price * shape.cpu_milli)
                    for share, _ in share_of(shape):
                        pays[share] = max(pays.get(share, 0), left * share // shape.gpu_milli)
                levels.append(filled_best(room, pays))
            bound += sum(levels) // len(levels) + room * dict(prices.scarcity).get(node_type, 0) * 3 // 10_000
        bounds.append(bound)
    copies = sum(
        shape.weight * shape.gpu_milli * copies_of(shape, whole, shared, cpu, memory)
        for shape in prices.mix.shapes
        if shape.gpu_milli
    )
    return min(bounds) + copies // 10_000


def copies_of(shape: TypicalShape, whole: int, shared: Sequence[int], cpu: int, memory: int) -> int:
    """How many tasks of a shape fit on a node that takes no others."""
    if shape.gpus:
        count = whole // (shape.gpus + (shape.part_milli > 0))
    else:
        count = sum(room // shape.part_milli for room in [*shared, *[MILLI] * whole])
    if shape.cpu_milli:
        count = min(count, cpu // shape.cpu_milli)
    if shape.memory_bytes:
        count = min(count, memory // shape.memory_bytes)
    return count


@settings(PROPERTY, max_examples=30)
@given(dice=dices)
def test_tables_equal_an_exhaustive_search(dice: random.Random) -> None:
    """Of nodes asked for together, each by itself."""
    prices = some_prices(dice, 4)
    nodes = [a_node(dice) for _ in range(3)]
    assert [by_hand(prices, node) for node in nodes] == worth_of(Worth(prices), nodes)


@PROPERTY
@given(dice=dices)
def test_more_capacity_is_never_worth_less(dice: random.Random) -> None:
    """This holds for capacity of any sort."""
    worth = Worth(dice.choice((NO_PRICES, some_prices(dice))))
    name, whole, shared, cpu, memory = a_node(dice)
    more = tuple(min(room + dice.choice((0, 1, 200)), MILLI) for room in shared)
    larger = (
        name,
        whole + dice.randint(0, 1),
        more,
        cpu + dice.choice((0, 1_000)),
        memory + dice.choice((0, GIB)),
    )
    less, enough = worth_of(worth, [(name, whole, shared, cpu, memory), larger])
    assert 0 <= less <= enough


def test_worth_does_not_depend_on_the_nodes_beside() -> None:
    """Many at once are cut into blocks, and floats add whole numbers alone: the last bit is the same."""
    dice = random.Random(3)
    worth = Worth(some_prices(dice))
    nodes = [a_node(dice) for _ in range(40)]
    alone = [worth_of(worth, [node])[0] for node in nodes]
    assert alone == worth_of(worth, nodes)
    times = ROWS_AT_ONCE // len(nodes) + 2
    assert alone * times == worth_of(worth, nodes * times)


def test_shares_that_fill_a_device_to_the_milli_do() -> None:
    """A third of a device is 333 milli, and three of them fit."""
    best = best_fillings([333], np.asarray([[[10]]], dtype=np.int64))
    assert [0, 10, 20, 30] == [int(best[room, 0, 0]) for room in (332, 333, 998, 1_000)]


def test_shapes_that_differ_in_types_alone_fill_copies_as_one() -> None:
    """Their weights add up, and their memory is the mean."""
    apart = Mix(
        (
            TypicalShape(gpus=1, memory_bytes=10 * GIB, node_types=("A",), weight=250_000),
            TypicalShape(gpus=1, memory_bytes=30 * GIB, node_types=("B",), weight=750_000),
        )
    )
    together = Mix((TypicalShape(gpus=1, memory_bytes=25 * GIB, weight=1_000_000),))
    rents = ((1_000_000, 1_000_000),)
    node: Node = ("A", 8, (), 0, 99 * GIB)
    assert [300_000] == worth_of(Worth(Prices(1, together, (rents[0][:1],))), [node])
    assert [300_000] == worth_of(Worth(Prices(1, apart, rents)), [node])

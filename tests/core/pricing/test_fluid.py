"""The fluid problem: what its columns are, and which sets of shares are added."""

import random

import numpy as np
from hypothesis import given

from core.nouns.mix import Mix, TypicalShape
from core.nouns.prices import MICRO
from core.pricing.fluid import Columns, FluidProblem, NodeClass, prices_of, scarcity_of
from tests.core.pricing.mixes import GIB, a_mix, dices, some_classes
from tests.core.pricing.test_worth import filled_best
from tests.core.properties import PROPERTY

TWO_TYPES = (NodeClass("A", 8, 64_000, 64 * GIB, 3), NodeClass("B", 2, 8_000, 16 * GIB, 4))


def entries(columns: Columns) -> list[tuple[float, dict[int, float]]]:
    """By column: what it earns, and its entries by row."""
    ends = [*columns.starts.tolist(), len(columns.rows)]
    return [
        (
            earns,
            dict(zip(columns.rows[first:last].tolist(), columns.values[first:last].tolist(), strict=True)),
        )
        for earns, first, last in zip(columns.earns.tolist(), ends, ends[1:], strict=False)
    ]


def test_problem_as_it_is_written_down() -> None:
    """Tasks of two GPUs on whatever has two, and halves on nodes of type B alone: 32 GPUs of 2.5 a pair, at a level of 1."""
    mix = Mix(
        (
            TypicalShape(gpus=2, cpu_milli=1_000, weight=500_000),
            TypicalShape(part_milli=500, memory_bytes=GIB, node_types=("B",), weight=500_000),
        )
    )
    problem = FluidProblem(TWO_TYPES, mix)
    demand, cores, memory, devices = [12.8, 12.8], [192.0, 32.0], [192.0, 64.0], [24.0, 8.0]
    filled, pairs = [0.0] * 4, [12.0, 4.0]
    assert [6.4, 6.4] == problem.demand(0.5).round(9).tolist()
    assert [*demand, *cores, *memory, *devices, *filled, *pairs] == problem.bounds.round(9).tolist()
    assert [
        (2.0, {0: 1.0, 2: 1.0, 9: 2.0, 12: 1.0}),
        (2.0, {0: 1.0, 3: 1.0, 11: 2.0, 13: 1.0}),
        (0.5, {1: 1.0, 5: 1.0, 10: 1.0}),
        (0.0, {6: 1.0, 8: -2.0}),
        (0.0, {6: 1.0, 9: -1.0}),
        (0.0, {7: 1.0, 10: -2.0}),
        (0.0, {7: 1.0, 11: -1.0}),
    ] == entries(problem.first_columns())


@PROPERTY
@given(dice=dices)
def test_added_sets_are_the_best_that_fit(dice: random.Random) -> None:
    """As trying every set says, and only where one earns more than the device costs."""
    classes, mix = some_classes(dice), a_mix(dice)
    problem = FluidProblem(classes, mix)
    problem.first_columns()
    shares = sorted(
        {part for shape in mix.shapes for part in (shape.part_milli, 1_000 * (shape.gpus > 0)) if part}
    )
    device = len(mix.shapes) + 2 * len(classes)
    first = device + len(classes)
    duals = np.zeros(len(problem.bounds))
    duals[device:] = [dice.choice((0.0, 0.2, 0.33, 0.5, 1.0)) for _ in duals[device:]]
    wanted = []
    for number, one in enumerate(classes):
        pays = duals[first + number * len(shares) :][: len(shares)].tolist()
        best = filled_best(1_000, {share: round(100 * pay) for share, pay in zip(shares, pays, strict=True)})
        if one.gpus and best > round(100 * duals[device + number]):
            wanted.append((number, best))
    columns = problem.more_columns(duals)
    added = {}
    for earns, column in entries(columns) if columns else []:
        (number,) = (row - device for row in column if device <= row < first)
        counts = {row - first - number * len(shares): -value for row, value in column.items() if row >= first}
        assert earns == 0.0
        assert sum(shares[share] * count for share, count in counts.items()) <= 1_000
        added[number] = round(
            sum(100 * duals[first + number * len(shares) + share] * n for share, n in counts.items())
        )
    assert set(added.items()) <= set(wanted)
    for number, best in wanted:
        pays = duals[first + number * len(shares) :][: len(shares)].tolist()
        alone = [round(100 * pay) * (1_000 // share) for share, pay in zip(shares, pays, strict=True)]
        assert number in added or best == max(alone), "only what the first columns have already is not added"


def test_scarcity_is_of_jobs_that_can_have_no_other_type() -> None:
    """Half of the demand can run on A alone, which is three quarters of the GPUs; no job is bound to B."""
    mix = Mix(
        (
            TypicalShape(gpus=1, node_types=("A",), weight=500_000),
            TypicalShape(gpus=1, weight=500_000),
        )
    )
    assert (("A", 2 * MICRO // 3),) == scarcity_of(TWO_TYPES, mix)


def test_scarcity_has_a_limit() -> None:
    """However few of the GPUs they are that all want."""
    mix = Mix((TypicalShape(gpus=1, node_types=("B",), weight=1_000_000),))
    assert (("B", 2 * MICRO),) == scarcity_of(TWO_TYPES, mix)


def test_prices_are_whole_numbers() -> None:
    """Of what a solver says in floats; its rounding errors below 0 are 0."""
    mix = Mix((TypicalShape(gpus=1, weight=1_000_000),))
    prices = prices_of(TWO_TYPES, mix, [[0.25], [-1e-9]], revision=3, arrivals=850)
    assert ((250_000,), (0,)) == prices.rents
    assert (3, 850, ()) == (prices.revision, prices.arrivals, prices.scarcity)

"""The quick form of the fluid programme earns what the programme as stated earns, and no rent is worth more than its task."""

import random

import pytest

from core.nouns.mix import Mix, TypicalShape
from core.pricing.fluid import CORE_WORTH, LEVELS_OF_DEMAND, FluidProblem, NodeClass
from runtime.solvers.fluid import solve, solve_prices
from tests.core.pricing.mixes import GIB, a_mix, some_classes


@pytest.mark.parametrize("seed", range(12))
def test_quick_form_equals_the_reference(seed: int) -> None:
    """Duals are not unique where demand just fills the nodes; what they come to together is."""
    from runtime.solvers.reference.fluid import (
        reference,
    )  # Imports cvxpy, which every process of the tests would load.

    dice = random.Random(seed)
    classes, mix = some_classes(dice), a_mix(dice)
    levels = (1.0, 1.3, 0.4)
    for level, (earned, rents) in zip(levels, solve(FluidProblem(classes, mix), levels), strict=True):
        stated, _ = reference(classes, mix, level)
        assert stated == pytest.approx(earned, abs=1e-4)
        for shape, rent in zip(mix.shapes, rents, strict=True):
            worth = shape.gpu_milli / 1_000 or CORE_WORTH * shape.cpu_milli / 1_000
            assert 0 <= rent <= worth + 1e-9


def test_tasks_without_competition_pay_nothing_for_the_rest_of_a_device() -> None:
    """One node of one GPU, tasks of 0.8 and 0.2: there are too few of the small ones, so that they are paid for, and not the device."""
    node = NodeClass("A", 1, 64_000, 64 * GIB, 1_000)
    mix = Mix((TypicalShape(part_milli=800, weight=900_000), TypicalShape(part_milli=200, weight=100_000)))
    ((earned, (large, small)),) = solve(FluidProblem((node,), mix), (1.3,))
    tasks = 1.3 * 1_000 * 1_000 / 740
    assert (0.8 * 1_000 + 0.2 * 0.1 * tasks) == pytest.approx(earned)
    assert (0.0, 0.2) == pytest.approx((large, small))


def test_same_prices_come_out_again() -> None:
    """To the last digit, or two planners would not agree."""
    dice = random.Random(5)
    classes, mix = some_classes(dice), a_mix(dice)
    prices = solve_prices(classes, mix, 2, 300)
    assert prices == solve_prices(classes, mix, 2, 300)
    assert len(LEVELS_OF_DEMAND) == len(prices.rents)


def test_region_without_gpus_has_prices() -> None:
    """And a mix without them."""
    cpu = (NodeClass("cpu", 0, 64_000, 64 * GIB, 3),)
    mix = Mix((TypicalShape(cpu_milli=1_000, weight=1_000_000),))
    assert solve_prices(cpu, mix).mix == mix
    wanted = Mix((TypicalShape(gpus=1, weight=1_000_000),))
    assert solve_prices(cpu, wanted).scarcity == ()
    assert solve_prices((), wanted).mix == wanted

"""Mixes and nodes that are drawn, small enough to be tried by hand."""

import random

from hypothesis import strategies as st

from core.nouns.mix import Mix, TypicalShape
from core.nouns.prices import MICRO, Prices
from core.pricing.fluid import NodeClass

GIB = 1 << 30
TYPES = ("A", "B", "C")
DEVICES = ((1, 0), (0, 500), (0, 330), (0, 270), (2, 0), (4, 0), (8, 0), (0, 0), (1, 250))
"""What a task takes: whole ones, and a part of one more."""


def a_shape(dice: random.Random, devices: tuple[int, int]) -> TypicalShape:
    """One that takes these."""
    return TypicalShape(
        *devices,
        cpu_milli=dice.choice((0, 500, 2_000, 8_000)) or 250 * (devices == (0, 0)),
        memory_bytes=dice.choice((0, GIB, 20 * GIB)),
        node_types=dice.choice(((), (), ("A",), ("A", "B"))),
        weight=dice.randint(1, 300_000),
    )


def a_mix(dice: random.Random, count: int = 6) -> Mix:
    """So many different shapes."""
    return Mix(tuple(a_shape(dice, devices) for devices in dice.sample(DEVICES, count)))


def some_prices(dice: random.Random, count: int = 6) -> Prices:
    """Of a mix, with rents from nothing to all that a task brings."""
    mix = a_mix(dice, count)
    rents = tuple(
        tuple(dice.randint(0, 1_000 * shape.gpu_milli) for shape in mix.shapes)
        for _ in range(dice.randint(1, 3))
    )
    scarcity = tuple((name, dice.randint(1, 2 * MICRO)) for name in ("A", "B"))
    return Prices(1, mix, rents, scarcity)


def some_classes(dice: random.Random, count: int = 4) -> tuple[NodeClass, ...]:
    """So many sorts of nodes."""
    return tuple(
        NodeClass(
            dice.choice(TYPES),
            dice.choice((0, 2, 4, 8)),
            dice.choice((8_000, 32_000, 96_000)),
            dice.choice((64, 128)) * GIB,
            dice.randint(1, 9),
        )
        for _ in range(count)
    )


dices = st.integers(0, 1 << 30).map(random.Random)

"""Prices that a store is told: recorded if they follow on those that it has, and are well formed."""

from typing import Any

import pytest
from msgspec.structs import replace

from core.component import Decision
from core.events.prices import PricesSet
from core.images import RegionImage
from core.messages.base import Refused
from core.messages.prices import PricesAnswered, SetPrices
from core.nouns.limits import NAME_LENGTH_MAX, PRICES_LEVELS_MAX, TYPICAL_SHAPES_MAX
from core.nouns.mix import WEIGHT, Mix
from core.nouns.prices import MICRO, NO_PRICES, Prices
from core.nouns.reasons import Reason
from core.nouns.solved_from import SolvedFrom
from tests.builders import EU
from tests.components.support.machine import Machine
from tests.components.support.placement_store import Start, a_store
from tests.components.support.planner import SHAPE, some_prices
from tests.matching import facts, said_once

SOLVED_FROM = SolvedFrom()


def told(
    machine: Machine[Any], prices: Prices, solved_from: SolvedFrom = SOLVED_FROM, by: str = "planner"
) -> Decision:
    """A planner says so."""
    return machine.hear(SetPrices(EU, prices, solved_from, by))


def test_prices_are_recorded_and_answered(start: Start) -> None:
    """Whole, with what they were solved from; the image has them, and says when that was."""
    machine = a_store(start)
    solved_from = SolvedFrom(100, 7, 1, 64_000)
    decision = told(machine, some_prices(1), solved_from)
    assert [PricesSet(some_prices(1), solved_from, "planner")] == facts(decision)
    assert PricesAnswered(1) == said_once(decision, PricesAnswered)
    known = machine.state.image.prices
    assert (some_prices(1), solved_from, "planner") == (known.prices, known.solved_from, known.by)
    assert (1, machine.now) == (known.revision, known.set_at)


@pytest.mark.parametrize("revision", [-1, 0, 1, 3])
def test_prices_that_do_not_follow_are_superseded(start: Start, revision: int) -> None:
    """Of two planners the first is heard; one that was told twice is not recorded twice."""
    machine = a_store(start)
    told(machine, some_prices(1))
    late = told(machine, some_prices(revision, arrivals=200))
    assert ([], Reason.SUPERSEDED) == (facts(late), said_once(late, Refused).reason)
    assert some_prices(1) == machine.state.image.prices.prices


MANY = tuple(replace(SHAPE, cpu_milli=number, weight=1) for number in range(TYPICAL_SHAPES_MAX + 1))


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({"mix": Mix(), "rents": ((), (), ())}, "mix: it has 0 shapes"),
        ({"mix": Mix(MANY), "rents": ((0,) * len(MANY),)}, f"mix: it has {len(MANY)} shapes"),
        ({"mix": Mix((replace(SHAPE, gpus=-1),))}, "mix: a shape needs less than nothing"),
        ({"mix": Mix((replace(SHAPE, gpus=1 << 60),))}, "mix: a shape needs more than"),
        ({"mix": Mix((replace(SHAPE, cpu_milli=1 << 60),))}, "mix: a shape needs more than"),
        ({"mix": Mix((replace(SHAPE, memory_bytes=1 << 60),))}, "mix: a shape needs more than"),
        ({"mix": Mix((replace(SHAPE, part_milli=1_000),))}, "mix: a part of a device"),
        ({"mix": Mix((replace(SHAPE, weight=WEIGHT + 1),))}, "mix: its weights"),
        ({"rents": ()}, "rents: 1 to"),
        ({"rents": ((0,),) * (PRICES_LEVELS_MAX + 1)}, "rents: 1 to"),
        ({"rents": ((0, 0),)}, "rents: each level"),
        ({"rents": ((-1,),)}, "rents: none is negative"),
        ({"rents": ((1 << 63,),)}, "rents: none is more than"),
        ({"scarcity": (("H100", 2 * MICRO + 1),)}, "scarcity: it is from 0"),
        ({"scarcity": (("H100", 0), ("A100", 0))}, "scarcity: each node type"),
        ({"scarcity": (("H100", 0), ("H100", 0))}, "scarcity: each node type"),
    ],
)
def test_silly_prices_are_refused(start: Start, parts: dict[str, Any], problem: str) -> None:
    """Nothing is recorded, and what is wrong is said; what there was stays."""
    machine = a_store(start)
    decision = told(machine, some_prices(1, **parts))
    refused = said_once(decision, Refused)
    assert ([], Reason.INVALID) == (facts(decision), refused.reason)
    assert [] != [one for one in refused.problems if one.startswith(problem)], refused.problems
    assert NO_PRICES == machine.state.image.prices.prices


def test_prices_of_a_future_or_of_an_endless_name_are_refused(start: Start) -> None:
    """Nobody solved them from a log that has not come so far; a name is a name."""
    machine = a_store(start)
    decision = told(machine, some_prices(1), SolvedFrom(sequence=10_000), "x" * (NAME_LENGTH_MAX + 1))
    assert 2 == len(said_once(decision, Refused).problems)
    assert [] == facts(decision)


def test_prices_that_fit_no_fact_are_refused(start: Start) -> None:
    """However well formed they are."""
    endless = tuple((f"{number:06d}{'x' * 1_000}", 0) for number in range(300))
    decision = told(a_store(start), some_prices(1, scarcity=endless))
    assert ([], Reason.TOO_LARGE) == (facts(decision), said_once(decision, Refused).reason)


def test_prices_survive_a_snapshot_and_a_restart(start: Start) -> None:
    """They are the fold's, to the byte."""
    machine = a_store(start)
    told(machine, some_prices(1))
    image = machine.state.image
    assert image.digest() == RegionImage.decode(image.encode()).digest()
    again = machine.restart()
    assert some_prices(1) == again.state.image.prices.prices
    assert [] == facts(told(again, some_prices(1)))

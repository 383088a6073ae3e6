"""Harvested workers whose sizes change, in small: capacity follows the cores that there are, and drawn workers are like those of a set."""

from pathlib import Path

import pytest

from bench import budget, harvest_replay
from bench.support.functions.load import CallLoad
from bench.support.functions.region import Spans
from bench.support.harvest.sized import SizedRegion
from bench.support.harvest.sizes import (
    CORES_MIN,
    TRACE_SECONDS,
    Sizes,
    drawn_like,
    drawn_sets,
    read_sets,
    sets_or_drawn,
)

ONE = Sizes(((0.0, 4), (600.0, 8)))
FILE = "set,vm,time_s,vcpus\nsim_const_traces,1,0,18\nmine,1,0,4\nmine,1,600,8\nmine,2,0,10\n"


def test_sets_of_a_file_are_read(tmp_path: Path) -> None:
    """Known sets by their short names, others by their own; without a trace or a file, sets are drawn."""
    path = tmp_path / "sizes.csv"
    path.write_text(FILE)
    assert {"const": [Sizes(((0.0, 18),))], "mine": [ONE, Sizes(((0.0, 10),))]} == read_sets(path)
    assert (read_sets(path), False) == sets_or_drawn(path, 1)
    path.write_text("set,vm,cores\nmine,1,4\n")
    with pytest.raises(ValueError, match="time_s"):
        read_sets(path)


def test_means_are_over_time() -> None:
    """And a later part begins as the whole did then."""
    assert (6.0, 7.0, 4.0) == (ONE.mean(), ONE.mean(400.0), ONE.mean(0.0, 600.0))
    assert Sizes(((0.0, 4), (100.0, 8))) == ONE.since(500.0)
    assert Sizes(((0.0, 8),)) == ONE.since(600.0)


def test_drawn_sets_have_the_changes_of_the_trace() -> None:
    """H2: 148, 180 and 180 cores in the mean, and about 67 changes of the first."""
    sets = drawn_sets(1)
    totals = {name: sum(one.mean() for one in workers) for name, workers in sets.items()}
    assert {"active": 148, "common": 180, "const": 180} == pytest.approx(totals, rel=0.02)
    assert 40 < sum(len(one.steps) - 1 for one in sets["active"]) < 100


@pytest.mark.parametrize("discount", budget.DISCOUNTS.values(), ids=list(budget.DISCOUNTS))
def test_drawn_workers_have_the_published_cores(discount: budget.Discount) -> None:
    """H3: in the mean, none fewer than two; and at their discounts they cost about as much as 32 held cores."""
    workers = drawn_like(drawn_sets(1)["active"], discount.workers, discount.cores, 1)
    assert discount.workers == len(workers)
    assert discount.cores == pytest.approx(sum(one.mean() for one in workers), rel=0.02)
    assert CORES_MIN <= min(cores for one in workers for _, cores in one.steps)
    assert all(0 <= at < TRACE_SECONDS for one in workers for at, _ in one.steps)
    assert 32 == pytest.approx(discount.price(discount.cores), rel=0.15)


def test_calls_wait_where_workers_shrink() -> None:
    """H-10: ten workers of four cores answer later than the same ten of sixteen."""
    large, small = (
        SizedRegion([Sizes(((0.0, 16), (at, 4)))] * 10, CallLoad(1, 200, 8.0), 12.0, Spans(20, 20)).play()
        for at in (1_000.0, 20.0)
    )
    assert large.is_within
    assert max(small.latencies) > 1.5 * max(large.latencies)


def test_bars_are_parts_of_const() -> None:
    """By capacity; a file without `const` has no bars."""
    cores = {"active": 148.0, "common": 180.0, "const": 180.0}
    found = {"active": [20.0, 22.0], "common": [30.0, 32.0], "const": [40.0, 40.0]}
    told = harvest_replay.findings_of(found, cores, is_drawn=False, seconds=1.0)
    assert {"active_over_const": 0.525, "common_over_const": 0.775} == {
        bar.name: bar.value for bar in told.bars
    }
    assert [] == harvest_replay.findings_of({"mine": [3.0]}, {"mine": 16.0}, False, 1.0).bars


def test_worst_ratio_is_the_bar() -> None:
    """H-11: throughput over cores, beside what held workers do; the price falls with the discount."""
    found = {"held": [(6.0, 32.0)]} | {
        name: [(6.0 * one.cores / 32 * part, one.cores)]
        for (name, one), part in zip(budget.DISCOUNTS.items(), (0.7, 0.9, 1.0, 1.0), strict=True)
    }
    told = budget.findings_of(found, is_drawn=False, seconds=1.0)
    (bar,) = told.bars
    assert 0.7 == pytest.approx(bar.value)
    assert not bar.met
    prices = [told.figures[f"price_{name}"] for name in ("held", *budget.DISCOUNTS)]
    assert prices == sorted(prices, reverse=True)


def test_nothing_is_compared_with_held_workers_that_take_nothing() -> None:
    """The bar is missed, with a sentence; what harvested workers take is told."""
    found = {"held": [(0.0, 32.0)]} | {name: [(6.0, one.cores)] for name, one in budget.DISCOUNTS.items()}
    told = budget.findings_of(found, is_drawn=False, seconds=1.0)
    (bar,) = told.bars
    assert not bar.met
    assert "nothing to compare" in bar.limited_by
    assert [] == told.yardsticks
    assert not [name for name in told.figures if "over" in name or name == "price_held"]
    assert 6.0 == told.figures["capacity_21"]


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("bench", [harvest_replay, budget])
def test_all_of_it_in_small(bench: object, tmp_path: Path) -> None:
    """Their figures mean nothing, and every bar is there."""
    found = bench.run(tmp_path, is_quick=True)  # type: ignore[attr-defined]
    assert found.bars
    assert found.figures["wall_seconds"] > 0

"""Workloads are drawn as the specification tells, none from anything later, and no table is read before it is written."""

import numpy as np
import pytest

from bench.support.data_places.drawn import HIGH, Draw
from bench.support.data_places.stream import (
    CROSS_SET,
    MONTH,
    NEW_SET,
    NEW_TABLES_A_DAY,
    RECURRING,
    REUSED,
    Stream,
    drawn_stream,
)
from core.data_places.problem import checked

DAYS = 30
STREAM = drawn_stream(Draw(4_000, seed=2), DAYS, (10, 20), 8)
LATER = int(np.searchsorted(STREAM.hour, 0.0))
"""The first workload after the first month."""


def sets_before(stream: Stream, workload: int, days: int) -> set[int]:
    """Return the sets that were read in some days before a workload, its own day included."""
    first = np.searchsorted(stream.hour, 24.0 * (stream.hour[workload] // 24 - days))
    return set(stream.sets[first:workload].tolist())


def test_three_of_ten_come_again_and_most_others_reuse_tables() -> None:
    """E7: 0.3 of all workloads recur; 0.85 of first-time ones read a set of tables that is known, and a tenth of the rest another team's table."""
    kinds = np.bincount(STREAM.kind[LATER:], minlength=4) / len(STREAM.kind[LATER:])
    assert 0.3 == pytest.approx(kinds[RECURRING], abs=0.05)
    assert 0.85 == pytest.approx(kinds[REUSED] / (1.0 - kinds[RECURRING]), abs=0.01)
    assert 0.05 <= kinds[CROSS_SET] / (kinds[CROSS_SET] + kinds[NEW_SET]) <= 0.2
    assert len(STREAM.hour) - LATER == pytest.approx(LATER, rel=0.1)


def test_known_sets_were_read_before() -> None:
    """A workload that reuses tables reads a set of the last 30 days, and one that recurs also has the hardware that it had."""
    for workload in range(LATER, len(STREAM.hour), 17):
        if STREAM.kind[workload] == REUSED:
            assert STREAM.sets[workload] in sets_before(STREAM, workload, MONTH)
        if STREAM.kind[workload] == RECURRING:
            assert STREAM.rows[workload] in STREAM.rows[:workload]


def test_no_table_is_read_before_it_is_written() -> None:
    """New tables are 0.002 of all a day, and are read from their day on."""
    assert NEW_TABLES_A_DAY * 4_000 * DAYS == (STREAM.table_day >= 0).sum()
    starts = STREAM.set_starts
    read = set[int]()
    for workload, (number, hour) in enumerate(zip(STREAM.sets.tolist(), STREAM.hour.tolist(), strict=True)):
        tables = STREAM.set_tables[starts[number] : starts[number + 1]]
        assert (STREAM.table_day[tables] <= hour / 24).all(), workload
        read.update(tables[STREAM.table_day[tables] >= 0].tolist())
    assert read


def test_high_priority_asks_for_four_fifths_of_each_type() -> None:
    """The supply in GPUs is for the load of `balance`, and low priority asks for 0.6 or about as much."""
    work = (STREAM.gpus * STREAM.seconds)[LATER:] / (DAYS * 86_400)
    for gpu_type in range(3):
        mine = STREAM.gpu_type[LATER:] == gpu_type
        high = STREAM.band[LATER:] == HIGH
        assert 0.8 == pytest.approx(work[mine & high].sum() / STREAM.problem.supply[:, gpu_type].sum())
    low = work[STREAM.band[LATER:] != HIGH].sum() / STREAM.problem.supply.sum()
    assert 0.3 <= low <= 1.2


def test_one_region_is_closed_in_the_days_that_are_asked_for() -> None:
    """For as long as asked, at any hour; and the problem is one that can be planned for."""
    ((region, begin, until),) = STREAM.closures
    assert 0 <= region < 6
    assert 240 <= begin < until == begin + 8 <= 480
    assert () == drawn_stream(Draw(1_000, seed=1), 2, (0, 2), 0).closures
    checked(STREAM.problem)


def test_rows_are_numbered_as_they_come() -> None:
    """So that the rows of all workloads before an hour are the first ones."""
    assert (np.diff(np.maximum.accumulate(STREAM.rows)) <= 1).all()
    assert np.array_equal(STREAM.rows[STREAM.row_first], np.arange(len(STREAM.row_first)))
    keys = [(STREAM.sets[one], STREAM.gpu_type[one], STREAM.band[one]) for one in STREAM.row_first.tolist()]
    assert len(keys) == len(set(keys))

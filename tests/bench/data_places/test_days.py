"""Days of workloads against plans: what a plan knows, when its copies arrive, and which work waits for data and how long."""

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from bench.data_ready import WAYS, run
from bench.support.data_places.days import (
    CAUSES,
    Change,
    DayFound,
    Days,
    Planner,
    Warm,
    Way,
    by_first_version,
    ours,
    readings_at,
    unplanned,
)
from bench.support.data_places.drawn import BYTES_A_DAY, Draw
from bench.support.data_places.stream import CROSS_SET, REUSED, Stream, drawn_stream
from core.data_places.actions import ADD_COPY, MOVE_HOME
from core.data_places.problem import DataProblem, checked
from core.images.readings import _mean
from core.nouns.instant import SECOND, Instant
from core.nouns.limits import USE_HALF_LIFE, WANT_HALF_LIFE
from core.ranking.credit import FadingUse, charged
from tests.core.data_places.instances import problem_of

COLD = Warm(0, 1.0)
LARGE = 1_000_000
"""Bytes of a table that nothing reads: a day's bytes are 0.02 of it."""
DRAWN = drawn_stream(Draw(2_000, seed=4), 3, (1, 3), 8)


def stream_of(
    hours: list[float],
    reads: list[tuple[int, ...]],
    *,
    days: int = 1,
    home: tuple[int, ...] = (0, 1, 2),
    table_day: tuple[int, ...] = (-30, -30, -30),
    types: list[int] | None = None,
    closures: tuple[tuple[int, int, int], ...] = (),
) -> Stream:
    """Return workloads that read tables of 100 bytes at home in the regions 0 to 2, each with a GPU of type 0, for an hour.

    A fourth table, at home in region 0, is large; region 2 has no GPU of type 1.
    """
    starts = np.cumsum([0, *[len(one) for one in reads]])
    count = len(reads)
    return Stream(
        problem=problem_of([100, 100, 100, LARGE], [*home, 0], [], [[1.0, 1.0], [1.0, 1.0], [1.0, 0.0]]),
        days=days,
        table_day=np.array([*table_day, -30]),
        set_starts=starts,
        set_tables=np.array([table for one in reads for table in one]),
        hour=np.array(hours),
        kind=np.full(count, REUSED),
        sets=np.arange(count),
        gpu_type=np.array(types or [0] * count),
        band=np.ones(count, dtype=np.int64),
        gpus=np.ones(count),
        seconds=np.full(count, 3_600.0),
        closures=closures,
    )


def played(stream: Stream, planner: Planner = unplanned) -> list[DayFound]:
    """Return the days of a stream from V0."""
    return Days(stream, Way(planner), COLD).played()


def test_work_waits_until_its_data_is_copied() -> None:
    """Tables 0 and 1 lie in two regions: the first workload waits for a copy, the second finds it, and table 0 alone waits for nothing."""
    (found,) = played(stream_of([1.5, 3.5, 4.5], [(0, 1), (0, 1), (0,)]))
    assert (3, 1) == (found.workloads, found.waited)
    assert {"known_set": 1} == {cause: count for cause, count in found.causes.items() if count}
    assert [0.5] == found.wait_hours  # the copy of 100 bytes takes 7 minutes
    assert [1, 2, 0, 0] == found.candidates
    assert 3_600.0 == found.gpu_seconds_waited


def test_copy_takes_its_bytes_at_the_rate_of_a_day() -> None:
    """The large table is 50 days' bytes: the wait is as long, and no other copy may begin on days that pay for it."""
    stream = stream_of([1.0, 30.0], [(1, 3), (0, 2)], days=52)
    days = Days(stream, Way(unplanned), COLD)
    found = days.played()
    # The smaller table goes to the larger one.
    assert [1.0] == found[0].wait_hours
    assert days.held[1, 0]
    alone = stream_of([1.0, 30.0], [(3,), (1, 2)], days=52)
    alone.problem.supply[0] = 0.0
    days = Days(alone, Way(unplanned), COLD)
    found = days.played()
    assert LARGE / (BYTES_A_DAY * (LARGE + 300)) * 24 == pytest.approx(found[0].wait_hours[0], abs=1.0)
    # 100 bytes may be copied once the days have paid for the large table.
    assert 46 * 24 < found[1].wait_hours[0] < 50 * 24
    assert sum(day.bytes_share for day in found) <= 52 * BYTES_A_DAY


def test_closed_region_counts_for_nothing() -> None:
    """A table whose only copy is in a closed region is waited for until it opens: nothing can be copied from there. Others are not."""
    (found,) = played(stream_of([2.5, 2.6], [(0,), (1,)], closures=((0, 2, 7),)))
    assert 1 == found.waited
    assert 1 == found.causes["closed"]
    assert [4.5] == found.wait_hours


def test_copy_outside_the_closed_region_is_enough() -> None:
    """A plan's copy lets work run elsewhere."""
    copy = Change(ADD_COPY, 0, 0, 1, 100, keeps=True)
    (found,) = played(stream_of([2.5], [(0,)], closures=((0, 2, 7),)), lambda _: [copy])
    assert 0 == found.waited
    assert [0, 1, 0, 0] == found.candidates


def test_region_without_the_gpu_type_is_no_place() -> None:
    """Table 2 lies where type 1 is not."""
    (found,) = played(stream_of([2.5, 2.6], [(2,), (2,)], types=[0, 1]))
    assert 1 == found.waited


@pytest.mark.parametrize(
    ("kind", "day", "cause"),
    [(REUSED, 0, "new_table"), (REUSED, -30, "known_set"), (CROSS_SET, -30, "cross_set")],
)
def test_cause_of_a_wait(kind: int, day: int, cause: str) -> None:
    """A table of the same day is at its home alone; else the kind of the set tells."""
    stream = stream_of([2.5], [(0, 1)], table_day=(day, -30, -30))
    (found,) = played(replace(stream, kind=np.array([kind])))
    assert {cause: 1} == {name: count for name, count in found.causes.items() if count}


def test_copies_of_a_plan_arrive_in_order_over_the_day() -> None:
    """By bytes at the rate of a day's bytes in a day: the first work is there before the copy, the second after it; a move drops the old home."""
    limit = BYTES_A_DAY * (LARGE + 300)
    large = Change(ADD_COPY, 3, 0, 1, int(limit / 2), keeps=True)
    move = Change(MOVE_HOME, 0, 0, 1, 100, keeps=False)
    stream = stream_of([11.5, 14.5], [(0, 1), (0, 1)])
    days = Days(stream, Way(lambda _: [large, move]), COLD)
    (found,) = days.played()
    assert 1 == found.waited
    assert [1, 1, 2, 0] == days.home.tolist()
    assert not days.held[0, 0]
    assert 0.5 * BYTES_A_DAY == pytest.approx(found.bytes_share, rel=0.02)


def test_plan_knows_nothing_of_its_day() -> None:
    """The problem of each day is the same if all that comes from then on is left out, and can be planned for."""
    seen: list[DataProblem] = []

    def spy(problem: DataProblem) -> list[Change]:
        seen.append(checked(problem))
        return by_first_version(problem)

    Days(DRAWN, Way(spy), COLD).played()
    for day in range(3):
        end = DRAWN.span_of(day)[0]
        columns = ("hour", "kind", "sets", "gpu_type", "band", "gpus", "seconds")
        known = replace(DRAWN, **{name: getattr(DRAWN, name)[:end] for name in columns})
        again: list[DataProblem] = []

        def remembers(problem: DataProblem, again: list[DataProblem] = again) -> list[Change]:
            again.append(problem)
            return by_first_version(problem)

        Days(known, Way(remembers), COLD).played()
        assert np.array_equal(seen[day].job_demand, again[day].job_demand)
        assert np.array_equal(seen[day].job_tables, again[day].job_tables)
        assert np.array_equal(seen[day].copies, again[day].copies)
        assert len(seen[day].sizes) == (DRAWN.table_day < day).sum()


def test_readings_are_those_of_the_queue() -> None:
    """Each row equals the mean of `FadingUse`, as the queue's image computes it, within a milli-GPU."""
    day, day_seconds = 2, 86_400
    now, since = Instant(day * day_seconds * SECOND), -30 * day_seconds * SECOND
    end = DRAWN.span_of(day)[0]
    found = readings_at(DRAWN, DRAWN.hour, day)
    changes: list[tuple[int, int, int]] = []
    for workload in range(end):
        begin = int(DRAWN.hour[workload] * 3_600 * SECOND)
        milli = int(1_000 * DRAWN.gpus[workload])
        changes.append((begin, int(DRAWN.rows[workload]), milli))
        changes.append((begin + int(DRAWN.seconds[workload] * SECOND), int(DRAWN.rows[workload]), -milli))
    for half_life in (USE_HALF_LIFE, WANT_HALF_LIFE):
        uses: dict[int, FadingUse] = {}
        for at, row, milli in sorted(change for change in changes if change[0] <= now):
            use = uses.get(row, FadingUse(at=Instant(at)))
            uses[row] = charged(use, use.gpu_milli + milli, Instant(at), half_life)
        means = {row: _mean(use, now, half_life, now - since) for row, use in uses.items()}
        assert all(found[row] * 1_000 >= mean - 1 for row, mean in means.items())
        equal = [
            row for row, mean in means.items() if mean and found[row] * 1_000 == pytest.approx(mean, abs=1)
        ]
        assert len(equal) > 20


def test_bytes_and_storage_are_kept() -> None:
    """Ours and V1: no day copies more than its bytes, and every table is at its home."""
    for planner in (ours, by_first_version):
        days = Days(DRAWN, Way(planner), COLD)
        found = days.played()
        assert all(day.bytes_share <= BYTES_A_DAY for day in found)
        assert min(days.room) >= 0
        assert days.held[np.arange(len(days.home)), days.home].all()


def test_benchmark_tells_every_figure_in_small_too(tmp_path: Path) -> None:
    """E7: of each way, with its causes; its bars mean something at full size only."""
    findings = run(tmp_path, is_quick=True)
    for way in WAYS:
        prefix = "" if way == "ours" else f"{way}_"
        names = [
            "waiting_share",
            "extra_storage",
            "candidates_two",
            *[f"waiting_by_{cause}" for cause in CAUSES],
        ]
        assert {f"{prefix}{name}" for name in names} <= set(findings.figures)
        causes = sum(findings.figures[f"{prefix}waiting_by_{cause}"] for cause in CAUSES)
        assert findings.figures[f"{prefix}waiting_share_mean"] == pytest.approx(causes)
    assert {"bytes_a_day", "extra_storage", "waiting_share"} == {bar.name for bar in findings.bars}
    assert findings.figures["waiting_share"] <= findings.figures["v1_waiting_share"]

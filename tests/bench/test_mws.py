"""The benchmark of routing policies in small: the shipped router and servers are played, by the same calls for each policy."""

from itertools import islice
from pathlib import Path

import pytest

from bench.mws import MAIN, OTHERS, Tried, figure_of, findings_of, played, run
from bench.support.functions.load import CORE_SECONDS, CallLoad
from bench.support.functions.region import Spans
from core.nouns.instant import SECOND
from core.nouns.quantities import MILLI

IN_SMALL = Spans(60, 60)


def test_calls_are_the_same_at_every_rate() -> None:
    """Only closer together; a call takes as much as it should in the mean, and the rate is reached after the rise."""
    load = CallLoad(1, 200, 8.0)
    slow, fast = (list(islice(load.arrivals(rate, 100.0), 30_000)) for rate in (10.0, 20.0))
    assert [(one.function, one.run_time) for one in slow] == [(one.function, one.run_time) for one in fast]
    assert [one.at for one in slow] == sorted(one.at for one in slow)
    work = sum(one.run_time * load.functions[one.function].need.cpu_milli for one in slow)
    assert CORE_SECONDS == pytest.approx(work / (SECOND * MILLI * len(slow)), rel=0.05)
    assert 500 == pytest.approx(sum(one.at < 100 * SECOND for one in slow), rel=0.1)
    assert 10_000 == pytest.approx(sum(100 * SECOND <= one.at < 1_100 * SECOND for one in slow), rel=0.05)


@pytest.mark.parametrize("way", ["mws", "mws_published", "rate_published", "jsq", "hash", "jsq_waits"])
def test_few_calls_are_answered_in_time(way: str) -> None:
    """Whatever the policy, with executors that start when they are needed first; without limits of capacity."""
    found = played((MAIN | OTHERS)[way], 1, 3.0, IN_SMALL)
    assert found.is_within
    assert 150 < found.calls == len(found.latencies) < 210
    assert 0 < found.starts < found.calls
    assert (found.resizes > 0) == (way in {"mws", "mws_published", "rate_published"}), "others have no sets"


def test_more_than_there_is_is_given_up() -> None:
    """Of 160 cores 228 would be needed without a single start."""
    found = played(MAIN["jsq"], 1, 60.0, Spans(5, 10))
    assert not found.is_within
    assert found.is_given_up


def test_min_worker_set_starts_fewer_executors() -> None:
    """H1: than joining the shortest queue, at a rate which both can take."""
    mws, jsq = (played(MAIN[name], 1, 5.0, IN_SMALL) for name in ("mws", "jsq"))
    assert mws.starts < 0.7 * jsq.starts


def test_bars_are_of_means() -> None:
    """Over the seeds; shares of cold starts are told at rates that all seeds have."""
    found = {
        "mws": [Tried(24.0, {1.0: 0.2, 10.0: 0.02}, 60.0), Tried(26.0, {10.0: 0.04}, 120.0)],
        "jsq": [Tried(12.0, {10.0: 0.3}, 0.0), Tried(13.0, {10.0: 0.3}, 0.0)],
        "hash": [Tried(15.0, {10.0: 0.3}, 0.0), Tried(16.0, {10.0: 0.3}, 0.0)],
    }
    told = findings_of(found, {"mws": 0.03, "jsq": 0.3}, 1.0)
    assert {"capacity_over_jsq": True, "capacity_over_hash": False, "cold_over_jsq_at_half": True} == {
        bar.name: bar.met for bar in told.bars
    }
    assert (2.0, 0.03, 90.0) == tuple(
        round(told.figures[name], 3) for name in ("capacity_over_jsq", "cold_at_10_mws", "resizes_mws")
    )
    assert "cold_at_1_mws" not in told.figures
    assert "<svg" in figure_of(found)


@pytest.mark.slow
def test_all_of_it_in_small(tmp_path: Path) -> None:
    """Its figures mean nothing, and every bar is there."""
    found = run(tmp_path, is_quick=True)
    assert ["capacity_over_jsq", "capacity_over_hash", "cold_over_jsq_at_half"] == [
        bar.name for bar in found.bars
    ]
    assert found.figures["capacity_mws"] > 0

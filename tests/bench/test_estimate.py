"""The benchmark of estimates: what it reads from a log, what it counts, and the jobs that it draws where there is no trace."""

import random

import pytest
from msgspec.structs import replace

from bench.estimate import FIRST, JOBS, Start, bars_of, figure_of, figures_of, is_chosen_on, read
from bench.support.estimate.load import drawn, load_of
from core.estimating.bands import StartEstimate
from core.events.queue import AttemptClosed, RegionAdded, WorkloadAwarded, WorkloadBound
from core.fact import Event, Fact
from core.nouns.ids import GLOBAL_LOG, WorkloadId
from core.nouns.instant import SECOND, Instant, seconds
from core.nouns.limits import RUN_TIME_DEFAULT
from core.nouns.workload import EndCause, Phase
from scenarios.schema.fleet import FleetSpec
from tests.builders import EU, START, a_fact, submitted

BAND = StartEstimate(seconds(100), seconds(50), seconds(120), seconds(300), "4m")


def log_of(*events: tuple[float, Event]) -> list[Fact]:
    """Facts of the queue, each at its second."""
    return [
        a_fact(event, number, log=GLOBAL_LOG, at=Instant(START + round(at * SECOND)))
        for number, (at, event) in enumerate(events, 1)
    ]


def workload(number: int, at: float, up: float | None, ran: float = 0.0) -> list[tuple[float, Event]]:
    """One of them, from its submission to its end, as far as it comes."""
    name = WorkloadId(f"w-{number}")
    events: list[tuple[float, Event]] = [(at, replace(submitted(number), start=BAND))]
    if up is not None:
        events += [(up, WorkloadAwarded(name, 1, EU, 0, ())), (up, WorkloadBound(name, 1, EU, 1))]
    if ran and up is not None:
        end = AttemptClosed(name, 1, EndCause.COMPLETED, Phase.COMPLETED, EU, 1)
        events.append((up + ran, end))
    return events


def test_starts_are_read_from_the_log() -> None:
    """What was said at the submission beside what came; what never started is counted and not judged."""
    events = [
        (0.0, RegionAdded(EU)),
        *workload(1, 0, 40),
        *workload(2, 50, 170),
        *workload(3, 200, 600),
        *workload(4, 700, None),
    ]
    played = read(log_of(*events))
    assert [40, 120, 400] == [one.waited / SECOND for one in played.starts]
    assert (1, 0) == (played.never, played.unestimated)
    figures = figures_of(played)
    assert 1 / 3 == figures["band_hit_rate"] == figures["sooner_than_band"] == figures["later_than_band"]
    assert (1 / 2, 2 / 3) == (figures["band_hit_rate_waited"], figures["waited_share"])
    assert 80 / 60 == figures["median_error_minutes"]
    assert 140 / 60 == figures["median_error_minutes_waited"]
    assert (1, 3) == (figures["never_started"], figures["starts"])


def test_run_times_are_compared_with_earlier_predictions() -> None:
    """The first run is compared with the default, the second with the first run."""
    minutes = RUN_TIME_DEFAULT / SECOND
    events = [
        (0.0, RegionAdded(EU)),
        *workload(1, 0, 1, 4 * minutes),
        *workload(2, 9_000, 9_001, 2 * minutes),
    ]
    figures = figures_of(read(log_of(*events)))
    assert (4, 1) == pytest.approx(
        (figures["run_time_error_factor_default"], figures["run_times_by_default"])
    )
    assert (2, 1) == pytest.approx((figures["run_time_error_factor_family"], figures["run_times_by_family"]))


@pytest.mark.parametrize(("share", "is_met"), [(0.7, False), (0.75, True), (0.879, True), (0.9, False)])
def test_band_that_holds_too_much_is_a_miss_too(share: float, is_met: bool) -> None:
    """It would say nothing of when."""
    bars = {bar.name: bar.met for bar in bars_of({"band_hit_rate": share, "estimate_p99_100k_ms": 1.0})}
    assert {"band_hit_rate": is_met, "estimate_p99_100k_ms": True} == bars


def test_headline_is_a_stretch_on_which_nothing_was_chosen() -> None:
    """The constants fit the stretches on which they were chosen better than they may fit any other."""
    assert not is_chosen_on(FIRST, JOBS)
    assert all(is_chosen_on(first, JOBS) for first in (0, 30_000, 39_999, 45_000))
    assert not is_chosen_on(60_000, JOBS)


def test_figure_is_drawn() -> None:
    """With lines for all, for those that waited, for the newest, and the two that the bar is between."""
    starts = [Start(number, BAND, seconds(100)) for number in range(1_200)]
    names = [
        "of all starts so far",
        "of those so far that waited more than a minute",
        "of the last 500 starts",
    ]
    figure = figure_of(starts)
    assert [1] * 5 == [figure.count(f">{name}</text>") for name in (*names, "0.75", "0.88")]


def test_jobs_that_are_drawn_are_like_the_trace() -> None:
    """They come in crowds, ask for what they are told to ask for, and come when they came."""
    jobs = drawn(2_000, 480, 0.9)
    assert jobs == drawn(2_000, 480, 0.9)
    assert jobs == sorted(jobs, key=lambda job: job.at or 0.0)
    spans = sorted(job.seconds or 0.0 for job in jobs)
    assert 600 < spans[1_000] < 2_400
    span = (jobs[-1].at or 0.0) - (jobs[0].at or 0.0)
    asked = sum(job.gpus * min(job.seconds or 0.0, 86_400.0) for job in jobs)
    assert 0.9 == pytest.approx(asked / span / 480, rel=0.1)
    arrivals = load_of(jobs, hours_max=24, gpus_max=128).arrivals(
        FleetSpec(regions=2, nodes=30), random.Random(1)
    )
    assert 0 == arrivals[0].at
    assert [round(((job.at or 0.0) - (jobs[0].at or 0.0)) * SECOND) for job in jobs] == [
        one.at for one in arrivals
    ]
    assert {job.tenant for job in jobs} == {one.spec.tenant for one in arrivals}

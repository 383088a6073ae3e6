"""Starts as they were estimated when their workloads were submitted, beside when they came.

Jobs of a public trace arrive at a plane in the simulated world, at their own times, on a fleet so small that half of them wait for
more than a minute. What the queue said of each at its submission stands in its log, and so does its start: both are read from
there, so that nothing can be estimated from what came later. Every start counts, from the first one on, of which nothing was known
yet. The band is to hold four of five; that is told of all, and of those apart that waited for more than a minute, for whoever starts at
once is easily right. How long jobs ran is compared in the same way with what was predicted.

The jobs are a stretch of the trace on which nothing was chosen; `--first` plays another, and `chosen_on` is 1 where a job of the stretch
had a part in the choice of the constants of estimates.

source    the jobs: bench/support/estimate/load.py. The constants were chosen on four other stretches of the same trace, in a model of a
          queue (docs/decisions/0025-when-it-will-start.md)
"""

# rows: M36

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import structlog
from msgspec import Struct

from bench.crash import facts_on
from bench.support.estimate.cost import costs
from bench.support.estimate.load import FOLDER, drawn, load_of, traced
from bench.support.report import Bar, Findings, at_most, within
from core.estimating.bands import FLOOR, StartEstimate
from core.estimating.prediction import PredictedBy
from core.estimating.scores import THOUSAND, log_ratio
from core.events.queue import AttemptClosed, WorkloadBound, WorkloadSubmitted
from core.fact import Fact
from core.images import GlobalImage
from core.nouns.ids import GLOBAL_LOG, WorkloadId
from core.nouns.instant import SECOND, Nanoseconds
from core.nouns.workload import Phase
from mizzen.views.plots import Curve, draw_curves, figure_option
from runtime.gc_tuning import settle_down
from runtime.virtual_loop import VirtualLoop
from scenarios.play.run import Run
from scenarios.play.simulated import simulated_run
from scenarios.scenario import ScenarioSpec
from scenarios.schema.fleet import FleetSpec
from scenarios.trace import TracedJob
from scenarios.worlds.simulated.world import START, SimulatedWorld

FIRST, JOBS, QUICK_JOBS = 40_000, 10_000, 60
CHOSEN_ON = (5_000, 15_000, 30_000, 50_000)
"""First jobs of the stretches, of 10,000 jobs each, on which the constants of estimates were chosen."""
FLEET = FleetSpec(regions=2, nodes=30, workers=1, agents=1)
QUICK_FLEET = FleetSpec(regions=2, nodes=2, workers=1, agents=1)
GPUS_PER_NODE = 8
WAITING, QUICK_WAITING = 100_000, 1_000
HOURS_MAX, QUICK_HOURS_MAX = 48.0, 0.25
GPUS_MAX = 128
DRAWN_LOAD = 0.9
DRAIN_HOURS = 24.0
"""After the last arrival, for what still waits to start."""
LOOK_SECONDS = 600.0
HELD, HELD_TOLERANCE = 0.815, 0.065
"""The bar: between 0.75 and 0.88."""
WAITED: Nanoseconds = Nanoseconds(60 * SECOND)
WINDOW = 500
MINUTE = 60 * SECOND


class Start(Struct, frozen=True):
    """One workload's."""

    number: int
    """By submission."""
    estimate: StartEstimate
    waited: Nanoseconds

    @property
    def is_inside(self) -> bool:
        """Whether it lies in its band."""
        return self.estimate.low <= self.waited <= self.estimate.high

    @property
    def error(self) -> int:
        """Nanoseconds between what came and the middle of the band."""
        return abs(self.waited - self.estimate.middle)

    @property
    def octaves(self) -> float:
        """The same as a ratio."""
        return abs(log_ratio(self.waited + FLOOR, self.estimate.middle + FLOOR)) / THOUSAND


class Played(Struct, frozen=True):
    """What stands in the log."""

    starts: list[Start]
    never: int
    """Submitted, and not started yet."""
    unestimated: int
    run_times: dict[PredictedBy, list[int]]
    """By what they were predicted from: what came by that, as a thousand times its logarithm to the base 2."""


def options(parser: argparse.ArgumentParser) -> None:
    """Where the trace is, how much of it, and where the figure goes."""
    parser.add_argument(
        "--data", type=Path, default=FOLDER, help="a folder with the trace (default: %(default)s)"
    )
    parser.add_argument("--first", type=int, default=FIRST, help="its first job (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=JOBS, help="default: %(default)s")
    parser.add_argument("--nodes", type=int, help="in each of two regions (default: 30)")
    figure_option(parser)


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """All jobs, once."""
    if chosen is None:
        parser = argparse.ArgumentParser()
        options(parser)
        chosen = parser.parse_args([])
    fleet = QUICK_FLEET if is_quick else FLEET
    if chosen.nodes:
        fleet = FleetSpec(regions=2, nodes=chosen.nodes, workers=1, agents=1)
    count = QUICK_JOBS if is_quick else chosen.jobs
    jobs = () if is_quick else traced(chosen.data, chosen.first, count)
    is_traced = bool(jobs)
    if not jobs:
        jobs = drawn(count, gpus_in(fleet), DRAWN_LOAD)
    begun, on_cpu = time.perf_counter(), time.process_time()
    cost = costs(QUICK_WAITING if is_quick else WAITING, is_quick=is_quick)
    played = play(jobs, fleet, QUICK_HOURS_MAX if is_quick else HOURS_MAX)
    figures = figures_of(played) | {
        **{f"{name.removesuffix('_ms')}_100k_ms": value for name, value in cost.items()},
        "is_traced": float(is_traced),
        "chosen_on": float(is_traced and is_chosen_on(chosen.first, count)),
        "seconds": time.perf_counter() - begun,
        "cpu_seconds": time.process_time() - on_cpu,
    }
    if chosen.figure:
        chosen.figure.write_text(figure_of(played.starts), encoding="utf-8")
    return Findings(figures, bars_of(figures))


def is_chosen_on(first: int, count: int) -> bool:
    """Return whether a job of this stretch of the trace had a part in the choice of the constants."""
    return any(first < begin + JOBS and begin < first + count for begin in CHOSEN_ON)


def gpus_in(fleet: FleetSpec) -> int:
    """All of them."""
    assert isinstance(fleet.regions, int)
    assert fleet.nodes is not None
    return fleet.regions * fleet.nodes * GPUS_PER_NODE


def play(jobs: Sequence[TracedJob], fleet: FleetSpec, hours_max: float) -> Played:
    """Until everything has started, or for a day more."""
    load = load_of(jobs, hours_max=hours_max, gpus_max=min(GPUS_MAX, gpus_in(fleet) // 2))
    spec = ScenarioSpec("estimate", "Nothing happens but work.", fleet, (load,))
    settle_down()
    loop = VirtualLoop(START)
    try:
        one = simulated_run(spec, 1, loop)
        assert isinstance(one.world, SimulatedWorld)
        with structlog.testing.capture_logs():
            loop.run_until_complete(_play(one, one.world))
        return read(facts_on(one.world, GLOBAL_LOG))
    finally:
        loop.cancel_all()
        loop.close()


async def _play(one: Run, world: SimulatedWorld) -> None:
    try:
        await one.begin()
        await one.strike()
        until = world.now() + 3_600 * DRAIN_HOURS
        while world.now() < until and any(
            not row.started_at and not row.phase.is_terminal
            for row in world.unit("job_queue").state.image.workloads.rows.values()
        ):
            await world.sleep(LOOK_SECONDS)
        assert not world.failures, world.failures
        assert not one.users.problems, one.users.problems
    finally:
        await one.stop()


def read(facts: Sequence[Fact]) -> Played:
    """From the queue's log alone."""
    image = GlobalImage.empty(("history",))
    run_times: dict[PredictedBy, list[int]] = {}
    said: dict[WorkloadId, Fact] = {}
    starts, unestimated = [], 0
    for fact in facts:
        event = fact.event
        if isinstance(event, AttemptClosed):
            live = image.history.live[event.workload]
            ran = fact.at - live.up_at
            if event.phase == Phase.COMPLETED and live.up_at:
                run_times.setdefault(live.prediction.by, []).append(log_ratio(ran, live.prediction.duration))
        image.fold(fact)
        if isinstance(event, WorkloadSubmitted):
            said[event.workload] = fact
        elif isinstance(event, WorkloadBound) and (submitted := said.pop(event.workload, None)) is not None:
            promise = submitted.event
            assert isinstance(promise, WorkloadSubmitted)
            if promise.start is None:
                unestimated += 1
            else:
                waited = Nanoseconds(fact.at - submitted.at)
                starts.append(Start(promise.number, promise.start, waited))
    return Played(starts, len(said), unestimated, run_times)


def figures_of(played: Played) -> dict[str, float]:
    """Of all starts, and of those that waited."""
    starts = played.starts
    waited = [one for one in starts if one.waited > WAITED]
    spans = sorted(one.waited for one in starts)
    figures = {
        "band_hit_rate": _share(starts),
        "band_hit_rate_waited": _share(waited),
        "sooner_than_band": sum(one.waited < one.estimate.low for one in starts) / max(1, len(starts)),
        "later_than_band": sum(one.waited > one.estimate.high for one in starts) / max(1, len(starts)),
        "median_error_minutes": _median([one.error for one in starts]) / MINUTE,
        "median_error_minutes_waited": _median([one.error for one in waited]) / MINUTE,
        "median_error_factor": 2 ** _median([one.octaves for one in starts]),
        "median_error_factor_waited": 2 ** _median([one.octaves for one in waited]),
        "median_band_minutes_waited": _median([one.estimate.high - one.estimate.low for one in waited])
        / MINUTE,
        "starts": float(len(starts)),
        "waited_share": len(waited) / max(1, len(starts)),
        "wait_minutes_median_waited": _median([one.waited for one in waited]) / MINUTE,
        "wait_minutes_p90": spans[len(spans) * 9 // 10] / MINUTE if spans else 0.0,
        "never_started": float(played.never),
        "unestimated": float(played.unestimated),
    }
    for kind, ratios in played.run_times.items():
        figures[f"run_time_error_factor_{kind}"] = 2 ** (_median([abs(one) for one in ratios]) / THOUSAND)
        figures[f"run_times_by_{kind}"] = float(len(ratios))
    return figures


def bars_of(figures: dict[str, float]) -> list[Bar]:
    """A band that holds more says as little of when as one that holds less."""
    limit = "errors come in crowds: hundreds of jobs that are submitted together all start sooner than said, or later"
    slow = "sums by type and level are added up in plain Python"
    return [
        within("band_hit_rate", figures["band_hit_rate"], HELD, HELD_TOLERANCE, limit),
        at_most("estimate_p99_100k_ms", figures["estimate_p99_100k_ms"], 5, slow),
    ]


def figure_of(starts: Sequence[Start]) -> str:
    """The share that was inside, as it went."""
    total = float(len(starts))
    ends = [(0.0, HELD - HELD_TOLERANCE), (total, HELD - HELD_TOLERANCE)]
    curves = [
        Curve("of all starts so far", _so_far(starts, starts)),
        Curve(
            "of those so far that waited more than a minute",
            _so_far(starts, [one for one in starts if one.waited > WAITED]),
        ),
        Curve(f"of the last {WINDOW} starts", _lately(starts)),
        Curve("0.75", ends),
        Curve("0.88", [(at, HELD + HELD_TOLERANCE) for at, _ in ends]),
    ]
    return draw_curves("Starts inside their 80 % band", "starts so far", "share inside (of 1)", curves)


def _so_far(starts: Sequence[Start], chosen: Sequence[Start]) -> list[tuple[float, float]]:
    """At some places, from where there are enough of those that are chosen."""
    at = {one.number: place for place, one in enumerate(starts, 1)}
    points, inside = [], 0
    for count, one in enumerate(chosen, 1):
        inside += one.is_inside
        if count >= WINDOW and count % max(1, len(chosen) // 200) == 0:
            points.append((float(at[one.number]), inside / count))
    return points


def _lately(starts: Sequence[Start]) -> list[tuple[float, float]]:
    places = range(WINDOW, len(starts) + 1, max(1, len(starts) // 200))
    return [(float(at), _share(starts[at - WINDOW : at])) for at in places]


def _share(starts: Sequence[Start]) -> float:
    return sum(one.is_inside for one in starts) / max(1, len(starts))


def _median(values: Sequence[float]) -> float:
    return float(statistics.median(values)) if values else 0.0

"""Wide gangs among a stream of narrow work at a load of 0.95, with starts that are promised and without.

The whole plane is played in the simulated world, from the submission to the end of each workload, twice over the same arrivals:
as it is, and with no start ever promised. Everybody says a longest duration, 1.1 to 3 times of what it works. The load counts
the GPU-seconds of work alone; what starts and stops hold beside that comes on top.

promises_broken     starts that were shown to somebody, and not kept, for no reason outside the plane (scenarios/accounting/reservations.py)
utilisation         of all GPU-seconds between a quarter of the arrivals' span and its end, what attempts held
utilisation_loss    how much less that is with promises
wide_wait_*         minutes from a wide gang's submission until its capacity was granted, or until the arrivals end
"""

import random
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog
from msgspec import Struct
from msgspec.structs import replace

from bench.support.report import Findings, at_most
from components.job_queue.reservations import StartPromising
from core.nouns.instant import SECOND
from core.nouns.placement import gpu_milli_of
from core.nouns.quantities import MILLI
from runtime.gc_tuning import settle_down
from runtime.virtual_loop import VirtualLoop
from scenarios.accounting.attempts import percentile
from scenarios.play.run import Run
from scenarios.play.simulated import simulated_run
from scenarios.scenario import CalmSpec, ScenarioSpec, all_checks
from scenarios.schema.fleet import FleetSpec
from scenarios.workload import Workload
from scenarios.workloads.bounded import Bounded
from scenarios.worlds.simulated.world import START

LOAD = 0.95
WIDE_SHARE = 0.3
"""Of the work, what is wide gangs'. Chosen: enough that they matter, not so much that they are the stream."""
SEEDS, QUICK_SEEDS = (1, 2, 3), (1,)
SETTLED = 0.25
"""Of the arrivals' span, what is left out of the utilisation: the fleet is empty at first."""
MINUTES_MEDIAN, MINUTES_MAX = 12.0, 60.0


class Size(Struct, frozen=True):
    """How much is played."""

    nodes: int
    """Of 8 GPUs, in each of two regions."""
    workloads: int
    wide_gpus: int
    """Half of a region's."""


FULL, QUICK = Size(24, 1200, 96), Size(8, 60, 32)


class Played(Struct, frozen=True):
    """What came of one run."""

    utilisation: float
    wide: list[float]
    """Minutes that each waited, in order."""
    narrow: list[float]
    figures: dict[str, float]


def run(_: Path, *, is_quick: bool) -> Findings:
    """Over some seeds, with promises and without."""
    size, seeds = (QUICK, QUICK_SEEDS) if is_quick else (FULL, SEEDS)
    with structlog.testing.capture_logs():
        promised = [_played(size, seed, StartPromising.most) for seed in seeds]
        unpromised = [_played(size, seed, 0) for seed in seeds]
    figures = {
        "load": LOAD,
        "workloads": sum(one.figures["submitted"] for one in promised),
        "wide_gangs": float(sum(len(one.wide) for one in promised)),
        "promises": sum(one.figures["promises"] for one in promised),
        "promises_kept": sum(one.figures["promises_kept"] for one in promised),
        "promises_broken": sum(one.figures["promises_broken"] for one in promised),
    }
    for name, runs in (("promised", promised), ("unpromised", unpromised)):
        figures[f"utilisation_{name}"] = statistics.fmean(one.utilisation for one in runs)
        for which in ("wide", "narrow"):
            waits = sorted(minutes for one in runs for minutes in getattr(one, which))
            for share in (50, 90, 100):
                figures[f"{which}_wait_p{share}_minutes_{name}"] = percentile(waits, share / 100)
    figures["utilisation_loss"] = figures["utilisation_unpromised"] - figures["utilisation_promised"]
    return Findings(
        figures,
        [
            at_most(
                "promises_broken",
                figures["promises_broken"],
                0,
                "a promise rests on something that is no bound",
            ),
            at_most(
                "utilisation_loss",
                figures["utilisation_loss"],
                0.02,
                "nodes that are kept stand idle where nothing that waits would surely end in time",
            ),
        ],
    )


def _played(size: Size, seed: int, most: int) -> Played:
    settle_down()
    spec = spec_of(size, seed)
    loop = VirtualLoop(START)
    try:
        with promising(most):
            played = simulated_run(spec, seed, loop)
            outcome = loop.run_until_complete(played.play())
    finally:
        loop.cancel_all()
        loop.close()
    assert outcome.is_good, outcome.first_problem()
    begun = min(played.witness.submitted_at.values())
    end = begun + spec.span
    wide, narrow = _waits(played, size, end)
    return Played(_utilisation(played, size, begun, end), wide, narrow, outcome.figures)


@contextmanager
def promising(most: int) -> Iterator[None]:
    """So many starts are promised at a time; 0: none ever."""
    before = StartPromising.most
    StartPromising.most = most
    try:
        yield
    finally:
        StartPromising.most = before


def spec_of(size: Size, seed: int) -> ScenarioSpec:
    """Arrivals over as long as makes their work the load, of this seed."""
    fleet = FleetSpec(regions=2, nodes=size.nodes, workers=2, nodes_per_rack=8)
    works = _gpu_seconds((_narrow(size.workloads, 1.0),), fleet, seed)
    each = _gpu_seconds((_wide(size, 100, 1.0),), fleet, seed) / 100
    gangs = max(2, round(works * WIDE_SHARE / (1 - WIDE_SHARE) / each))
    gpus = 2 * size.nodes * 8
    loads = (_narrow(size.workloads, 1.0), _wide(size, gangs, 1.0))
    hours = _gpu_seconds(loads, fleet, seed) / (LOAD * gpus) / 3600
    return ScenarioSpec(
        name="bench_backfill",
        survives="Wide gangs among narrow work.",
        fleet=fleet,
        workload=tuple(replace(load, hours=hours) for load in loads),
        checks=all_checks(),
        calm=CalmSpec(60 * 24),
    )


def _narrow(workloads: int, hours: float) -> Bounded:
    """Up to a node each."""
    return Bounded(
        workloads=workloads,
        hours=hours,
        gpus_max=8,
        priority=3,
        fails_share=0,
        cancels_share=0,
        minutes_median=MINUTES_MEDIAN,
        minutes_max=MINUTES_MAX,
    )


def _wide(size: Size, workloads: int, hours: float) -> Bounded:
    """As long as the others, and of half a region each."""
    return replace(_narrow(workloads, hours), gpus_max=None, gpus=size.wide_gpus)


def _gpu_seconds(loads: tuple[Workload, ...], fleet: FleetSpec, seed: int) -> float:
    """The work of all that these draw."""
    spec = ScenarioSpec("load", "", fleet, loads)
    total = 0.0
    for arrival in spec.arrivals(random.Random(f"load/{seed}")):
        for job in arrival.spec.jobs:
            assert job.emulation is not None, "a drawn load is emulated"
            total += job.tasks * job.need.gpu_milli / MILLI * job.emulation.work / SECOND
    return total


def _utilisation(played: Run, size: Size, begun: float, end: float) -> float:
    since = begun + SETTLED * (end - begun)
    held = 0.0
    for attempts in played.witness.accounting.attempts.values():
        for one in attempts:
            until = end if one.ended_at is None else min(end, one.ended_at)
            held += one.gpus * max(0.0, until - max(since, one.granted_at))
    return held / (2 * size.nodes * 8 * (end - since))


def _waits(played: Run, size: Size, end: float) -> tuple[list[float], list[float]]:
    wide: list[float] = []
    narrow: list[float] = []
    witness = played.witness
    specs = {workload: row.spec for workload, row in witness.queue.workloads.rows.items()}
    for workload, submitted_at in witness.submitted_at.items():
        attempts = witness.accounting.attempts.get(workload, [])
        granted_at = min((one.granted_at for one in attempts), default=end)
        is_wide = gpu_milli_of(specs[workload].jobs) >= size.wide_gpus * MILLI
        (wide if is_wide else narrow).append(max(0.0, granted_at - submitted_at) / 60)
    return sorted(wide), sorted(narrow)

"""A load from a trace: jobs of Microsoft's Philly clusters in 2017, with their times, sizes and virtual clusters.

source    Jeon et al., USENIX ATC 2019 (github.com/msr-fiddle/philly-traces, CC BY 4.0), as `jobs.csv.gz` with the columns
          submit_time, duration_s, num_gpus, vc. It tells neither who failed nor what was checkpointed: those are drawn as in
          scenarios/load.py.
"""

import csv
import gzip
import random
from datetime import datetime
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from core.nouns.ids import TenantName
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.quantities import Amount
from scenarios.fleet import emulated_regions
from scenarios.load import Arrival, draw_load
from scenarios.scenario import FleetSpec, LoadSpec, ScenarioError

FILE = "jobs.csv.gz"
COLUMNS = ("submit_time", "duration_s", "num_gpus", "vc")


class TracedJob(Struct, frozen=True):
    """One line."""

    at: float
    """Seconds, from anywhere."""
    duration: float
    gpus: int
    cluster: str


def trace_load(directory: Path, load: LoadSpec, fleet: FleetSpec, dice: random.Random) -> list[Arrival]:
    """As many jobs as the load has workloads, one after the other from a place that is drawn, with the load's compression.

    What lasts longer than the load's `minutes_max` is cut to that, and nobody asks for more GPUs than its `gpus_max`.
    Raises ScenarioError when there is no such trace.
    """
    jobs = _read(directory / FILE)
    if len(jobs) < load.workloads:
        raise ScenarioError(f"{directory / FILE}: {len(jobs)} jobs, and {load.workloads} are asked for")
    first = dice.randrange(len(jobs) - load.workloads + 1)
    window = jobs[first : first + load.workloads]
    drawn = draw_load(load, fleet, dice)
    arrivals = [
        _arrival(load, fleet, job, job.at - window[0].at, like)
        for job, like in zip(window, drawn, strict=True)
    ]
    return sorted(arrivals, key=lambda arrival: arrival.at)


def _read(path: Path) -> list[TracedJob]:
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            if tuple(reader.fieldnames or ()) != COLUMNS:
                raise ScenarioError(f"{path}: its columns are not {', '.join(COLUMNS)}")
            return [
                TracedJob(
                    datetime.fromisoformat(row["submit_time"]).timestamp(),
                    float(row["duration_s"]),
                    int(row["num_gpus"]),
                    row["vc"],
                )
                for row in reader
            ]
    except FileNotFoundError as error:
        raise ScenarioError(f"{path}: there is no such file") from error
    except (OSError, EOFError, ValueError) as error:
        raise ScenarioError(f"{path}: {error}") from error


def _arrival(load: LoadSpec, fleet: FleetSpec, job: TracedJob, after: float, like: Arrival) -> Arrival:
    region = next(iter(emulated_regions(fleet).values()))
    gpus = max(1, min(job.gpus, load.gpus_max, region.nodes * region.gpus_per_node))
    per_task = min(gpus, region.gpus_per_node)
    work = max(1.0, min(job.duration, 60 * load.minutes_max)) / load.compression
    (drawn,) = like.spec.jobs
    assert drawn.emulation is not None, "a drawn load is emulated"
    fails_after = Nanoseconds(0)
    if drawn.emulation.fails_after:
        share = drawn.emulation.fails_after / drawn.emulation.work
        fails_after = seconds(work * share)
    emulation = replace(drawn.emulation, work=seconds(work), fails_after=fails_after)
    need = Amount(1000 * per_task, 8000 * per_task, (64 << 30) * per_task)
    spec = replace(
        like.spec,
        tenant=TenantName(job.cluster),
        jobs=(replace(drawn, tasks=-(-gpus // per_task), need=need, emulation=emulation),),
    )
    return Arrival(Nanoseconds(int(after / load.compression * SECOND)), spec, like.cancel_after)

"""Loads from traces: jobs that somebody recorded, instead of jobs that are drawn.

A trace lies in a folder of its own, outside the repository. What it does not tell is drawn as for other loads.
"""

import csv
import gzip
import random
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from core.nouns.ids import TenantName
from core.nouns.instant import Nanoseconds
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import JobSpec, RetryLimits, WorkloadSpec
from runtime.fleet_file import EMULATED_NODE, RegionSpec
from scenarios.schema.fleet import FleetSpec, emulated_regions
from scenarios.schema.parts import FieldError
from scenarios.workload import Arrival, Workload, draw_region, draw_retry

HOUSE = Path(__file__).resolve().parents[1]


class TracedJob(Struct, frozen=True):
    """One line of a trace. None stands for what it does not tell."""

    gpus: int
    """Of its one job; 0: it wants a part of a node without them."""
    at: float | None = None
    """Seconds, from anywhere."""
    seconds: float | None = None
    """How long it ran."""
    gpu_milli: int = MILLI
    """Of each of its GPUs."""
    gpu_types: tuple[str, ...] = ()
    """Of which it wants one; empty: any."""
    cpu_milli: int | None = None
    memory_bytes: int | None = None
    tenant: str = ""
    priority: int | None = None
    has_failed: bool | None = None


class Trace(Workload, frozen=True, kw_only=True):
    """So many jobs of a trace, one after the other from a place that is drawn. Their pattern in time is stretched, or
    shrunk, to the hours of the load; nobody runs longer than `minutes_max`, nor asks for more GPUs than `gpus_max`.
    """

    directory: str
    """Where the trace is: a path, from the root of the repository on unless it is absolute."""

    @property
    def folder(self) -> Path:
        """The same, absolute."""
        return (HOUSE / self.directory).resolve()

    def jobs(self) -> Sequence[TracedJob]:
        """All of them, by arrival if the trace tells that. Raises FieldError."""
        raise NotImplementedError

    def problem(self, fleet: FleetSpec, path: tuple[str | int, ...]) -> FieldError | None:
        """That there is no such trace, or not enough of it."""
        try:
            self._enough()
        except FieldError as error:
            return FieldError((*path, *error.path), error.text)
        return super().problem(fleet, path)

    def arrivals(self, fleet: FleetSpec, dice: random.Random) -> list[Arrival]:
        """From a place that is drawn. Raises FieldError."""
        jobs = self._enough()
        first = dice.randrange(len(jobs) - self.workloads + 1)
        window = jobs[first : first + self.workloads]
        drawn = [
            self.arrival(self._workload(fleet, dice, number, job), share * self.span, dice)
            for number, (job, share) in enumerate(zip(window, _shares(window, dice), strict=True))
        ]
        return sorted(drawn, key=lambda arrival: arrival.at)

    def _enough(self) -> Sequence[TracedJob]:
        jobs = self.jobs()
        if len(jobs) < self.workloads:
            text = f"{self.workloads} are asked for, and {self.folder} has {len(jobs)} jobs"
            raise FieldError(("workloads",), text)
        return jobs

    def _workload(
        self, fleet: FleetSpec, dice: random.Random, number: int, traced: TracedJob
    ) -> WorkloadSpec:
        """What the trace says of it, and what is drawn because the trace does not."""
        region = _region(fleet, dice, traced.gpu_types, self.gpu_type)
        work = self.draw_minutes(dice) * 60 if traced.seconds is None else traced.seconds
        emulation = self.emulation(max(1.0, min(work, 60 * self.minutes_max)), dice)
        if traced.has_failed is not None:
            # It fails just before it would have been done.
            fails_after = Nanoseconds(emulation.work - 1 if traced.has_failed else 0)
            emulation = replace(emulation, fails_after=fails_after)
        job = self.job(region, self.at_most(traced.gpus, region), emulation)
        return WorkloadSpec(
            name=f"{self.name}-{number}",
            jobs=(replace(job, need=_need(traced, job)),),
            tenant=self._tenant_of(traced, dice),
            # What the scenario says goes before what the trace says.
            priority=self.draw_priority(dice)
            if self.priority is not None or traced.priority is None
            else traced.priority,
            retry=RetryLimits() if traced.has_failed else draw_retry(dice),
        )

    def _tenant_of(self, traced: TracedJob, dice: random.Random) -> TenantName:
        """What the scenario says goes before what the trace says, here too."""
        is_traced = traced.tenant and not (self.tenant or self.tenants)
        return TenantName(traced.tenant) if is_traced else self.draw_tenant(dice)


def read_csv(
    path: Path, columns: Sequence[str], read: Callable[[dict[str, str]], TracedJob]
) -> list[TracedJob]:
    """Every line of a compressed file that begins with these columns. Raises FieldError."""
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            if tuple(reader.fieldnames or ())[: len(columns)] != tuple(columns):
                raise FieldError(("directory",), f"{path}: its columns are not {', '.join(columns)}")
            jobs: list[TracedJob] = []
            for row in reader:
                where = f"{path}: line {reader.line_num}"
                if None in row.values():
                    raise FieldError(("directory",), f"{where}: it is cut off")
                try:
                    jobs.append(read(row))
                except ValueError as error:
                    raise FieldError(("directory",), f"{where}: {error}") from error
            return jobs
    except FileNotFoundError as error:
        raise FieldError(("directory",), f"{path}: there is no such file") from error
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error) as error:
        raise FieldError(("directory",), f"{path}: it cannot be read ({error})") from error


def _shares(window: Sequence[TracedJob], dice: random.Random) -> list[float]:
    """When each of them arrives, as a share of the span; drawn, if the trace does not tell."""
    times = [job.at for job in window if job.at is not None]
    if len(times) < len(window):
        return sorted(dice.random() for _ in window)
    first, span = times[0], (times[-1] - times[0]) or 1.0
    return [(at - first) / span for at in times]


def _region(fleet: FleetSpec, dice: random.Random, wanted: Sequence[str], gpu_type: str) -> RegionSpec:
    """Of a type that the job wants, if the fleet has one of them."""
    types = {region.gpu_type for region in emulated_regions(fleet).values()}
    known = [one for one in wanted if one in types]
    return draw_region(fleet, dice, gpu_type or (dice.choice(known) if known else ""))


def _need(traced: TracedJob, job: JobSpec) -> Amount:
    """Of one task: what the trace says, as far as a node has it."""
    need = job.need
    cpu_milli, memory_bytes = traced.cpu_milli, traced.memory_bytes
    return Amount(
        need.gpu_milli * traced.gpu_milli // MILLI if traced.gpus else 0,
        need.cpu_milli if cpu_milli is None else min(cpu_milli, EMULATED_NODE.cpu_milli),
        need.memory_bytes if memory_bytes is None else min(memory_bytes, EMULATED_NODE.memory_bytes),
    )

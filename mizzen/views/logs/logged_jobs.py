"""The jobs of a plane's own log, as policies are compared on them: submission, width and run time of each.

The run time is that of a workload's image (core/images/history.py): of all attempts whose work counted. A job's steps are that time
times its speed on the GPU type that it ran on, in a shared pool or not. Speeds come from a file, by family; a family that has none there has the same speed, one
step a second, on all types.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from core.estimating.family import family_of
from core.events.queue import AttemptClosed, WorkloadAwarded, WorkloadCancelled, WorkloadSubmitted
from core.fact import Fact
from core.images import GlobalImage
from core.images.history import LiveRun
from core.nouns.fleet import CPU_TYPE
from core.nouns.ids import GLOBAL_LOG, WorkloadId
from core.nouns.instant import SECOND, Instant
from core.nouns.pool import SHARED_GPUS
from core.nouns.quantities import MILLI
from core.nouns.workload import Phase
from core.sharing.jobs import SharingJob
from core.sharing.speeds import Shape, SpeedTable, with_shapes
from mizzen.terminal.output import CommandError
from mizzen.views.logs.log_source import PlaneSource, Source, is_path, log_file, with_file
from mizzen.views.plane_reads import on_plane

ALL = 1 << 62
NAMED_MAX = 3
"""Families that a note names; the others it counts."""


class LoggedRun(Struct):
    """One workload of a log."""

    workload: WorkloadId
    family: str
    tenant: str
    submitted: Instant
    gpu_type: str
    """On which its newest attempt was awarded."""
    gpus: int = 0
    """That all of its tasks hold, at its end."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Run time by GPU type."""


class LoggedJobs(Struct, frozen=True):
    """The jobs of a log and their speeds, to compare policies on."""

    jobs: tuple[SharingJob, ...]
    """By submission; the arrival of the first is 0."""
    table: SpeedTable
    """Speeds of every family that is among the jobs."""
    notes: tuple[str, ...]
    """A sentence for each sort of workload that was left out, and for each guess."""


class JobsOfLog:
    """Gathers jobs from the facts of a queue's log."""

    def __init__(self) -> None:
        self._image = GlobalImage.empty(("history",))
        self._open: dict[WorkloadId, LoggedRun] = {}
        self._runs: list[LoggedRun] = []
        self._left_out: Counter[str] = Counter()
        self._not_whole = self._in_parts = 0

    def take(self, fact: Fact) -> None:
        """Go on by one fact, in the order of the log."""
        event = fact.event
        live, ran = None, 0
        if isinstance(event, AttemptClosed | WorkloadCancelled):
            # The image forgets a workload that ends, and its row has the run time all the same.
            live = self._image.history.live.get(event.workload)
            ran = live.ran if live is not None else 0
        self._image.fold(fact)
        match event:
            case WorkloadSubmitted(workload=workload, spec=spec):
                family, gpu_type = family_of(spec.name), spec.jobs[0].gpu_type
                self._open[workload] = LoggedRun(workload, family, spec.tenant, fact.at, gpu_type)
            case WorkloadAwarded(workload=workload, charge=charge) if charge:
                name = max(charge, key=lambda name: (charge[name], name))
                self._open[workload].gpu_type = name.removeprefix(SHARED_GPUS)
            case WorkloadCancelled(workload=workload) if live is not None:
                self._end(self._open[workload], live, is_whole=False)
            case AttemptClosed(workload=workload, phase=phase) if live is not None:
                run = self._open[workload]
                seconds = (live.ran - ran) / SECOND
                if seconds > 0:
                    run.seconds[run.gpu_type] = run.seconds.get(run.gpu_type, 0.0) + seconds
                if phase.is_terminal:
                    self._end(run, live, is_whole=phase == Phase.COMPLETED)

    def _end(self, run: LoggedRun, live: LiveRun, *, is_whole: bool) -> None:
        del self._open[run.workload]
        run.gpus = -(-live.gpu_milli // MILLI)
        if live.is_service:
            self._left_out["are services"] += 1
        elif not run.seconds:
            self._left_out["never ran"] += 1
        elif not run.gpus:
            self._left_out["use no GPUs"] += 1
        else:
            self._not_whole += not is_whole
            self._in_parts += live.gpu_milli % MILLI > 0
            self._runs.append(run)

    def found(self, speeds: SpeedTable | None = None, gpu_types: Sequence[str] = ()) -> LoggedJobs:
        """Return the jobs.

        speeds      by family, in steps a second; None: nothing is known
        gpu_types   of the fleet that policies are to be compared on; those of the log and of the speeds are added
        """
        runs = sorted(self._runs, key=lambda run: (run.submitted, run.workload))
        known, guesses = with_shapes(speeds or SpeedTable({}, {}), ((run.family, run.gpus) for run in runs))
        types = sorted({*gpu_types, *known.gpu_types, *(name for run in runs for name in run.seconds)})
        unknown = _without_speeds(runs, known)
        ran: dict[Shape, list[str]] = {}
        for run in runs:
            ran.setdefault((run.family, run.gpus), []).extend(run.seconds)
        alone = {
            shape: _equal(types, where) if shape[0] in unknown else known.alone[shape]
            for shape, where in ran.items()
        }
        jobs = []
        for run in runs:
            shape = run.family, run.gpus
            steps = sum(seconds * alone[shape][gpu_type] for gpu_type, seconds in run.seconds.items())
            arrival = (run.submitted - runs[0].submitted) / SECOND
            jobs.append(SharingJob(run.workload, run.family, run.gpus, steps, arrival, entity=run.tenant))
        table = SpeedTable(
            alone, {pair: both for pair, both in known.together.items() if {*pair} <= alone.keys()}
        )
        return LoggedJobs(tuple(jobs), table, (*self._notes(unknown), *guesses))

    def _notes(self, unknown: Sequence[str]) -> list[str]:
        notes = []
        left_out = self._left_out + Counter({"have not ended": len(self._open)})
        if left_out.total():
            parts = ", ".join(f"{count} {why}" for why, count in sorted(left_out.items()))
            notes.append(f"left out of the log's workloads: {parts}")
        if self._not_whole:
            notes.append(
                f"jobs that failed or were cancelled are taken as long as they ran: {self._not_whole}"
            )
        if self._in_parts:
            notes.append(f"jobs that held a part of a GPU are taken to hold it whole: {self._in_parts}")
        if unknown:
            more = f" and {len(unknown) - NAMED_MAX} more" if len(unknown) > NAMED_MAX else ""
            names = ", ".join(unknown[:NAMED_MAX])
            notes.append(
                f"no speeds are known of {names}{more} where they ran: they are taken to be equal on all GPU types"
            )
        return notes


def _equal(types: Sequence[str], ran: Sequence[str]) -> dict[str, float]:
    """Return one step a second on all types; on CPU slots only where the job ran on some, and on GPUs only where it ran on any."""
    kinds = {name == CPU_TYPE for name in ran}
    return {name: 1.0 for name in types if (name == CPU_TYPE) in kinds}


def _without_speeds(runs: Iterable[LoggedRun], known: SpeedTable) -> list[str]:
    """Return the families of which some run has no speed on a type that it ran on, by name."""
    found = {
        run.family
        for run in runs
        if any(known.alone.get((run.family, run.gpus), {}).get(name, 0.0) <= 0 for name in run.seconds)
    }
    return sorted(found)


def logged_jobs(log: str, speeds: SpeedTable | None = None, gpu_types: Sequence[str] = ()) -> LoggedJobs:
    """Return the jobs of a queue's log: `global` on the running plane, or a .sqlite file. Raises CommandError."""
    if is_path(log):
        path = log_file(log)
        gathered = asyncio.run(with_file(path, gathered_from))
    elif log == GLOBAL_LOG:
        gathered = on_plane(lambda bus, _: gathered_from(PlaneSource(bus, GLOBAL_LOG)))
    else:
        raise CommandError(
            f"log {log} is not a queue's: name `{GLOBAL_LOG}`, or the path of its .sqlite file"
        )
    found = gathered.found(speeds, gpu_types)
    if not found.jobs:
        why = f" ({found.notes[0]})" if found.notes else ""
        raise CommandError(f"log {log} has no job that ran and has ended{why}")
    return found


async def gathered_from(source: Source) -> JobsOfLog:
    """Return the jobs gathered from all facts of a log up to its head. Raises CommandError."""
    gathered = JobsOfLog()
    async for fact in source.each_from(1, ALL):
        gathered.take(fact)
    return gathered

"""The jobs of a plane's log: run times of all attempts that counted, widths, types, and speeds by family."""

import asyncio
from pathlib import Path

import pytest

from core.events.queue import (
    AttemptClosed,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadChanged,
)
from core.fact import Event
from core.nouns.ids import GLOBAL_LOG, WorkloadId
from core.nouns.instant import SECOND, Instant
from core.nouns.workload import EndCause, Kind, Phase
from core.sharing.jobs import SharingJob
from core.sharing.speeds import SpeedTable
from mizzen.terminal.output import CommandError
from mizzen.views.logs.log_source import PlaneSource
from mizzen.views.logs.logged_jobs import JobsOfLog, gathered_from, logged_jobs
from store.rows import row_of
from store.sqlite import SqliteStore
from tests.builders import EU, START, a_fact, a_job, a_spec, opened, submitted
from tests.mizzen.half_plane import half_plane
from tests.runtime.aids import Place, virtual

Timed = tuple[int, Event]
"""Seconds after the begin, and what happened then."""


def awarded(number: int, epoch: int = 1, **charge: int) -> WorkloadAwarded:
    """It goes to a region, where it holds so many GPUs by type."""
    milli = {gpu_type: 1_000 * gpus for gpu_type, gpus in charge.items()}
    return WorkloadAwarded(WorkloadId(f"w-{number}"), epoch, EU, 0, (), charge=milli)


def bound(number: int, epoch: int = 1) -> WorkloadBound:
    """Its gang is up."""
    return WorkloadBound(WorkloadId(f"w-{number}"), epoch, EU, 1)


def closed(number: int, epoch: int = 1, phase: Phase = Phase.COMPLETED, *, saved: int = 0) -> AttemptClosed:
    """An attempt ends. A checkpoint of attempt `saved` is what is left of it."""
    causes = {Phase.PENDING: EndCause.PREEMPTED, Phase.FAILED: EndCause.TASK_FAILED}
    cause = causes.get(phase, EndCause.COMPLETED)
    return AttemptClosed(WorkloadId(f"w-{number}"), epoch, cause, phase, EU, 1, saved)


def ran(number: int, begun: int, ended: int, gpu_type: str = "H100", gpus: int = 1) -> tuple[Timed, ...]:
    """One attempt that completes."""
    return (
        (begun, awarded(number, **{gpu_type: gpus})),
        (begun, bound(number)),
        (ended, closed(number)),
    )


def facts(*story: Timed) -> list[tuple[int, Event]]:
    """In the order of time, as a log has them."""
    return sorted(((0, opened()), *story), key=lambda one: one[0])


def gathered(*story: Timed) -> JobsOfLog:
    """What is gathered from a log in which this happened."""
    jobs = JobsOfLog()
    for number, (second, event) in enumerate(facts(*story), 1):
        jobs.take(a_fact(event, number, log=GLOBAL_LOG, at=Instant(START + second * SECOND)))
    return jobs


def written(directory: Path, *story: Timed) -> Path:
    """A log's file in which this happened."""

    async def fill() -> None:
        keeper = await SqliteStore(directory).open(GLOBAL_LOG, "id")
        rows = [
            row_of(a_fact(event, number, log=GLOBAL_LOG, at=Instant(START + second * SECOND)))
            for number, (second, event) in enumerate(facts(*story), 1)
        ]
        await keeper.append(rows, 1)
        await keeper.close()

    asyncio.run(fill())
    return directory / "global.sqlite"


WIDE = a_spec(a_job(2, 4), name="llama-7b-run3", tenant="ads")
STORY = (
    (10, submitted(1, a_spec(name="bert-1"))),
    (40, submitted(2, WIDE)),
    *ran(1, 60, 160),
    *ran(2, 100, 400, "A100", 8),
)


def test_width_family_and_run_time() -> None:
    """A job is as wide as all its tasks, is of its family, arrived when it was submitted, and took as long as it ran."""
    found = gathered(*STORY).found()
    expected = (
        SharingJob("w-1", "bert", 1, 100.0, entity="default"),
        SharingJob("w-2", "llama-7b-run", 8, 300.0, arrival=30.0, entity="ads"),
    )
    assert expected == found.jobs
    assert (
        "no speeds are known of bert, llama-7b-run where they ran: they are taken to be equal on all GPU types",
    ) == found.notes
    equal = {"A100": 1.0, "H100": 1.0, "V100": 1.0}
    assert {("bert", 1): equal, ("llama-7b-run", 8): equal} == gathered(*STORY).found(
        None, ["V100"]
    ).table.alone


def test_speeds_of_a_file() -> None:
    """Steps are the run time at the speed of the type that it ran on, also where the width is guessed; and that is told."""
    speeds = SpeedTable({("llama-7b-run", 4): {"A100": 6.0, "H100": 10.0}, ("bert", 1): {"A100": 2.0}}, {})
    found = gathered(*STORY).found(speeds)
    assert [100.0, 300 * 12.0] == [job.steps for job in found.jobs]
    assert {"A100": 12.0, "H100": 20.0} == found.table.alone["llama-7b-run", 8]
    # Of bert nothing is known on H100s, where it ran.
    assert {"A100": 1.0, "H100": 1.0} == found.table.alone["bert", 1]
    assert 2 == len(found.notes)
    assert "8 GPUs of llama-7b-run were not measured: the speed for each GPU is that of 4 GPUs" in found.notes


def test_slots_of_cpus_are_no_gpus() -> None:
    """Work that ran on CPU slots is not taken to run on GPUs, nor the other way around."""
    story = (
        *((0, submitted(number, a_spec(name=name))) for number, name in ((1, "bert"), (2, "etl"))),
        *ran(1, 0, 10),
        *ran(2, 0, 10, "cpu"),
    )
    alone = gathered(*story).found(None, ["A100"]).table.alone
    assert {("bert", 1): {"A100": 1.0, "H100": 1.0}, ("etl", 1): {"cpu": 1.0}} == alone


def test_gpus_of_a_shared_pool_are_of_their_type() -> None:
    """What is charged for GPUs of a shared pool has a name of its own; the job ran on the type all the same, and has its speed there."""
    story = ((0, submitted(1, a_spec(name="bert"))), *ran(1, 0, 10, "shared/V100"))
    found = gathered(*story).found(SpeedTable({("bert", 1): {"V100": 4.0, "K80": 1.0}}, {}))
    assert ({("bert", 1): {"V100": 4.0, "K80": 1.0}}, ()) == (found.table.alone, found.notes)
    assert [40.0] == [job.steps for job in found.jobs]


def test_attempts_that_counted_add_up() -> None:
    """An attempt that left a checkpoint counts, on the type that it ran on; one whose work was repeated does not."""
    story = (
        (0, submitted(1)),
        *((0, event) for event in (awarded(1, 1, H100=1), bound(1, 1))),
        (50, closed(1, 1, Phase.PENDING, saved=1)),
        *((60, event) for event in (awarded(1, 2, H100=1), bound(1, 2))),
        (90, closed(1, 2, Phase.PENDING, saved=1)),
        *((100, event) for event in (awarded(1, 3, A100=1), bound(1, 3))),
        (110, closed(1, 3)),
    )
    assert [60.0] == [job.steps for job in gathered(*story).found().jobs]
    speeds = SpeedTable({("train", 1): {"H100": 4.0, "A100": 1.0}}, {})
    assert [50 * 4.0 + 10 * 1.0] == [job.steps for job in gathered(*story).found(speeds).jobs]


def test_what_is_left_out_is_told() -> None:
    """Services, what has not ended, never ran or uses no GPU; and what failed or was cancelled is as long as it ran."""
    story = (
        *((0, submitted(number)) for number in (1, 2, 3, 4)),
        (0, submitted(5, a_spec(kind=Kind.SERVICE))),
        (0, submitted(6, a_spec(a_job(1, 0, cpus=4)))),
        (0, submitted(7, a_spec(a_job(1, 0.5)))),
        (1, WorkloadCancelled(WorkloadId("w-1"))),
        (1, awarded(2, H100=1)),
        (1, bound(2)),
        *((2, event) for event in (awarded(3, H100=1), bound(3))),
        (12, closed(3, phase=Phase.FAILED)),
        *((2, event) for event in (awarded(4, H100=1), bound(4))),
        (22, closed(4, 1, Phase.PENDING, saved=1)),
        (30, WorkloadCancelled(WorkloadId("w-4"))),
        *ran(5, 1, 9),
        *ran(6, 1, 9),
        *ran(7, 1, 9),
    )
    found = gathered(*story).found()
    assert [("w-3", 10.0, 1), ("w-4", 20.0, 1), ("w-7", 8.0, 1)] == [
        (job.id, job.steps, job.gpus) for job in found.jobs
    ]
    expected = (
        "left out of the log's workloads: 1 are services, 1 have not ended, 1 never ran, 1 use no GPUs",
        "jobs that failed or were cancelled are taken as long as they ran: 2",
        "jobs that held a part of a GPU are taken to hold it whole: 1",
        "no speeds are known of train where they ran: they are taken to be equal on all GPU types",
    )
    assert expected == found.notes


def test_width_is_that_at_the_end() -> None:
    """A job that was made wider while it ran is taken as wide as it ended."""
    change = WorkloadChanged(WorkloadId("w-1"), 1, (a_job(4),))
    story = ((0, submitted()), *ran(1, 0, 100), (50, change))
    assert [4] == [job.gpus for job in gathered(*story).found().jobs]


def test_file_of_a_log(tmp_path: Path) -> None:
    """The file is read from its first fact; one in which nothing ran, and the name of another log, are refused."""
    path = written(tmp_path / "logs", *STORY)
    found = logged_jobs(str(path))
    assert gathered(*STORY).found() == found
    empty = written(tmp_path / "empty", (0, submitted()))
    with pytest.raises(CommandError) as caught:
        logged_jobs(str(empty))
    expected = (
        f"log {empty} has no job that ran and has ended (left out of the log's workloads: 1 have not ended)"
    )
    assert expected == str(caught.value)
    for name in ("region.eu", str(tmp_path / "none.sqlite")):
        with pytest.raises(CommandError):
            logged_jobs(name)


@virtual
async def test_log_of_a_running_plane(place: Place) -> None:
    """The reader beside the keeper is asked for every fact. All of these are of one instant, so nothing ran."""
    plane = await half_plane(
        place, (), awarded(1, H100=1), bound(1), closed(1), submitted(2, a_spec(name="bert-2"))
    )
    found = (await gathered_from(PlaneSource(plane.bus, GLOBAL_LOG))).found()
    assert ((), SpeedTable({}, {})) == (found.jobs, found.table)
    assert ("left out of the log's workloads: 1 have not ended, 1 never ran",) == found.notes

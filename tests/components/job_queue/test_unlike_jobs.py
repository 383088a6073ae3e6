"""Workloads of several unlike jobs, from the submission to the log's file and back."""

from pathlib import Path

from msgspec.structs import replace

from core.codec import encode
from core.events.queue import WorkloadSubmitted
from core.fact import Event
from core.images import GlobalImage, empty_image
from core.messages.broker import SolicitBid
from core.nouns.ids import GLOBAL_LOG
from core.nouns.instant import seconds
from core.nouns.workload import Emulation
from store.port import Row
from store.sqlite import SqliteStore, facts_in
from tests.builders import a_job, a_spec, of_types
from tests.components.support.job_queue import W1, Start, a_job_queue, submit
from tests.matching import said

TRAINERS = a_job(3, 8, name="trainer", cpus=48, gib=512)
READERS = replace(
    a_job(16, 0, name="reader", cpus=4, gib=16), emulation=Emulation(work=seconds(30), fails_after=seconds(9))
)
EVALUATOR = replace(
    of_types(a_job(1, 0.5, name="evaluator", gpu_type="A100"), "A100", "H100"),
    emulation=Emulation(work=seconds(60), checkpoint_every=seconds(5), exit_code=3),
    gpu_memory=40 << 30,
    is_alone=True,
)
UNLIKE = a_spec(TRAINERS, READERS, EVALUATOR, name="online", priority=5, data=["clicks"], tenant="ml")


async def test_unlike_jobs_come_back_from_the_log(start: Start, tmp_path: Path) -> None:
    """M2: three jobs of 3, 16 and 1 tasks, of other needs and sorts, are accepted, written to a file, read and folded: each as it was."""
    queue = a_job_queue(start)
    assert W1 == submit(queue, UNLIKE)
    rows = [
        Row(fact.sequence, fact.at, fact.cause, fact.actor, fact.event.about, encode(fact.event))
        for fact in queue.logs[GLOBAL_LOG]
        if isinstance(fact.event, Event)
    ]
    log = await SqliteStore(tmp_path).open(GLOBAL_LOG, "id-1")
    await log.append(rows, 1)
    await log.close()
    image, submissions = empty_image(GLOBAL_LOG), []
    for fact in facts_in(tmp_path, GLOBAL_LOG):
        image.fold(fact)
        submissions += [fact.event] if isinstance(fact.event, WorkloadSubmitted) else []
    assert isinstance(image, GlobalImage)
    assert (
        [UNLIKE]
        == [event.spec for event in submissions]
        == [row.spec for row in image.workloads.rows.values()]
    )
    assert (3, 16, 1) == tuple(job.tasks for job in image.workloads.rows[W1].spec.jobs)


def test_unlike_jobs_are_asked_for_together(start: Start) -> None:
    """M2: regions are asked for room for all jobs of the workload, in their order, and not for one after the other."""
    queue = a_job_queue(start)
    submit(queue, a_spec(TRAINERS, READERS))
    assert {(TRAINERS, READERS)} == {request.jobs for request in said(queue.wake(), SolicitBid)}

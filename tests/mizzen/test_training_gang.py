"""A controller that lets a gang go once it has a checkpoint."""

import asyncio

import pytest
from msgspec.structs import replace

from bench.support.task_control.model import JOB
from core.messages.control import AdvanceNotice, JobHandle, OperationAsked, TaskControlRequest
from core.nouns.ids import TenantName
from core.nouns.instant import seconds
from core.nouns.maintenance import MaintenanceKind
from core.nouns.operation import WHOLE, Ack, OperationKind, task_number
from mizzen.control.harness import ControllerHarness
from mizzen.control.parallelism import Parallelism
from mizzen.control.training_gang import TrainingGang

EIGHT = Parallelism(tensor=2, pipeline=2, data=2)
"""Ranks 0, 1, 4, 5 are one copy of the model, the others another."""


def asked(
    *operations: int,
    task: int = WHOLE,
    kind: OperationKind = OperationKind.MOVE,
    deadline_seconds: float = 0,
    notice: str = "",
    sequence: int = 1,
) -> TaskControlRequest:
    """One after the other, all alike."""
    deadline = seconds(deadline_seconds)
    requests = tuple(OperationAsked(number, kind, task, "", notice, deadline) for number in operations)
    return TaskControlRequest(TenantName("t"), "c", JOB, requests, (), (), (), sequence)


def noticed(request: TaskControlRequest, *tasks: int) -> TaskControlRequest:
    """With the notice m-1 about these tasks."""
    notice = AdvanceNotice("m-1", MaintenanceKind.REBOOT, tasks, "", seconds(3600), seconds(60))
    return replace(request, notices=(notice,))


class Application:
    """Writes a checkpoint when asked, which takes until it is let to finish."""

    def __init__(self) -> None:
        self.begun = 0
        self.may_finish = asyncio.Event()
        self.breaks = False
        self.sizes: list[int] = []

    async def checkpoint(self) -> None:
        """As a user's function would."""
        self.begun += 1
        await self.may_finish.wait()
        if self.breaks:
            raise OSError("the disk is full")

    async def resize(self, tasks: int) -> None:
        """The same."""
        self.sizes.append(tasks)


class Waits:
    """Stands for whatever serves a controller: notes when it wants to be asked again."""

    def __init__(self, controller: TrainingGang) -> None:
        self.wanted = asyncio.Event()
        controller.attach(self.reconsider)

    def reconsider(self, _: JobHandle | None) -> None:
        """It has come to another mind."""
        self.wanted.set()


async def test_by_default_the_region_waits_for_a_checkpoint() -> None:
    """T21: the word is given for when there is one that is newer."""
    for kind in (OperationKind.MOVE, OperationKind.RESTART, OperationKind.RESIZE, OperationKind.UPDATE):
        assert [Ack(1, after_checkpoint=True)] == list(await TrainingGang().process(asked(1, kind=kind)))


async def test_operation_that_cannot_wait_for_a_checkpoint_does_not() -> None:
    """T21: near its deadline; when the gang does not run; and an operation that is not the gang's."""
    gang = TrainingGang()
    assert [Ack(1)] == list(await gang.process(asked(1, deadline_seconds=60)))
    assert [Ack(1, after_checkpoint=True)] == list(await gang.process(asked(1, deadline_seconds=61)))
    assert [Ack(1)] == list(await gang.process(replace(asked(1), unhealthy=(WHOLE,))))
    assert [Ack(1)] == list(await gang.process(asked(1, kind=OperationKind.START)))
    assert [Ack(1)] == list(await gang.process(asked(1, task=3)))


async def test_preempted_gang_saves_first() -> None:
    """M18: it has a minute, which is as much as there ever is; and its deadline does the rest."""
    wanted = asked(1, kind=OperationKind.PREEMPT, deadline_seconds=60)
    assert [Ack(1, after_checkpoint=True)] == list(await TrainingGang().process(wanted))
    harness = ControllerHarness(TrainingGang(), tasks=4, is_gang=True)
    await harness.operate(OperationKind.PREEMPT, deadline_seconds=60)
    await harness.pass_seconds(59)
    assert [] == harness.unavailable()
    await harness.pass_seconds(2)
    assert harness.unavailable() == [WHOLE]


async def test_the_application_is_made_to_save_first() -> None:
    """T21: one checkpoint for all that was asked for before it began; the word is given when it is complete."""
    application = Application()
    gang = TrainingGang(checkpoint=application.checkpoint)
    waits = Waits(gang)
    assert [] == list(await gang.process(asked(1)))
    await asyncio.sleep(0)
    assert [] == list(await gang.process(asked(1, 2, sequence=2)))
    assert 1 == application.begun
    application.may_finish.set()
    await waits.wanted.wait()
    # The second operation was asked for after the checkpoint had begun: what it saved may be older.
    assert [Ack(1)] == list(await gang.process(asked(1, 2, sequence=2)))
    waits.wanted.clear()
    await waits.wanted.wait()
    assert [Ack(1), Ack(2)] == list(await gang.process(asked(1, 2, sequence=3)))
    assert 2 == application.begun


async def test_a_checkpoint_that_fails_is_left_to_the_application() -> None:
    """It writes another some time, and the region waits for that."""
    application = Application()
    application.breaks = True
    application.may_finish.set()
    gang = TrainingGang(checkpoint=application.checkpoint)
    waits = Waits(gang)
    assert [] == list(await gang.process(asked(1)))
    await waits.wanted.wait()
    assert [Ack(1, after_checkpoint=True)] == list(await gang.process(asked(1)))
    assert 1 == application.begun


async def test_another_attempt_begins_again() -> None:
    """Operations are numbered from one again: a checkpoint for the first of the last attempt is none for this."""
    application = Application()
    application.may_finish.set()
    gang = TrainingGang(checkpoint=application.checkpoint)
    waits = Waits(gang)
    await gang.process(asked(1))
    await waits.wanted.wait()
    later = replace(asked(1), job=JobHandle(JOB.region, JOB.workload, JOB.epoch + 1))
    assert [] == list(await gang.process(later))
    assert [] == list(await gang.process(asked(1))), "nobody waits for a word on the attempt before"


async def test_an_elastic_gang_asks_for_fewer_tasks() -> None:
    """T21: the copy of the model on the nodes concerned is given up, once, and the gang goes after a checkpoint."""
    application = Application()
    gang = TrainingGang(EIGHT, elastic=True, resize=application.resize)
    request = noticed(asked(1, notice="m-1", deadline_seconds=3600), 4, 5)
    for _ in range(2):
        assert [Ack(1, after_checkpoint=True)] == list(await gang.process(request))
    assert [4] == application.sizes
    # A second one of the same attempt counts the first: it is the other copy, so none would be left.
    second = noticed(asked(2, notice="m-1", sequence=2), 2)
    assert [Ack(2, after_checkpoint=True)] == list(await gang.process(second))
    assert [4] == application.sizes


async def test_the_next_attempt_is_as_small_as_was_asked() -> None:
    """Ranks are numbered by how many copies of the model there are: after giving one up they lie elsewhere."""
    application = Application()
    three = Parallelism(tensor=2, pipeline=2, data=3)
    gang = TrainingGang(three, elastic=True, resize=application.resize)
    await gang.process(noticed(asked(1, notice="m-1"), 0))
    assert [8] == application.sizes
    assert three == gang.parallelism
    again = JobHandle(JOB.region, JOB.workload, JOB.epoch + 1)
    await gang.process(replace(noticed(asked(1, notice="m-1"), 4), job=again))
    assert EIGHT == gang.parallelism
    assert [8, 4] == application.sizes


async def test_a_gang_is_moved_as_it_is_when_fewer_tasks_do_not_help() -> None:
    """No copy is left; or nobody told which ranks are concerned; or it is not elastic; or nothing is to move."""
    application = Application()
    for request, elastic in (
        (noticed(asked(1, notice="m-1"), 0, 2), True),
        (noticed(asked(1, notice="m-1"), WHOLE), True),
        (asked(1, notice="m-1"), True),
        (noticed(asked(1, notice="m-1"), 0), False),
        (noticed(asked(1, kind=OperationKind.UPDATE), 0), True),
    ):
        gang = TrainingGang(EIGHT, elastic=elastic, resize=application.resize)
        assert [Ack(1, after_checkpoint=True)] == list(await gang.process(request))
    assert [] == application.sizes


def test_tasks_with_several_ranks_leave_whole() -> None:
    """A task is asked for or not: where it holds ranks of two copies, both leave with it."""
    application = Application()
    one = TrainingGang(EIGHT, elastic=True, resize=application.resize, ranks_per_task=2)
    assert 1 == one.copies_left([0])
    both = TrainingGang(EIGHT, elastic=True, resize=application.resize, ranks_per_task=4)
    assert 0 == both.copies_left([1])
    # Six copies of two ranks, on three tasks of four: a task that leaves takes two of them.
    six = Parallelism(tensor=2, data=6)
    pairs = TrainingGang(six, elastic=True, resize=application.resize, ranks_per_task=4)
    assert 4 == pairs.copies_left([2])
    # On two tasks of six ranks, six copies of a pipeline of two stages, one of each on either task: none is left.
    stages = TrainingGang(
        Parallelism(pipeline=2, data=6), elastic=True, resize=application.resize, ranks_per_task=6
    )
    assert 0 == stages.copies_left([1])
    # Tasks of other jobs hold no rank.
    assert 6 == pairs.copies_left([task_number(1, 0)])
    with pytest.raises(ValueError, match="no whole number"):
        TrainingGang(EIGHT, ranks_per_task=3)
    with pytest.raises(ValueError, match="elastic"):
        TrainingGang(elastic=True)


async def test_with_the_rules_of_a_region() -> None:
    """T21: a drained gang goes on until it has saved something newer, then ends, and comes back elsewhere."""
    harness = ControllerHarness(TrainingGang(), tasks=2, is_gang=True, spares=2, takes_seconds=30)
    await harness.checkpoint(10)
    await harness.drain(0)
    await harness.pass_seconds(600)
    assert 1 == harness.epoch, "it has saved nothing since"
    await harness.checkpoint(20)
    await harness.pass_seconds(60)
    assert 2 == harness.epoch


async def test_maintenance_does_not_wait_for_a_checkpoint_beyond_its_window() -> None:
    """T15 beside T21: at the deadline the gang is stopped, whether it saved anything or not."""
    harness = ControllerHarness(TrainingGang(), tasks=2, is_gang=True, spares=2, takes_seconds=30)
    await harness.notice(0, starts_in_seconds=300, lasts_seconds=60)
    await harness.pass_seconds(290)
    assert 1 == harness.epoch
    await harness.pass_seconds(60)
    assert 2 == harness.epoch

"""Changing what a workload runs and how many tasks it has: asked of a real queue, and what it comes to."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from core.events.control import AttemptChanged
from core.events.queue import WorkloadChanged
from core.messages.queue import CancelWorkload, ChangeWorkload
from core.nouns.ids import GLOBAL_LOG, WorkloadId
from core.nouns.operation import ControlSpec
from core.nouns.workload import JobSpec, Kind, Phase, WorkloadSpec
from mizzen.actions.workload_changes import STAY, change, staying, text_of, update, with_tasks
from mizzen.connect.plane import RequestRefused
from mizzen.jobs.file import Job, read_job
from mizzen.jobs.source import Source, sheet_of
from mizzen.terminal.output import FAILED, MISUSED, CommandError
from tests.builders import EU_LOG, a_job, a_spec
from tests.mizzen.half_plane import awarded, half_plane
from tests.mizzen.nodes_scene import nodes, service
from tests.runtime.aids import Place, virtual

W1 = WorkloadId("w-1")
SERVICE = (nodes("w0", 0), *service("w-1", {0: 1}))
ONE = a_spec(kind=Kind.SERVICE)


def job_file(text: str) -> Job:
    """As it would be submitted."""
    return read_job(sheet_of(Source("job.yaml", text, "job.yaml")), Path("/home/ada"))


def emulated(tasks: int = 1, work: str = "60s", more: str = "") -> Job:
    """A file that asks for the workload that `a_spec` is, or for another like it."""
    text = f"name: train\nemulate: {{work: {work}}}\ntasks: {tasks}\nresources: {{gpus: H100:1}}\n{more}"
    return job_file(text)


@virtual
async def test_resize_of_a_running_workload(place: Place) -> None:
    """The queue records it, and the region hears of it; said again, it changes nothing."""
    plane = await half_plane(place, SERVICE, *awarded(), spec=ONE)
    for is_new in (True, False):
        done = await change(plane.bus, W1, lambda spec: with_tasks(spec, 3, ""))
        assert (is_new, 1, Phase.RUNNING, 3) == (
            done.is_new,
            done.revision,
            done.phase,
            done.spec.jobs[0].tasks,
        )
    await place.sleep(5)
    assert [WorkloadChanged(W1, 1, (a_job(3),))] == await plane.events(GLOBAL_LOG, WorkloadChanged)
    assert [AttemptChanged(W1, 1, 1, (a_job(3),))] == await plane.events(EU_LOG, AttemptChanged)


@virtual
async def test_change_after_another_users_change(place: Place) -> None:
    """The change is made again from what the workload is now: a change of the other job stays."""
    plane = await half_plane(place, spec=a_spec(a_job(1), a_job(1, name="eval")))
    hurried = False

    def to(spec: WorkloadSpec) -> tuple[JobSpec, ...]:
        nonlocal hurried
        if not hurried:
            hurried = True
            other = (a_job(1), a_job(5, name="eval"))
            plane.bus.say(ChangeWorkload(W1, 0, other))
        return with_tasks(spec, 2, "main")

    done = await change(plane.bus, W1, to)
    assert (2, (2, 5)) == (done.revision, tuple(job.tasks for job in done.spec.jobs))


@virtual
async def test_change_that_others_always_overtake(place: Place) -> None:
    """The command ends after a few tries."""
    plane = await half_plane(place)
    tries = 0

    def to(_: WorkloadSpec) -> tuple[JobSpec, ...]:
        nonlocal tries
        tries += 1
        plane.bus.say(ChangeWorkload(W1, tries - 1, (a_job(10 + tries),)))
        return (a_job(2),)

    with pytest.raises(CommandError, match="others change it all the time"):
        await change(plane.bus, W1, to)
    assert 5 == tries


@virtual
async def test_update_from_a_job_file(place: Place) -> None:
    """Its jobs are the file's."""
    plane = await half_plane(place)
    done = await update(plane.bus, W1, emulated(2, "90s"))
    (changed,) = await plane.events(GLOBAL_LOG, WorkloadChanged)
    assert (2, 90_000_000_000) == (changed.jobs[0].tasks, changed.jobs[0].emulation.work)
    assert changed.jobs == done.spec.jobs


@virtual
async def test_update_that_is_refused(place: Place) -> None:
    """Every problem at its place in the file."""
    plane = await half_plane(place)
    text = "name: train\nrun: x\nresources: {gpus: H100:2}\n"
    with pytest.raises(CommandError, match="nothing was changed: The request is not well formed") as caught:
        await update(plane.bus, W1, job_file(text))
    assert MISUSED == caught.value.exit_code
    assert {
        "job.yaml:3:19: resources.gpus: a task has 1 H100, and that stays so",
        "job.yaml:2:6: run: what was emulated stays so",
    } == set(caught.value.problems)
    assert [] == await plane.events(GLOBAL_LOG, WorkloadChanged)


@virtual
async def test_change_that_could_never_fit(place: Place) -> None:
    """It is refused with figures."""
    plane = await half_plane(place, [nodes("w0", 0)])
    with pytest.raises(RequestRefused, match="99 tasks ask for 99 H100, and region eu has 32") as caught:
        await change(plane.bus, W1, lambda spec: with_tasks(spec, 99, ""))
    assert FAILED == caught.value.exit_code


@virtual
async def test_change_of_an_ended_workload(place: Place) -> None:
    """The user is told what to do instead."""
    plane = await half_plane(place)
    await place.ask(CancelWorkload(W1))
    with pytest.raises(CommandError, match="w-1 has ended CANCELLED, and an end is final; submit it again"):
        await change(plane.bus, W1, lambda _: (a_job(2),))


# Which job.


def test_job_that_is_resized() -> None:
    """The only one, or the one that is named; the others stay."""
    two = a_spec(a_job(1), a_job(2, name="eval"))
    assert (a_job(7),) == with_tasks(a_spec(), 7, "")
    assert (a_job(1), a_job(7, name="eval")) == with_tasks(two, 7, "eval")
    for job, said in (
        ("", "it has several jobs, main, eval; name one"),
        ("x", "it has no job x; it has main, eval"),
    ):
        with pytest.raises(CommandError, match=said) as caught:
            with_tasks(two, 7, job)
        assert MISUSED == caught.value.exit_code


# What no change can bring about.


def test_other_differences_of_a_file_are_named() -> None:
    """All but jobs is told by its name; a missing field is as a submission would have it."""
    assert [] == staying(a_spec(), emulated().spec)
    other = emulated(9, more="priority: 6\ntenant: ml\ncontrol: {controller: x}\n").spec
    assert ["tenant", "priority", "control"] == staying(a_spec(), other)
    assert {"jobs", *STAY} == set(WorkloadSpec.__struct_fields__)


# What follows, in words.


@virtual
async def test_consequence_of_a_change_is_told(place: Place) -> None:
    """It depends on the workload's kind, and on the controller that must agree."""
    plane = await half_plane(place, SERVICE, *awarded(), spec=ONE)
    done = await change(plane.bus, W1, lambda spec: with_tasks(spec, 2, ""))
    held = replace(done.spec, control=ControlSpec("replicas"))
    gang = replace(done.spec, kind=Kind.TRAINING)
    follows = "`mizzen tasks w-1 -w` follows"
    assert [
        f"w-1 is changed (revision 1): its tasks follow one by one, as many at once as may be down; {follows} them",
        f"w-1 is changed (revision 1): its tasks follow one by one, when controller replicas lets them; {follows} them",
        f"w-1 is changed (revision 1): attempt 1 in eu is ended, and the next is as it is now; {follows} it",
        (
            "w-1 is changed (revision 1): attempt 1 in eu ends when controller replicas lets it, and the next is as it is now; "
            f"{follows} it"
        ),
        "w-1 is changed (revision 1): its next attempt is as it is now",
        "w-1 is so already (revision 1)",
    ] == [
        text_of(one)
        for one in (
            done,
            replace(done, spec=held),
            replace(done, spec=gang),
            replace(done, spec=replace(held, kind=Kind.TRAINING)),
            replace(done, region=""),
            replace(done, is_new=False),
        )
    ]

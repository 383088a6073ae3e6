"""Steering workloads: cancel, hold, release, requeue, set a priority. What carries a revision or an epoch is asked for first, and once more
when somebody else was quicker.
"""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from bus.port import Bus
from core.messages.pipelines import CancelPipeline, PipelineCancelled, PipelineShown, ShowPipeline
from core.messages.queue import (
    Acknowledged,
    CancelWorkload,
    HoldWorkload,
    ReleaseWorkload,
    RequeueWorkload,
    SetPriority,
    ShowWorkload,
    WorkloadShown,
)
from core.nouns.ids import PipelineId, WorkloadId
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.pipeline import Outcome
from core.nouns.reasons import Reason
from core.nouns.workload import Phase
from mizzen.connect.plane import RequestRefused, ask, ask_on_revision
from mizzen.terminal.output import CommandError
from mizzen.views.phrases.pipeline_text import runs_text
from mizzen.views.plane_reads import ask_patiently, pause

TRIES_MAX = 5
"""Times that somebody else may be quicker."""
TRY_AGAIN: Nanoseconds = seconds(0.1)
"""Between two tries: who is quicker may be in the midst of several things."""


class Done(Struct, frozen=True):
    """What became of one request."""

    workload: WorkloadId
    text: str = ""
    """What is so now, in a word."""
    phase: str = ""
    error: str = ""


Act = Callable[..., Awaitable[Done]]
"""Of a bus, a workload, and whatever else this one takes."""


async def before_try(number: int) -> None:
    """A moment, unless it is the first, which is number 0."""
    if number:
        await pause(TRY_AGAIN)


async def each(
    bus: Bus,
    workloads: Sequence[WorkloadId],
    act: Act,
    given: Sequence[object] = (),
) -> list[Done]:
    """For each of them, one after the other; what fails for one does not keep the others from it."""
    done = []
    for workload in dict.fromkeys(workloads):
        try:
            done.append(await act(bus, workload, *given))
        except CommandError as error:
            done.append(Done(workload, error=str(error)))
    return done


async def cancel(bus: Bus, workload: WorkloadId) -> Done:
    """End it for good: a workload, or a pipeline with all of its stages."""
    if workload.startswith("p-"):
        return await _cancel_pipeline(bus, PipelineId(workload))
    await ask(bus, CancelWorkload(workload), Acknowledged)
    try:
        phase = await _phase(bus, workload)
    except RequestRefused:
        return Done(workload, "has ended")  # And is forgotten already.
    return Done(workload, "cancelled" if phase == Phase.CANCELLED else "is being stopped", phase)


async def cancel_and_wait(bus: Bus, workload: WorkloadId) -> Done:
    """The same, and until it has ended."""
    if workload.startswith("p-"):
        return await _cancel_pipeline(bus, PipelineId(workload), is_waiting=True)
    await ask(bus, CancelWorkload(workload), Acknowledged)
    while True:
        try:
            phase = Phase((await ask_patiently(bus, ShowWorkload(workload), WorkloadShown)).phase)
        except RequestRefused as refused:
            if refused.reason == Reason.UNKNOWN_WORKLOAD:  # It has ended, and is forgotten already.
                return Done(workload, "has ended")
            raise
        if phase.is_terminal:
            return Done(workload, "cancelled" if phase == Phase.CANCELLED else f"has ended {phase}", phase)
        await pause()


async def _cancel_pipeline(bus: Bus, pipeline: PipelineId, *, is_waiting: bool = False) -> Done:
    """End every stage that has not ended, and wait for the last if wanted."""
    await ask(bus, CancelPipeline(pipeline), PipelineCancelled)
    while True:
        shown = await ask_patiently(bus, ShowPipeline(pipeline), PipelineShown)
        if shown.outcome:
            text = "cancelled" if shown.outcome is Outcome.CANCELLED else f"has ended: {shown.outcome}"
            return Done(WorkloadId(pipeline), text, shown.outcome)
        live = [stage.name for stage in shown.stages if not stage.phase.is_terminal]
        if live and not is_waiting:
            return Done(WorkloadId(pipeline), f"is being stopped: {runs_text(live)}")
        # Without a live stage the outcome is recorded at the queue's next look, which is due.
        await (pause() if live else pause(TRY_AGAIN))


async def hold(bus: Bus, workload: WorkloadId) -> Done:
    """Do not award it until it is released."""
    return await _set_hold(bus, workload, HoldWorkload, "held")


async def release(bus: Bus, workload: WorkloadId) -> Done:
    """Lift a hold."""
    return await _set_hold(bus, workload, ReleaseWorkload, "released")


async def _set_hold(
    bus: Bus, workload: WorkloadId, message: type[HoldWorkload | ReleaseWorkload], word: str
) -> Done:
    for number in range(TRIES_MAX):
        await before_try(number)
        shown = await ask(bus, ShowWorkload(workload), WorkloadShown)
        asked = message(workload, shown.hold_revision)
        if await ask_on_revision(bus, asked, Acknowledged) is not None:
            return Done(workload, word, await _phase(bus, workload))
    raise CommandError("others hold and release it all the time; try again when they have come to an end")


async def requeue(bus: Bus, workload: WorkloadId) -> Done:
    """Stop its attempt, so that it is placed anew."""
    shown = await ask(bus, ShowWorkload(workload), WorkloadShown)
    if shown.phase == Phase.PENDING:
        raise CommandError(
            "it is PENDING, so there is no attempt to stop; `mizzen explain` tells why it waits"
        )
    await ask(bus, RequeueWorkload(workload, shown.epoch), Acknowledged)
    return Done(workload, f"attempt {shown.epoch} is being stopped, and the next is placed", shown.phase)


async def set_priority(bus: Bus, workload: WorkloadId, priority: int | None) -> Done:
    """It asks for this level from now on; None: for its tenant's."""
    for number in range(TRIES_MAX):
        await before_try(number)
        shown = await ask(bus, ShowWorkload(workload), WorkloadShown)
        asked = SetPriority(workload, shown.priority_revision, priority)
        if await ask_on_revision(bus, asked, Acknowledged) is not None:
            level = "that of its tenant" if priority is None else priority
            return Done(workload, f"its priority is {level} from now on", shown.phase)
    raise CommandError("others set its priority all the time; try again when they have come to an end")


async def _phase(bus: Bus, workload: WorkloadId) -> str:
    return (await ask(bus, ShowWorkload(workload), WorkloadShown)).phase


ACTS: dict[str, Act] = {
    "cancel": cancel,
    "cancel_and_wait": cancel_and_wait,
    "hold": hold,
    "priority": set_priority,
    "release": release,
    "requeue": requeue,
}
"""What can be done to a workload."""

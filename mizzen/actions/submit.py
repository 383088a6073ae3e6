"""Handing a workload to a plane: once, however often it must be said, and then waiting for its end if that is wanted."""

import asyncio

from msgspec.structs import replace

from bus.errors import AskTimedOut, BusError, NobodyListens
from bus.port import Bus
from core.messages.base import Message, Refused
from core.messages.queue import ShowWorkload, Submitted, SubmitWorkload, WorkloadShown
from core.messages.starts import SubmissionTested, TestSubmission
from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.reasons import Reason
from core.nouns.workload import Phase, WorkloadSpec
from mizzen.jobs.file import Job
from mizzen.terminal.output import FAILED, MISUSED, CommandError

DEFAULT_TENANT = WorkloadSpec("", ()).tenant
"""Of jobs that name none."""
ASK_SPAN: Nanoseconds = seconds(4)
SUBMIT_SPAN: Nanoseconds = seconds(15)
"""How long the same question is asked again: a queue that was killed is back in a second or two."""
SILENCE_MAX: Nanoseconds = seconds(60)
"""How long somebody who waits for an end goes on without any answer."""
ASK_AGAIN_SECONDS = 0.25
LOOK_AGAIN_SECONDS = 0.5


async def submitted(bus: Bus, job: Job, key: str) -> WorkloadId:
    """The id under which the queue accepts a workload. The key makes sure that it is one. Raises CommandError."""
    answer = await _insist(bus, SubmitWorkload(_on_account(bus, job), bus.name, key), SUBMIT_SPAN)
    if isinstance(answer, Refused):
        raise _refusal(job, answer, "nothing was submitted")
    if answer is None:
        text = f"no answer came in {SUBMIT_SPAN // SECOND} s, so whether it was accepted is not known"
        raise CommandError(f"{text}; submit it again with --key {key}, which never submits it twice")
    assert isinstance(answer, Submitted), answer
    return answer.workload


async def tested(bus: Bus, job: Job) -> SubmissionTested:
    """What would come of a workload. Raises CommandError for one that would be refused, as `submitted` does."""
    answer = await _insist(bus, TestSubmission(_on_account(bus, job), bus.name), SUBMIT_SPAN)
    if isinstance(answer, Refused):
        raise _refusal(job, answer, "it would be refused")
    if answer is None:
        raise CommandError(f"no answer came in {SUBMIT_SPAN // SECOND} s; try again, or look at the plane")
    assert isinstance(answer, SubmissionTested), answer
    return answer


def _on_account(bus: Bus, job: Job) -> WorkloadSpec:
    """With a tenant's credentials, where nobody said on whose account, there is one alone."""
    if bus.tenant and job.spec.tenant == DEFAULT_TENANT:
        return replace(job.spec, tenant=TenantName(bus.tenant))
    return job.spec


def _refusal(job: Job, refused: Refused, what: str) -> CommandError:
    """With every problem at its line."""
    problems = [str(job.located(problem)) for problem in refused.problems]
    exit_code = MISUSED if refused.reason == Reason.INVALID else FAILED
    return CommandError(f"{what}: {refused.sentence}", exit_code, problems)


async def ended(bus: Bus, workload: WorkloadId) -> Phase:
    """The phase in which a workload has ended. Raises CommandError when nobody tells of it for a minute."""
    while True:
        answer = await _insist(bus, ShowWorkload(workload), SILENCE_MAX)
        if answer is None:
            text = f"no answer came in {SILENCE_MAX // SECOND} s; {workload} goes on if it can"
            raise CommandError(f"{text}, and `mizzen show {workload}` tells of it when the plane is back")
        if isinstance(answer, Refused):
            raise CommandError(f"{workload}: {answer.sentence}")
        assert isinstance(answer, WorkloadShown), answer
        phase = Phase(answer.phase)
        if phase.is_terminal:
            return phase
        await asyncio.sleep(LOOK_AGAIN_SECONDS)


async def _insist(bus: Bus, message: Message, span: Nanoseconds) -> Message | None:
    """An answer, however often it must be asked for; None if none came in this span. Raises CommandError."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + span / SECOND
    while loop.time() < deadline:
        try:
            return await bus.ask(message, ASK_SPAN)
        except (AskTimedOut, NobodyListens):
            await asyncio.sleep(ASK_AGAIN_SECONDS)
        except BusError as error:
            raise CommandError(str(error)) from error
    return None

"""Handing a workload or a pipeline to a plane: once, however often it must be said, and then waiting for its end if that is wanted."""

import asyncio

from msgspec.structs import replace

from bus.errors import AskTimedOut, BusError, NobodyListens
from bus.port import Bus
from core.messages.base import Message, Refused
from core.messages.pipelines import (
    PipelineAccepted,
    PipelineShown,
    PipelineTested,
    ShowPipeline,
    SubmitPipeline,
    TestPipeline,
)
from core.messages.queue import ShowWorkload, Submitted, SubmitWorkload, WorkloadShown
from core.messages.starts import SubmissionTested, TestSubmission
from core.nouns.ids import PipelineId, TenantName, WorkloadId
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.pipeline import Outcome, PipelineSpec
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
    answer = await _accepted(bus, job, SubmitWorkload(_on_account(bus, job.spec), bus.name, key), key)
    assert isinstance(answer, Submitted), answer
    return answer.workload


async def pipeline_submitted(bus: Bus, job: Job, key: str) -> PipelineAccepted:
    """Return the queue's answer to a pipeline, accepted once however often this key is submitted. Raises CommandError."""
    answer = await _accepted(bus, job, SubmitPipeline(_pipeline_on_account(bus, job), bus.name, key), key)
    assert isinstance(answer, PipelineAccepted), answer
    return answer


async def tested(bus: Bus, job: Job) -> SubmissionTested:
    """What would come of a workload. Raises CommandError for one that would be refused, as `submitted` does."""
    answer = await _told(bus, job, TestSubmission(_on_account(bus, job.spec), bus.name))
    assert isinstance(answer, SubmissionTested), answer
    return answer


async def pipeline_tested(bus: Bus, job: Job) -> PipelineTested:
    """Return what would come of a pipeline. Raises CommandError for a pipeline that would be refused."""
    answer = await _told(bus, job, TestPipeline(_pipeline_on_account(bus, job), bus.name))
    assert isinstance(answer, PipelineTested), answer
    return answer


async def ended(bus: Bus, workload: WorkloadId) -> Phase:
    """The phase in which a workload has ended. Raises CommandError when nobody tells of it for a minute."""
    while True:
        answer = await _shown(bus, ShowWorkload(workload), workload, f"mizzen show {workload}")
        assert isinstance(answer, WorkloadShown), answer
        phase = Phase(answer.phase)
        if phase.is_terminal:
            return phase
        await asyncio.sleep(LOOK_AGAIN_SECONDS)


async def pipeline_ended(bus: Bus, pipeline: PipelineId) -> Outcome:
    """Return the outcome of a pipeline, once there is one. Raises CommandError when no answer comes for a minute."""
    while True:
        answer = await _shown(bus, ShowPipeline(pipeline), pipeline, show_command(pipeline))
        assert isinstance(answer, PipelineShown), answer
        if answer.outcome is not Outcome.NONE:
            return answer.outcome
        await asyncio.sleep(LOOK_AGAIN_SECONDS)


def show_command(pipeline: str) -> str:
    """Return the command that shows a pipeline."""
    return f"mizzen pipeline {pipeline}"


def _on_account(bus: Bus, spec: WorkloadSpec) -> WorkloadSpec:
    """With a tenant's credentials, where nobody said on whose account, there is one alone."""
    if bus.tenant and spec.tenant == DEFAULT_TENANT:
        return replace(spec, tenant=TenantName(bus.tenant))
    return spec


def _pipeline_on_account(bus: Bus, job: Job) -> PipelineSpec:
    """A pipeline with that tenant in all of its stages."""
    assert job.pipeline is not None
    stages = (replace(stage, workload=_on_account(bus, stage.workload)) for stage in job.pipeline.stages)
    return replace(job.pipeline, stages=tuple(stages))


async def _accepted(bus: Bus, job: Job, message: Message, key: str) -> Message:
    """The answer to a submission that was not refused. Raises CommandError."""
    answer = await _insist(bus, message, SUBMIT_SPAN)
    if isinstance(answer, Refused):
        raise _refusal(job, answer, "nothing was submitted")
    if answer is None:
        text = f"no answer came in {SUBMIT_SPAN // SECOND} s, so whether it was accepted is not known"
        raise CommandError(f"{text}; submit it again with --key {key}, which never submits it twice")
    return answer


async def _told(bus: Bus, job: Job, message: Message) -> Message:
    """The answer to a test of a submission that would not be refused. Raises CommandError."""
    answer = await _insist(bus, message, SUBMIT_SPAN)
    if isinstance(answer, Refused):
        raise _refusal(job, answer, "it would be refused")
    if answer is None:
        raise CommandError(f"no answer came in {SUBMIT_SPAN // SECOND} s; try again, or look at the plane")
    return answer


async def _shown(bus: Bus, message: Message, called: str, command: str) -> Message:
    """How far a workload or a pipeline has come; this command shows it. Raises CommandError."""
    answer = await _insist(bus, message, SILENCE_MAX)
    if answer is None:
        text = f"no answer came in {SILENCE_MAX // SECOND} s; {called} goes on if it can"
        raise CommandError(f"{text}, and `{command}` tells of it when the plane is back")
    if isinstance(answer, Refused):
        raise CommandError(f"{called}: {answer.sentence}")
    return answer


def _refusal(job: Job, refused: Refused, what: str) -> CommandError:
    """With every problem at its line; what the top says for many stages is told once."""
    problems = list(dict.fromkeys(str(job.located(problem)) for problem in refused.problems))
    exit_code = MISUSED if refused.reason == Reason.INVALID else FAILED
    return CommandError(f"{what}: {refused.sentence}", exit_code, problems)


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

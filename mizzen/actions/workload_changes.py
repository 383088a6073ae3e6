"""Changing a workload that is known: what its jobs run, and how many tasks they have. What comes of it when, is told."""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from bus.port import Bus
from core.messages.queue import Acknowledged, ChangeWorkload, ShowWorkload, WorkloadShown
from core.nouns.ids import WorkloadId
from core.nouns.reasons import Reason
from core.nouns.workload import JobSpec, Kind, Phase, WorkloadSpec
from mizzen.actions.workloads import TRIES_MAX, before_try
from mizzen.connect.plane import RequestRefused, ask
from mizzen.jobs.file import Job
from mizzen.terminal.output import MISUSED, CommandError

Jobs = tuple[JobSpec, ...]
STAY = (
    "name", "tenant", "priority", "kind", "regions", "retry", "max_duration", "grace", "control",
    "placement", "data", "checkpoint_bytes", "needs_fresh_data", "move_after",
    "share", "expected", "input_size",
)  # fmt: skip
"""Parts of a workload that a change leaves as they are."""


class Changed(Struct, frozen=True):
    """What a workload is from now on."""

    workload: WorkloadId
    phase: Phase
    region: str
    epoch: int
    revision: int
    """Of its spec."""
    is_new: bool
    """False: it was so already."""
    spec: WorkloadSpec


async def change(bus: Bus, workload: WorkloadId, to: Callable[[WorkloadSpec], Jobs]) -> Changed:
    """Give it the jobs that `to` makes of what it is; once more when somebody else was quicker. Raises CommandError."""
    for number in range(TRIES_MAX):
        await before_try(number)
        shown = await ask(bus, ShowWorkload(workload, wants_spec=True), WorkloadShown)
        spec, phase = shown.spec, Phase(shown.phase)
        assert spec is not None, shown
        if phase.is_terminal:
            raise CommandError(f"{workload} has ended {phase}, and an end is final; submit it again instead")
        jobs = to(spec)
        is_new = jobs != spec.jobs
        revision = shown.spec_revision
        if is_new:
            try:
                done = await ask(bus, ChangeWorkload(workload, revision, jobs), Acknowledged)
            except RequestRefused as refused:
                if refused.reason != Reason.SUPERSEDED:
                    raise
                continue
            revision = done.revision
        return Changed(workload, phase, shown.region, shown.epoch, revision, is_new, replace(spec, jobs=jobs))
    raise CommandError("others change it all the time; try again when they have come to an end")


async def update(bus: Bus, workload: WorkloadId, job: Job) -> Changed:
    """Give it the jobs of a job file. Raises CommandError, with every problem at its place in the file."""
    try:
        return await change(bus, workload, lambda _: job.spec.jobs)
    except RequestRefused as refused:
        problems = [str(job.located(problem)) for problem in refused.problems_told]
        text = f"nothing was changed: {refused.sentence}"
        raise CommandError(text, refused.exit_code, problems) from refused


def with_tasks(spec: WorkloadSpec, tasks: int, job: str) -> Jobs:
    """Its jobs, one of them with so many tasks. Raises CommandError when it is not told which."""
    names = [one.name for one in spec.jobs]
    if not job and len(names) > 1:
        raise CommandError(f"it has several jobs, {', '.join(names)}; name one of them with --job", MISUSED)
    if job and job not in names:
        raise CommandError(f"it has no job {job}; it has {', '.join(names)}", MISUSED)
    wanted = job or names[0]
    return tuple(replace(one, tasks=tasks) if one.name == wanted else one for one in spec.jobs)


def staying(spec: WorkloadSpec, given: WorkloadSpec) -> list[str]:
    """What a job file says otherwise than the workload, and no change can bring about. It need not say a priority."""
    return [
        name
        for name in STAY
        if getattr(spec, name) != getattr(given, name) and (name != "priority" or given.priority is not None)
    ]


# For people.


def text_of(done: Changed) -> str:
    """What is so now, and what follows from it."""
    if not done.is_new:
        return f"{done.workload} is so already (revision {done.revision})"
    return f"{done.workload} is changed (revision {done.revision}): {_what_follows(done)}"


def _what_follows(done: Changed) -> str:
    if not done.region:
        return "its next attempt is as it is now"
    controller = done.spec.control.controller
    follows = f"`mizzen tasks {done.workload} -w` follows"
    if done.spec.kind == Kind.SERVICE:
        when = f"when controller {controller} lets them" if controller else "as many at once as may be down"
        return f"its tasks follow one by one, {when}; {follows} them"
    when = f"ends when controller {controller} lets it" if controller else "is ended"
    return f"attempt {done.epoch} in {done.region} {when}, and the next is as it is now; {follows} it"

"""What is told of shared pools: the queue's image, and from its log the time that jobs received, and the newest round, chosen again."""

from collections.abc import AsyncIterator
from pathlib import Path

from msgspec import Struct, field

from bus.port import Bus
from core.events.sharing import RoundBegun
from core.fact import Fact
from core.images import GlobalImage
from core.images.sharing import Sharing
from core.messages.planning import ConcernShown, ShowConcern
from core.messages.queue import (
    ExplainWorkload,
    ListWorkloads,
    RunTimeTold,
    WorkloadExplained,
    WorkloadsListed,
)
from core.nouns.ids import GLOBAL_LOG, WorkloadId
from core.nouns.instant import Instant
from core.nouns.limits import READ_FACTS_MAX
from mizzen.connect.plane import Plane, ask, fetch_image
from mizzen.terminal.output import CommandError, explained
from mizzen.views.logs.image_view import check_count, image_at
from mizzen.views.logs.log_source import SUFFIX
from mizzen.views.plane_reads import each_from, head_of
from mizzen.views.policies.received_time import JobTime, ReceivedTime
from mizzen.views.policies.round_choice import SECTIONS, ChosenRound, NotInRound, chosen_again, outlook_of
from runtime.clock import wall_now
from store.errors import LogError
from store.sqlite import facts_in


class Seen(Struct):
    """Shared pools as they are told."""

    sharing: Sharing
    at: Instant
    times: dict[WorkloadId, JobTime] = field(default_factory=dict)
    """Of each job that is there."""
    planner: ConcernShown | None = None
    """What the planner tells of its solver; None: none answers."""
    chosen: ChosenRound | None = None
    """The newest round, where it was asked for and has begun."""
    run_time: RunTimeTold | None = None
    """How long the job is predicted to run, where one was asked for."""
    saved_step: int = 0
    """Of the job's attempt that runs, its newest checkpoint; 0: none is known."""
    notes: list[str] = field(default_factory=list)
    """What is missing, and why."""


async def seen(bus: Bus, plane: Plane) -> Seen:
    """Return shared pools, with the time that jobs received. Raises CommandError."""
    found = Seen(await sharing_of(bus), wall_now())
    if found.sharing.jobs:
        found.planner = await _planner(bus)
        try:
            found.times = await received_time(bus, _directory(plane), found.at)
        except CommandError as error:
            found.notes.append(f"the time that jobs received is missing: {error}")
    return found


async def seen_of_job(bus: Bus, plane: Plane, workload: WorkloadId) -> Seen:
    """Return the same with the newest round, if the workload is a job of a shared pool. Raises CommandError."""
    found = await seen(bus, plane)
    if workload in found.sharing.jobs:
        try:
            found.chosen = await newest_round(bus, _directory(plane))
            found.run_time = (await ask(bus, ExplainWorkload(workload), WorkloadExplained)).run_time
            found.saved_step = await _saved_step(bus, found.sharing.jobs[workload].number, workload)
        except CommandError as error:
            found.notes.append(
                f"its turn in the newest round, how long it is predicted to run, or what it saved since it runs, is missing: {error}"
            )
    return found


async def _saved_step(bus: Bus, number: int, workload: WorkloadId) -> int:
    """Return the step of the newest checkpoint of a job's attempt that runs, as the queue heard of it; 0: none."""
    page = await ask(bus, ListWorkloads((), number - 1, 1), WorkloadsListed)
    return next((row.saved_step for row in page.rows if row.workload == workload), 0)


async def not_in_round(bus: Bus, directory: Path | None, workload: WorkloadId) -> NotInRound | None:
    """Return why a job is not in the newest round; None: it is, or none has begun, or it is no job of a shared pool. Raises CommandError."""
    sharing = await sharing_of(bus)
    if workload not in sharing.jobs:
        return None
    chosen = await newest_round(bus, directory)
    return None if chosen is None else outlook_of(chosen, sharing, workload)


async def sharing_of(bus: Bus) -> Sharing:
    """Return the section of the queue's image. Raises CommandError."""
    image, _ = await fetch_image(bus, GLOBAL_LOG, ("sharing",))
    assert isinstance(image, GlobalImage)
    return image.sharing


async def _planner(bus: Bus) -> ConcernShown | None:
    try:
        return await ask(bus, ShowConcern("shares"), ConcernShown)
    except CommandError:
        return None


def _directory(plane: Plane) -> Path | None:
    return Path(plane.directory) if plane.directory else None


async def newest_round(bus: Bus, directory: Path | None) -> ChosenRound | None:
    """Return the newest round, chosen again; None: none has begun. Raises CommandError.

    directory   where the plane keeps its logs' files, if that is here
    """
    fact = await _newest_begin(bus)
    if fact is None:
        return None
    before = await image_at(bus, GLOBAL_LOG, fact.sequence - 1, SECTIONS, directory)
    assert isinstance(before, GlobalImage)
    return chosen_again(before, fact)


async def received_time(bus: Bus, directory: Path | None, now: Instant) -> dict[WorkloadId, JobTime]:
    """Return the time that each job of a shared pool received until now. Raises CommandError.

    directory   as above
    """
    found = ReceivedTime()
    async for fact in _all_facts(bus, directory):
        found.take(fact)
    return found.until(now)


async def _newest_begin(bus: Bus) -> Fact | None:
    """Return the fact that began the newest round, looked for from the log's head on backwards."""
    end = await head_of(bus, GLOBAL_LOG)
    while end > 0:
        first = max(1, end - READ_FACTS_MAX + 1)
        page = [fact async for fact in each_from(bus, GLOBAL_LOG, first, end - first + 1)]
        begins = [fact for fact in page if isinstance(fact.event, RoundBegun)]
        if begins:
            return begins[-1]
        end = first - 1
    return None


async def _all_facts(bus: Bus, directory: Path | None) -> AsyncIterator[Fact]:
    if directory is not None and (directory / f"{GLOBAL_LOG}{SUFFIX}").is_file():
        with explained(LogError):
            for fact in facts_in(directory, GLOBAL_LOG):
                yield fact
        return
    head = await head_of(bus, GLOBAL_LOG)
    check_count(GLOBAL_LOG, head)
    async for fact in each_from(bus, GLOBAL_LOG, 1, head):
        yield fact

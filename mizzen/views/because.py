"""Why an attempt came to its end: the chain of facts, the newest first, each with the one that led to it."""

from collections.abc import Iterable

from msgspec import Struct

from bus.port import Bus
from core.events.queue import (
    AttemptClosed,
    AwardReturned,
    CancelRequested,
    RequeueRequested,
    WorkloadCancelled,
)
from core.events.region import (
    AttemptEnded,
    AwardDeclined,
    ClaimPromised,
    NodesLost,
    StopOrdered,
)
from core.fact import Event, Fact
from core.images import RegionImage
from core.nouns.ids import LogName, RegionName, WorkerName, WorkloadId, region_log
from core.nouns.workload import USER_EXIT_START_AGAIN, EndCause, Phase
from mizzen.answers import CommandError
from mizzen.plane import fetch_image
from mizzen.views.fact_lines import tag_of
from mizzen.views.reading import facts_about
from mizzen.views.story import Attempt, Story, Telling


class Link(Struct, frozen=True):
    """One fact of the chain."""

    log: LogName
    sequence: int
    at: int
    type: str
    text: str


async def chain_of(bus: Bus, telling: Telling) -> list[Link]:
    """Why the workload, or its newest attempt that has ended, came to its end; empty when nothing has. Newest first."""
    story, facts = telling.story, telling.facts
    cancelled = _last(facts, WorkloadCancelled)
    if cancelled is not None:
        asked = _only_last(facts, CancelRequested)
        who = "" if asked else f"; {cancelled.actor} asked for it"
        return [_link(cancelled, f"CANCELLED: nothing of it ran{who}"), *(_asker(fact) for fact in asked)]
    attempt = next((one for one in reversed(story.attempts) if one.end_cause or one.declined), None)
    if attempt is None:
        return []
    mine = [fact for fact in facts if getattr(fact.event, "epoch", attempt.epoch) == attempt.epoch]
    links = _of_the_queue(story, attempt, mine) + _of_the_region(attempt, mine)
    return links + await _reasons(bus, attempt, mine)


def _asker(fact: Fact) -> Link:
    return _link(fact, f"{fact.actor} asked for it")


def _of_the_queue(story: Story, attempt: Attempt, facts: list[Fact]) -> list[Link]:
    returned = _last(facts, AwardReturned)
    if returned is not None:
        return [_link(returned, f"attempt {attempt.epoch} was given back: {attempt.declined}")]
    closed = _last(facts, AttemptClosed)
    if closed is None or not isinstance(closed.event, AttemptClosed):
        return []
    event = closed.event
    text = f"{event.phase}: attempt {event.epoch} ended, {event.cause}"
    if event.phase == Phase.FAILED:
        text += f"; {_retries_text(story, event.cause)}"
    elif event.phase == Phase.PENDING:
        text += "; it waits for the next attempt"
    if event.saved_step:
        text += f"; the checkpoint of attempt {event.saved_epoch} at step {event.saved_step} stays"
    return [_link(closed, text)]


def _retries_text(story: Story, cause: EndCause) -> str:
    """Why it is not tried again."""
    retry = story.spec.retry
    if cause == EndCause.START_FAILED:
        return f"no retry was left: it has {retry.start_failed} for failed starts, and this was number {story.starts_failed}"
    return f"no retry was left: it has {retry.task_failed} for failed tasks, and this was number {story.tasks_failed}"


def _of_the_region(attempt: Attempt, facts: list[Fact]) -> list[Link]:
    links = []
    ended = _last(facts, AttemptEnded)
    if ended is not None:
        code = (
            f" with exit code {attempt.exit_code}{_exit_text(attempt.exit_code)}" if attempt.exit_code else ""
        )
        links.append(
            _link(ended, f"nothing of it runs any more in {attempt.region}: {attempt.end_cause}{code}")
        )
    declined = _last(facts, AwardDeclined)
    if declined is not None:
        links.append(_link(declined, f"{attempt.region} will not start it: {attempt.declined}"))
    stop = _last(facts, StopOrdered)
    if stop is not None:
        for_whom = f" for {attempt.stopped_for}" if attempt.stopped_for else ""
        links.append(_link(stop, f"it was ordered to stop: {attempt.stop_cause}{for_whom}"))
    return links


def _exit_text(code: int) -> str:
    if code < 0:
        return " (its node no longer had it)"
    if code == USER_EXIT_START_AGAIN:
        return " (a checkpoint is written, start me again)"
    return f" (signal {code - 128})" if 128 < code < 160 else ""


async def _reasons(bus: Bus, attempt: Attempt, facts: list[Fact]) -> list[Link]:
    """What led to the stop, in whichever log it is."""
    cause = attempt.stop_cause or attempt.end_cause
    if cause == EndCause.CANCELLED or (attempt.declined and _last(facts, CancelRequested)):
        return [_asker(fact) for fact in _only_last(facts, CancelRequested)]
    if cause == EndCause.REQUEUED:
        return [_asker(fact) for fact in _only_last(facts, RequeueRequested)]
    stop = _last(facts, StopOrdered) or _last(facts, AttemptEnded)
    if stop is None:
        return []
    try:
        if cause == EndCause.PREEMPTED and attempt.stopped_for:
            return await _promise(bus, attempt.region, attempt.stopped_for, stop.sequence)
        if cause == EndCause.NODE_LOST:
            return await _loss(bus, attempt, stop.sequence)
    except CommandError:
        return []  # The chain ends where the log cannot be read; what is missing there is told beside it.
    return []


async def _promise(bus: Bus, region: RegionName, by: WorkloadId, before: int) -> list[Link]:
    """What was promised to whoever pushed it out."""
    facts = [fact for fact in await facts_about(bus, region_log(region), by) if fact.sequence < before]
    promise = _last(facts, ClaimPromised)
    if promise is None or not isinstance(promise.event, ClaimPromised):
        return []
    text = f"its capacity was promised to {by} (attempt {promise.event.epoch}, priority {promise.event.claim.priority})"
    return [_link(promise, text)]


async def _loss(bus: Bus, attempt: Attempt, before: int) -> list[Link]:
    """Which of its workers was lost."""
    if attempt.placement is None:
        return []
    log = region_log(attempt.region)
    image, _ = await fetch_image(bus, log, ("capacity",))
    assert isinstance(image, RegionImage)
    worker_of = image.capacity.worker_of
    nodes = (node for spread in attempt.placement.spreads for node in spread.nodes if node < len(worker_of))
    workers = dict.fromkeys(WorkerName(worker_of[node]) for node in nodes)
    found: list[Fact] = []
    for worker in workers:
        found += [
            fact
            for fact in await facts_about(bus, log, worker, attempt.placement.sequence)
            if fact.sequence < before and isinstance(fact.event, NodesLost)
        ]
    return [
        _link(fact, f"worker {fact.event.worker} fell silent")
        for fact in sorted(found, key=lambda fact: -fact.sequence)[:1]
        if isinstance(fact.event, NodesLost)
    ]


def _last(facts: Iterable[Fact], kind: type[Event]) -> Fact | None:
    found = [fact for fact in facts if isinstance(fact.event, kind)]
    return found[-1] if found else None


def _only_last(facts: Iterable[Fact], kind: type[Event]) -> list[Fact]:
    last = _last(facts, kind)
    return [] if last is None else [last]


def _link(fact: Fact, text: str) -> Link:
    assert isinstance(fact.event, Event), fact
    return Link(fact.log, fact.sequence, fact.at, tag_of(fact.event), text)

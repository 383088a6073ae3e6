"""Why an attempt came to its end: the chain of facts, the newest first, each with the one that led to it."""

from collections.abc import Iterable

from msgspec import Struct

from bus.port import Bus
from core.events.control import (
    ControlAnswered,
    DomainLost,
    MaintenancePlanned,
    NodesClosed,
    OperationsBegun,
    OperationsRequested,
)
from core.events.queue import (
    AttemptClosed,
    AwardReturned,
    CancelRequested,
    RequeueRequested,
    WorkloadCancelled,
    WorkloadChanged,
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
from core.images.capacity import Capacity
from core.nouns.ids import GLOBAL_LOG, LogName, RegionName, WorkerName, WorkloadId, region_log
from core.nouns.operation import CHANGE
from core.nouns.placement import runs_of
from core.nouns.preemption import PREEMPTION
from core.nouns.workload import USER_EXIT_START_AGAIN, Consent, EndCause, Kind, Phase
from mizzen.connect.plane import fetch_image
from mizzen.terminal.output import CommandError
from mizzen.views.logs.fact_lines import tag_of
from mizzen.views.logs.sentences import sentence_of
from mizzen.views.phrases.quota_text import level_text
from mizzen.views.phrases.text import cause_text, conflict_text, nodes_text, time_text
from mizzen.views.plane_reads import facts_about
from mizzen.views.workloads.story import Attempt, Story, Telling

LATELY_MAX = 8
"""Facts that are told of what runs; `mizzen log` has them all."""
BY_OPERATION = (
    EndCause.DRAINED,
    EndCause.MAINTENANCE,
    EndCause.MOVED,
    EndCause.CHANGED,
    EndCause.PREEMPTED,
    EndCause.ROUND_OVER,
)


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
        return [
            _link(cancelled, f"CANCELLED while nothing of it ran{who}"),
            *(_asker(fact) for fact in asked),
        ]
    attempt = next((one for one in reversed(story.attempts) if one.end_cause or one.declined), None)
    if attempt is None:
        return []
    mine = [fact for fact in facts if getattr(fact.event, "epoch", attempt.epoch) == attempt.epoch]
    links = _of_the_queue(story, attempt, mine) + _of_the_region(attempt, mine)
    return links + await _reasons(bus, story, attempt, mine)


def lately_of(telling: Telling) -> list[Link]:
    """What happened last to the tasks of the newest attempt, and to what they are to be. Newest first."""
    attempt = telling.story.newest
    if attempt is None:
        return []
    names = [job.name for job in telling.story.spec.jobs]
    links: list[Link] = []
    for fact in reversed(telling.facts):
        assert isinstance(fact.event, Event), fact
        text = sentence_of(fact.event, names)
        if text and _is_of(attempt, fact) and len(links) < LATELY_MAX:
            links.append(_link(fact, text))
    return links


def _is_of(attempt: Attempt, fact: Fact) -> bool:
    """Whether a fact is about this attempt, or about its workload since it was awarded. No clock is compared with another."""
    epoch = getattr(fact.event, "epoch", None)
    if epoch is None:
        return fact.log == GLOBAL_LOG and fact.sequence > attempt.award_sequence
    return bool(epoch == attempt.epoch)


def _asker(fact: Fact) -> Link:
    return _link(fact, f"{fact.actor} asked for it")


def _of_the_queue(story: Story, attempt: Attempt, facts: list[Fact]) -> list[Link]:
    returned = _last(facts, AwardReturned)
    if returned is not None:
        return [_link(returned, f"the award of attempt {attempt.epoch} was declined: {attempt.declined}")]
    closed = _last(facts, AttemptClosed)
    if closed is None or not isinstance(closed.event, AttemptClosed):
        return []
    event = closed.event
    if event.consent is not Consent.NOBODY:
        return [_link(closed, _given_up_text(story, event))]
    text = f"{event.phase}: attempt {event.epoch} ended, {cause_text(event.cause, attempt.asked_by)}"
    if event.phase == Phase.FAILED:
        text += f"; {_retries_text(story, event.cause)}"
    elif event.phase == Phase.PENDING:
        text += "; it waits for the next attempt"
    if event.saved_step:
        text += f"; the checkpoint of attempt {event.saved_epoch} at step {event.saved_step} stays"
    return [_link(closed, text)]


def _given_up_text(story: Story, event: AttemptClosed) -> str:
    """Who agreed that it goes on elsewhere, and from where."""
    agreed = {
        Consent.OPERATOR: "an operator abandoned the region",
        Consent.WORKLOAD: f"it was to move after {time_text(story.spec.move_after)} of silence",
    }[event.consent]
    text = (
        f"{event.phase}: attempt {event.epoch} was abandoned, and may still run in {event.region}: {agreed}"
    )
    saved = f"the checkpoint of attempt {event.saved_epoch} at step {event.saved_step}"
    return f"{text}; it goes on from {saved}" if event.saved_step else f"{text}; nothing of it was saved"


def _retries_text(story: Story, cause: EndCause) -> str:
    """Why it is not tried again."""
    retry = story.spec.retry
    if cause == EndCause.START_FAILED:
        return f"no retry was left: it has {retry.start_failed} for failed starts, and this was number {story.starts_failed}"
    if story.spec.kind == Kind.SERVICE:
        return f"no retry was left: it has {retry.task_failed} for failures in a row of one task"
    return f"no retry was left: it has {retry.task_failed} for failed tasks, and this was number {story.tasks_failed}"


def _of_the_region(attempt: Attempt, facts: list[Fact]) -> list[Link]:
    links = []
    ended = _last(facts, AttemptEnded)
    if ended is not None:
        code = (
            f" with exit code {attempt.exit_code}{_exit_text(attempt.exit_code)}" if attempt.exit_code else ""
        )
        where = ""
        if isinstance(ended.event, AttemptEnded) and ended.event.failed_nodes:
            where = f" on {nodes_text(attempt.region, runs_of(ended.event.failed_nodes))}"
        lost = f", and {attempt.destroyed} GPU-seconds of its work are lost" if attempt.destroyed else ""
        text = f"nothing of it runs any more in {attempt.region}: {attempt.end_cause}{code}{where}{lost}"
        links.append(_link(ended, text))
    declined = _last(facts, AwardDeclined)
    if declined is not None:
        met = conflict_text(attempt.region, attempt.tries, attempt.conflict, attempt.conflict_nodes)
        text = f"{attempt.region} will not start it: {attempt.declined}{met}"
        links.append(_link(declined, text))
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


async def _reasons(bus: Bus, story: Story, attempt: Attempt, facts: list[Fact]) -> list[Link]:
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
            promise = await _promise(bus, attempt.region, attempt.stopped_for, stop.sequence)
            is_asked = any(
                isinstance(fact.event, OperationsBegun) and fact.sequence == stop.sequence - 1
                for fact in facts
                if fact.log == stop.log
            )
            return [*(await _operation(bus, story, attempt, facts, stop) if is_asked else ()), *promise]
        if cause == EndCause.NODE_LOST:
            return await _loss(bus, attempt, stop.sequence)
        if cause in BY_OPERATION:
            return await _operation(bus, story, attempt, facts, stop)
    except CommandError:
        return []  # The chain ends where the log cannot be read; what is missing there is told beside it.
    return []


async def _operation(bus: Bus, story: Story, attempt: Attempt, facts: list[Fact], stop: Fact) -> list[Link]:
    """The operation by which the gang was stopped: what allowed it, who asked for it, and what it was for."""
    names = [job.name for job in story.spec.jobs]
    earlier = [fact for fact in facts if fact.log == stop.log and fact.sequence < stop.sequence]
    begun = _last(earlier, OperationsBegun)
    if begun is None or not isinstance(begun.event, OperationsBegun):
        return []
    (number, *_) = begun.event.operations
    found = [begun]
    for fact in reversed(earlier):
        event = fact.event
        if isinstance(event, ControlAnswered) and any(ack.operation == number for ack in event.acks):
            found.append(fact)
        if isinstance(event, OperationsRequested) and 0 <= number - event.first < len(event.tasks):
            found.append(fact)
            found += await _source(bus, attempt.region, event.source, facts)
            break
    return [_link(fact, sentence_of(fact.event, names)) for fact in found if isinstance(fact.event, Event)]


async def _source(bus: Bus, region: RegionName, source: str, facts: list[Fact]) -> list[Fact]:
    """What called for an operation: a drain, a maintenance, or a change of what the workload is."""
    if source.startswith(CHANGE):
        revision = source.removeprefix(CHANGE)
        return [
            fact
            for fact in facts
            if isinstance(fact.event, WorkloadChanged) and str(fact.event.revision) == revision
        ]
    if not source or source.startswith(PREEMPTION):
        return []
    told = await facts_about(bus, region_log(region), source)
    return [fact for fact in told if isinstance(fact.event, NodesClosed | MaintenancePlanned)][::-1]


async def _promise(bus: Bus, region: RegionName, by: WorkloadId, before: int) -> list[Link]:
    """What was promised to whoever pushed it out."""
    facts = [fact for fact in await facts_about(bus, region_log(region), by) if fact.sequence < before]
    promise = _last(facts, ClaimPromised)
    if promise is None or not isinstance(promise.event, ClaimPromised):
        return []
    text = f"its capacity was promised to {by} (attempt {promise.event.epoch}, {level_text(promise.event.claim.priority)})"
    return [_link(promise, text)]


async def _loss(bus: Bus, attempt: Attempt, before: int) -> list[Link]:
    """Which of its workers was lost, alone or with others of its power domain or zone."""
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
    for domain in _domains(image.capacity, workers):
        found += [
            fact
            for fact in await facts_about(bus, log, domain, attempt.placement.sequence)
            if fact.sequence < before
            and isinstance(fact.event, DomainLost)
            and any(worker in workers for worker in fact.event.workers)
        ]
    return [_lost(fact) for fact in sorted(found, key=lambda fact: -fact.sequence)[:1]]


def _domains(capacity: Capacity, workers: Iterable[WorkerName]) -> list[str]:
    """The power domains and zones of these workers' nodes."""
    names: dict[str, None] = {}
    for worker in workers:
        row = capacity.workers.get(worker)
        for group in row.inventory.groups if row is not None else ():
            names.update(dict.fromkeys(name for name in (group.power_domain, group.zone) if name))
    return list(names)


def _lost(fact: Fact) -> Link:
    if isinstance(fact.event, NodesLost):
        return _link(fact, f"worker {fact.event.worker} fell silent")
    assert isinstance(fact.event, DomainLost), fact
    return _link(fact, sentence_of(fact.event))


def _last(facts: Iterable[Fact], kind: type[Event]) -> Fact | None:
    found = [fact for fact in facts if isinstance(fact.event, kind)]
    return found[-1] if found else None


def _only_last(facts: Iterable[Fact], kind: type[Event]) -> list[Fact]:
    last = _last(facts, kind)
    return [] if last is None else [last]


def _link(fact: Fact, text: str) -> Link:
    assert isinstance(fact.event, Event), fact
    return Link(fact.log, fact.sequence, fact.at, tag_of(fact.event), text)

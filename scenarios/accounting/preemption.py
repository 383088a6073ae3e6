"""What a run's logs tell of negotiated preemption: who was asked, what it answered, what was lost, and where it went on."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from core.events.control import ControlAnswered, OperationsBegun, OperationsRequested
from core.events.region import AttemptEnded, CheckpointCommitted, ClaimGranted, ClaimPromised, StopOrdered
from core.fact import Fact
from core.nouns.ids import AttemptKey, LogName, WorkloadId
from core.nouns.instant import SECOND
from core.nouns.operation import Ack, BegunBy, OperationKind
from core.nouns.workload import EndCause
from store.sqlite import facts_in


class Negotiated(Struct):
    """One attempt whose controller was asked to make room, or that was to make room and had none."""

    workload: WorkloadId
    epoch: int
    by: WorkloadId = WorkloadId("")
    """For whom it stopped."""
    answer: str = ""
    """Of its controller; empty: it said nothing, or nobody was asked."""
    is_forced: bool = False
    """Whether it was stopped at the deadline."""
    waited_seconds: float = 0.0
    """From the request until it was told to stop."""
    saved_step: int = 0
    """Its newest checkpoint."""
    destroyed: int = 0
    """GPU-seconds of its work that were lost."""
    resumed_step: int = 0
    """From which the next attempt went on; 0: there was none, or it began anew."""
    asked_at: int = 0
    number: int = 0
    """Of the operation by which it was asked; 0: nobody was."""


def negotiated_in(directory: Path, logs: Iterable[LogName]) -> list[Negotiated]:
    """All attempts that were pushed out in these logs, in the order of their regions and ends."""
    found: list[Negotiated] = []
    resumed: dict[AttemptKey, int] = {}
    for log in logs:
        open_: dict[AttemptKey, Negotiated] = {}
        for fact in facts_in(directory, log):
            found += _take(fact, open_, resumed)
    for one in found:
        one.resumed_step = resumed.get((one.workload, one.epoch), 0)
    return found


def _take(
    fact: Fact, open_: dict[AttemptKey, Negotiated], resumed: dict[AttemptKey, int]
) -> list[Negotiated]:
    """A fact; those of whom all is told by it."""
    event = fact.event
    match event:
        case ClaimGranted(claim=claim) | ClaimPromised(claim=claim):
            if claim.resume_epoch:
                resumed[claim.workload, claim.resume_epoch] = claim.resume_step
            if isinstance(event, ClaimGranted):
                key = (claim.workload, claim.epoch)
                open_[key] = Negotiated(*key)
        case OperationsRequested(kind=OperationKind.PREEMPT):
            one = open_[event.workload, event.epoch]
            one.number, one.asked_at, one.answer = event.first, fact.at, ""
        case ControlAnswered(acks=acks):
            asked = open_.get((event.workload, event.epoch))
            for ack in acks:
                if asked is not None and asked.number == ack.operation:
                    asked.answer = answer_text(ack)
        case OperationsBegun(operations=operations):
            asked = open_.get((event.workload, event.epoch))
            if asked is not None and asked.number in operations:
                asked.is_forced = event.by is BegunBy.DEADLINE
        case CheckpointCommitted(step=step):
            open_[event.workload, event.epoch].saved_step = step
        case StopOrdered(cause=EndCause.PREEMPTED, by=by):
            one = open_[event.workload, event.epoch]
            one.by = by
            if one.number:
                one.waited_seconds = round((fact.at - one.asked_at) / SECOND, 1)
        case AttemptEnded(cause=cause, destroyed=destroyed):
            ended = open_.pop((event.workload, event.epoch), None)
            if ended is not None and cause is EndCause.PREEMPTED:
                ended.destroyed = destroyed
                return [ended]
    return []


def answer_text(ack: Ack) -> str:
    """A controller's word on a preemption."""
    if ack.instead:
        return f"take {ack.instead} instead"
    words = "after a checkpoint" if ack.after_checkpoint else "yes"
    if ack.within:
        words += f"{', or' if ack.after_checkpoint else ','} in {ack.within / SECOND:g} s"
    return words


def lines_of_negotiated(found: Sequence[Negotiated]) -> list[tuple[str, str]]:
    """How each that was asked made room, and how many more did unasked; nothing, where nobody was pushed out."""
    asked = [one for one in found if one.number]
    lines = [("preempted", _line(one)) for one in asked]
    others = [one for one in found if not one.number]
    if others:
        lost = sum(one.destroyed for one in others)
        lines.append(("unasked", f"{len(others)} without a controller, {lost} GPU-seconds of work lost"))
    return lines


def _line(one: Negotiated) -> str:
    said = f'its controller said "{one.answer}"' if one.answer else "its controller said nothing"
    when = f"stopped {one.waited_seconds:g} s later{', at the deadline' if one.is_forced else ''}"
    went = f"resumed at step {one.resumed_step}" if one.resumed_step else "has not come back"
    for_whom = f" for {one.by}" if one.by else ""
    lost = f"{one.destroyed} GPU-seconds of work lost"
    return f"{one.workload} was asked to make room{for_whom}: {said}, {when} at step {one.saved_step}, {lost}, {went}"

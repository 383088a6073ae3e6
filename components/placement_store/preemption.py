"""The placement store's records of preemption: settings, promises within the caps on lost work, and substitutes for victims."""

from collections.abc import Callable, Sequence

from components.placement_store.state import StoreState
from components.replies import answered, refused
from core.component import Decision
from core.events.control import OperationsDone
from core.events.region import ClaimPromised, PreemptionSet, PromiseRevised
from core.fact import Event
from core.images import RegionImage
from core.messages.base import Envelope, Message
from core.messages.preemption import PreemptionAnswered, SetPreemption
from core.nouns.ids import AttemptKey
from core.nouns.instant import Instant
from core.nouns.limits import NAME_LENGTH_MAX, NUMBER_MAX, PREEMPTION_ASK_SPAN_MAX
from core.nouns.operation import Ack, Outcome
from core.nouns.placement import Claim
from core.nouns.preemption import PreemptionSettings, promised_to
from core.nouns.reasons import Reason
from core.rules.preemption import (
    claims_too_much,
    live_attempt,
    pledges_of,
    revised_pledges,
    revised_victims,
    why_no_offer,
)

HEARD_OF_PREEMPTION: tuple[type[Message], ...] = (SetPreemption,)


class PreemptionRecords:
    """The store's decider for preemption settings: the order of victims, and the caps on lost work."""

    def __init__(self) -> None:
        self.deciders: dict[type[Message], Callable[[StoreState, Envelope], Decision]] = {
            SetPreemption: self._set
        }

    def _set(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, SetPreemption)
        known = state.image.preemption
        problems = problems_with(message.settings)
        if len(message.by) > NAME_LENGTH_MAX:
            problems.append(f"by: {NAME_LENGTH_MAX} characters are the most")
        if problems:
            return refused(Reason.INVALID, tuple(problems))
        if message.revision != known.revision:
            return refused(Reason.SUPERSEDED, (f"revision: it is {known.revision} now",))
        if message.settings == known.settings:
            return answered(PreemptionAnswered(known.settings, known.revision))
        changed = PreemptionSet(known.revision + 1, message.settings, message.by)
        return answered(PreemptionAnswered(message.settings, known.revision + 1), changed)


def problems_with(settings: PreemptionSettings) -> list[str]:
    """Return all problems of the settings, each with its field."""
    found = []
    if not 0 <= settings.ask_span <= PREEMPTION_ASK_SPAN_MAX:
        most = PREEMPTION_ASK_SPAN_MAX // 1_000_000_000
        found.append(f"ask_span: it is from 0 to {most} s, for a promise does not stand much longer")
    for name, value in (("claim_max", settings.claim_max), ("hour_max", settings.hour_max)):
        if not 0 <= value <= NUMBER_MAX:
            found.append(f"{name}: it must not be negative, or beyond what a log holds")
    if settings.claim_max and settings.hour_max and settings.claim_max > settings.hour_max:
        found.append("claim_max: one claim may not destroy more than all of an hour may")
    return found


def promise_of(image: RegionImage, claim: Claim, now: Instant) -> ClaimPromised | Reason:
    """Return the promise of a claim over its victims, or a reason if the lost work would exceed a cap."""
    span = image.preemption.settings.ask_span
    pledges = pledges_of(image.capacity, claim.victims, now, span)
    if claims_too_much(image.preemption, pledges, now):
        return Reason.DESTROYS_TOO_MUCH
    return ClaimPromised(claim.workload, claim.epoch, claim, pledges, span)


def offer_taken(
    image: RegionImage, key: AttemptKey, offers: Sequence[Ack], now: Instant
) -> tuple[Event, ...]:
    """Return the facts by which the first valid offer replaces a victim with its substitute; empty if no offer is valid.

    The operation on the released victim ends in the same batch, so that its deadline has no further effect.
    """
    row = image.control.row(*key)
    for ack in offers:
        if row is None or why_no_offer(image, key, ack, now):
            continue
        by = promised_to(row.operations[ack.operation].source)
        other = live_attempt(image.capacity, ack.instead)
        claim = image.capacity.promise(*by) if by is not None else None
        if by is None or other is None or claim is None:
            continue
        victims = revised_victims(claim, key, other)
        revised = PromiseRevised(*by, victims, revised_pledges(image, victims, by, now), key)
        return revised, OperationsDone(*key, (ack.operation,), Outcome.WITHDRAWN)
    return ()

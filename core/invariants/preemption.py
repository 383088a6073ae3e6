"""Invariants of preemption (DESIGN §11.5), given the region's image before a fact.

Apart from `fits_over` and `needless_of`, the rules are written a second time, without the functions by which the store decides, so
that a mistake there is found here. Promises of older builds have neither figures of lost work nor a span in which victims are
asked, and are not checked.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from core.events.region import AttemptEnded, AttemptRanked, ClaimPromised, PromiseRevised, StopOrdered
from core.fact import Fact
from core.images import RegionImage
from core.images.capacity import Capacity, Holding
from core.nouns.ids import AttemptKey
from core.nouns.instant import SECOND
from core.nouns.operation import WHOLE, OperationKind, OperationPhase
from core.nouns.placement import Claim, gpu_milli_of, needs_of, parts_of
from core.nouns.preemption import promised_to
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import EndCause, Kind
from core.rules.preemption import fits_over, needless_of

Texts = Iterable[str]


def check_preemption_fact(fact: Fact, before: RegionImage) -> list[tuple[int, str]]:
    """Return violations of rule 5 at a fact of a region.

    No attempt is preempted by equal or lower priority, before its controller was asked, without need, or beyond the caps.
    """
    event = fact.event
    found: Texts = ()
    match event:
        case StopOrdered(cause=EndCause.PREEMPTED):
            found = _stopped(event, fact.at, before)
        case ClaimPromised() if event.destroyed or (event.claim.victims and event.ask_span):
            key = (event.workload, event.epoch)
            found = _promised(key, event.claim, event.destroyed, fact.at, event.ask_span, before)
        case PromiseRevised():
            found = _revised(event, fact.at, before)
        case AttemptRanked():
            found = _ranked(event, before)
        case AttemptEnded(destroyed=destroyed) if destroyed:
            found = _ended(event, before)
    return [(5, text) for text in found]


def _lost(held: Holding, until: int) -> int:
    since = max(held.started_at, held.saved_at)
    seconds = max(0, until - since) if since else 0
    return gpu_milli_of(held.claim.jobs) * seconds // (MILLI * SECOND)


def _stopped(event: StopOrdered, at: int, before: RegionImage) -> Texts:
    key, name = (event.workload, event.epoch), f"{event.workload}.{event.epoch}"
    held, row = before.capacity.holding(*key), before.control.row(*key)
    begun = [
        one
        for one in (row.operations.values() if row is not None else ())
        if one.task == WHOLE and one.phase is OperationPhase.BEGUN
    ]
    if held is not None and held.claim.kind == Kind.INTERACTIVE:
        yield f"{name}: preempted, and it is interactive"
    if (
        held is not None
        and not event.by
        and any(_is_wanted_by_somebody(one.kind, one.source) for one in begun)
    ):
        return  # A requester asked for the preemption, and the controller agreed or the deadline came (rule 6).
    over = [
        ((event.by, epoch), claim)
        for epoch, claim in before.capacity.promises.get(event.by, {}).items()
        if key in claim.victims
    ]
    if held is None or not over:
        yield f"{name}: preempted for {event.by or 'nobody'}, which has no promise over it"
        return
    by, claim = over[0]
    if held.claim.priority >= claim.priority:
        yield f"{name}: preempted by equal or lower priority {claim.priority}"
    promise = before.preemption.promise(*by)
    if (
        promise is not None
        and held.claim.control.controller
        and not begun
        and at < promise.at + promise.ask_span
    ):
        yield f"{name}: preempted, and its controller has not been asked for long enough"


def _is_wanted_by_somebody(kind: OperationKind, source: str) -> bool:
    return kind is OperationKind.PREEMPT and promised_to(source) is None


def _promised(
    by: AttemptKey, claim: Claim, destroyed: tuple[int, ...], at: int, span: int, before: RegionImage
) -> Texts:
    """Yield violations by a promise, which must have needed victims of lower priority and true pledges, and keep to the caps."""
    name = f"{by[0]}.{by[1]}"
    if len(destroyed) != len(claim.victims):
        yield f"{name}: {len(destroyed)} figures of {len(claim.victims)} victims"
    for key, amount in zip(claim.victims, destroyed, strict=False):
        held = before.capacity.holding(*key)
        if held is None:
            yield f"{name}: promised over {key[0]}.{key[1]}, which holds nothing"
            continue
        if held.claim.priority >= claim.priority or held.claim.kind == Kind.INTERACTIVE:
            yield f"{name}: promised over {key[0]}.{key[1]}, which is not of lower priority, or interactive"
        least, most = _lost(held, at), _lost(held, at + span)
        if not least <= amount <= most:
            yield f"{name}: {amount} GPU-seconds of {key[0]}.{key[1]}, which has from {least} to {most} to lose"
        if not _is_needed(before.capacity, claim, key):
            yield f"{name}: promised over {key[0]}.{key[1]}, and fits without its end"
    yield from _over_caps(by, sum(destroyed), 0, at, before)


def _over_caps(
    by: AttemptKey, total: int, pledged: int, at: int, before: RegionImage, spent: int = 0
) -> Texts:
    """Yield violations of the caps by a promise with a total of pledges, in GPU-seconds.

    pledged   pledges of the promise's earlier version, which are metered but no longer count
    spent     lost work of the promise's victims that have ended
    """
    preemption, name = before.preemption, f"{by[0]}.{by[1]}"
    if total + spent > preemption.claim_cap:
        yield f"{name}: destroys {total + spent} GPU-seconds, and {preemption.claim_cap} is the most for one claim"
    metered = preemption.metered(at) - pledged + total
    if metered > preemption.hour_cap:
        yield f"{name}: {metered} GPU-seconds are destroyed in an hour, and {preemption.hour_cap} is the most"


def _is_needed(capacity: Capacity, claim: Claim, key: AttemptKey) -> bool:
    """Return whether on some node of the claim capacity is lacking without this victim's end, counted in whole devices.

    True also if some work is alone on its nodes, or if parts of devices matter: the victim may then be needed for other reasons.
    """
    held = capacity.holding(*key)
    assert held is not None, key
    claims = [one.claim for _, _, one in capacity.live()]
    if parts_of(claim) or any(job.is_alone for one in (claim, *claims) for job in one.jobs):
        return True
    others = [capacity.holding(*other) for other in claim.victims if other != key]
    theirs = [needs_of(one.claim) for one in others if one is not None]
    needs = needs_of(claim)
    for node in needs.keys() & needs_of(held.claim).keys():
        if node in capacity.devices.by_node:
            return True
        room = capacity.available(node)
        for one in theirs:
            room = room.plus(one.get(node, Amount()))
        if not room.covers(needs[node]):
            return True
    return False


def _revised(event: PromiseRevised, at: int, before: RegionImage) -> Texts:
    """Yield violations by a revised promise: one victim may be replaced by another of its tenant and no higher priority, and the
    rules of a promise must still hold.
    """
    by, name = (event.workload, event.epoch), f"{event.workload}.{event.epoch}"
    claim = before.capacity.promise(*by)
    promise = before.preemption.promise(*by)
    if claim is None or promise is None:
        yield f"{name}: its promise is revised, and there is none"
        return
    spared = before.capacity.holding(*event.spared)
    fresh = [key for key in event.victims if key not in claim.victims]
    gone = [key for key in claim.victims if key not in event.victims]
    if gone != [event.spared] or len(fresh) > 1 or spared is None:
        yield f"{name}: {fresh} are promised in the place of {gone}"
        return
    if before.preemption.offered.get(event.spared[0]) == event.spared[1]:
        yield f"{name}: {event.spared[0]} offers another for the second time"
    if spared.is_ending or promise.asked_until <= at:
        yield f"{name}: {event.spared[0]} offers another, and it is too late for that"
    now = replace(claim, victims=event.victims)
    for key in needless_of(before.capacity, claim, event.victims):
        if key in fresh or _is_needed(before.capacity, claim, key):
            yield f"{name}: promised over {key[0]}.{key[1]}, and fits without its end"
    if fresh and not fits_over(before.capacity, claim, now.victims):
        yield f"{name}: {fresh[0][0]} makes no room for it"
    for key in fresh:
        held = before.capacity.holding(*key)
        if held is None or held.is_ending or held.claim.tenant != spared.claim.tenant:
            yield f"{name}: promised over {key[0]}.{key[1]}, which is not for {event.spared[0]} to give"
        elif held.claim.priority > spared.claim.priority:
            yield f"{name}: promised over {key[0]}.{key[1]}, which is of higher priority than {event.spared[0]}"
    if len(event.destroyed) != len(event.victims):
        yield f"{name}: {len(event.destroyed)} figures of {len(event.victims)} victims"
    known = [before.preemption.pledge(*key) for key in claim.victims]
    pledged = sum(one.gpu_seconds for one in known if one is not None)
    yield from _over_caps(by, sum(event.destroyed), pledged, at, before, promise.spent)


def _ranked(event: AttemptRanked, before: RegionImage) -> Texts:
    """Yield violations by a new level: of an attempt that does not run or whose standing is newer, or of the victim of a promise,
    which was made by the victim's level at that time.
    """
    key, name = (event.workload, event.epoch), f"{event.workload}.{event.epoch}"
    row = before.attempts.row(*key)
    if row is None or not row.phase.is_live or event.revision <= row.standing_revision:
        yield f"{name}: gets level {event.level} by standing {event.revision}, which is not its next"
    for by, epochs in before.capacity.promises.items():
        if any(key in claim.victims for claim in epochs.values()):
            yield f"{name}: gets level {event.level} while it is promised to {by}"


def _ended(event: AttemptEnded, before: RegionImage) -> Texts:
    """Yield a violation if the recorded lost work exceeds the work that was unsaved at the order to stop."""
    held = before.capacity.holding(event.workload, event.epoch)
    most = _lost(held, held.stopped_at) if held is not None and held.stopped_at else 0
    if event.destroyed < 0 or event.destroyed > most:
        yield f"{event.workload}.{event.epoch}: {event.destroyed} GPU-seconds are destroyed, and it had {most} to lose"

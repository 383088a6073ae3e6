"""Preemption: victims that are asked first, the work that preemptions may lose, and substitutes for victims."""

from collections.abc import Iterable

from core.images import RegionImage
from core.images.capacity import Capacity, Holding
from core.images.control import AttemptControl
from core.images.preemption import Preemption
from core.nouns.ids import AttemptKey, WorkloadId
from core.nouns.instant import Instant, Nanoseconds, after
from core.nouns.operation import WHOLE, Ack, Answer, OperationKind, OperationPhase
from core.nouns.placement import Claim, needs_of, nodes_of, parts_of
from core.nouns.preemption import promised_to
from core.nouns.quantities import Amount
from core.nouns.workload import Kind
from core.rules.placement.eviction_cost import destroyed


def is_asked(held: Holding) -> bool:
    """Return whether the attempt names a controller, which decides when the attempt stops as long as time is left."""
    return bool(held.claim.control.controller)


def pledged(held: Holding, now: Instant, ask_span: int) -> int:
    """Return the pledge: the most GPU-seconds that the attempt's end can lose, if decided now.

    An attempt with a controller may run on for `ask_span` nanoseconds.
    """
    until = after(now, Nanoseconds(ask_span)) if is_asked(held) else now
    return destroyed(held, until)


def pledges_of(capacity: Capacity, victims: Iterable[AttemptKey], now: Instant, span: int) -> tuple[int, ...]:
    """Return the pledge of each victim, in order; 0 for a victim that has ended."""
    held = [capacity.holding(*key) for key in victims]
    return tuple(pledged(one, now, span) if one is not None else 0 for one in held)


def promises_over(image: RegionImage, key: AttemptKey) -> AttemptKey | None:
    """Return the promise that waits for the end of an attempt, if any."""
    for workload, epochs in image.capacity.promises.items():
        for epoch, claim in epochs.items():
            if key in claim.victims:
                return workload, epoch
    return None


def is_called_for(capacity: Capacity, key: AttemptKey, source: str) -> bool:
    """Return whether the promise for which a victim is asked still waits for this victim."""
    by = promised_to(source)
    claim = capacity.promise(*by) if by is not None else None
    return claim is not None and key in claim.victims


def may_stop_unasked(image: RegionImage, key: AttemptKey, by: AttemptKey, now: Instant) -> bool:
    """Return whether a victim may be told to stop for this promise without a further answer.

    That holds for a victim without a controller; for a victim on which an operation has begun, acknowledged or at its deadline;
    and for a victim that was asked until the deadline of the promise.
    """
    held, promise = image.capacity.holding(*key), image.preemption.promise(*by)
    if held is None or promise is None:
        return False
    return not is_asked(held) or has_begun(image.control.row(*key)) or promise.asked_until <= now


def has_begun(row: AttemptControl | None) -> bool:
    """Return whether an operation on the whole attempt has begun."""
    operation = row.on(WHOLE) if row is not None else None
    return operation is not None and operation.phase is OperationPhase.BEGUN


def why_no_offer(image: RegionImage, key: AttemptKey, ack: Ack, now: Instant) -> str:
    """Return why the substitute that a victim offers is refused; empty: accepted, and `revised_victims` returns the new victims."""
    row = image.control.row(*key)
    operation = row.operations.get(ack.operation) if row is not None else None
    by = promised_to(operation.source) if operation is not None else None
    claim = image.capacity.promise(*by) if by is not None else None
    held = image.capacity.holding(*key)
    if claim is None or held is None or by is None or key not in claim.victims:
        return "it was not asked to make room for anybody"
    promise = image.preemption.promise(*by)
    if held.is_ending or promise is None or promise.asked_until <= now:
        return "it is too late to offer another"
    if image.preemption.offered.get(key[0]) == key[1]:
        return "it offered another before"
    other = live_attempt(image.capacity, ack.instead)
    if other is None or other in (key, by):
        return f"{ack.instead or 'what it offers'} does not run here"
    problem = _why_no_victim(image, held, other, now)
    if problem:
        return f"{ack.instead} {problem}"
    victims = revised_victims(claim, key, other)
    if not fits_over(image.capacity, claim, victims):
        return f"{ack.instead} does not make room where it is needed"
    if needless_of(image.capacity, claim, victims):
        return f"with {ack.instead} somebody would go for nothing"
    return (
        ""
        if _keeps_cap(image, claim, victims, by, now)
        else f"{ack.instead} has more to lose than may be lost"
    )


def _why_no_victim(image: RegionImage, asked: Holding, key: AttemptKey, now: Instant) -> str:
    """Return why an attempt cannot be a substitute; empty if it can.

    A substitute is the same tenant's own work, and the region could have chosen it as a victim.
    """
    other = image.capacity.holding(*key)
    assert other is not None, key
    if other.claim.tenant != asked.claim.tenant:
        return "is another tenant's"
    if other.claim.priority > asked.claim.priority or other.claim.kind == Kind.INTERACTIVE:
        return "is of higher priority, or interactive"
    if other.is_ending or promises_over(image, key) is not None:
        return "makes room for somebody already"
    if other.is_paired:
        return "shares its device with another job, and makes no room alone"
    return "has not run as long as it may" if now < other.spared_until else ""


def live_attempt(capacity: Capacity, workload: str) -> AttemptKey | None:
    """Return the newest attempt of a workload that holds capacity here; None: no attempt does."""
    epochs = capacity.holdings.get(WorkloadId(workload), {})
    return (WorkloadId(workload), max(epochs)) if epochs else None


def revised_victims(claim: Claim, spared: AttemptKey, other: AttemptKey) -> tuple[AttemptKey, ...]:
    """Return the victims with the substitute in place of the released one, each victim once."""
    victims = tuple(other if key == spared else key for key in claim.victims)
    return tuple(dict.fromkeys(victims))


def fits_over(capacity: Capacity, claim: Claim, victims: tuple[AttemptKey, ...]) -> bool:
    """Return whether a promised claim fits on its nodes once these victims have ended, instead of those of the promise.

    False where parts of devices are involved, which may lie otherwise by then, and where the owner of a node matters: no
    substitute is accepted there.
    """
    nodes = nodes_of(claim)
    if parts_of(claim) or any(node in capacity.devices.by_node for node in nodes):
        return False
    if _is_anybody_alone(capacity, claim):
        return False
    before, then = _held_by(capacity, claim.victims), _held_by(capacity, victims)
    for node, need in needs_of(claim).items():
        mine = need.minus(before.get(node, Amount()))
        room = _room_beside(capacity, node, mine).plus(then.get(node, Amount()))
        if not capacity.is_open(node) or not room.covers(need):
            return False
    return True


def needless_of(capacity: Capacity, claim: Claim, victims: tuple[AttemptKey, ...]) -> tuple[AttemptKey, ...]:
    """Return the victims that are alive, were not told to stop, and without the end of which the claim would fit as well."""
    return tuple(
        key
        for key in victims
        if (held := capacity.holding(*key)) is not None
        and not held.is_ending
        and fits_over(capacity, claim, tuple(other for other in victims if other != key))
    )


def _is_anybody_alone(capacity: Capacity, claim: Claim) -> bool:
    """Return whether the claim, or an attempt on the claim's nodes, shares no node with other tenants."""
    nodes = set(nodes_of(claim))
    there = (held.claim for _, _, held in capacity.live() if not nodes.isdisjoint(nodes_of(held.claim)))
    return any(job.is_alone for one in (claim, *there) for job in one.jobs)


def _room_beside(capacity: Capacity, node: int, mine: Amount) -> Amount:
    """Return the capacity of a node that would be available without the amount `mine` of the reserved capacity."""
    gpu, cpu, memory = capacity.gpu, capacity.cpu, capacity.memory
    return Amount(
        gpu.free[node] - gpu.reserved[node] + max(0, mine.gpu_milli),
        cpu.free[node] - cpu.reserved[node] + max(0, mine.cpu_milli),
        memory.free[node] - memory.reserved[node] + max(0, mine.memory_bytes),
    )


def _held_by(capacity: Capacity, victims: Iterable[AttemptKey]) -> dict[int, Amount]:
    held: dict[int, Amount] = {}
    for key in victims:
        one = capacity.holding(*key)
        for node, amount in needs_of(one.claim).items() if one is not None else ():
            held[node] = held.get(node, Amount()).plus(amount)
    return held


def _keeps_cap(
    image: RegionImage, claim: Claim, victims: tuple[AttemptKey, ...], by: AttemptKey, now: Instant
) -> bool:
    """Return whether a promise over these victims keeps to the caps on lost work, of one claim and of an hour."""
    preemption, promise = image.preemption, image.preemption.promise(*by)
    assert promise is not None, by
    total = sum(revised_pledges(image, victims, by, now))
    known = [preemption.pledge(*key) for key in claim.victims]
    before = sum(one.gpu_seconds for one in known if one is not None)
    within_claim = total + promise.spent <= preemption.claim_cap
    return within_claim and preemption.metered(now) - before + total <= preemption.hour_cap


def revised_pledges(
    image: RegionImage, victims: tuple[AttemptKey, ...], by: AttemptKey, now: Instant
) -> tuple[int, ...]:
    """Return the pledges of a revised promise.

    Earlier pledges stay; other victims pledge the most work that they can lose in the time left to ask.
    """
    promise = image.preemption.promise(*by)
    left = max(0, promise.asked_until - now) if promise is not None else 0
    found = []
    for key in victims:
        known, held = image.preemption.pledge(*key), image.capacity.holding(*key)
        fresh = pledged(held, now, left) if held is not None else 0
        found.append(known.gpu_seconds if known is not None else fresh)
    return tuple(found)


def claims_too_much(preemption: Preemption, pledges: Iterable[int], now: Instant) -> bool:
    """Return whether a new promise with these pledges would exceed the cap on lost work of one claim, or of an hour."""
    return sum(pledges) > preemption.left(now)


def counts_for(operation_kind: OperationKind, source: str, ack: Ack) -> bool:
    """Return whether a preemption accepts such an answer; an offered substitute is checked apart."""
    if operation_kind is not OperationKind.PREEMPT or ack.within < 0:
        return False
    if ack.answer is Answer.INSTEAD:
        return bool(ack.instead) and promised_to(source) is not None
    return ack.answer is Answer.PROCEED

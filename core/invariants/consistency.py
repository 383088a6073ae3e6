"""Invariants (DESIGN §11), as plain functions over images at a consistent cut.

The auditor calls them online and in every scenario. A cut is consistent if all facts of other logs that its facts cite are in the
cut (`citation_of`).
"""

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from core.claims.checks import check_nodes, check_now, has_capacity, is_well_formed
from core.claims.partial import may_be_partial
from core.events.moves import MoveBegun
from core.events.prices import PricesSet
from core.events.queue import (
    AttemptClosed,
    AwardReturned,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadHeld,
    WorkloadReleased,
    WorkloadsForgotten,
)
from core.events.region import (
    AttemptEnded,
    AttemptsForgotten,
    AwardDeclined,
    ClaimGranted,
    ClaimPromised,
    StopOrdered,
)
from core.events.starts import StartReserved
from core.fact import Event, Fact, Note
from core.images import GlobalImage, RegionImage
from core.images.capacity import Capacity, Columns
from core.images.queue import WorkloadRow
from core.images.region import AttemptPhase, AttemptRow
from core.invariants.abandonment import check_abandoned, check_stop_of_abandoned, was_abandoned
from core.invariants.control import Finding, check_control_fact
from core.invariants.forgetting import check_forgotten_attempts, check_forgotten_workloads
from core.invariants.harvest import check_harvest_fact
from core.invariants.pairs import check_pair_fact, check_pairs
from core.invariants.pools import check_pool_fact, check_pools
from core.invariants.preemption import check_preemption_fact
from core.invariants.reservations import check_start_fact
from core.nouns.ids import GLOBAL_LOG, LogName, RegionName, WorkloadId, region_log
from core.nouns.operation import job_and_rank
from core.nouns.placement import Claim, needs_of, parts_of
from core.nouns.quantities import MILLI
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause, Kind, Phase
from core.placing.index.owners import Now, Owners, wants_alone


class Violation(Struct, frozen=True):
    """A broken invariant, found at a fact."""

    rule: int
    """Number of the rule in DESIGN §11."""
    log: LogName
    sequence: int
    text: str


def citation_of(event: Event | Note) -> tuple[LogName, int] | None:
    """Return the log and sequence of the other log's fact that an event cites; None if the event cites no other log."""
    match event:
        case WorkloadBound() | AwardReturned() | AttemptClosed():
            return region_log(event.region), event.region_sequence
        case ClaimGranted() | ClaimPromised():
            return GLOBAL_LOG, event.claim.award_sequence
        case AwardDeclined():
            return GLOBAL_LOG, event.award_sequence
        case MoveBegun():
            return region_log(event.region), event.region_sequence
        case AttemptsForgotten() | StartReserved():
            return GLOBAL_LOG, event.global_sequence
        case StopOrdered(global_sequence=sequence) if sequence:
            return GLOBAL_LOG, sequence
    return None


def check_nodes_balance(capacity: Capacity, nodes: Iterable[int]) -> list[str]:
    """Return violations of rule 1 on some nodes: no negative counts, and free + held + ending = total, or 0 on a lost node."""
    found = []
    for node in nodes:
        for name, columns in (("gpu", capacity.gpu), ("cpu", capacity.cpu), ("memory", capacity.memory)):
            free, held, ending = columns.free[node], columns.held[node], columns.ending[node]
            wanted = 0 if capacity.is_lost[node] else columns.total[node]
            if min(free, held, ending) < 0 or free + held + ending != wanted:
                found.append(
                    f"node {node}: {name} free {free} + held {held} + ending {ending} is not {wanted}"
                )
    return found


def check_devices(capacity: Capacity, nodes: Iterable[int]) -> list[str]:
    """Return violations of rule 1 on some nodes, by device: no shared device is overcommitted, and the node has enough devices."""
    found = []
    for node in nodes:
        known = capacity.devices.by_node.get(node)
        if known is None:
            continue
        if capacity.is_lost[node] or not all(0 < used <= MILLI for used in known.used.values()):
            found.append(f"node {node}: {known.used} milli are held on its shared devices")
        held = capacity.gpu.held[node] + capacity.gpu.ending[node]
        whole, rest = divmod(held - sum(known.used.values()), MILLI)
        if rest or whole < 0:
            found.append(
                f"node {node}: {held} GPU milli are held, and {known.used} of them on shared devices"
            )
        elif whole + len(known.used) > capacity.gpu.total[node] // MILLI:
            found.append(
                f"node {node}: {whole} whole devices and {len(known.used)} shared ones are held, which it has not"
            )
        for device, promised in known.promised.items():
            if promised + known.used.get(device, 0) > MILLI:
                found.append(f"node {node}: {promised} milli of shared device {device} are promised twice")
    return found


def check_ledger(capacity: Capacity) -> list[str]:
    """Return violations of rule 1 on every node, computed from scratch from the holdings of attempts."""
    size = len(capacity.node_type)
    held = [Columns() for _ in range(3)]
    for columns in held:
        columns.grow(size)
    for _, _, holding in capacity.live():
        for node, need in needs_of(holding.claim).items():
            if capacity.is_lost[node]:
                continue
            for columns, amount in zip(
                held, (need.gpu_milli, need.cpu_milli, need.memory_bytes), strict=True
            ):
                (columns.ending if holding.is_ending else columns.held)[node] += amount
    found = check_nodes_balance(capacity, range(size))
    for name, counted, kept in zip(
        ("gpu", "cpu", "memory"), held, (capacity.gpu, capacity.cpu, capacity.memory), strict=True
    ):
        for node in range(size):
            if counted.held[node] != kept.held[node] or counted.ending[node] != kept.ending[node]:
                found.append(f"node {node}: {name} held or ending is not what attempts hold there")
    found.extend(_devices_anew(capacity))
    found.extend(check_pairs(capacity))
    found.extend(check_pools(capacity))
    return found


def _devices_anew(capacity: Capacity) -> list[str]:
    """Return violations on shared devices: used milli that differ from those of attempts, and tasks that lack their parts."""
    used: dict[int, Counter[int]] = {}
    found = []
    for workload, epoch, holding in capacity.live():
        claim = holding.claim
        parts = Counter(node for node, sizes in parts_of(claim).items() for _ in sizes)
        if parts != Counter(node for node, _ in holding.parts.values()):
            found.append(f"{workload}.{epoch}: not each of its parts of a device has one")
        for task, (node, device) in holding.parts.items():
            if not capacity.is_lost[node]:
                part = claim.jobs[job_and_rank(task)[0]].need.gpu_milli % MILLI
                used.setdefault(node, Counter())[device] += part
    kept = {node: known.used for node, known in capacity.devices.by_node.items()}
    if used != kept:
        found.append(f"shared devices hold {kept}, and attempts hold {used} there")
    return [*found, *check_devices(capacity, sorted(kept))]


def check_grant(claim: Claim, before: RegionImage, owners: Owners | None = None) -> list[Finding]:
    """Return violations by a grant: of rule 2, if the gang is not whole or breaks a hard rule; of rule 1, if capacity was lacking.

    owners   owners of nodes at the grant; None: as in the image
    """
    found = []
    if not is_well_formed(claim):
        found.append((2, f"{claim.workload}.{claim.epoch}: not a whole gang"))
    refusal = check_nodes(claim, before.capacity)
    # Pools' kinds of work became a rule after the first logs were written: stores keep the rule, but older grants remain valid.
    if refusal not in (None, Reason.WRONG_POOL):
        found.append((2, f"{claim.workload}.{claim.epoch}: granted against {refusal}"))
        return found
    reserved_for_it = before.capacity.promise(claim.workload, claim.epoch) is not None
    parts = parts_of(claim)
    for node, need in needs_of(claim).items():
        capacity = before.capacity
        free = (capacity.gpu.free[node], capacity.cpu.free[node], capacity.memory.free[node])
        if not reserved_for_it:
            room = capacity.available(node)
            free = (room.gpu_milli, room.cpu_milli, room.memory_bytes)
        if capacity.is_lost[node] or capacity.closed[node]:
            found.append((2, f"{claim.workload}.{claim.epoch}: granted on node {node}, which is not open"))
        elif any(
            have < want
            for have, want in zip(free, (need.gpu_milli, need.cpu_milli, need.memory_bytes), strict=True)
        ):
            found.append((1, f"{claim.workload}.{claim.epoch}: granted without room on node {node}"))
        elif not reserved_for_it and not has_capacity(capacity, node, need, parts.get(node, ())):
            found.append((1, f"{claim.workload}.{claim.epoch}: granted without a device on node {node}"))
    return [*found, *_not_apart(claim, before.capacity, owners)]


def _not_apart(claim: Claim, capacity: Capacity, owners: Owners | None) -> list[Finding]:
    """Return violations on nodes where one tenant is to be alone and another is too. Owners are read only if some work is alone."""
    owners = Owners.of(capacity) if owners is None else owners
    if not owners.alone and not wants_alone(claim):
        return []
    now = Now(capacity, owners, ((claim.workload, claim.epoch),))
    return [
        (2, f"{claim.workload}.{claim.epoch}: granted on node {node} against {reason}")
        for node, reason in sorted(check_now(claim, now).items())
        if reason is Reason.TENANTS_APART
    ]


def check_one_live(
    workload: WorkloadId, regions: dict[RegionName, RegionImage], queue: GlobalImage | None = None
) -> list[str]:
    """Return violations of rule 3: no two live attempts of one workload without its recorded consent."""
    live = [
        f"{region}:{epoch}"
        for region, image in sorted(regions.items())
        for epoch, row in sorted(image.attempts.rows.get(workload, {}).items())
        if row.phase.is_live and not was_abandoned(queue, workload, epoch)
    ]
    return [f"{workload}: live attempts {', '.join(live)}"] if len(live) > 1 else []


def check_global_fact(fact: Fact, before: GlobalImage, regions: dict[RegionName, RegionImage]) -> list[str]:
    """Return violations of rule 3 at a fact of the queue, before the fact is folded.

    Epochs and revisions only grow; terminal phases are final; no attempt stays live after its workload's end; the queue records of
    an attempt only facts that the region's log shows; the user's requests and the newest checkpoint are respected.
    """
    event = fact.event
    if isinstance(event, WorkloadsForgotten):
        return check_forgotten_workloads(event, before)
    workload = getattr(event, "workload", None)
    row = before.workloads.rows.get(workload) if workload is not None else None
    if row is None or workload is None:
        return []
    if row.phase.is_terminal:
        return [f"{workload}: {type(event).__name__} after {row.phase}"]
    found = []
    match event:
        case WorkloadAwarded():
            if event.epoch != row.epoch + 1:
                found.append(f"{workload}: epoch {event.epoch} after {row.epoch}")
            if row.is_active:
                found.append(f"{workload}: awarded while epoch {row.epoch} stands in {row.region}")
            found.extend(_unwanted_award(event, row))
        case WorkloadBound() | AwardReturned() | AttemptClosed():
            if event.epoch != row.epoch or not row.is_active:
                found.append(
                    f"{workload}: {type(event).__name__} of epoch {event.epoch}, standing is {row.epoch}"
                )
            elif isinstance(event, AttemptClosed) and event.cause == EndCause.ABANDONED:
                found.extend(check_abandoned(event, row, before, regions))
            else:
                found.extend(_unfounded(event, regions))
                if isinstance(event, AttemptClosed):
                    found.extend(_closed_wrongly(event, row, regions))
        case WorkloadHeld() | WorkloadReleased():
            if event.revision != row.hold_revision + 1:
                found.append(f"{workload}: hold revision {event.revision} after {row.hold_revision}")
    ends = isinstance(event, WorkloadCancelled) or (
        isinstance(event, AttemptClosed) and event.phase.is_terminal
    )
    if ends:
        is_abandoned = isinstance(event, AttemptClosed) and event.cause == EndCause.ABANDONED
        found.extend(_still_live(workload, regions, before, row.epoch if is_abandoned else 0))
    return found


def _unwanted_award(event: WorkloadAwarded, row: WorkloadRow) -> list[str]:
    """Return violations by an award: of a workload on hold or to be cancelled, not to the best bid, or with an older checkpoint."""
    found = []
    if row.is_held:
        found.append(f"{event.workload}: awarded while it is held")
    if row.is_cancel_requested:
        found.append(f"{event.workload}: awarded while it is to be cancelled")
    if event.bids and event.region != min(event.bids, key=lambda bid: bid.place).region:
        found.append(f"{event.workload}: awarded to {event.region}, which did not make the best bid")
    resume, newest = (event.resume_epoch, event.resume_step), (row.resume_epoch, row.resume_step)
    if resume != newest:
        found.append(
            f"{event.workload}: awarded to resume {_point(resume)}, and the newest is {_point(newest)}"
        )
    return found


def _closed_wrongly(
    event: AttemptClosed, row: WorkloadRow, regions: dict[RegionName, RegionImage]
) -> list[str]:
    """Return violations by a close: the phase does not follow from the attempt's end, or the newest checkpoint is not kept."""
    name, found = f"{event.workload}: AttemptClosed of epoch {event.epoch}", []
    wanted = _phase_after(event.cause, row)
    if event.phase != wanted:
        found.append(f"{name} by {event.cause} makes it {event.phase}, and it should be {wanted}")
    image = regions.get(event.region)
    attempt = image.attempts.row(event.workload, event.epoch) if image is not None else None
    if attempt is None or attempt.phase != AttemptPhase.ENDED:
        return found
    if event.cause != attempt.end_cause:
        found.append(f"{name} says {event.cause}, and {event.region} shows {attempt.end_cause}")
    saved, newest = (event.saved_epoch, event.saved_step), _newest_checkpoint(event, row, attempt)
    if saved != newest:
        found.append(f"{name} keeps {_point(saved)}, and the newest is {_point(newest)}")
    return found


def _phase_after(cause: EndCause, row: WorkloadRow) -> Phase:
    """Return the workload's phase after the end of its attempt (DESIGN §5, 7).

    Completion comes first, then the user's request to cancel, then limits on failures and time. Other workloads are tried again.
    """
    if cause == EndCause.COMPLETED:
        return Phase.COMPLETED
    if row.is_cancel_requested:
        return Phase.CANCELLED
    match cause:
        case EndCause.TASK_FAILED if row.spec.kind == Kind.SERVICE:
            # The region counted the failures of each task; without a limit the service does not end by them.
            return Phase.FAILED if row.spec.retry.task_failed >= 0 else Phase.PENDING
        case EndCause.TASK_FAILED if row.tasks_failed >= row.spec.retry.task_failed:
            return Phase.FAILED
        case EndCause.START_FAILED if row.starts_failed >= row.spec.retry.start_failed:
            return Phase.FAILED
        case EndCause.TIMEOUT:
            return Phase.TIMEOUT
    return Phase.PENDING


def _newest_checkpoint(event: AttemptClosed, row: WorkloadRow, attempt: AttemptRow) -> tuple[int, int]:
    """Return the attempt's newest checkpoint; if the attempt committed none, the one known before, which was checked likewise."""
    return (event.epoch, attempt.saved_step) if attempt.saved_step else (row.resume_epoch, row.resume_step)


def _point(checkpoint: tuple[int, int]) -> str:
    epoch, step = checkpoint
    return f"step {step} of epoch {epoch}" if epoch else "nothing"


def _unfounded(
    event: WorkloadBound | AwardReturned | AttemptClosed, regions: dict[RegionName, RegionImage]
) -> list[str]:
    """Return a violation if the queue records of an attempt a phase that the region's log does not show of the same attempt."""
    image = regions.get(event.region)
    if image is None:
        return []
    attempt = image.attempts.row(event.workload, event.epoch)
    shown = attempt.phase if attempt is not None else None
    match event:
        case AwardReturned():
            is_founded = shown == AttemptPhase.DECLINED
        case AttemptClosed():
            is_founded = shown == AttemptPhase.ENDED
        case WorkloadBound():
            is_founded = shown in (AttemptPhase.STARTED, AttemptPhase.ENDED)
    if is_founded:
        return []
    name = f"{type(event).__name__} of epoch {event.epoch}"
    return [f"{event.workload}: {name}, and {event.region} shows it {shown or 'nowhere'}"]


def _still_live(
    workload: WorkloadId, regions: dict[RegionName, RegionImage], queue: GlobalImage, abandoned: int
) -> list[str]:
    """Return violations by live attempts of a workload that has ended.

    abandoned   epoch of the attempt that this fact abandons, which may be live; 0: no attempt
    """
    return [
        f"{workload}: ended, and {region} still has attempt {epoch} {row.phase}"
        for region, image in sorted(regions.items())
        for epoch, row in sorted(image.attempts.rows.get(workload, {}).items())
        if row.phase.is_live and epoch != abandoned and not was_abandoned(queue, workload, epoch)
    ]


def check_region_fact(
    region: RegionName,
    fact: Fact,
    before: RegionImage,
    queue: GlobalImage | None,
    owners: Owners | None = None,
) -> list[Finding]:
    """Return violations of rules 1, 2, 3, 5, 6 and 7 at a fact of a region, given the queue's image at the same cut, if known.

    owners   owners of nodes before the fact, as followed by `Owners.hear`; None: as in the image
    """
    return [
        *_check_attempt_fact(region, fact, before, queue, owners),
        *check_stop_of_abandoned(fact.event, before, queue),
        *check_forgotten_attempts(fact.event, before, queue),
        *check_preemption_fact(fact, before),
        *check_control_fact(fact, before),
        *check_start_fact(fact, before),
        *check_pair_fact(fact, before),
        *check_pool_fact(fact, before),
        *check_harvest_fact(fact, before),
    ]


def _check_attempt_fact(
    region: RegionName,
    fact: Fact,
    before: RegionImage,
    queue: GlobalImage | None,
    owners: Owners | None,
) -> list[Finding]:
    event = fact.event
    match event:
        case ClaimGranted():
            found = check_grant(event.claim, before, owners)
            if any(event.unplaced) and not may_be_partial(event.claim):
                found.append((2, f"{event.workload}.{event.epoch}: granted in part, and it is a gang"))
            row = before.attempts.row(event.workload, event.epoch)
            if row is not None and row.phase.value != "promised":
                found.append((3, f"{event.workload}.{event.epoch}: granted again after {row.phase}"))
            if was_abandoned(queue, event.workload, event.epoch):
                return found  # Abandoned by consent before the region had read of that.
            if queue is not None and not queue.awards.stands(event.workload, event.epoch, region):
                text = f"{event.workload}.{event.epoch}: granted in {region} without a standing award"
                found.append((3, text))
            elif queue is not None:
                found.extend((3, text) for text in _resumes_another(event.claim, queue))
            return found
        case AttemptEnded(cause=EndCause.COMPLETED) if event.exit_code:
            return [
                (3, f"{event.workload}.{event.epoch}: completed, and a task exited with {event.exit_code}")
            ]
        case StartReserved(workload=workload, revision=revision) if queue is not None:
            is_promised = _was_promised(queue, workload, revision, region)
            text = f"{workload}: a start is reserved in {region} that is not promised"
            return [] if is_promised else [(3, text)]
        case PricesSet():
            return [(7, text) for text in _check_prices(event, fact.sequence, before)]
    return []


def _check_prices(event: PricesSet, sequence: int, before: RegionImage) -> list[str]:
    """Return violations by new prices: revisions, by which views name prices, grow by one; prices are solved from earlier facts."""
    found = []
    if event.prices.revision != before.prices.revision + 1:
        found.append(f"prices {event.prices.revision} after {before.prices.revision}")
    if event.solved_from.sequence >= sequence:
        found.append(f"prices solved from fact {event.solved_from.sequence}, and recorded as {sequence}")
    return found


def _was_promised(queue: GlobalImage, workload: WorkloadId, revision: int, region: RegionName) -> bool:
    """Return whether the queue promised a start of this revision in a region, as far as its image still knows.

    The queue's log may be folded ahead of the region's: a promise that is over by now was active when the region read of it.
    """
    row, promise = queue.workloads.rows.get(workload), queue.start_promises.rows.get(workload)
    if promise is None or promise.revision > revision:
        return row is not None and row.start_revision >= revision
    return queue.start_promises.stands(workload, revision, region)


def _resumes_another(claim: Claim, queue: GlobalImage) -> list[str]:
    """Return a violation if a grant resumes another checkpoint than its award's, which the row has while the award is active."""
    row = queue.workloads.rows.get(claim.workload)
    resume = (claim.resume_epoch, claim.resume_step)
    if row is None or resume == (row.resume_epoch, row.resume_step):
        return []
    awarded = _point((row.resume_epoch, row.resume_step))
    return [f"{claim.workload}.{claim.epoch}: granted to resume {_point(resume)}, and awarded with {awarded}"]


def check_workloads(queue: GlobalImage) -> list[str]:
    """Return violations of rule 3 over all workloads: each is pending, awarded, running or in exactly one terminal state."""
    found = []
    for workload, row in queue.workloads.rows.items():
        award = queue.awards.rows.get(workload)
        stands = award is not None and award.is_active
        if stands != row.is_active:
            found.append(f"{workload}: {row.phase}, and its award {'stands' if stands else 'does not stand'}")
        if award is not None and award.epoch != row.epoch:
            found.append(f"{workload}: epoch {row.epoch}, and its newest award has {award.epoch}")
        if row.phase == Phase.RUNNING and not row.region:
            found.append(f"{workload}: runs nowhere")
    return found

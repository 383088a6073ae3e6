"""Rules 2, 4 and 5 of the invariants (DESIGN §11) for shared pools: the border of the pool, shares and picks, and received time.

Except for the classes that the image keeps, the rules are written a second time, without the functions by which the queue chooses. GPUs
of a column are those that were told with the newest shares; a column that came since is not checked for room.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from core.claims.checks import groups_of
from core.events.control import ClaimRevised
from core.events.queue import (
    AttemptClosed,
    StandingChanged,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadCancelled,
)
from core.events.region import ClaimGranted, ClaimPromised, PromiseRevised, StopOrdered
from core.events.sharing import PicksAdded, RoundBegun, SharesSet
from core.fact import Fact
from core.images import GlobalImage, RegionImage
from core.images.queue import WorkloadRow
from core.images.sharing import Sharing
from core.invariants.control import Finding
from core.nouns.fleet import gpu_type_of
from core.nouns.ids import AttemptKey, WorkloadId
from core.nouns.limits import ROUND_JOINS_MAX
from core.nouns.operation import ROUND
from core.nouns.placement import Claim
from core.nouns.pool import SHARED_GPUS, SHARED_POOL, shared_name
from core.nouns.sharing import ISOLATED, WHOLE, ShareColumn
from core.nouns.workload import EndCause, Kind, Phase

SLACK = 10
"""Millionths of a GPU's time by which solved shares may exceed a column: a solver is exact to ten decimals or so."""
ROUNDING = 2
"""Millionths of a round by which the lag of a job in a column may be wrong."""


class SharedBook:
    """What the facts of the queue's log alone say of shared pools, kept beside an image that is to say the same."""

    def __init__(self, sharing: Sharing) -> None:
        """Begin with what an adopted image says."""
        self.since: dict[WorkloadId, int] = {
            workload: pick.counted_at for workload, pick in sharing.picks.items() if pick.counted_at
        }
        """Of each job that runs, the time up to which its lag counts what the job received."""
        self.named: dict[str, None] = dict.fromkeys(sharing.targets)
        """Classes and jobs to which the newest shares give targets."""
        self.lags: dict[str, dict[str, int]] = {}
        """Before the fact that is folded now, the lags of the jobs that the fact counts."""

    def look(self, fact: Fact, before: Sharing) -> None:
        """Remember the lags of jobs that a fact counts, before the fact is folded."""
        match fact.event:
            case RoundBegun():
                self.lags = {job: dict(lags) for job, lags in before.lags.items()}
            case WorkloadBound(workload=workload) | AttemptClosed(workload=workload):
                lags = before.lags.get(workload)
                self.lags = {} if lags is None else {workload: dict(lags)}
            case _:
                self.lags = {}

    def hear(self, fact: Fact) -> None:
        """Follow a fact."""
        match fact.event:
            case RoundBegun():
                self.since = dict.fromkeys(self.since, fact.at)
            case WorkloadBound(workload=workload):
                self.since[workload] = fact.at
            case AttemptClosed(workload=workload) | WorkloadCancelled(workload=workload):
                self.since.pop(workload, None)
            case SharesSet(shares=shares, is_more=is_more):
                names = dict.fromkeys(one.name for one in shares.classes)
                self.named = self.named | names if is_more else names


def fold_checked(fact: Fact, image: GlobalImage, book: SharedBook) -> list[str]:
    """Fold a fact of the queue into its image and the book, and return the violations that the fact causes in shared pools."""
    found = [*check_sharing(fact, image), *check_targets(fact, image, book)]
    book.look(fact, image.sharing)
    image.fold(fact)
    found += check_received(fact, image, book)
    book.hear(fact)
    return found


def check_received(fact: Fact, after: GlobalImage, book: SharedBook) -> list[str]:
    """Return violations by lags that fell by more than the time that passed, after a fact is folded and before the book hears of it.

    Jobs are left out whose shares have left a column since: their lags went to other columns, where they may reach a bound.
    """
    sharing, found = after.sharing, []
    for job, was in book.lags.items():
        now = sharing.lags.get(job)
        if now is None or not was.keys() <= now.keys():
            continue
        fell = sum(was.values()) - sum(now[column] for column in was)
        passed = fact.at - book.since.get(WorkloadId(job), fact.at)
        most = passed * WHOLE // sharing.settings.round_span
        if fell > most + ROUNDING * len(was):
            found.append(f"{job}: its lag fell by {fell} millionths of a round, and {most} have passed")
    return found


def check_targets(fact: Fact, before: GlobalImage, book: SharedBook) -> list[str]:
    """Return violations by targets that a round goes by and that the newest shares do not give."""
    if not isinstance(fact.event, RoundBegun):
        return []
    return [
        f"{name}: a round begins with its target, and the newest shares give it none"
        for name in before.sharing.targets
        if name not in book.named
    ]


def check_sharing(fact: Fact, before: GlobalImage) -> list[str]:
    """Return violations by shares, picks and awards of shared pools, before a fact of the queue is folded."""
    event = fact.event
    found: list[str] = []
    match event:
        case SharesSet():
            found += _shares(event, before.sharing)
        case RoundBegun():
            found += _round(event, before)
        case PicksAdded():
            picks = _picks(before.sharing)
            found += _joined(event, before.sharing, picks)
            wanted = dict.fromkeys(event.columns[place] for place in event.joins.values())
            guests = _guests(before.sharing)
            alone = {workload: column for workload, column in picks.items() if workload not in guests}
            found += _room(wanted, before.sharing, alone)
        case WorkloadAwarded() | StandingChanged():
            row = before.workloads.rows.get(event.workload)
            if row is not None:
                found += _charged(event, row)
                found += _awarded(event, row, before) if isinstance(event, WorkloadAwarded) else ()
    return found


def _shares(event: SharesSet, sharing: Sharing) -> Iterable[str]:
    shares = event.shares
    owed = Counter[int]()
    awake = Counter(job.kind for job in sharing.jobs.values() if not job.rests)
    for one in shares.classes:
        job = sharing.jobs.get(WorkloadId(one.name))
        kind = sharing.classes.get(one.name if job is None else job.kind)
        count = awake[one.name] if job is None else 1
        mine = (*one.shares, *((place, share) for place, _, share in one.beside))
        for place, share in mine:
            column = shares.columns[place].name
            if share < 0:
                yield f"{one.name}: owed {share} millionths of its time in {column}"
            if kind is not None and share and not kind.takes(shares.columns[place]):
                yield f"{one.name}: owed time in {column}, which it may not use"
            if kind is not None:
                owed[place] += share * kind.gpus * count
        for place, _, share in one.beside:
            if kind is not None:  # Two are there at once: each of them owes half of the GPU.
                owed[place] -= share * count // 2
        total = sum(share for _, share in mine)
        if total > WHOLE:
            yield f"{one.name}: owed {total} millionths of its time"
    if shares.by == ISOLATED or shares.changes != sharing.changes:
        return  # Jobs may have come since the solver was asked; a solver for nobody has left out jobs on hold.
    for place, gpus in enumerate(shares.gpus):
        if owed[place] > gpus * (WHOLE + SLACK):
            yield f"{shares.columns[place].name}: {owed[place] / WHOLE:g} GPUs are owed, and it has {gpus}"


def _picks(sharing: Sharing) -> dict[WorkloadId, str]:
    """Return the name of the column of each job that is picked."""
    return {workload: pick.column for workload, pick in sharing.picks.items()}


def _round(event: RoundBegun, before: GlobalImage) -> Iterable[str]:
    sharing = before.sharing
    picks = _picks(sharing)
    if event.number <= sharing.number:
        yield f"round {event.number} begins after round {sharing.number}"
    left: dict[WorkloadId, str] = {}
    for workload in event.leaves:
        column = picks.pop(workload, None)
        if column is None:
            yield f"{workload}: told to leave, and it has no pick"
        elif workload not in event.joins:
            left[workload] = column
        elif event.columns[event.joins[workload]].name == column and not _may_change_gpu(
            workload, event, sharing
        ):
            yield f"{workload}: told to leave {column}, for which it is picked again"
    yield from _joined(event, sharing, picks)
    guests = _guests(sharing, event)
    yield from _beside(guests, sharing, picks)
    alone = {workload: column for workload, column in picks.items() if workload not in guests}
    yield from _room(event.columns, sharing, alone)
    yield from _resting(event, before, picks)
    # Where so many join, more may in facts behind this one, for which jobs that leave make room.
    if len(event.joins) < ROUND_JOINS_MAX:
        yield from _needless(left, before, alone, {column.name: column for column in event.columns})


def _resting(event: RoundBegun, before: GlobalImage, picks: Mapping[WorkloadId, str]) -> Iterable[str]:
    """Yield violations by jobs that rest from now on, and are picked or may run, and by jobs that resume and did not rest."""
    jobs = before.sharing.jobs
    for workload in event.rests:
        if workload in picks:
            yield f"{workload}: rests from now on, and is picked for {picks[workload]}"
        if workload not in jobs or jobs[workload].rests:
            yield f"{workload}: rests from now on, and it is no job that is owed shares"
        elif not _may_have_to_rest(workload, before):
            yield f"{workload}: rests from now on, and nothing keeps it from running"
    for workload in event.resumes:
        if workload not in jobs or not jobs[workload].rests:
            yield f"{workload}: resumes, and it is no job that rests"


def _may_have_to_rest(workload: WorkloadId, before: GlobalImage) -> bool:
    """Return whether a job is on hold or to be cancelled, or of a tenant with a budget, which may be spent."""
    row = before.workloads.rows[workload]
    tenant = before.tenants.rows.get(row.tenant)
    is_on_hold = row.is_held and row.phase is Phase.PENDING
    return row.is_cancel_requested or is_on_hold or (tenant is not None and tenant.budget is not None)


def _may_change_gpu(workload: WorkloadId, event: RoundBegun, sharing: Sharing) -> bool:
    """Return whether a job may leave a column and join it again: it shares a GPU from now on, or did until now."""
    return workload in event.beside or bool(sharing.picks[workload].beside)


def _guests(sharing: Sharing, event: RoundBegun | None = None) -> dict[WorkloadId, WorkloadId]:
    """Return the jobs that came, or come, to the GPU of another, each with that other; after a round has begun, if one is given."""
    leaves = event.leaves if event is not None else ()
    found = {
        workload: pick.beside
        for workload, pick in sharing.picks.items()
        if pick.is_guest and workload not in leaves and pick.beside not in leaves
    }
    return found | (event.beside if event is not None else {})


def _beside(
    guests: Mapping[WorkloadId, WorkloadId], sharing: Sharing, picks: Mapping[WorkloadId, str]
) -> Iterable[str]:
    """Yield violations by jobs that share a GPU: two of one GPU each, in one column, and only two."""
    hosts = Counter(guests.values())
    for guest, host in guests.items():
        if picks.get(guest) is None or picks.get(guest) != picks.get(host):
            yield f"{guest}: picked beside {host}, which is picked for {picks.get(host)}"
            continue
        if host in guests or hosts[host] > 1:
            yield f"{guest}: picked beside {host}, which shares its GPU with another"
        for job in (guest, host):
            if not sharing.classes[sharing.jobs[job].kind].may_pair:
                yield f"{job}: picked to share a GPU, and it has more than one"


def _joined(event: RoundBegun | PicksAdded, sharing: Sharing, picks: dict[WorkloadId, str]) -> Iterable[str]:
    """Yield violations by jobs that are picked, and add them to the picks."""
    for workload, place in event.joins.items():
        column, job = event.columns[place], sharing.jobs.get(workload)
        if job is None:
            yield f"{workload}: picked for {column.name}, and it is no job of a shared pool"
            continue
        if workload in picks:
            yield f"{workload}: picked for {column.name}, and for {picks[workload]}"
        if not sharing.classes[job.kind].takes(column):
            yield f"{workload}: picked for {column.name}, which it may not use"
        picks[workload] = column.name


def _room(columns: Iterable[ShareColumn], sharing: Sharing, picks: Mapping[WorkloadId, str]) -> Iterable[str]:
    """Yield the columns for which more jobs are picked than fit."""
    told, used = _told(sharing), _used(sharing, picks)
    for column in columns:
        gpus = told.get(column.name)
        if gpus is not None and used[column.name] > gpus:
            yield f"{column.name}: picks for {used[column.name]} GPUs, and it has {gpus}"


def _told(sharing: Sharing) -> dict[str, int]:
    """Return the GPUs of columns, as they were told with the newest shares."""
    return {
        column.name: gpus for column, gpus in zip(sharing.shares.columns, sharing.shares.gpus, strict=True)
    }


def _used(sharing: Sharing, picks: Mapping[WorkloadId, str]) -> Counter[str]:
    used = Counter[str]()
    for workload, column in picks.items():
        used[column] += sharing.classes[sharing.jobs[workload].kind].gpus
    return used


def _needless(
    left: Mapping[WorkloadId, str],
    before: GlobalImage,
    picks: Mapping[WorkloadId, str],
    columns: Mapping[str, ShareColumn],
) -> Iterable[str]:
    """Yield the jobs that are told to leave, run nowhere else, and could stay: their column has GPUs left for them.

    Jobs with data, of tenants with a budget, and that run in another region still are left out, for they may have to go whether or not
    there is room.
    """
    sharing = before.sharing
    told, used = _told(sharing), _used(sharing, picks)
    for workload, name in left.items():
        row, one = before.workloads.rows[workload], sharing.classes[sharing.jobs[workload].kind]
        must_go = (
            _may_have_to_rest(workload, before)
            or (
                row.is_active and row.region != name.partition("/")[0]
            )  # It may be in a region that is silent.
            or bool(row.spec.data)
            or name not in columns
            or not sharing.speed(sharing.jobs[workload].kind, gpu_type_of(columns[name].gpu_type)[0])
        )
        if not must_go and used[name] + one.gpus <= told.get(name, 0):
            yield f"{workload}: told to leave {name}, which has {told[name] - used[name]} GPUs left"


def _charged(event: WorkloadAwarded | StandingChanged, row: WorkloadRow) -> Iterable[str]:
    """Yield charges across the border: quota counts no shared pool, and a shared pool no other work."""
    is_shared = row.spec.kind is Kind.SHARED
    for kind in sorted(event.charge):
        if kind.startswith(SHARED_GPUS) is not is_shared:
            yield f"{event.workload}: charged {kind}, and its kind is {row.spec.kind}"


def _awarded(event: WorkloadAwarded, row: WorkloadRow, before: GlobalImage) -> Iterable[str]:
    """Yield violations by an award of a shared pool: only a pick is awarded, in its column, and only when its last attempt is over."""
    if row.spec.kind is not Kind.SHARED:
        return
    award = before.awards.rows.get(event.workload)
    if award is not None and award.is_active and award.moving.startswith(ROUND):
        yield f"{event.workload}: awarded again, and attempt {award.epoch}, which is to leave, is not over"
    if row.pick is None:
        yield f"{event.workload}: awarded, and no round has picked it"
        return
    kinds = [kind for kind in event.charge if kind != shared_name(gpu_type_of(row.pick.gpu_type)[0])]
    if event.region != row.pick.region or kinds:
        yield f"{event.workload}: awarded {event.charge} in {event.region}, and picked for {row.pick.name}"


def check_border(fact: Fact, before: RegionImage) -> list[Finding]:
    """Return violations at a fact of a region: of rule 2, if work is on the wrong side of a shared pool's border; of rule 5, if
    work is preempted across the border.
    """
    event = fact.event
    found: list[Finding] = []
    match event:
        case ClaimGranted(claim=claim) | ClaimPromised(claim=claim):
            nodes = {node for spread in claim.spreads for node in spread.nodes}
            found += _across(event.workload, event.epoch, claim.kind, nodes, before)
            found += _pushed_out(claim.victims, claim, event.workload, before)
        case ClaimRevised():
            held = before.capacity.holding(event.workload, event.epoch)
            nodes = {move.node_to for move in event.moves}
            kind = "" if held is None else held.claim.kind
            found += _across(event.workload, event.epoch, kind, nodes, before)
        case PromiseRevised():
            promise = before.capacity.promise(event.workload, event.epoch)
            found += _pushed_out(event.victims, promise, event.workload, before)
        case StopOrdered(cause=EndCause.PREEMPTED, by=by) if by:
            promises = before.capacity.promises.get(by, {})
            promise = next(iter(promises.values()), None)
            found += _pushed_out(((event.workload, event.epoch),), promise, by, before)
    return found


def _across(
    workload: WorkloadId, epoch: int, kind: str, nodes: Iterable[int], before: RegionImage
) -> Iterable[Finding]:
    known = tuple(sorted(filter(before.capacity.has_node, nodes)))
    for group in groups_of(before.capacity, known):
        if (group.pool == SHARED_POOL) is not (kind == Kind.SHARED):
            text = f"{workload}.{epoch}: {kind or 'unknown'} work is placed on nodes of the pool {group.pool}"
            yield 2, text


def _pushed_out(
    victims: Iterable[AttemptKey], claim: Claim | None, by: WorkloadId, before: RegionImage
) -> Iterable[Finding]:
    """Yield victims of work across the border, and in a shared pool those that need as much of a node as the work that pushes them out."""
    is_shared = claim is not None and claim.kind == Kind.SHARED
    for workload, epoch in victims:
        held = before.capacity.holding(workload, epoch)
        if held is None:
            continue
        if (held.claim.kind == Kind.SHARED) is not is_shared:
            text = f"{held.claim.kind} work is preempted for {by}, across a shared pool's border"
            yield 5, f"{workload}.{epoch}: {text}"
        elif is_shared and claim is not None and _width(held.claim) >= _width(claim):
            yield 5, f"{workload}.{epoch}: preempted in a shared pool for {by}, which is no wider"


def _width(claim: Claim) -> int:
    """Return the most GPU milli of one node that a job needs."""
    return max(job.need.gpu_milli * job.tasks_together for job in claim.jobs)

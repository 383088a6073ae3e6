"""Rounds of shared pools: which job runs on which GPU type from one boundary to the next.

    a multiple of the span        RoundBegun: every job is owed its shares, and who joins and who leaves is told
    who leaves                    task control asks its controller, and stops it by the deadline (components/task_control/)
    who joins                     waits in the order as any work does, held to its column; nobody else of a shared pool is in the order
    a job ends, or is submitted   PicksAdded: idle GPUs go to jobs that wait, by speed
    shares are missing            the queue waits for no planner: each job has an equal part until there are others

The choice itself is that of `mizzen policy compare` (core/sharing/rounds.py), on what the log says (core/rules/shared_rounds.py): which job
is picked, and what each is owed. It reads capacity as the planner told it with the shares, or else all nodes of the pool.
"""

from collections import Counter
from collections.abc import Iterable

from components.job_queue.measuring import record_speeds, speeds_due
from components.job_queue.ordering import place
from components.job_queue.state.auctions import settled
from components.job_queue.state.queue_state import (
    AuctionClosed,
    CopyArrived,
    QueueState,
    RoundLooked,
    why_not_asked,
)
from components.job_queue.state.speed_meter import SpeedKey
from core.component import NOTHING, Decision
from core.events.queue import (
    AttemptClosed,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadReleased,
    WorkloadSubmitted,
)
from core.events.sharing import PicksAdded, RoundBegun, SharesSet, SpeedMeasured
from core.fact import Event, Fact, Note
from core.images.queue import WorkloadRow
from core.messages.base import Message
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.instant import Instant, Nanoseconds, earliest
from core.nouns.limits import ROUND_DEADLINE_MAX, ROUND_DEADLINE_PART, ROUND_JOINS_MAX
from core.nouns.quantities import MILLI
from core.nouns.reasons import Reason
from core.nouns.sharing import ISOLATED, ClassShares, PoolShares, ShareColumn
from core.nouns.workload import Kind, Phase
from core.rules.never_fits import types_that_hold
from core.rules.shared_pools import Pooled, equal_parts, facts_of_shares
from core.rules.shared_rounds import Scene, changes_of, choice_of, owed_at, pooled_of, scene_of
from core.sharing.rounds import filled

JOINS_MAX = RESTS_MAX = ROUND_JOINS_MAX
"""Jobs that join in one fact, of those that do not leave or share a GPU; that rest; and that resume. Beside them it has room for 4,000 jobs
that change their column, or 10,000 that leave."""


def round_due(state: QueueState) -> Instant | None:
    """Return when the next round begins, idle GPUs are to be given out, or speeds are recorded; None: there is no job of a shared pool."""
    sharing = state.image.sharing
    if not sharing.jobs:
        return None
    boundary = Instant((sharing.number + 1) * sharing.settings.round_span)
    return earliest(boundary, state.fill_at, speeds_due(state), state.copies_due.due())


def begin_round(state: QueueState, now: Instant) -> Decision:
    """Return the facts of a round that begins now, or those by which idle GPUs are given out within one; before both, measured speeds."""
    due = round_due(state)
    if due is None or due > now:
        return NOTHING
    measured = record_speeds(state, now)
    if measured.events:
        return measured
    arrived = state.copies_due.passed(now)
    if arrived:
        return Decision(tuple(CopyArrived(workload) for workload in arrived))
    sharing = state.image.sharing
    number = now // sharing.settings.round_span
    pooled = _pooled(state, now)
    if number <= sharing.number:
        return _filled(state, _scene(state, pooled, is_boundary=False))
    missing = _missing_shares(state, pooled)
    if missing is not None:
        return Decision(facts_of_shares(missing))
    scene = _scene(state, pooled, is_boundary=True)
    rests, resumes = _rests_and_resumes(state)
    resting = {job for job, row in sharing.jobs.items() if row.rests}.union(rests).difference(resumes)
    runs = choice_of(sharing, scene, owed_at(sharing, scene, number, now, resting))
    changes, rows = changes_of(sharing, scene, runs), state.image.workloads.rows
    leaves = tuple(job for job in changes.leaves if not _keeps_pick(state, rows[job]))
    deadline = min(ROUND_DEADLINE_MAX, sharing.settings.round_span // ROUND_DEADLINE_PART)
    # Too many joins for one fact are divided: jobs that neither leave nor share a GPU may join in further ones.
    bound = {*leaves, *changes.beside, *changes.beside.values()}
    told, *more = _batches(
        {job: column for job, column in changes.joins.items() if job in bound},
        {job: column for job, column in changes.joins.items() if job not in bound},
    )
    begun = RoundBegun(
        number,
        scene.columns,
        told,
        leaves,
        Nanoseconds(deadline),
        _wide(state, told),
        changes.beside,
        rests,
        resumes,
    )
    added = (_added(state, scene, joins) for joins in more)
    ended = _with_auctions_ended(state, leaves)
    return Decision((*ended.events, begun, *added), ended.messages)


def _filled(state: QueueState, scene: Scene) -> Decision:
    """Return the picks of jobs that wait on GPUs that are idle."""
    waiting = [job for job in scene.present.class_of if job not in state.image.sharing.picks]
    more = filled(scene.present, scene.runs, waiting)
    joins = {WorkloadId(run.jobs[0]): run.column for run in more}
    return Decision((RoundLooked(), *(_added(state, scene, part) for part in _batches({}, joins) if part)))


def _added(state: QueueState, scene: Scene, joins: dict[WorkloadId, int]) -> PicksAdded:
    return PicksAdded(scene.columns, joins, _wide(state, joins))


def _wide(state: QueueState, joins: Iterable[WorkloadId]) -> tuple[WorkloadId, ...]:
    """Return the jobs that need several GPUs of one node, which narrower jobs could lie between."""
    found = []
    for workload in joins:
        (job,) = state.image.workloads.rows[workload].spec.jobs
        if job.need.gpu_milli * job.tasks_together > MILLI:
            found.append(workload)
    return tuple(found)


def _batches(together: dict[WorkloadId, int], others: dict[WorkloadId, int]) -> list[dict[WorkloadId, int]]:
    """Divide joins over facts; in the first are all that must be together."""
    left = list(others.items())
    room = max(0, JOINS_MAX - len(together))
    first = together | dict(left[:room])
    return [first, *(dict(left[at : at + JOINS_MAX]) for at in range(room, len(left), JOINS_MAX))]


def _with_auctions_ended(state: QueueState, leaves: tuple[WorkloadId, ...]) -> Decision:
    """Return the end of the open auctions of those who leave before they started."""
    events: list[Event | Note] = [RoundLooked()]
    told: list[Message] = []
    for workload in leaves:
        auction = state.auctions.open.get(workload)
        if auction is not None:
            told += [settled(bid, has_won=False) for bid in auction.bids.values()]
            events.append(AuctionClosed(workload, None))
    return Decision(tuple(events), tuple(told))


# Folding.


def index_rounds(state: QueueState, fact: Fact) -> None:
    """Follow a fact of the queue, after the image has folded it: picks enter and leave the order, and idle GPUs are given out."""
    match fact.event:
        case RoundBegun(joins=joins, leaves=leaves, beside=beside):
            for workload in leaves:
                state.guests.pop(workload, None)
            state.guests |= {host: guest for guest, host in beside.items()}
            for workload in dict.fromkeys((*leaves, *joins)):
                place(state, workload, state.image.workloads.rows[workload])
                if workload in state.awarded_at:
                    state.awards_due.put(workload, fact.at)
            state.speeds.keep({one.speed_key for one in state.image.sharing.classes.values()})
            state.open_at = fact.at
        case PicksAdded(joins=joins):
            for workload in joins:
                place(state, workload, state.image.workloads.rows[workload])
            state.open_at = fact.at
        case SharesSet() | WorkloadReleased():
            state.fill_at = fact.at
        case SpeedMeasured(speed_key=jobs, gpu_type=gpu_type, beside=beside):
            key = SpeedKey(jobs, gpu_type, beside)
            state.speeds.differing.pop(key, None)
            state.speeds.recorded[key] = state.image.sharing.number
        case (
            WorkloadSubmitted(workload=workload)
            | AttemptClosed(workload=workload)
            | WorkloadCancelled(workload=workload)
        ):
            row = state.image.workloads.rows[workload]
            if row.spec.kind is Kind.SHARED:
                state.fill_at = fact.at
                state.speeds.forget(workload)
                state.neighbours.pop(state.neighbours.pop(workload, workload), None)
                if row.phase.is_terminal:
                    state.copies_due.drop(workload)
                    state.copied.pop(workload, None)
                _place_guest(state, state.guests.get(workload), fact.at)
                if row.phase.is_terminal:
                    state.guests.pop(workload, None)
        case WorkloadBound(workload=workload):
            row = state.image.workloads.rows[workload]
            if row.is_guest:
                state.neighbours |= {workload: row.beside, row.beside: workload}
            _place_guest(state, state.guests.get(workload), fact.at)


def _place_guest(state: QueueState, guest: WorkloadId | None, at: Instant) -> None:
    """Let a job that waits for the one beside it enter the order, if it runs by now or will not run."""
    row = state.image.workloads.rows.get(guest) if guest is not None else None
    if guest is not None and row is not None:
        place(state, guest, row)
        state.open_at = at


def note_round(state: QueueState, fact: Fact) -> bool:
    """Fold a note about rounds. Return whether the note was one."""
    match fact.event:
        case RoundLooked():
            state.fill_at = None
        case CopyArrived(workload):
            at = state.copies_due.at(workload)
            assert at is not None, workload
            state.copies_due.drop(workload)
            state.copied[workload] = at
            place(state, workload, state.image.workloads.rows[workload])
            state.open_at = fact.at
        case _:
            return False
    return True


# What a choice reads.


def columns_of(state: QueueState) -> dict[ShareColumn, int]:
    """Return the GPUs of each column of the shared pools of regions that are heard: as a planner told them, or else all there are."""
    found: dict[ShareColumn, int] = {}
    shares = state.image.sharing.shares
    told = dict(zip(shares.columns, shares.gpus, strict=True)) if _is_solved(shares) else {}
    for region, image in sorted(state.regions.items()):
        if image is None or state.silent.get(region, True) or region in state.image.regions.abandoned:
            continue
        for node_type, row in sorted(image.hardware.shared.items()):
            column = ShareColumn(region, node_type)
            found[column] = min(told.get(column, row.gpu_milli // MILLI), row.gpu_milli // MILLI)
    return found


def _is_solved(shares: PoolShares) -> bool:
    """Return whether shares are a planner's, and not the equal parts of the queue itself."""
    return shares.by not in ("", ISOLATED)


def _candidates(state: QueueState) -> dict[WorkloadId, WorkloadRow]:
    """Return the jobs that may be picked: not held, not to be cancelled, of a tenant with budget, not in a region that does not answer."""
    rows, found = state.image.workloads.rows, {}
    for workload in state.image.sharing.jobs:
        row = rows[workload]
        if not _rests(state, row) and not _is_out_of_reach(state, row):
            found[workload] = row
    return found


def _rests_and_resumes(state: QueueState) -> tuple[tuple[WorkloadId, ...], tuple[WorkloadId, ...]]:
    """Return the jobs that are owed nothing any more, and those that are again; at most `RESTS_MAX` each, further ones in later rounds.

    A job in a region that does not answer may run there, so it is owed its shares.
    """
    rests: list[WorkloadId] = []
    resumes: list[WorkloadId] = []
    for workload, job in state.image.sharing.jobs.items():
        row = state.image.workloads.rows[workload]
        is_to_rest = _rests(state, row) and not _is_out_of_reach(state, row)
        if is_to_rest is not job.rests:
            (rests if is_to_rest else resumes).append(workload)
    return tuple(rests[:RESTS_MAX]), tuple(resumes[:RESTS_MAX])


def _rests(state: QueueState, row: WorkloadRow) -> bool:
    """Return whether a job may not run, whatever room there is: it is on hold or to be cancelled, or its tenant has no budget left."""
    is_on_hold = row.phase == Phase.PENDING and row.is_held
    return row.is_cancel_requested or is_on_hold or state.order.tenant(row.tenant).is_spent


def why_not_picked(state: QueueState, workload: WorkloadId) -> tuple[Reason, dict[RegionName, str]]:
    """Return why a pending job of a shared pool runs in no column, and the reasons of the regions in which it cannot."""
    row, kind = state.image.workloads.rows[workload], state.image.sharing.jobs[workload].kind
    one = state.image.sharing.classes[kind]
    if state.order.tenant(row.tenant).is_spent:
        return Reason.BUDGET_SPENT, {}
    said_by: dict[RegionName, Reason | None] = {}
    for region, image in sorted(state.regions.items()):
        types = image.hardware.shared if image is not None else {}
        if any(
            one.takes(ShareColumn(region, node_type)) and here.gpu_milli // MILLI >= one.gpus
            for node_type, here in types.items()
        ):
            is_silent = state.silent.get(region, True)
            said_by[region] = (
                Reason.REGION_UNREACHABLE if is_silent else why_not_asked(state, region, row.spec, 0)
            )
    refusals: dict[RegionName, str] = {region: why for region, why in said_by.items() if why is not None}
    if len(refusals) < len(said_by):
        return Reason.WAITS_FOR_ROUND, refusals
    return next((why for why in said_by.values() if why is not None), Reason.NO_SUCH_HARDWARE), refusals


def _is_out_of_reach(state: QueueState, row: WorkloadRow) -> bool:
    """Return whether a job's region does not answer: it stays as it is."""
    return row.is_active and state.silent.get(row.region, True)


def _keeps_pick(state: QueueState, row: WorkloadRow) -> bool:
    """Return whether a job out of reach keeps its pick; in another region those GPUs would be idle until its own is heard."""
    return _is_out_of_reach(state, row) and (row.pick is None or row.pick.region == row.region)


def _pooled(state: QueueState, now: Instant) -> Pooled:
    """Return the problem of the jobs that may be picked, by class, in the columns of `columns_of`."""
    jobs, columns = _candidates(state), columns_of(state)
    specs = {state.image.sharing.jobs[workload].kind: row.spec for workload, row in jobs.items()}

    def can_run(kind: str, column: ShareColumn) -> bool:
        image = state.regions[column.region]
        assert image is not None, column
        (job,) = specs[kind].jobs
        rows = {column.gpu_type: image.hardware.shared[column.gpu_type]}
        return (
            bool(types_that_hold(job, rows)) and why_not_asked(state, column.region, specs[kind], 0) is None
        )

    return pooled_of(state.image.sharing, columns, tuple(jobs), now, can_run)


def _scene(state: QueueState, pooled: Pooled, *, is_boundary: bool) -> Scene:
    columns = columns_of(state)
    return scene_of(state.image.sharing, columns, pooled, _kept(state, pooled, is_boundary=is_boundary))


def _kept(state: QueueState, pooled: Pooled, *, is_boundary: bool) -> Counter[str]:
    """Return the GPUs, by column, of picks that no choice can take away: of jobs that may not be picked and have not ended yet.

    At a boundary these jobs leave, except out of reach; within a round each keeps its pick.
    """
    sharing, kept = state.image.sharing, Counter[str]()
    present = {job for members in pooled.members for job in members}
    for job, pick in sharing.picks.items():
        row = state.image.workloads.rows[job]
        is_counted = pick.is_guest or pick.beside in present  # With the job beside it.
        if job not in present and not is_counted and (not is_boundary or _keeps_pick(state, row)):
            kept[pick.column] += sharing.classes[sharing.jobs[job].kind].gpus
    return kept


def _missing_shares(state: QueueState, pooled: Pooled) -> SharesSet | None:
    """Return an equal part for each class that has no shares, or where no solver was asked yet for all; None: none is missing.

    A class lacks shares too if a planner gave it some in a column where its jobs do not fit: they would be owed for ever there. Where no
    solver was asked, nodes that have joined or left since are reason enough.
    """
    sharing, shares = state.image.sharing, state.image.sharing.shares
    is_solved = _is_solved(shares)
    columns = columns_of(state)
    if is_solved:
        names = [column.name for column in columns]
        lacking = [
            not all(map(sharing.has_targets, members))
            or any(targets.get(name) and not speed for name, speed in zip(names, speeds, strict=True))
            for members, speeds in zip(pooled.members, pooled.problem.speeds.tolist(), strict=True)
            for targets in (sharing.targets_of(members[0]),)
        ]
    else:
        there = dict(zip(shares.columns, shares.gpus, strict=True))
        is_old = sharing.isolated_at != sharing.changes or there != columns
        lacking = [is_old or not sharing.has_targets(members[0]) for members in pooled.members]
    if not any(lacking):
        return None
    equal = equal_parts(pooled.problem).alone.tolist()
    classes = tuple(
        ClassShares(one.name, tuple((place, share) for place, share in enumerate(row) if share))
        for one, row, is_lacking in zip(pooled.problem.classes, equal, lacking, strict=True)
        if is_lacking or not is_solved
    )
    revision, gpus = shares.revision, tuple(columns.values())
    # Shares that a solver found stand, and are replaced by the next that it finds: these are only added.
    found = PoolShares(revision if is_solved else revision + 1, tuple(columns), gpus, classes, ISOLATED)
    return SharesSet(found, is_more=is_solved, policy=sharing.settings.policy if is_solved else ISOLATED)

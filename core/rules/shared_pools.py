"""The problem of sharing that the jobs of shared pools are: a round is chosen from it, and a planner has the problem solved."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from core.events.sharing import SharesSet
from core.images.capacity import Capacity
from core.images.sharing import SharedClass, Sharing
from core.images.tenants import Tenants
from core.nouns.fleet import gpu_type_of
from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import SECOND, Instant
from core.nouns.limits import FACT_BYTES_MAX, NAME_LENGTH_MAX, WEIGHT_MAX
from core.nouns.pool import SHARED_POOL
from core.nouns.quantities import MILLI
from core.nouns.sharing import (
    MICRO_STEPS,
    WEIGHT,
    WHOLE,
    ClassShares,
    PoolShares,
    ShareColumn,
    SharingSettings,
)
from core.sharing.accounts import LAG_MAX, MOST
from core.sharing.asked import AskedClass, AskedPair, AskedShares
from core.sharing.pairs import PAIRS_MAX, worthwhile
from core.sharing.policies import POLICIES
from core.sharing.policies.isolated import isolated
from core.sharing.problem import BadProblem, Column, JobClass, PairSpeeds, Shares, SharingProblem

ROUND_SPAN_MIN, ROUND_SPAN_MAX = 5 * SECOND, 86_400 * SECOND
ENTITIES_MAX = 1_000
SHARE_BYTES = 16
"""At most, of one column's share, encoded, and of the text around a class."""
PROBLEMS_MAX = 20
"""That are told at once."""
NONE_EXPECTED: Mapping[WorkloadId, int] = {}
CanRun = Callable[[str, ShareColumn], bool]
"""Whether jobs of a class, by its name, may run in a column now."""


class Pooled(Struct, frozen=True):
    """A problem, and of which jobs its classes are."""

    problem: SharingProblem
    members: tuple[tuple[WorkloadId, ...], ...]


def anywhere(_: str, __: ShareColumn) -> bool:
    """Return True: nothing is known against any column."""
    return True


def problem_of(
    sharing: Sharing,
    columns: Mapping[ShareColumn, int],
    jobs: Sequence[WorkloadId],
    now: Instant,
    *,
    is_by_job: bool = False,
    has_pairs: bool = False,
    can_run: CanRun = anywhere,
    entity_weights: Mapping[str, int] | None = None,
    expected: Mapping[WorkloadId, int] = NONE_EXPECTED,
    saved: Mapping[WorkloadId, int] = NONE_EXPECTED,
) -> Pooled:
    """Return the problem of these jobs, without those that fit in no column.

    columns          GPUs by column
    is_by_job        each job is a class, named for it, with its steps and its age
    has_pairs        with the pairs that may share GPUs. Raises BadProblem where they are too many
    entity_weights   thousandths, of those that have another weight than 1
    expected         steps of jobs that told none (core/rules/expected_steps.py)
    saved            steps of newer checkpoints than the image knows, of attempts that run
    """
    groups: dict[str, list[WorkloadId]] = {}
    for workload in jobs:
        groups.setdefault(workload if is_by_job else sharing.jobs[workload].kind, []).append(workload)
    classes, speeds, members = [], [], []
    by_kind: dict[str, list[float]] = {}
    for name, mine in groups.items():
        kind = sharing.jobs[mine[0]].kind
        one = sharing.classes[kind]
        if kind not in by_kind:
            by_kind[kind] = [
                sharing.speed(kind, gpu_type_of(column.gpu_type)[0])
                if one.takes(column) and gpus >= one.gpus and can_run(kind, column)
                else 0.0
                for column, gpus in columns.items()
            ]
        if any(by_kind[kind]):
            classes.append(
                _by_job(sharing, name, one, mine[0], now, expected.get(mine[0], 0), saved.get(mine[0], 0))
                if is_by_job
                else _by_class(name, one, len(mine))
            )
            speeds.append(by_kind[kind])
            members.append(tuple(mine))
    kinds = [sharing.jobs[mine[0]].kind for mine in members] if has_pairs else []
    problem = SharingProblem(
        tuple(classes),
        tuple(Column(column.region, column.gpu_type) for column in columns),
        tuple(columns.values()),
        np.array(speeds, dtype=np.float64).reshape(len(classes), len(columns)),
        pairs=_pairs(sharing, tuple(columns), kinds, [len(mine) for mine in members]),
        entity_weights=tuple(
            (entity, weight / WEIGHT) for entity, weight in sorted((entity_weights or {}).items())
        ),
    )
    return Pooled(replace(problem, pairs=worthwhile(problem, problem.pairs)), tuple(members))


def _pairs(
    sharing: Sharing, columns: Sequence[ShareColumn], kinds: Sequence[str], counts: Sequence[int]
) -> tuple[PairSpeeds, ...]:
    """Return the pairs of classes whose speeds on the same GPU are known of both. Raises BadProblem.

    kinds, counts   (classes,) the class in the image, and how many jobs
    """
    types = [gpu_type_of(column.gpu_type)[0] for column in columns]
    known: dict[tuple[str, str], list[float]] = {}

    def beside(one: str, other: str) -> list[float]:
        if (one, other) not in known:
            by_type = {name: sharing.speed_beside(one, other, name) for name in dict.fromkeys(types)}
            known[one, other] = [by_type[name] for name in types]
        return known[one, other]

    may = [index for index, kind in enumerate(kinds) if sharing.classes[kind].may_pair]
    found = []
    for place, first in enumerate(may):
        for second in may[place:]:
            if first == second and counts[first] < 2:
                continue
            both = np.array([beside(kinds[first], kinds[second]), beside(kinds[second], kinds[first])])
            both[:, (both <= 0).any(axis=0)] = 0.0
            if both.any():
                found.append(PairSpeeds(first, second, both))
        if len(found) > PAIRS_MAX:
            raise BadProblem(f"{len(may)} classes of jobs make too many pairs: the most are {PAIRS_MAX}")
    return tuple(found)


def _by_class(name: str, one: SharedClass, count: int) -> JobClass:
    return JobClass(name, one.gpus, count, one.weight / WEIGHT, one.entity)


def _by_job(
    sharing: Sharing,
    name: str,
    one: SharedClass,
    workload: WorkloadId,
    now: Instant,
    expected: int,
    saved: int,
) -> JobClass:
    job = sharing.jobs[workload]
    steps = job.steps or expected
    return JobClass(
        name,
        one.gpus,
        1,
        one.weight / WEIGHT,
        one.entity,
        order=job.number,
        steps=max(1.0, steps - max(saved, job.saved_step)) if steps else 0.0,
        age=(now - job.submitted_at) / SECOND,
        within=max(1.0, (job.submitted_at + job.within - now) / SECOND) if job.within else 0.0,
    )


def entity_weights_of(sharing: Sharing, tenants: Tenants) -> dict[str, int]:
    """Return the weight of each entity that has jobs, in thousandths: as it is set, or else that of a tenant's entitled GPUs of all types.

    An entity that is no tenant, or is entitled to none, weighs as much as one that is entitled to one GPU.
    """
    found: dict[str, int] = {}
    for entity in {one.entity: None for one in sharing.classes.values()}:
        row = tenants.rows.get(TenantName(entity))
        entitled = sum(one.gpus for one in row.entitlements.values()) if row is not None else 0
        found[entity] = min(max(1, entitled) * WEIGHT, WEIGHT_MAX)
    return found | sharing.settings.entity_weights


def _micro(speed: float) -> int:
    return round(speed * MICRO_STEPS)


def _asked_class(one: JobClass, speeds: Sequence[float]) -> AskedClass:
    return AskedClass(
        one.name,
        one.gpus,
        one.count,
        round(one.weight * WEIGHT),
        one.entity,
        tuple(map(_micro, speeds)),
        one.order,
        round(one.steps),
        round(one.age * SECOND),
        round(one.within * SECOND),
    )


def asked_of(
    sharing: Sharing,
    columns: Mapping[ShareColumn, int],
    now: Instant,
    tenants: Tenants,
    expected: Mapping[WorkloadId, int] = NONE_EXPECTED,
    can_run: CanRun = anywhere,
    saved: Mapping[WorkloadId, int] = NONE_EXPECTED,
) -> AskedShares | None:
    """Return the problem of all jobs by the policy that is set, for a solver; None: there is nothing to solve. Raises BadProblem."""
    policy = sharing.settings.policy
    is_by_job = policy not in POLICIES or POLICIES[policy].is_by_job
    weights = entity_weights_of(sharing, tenants)
    pooled = problem_of(
        sharing,
        columns,
        tuple(workload for workload, job in sharing.jobs.items() if not job.rests),
        now,
        is_by_job=is_by_job,
        has_pairs=sharing.settings.has_pairs,
        can_run=can_run,
        entity_weights=weights,
        expected=expected,
        saved=saved,
    )
    if not pooled.members:
        return None
    problem = pooled.problem
    classes = tuple(map(_asked_class, problem.classes, problem.speeds.tolist()))
    pairs = tuple(
        AskedPair(pair.first, pair.second, *(tuple(map(_micro, row)) for row in pair.speeds.tolist()))
        for pair in problem.pairs
    )
    index = {column.name: place for place, column in enumerate(columns)}
    last = tuple(
        ClassShares(
            one.name,
            tuple(
                (index[name], share)
                for name, share in sharing.targets[one.name].items()
                if name in index and share
            ),
        )
        for one in classes
        if one.name in sharing.targets
    )
    return AskedShares(
        policy,
        sharing.shares.revision,
        sharing.changes,
        tuple(columns),
        tuple(columns.values()),
        classes,
        tuple(sorted(weights.items())),
        last,
        pairs,
    )


def open_gpus(capacity: Capacity) -> dict[str, int]:
    """Return the GPUs of a region's shared pool by node type, on nodes that are there and take work."""
    found: dict[str, int] = {}
    for row in capacity.workers.values():
        for group in row.inventory.groups:
            if group.pool == SHARED_POOL:
                gpus = (
                    sum(capacity.gpu.total[node] for node in group.numbers() if capacity.is_open(node))
                    // MILLI
                )
                found[group.node_type] = found.get(group.node_type, 0) + gpus
    return dict(sorted(found.items()))


def widest_nodes(capacity: Capacity) -> dict[str, int]:
    """Return the GPUs of the widest node of a region's shared pool, by node type: no task is wider than a node."""
    found: dict[str, int] = {}
    for row in capacity.workers.values():
        for group in row.inventory.groups:
            if group.pool == SHARED_POOL:
                gpus = group.total.gpu_milli // MILLI
                found[group.node_type] = max(found.get(group.node_type, 0), gpus)
    return found


def equal_parts(problem: SharingProblem) -> Shares:
    """Return an equal part of every column for each job, which needs no solver."""
    try:
        next(isolated(problem))
    except StopIteration as stop:
        shares: Shares = stop.value
        return shares
    raise AssertionError("an equal part is no programme")


def problems_of_settings(settings: SharingSettings) -> list[str]:
    """Return the problems of settings that an operator asks for."""
    found = []
    if settings.policy not in POLICIES:
        found.append(f"policy: there is no policy {settings.policy[:NAME_LENGTH_MAX]}")
    if not ROUND_SPAN_MIN <= settings.round_span <= ROUND_SPAN_MAX:
        least, most = ROUND_SPAN_MIN // SECOND, ROUND_SPAN_MAX // SECOND
        found.append(f"round_span: it is not between {least} s and {most} s")
    if not 0 <= settings.stay <= MOST:
        found.append(f"stay: it is not between 0 and {LAG_MAX:g} rounds")
    if len(settings.entity_weights) > ENTITIES_MAX:
        found.append(f"entity_weights: {ENTITIES_MAX} are the most")
    if any(not 0 < weight <= WEIGHT_MAX for weight in settings.entity_weights.values()):
        found.append("entity_weights: each must be more than 0")
    return found


def facts_of_shares(event: SharesSet) -> tuple[SharesSet, ...]:
    """Return shares as facts that are not too large: all but the first add classes."""
    parts: list[list[ClassShares]] = [[]]
    size = 0
    for one in event.shares.classes:
        mine = len(one.name.encode()) + SHARE_BYTES * (1 + len(one.shares) + len(one.beside))
        mine += sum(len(name.encode()) for _, name, _ in one.beside)
        if parts[-1] and size + mine > FACT_BYTES_MAX // 2:
            parts.append([])
            size = 0
        parts[-1].append(one)
        size += mine
    return tuple(
        replace(event, shares=replace(event.shares, classes=tuple(part)), is_more=event.is_more or place > 0)
        for place, part in enumerate(parts)
    )


def problems_of_shares(sharing: Sharing, shares: PoolShares) -> list[str]:
    """Return the problems of shares: no job has more than all of its time, and none a share where it does not run.

    Classes that are no more, or jobs that have ended since, are passed over. How many jobs a class has may have
    changed since the shares were solved, so that a column may be owed more than it has; rounds then deliver less to all.
    """
    if len(shares.gpus) != len(shares.columns) or len(set(shares.columns)) != len(shares.columns):
        return ["columns: each stands there once, with its GPUs"]
    found: list[str] = []
    for one in shares.classes:
        job = sharing.jobs.get(WorkloadId(one.name))
        kind = sharing.classes.get(one.name if job is None else job.kind)
        mine = (*one.shares, *((column, share) for column, _, share in one.beside))
        if any(not 0 <= column < len(shares.columns) or share < 0 for column, share in mine):
            return [f"{one.name}: a share is less than nothing, or in no column"]
        if sum(share for _, share in mine) > WHOLE:
            found.append(f"{one.name}: it has more than all of its time")
        if kind is None:
            continue
        for column, share in mine:
            if share and not kind.takes(shares.columns[column]):
                found.append(f"{one.name}: it does not run in {shares.columns[column].name}")
    return found[:PROBLEMS_MAX]

"""The problem of the jobs that are there now: by class or job by job, with pairs, with placement, and with the shares that hold.

By class, jobs with the same model, GPUs, weight and entity are one class; steps, ages and promises are left out, as no policy that is
solved by class reads them. Job by job, a class is named for its job.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from core.sharing.jobs import SharingJob
from core.sharing.pairs import pairs_of
from core.sharing.problem import BadProblem, Column, Ints, JobClass, Shares, SharingProblem
from core.sharing.speeds import SPREAD, Shape, SpeedTable

PRICES = {"v100": 0.74, "p100": 0.43, "k80": 0.135}
"""Dollars of one GPU for an hour, by type in small letters, where a pool names no price: Google Cloud's for preemptible GPUs, as Gavel's
scheduler has them (stanford-futuredata/gavel, commit c4fa4009)."""
PACKED, SPREAD_OUT = "packed", "spread"
OVERDUE = 1.0
"""Seconds that a promise has left at least: one that passed unkept is still there, and a policy of promises can name the job."""


class Pool(Struct, frozen=True):
    """The GPUs of one type in one region."""

    region: str
    gpu_type: str
    gpus: int
    price: float | None = None
    """Dollars of one GPU for an hour; None: that of `PRICES`, or 0."""
    node_gpus: int = 0
    """GPUs of one node; 0: not known. A wider job can be spread alone, where placement counts."""

    @property
    def price_known(self) -> float:
        """Return dollars of one GPU for an hour; 0 where no price is known."""
        return PRICES.get(self.gpu_type.casefold(), 0.0) if self.price is None else self.price


class JobProgress(Struct, frozen=True):
    """A job that is not complete, and how far it came."""

    job: SharingJob
    steps: float
    """Steps that are left."""
    age: float = 0.0
    """Seconds since its submission."""
    isolated_age: float = 0.0
    """Seconds that the steps done so far would have taken on an equal share of the fleet."""
    order: int = 0
    """Place by arrival: the lowest came first."""


class Built(Struct, frozen=True):
    """A problem, and of which jobs its classes are."""

    problem: SharingProblem
    members: tuple[tuple[str, ...], ...]
    """(classes,) the ids of the jobs of each."""
    shapes: tuple[Shape, ...]
    """(classes,) the row of the table of speeds for each."""


def built(
    jobs: Sequence[JobProgress],
    pools: Sequence[Pool],
    table: SpeedTable,
    *,
    is_by_job: bool = False,
    has_pairs: bool = False,
    has_placement: bool = False,
    reads_entities: bool = True,
    entity_weights: tuple[tuple[str, float], ...] = (),
    last: tuple[SharingProblem, Shares] | None = None,
) -> Built:
    """Return the problem of these jobs. Raises BadProblem for a job without a row in the table.

    is_by_job       each job is a class: for policies that read steps, age, order or promise (`Policy.is_by_job`)
    has_pairs       two jobs may share GPUs where that is worth it
    has_placement   packed and spread are two columns, of each type for which the table has speeds of both
    reads_entities  jobs of two entities are two classes, for policies that tell them apart (`Policy.reads_entities`)
    entity_weights  the weight of each entity by name; one that is not named has weight 1
    last            the shares that hold, and of which problem
    """
    columns, pool_of = _columns(pools, table, has_placement=has_placement)
    groups: dict[tuple[object, ...], list[JobProgress]] = {}
    for one in jobs:
        job = one.job
        entity = job.entity if reads_entities else ""
        key = (job.id,) if is_by_job else (job.model, job.gpus, job.weight, entity)
        groups.setdefault(key, []).append(one)
    classes, speeds, shapes = [], [], []
    by_shape: dict[Shape, list[float]] = {}
    for mine in groups.values():
        first = mine[0].job
        shape = first.model, first.gpus
        if shape not in by_shape:
            by_type = table.alone.get(shape)
            if by_type is None:
                raise BadProblem(f"{first.id}: no speed is known of {first.model} on {first.gpus} GPUs")
            by_shape[shape] = [
                _speed(by_type, first.gpus, column, pools[pool])
                for column, pool in zip(columns, pool_of, strict=True)
            ]
        classes.append(_by_job(mine[0]) if is_by_job else _by_class(mine, reads_entities=reads_entities))
        speeds.append(by_shape[shape])
        shapes.append(shape)
    problem = SharingProblem(
        tuple(classes),
        columns,
        tuple(pool.gpus for pool in pools),
        np.array(speeds, dtype=np.float64).reshape(len(classes), len(columns)),
        pool_of,
        entity_weights=entity_weights,
    )
    if has_pairs:
        problem = replace(problem, pairs=pairs_of(problem, shapes, table))
    if last is not None:
        problem = replace(problem, last=carried(*last, problem))
    members = tuple(tuple(one.job.id for one in mine) for mine in groups.values())
    return Built(problem, members, tuple(shapes))


def carried(before: SharingProblem, shares: Shares, problem: SharingProblem) -> Shares:
    """Return the shares of the problem before for the classes, columns and pairs that are still there; 0 for those that are new."""
    columns = _matched(_column_names(before), _column_names(problem))
    classes = _matched([one.name for one in before.classes], [one.name for one in problem.classes])
    pairs = _matched(_pair_names(before), _pair_names(problem))
    return replace(
        shares,
        alone=_moved(shares.alone, classes, columns),
        together=_moved(shares.together, pairs, columns),
    )


def _columns(
    pools: Sequence[Pool], table: SpeedTable, *, has_placement: bool
) -> tuple[tuple[Column, ...], tuple[int, ...]]:
    columns, pool_of = [], []
    known = frozenset(table.gpu_types) if has_placement else frozenset()
    for index, pool in enumerate(pools):
        is_told_apart = pool.gpu_type + SPREAD in known
        for placement in (PACKED, SPREAD_OUT) if is_told_apart else ("",):
            columns.append(Column(pool.region, pool.gpu_type, placement, pool.price_known))
            pool_of.append(index)
    return tuple(columns), tuple(pool_of)


def _speed(by_type: dict[str, float], gpus: int, column: Column, pool: Pool) -> float:
    """Return the steps a second in a column. A job of one GPU is never spread, and one wider than a node never packed."""
    if column.placement == SPREAD_OUT:
        return by_type.get(column.gpu_type + SPREAD, 0.0) if gpus > 1 else 0.0
    if column.placement == PACKED and 0 < pool.node_gpus < gpus:
        return 0.0
    return by_type.get(column.gpu_type, 0.0)


def _by_class(mine: Sequence[JobProgress], *, reads_entities: bool) -> JobClass:
    job = mine[0].job
    weight = f" weight {job.weight!r}" if job.weight != 1 else ""
    of = job.entity if reads_entities else ""
    entity = f" of {of}" if of else ""
    return JobClass(
        f"{job.model} x{job.gpus}{weight}{entity}",
        gpus=job.gpus,
        count=len(mine),
        weight=job.weight,
        entity=of,
        order=min(one.order for one in mine),
    )


def _by_job(one: JobProgress) -> JobClass:
    job = one.job
    return JobClass(
        job.id,
        gpus=job.gpus,
        weight=job.weight,
        entity=job.entity,
        order=one.order,
        steps=one.steps,
        age=one.age,
        isolated_age=one.isolated_age,
        within=max(OVERDUE, job.within - one.age) if job.within else 0.0,
    )


def _pair_names(problem: SharingProblem) -> list[tuple[str, str]]:
    names = [one.name for one in problem.classes]
    return [(names[pair.first], names[pair.second]) for pair in problem.pairs]


def _column_names(problem: SharingProblem) -> list[tuple[str, str, str]]:
    return [(one.region, one.gpu_type, one.placement) for one in problem.columns]


def _matched(before: Sequence[object], now: Sequence[object]) -> Ints:
    """Return for each name the place that it had before, or -1."""
    places = {name: place for place, name in enumerate(before)}
    return np.array([places.get(name, -1) for name in now], dtype=np.int64)


def _moved(shares: Ints, rows: Ints, columns: Ints) -> Ints:
    """Return the entries of these rows and columns; 0 where either is -1."""
    padded = np.pad(shares, ((0, 1), (0, 1)))
    found: Ints = padded[np.ix_(rows, columns)]
    return found

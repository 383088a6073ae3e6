"""The problem of the jobs that are there: classes, placement, pairs, and the shares that hold."""

import numpy as np
import pytest

from core.sharing.building import PRICES, JobProgress, Pool, built
from core.sharing.jobs import SharingJob
from core.sharing.problem import BadProblem, Shares
from core.sharing.speeds import SpeedTable

A, WIDE = ("A3C", 1), ("LM", 8)
TABLE = SpeedTable(
    {
        A: {"v100": 10.0, "k80": 4.0, "v100/spread": 10.0},
        WIDE: {"v100": 20.0, "v100/spread": 5.0, "k80": 8.0},
    },
    {(A, A): {"v100": (8.0, 8.0)}, (WIDE, WIDE): {"v100": (9.0, 9.0), "v100/spread": (4.0, 4.0)}},
)
POOLS = (Pool("eu", "v100", 16, node_gpus=4), Pool("us", "k80", 8, price=0.2))


def progress(job_id: str, shape: tuple[str, int] = A, **fields: object) -> JobProgress:
    """A job with 400 of its 1,000 steps left, that came as the number that is its id."""
    job = SharingJob(job_id, *shape, 1_000.0, **fields)  # type: ignore[arg-type]  # by name
    return JobProgress(job, 400.0, age=50.0, isolated_age=20.0, order=int(job_id))


JOBS = [
    progress("1"),
    progress("2", WIDE),
    progress("3"),
    progress("4", weight=2.0),
    progress("5", entity="ads"),
]


def test_like_jobs_are_one_class() -> None:
    """Jobs with the same model, GPUs, weight and entity are one class, without steps or age; each class knows its jobs."""
    one = built(JOBS, POOLS, TABLE)
    problem = one.problem
    assert (("1", "3"), ("2",), ("4",), ("5",)) == one.members
    assert [2, 1, 1, 1] == [kind.count for kind in problem.classes]
    assert [1.0, 1.0, 2.0, 1.0] == [kind.weight for kind in problem.classes]
    assert ["", "", "", "ads"] == [kind.entity for kind in problem.classes]
    assert [1, 8, 1, 1] == [kind.gpus for kind in problem.classes]
    assert [0.0] * 8 == [number for kind in problem.classes for number in (kind.steps, kind.age)]
    assert 4 == len({kind.name for kind in problem.classes})
    assert [[10, 4], [20, 8], [10, 4], [10, 4]] == problem.speeds.tolist()
    assert ((16, 8), [0, 1]) == (problem.gpus, problem.pool_of.tolist())
    assert [PRICES["v100"], 0.2] == [column.price for column in problem.columns]


def test_prices_are_found_however_a_type_is_written() -> None:
    """A type without a price of its own has the known one, in small letters or not; of an unknown type the price is 0."""
    pools = [Pool("eu", "V100", 4), Pool("us", "v100", 4, price=2.5), Pool("eu", "H100", 4)]
    assert [PRICES["v100"], 2.5, 0.0] == [pool.price_known for pool in pools]
    table = SpeedTable({A: {"V100": 1.0, "v100": 1.0, "H100": 1.0}}, {})
    columns = built(JOBS[:1], pools, table).problem.columns
    assert [PRICES["v100"], 2.5, 0.0] == [column.price for column in columns]


def test_entities_are_told_apart_where_a_policy_reads_them() -> None:
    """Jobs of two entities that are alike in all else are two classes, or one of no entity: fewer classes are solved sooner."""
    jobs = [progress("1", entity="ads"), progress("2", entity="maps")]
    apart = built(jobs, POOLS, TABLE).problem.classes
    alike = built(jobs, POOLS, TABLE, reads_entities=False).problem.classes
    assert [("ads", 1), ("maps", 1)] == [(one.entity, one.count) for one in apart]
    assert [("", 2)] == [(one.entity, one.count) for one in alike]


def test_entities_have_the_weights_that_are_given() -> None:
    """They are the problem's, by name."""
    weights = (("ads", 2.0), ("maps", 1.0))
    assert weights == built(JOBS, POOLS, TABLE, entity_weights=weights).problem.entity_weights
    assert () == built(JOBS, POOLS, TABLE).problem.entity_weights


def test_a_class_is_a_job_where_that_is_asked() -> None:
    """Job by job a class has the job's id, steps, ages and order, and the time that its promise has left, at least a second."""
    jobs = [progress("1"), progress("2", within=80.0), progress("3", within=20.0)]
    one = built(jobs, POOLS, TABLE, is_by_job=True)
    assert ["1", "2", "3"] == [kind.name for kind in one.problem.classes]
    assert (("1",), ("2",), ("3",)) == one.members
    assert {(400.0, 50.0, 20.0)} == {
        (kind.steps, kind.age, kind.isolated_age) for kind in one.problem.classes
    }
    assert [1, 2, 3] == [kind.order for kind in one.problem.classes]
    assert [0.0, 30.0, 1.0] == [kind.within for kind in one.problem.classes]


def test_packed_and_spread_are_two_columns() -> None:
    """G27: only of a type with speeds of both; a job of one GPU is never spread, and one wider than a node never packed."""
    problem = built(JOBS[:2], POOLS, TABLE, has_placement=True, has_pairs=True).problem
    assert ["packed", "spread", ""] == [column.placement for column in problem.columns]
    assert ([0, 0, 1], (16, 8)) == (problem.pool_of.tolist(), problem.gpus)
    assert [[10, 0, 4], [0, 5, 8]] == problem.speeds.tolist()
    # The pool does not say how wide its nodes are, so that a wide job may be packed too.
    pools = (Pool("eu", "v100", 16),)
    assert [[20, 5]] == built(JOBS[1:2], pools, TABLE, has_placement=True).problem.speeds.tolist()


def test_pairs_are_there_on_request() -> None:
    """Pairs that are worth it, by the speeds of two in each column, those that are spread among them."""
    assert () == built(JOBS, POOLS, TABLE).problem.pairs
    pairs = built(
        [*JOBS, progress("6", WIDE)], POOLS, TABLE, has_pairs=True, has_placement=True
    ).problem.pairs
    by_classes = {(pair.first, pair.second): pair.speeds.tolist() for pair in pairs}
    assert {(0, 0), (0, 2), (0, 3), (1, 1), (2, 3)} == set(by_classes)
    assert [[8, 0, 0]] * 2 == by_classes[0, 0]
    assert [[0, 4, 0]] * 2 == by_classes[1, 1]


def test_an_unknown_model_is_named() -> None:
    """A job without a row in the table is named with its model and its GPUs."""
    with pytest.raises(BadProblem, match=r"^7: no speed is known of GPT on 2 GPUs$"):
        built([progress("7", ("GPT", 2))], POOLS, TABLE)


def test_shares_that_hold_are_carried_over() -> None:
    """Shares follow the names of classes, columns and pairs: one that is new has none, and those that left are gone."""
    before = built([*JOBS[:3], progress("4")], POOLS, TABLE, has_pairs=True)
    assert [(0, 0)] == [(pair.first, pair.second) for pair in before.problem.pairs]
    shares = Shares(np.array([[300_000, 200_000], [10, 20]]), np.array([[700_000, 0]]))
    jobs = [JOBS[3], JOBS[4], JOBS[0], progress("9")]
    pools = (POOLS[1], Pool("eu", "v100", 9), Pool("asia", "v100", 9))
    problem = built(jobs, pools, TABLE, has_pairs=True, last=(before.problem, shares)).problem
    assert problem.last is not None
    assert [[0, 0, 0], [0, 0, 0], [200_000, 300_000, 0]] == problem.last.alone.tolist()
    by_classes = zip(problem.pairs, problem.last.together.tolist(), strict=True)
    expected = {(0, 1): [0, 0, 0], (0, 2): [0, 0, 0], (1, 2): [0, 0, 0], (2, 2): [0, 700_000, 0]}
    assert expected == {(pair.first, pair.second): row for pair, row in by_classes}

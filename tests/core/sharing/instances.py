"""Problems for tests: those of the published examples, and drawn ones."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
from msgspec.structs import replace

from core.sharing.problem import MILLIONTHS, Column, JobClass, PairSpeeds, Shares, SharingProblem

TYPES = ("v100", "p100", "k80", "a100", "h100")


BATCHES = [
    pytest.param(range(20), id="20"),
    *(
        pytest.param(range(first, first + 98), marks=pytest.mark.slow, id=str(first))
        for first in range(20, 1_000, 98)
    ),
]
"""Seeds of drawn problems: `make test` holds 20 to a policy's reference, and `make soak` a thousand."""


def of_speeds(
    speeds: Sequence[Sequence[float]], pools: Sequence[int], **jobs: Sequence[object]
) -> SharingProblem:
    """One job a row and one column a type; `jobs` are fields of the classes by name, one value a row."""
    classes = tuple(
        JobClass(f"j{index}", order=index, **{field: values[index] for field, values in jobs.items()})  # type: ignore[arg-type]  # by name
        for index in range(len(speeds))
    )
    columns = tuple(Column("eu", gpu_type) for gpu_type in TYPES[: len(pools)])
    return SharingProblem(classes, columns, tuple(pools), np.array(speeds, dtype=np.float64))


def drawn(seed: int, *, jobs: int = 6, has_pairs: bool = False, is_by_job: bool = False) -> SharingProblem:
    """Up to `jobs` classes of a few jobs, on two to four types in one or two regions; some run on some types alone.

    With `is_by_job` each class is one job, with steps, an age and, of some, a promise.
    """
    dice = random.Random(f"sharing/{seed}")
    types = TYPES[: dice.randint(2, 4)]
    regions = ("eu", "us")[: dice.randint(1, 2)]
    columns = tuple(
        Column(region, one, price=dice.choice((0.5, 1.0, 2.0))) for region in regions for one in types
    )
    gpus = tuple(dice.randint(4, 9) for _ in columns)
    classes, speeds = [], []
    for index in range(dice.randint(2, jobs)):
        count = 1 if is_by_job else dice.randint(1, 3)
        alone = dice.uniform(1, 10)
        by_type = {one: alone * 10 ** dice.uniform(-0.5, 0.5) for one in types}
        if dice.random() < 0.3:
            by_type[dice.choice(types[1:])] = 0.0
        mine = [by_type[column.gpu_type] for column in columns]
        age = dice.choice((0.0, dice.uniform(0, 5_000)))
        classes.append(
            JobClass(
                f"c{index}",
                gpus=dice.choice((1, 1, 2, 4)),
                count=count,
                weight=dice.choice((1.0, 1.0, 2.0, 0.5)),
                entity=dice.choice(("ads", "maps", "mail")),
                order=index,
                steps=10 ** dice.uniform(3, 5),
                age=age,
                isolated_age=age * dice.random(),
            )
        )
        speeds.append(mine)
    pairs = []
    for first, one in enumerate(classes if has_pairs else ()):
        for second in range(first, len(classes)):
            if one.gpus == classes[second].gpus and dice.random() < 0.7:
                keeps = np.array([[dice.uniform(0.3, 1.0)], [dice.uniform(0.3, 1.0)]])
                if first == second:
                    keeps[1] = keeps[0]
                both = np.array([speeds[first], speeds[second]]) * keeps
                both[:, (both == 0).any(axis=0)] = 0.0
                pairs.append(PairSpeeds(first, second, both))
    return SharingProblem(tuple(classes), columns, gpus, np.array(speeds), pairs=tuple(pairs))


def crowded(seed: int, *, jobs: int = 6, has_pairs: bool = False, is_by_job: bool = False) -> SharingProblem:
    """A drawn problem on its first region alone, with four GPUs of each type: most jobs must share."""
    problem = drawn(seed, jobs=jobs, has_pairs=has_pairs, is_by_job=is_by_job)
    kept = [index for index, one in enumerate(problem.columns) if one.region == problem.columns[0].region]
    return replace(
        problem,
        columns=tuple(problem.columns[index] for index in kept),
        gpus=(4,) * len(kept),
        speeds=problem.speeds[:, kept],
        pairs=tuple(replace(pair, speeds=pair.speeds[:, kept]) for pair in problem.pairs),
    )


def job_speeds(problem: SharingProblem, shares: Shares) -> list[float]:
    """The steps a second of a job of each class, by its shares."""
    found = (shares.alone * problem.speeds).sum(axis=1) / MILLIONTHS
    for index, pair in enumerate(problem.pairs):
        total = (shares.together[index] * pair.speeds).sum(axis=1) / MILLIONTHS
        for one, speed in zip((pair.first, pair.second), total, strict=True):
            found[one] += speed / problem.classes[one].count
    return [float(one) for one in found]


def assert_possible(problem: SharingProblem, shares: Shares) -> None:
    """Nobody has more than all of the time, no pool gives more GPUs than it has, and nothing runs where it has no speed."""
    counts = np.array([one.count for one in problem.classes])
    widths = np.array([one.gpus for one in problem.classes])
    time = shares.alone.sum(axis=1) * counts
    used = shares.alone * (counts * widths)[:, None]
    for index, pair in enumerate(problem.pairs):
        for one in (pair.first, pair.second):
            time[one] += shares.together[index].sum()
        used[pair.first] += shares.together[index] * widths[pair.first]
    assert (shares.alone >= 0).all()
    assert (time <= counts * MILLIONTHS).all()
    assert not shares.alone[problem.speeds == 0].any()
    by_pool = np.bincount(problem.pool_of, used.sum(axis=0), minlength=len(problem.gpus))
    assert (by_pool <= np.array(problem.gpus) * MILLIONTHS).all()

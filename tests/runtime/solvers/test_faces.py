"""Of equally good shares the fastest in total, and of these the nearest to the last: what the second and the third programme promise."""

import random

import numpy as np
import pytest
from msgspec.structs import replace

from core.sharing.problem import MILLIONTHS, PairSpeeds, Shares, SharingProblem
from core.sharing.programmes import Rows
from core.sharing.times import times_of
from runtime.solvers.linear import solve_linear
from runtime.solvers.sharing import solve_shares
from tests.core.sharing.instances import BATCHES, assert_possible, crowded, drawn, job_speeds, of_speeds
from tests.runtime.solvers.certificates import highest_speed, speeds_before_rounding

ON_FACES = ("makespan", "max_min", "water_filling")


@pytest.mark.parametrize("seeds", BATCHES)
def test_no_job_is_worse_off_than_alone(seeds: range) -> None:
    """G3: with equal weights each job of one GPU is at least as fast as with its equal part of every pool."""
    shared = 0
    for seed in seeds:
        problem = (drawn, crowded)[seed % 2](seed, has_pairs=seed % 4 == 3)
        problem = replace(problem, classes=tuple(replace(one, weight=1.0) for one in problem.classes))
        speeds = np.array(job_speeds(problem, solve_shares("max_min", problem)))
        gain = speeds / problem.isolated_speeds
        assert gain[problem.widths == 1].min(initial=1.0) > 1.0 - 1e-4
        shared += bool((gain > 1.01).any())
    assert shared > len(seeds) / 2


@pytest.mark.parametrize("name", ["max_min", "water_filling"])
@pytest.mark.parametrize("seeds", BATCHES)
def test_no_job_can_gain_unless_another_loses(seeds: range, name: str) -> None:
    """G4: one programme for each class proves that its speed is the highest while all others keep theirs."""
    for seed in seeds:
        problem = crowded(seed, jobs=5, has_pairs=seed % 4 == 3)
        speeds = speeds_before_rounding(name, problem)
        for index in range(len(problem.classes)):
            # Where two types are nearly equally fast, a billionth less for one job can be a ten-thousandth more for another.
            assert highest_speed(problem, index, speeds) == pytest.approx(speeds[index], rel=1e-3)


@pytest.mark.parametrize("seeds", BATCHES)
def test_the_fastest_of_equally_fair_shares(seeds: range) -> None:
    """Fault 3: the least level is the same on a whole face of shares; of these the ones with most total speed are taken (G4)."""
    from runtime.solvers.reference.faces import totals

    differ = 0
    for seed in seeds:
        problem = drawn(seed, jobs=5)
        shares = solve_shares("max_min", problem)
        least, most = totals(problem, shares.objective)
        speeds = np.array(job_speeds(problem, shares))
        assert most == pytest.approx(total_speed(problem, shares), rel=1e-5)
        levels = speeds * problem.widths / (problem.weights * problem.proportional_speeds)
        assert shares.objective == pytest.approx(levels.min(), rel=1e-4)
        differ += least < 0.9 * most
    assert differ > len(seeds) / 2


def test_a_face_by_hand() -> None:
    """Fault 3: four jobs on a K80 bound the level, at which the two on three V100s would have three quarters of their time: they have all."""
    problem = of_speeds([[0.0, 1.0]] * 4 + [[10.0, 0.0]] * 2, [3, 1])
    shares = solve_shares("max_min", problem)
    assert 1.0 == pytest.approx(shares.objective)
    assert [[0, 250_000]] * 4 + [[MILLIONTHS, 0]] * 2 == shares.alone.tolist()


@pytest.mark.parametrize("name", ON_FACES)
def test_the_last_shares_come_out_again(name: str) -> None:
    """With the shares that it gave as the last, a policy gives them again, however often: rounding does not add up."""
    for seed in range(12):
        problem = crowded(seed, has_pairs=seed % 3 == 2, is_by_job=name == "makespan")
        first = shares = solve_shares(name, problem)
        for _ in range(4):
            shares = solve_shares(name, replace(problem, last=shares))
        assert distance(problem, first, shares) < 1e-4
        assert_possible(problem, shares)


@pytest.mark.parametrize("name", ON_FACES)
def test_near_the_last_shares(name: str) -> None:
    """From any shares that hold, those that are chosen are as fast and as fair as without them, never farther, and mostly nearer."""
    nearer = 0
    for seed in range(20):
        problem = with_ties(seed)
        last = some_shares(seed, problem)
        far, near = solve_shares(name, problem), solve_shares(name, replace(problem, last=last))
        assert far.objective == pytest.approx(near.objective)
        assert total_speed(problem, far) == pytest.approx(total_speed(problem, near), rel=1e-4)
        assert_possible(problem, near)
        assert distance(problem, last, near) < distance(problem, last, far) + 1e-3
        nearer += distance(problem, last, near) < distance(problem, last, far) - 0.1
    assert nearer > 10


def test_fewest_gpus_move() -> None:
    """Of all shares that are as fast and as fair, those that are chosen differ from the last in as few GPUs as can be: not in as few jobs."""
    for seed in range(25):
        problem = with_pairs_and_gangs(seed)
        last = some_shares(seed, problem)
        near = solve_shares("max_min", replace(problem, last=last))
        assert least_distance(problem, last, near) == pytest.approx(distance(problem, last, near), abs=1e-3)


def test_a_job_less_moves_none() -> None:
    """Of eight jobs on two types that are equally fast one ends: the seven have more time than before, and each keeps what it had."""
    problem = of_speeds([[10.0, 10.0]] * 7, [3, 3])
    # Else the types would be one pool.
    columns = tuple(
        replace(one, placement=placement)
        for one, placement in zip(problem.columns, ("", "packed"), strict=True)
    )
    problem = replace(problem, columns=columns)
    had = np.array([[750_000, 0]] * 4 + [[0, 750_000]] * 3, dtype=np.int64)
    last = Shares(had, np.zeros((0, 2), dtype=np.int64))
    near = solve_shares("max_min", replace(problem, last=last)).alone
    assert [6 / 7] * 7 == pytest.approx(near.sum(axis=1) / MILLIONTHS, abs=1e-5)
    assert 0 == pytest.approx(np.maximum(had - near, 0).sum(), abs=10)
    assert np.maximum(had - solve_shares("max_min", problem).alone, 0).sum() > MILLIONTHS


def with_ties(seed: int) -> SharingProblem:
    """Jobs with as many GPUs as types that several of them are equally fast on: there are many ways to the same speeds."""
    dice = random.Random(f"ties/{seed}")
    speeds = [
        [scale * ratio for ratio in (1.0, 1.0, dice.choice((0.5, 0.5, 0.25)))]
        for scale in (dice.uniform(1, 10) for _ in range(dice.randint(5, 8)))
    ]
    # A job that runs on one of the two equal types alone keeps them from being merged.
    speeds[0][1] = 0.0
    steps = [1_000.0 * dice.randint(1, 3) for _ in speeds]
    return of_speeds(speeds, [2, 2, 2], steps=steps)


def with_pairs_and_gangs(seed: int) -> SharingProblem:
    """Jobs of 1, 2 and 4 GPUs on types that most are equally fast on, and pairs of jobs that may lose nothing: more or fewer GPUs do."""
    dice = random.Random(f"near/{seed}")
    widths = [dice.choice((1, 1, 2, 4)) for _ in range(dice.randint(5, 8))]
    speeds = [
        [scale * ratio for ratio in (1.0, 1.0, dice.choice((1.0, 0.5)))]
        for scale in (dice.uniform(1, 10) for _ in widths)
    ]
    problem = of_speeds(speeds, [4, 4, 4], gpus=widths)
    pairs = tuple(
        PairSpeeds(first, second, np.array([speeds[first], speeds[second]]) * dice.choice((1.0, 0.5, 0.5)))
        for second in range(len(widths))
        for first in range(second)
        if widths[first] == widths[second] and dice.random() < 0.7
    )
    # Else types that all are equally fast on would be one pool.
    columns = tuple(
        replace(one, placement=placement)
        for one, placement in zip(problem.columns, ("", "packed", "spread"), strict=True)
    )
    return replace(problem, columns=columns, pairs=pairs)


def some_shares(seed: int, problem: SharingProblem) -> Shares:
    """Shares that hold: a part of the time of each job somewhere."""
    dice = random.Random(f"last/{seed}")
    alone = np.zeros(problem.speeds.shape, dtype=np.int64)
    for index in range(len(problem.classes)):
        column = dice.choice(np.flatnonzero(problem.runs[index]).tolist())
        alone[index, column] = dice.choice((400_000, 600_000))
    return Shares(alone, np.zeros((len(problem.pairs), len(problem.columns)), dtype=np.int64))


def distance(problem: SharingProblem, first: Shares, second: Shares) -> float:
    """GPUs by which two shares differ, each class and column for itself."""
    alone = np.abs(first.alone - second.alone).sum(axis=1) * problem.widths * problem.counts
    together = np.abs(first.together - second.together).sum(axis=1)
    widths = [problem.classes[pair.first].gpus for pair in problem.pairs]
    return float((alone.sum() + together @ np.array(widths, dtype=float)) / MILLIONTHS)


def least_distance(problem: SharingProblem, last: Shares, found: Shares) -> float:
    """GPUs by which shares differ at least from the last that are as fast and as fair by max-min as those that were found.

    One programme, with a variable for what each share gains and one for what it loses.
    """
    times = times_of(problem)
    count, classes = times.count, len(problem.classes)
    every = np.arange(count, dtype=np.int64)
    of_class, variable, speed = times.speeds
    relative = speed / problem.proportional_speeds[of_class]
    rows = Rows(3 * count)
    times.bound(rows)
    # What was found is rounded to millionths.
    kept = 1.0 - 1e-6
    fair = found.objective * kept * problem.weights * problem.counts / problem.widths
    rows.add(of_class, variable, relative, fair, np.inf, classes)
    rows.add(np.zeros_like(variable), variable, relative, total_speed(problem, found) * kept, np.inf, 1)
    had = times.values(last)
    rows.add(every, every, 1.0, had, had, count)
    rows.more(every + count, -1.0)
    rows.more(every + 2 * count, 1.0)
    gpus = problem.widths[times.classes]
    gain = np.concatenate([np.zeros(count), -gpus, -gpus])
    most = np.concatenate([times.most, times.most, np.maximum(had, times.most)])
    return -solve_linear(rows.programme(gain, np.zeros(3 * count), most)).objective


def total_speed(problem: SharingProblem, shares: Shares) -> float:
    """The sum of the normalised speeds of all jobs."""
    speeds = np.array(job_speeds(problem, shares)) / problem.proportional_speeds
    return float(speeds @ problem.counts)

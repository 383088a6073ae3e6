"""Which job runs where: the worked example, random shares, pairs, and jobs on hardware that is not theirs."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from math import ceil

import numpy as np
import pytest
from msgspec.structs import replace

from core.sharing.accounts import PATIENCE, Accounts, Place
from core.sharing.problem import MILLIONTHS, Column, JobClass, PairSpeeds, Shares, SharingProblem
from core.sharing.rounds import Present, Run, chosen, filled
from tests.core.sharing.instances import BATCHES, drawn, of_speeds

VECTOR = ((0.6, 0.4, 0.0), (0.2, 0.6, 0.2), (0.2, 0.0, 0.8))
"""Vector B of the published examples: the shares of three jobs on three types."""
SHORTFALL_MAX = 6.0
GANG_INSTANCES = 40


def present_of(
    shares: Sequence[Sequence[float]], pools: Sequence[int], speeds: object = None, **fields: Sequence[object]
) -> Present:
    """Jobs j0, j1, ... with these shares, each a class, on types with so many GPUs."""
    rows = [[1.0] * len(pools)] * len(shares) if speeds is None else speeds
    problem = of_speeds(rows, pools, **fields)  # type: ignore[arg-type]  # rows of speeds
    given = np.array([[round(one * MILLIONTHS) for one in row] for row in shares], dtype=np.int64)
    none = np.zeros((0, len(pools)), dtype=np.int64)
    return Present(problem, [(one.name,) for one in problem.classes], Shares(given, none))


def play(present: Present, rounds: int, stay: float = 2.0) -> Iterator[tuple[list[Run], Counter[object]]]:
    """Yield the runs of each round, and the rounds that each job received so far by place."""
    accounts = Accounts()
    runs: list[Run] = []
    received: Counter[object] = Counter()
    for _ in range(rounds):
        accounts.owe(present.targets)
        runs = chosen(present, accounts, runs, stay)
        for run in runs:
            for job in run.jobs:
                accounts.receive(job, present.place(run, job), 1.0)
                received[job, present.place(run, job)] += 1
        yield runs, received


def columns(runs: Sequence[Run]) -> dict[str, int]:
    """The column of each job that runs."""
    return {job: run.column for run in runs for job in run.jobs}


def test_worked_example_chooses_the_same() -> None:
    """G17, vector B: with 3 1 0, 1 3 0 and 0 0 4 rounds received of four, the next are job 2, 0 and 1 on the types in turn."""
    present = present_of(VECTOR, (1, 1, 1))
    accounts = Accounts()
    for _ in range(5):
        accounts.owe(present.targets)
    for job, row in zip(("j0", "j1", "j2"), ((3, 1, 0), (1, 3, 0), (0, 0, 4)), strict=True):
        for column, rounds in enumerate(row):
            accounts.receive(job, Place(column), rounds)
    assert {"j2": 0, "j0": 1, "j1": 2} == columns(chosen(present, accounts))


def test_ties_go_by_target_then_by_id() -> None:
    """G17: equal lags go by target, equal targets by id, and a job stays where it runs in spite of two rounds of lag."""
    present = present_of(((0.5,), (0.5,), (0.5,)), (1,))
    accounts = Accounts()
    accounts.owe(present.targets)
    assert {"j0": 0} == columns(chosen(present, accounts))
    accounts.receive("j0", Place(0), 1.0)
    assert {"j1": 0} == columns(chosen(present, accounts))
    assert {"j0": 0} == columns(chosen(present, accounts, [Run(("j0",), 0)]))
    # The second job has the larger target, and was given as much more as to have the lag of the others.
    present = present_of(((0.25,), (0.75,)), (1,))
    accounts = Accounts()
    accounts.owe(present.targets)
    accounts.receive("j1", Place(0), 0.5)
    assert {"j1": 0} == columns(chosen(present, accounts))


def test_worked_example_is_exact_every_fifth_round() -> None:
    """G18, vector B: from zero, in one queue, rounds received are the shares exactly after 5, 10, ... 1,000 rounds."""
    present = present_of(VECTOR, (1, 1, 1))
    for number, (_, received) in enumerate(play(present, 1_000, stay=0.0), 1):
        if number % 5 == 0:
            got = [[received[f"j{job}", Place(column)] for column in range(3)] for job in range(3)]
            assert [[round(number * share) for share in row] for row in VECTOR] == got


@pytest.mark.parametrize("seeds", BATCHES)
def test_static_shares_are_delivered(seeds: range) -> None:
    """G18: whatever the shares, a one-GPU job is never more than six rounds short of them, so its error falls as 1 / t."""
    for seed in seeds:
        present = drawn_shares(seed)
        for number, (_, received) in enumerate(play(present, 100), 1):
            worst = max(
                number * target - received[job, place]
                for job, places in present.targets.items()
                for place, target in places.items()
            )
            assert worst <= SHORTFALL_MAX, (seed, number)


@pytest.mark.parametrize("seeds", BATCHES)
def test_no_job_runs_where_it_should_not_while_its_type_is_free(seeds: range) -> None:
    """G19: idle GPUs do not take a job from those that its shares name (Fault 2); no job runs twice, and no pool is overfull."""
    for seed in seeds:
        dice = random.Random(f"wrong place/{seed}")
        present = drawn_shares(seed, part=dice.uniform(0.2, 1.0))
        for runs, _ in play(present, 20):
            at = columns(runs)
            left = present.room(runs)
            assert len(at) == sum(len(run.jobs) for run in runs)
            assert min(left) >= 0
            for job, places in present.targets.items():
                if Place(at.get(job, -1)) not in places:
                    assert [] == [place for place in places if left[place.column] >= present.width(job)], seed


def test_gangs_fit_and_are_where_they_should() -> None:
    """G19: as above with jobs of 1, 2 and 4 GPUs on two or three pools, of which some make room for others."""
    moved = 0
    for seed in range(GANG_INSTANCES):
        present = drawn_gangs(seed)
        for number, (runs, _) in enumerate(play(present, 40), 1):
            at = columns(runs)
            left = present.room(runs)
            assert len(at) == sum(len(run.jobs) for run in runs), (seed, number)
            assert min(left) >= 0, (seed, number)
            for job, places in present.targets.items():
                if Place(at.get(job, -1)) not in places:
                    fits = [place for place in places if left[place.column] >= present.width(job)]
                    assert [] == fits, (seed, number, job)
            moved += len({present.width(job) for job in at}) > 1
    assert moved > 20 * GANG_INSTANCES, "most rounds have jobs of several widths"


def test_idle_gpus_go_by_relative_speed() -> None:
    """A job takes idle GPUs of the type on which it loses least; a type without a speed stays empty."""
    speeds = [[10.0, 9.0, 0.0], [10.0, 2.0, 0.0]]
    present = present_of(((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)), (1, 1, 1), speeds)
    assert {"j0": 0, "j1": 1} == columns(filled(present, [], ["j0", "j1"]))
    present = present_of(((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)), (1, 1, 1), speeds[::-1])
    assert {"j0": 0, "j1": 1} == columns(filled(present, [], ["j1", "j0"]))
    assert [] == filled(present, [Run(("j0",), 0)], [])


def test_a_job_makes_room_for_another() -> None:
    """A job whose only type is full is served, where one of the jobs there has a share of a type with room."""
    present = present_of(((0.6, 0.4), (0.4, 0.0)), (1, 1))
    accounts = Accounts()
    accounts.owe(present.targets)
    assert {"j0": 1, "j1": 0} == columns(chosen(present, accounts))


def test_a_narrow_job_makes_no_room_for_a_wide_one() -> None:
    """A job of two GPUs takes no place of a job of one, though both together would gain: it would be cut in two."""
    # On two GPUs j0 has first choice, then j1 does not fit; j0 could go to the second type.
    present = present_of(((0.6, 0.4), (0.5, 0.0), (0.0, 0.1)), (2, 2), gpus=[1, 2, 1])
    accounts = Accounts()
    accounts.owe(present.targets)
    runs = chosen(present, accounts)
    assert min(present.room(runs)) >= 0
    assert 0 == columns(runs)["j0"]


def test_gpus_that_a_wide_job_leaves_serve_another() -> None:
    """Of two GPUs that j0 leaves one is for j1, and one for j3, which leaves its type to j2 that runs nowhere else."""
    shares = ((0.5, 0.5, 0.0), (0.4, 0.0, 0.0), (0.0, 0.0, 0.38), (0.37, 0.0, 0.39))
    present = present_of(shares, (2, 2, 1), gpus=[2, 1, 1, 1])
    accounts = Accounts()
    accounts.owe(present.targets)
    assert {"j0": 1, "j1": 0, "j2": 2, "j3": 0} == columns(chosen(present, accounts))


def test_a_job_that_is_owed_more_makes_no_room() -> None:
    """Two jobs share a type, and one of them another type too: it has what it is owed in both, though it could always be moved on."""
    present = present_of(((0.5, 0.5), (0.5, 0.0)), (1, 1))
    *_, (_, received) = play(present, 40)
    places = ("j0", Place(0)), ("j0", Place(1)), ("j1", Place(0))
    assert [20, 20, 20] == pytest.approx([received[place] for place in places], abs=SHORTFALL_MAX)


def test_a_job_with_many_small_targets_starts_in_time() -> None:
    """G21: ten targets of .01 are a tenth of each round, so a job is owed one after ten, and waits `PATIENCE` from then on.

    Nowhere is it owed as much as the jobs that hold the ten GPUs; of twelve such jobs, two wait for those that are overdue before them.
    """
    part, types = 0.01, 10
    columns_of_all = tuple(Column("eu", f"type-{number}") for number in range(types))
    for many in (1, 12):
        holders = (1.0 - many * part) * np.eye(types)
        shares = np.concatenate([holders, np.full((many, types), part)])
        classes = tuple(JobClass(f"j{number}") for number in range(types + many))
        problem = SharingProblem(classes, columns_of_all, (1,) * types, np.ones(shares.shape))
        none = np.zeros((0, types), dtype=np.int64)
        given = Shares(np.rint(shares * MILLIONTHS).astype(np.int64), none)
        present = Present(problem, [(one.name,) for one in classes], given)
        first: dict[str, int] = {}
        for number, (runs, _) in enumerate(play(present, 200), 1):
            for job in columns(runs):
                first.setdefault(job, number)
        starts = sorted(first[f"j{types + index}"] for index in range(many))
        for before, start in enumerate(starts):
            assert start <= ceil(1 / (types * part)) + PATIENCE + before + 1, (many, starts)


def test_a_wide_job_is_served_first_once_it_is_overdue() -> None:
    """G21: eight one-GPU jobs that stay with large targets give way to a job of eight GPUs within 1 / x + PATIENCE rounds."""
    shares = [[0.95]] * 8 + [[0.05]]
    present = present_of(shares, (8,), gpus=[1] * 8 + [8])
    first = next(number for number, (runs, _) in enumerate(play(present, 100), 1) if "j8" in columns(runs))
    assert first <= ceil(1 / 0.05) + PATIENCE + 1


def test_gangs_lose_the_same_part() -> None:
    """Where gangs do not pack, no job has less than four fifths of its share, and most of all GPU-rounds are delivered."""
    # A job of four GPUs fits only while another stands aside, and then one GPU more is idle when it does not run.
    shares = [[1.0]] * 9 + [[0.75]]
    present = present_of(shares, (12,), gpus=[1] * 9 + [4])
    *_, (_, received) = play(present, 400)
    parts = [received[f"j{job}", Place(0)] / 400 / shares[job][0] for job in range(10)]
    assert min(parts) >= 0.8
    assert (
        sum(received[f"j{job}", Place(0)] * present.width(f"j{job}") for job in range(10)) >= 0.9 * 12 * 400
    )


def paired(first: int, second: int, together: Sequence[int], alone: Sequence[int] = (0, 0)) -> Present:
    """Two classes of one-GPU jobs on one type, as many GPUs as they need: millionths of the pairs (a, a), (a, b) and (b, b)."""
    gpus = ceil((sum(together) + first * alone[0] + second * alone[1]) / MILLIONTHS)
    problem = of_speeds([[10.0], [10.0]], [gpus], count=[first, second])
    pairs = tuple(PairSpeeds(a, b, np.array([[8.0], [6.0]])) for a, b in ((0, 0), (0, 1), (1, 1)))
    problem = SharingProblem(problem.classes, problem.columns, problem.gpus, problem.speeds, pairs=pairs)
    members = [[f"a{number}" for number in range(first)], [f"b{number}" for number in range(second)]]
    shares = Shares(np.array(alone, dtype=np.int64)[:, None], np.array(together, dtype=np.int64)[:, None])
    return Present(problem, members, shares)


def test_a_pair_stands_in_the_queue_with_the_lags_of_both() -> None:
    """Two that share a GPU are owed four tenths of it each; together that is more than the six tenths of a job that runs alone."""
    problem = of_speeds([[10.0]] * 3, [1])
    pair = PairSpeeds(1, 2, np.array([[8.0], [6.0]]))
    problem = replace(problem, pairs=(pair,))
    shares = Shares(np.array([[600_000], [0], [0]]), np.array([[400_000]]))
    present = Present(problem, [("alone",), ("one",), ("other",)], shares)
    accounts = Accounts()
    accounts.owe(present.targets)
    assert {"one": 0, "other": 0} == columns(chosen(present, accounts))
    # With less owed to the other, the job alone is first.
    accounts.receive("other", Place(0, "j1"), 0.3)
    assert {"alone": 0} == columns(chosen(present, accounts))


@pytest.mark.parametrize(
    ("first", "second", "together", "alone"),
    [
        (4, 4, (0, 2_500_000, 0), (0, 0)),
        (4, 4, (1_000_000, 1_600_000, 0), (0, 300_000)),
        (6, 2, (1_500_000, 1_000_000, 0), (200_000, 400_000)),
        (5, 5, (700_000, 1_300_000, 900_000), (100_000, 100_000)),
    ],
)
def test_shares_of_pairs_of_classes_become_rounds_of_jobs(
    first: int, second: int, together: tuple[int, ...], alone: tuple[int, ...]
) -> None:
    """Fault 1: a programme needs no row for a pair of jobs: the share of a pair of classes reaches each job, but for 5 % at most (G16).

    Where a part of a GPU is idle, some jobs receive more.
    """
    present = paired(first, second, together, alone)
    *_, (_, received) = play(present, 100)
    for job, places in present.targets.items():
        share = sum(places.values())
        got = sum(received[job, place] for place in places)
        assert share - got / 100 <= 0.05, job


def test_two_that_run_together_stay_together() -> None:
    """Of equal lags, a pair goes on as it is: each other pair would cost a move."""
    present = paired(3, 3, (0, 2_000_000, 0))
    rounds = [runs for runs, _ in play(present, 2)]
    assert {run.jobs for run in rounds[0]} & {run.jobs for run in rounds[1]}


def test_speed_and_place_of_a_pair() -> None:
    """Each of a pair has its own speed and its own place, whichever of the two is named first."""
    present = paired(1, 1, (0, 1_000_000, 0))
    run = Run(("b0", "a0"), 0)
    assert (8.0, 6.0) == (present.speed(run, "a0"), present.speed(run, "b0"))
    assert (Place(0, "j1"), Place(0, "j0")) == (present.place(run, "a0"), present.place(run, "b0"))
    assert {"a0": {Place(0, "j1"): 1.0}, "b0": {Place(0, "j0"): 1.0}} == present.targets
    doubled = paired(4, 1, (1_000_000, 0, 0))
    assert {Place(0, "j0"): 0.5} == doubled.targets["a0"], (
        "of four jobs in one pair, each has half of its time"
    )


def drawn_shares(seed: int, *, part: float = 1.0) -> Present:
    """One-GPU jobs with random shares that use up this part of the GPUs, or all of the jobs' time."""
    problem = drawn(seed, jobs=8, is_by_job=True)
    classes = tuple(replace(one, gpus=1) for one in problem.classes)
    problem = SharingProblem(classes, problem.columns, (2,) * len(problem.columns), problem.speeds)
    dice = np.random.default_rng(seed)
    shares = dice.exponential(size=problem.speeds.shape) ** 2 * problem.runs
    for _ in range(50):
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1e-9)
        shares *= np.minimum(part * 2 / np.maximum(shares.sum(axis=0), 1e-9), 1.0)
    whole = np.floor(shares * MILLIONTHS).astype(np.int64)
    none = np.zeros((0, len(problem.columns)), dtype=np.int64)
    return Present(problem, [(one.name,) for one in classes], Shares(whole, none))


def drawn_gangs(seed: int) -> Present:
    """Five to nine jobs of 1, 2 and 4 GPUs on two or three pools of 4 to 8, with random shares."""
    dice = random.Random(f"gangs/{seed}")
    pools = [dice.choice((4, 4, 6, 8)) for _ in range(dice.randint(2, 3))]
    widths = [dice.choice((1, 1, 2, 4)) for _ in range(dice.randint(5, 9))]
    draws = np.random.default_rng(seed)
    shares = draws.exponential(size=(len(widths), len(pools))) ** 2
    for _ in range(50):
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1e-9)
        used = np.array(widths) @ shares
        shares *= np.minimum(np.array(pools) / used, 1.0)
    shares[shares < 0.02] = 0.0
    speeds = draws.uniform(1, 10, shares.shape).tolist()
    return present_of(shares.tolist(), pools, speeds, gpus=widths)


def test_gpus_that_came_free_go_to_who_was_passed_over() -> None:
    """G19: a wide job makes room for one and leaves a GPU more; the next that should run there does, and not where it is faster."""
    present = present_of(
        ((0.5, 0.5), (0.45, 0.0), (0.4, 0.0)), (2, 3), [[1.0, 1.0], [1.0, 1.0], [1.0, 10.0]], gpus=[2, 1, 1]
    )
    accounts = Accounts()
    accounts.owe(present.targets)
    assert {"j0": 1, "j1": 0, "j2": 0} == columns(chosen(present, accounts))

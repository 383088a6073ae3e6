"""Jobs played in rounds: when they start and end, what moves cost, and what the published simulator does instead."""

import random
from collections.abc import Sequence
from math import ceil

import numpy as np
import pytest

from core.sharing.accounts import PATIENCE
from core.sharing.building import Pool
from core.sharing.jobs import SharingJob
from core.sharing.outcomes import Outcome, Played, summary_of
from core.sharing.problem import MILLIONTHS, Shares, SharingProblem
from core.sharing.published_replay import PublishedReplay
from core.sharing.replay import IDLE_ROUNDS_MAX, Chooser, Fleet, NeverEnds, Replay
from core.sharing.speeds import SpeedTable
from tests.core.sharing.instances import BATCHES

ROUND = 360.0
TABLE = SpeedTable(
    {
        ("m", 1): {"fast": 10.0, "slow": 5.0},
        ("m", 4): {"fast": 30.0, "slow": 10.0},
        ("m", 8): {"fast": 60.0, "slow": 20.0},
        ("picky", 1): {"fast": 1.0, "slow": 9.0},
    },
    {
        (("m", 1), ("m", 1)): {"fast": (8.0, 8.0), "slow": (4.0, 4.0)},
        (("m", 1), ("picky", 1)): {"fast": (9.0, 0.9)},
        (("picky", 1), ("m", 1)): {"fast": (0.9, 9.0)},
    },
)


def even(problem: SharingProblem) -> Shares:
    """The same part of every column for each job, as much as there are GPUs and time for."""
    gpus = problem.pool_gpus[problem.pool_of][None, :] / (problem.counts * problem.widths).sum()
    shares = np.minimum(gpus, 1.0) * problem.runs
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1.0)
    none = np.zeros((len(problem.pairs), len(problem.columns)), dtype=np.int64)
    return Shares(np.floor(shares * MILLIONTHS).astype(np.int64), none)


def nothing(problem: SharingProblem) -> Shares:
    """No time for any job."""
    return Shares(np.zeros(problem.speeds.shape, dtype=np.int64), problem.none_together)


def second_type(problem: SharingProblem) -> Shares:
    """All of the time on the second type."""
    alone = np.zeros(problem.speeds.shape, dtype=np.int64)
    alone[:, 1] = MILLIONTHS
    return Shares(alone, np.zeros((0, len(problem.columns)), dtype=np.int64))


def paired(problem: SharingProblem) -> Shares:
    """All jobs in pairs on the first type."""
    together = np.zeros((len(problem.pairs), len(problem.columns)), dtype=np.int64)
    together[:, 0] = MILLIONTHS * problem.counts.sum() // 2
    return Shares(np.zeros(problem.speeds.shape, dtype=np.int64), together)


def job(name: str, steps: float, gpus: int = 1, arrival: float = 0.0, model: str = "m") -> SharingJob:
    """A job that does ten steps a second on one fast GPU."""
    return SharingJob(name, model, gpus, steps, arrival)


def fleet(fast: int, slow: int = 0) -> Fleet:
    """So many GPUs of two types, a dollar an hour each; none of the second: it is not there."""
    pools = (Pool("eu", "fast", fast, price=1.0), Pool("eu", "slow", slow, price=1.0))
    return Fleet(pools if slow else pools[:1], TABLE)


def by_id(played: Played) -> dict[str, Outcome]:
    """The outcomes by job."""
    return {one.job.id: one for one in played.outcomes}


def test_a_job_completes_at_its_last_step() -> None:
    """A job that arrives and ends inside rounds has its steps from its arrival on, and is charged for those seconds."""
    one = by_id(Replay([job("a", 1_000.0, arrival=500.0)], fleet(1), Chooser(even)).play())["a"]
    assert (500.0, 600.0, 0) == (one.started, one.completed, one.moves)
    assert {"fast": 100.0} == one.gpu_seconds
    assert 100.0 / 3_600.0 == pytest.approx(one.cost)
    assert 100.0 == pytest.approx(one.isolated_seconds), "alone, a job's equal part is the whole fleet"


def test_idle_gpus_are_given_away_at_once() -> None:
    """A job that waits starts when another ends, in the middle of a round, and is not stopped by that."""
    played = Replay([job("a", 1_000.0), job("b", 1_000.0)], fleet(1), Chooser(even)).play()
    found = by_id(played)
    assert (0.0, 100.0) == (found["a"].started, found["a"].completed)
    assert (100.0, 200.0, 0) == (found["b"].started, found["b"].completed, found["b"].moves)
    assert 1.0 == summary_of(played).utilisation


def quarter(problem: SharingProblem) -> Shares:
    """A quarter of each job's time on the first type."""
    alone = np.zeros(problem.speeds.shape, dtype=np.int64)
    alone[:, 0] = MILLIONTHS // 4
    return Shares(alone, problem.none_together)


def test_gpus_that_shares_leave_idle_can_stay_so() -> None:
    """With idle GPUs left, a job with a quarter of its time runs in each fourth round, and a new one not before a round begins."""
    jobs = [job("a", 36_000.0), job("b", 3_600.0, arrival=100.0)]
    given = by_id(Replay(jobs, fleet(2), Chooser(quarter)).play())
    assert (3_600.0, 100.0, 460.0) == (given["a"].completed, given["b"].started, given["b"].completed)
    left = Replay(jobs, fleet(2), Chooser(quarter), fills=False).play()
    found = by_id(left)
    assert (ROUND, 2 * ROUND) == (found["b"].started, found["b"].completed)
    assert (4 * 9 + 1) * ROUND == found["a"].completed, "ten rounds, and the pauses between them"
    assert 11 * ROUND == left.busy_gpu_seconds


def test_pairs_have_no_more_than_their_shares() -> None:
    """With idle GPUs left, two jobs that share a GPU for half of the time take twice as long as with it for all of the time."""

    def halves(problem: SharingProblem) -> Shares:
        together = paired(problem).together // 2
        return Shares(np.zeros(problem.speeds.shape, dtype=np.int64), together)

    both = [job("a", 28_800.0), job("b", 28_800.0)]
    given, left = (
        Replay(both, fleet(1), Chooser(halves, has_pairs=True), fills=fills).play() for fills in (True, False)
    )
    assert (10 * ROUND, 19 * ROUND) == (given.ended, left.ended)


@pytest.mark.parametrize("seeds", BATCHES)
def test_no_job_has_more_than_its_shares(seeds: range) -> None:
    """With idle GPUs left, each job's time in each column is at most its share of the rounds, and one round more."""
    for seed in seeds:
        dice = random.Random(f"left/{seed}")
        parts = {"m": [dice.uniform(0.1, 0.6), dice.uniform(0, 0.4)], "picky": [dice.uniform(0.1, 1), 0.0]}

        def shares(problem: SharingProblem, parts: dict[str, list[float]] = parts) -> Shares:
            alone = [
                [int(part * MILLIONTHS) for part in parts[one.name.split()[0]]] for one in problem.classes
            ]
            return Shares(np.array(alone), problem.none_together)

        jobs = [
            job(f"j{one}", dice.uniform(10, 100) * ROUND, model=dice.choice(("m", "picky")))
            for one in range(dice.randint(2, 8))
        ]
        for one in Replay(jobs, fleet(8, 8), Chooser(shares), fills=False).play().outcomes:
            rounds = one.completed / ROUND
            for kind, part in zip(("fast", "slow"), parts[one.job.model], strict=True):
                had = one.gpu_seconds.get(kind, 0.0) / ROUND
                assert part * rounds - 2 <= had <= part * rounds + 1, (seed, one.job.id, kind)


def test_a_replay_that_never_ends_says_so() -> None:
    """With idle GPUs left, jobs without shares never run; with idle GPUs given they do."""
    jobs = [job("a", 3_600.0), job("b", 3_600.0, arrival=50_000.0)]
    assert 2 == len(Replay(jobs, fleet(1), Chooser(nothing)).play().outcomes)
    for is_by_job in (False, True):
        with pytest.raises(NeverEnds, match=rf"^2 jobs never complete: .* {IDLE_ROUNDS_MAX} rounds$"):
            Replay(jobs, fleet(1), Chooser(nothing, is_by_job), fills=False).play()


def test_a_new_job_has_shares_in_its_first_round() -> None:
    """Fault 4, G20: a job that came has shares from the next round on, and idle GPUs from its arrival on; none is kept idle beside it.

    By the published mechanism the job has no shares until 1,920 s have passed, and its GPU stays empty.
    """
    early, late = job("early", 36_000.0), job("late", 3_600.0, arrival=100.0)
    counts = []

    def shares(problem: SharingProblem) -> Shares:
        counts.append(int(problem.counts.sum()))
        return even(problem)

    played = Replay([early, late], fleet(2), Chooser(shares)).play()
    assert (100.0, 460.0) == (by_id(played)["late"].started, by_id(played)["late"].completed)
    assert ([1, 2, 1], 0) == (counts, played.phantom_gpu_rounds)
    # The second job has the shares computed at 360 s; they are due again at 2,280 s, and so in the round that begins at 2,520 s.
    jobs = [early, job("second", 36_000.0, arrival=100.0), job("late", 3_600.0, arrival=400.0)]
    held = PublishedReplay(jobs, fleet(3), Chooser(even)).play()
    assert (2_520.0, 5) == (by_id(held)["late"].started, held.phantom_gpu_rounds)


def test_a_new_job_in_a_full_fleet_waits_for_little() -> None:
    """A job that came to a full fleet starts once it is owed two rounds more than a job that stays: each round it gains one on that."""
    jobs = [job("a", 36_000.0), job("b", 36_000.0), job("late", 3_600.0, arrival=2_000.0)]
    late = by_id(Replay(jobs, fleet(2), Chooser(even)).play())["late"]
    assert late.started <= 2_000.0 + 4 * ROUND


def test_fewer_steps_than_gpus_complete() -> None:
    """Fault 10: a job of four GPUs with three steps left completes, and counts, by ours and by the published mechanism (G22)."""
    for play in (Replay, PublishedReplay):
        found = by_id(play([job("a", 3.0, gpus=4)], fleet(4), Chooser(even)).play())
        assert 0.1 == pytest.approx(found["a"].completed)
        assert 1 == summary_of(play([job("a", 3.0, gpus=4)], fleet(4), Chooser(even)).play()).jobs


def test_moves_are_charged() -> None:
    """Fault 9: two jobs that take turns lose what each move costs; the first start is free, and a job that stays pays nothing."""
    both = [job("a", 36_000.0), job("b", 36_000.0)]
    free = Replay(both, fleet(1), Chooser(even)).play()
    dear = Replay(both, fleet(1), Chooser(even), charge_seconds=60.0).play()
    assert 7_200.0 == free.ended
    moves = sum(one.moves for one in dear.outcomes)
    assert moves > 2
    assert 7_200.0 + 60.0 * moves == pytest.approx(dear.ended)
    alone = Replay(both[:1], fleet(1), Chooser(even), charge_seconds=60.0).play()
    assert (3_600.0, 0) == (alone.ended, alone.outcomes[0].moves)
    published = PublishedReplay(both, fleet(1), Chooser(even), charge_seconds=60.0).play()
    assert published.ended > PublishedReplay(both, fleet(1), Chooser(even)).play().ended


def test_staying_spares_moves() -> None:
    """A job that is preferred where it runs moves less: leases are extended, and the same work is done."""
    both = [job("a", 36_000.0), job("b", 36_000.0)]
    stays, turns = (Replay(both, fleet(1), Chooser(even), stay=stay).play() for stay in (2.0, 0.0))
    assert summary_of(stays).lease_share > summary_of(turns).lease_share
    assert stays.ended == turns.ended == 7_200.0


def test_idle_gpus_do_not_draw_a_job_away() -> None:
    """Fault 2: a job with all of its time on the second type runs there, though a faster one is idle; the published one does not."""
    ours = Replay([job("a", 1_800.0)], fleet(1, 1), Chooser(second_type)).play()
    theirs = PublishedReplay([job("a", 1_800.0)], fleet(1, 1), Chooser(second_type)).play()
    assert ({"slow": 360.0}, {"fast": 180.0}) == (
        ours.outcomes[0].gpu_seconds,
        theirs.outcomes[0].gpu_seconds,
    )


def test_a_wide_job_starts_among_a_stream_of_narrow_ones() -> None:
    """G21: while one-GPU jobs come faster than they end, a job of eight GPUs starts in time, though all GPUs never fall idle."""
    dice = random.Random(3)
    stream = [
        job(f"n{number:03d}", dice.uniform(4_000, 40_000), arrival=number * 200.0) for number in range(300)
    ]
    wide = job("wide", 1_000.0, gpus=8, arrival=10_000.0)
    found = by_id(Replay([*stream, wide], fleet(8), Chooser(even)).play(["wide"]))["wide"]
    # An equal part was an 80th of the fleet at the least: 8 GPUs of 64 jobs and 8 GPUs more.
    assert (found.started - 10_000.0) / ROUND <= ceil(10) + PATIENCE + 2


def test_the_survivor_of_a_pair_goes_on_alone() -> None:
    """Two that share a GPU each have the speed of a pair; once the first ends, the other has the GPU to itself, in the same round."""
    both = [job("a", 800.0), job("b", 1_800.0)]
    played = Replay(both, fleet(1), Chooser(paired, has_pairs=True)).play()
    found = by_id(played)
    assert (100.0, 0) == (found["a"].completed, found["a"].moves)
    assert (200.0, 0) == (found["b"].completed, found["b"].moves)
    assert ({"fast": 50.0}, {"fast": 150.0}) == (found["a"].gpu_seconds, found["b"].gpu_seconds)
    assert 200.0 == played.busy_gpu_seconds


def test_a_pair_keeps_the_gpus_of_one() -> None:
    """Of two jobs that ran apart and are then paired, one keeps its GPU and the other moves there; and back when they part again."""

    def shares(problem: SharingProblem) -> Shares:
        return paired(problem) if problem.counts.sum() > 2 else even(problem)

    jobs = [job("a", 30_000.0), job("b", 30_000.0), job("c", 1_000.0, arrival=720.0)]
    found = by_id(Replay(jobs, fleet(2), Chooser(shares, has_pairs=True)).play())
    assert (720.0, 820.0) == (found["c"].started, found["c"].completed), "the GPU that was left is given away"
    assert [0, 2] == [found[name].moves for name in "ab"]


@pytest.mark.parametrize("seeds", BATCHES)
def test_rounds_that_are_alike_are_played_as_one(seeds: range) -> None:
    """Rounds in which nothing can change are passed over, and all comes out as if each had been played; with idle GPUs left too."""
    for seed in seeds:
        jobs, hardware = drawn_load(seed)
        quick, slow = (
            Replay(jobs, hardware, Chooser(even), charge_seconds=30.0, fills=seed % 3 > 0, jumps=jumps)
            for jumps in (True, False)
        )
        assert_alike(slow.play(), quick.play())


def assert_alike(expected: Played, actual: Played) -> None:
    """The same outcomes and counts, but for the rounding of sums."""
    assert (expected.rounds, expected.leases, expected.extended, expected.solved) == (
        actual.rounds,
        actual.leases,
        actual.extended,
        actual.solved,
    )
    one, other = by_id(expected), by_id(actual)
    assert one.keys() == other.keys()
    for name, outcome in one.items():
        assert outcome.moves == other[name].moves
        assert (outcome.started, outcome.completed) == pytest.approx(
            (other[name].started, other[name].completed), rel=1e-9
        )


@pytest.mark.parametrize("seeds", BATCHES)
def test_steps_are_what_the_time_on_each_type_makes(seeds: range) -> None:
    """Each job's time by type, times its speeds, is its steps; no job is in two places, and no more GPUs are used than there are."""
    for seed in seeds:
        jobs, hardware = drawn_load(seed)
        for play in (Replay, PublishedReplay):
            played = play(jobs, hardware, Chooser(even)).play()
            assert len(jobs) == len(played.outcomes)
            for one in played.outcomes:
                speeds = TABLE.alone[one.job.model, one.job.gpus]
                steps = sum(
                    speeds[name] * seconds / one.job.gpus for name, seconds in one.gpu_seconds.items()
                )
                assert one.job.steps == pytest.approx(steps, rel=1e-6)
                assert one.job.arrival <= one.started < one.completed
            assert summary_of(played).utilisation <= 1.0 + 1e-9
        shared = Replay(jobs, hardware, Chooser(paired, has_pairs=True)).play()
        assert len(jobs) == len(shared.outcomes)
        assert summary_of(shared).utilisation <= 1.0 + 1e-9


def drawn_load(seed: int) -> tuple[list[SharingJob], Fleet]:
    """Up to eight jobs, some hours apart, some wide, on a small fleet of two types."""
    dice = random.Random(f"replay/{seed}")
    jobs, now = [], 0.0
    for number in range(dice.randint(1, 8)):
        gpus = dice.choice((1, 1, 1, 4))
        model = dice.choice(("m", "picky")) if gpus == 1 else "m"
        jobs.append(job(f"j{number}", 10 ** dice.uniform(2.0, 4.5), gpus, now, model))
        now += dice.choice((0.0, dice.uniform(0, 1_000), dice.uniform(0, 20_000)))
    return jobs, fleet(4, dice.choice((1, 4)))


def test_finish_time_fairness_is_completion_over_isolated_completion() -> None:
    """Of two jobs that take turns on one GPU, the second completes somewhat later than with half a GPU until the first ends, then all."""
    both = [job("a", 36_000.0), job("b", 36_000.0)]
    played = Replay(both, fleet(1), Chooser(even)).play()
    for one in played.outcomes:
        # Half of the GPU while both are there, all of it once the first has ended.
        assert 3_600.0 < one.isolated_seconds <= 7_200.0
    summary = summary_of(played)
    assert max(one.completed / one.isolated_seconds for one in played.outcomes) == summary.fairness_worst
    assert 1.0 <= summary.fairness_worst <= 1.2


def test_the_published_simulator_plays_whole_steps() -> None:
    """As many whole steps as fit into a round; a round ends with its last job, and a job that waits starts then."""
    table = SpeedTable({("m", 1): {"fast": 0.0075}}, {})
    jobs = [SharingJob("a", "m", 1, 4.0), SharingJob("b", "m", 1, 2.0)]
    played = PublishedReplay(jobs, Fleet((Pool("eu", "fast", 1),), table), Chooser(even)).play()
    found = by_id(played)
    # 2.7 steps would fit into 360 s: a turn is of two steps, 266.7 s, and half a round each evens the turns.
    turn = 2 / 0.0075
    assert (0.0, turn) == pytest.approx((found["a"].started, found["b"].started))
    assert [2 * turn, 3 * turn] == pytest.approx([one.completed for one in played.outcomes])


def test_only_asked_for_jobs_are_waited_for() -> None:
    """A replay ends when the jobs that it was asked for are complete, and counts those alone."""
    jobs = [job("a", 1_000.0), job("b", 1_000_000.0)]
    for play in (Replay, PublishedReplay):
        played = play(jobs, fleet(2), Chooser(even)).play(["a"])
        assert ["a"] == [one.job.id for one in played.outcomes]
        assert 1 == summary_of(played, ["a", "b"]).jobs


def test_no_jobs_are_played_at_once() -> None:
    """A trace without jobs has a summary of nothing."""
    for play in (Replay, PublishedReplay):
        summary = summary_of(play([], fleet(1), Chooser(even)).play())
        assert (0, 0.0, 1.0) == (summary.jobs, summary.mean_hours, summary.lease_share)


@pytest.mark.parametrize(("hours", "p99"), [([1.0, 2.0, 3.0, 6.0], 6.0), (list(range(1, 201)), 199.0)])
def test_figures_of_a_summary(hours: Sequence[float], p99: float) -> None:
    """The mean and the percentiles, the 99th as the next time that there is."""
    outcomes = tuple(
        Outcome(job(f"{index}", 1.0), 0.0, 3_600.0 * one, 1, {}, 2.0, 1_800.0)
        for index, one in enumerate(hours)
    )
    played = Played(outcomes, 0.0, 3_600.0 * max(hours), 2, 3_600.0, 10, 4, 5, 1, 0.0)
    summary = summary_of(played)
    assert (sum(hours) / len(hours), p99, max(hours)) == pytest.approx(
        (summary.mean_hours, summary.p99_hours, summary.makespan_hours)
    )
    assert (0.4, 2 * max(hours), len(hours), 2.0 * len(hours)) == pytest.approx(
        (summary.lease_share, summary.fairness_worst, summary.moves, summary.cost)
    )

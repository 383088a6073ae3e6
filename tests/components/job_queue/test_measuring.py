"""Speeds and pauses of shared work are measured: checkpoints correct what users told, and a move costs what it took."""

from typing import Any

import numpy as np

from core.events.queue import AttemptClosed, WorkloadAwarded, WorkloadBound, WorkloadSubmitted
from core.events.region import AttemptEnded, CheckpointCommitted
from core.events.sharing import PicksAdded, RoundBegun, SharesSet, SpeedMeasured
from core.fact import Fact
from core.images import GlobalImage
from core.images.sharing import MEASURED_MAX
from core.nouns.ids import GLOBAL_LOG
from core.nouns.instant import Instant, Nanoseconds, seconds
from core.nouns.sharing import MICRO_STEPS, ROUND_SPAN, ShareColumn
from core.nouns.workload import EndCause, Phase
from core.sharing.accounts import Accounts, Place
from core.sharing.classes import class_of
from core.sharing.problem import Column, JobClass, Shares, SharingProblem
from core.sharing.rounds import Present, Run, chosen
from tests.builders import US, US_LOG, attempt
from tests.components.support.job_queue import W1, Start, submit
from tests.components.support.machine import Machine
from tests.components.support.shared_pool import (
    a_pool_queue,
    begun,
    next_round,
    shared,
    starts,
)
from tests.matching import facts

KEY = "m x1 in 1 of default"
MINUTE = seconds(60)


def saves(
    queue: Machine[Any], steps: int, later: Nanoseconds = MINUTE, epoch: int = 1
) -> list[SpeedMeasured]:
    """Its checkpoint counts, so much later. Returns the speeds that are recorded then."""
    queue.now = Instant(queue.now + later)
    queue.fact(US_LOG, CheckpointCommitted(*attempt(W1, epoch), steps))
    return [event for event in facts(queue.wake()) if isinstance(event, SpeedMeasured)]


def runs(start: Start, **share: Any) -> Machine[Any]:
    """A job that runs on a V100."""
    queue = a_pool_queue(start)
    submit(queue, shared(1, **share))
    starts(queue, queue.wake(), W1)
    return queue


def test_speed_is_measured_between_checkpoints(start: Start) -> None:
    """G29: the first speed that is measured replaces what was told; later ones move the average, and only 5 % are recorded."""
    queue = runs(start, speeds={"V100": 9 * MICRO_STEPS})
    assert [] == saves(queue, 100), "of one checkpoint no speed follows"
    assert [SpeedMeasured(KEY, "V100", 2 * MICRO_STEPS)] == saves(queue, 220)
    assert [] == saves(queue, 340), "as fast as is known"
    assert [] == saves(queue, 460 + 12), "a tenth more counts a quarter: 2.5 %"
    (again,) = saves(queue, 472 + 240)
    assert 2_537_500 == again.speed
    sharing = queue.state.image.sharing
    (kind,) = sharing.classes
    assert 2.5375 == sharing.speed(kind, "V100") == sharing.speed(kind, "K80"), "of a K80 nothing is known"


def test_speed_that_was_told_rightly_is_not_recorded(start: Start) -> None:
    """Neither is one that nobody told left out: it is recorded at once."""
    told = runs(start, speeds={"V100": 2 * MICRO_STEPS})
    assert [] == saves(told, 0) + saves(told, 120) + saves(told, 240)
    untold = runs(start)
    assert [SpeedMeasured(KEY, "V100", 2 * MICRO_STEPS)] == saves(untold, 0) + saves(untold, 120)


def test_checkpoints_close_together_tell_no_speed(start: Start) -> None:
    """The span from the earliest of them counts, once it is a 20th of a round."""
    queue = runs(start)
    assert [] == saves(queue, 0) + saves(queue, 50, seconds(10))
    assert [SpeedMeasured(KEY, "V100", 3 * MICRO_STEPS)] == saves(queue, 60, seconds(10))


def test_speed_of_another_attempt_is_not_compared(start: Start) -> None:
    """Between two attempts a job waits; and what it saves because it is told to leave is no measure."""
    queue = runs(start)
    submit(queue, shared(2))
    saves(queue, 10)
    while not begun(next_round(queue)).leaves:
        pass
    assert [] == saves(queue, 10_000)
    queue.fact(US_LOG, AttemptEnded(*attempt(W1), EndCause.ROUND_OVER))
    assert {} == queue.state.image.sharing.measured


def test_measured_speed_outlives_its_jobs(start: Start) -> None:
    """The next job of the model is known from its submission, by what was measured rather than by what its user tells."""
    queue = runs(start)
    saves(queue, 0)
    saves(queue, 120)
    queue.fact(US_LOG, AttemptEnded(*attempt(W1), EndCause.COMPLETED))
    queue.wake()
    assert {} == queue.state.image.sharing.classes
    submit(queue, shared(3, speeds={"V100": 40 * MICRO_STEPS, "K80": 1 * MICRO_STEPS}))
    sharing = queue.state.image.sharing
    (kind,) = sharing.classes
    assert {"V100": 2 * MICRO_STEPS, "K80": 1 * MICRO_STEPS} == sharing.speeds_of(kind)


def test_only_so_many_are_remembered() -> None:
    """Of kinds of jobs that came and went: the one that was changed longest ago is forgotten."""
    image = GlobalImage.empty(("sharing",))
    for number in range(MEASURED_MAX + 1):
        for name in (f"m{number}", "m0"):
            image.fold(Fact(GLOBAL_LOG, number, Instant(1), "", "", SpeedMeasured(name, "V100", 1)))
    measured = image.sharing.measured
    assert MEASURED_MAX == len(measured)
    assert (True, False) == ("m0" in measured, "m1" in measured)


def test_queue_that_starts_again_goes_on_from_what_is_known(start: Start) -> None:
    """Its average begins with the speed that was recorded."""
    queue = runs(start)
    saves(queue, 0)
    saves(queue, 120)
    queue.restart()
    assert [] == saves(queue, 240)
    assert [2_250_000] == [one.speed for one in saves(queue, 240 + 180)]


def test_averages_of_jobs_long_gone_are_forgotten(start: Start) -> None:
    """From the next round on, whether or not they were recorded; that of a job that is there stays."""
    queue = runs(start, speeds={"V100": 2 * MICRO_STEPS})
    saves(queue, 0)
    saves(queue, 120)
    submit(queue, shared(2, model="other"))
    next_round(queue)
    assert [KEY] == [key.jobs for key in queue.state.speeds.averages]
    queue.fact(US_LOG, AttemptEnded(*attempt(W1), EndCause.COMPLETED))
    next_round(queue)
    assert {} == queue.state.speeds.averages


def test_measured_speed_makes_shares_old(start: Start) -> None:
    """They are solved again, so that speeds that lie lead to other shares within a round or two."""
    queue = runs(start, speeds={"V100": 9 * MICRO_STEPS})
    before = queue.state.image.sharing.changes
    saves(queue, 0)
    saves(queue, 60)
    assert before + 1 == queue.state.image.sharing.changes
    after = [fact.event for fact in queue.logs[GLOBAL_LOG] if fact.at >= queue.now]
    assert [SpeedMeasured, SharesSet, RoundBegun] == [type(event) for event in after]


def moved(image: GlobalImage, at: Nanoseconds, number: int, column: int, pause: Nanoseconds) -> None:
    """The job is told to leave for another column at `at`, and runs there after the pause."""
    columns = (ShareColumn(US, "V100"), ShareColumn(US, "K80"))
    told = (
        (at, RoundBegun(number, columns, {W1: column}, (W1,), seconds(60))),
        (at + pause // 2, AttemptClosed(W1, number, EndCause.ROUND_OVER, Phase.PENDING, US, 1)),
        (at + pause // 2, WorkloadAwarded(W1, number + 1, US, 0, ())),
        (at + pause, WorkloadBound(W1, number + 1, US, 2)),
    )
    for when, event in told:
        image.fold(Fact(GLOBAL_LOG, 1, Instant(when), "", "", event, Instant(when)))


def test_pause_of_a_move_is_measured() -> None:
    """G26: from the order to stop until it runs in its new column; a moving average, of at most a round."""
    image = GlobalImage.empty(("sharing",))
    spec, column = shared(), ShareColumn(US, "V100")
    for event in (
        WorkloadSubmitted(W1, 1, spec, "ada"),
        PicksAdded((column,), {W1: 0}),
        WorkloadAwarded(W1, 1, US, 0, ()),
        WorkloadBound(W1, 1, US, 1),
    ):
        image.fold(Fact(GLOBAL_LOG, 1, Instant(1), "", "", event, Instant(1)))
    sharing, kind = image.sharing, class_of(spec)
    assert 0 == sharing.pause_of(kind)
    moved(image, ROUND_SPAN, 1, 1, seconds(40))
    assert seconds(40) == sharing.pause_of(kind)
    moved(image, Nanoseconds(2 * ROUND_SPAN), 2, 0, seconds(80))
    assert seconds(50) == sharing.pause_of(kind)
    moved(image, Nanoseconds(3 * ROUND_SPAN), 3, 1, Nanoseconds(9 * ROUND_SPAN))
    assert seconds(50) + (ROUND_SPAN - seconds(50)) // 4 == sharing.pause_of(kind)


def test_job_is_preferred_where_it_runs_by_its_pause_too() -> None:
    """G26: who is owed two rounds more than the other takes its GPU, unless a move costs three."""
    problem = SharingProblem((JobClass("m", 1, 2),), (Column(US, "V100"),), (1,), np.ones((1, 1)))
    shares = Shares(np.full((1, 1), 500_000), problem.none_together)
    accounts = Accounts()
    accounts.owe({"a": {Place(0): 0.0}, "b": {Place(0): 1.0}})
    accounts.owe({"a": {Place(0): 0.0}, "b": {Place(0): 1.0}})
    for pause, runs_on in ((0.0, "b"), (3.0, "a")):
        present = Present(problem, (("a", "b"),), shares, (pause,))
        assert [Run((runs_on,), 0)] == chosen(present, accounts, [Run(("a",), 0)], stay=0.0)


def test_speed_is_recorded_once_a_round(start: Start) -> None:
    """However unevenly a job works: each record makes all shares old, and they are solved again."""
    queue = runs(start)
    begun(next_round(queue))
    steps = (0, 60, 180, 300, 1_000, 1_700)
    recorded = [one for step in steps for one in saves(queue, step, seconds(30))]
    assert [2 * MICRO_STEPS] == [one.speed for one in recorded]
    (again,) = [event for event in facts(next_round(queue)) if isinstance(event, SpeedMeasured)]
    assert again.speed > 3 * MICRO_STEPS

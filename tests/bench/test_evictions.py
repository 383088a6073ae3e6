"""Evictions in small: every call is answered and counted once, and the odds of a function are those of its losses."""

from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from bench.evictions import findings_of, run
from bench.support.harvest.evicted import Ends, Evicted
from bench.support.harvest.lengths import Lengths
from bench.support.report import rounded, shown
from components.function_router.notes import ReportHeard
from core.fact import Note
from core.messages.base import Message
from core.messages.functions import CallsAnswered, CountFunctions
from core.nouns.function import CallOutcome
from core.nouns.instant import SECOND

FUNCTIONS = 100


def test_lengths_are_those_of_azure() -> None:
    """H4: 4.1 % of calls run for over 30 s, and have 82 % of the time."""
    lengths = Lengths(1, FUNCTIONS)
    spans = [lengths.run_time(number % FUNCTIONS) / SECOND for number in range(100_000)]
    assert 0.041 == pytest.approx(sum(span > 30 for span in spans) / len(spans), rel=0.05)
    assert 0.82 == pytest.approx(sum(span for span in spans if span > 30) / sum(spans), rel=0.05)


@pytest.mark.slow
def test_calls_are_answered_once_however_often_workers_are_evicted() -> None:
    """H-2, H-8: calls that are lost run elsewhere, in the end where functions hold capacity; all counts agree."""
    ends = Evicted(1, 1_200, 30.0, lambda _: None).play()
    assert Counter({CallOutcome.DONE: 1_200}) == ends.answers
    assert (0, 0) == (ends.twice, ends.silent)
    assert 0 < ends.retried_calls <= ends.lost_runs == ends.retried
    assert ends.lost_seconds > 30.0
    assert ends.evictions > 10


class Swallowing(Evicted):
    """One whose caller never hears the answer to its seventh call."""

    def told(self, message: Message) -> None:
        """Drop that answer."""
        if isinstance(message, CallsAnswered):
            left = tuple(one for one in message.answers if one.number != 7)
            message = replace(message, answers=left)
        super().told(message)


class Doubling(Evicted):
    """One of which an answer is sent twice."""

    is_doubled = False

    def carry(self, message: Message) -> None:
        """Send the first answer again."""
        super().carry(message)
        if isinstance(message, CallsAnswered) and not self.is_doubled:
            self.is_doubled = True
            super().carry(replace(message, answers=message.answers[:1]))


class Running(Evicted):
    """One of which the router hears of a run that was done as of two."""

    is_doubled = False

    def noted(self, event: Note) -> None:
        """Hear of the first end again."""
        super().noted(event)
        if isinstance(event, ReportHeard) and event.report.ended and not self.is_doubled:
            self.is_doubled = True
            super().noted(replace(event, report=replace(event.report, ended=event.report.ended[:1])))


class Counting(Evicted):
    """One whose router counts an end too many of one function, and one too few of another."""

    is_doubled = False

    def told(self, message: Message) -> None:
        """Falsify two counts."""
        if isinstance(message, CountFunctions) and len(message.counts) > 1 and not self.is_doubled:
            self.is_doubled = True
            one, other, *more = message.counts
            false = (replace(one, done=one.done + 1), replace(other, done=other.done - 1), *more)
            message = replace(message, counts=false)
        super().told(message)


@pytest.mark.parametrize(
    ("kind", "twice", "silent"),
    [(Evicted, 0, 0), (Swallowing, 0, 1), (Doubling, 1, 0), (Running, 1, 0), (Counting, 1, 1)],
)
def test_each_call_ends_once_or_is_found(kind: type[Evicted], twice: int, silent: int) -> None:
    """H-8: an answer that never comes, one that comes twice, a run too many, and counts that add up to the right sum."""
    ends = kind(1, 200, 1.0, lambda _: None).play()
    assert (200, twice, silent) == (ends.calls, ends.twice, ends.silent)


def test_region_learns_how_often_its_workers_are_evicted() -> None:
    """H-9: after a day's evictions the odds that the router has are those of the rate; a region without experience has others."""
    ratios = []
    for experience in (24, 0):
        ends = Evicted(1, 2_000, 20.0, lambda _: None, experience).play()
        ratios.append(ends.estimated / ends.estimated_given)
    assert 1.0 == pytest.approx(ratios[0], rel=0.3)
    assert ratios[1] < 0.6


def test_bars_are_of_all_runs() -> None:
    """A call that is missing in one of them is found; so are odds that are far from the losses."""
    sound = Ends(calls=1_000, answers=Counter({CallOutcome.DONE: 1_000}))
    silent = Ends(
        calls=1_000, answers=Counter({CallOutcome.DONE: 999}), counted_more=1, evictions=3, hours=1.0
    )
    silent.lost_runs, silent.retried_calls, silent.estimated = 20, 18, 50.0
    told = findings_of({"61_5_days": sound, "hour": silent}, 1, 1.0)
    assert {
        "success": True,
        "expected_failures_per_million": True,
        "estimate_over_observed": True,
        "estimate_over_observed_most": False,
        "counted_twice": False,
        "lost_silently": False,
    } == {bar.name: bar.met for bar in told.bars}
    assert 2.5 == told.figures["estimate_over_observed"]
    assert 19_000 == pytest.approx(told.figures["failures_per_million_hour"])


def test_success_is_told_in_millionths() -> None:
    """A report has enough digits of a share that is close to all."""
    assert ("0.999984", "0.9985") == (shown(rounded(0.999_984)), shown(rounded(0.998_5)))


@pytest.mark.slow
@pytest.mark.processes
def test_all_of_it_in_small(tmp_path: Path) -> None:
    """Its figures mean little, and calls are counted once."""
    bars = {bar.name: bar for bar in run(tmp_path, is_quick=True).bars}
    assert bars["counted_twice"].met
    assert bars["lost_silently"].met

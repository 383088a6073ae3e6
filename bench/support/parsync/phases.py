"""Loads of ParSync's experiments, and the figures of each phase.

phases      two groups of schedulers: both at 2/3 of what they can do; the first one full; both full (spec/protean-parsync.md §2.6 A)
sustained   all schedulers at one load, for long
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby

import numpy as np
from msgspec import Struct

from bench.support.parsync.model import STEP, Model, Setup, Started
from core.nouns.agents import AgentView, Placing

PHASES = ((2 / 3, 2 / 3), (1.0, 2 / 3), (1.0, 1.0))
"""Of the first and of the second half of the schedulers: the part of K that arrives."""
PHASE_SECONDS = 30.0
WARM_SECONDS = 10.0
WAYS: dict[str, Setup] = {
    "latency_first": Setup(placing=Placing.LATENCY_FIRST),
    "adaptive": Setup(placing=Placing.ADAPTIVE),
    "quality_first": Setup(placing=Placing.QUALITY_FIRST),
    "statesync": Setup(view=AgentView.STATESYNC, placing=Placing.QUALITY_FIRST),
    "statesync_over_all": Setup(view=AgentView.STATESYNC, is_over_all=True),
}
"""The rows of spec/protean-parsync.md §2.6."""


class PhaseFigures(Struct, frozen=True):
    """Of one phase."""

    mean_s: float
    """Mean delay from the arrival to the start, in seconds."""
    p99_s: float
    conflict_share: float
    quality: float
    """Mean score of the slots for their tasks."""
    quality_sd: float
    started: int
    scarce_quality: float = 0.0
    """Mean score of the slots for tasks of the second sort; 0 if there are none."""
    course: tuple[tuple[float, float, float], ...] = ()
    """Of each second: when it began, and the mean delay and the mean score of the tasks that started in it."""
    flaps: int = 0
    """Changes of schedulers from in time to late and back."""

    @classmethod
    def of(cls, started: Started) -> "PhaseFigures":
        """Return the figures of all that started."""
        delay, quality, scarce = started.delay, started.quality, started.is_scarce
        if not len(delay):
            return cls(0.0, 0.0, started.conflict_share, 0.0, 0.0, 0)
        return cls(
            float(delay.mean()),
            float(np.quantile(delay, 0.99)),
            started.conflict_share,
            float(quality.mean()),
            float(quality.std()),
            len(delay),
            float(quality[scarce].mean()) if scarce.any() else 0.0,
            tuple(_course_of(started)),
            started.flaps,
        )


def _course_of(started: Started) -> Iterator[tuple[float, float, float]]:
    steps = zip(started.times, started.delays, started.qualities, strict=True)
    for second, of_second in groupby(steps, key=lambda step: int(step[0] + STEP / 2)):
        _, delays, qualities = zip(*of_second, strict=True)
        if any(map(len, delays)):
            yield second, float(np.concatenate(delays).mean()), float(np.concatenate(qualities).mean())


def phases_of(setup: Setup, seconds: float = PHASE_SECONDS) -> list[PhaseFigures]:
    """Play the three phases, each for so many seconds."""
    model, half = Model(setup), setup.agents // 2
    found = []
    for first, second in PHASES:
        rates = [part * setup.attempts_per_s for part in (first, second)]
        found.append(PhaseFigures.of(model.play(seconds, partial(_rate_of, rates, half))))
    return found


def _rate_of(rates: Sequence[float], half: int, agent: int) -> float:
    """Return the rate of a scheduler: the first of two in the first half."""
    return rates[agent >= half]


def sustained(setup: Setup, load: float, seconds: float = PHASE_SECONDS) -> PhaseFigures:
    """Play one load, a part of K, for so many seconds after the region has filled."""
    model = Model(setup)
    rate = load * setup.attempts_per_s
    model.play(WARM_SECONDS, lambda _: rate)
    return PhaseFigures.of(model.play(seconds, lambda _: rate))


def with_changes(setup: Setup, load: float, seconds: float = PHASE_SECONDS) -> PhaseFigures:
    """Play one load while schedulers go and come back: every few seconds a quarter of them, whose tasks the others get."""
    model = Model(setup)
    count = setup.agents
    total = load * setup.attempts_per_s * count
    model.play(WARM_SECONDS, lambda _: total / count)
    parts: list[Started] = []
    for number in range(round(seconds / 3)):
        away = count // 4 if number % 2 else 0
        gone = model.present[len(model.present) - away :] if away else []
        for agent in gone:
            model.queues[agent % (count - away)].extend(model.queues[agent])
            model.queues[agent].clear()
        model.present = list(range(count - away))
        share = total / len(model.present)
        parts.append(model.play(3.0, partial(_rate_of, [share, share], 0)))
    whole = Started([], [], [])
    for part in parts:
        whole.times += part.times
        whole.delays += part.delays
        whole.qualities += part.qualities
        whole.sorts += part.sorts
        whole.attempts += part.attempts
        whole.conflicts += part.conflicts
        whole.flaps += part.flaps
    return PhaseFigures.of(whole)

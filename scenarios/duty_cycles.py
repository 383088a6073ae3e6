"""Duty cycles of inference pods, each of which has one GPU: when the GPU is idle, and when the pod needs it.

source   GenTD26, an image-generation fleet (github.com/alibaba/clusterdata, cluster-trace-v2026-GenAI), as
         `pod_gpu_duty_cycle_anon.csv.gz` with the columns timestamp_anon (s), value (busy %), container_ip: 143 pods, sampled every 57 s
         for 23 hours, 69.9 % of samples idle
"""

import csv
import gzip
import random
from collections.abc import Iterable, Iterator
from math import exp
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

FILE = "../shared/data/alibaba-genai-inference-2026/pod_gpu_duty_cycle_anon.csv.gz"
SAMPLE_SECONDS = 57.0
BUSY_PERCENT = 1.0
"""From which on a sample is busy."""
GAP_SECONDS = 300.0
"""Without a sample for longer, a pod counts as busy."""
PODS, HOURS = 143, 22.8
IDLE_MEDIAN, IDLE_SIGMA, BUSY_MEAN = 114.0, 1.56, 166.0
"""Seconds of drawn runs: idle ones are lognormal, so that those of 10 minutes and more have 69 % of the idle time, as in the trace; computed."""


class IdleRun(NamedTuple):
    """A time in which a pod is idle, in seconds from the start."""

    begin: float
    seen: float
    """The second idle sample: a rule that waits one sample lends from here on. `end` if there is none."""
    end: float


class Cycle(Struct, frozen=True):
    """The samples of one pod: second from the start, and whether its GPU was idle."""

    samples: tuple[tuple[float, bool], ...]

    def idle_between(self, begin: float, end: float) -> Iterator[IdleRun]:
        """Yield the idle runs between two seconds, in order, in seconds from the first of them. The runs are cut there."""
        for run in self.idle_runs(end):
            if run.end > begin:
                yield IdleRun(*(max(0.0, at - begin) for at in run))

    def idle_runs(self, until: float) -> Iterator[IdleRun]:
        """Yield the idle runs up to a second, in order."""
        begin = seen = None
        for at, is_idle in self._without_gaps(until):
            if not is_idle or at >= until:
                if begin is not None:
                    end = min(at, until)
                    yield IdleRun(begin, end if seen is None else seen, end)
                begin = seen = None
            elif begin is None:
                begin = at
            elif seen is None:
                seen = at

    def _without_gaps(self, until: float) -> Iterator[tuple[float, bool]]:
        """Yield the samples up to a second, with a busy one wherever a pod has none for long, and one at the end."""
        last = 0.0
        for at, is_idle in (*(one for one in self.samples if one[0] < until), (until, False)):
            if at - last > GAP_SECONDS:
                yield last + SAMPLE_SECONDS, False
            yield at, is_idle
            last = at


def read_cycles(path: Path) -> list[Cycle]:
    """Return the cycles of a file, a pod each, from its first sample on. Raises OSError, and ValueError for a file of another form."""
    rows: dict[str, list[tuple[float, bool]]] = {}
    with gzip.open(path, "rt", newline="") as file:
        for row in csv.DictReader(file):
            try:
                at, value = float(row["timestamp_anon"]), float(row["value"])
                rows.setdefault(row["container_ip"], []).append((at, value < BUSY_PERCENT))
            except KeyError as error:
                raise ValueError(f"{path}: it has no column {error}") from error
    start = min(at for samples in rows.values() for at, _ in samples)
    return [_from_start(samples, start) for samples in rows.values()]


def drawn_cycles(seed: int) -> list[Cycle]:
    """Return as many cycles as the trace has, with its shares of idle time, for a machine without it."""
    dice = random.Random(f"cycles/{seed}")
    return [Cycle(tuple(_drawn(dice))) for _ in range(PODS)]


def cycles_or_drawn(path: Path | None, seed: int) -> tuple[list[Cycle], bool]:
    """Return the cycles of a file, and whether they were drawn because the trace is not there. Raises OSError and ValueError as `read_cycles`."""
    if path is None and not Path(FILE).is_file():
        return drawn_cycles(seed), True
    return read_cycles(path or Path(FILE)), False


def _from_start(samples: Iterable[tuple[float, bool]], start: float) -> Cycle:
    return Cycle(tuple(sorted((at - start, is_idle) for at, is_idle in samples)))


def _drawn(dice: random.Random) -> Iterator[tuple[float, bool]]:
    at, is_idle = 0.0, dice.random() < 0.7
    while at < HOURS * 3_600:
        span = exp(dice.gauss(0, IDLE_SIGMA)) * IDLE_MEDIAN if is_idle else dice.expovariate(1 / BUSY_MEAN)
        for _ in range(max(1, round(span / SAMPLE_SECONDS))):
            yield at, is_idle
            at += SAMPLE_SECONDS
        is_idle = not is_idle

"""Core counts of harvested workers over time: the sets of SOSP'21, others of the same form, or drawn like them.

source   Zhang et al., SOSP'21 (github.com/zyqCSL/harv-faas-experiment), as `cpu_changes.csv` with the columns set, vm, time_s, vcpus: a
         worker has so many cores from a second until its next row, for 20 minutes
"""

import csv
import random
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

FILE = "../shared/data/harvest-vm-sosp21/cpu_changes.csv"
SETS = {
    "active": "sim_active_traces_padded",
    "common": "sim_common_traces_padded",
    "const": "sim_const_traces",
}
"""The file's names of the sets that are compared: the most changes, sizes that differ and stay, and equal sizes."""
TRACE_SECONDS = 1_200.0
WORKERS = 10
CORES_MIN, CORES_MAX = 2, 32
"""source: spec/cameo-harvest.md 2.1 and 2.3; the minimum is inferred there"""
DRAWN_MEANS = {"active": 14.8, "common": 18.0, "const": 18.0}
DRAWN_INTERVAL = 10 * TRACE_SECONDS / 67
"""Seconds between two changes of one drawn worker, in the mean. source: the set with most changes"""


class Sizes(Struct, frozen=True):
    """One worker: its core counts, each with the second from which on it holds."""

    steps: tuple[tuple[float, int], ...]

    def mean(self, begin: float = 0.0, end: float = TRACE_SECONDS) -> float:
        """Return the mean of the core count over a time."""
        ends = [at for at, _ in self.steps[1:]] + [end]
        spans = (
            (max(0.0, min(until, end) - max(at, begin)), cores)
            for (at, cores), until in zip(self.steps, ends, strict=True)
        )
        return sum(span * cores for span, cores in spans) / (end - begin)

    def since(self, begin: float) -> "Sizes":
        """Return the later part, as if it began at 0."""
        before = [cores for at, cores in self.steps if at <= begin]
        later = tuple((at - begin, cores) for at, cores in self.steps if at > begin)
        return Sizes(((0.0, before[-1]), *later))


def read_sets(path: Path) -> dict[str, list[Sizes]]:
    """Return the sets of a file, by name. Raises OSError, and ValueError for a file of another form."""
    rows: dict[str, dict[str, list[tuple[float, int]]]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            try:
                name, step = row["set"], (float(row["time_s"]), int(row["vcpus"]))
            except KeyError as error:
                raise ValueError(f"{path}: it has no column {error}") from error
            rows.setdefault(name, {}).setdefault(row["vm"], []).append(step)
    short = {full: name for name, full in SETS.items()}
    return {
        short.get(name, name): [Sizes(tuple(sorted(steps))) for steps in workers.values()]
        for name, workers in rows.items()
    }


def drawn_sets(seed: int) -> dict[str, list[Sizes]]:
    """Return sets with the same means and changes as those of the trace, for a machine without it."""
    dice = random.Random(f"sizes/{seed}")
    changing = [Sizes(tuple(_changes(dice, DRAWN_MEANS["active"]))) for _ in range(WORKERS)]
    active = _scaled_to(changing, WORKERS * DRAWN_MEANS["active"])
    common = [Sizes(((0.0, cores),)) for cores in _unequal(dice, DRAWN_MEANS["common"])]
    const = [Sizes(((0.0, round(DRAWN_MEANS["const"])),))] * WORKERS
    return {"active": active, "common": common, "const": const}


def sets_or_drawn(path: Path | None, seed: int) -> tuple[dict[str, list[Sizes]], bool]:
    """Return the sets of a file, and whether they were drawn because the trace is not there. Raises OSError and ValueError as `read_sets`."""
    if path is None and not Path(FILE).is_file():
        return drawn_sets(seed), True
    return read_sets(path or Path(FILE)), False


def drawn_like(sizes: Sequence[Sizes], workers: int, cores: float, seed: int) -> list[Sizes]:
    """Return more workers that change as those of a set do: each is one of them from a drawn second on, scaled to so many cores in all."""
    dice = random.Random(f"workers/{seed}/{workers}")
    turned = [_turned(dice.choice(sizes), dice.uniform(0.0, TRACE_SECONDS)) for _ in range(workers)]
    return _scaled_to(turned, cores)


def _scaled_to(sizes: Sequence[Sizes], cores: float) -> list[Sizes]:
    """Return workers with so many cores in all, in the mean."""
    scale = 1.0
    for _ in range(20):  # Whole numbers and the least size move the mean.
        found = [_scaled(one, scale) for one in sizes]
        scale *= cores / sum(one.mean() for one in found)
    return found


def _turned(one: Sizes, begin: float) -> Sizes:
    """Return a worker from a second on, followed by what was before."""
    earlier = ((at - begin + TRACE_SECONDS, cores) for at, cores in one.steps if at <= begin)
    return Sizes((*one.since(begin).steps, *earlier))


def _scaled(one: Sizes, scale: float) -> Sizes:
    return Sizes(tuple((at, max(CORES_MIN, round(scale * cores))) for at, cores in one.steps))


def _changes(dice: random.Random, mean: float) -> list[tuple[float, int]]:
    found, at = [], 0.0
    while at < TRACE_SECONDS:
        found.append((at, dice.randint(CORES_MIN, round(2 * mean) - CORES_MIN)))
        at += dice.expovariate(1 / DRAWN_INTERVAL)
    return found


def _unequal(dice: random.Random, mean: float) -> list[int]:
    """Return sizes that differ, in pairs with the same sum."""
    half = [dice.randint(CORES_MIN, round(2 * mean) - CORES_MIN) for _ in range(WORKERS // 2)]
    return [*half, *(round(2 * mean) - one for one in half)]

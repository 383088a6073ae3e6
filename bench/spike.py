"""Bursts: ten times the bulk for five seconds on chains of four hosts, and a thousand beats at once at a host that hands on awards.

Both in virtual time, as `mailbox` is played. The load is 0.6 before and after the burst of bulk. The host that hands on awards gets a
hundred a second, each of 1 ms, and beats of a thousand workers, each of 1 ms: one in five seconds, and then all of them at once.

    spike_p99_ratio     p99 of urgent chains that begin in the burst over that of those before, by llf; fifo_spike_p99_ratio by fifo
    beats_p99_ratio     p99 of awards in the second after all beats over that of those before, of all runs, by llf; `fifo_beats_p99_ratio` by fifo, and
                        `unwindowed_beats_p99_ratio` by llf if beats were due in a second, as other reports are

source    spec/cameo-harvest.md C2
"""

# rows: C2, C-7

import argparse
import statistics
from pathlib import Path

from bench.support.choices import numbers
from bench.support.dispatch.beats import Beats, play_beats
from bench.support.dispatch.chain import quantile, settings_of
from bench.support.dispatch.virtual import Play, play
from bench.support.report import Findings, at_least, at_most

LOAD = 0.6
BEGIN, SPAN, FACTOR = 42.0, 5.0, 10.0
QUICK_BEGIN = 4.0
AFTER = 5.0
ONE_BEAT = (
    "an award waits for the beat that is under way, and for those taken in the same turn of 2 ms; where each takes as long as the award, "
    "the first alone comes to 1.28"
)
BURSTS = 4
"""Runs with beats for each seed: a second has a hundred awards, too few for a percentile."""
BEATS_BEGIN = 10.0
SEEDS, QUICK_SEEDS = (1, 2, 3, 4, 5), (1,)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the seeds."""
    parser.add_argument("--seeds", type=numbers, default=SEEDS, help="with commas between")


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Play both bursts by each policy."""
    seeds = QUICK_SEEDS if is_quick else SEEDS if chosen is None else chosen.seeds
    begin = QUICK_BEGIN if is_quick else BEGIN
    figures: dict[str, float] = {}
    for policy, name in (("llf", ""), ("fifo", "fifo_")):
        found = [_spike(policy, seed, begin) for seed in seeds]
        figures[f"{name}spike_p99_ratio"] = statistics.median(during / before for before, during in found)
        figures[f"{name}steady_p99_ms"] = 1e3 * statistics.median(before for before, _ in found)
        figures[f"{name}burst_p99_ms"] = 1e3 * statistics.median(during for _, during in found)
        figures[f"{name}beats_p99_ratio"] = _beats(policy, seeds, min(begin, BEATS_BEGIN))
    figures["unwindowed_beats_p99_ratio"] = _beats("llf", seeds, min(begin, BEATS_BEGIN), is_windowed=False)
    return Findings(
        figures,
        [
            at_most("spike_p99_ratio", figures["spike_p99_ratio"], 1.5, "a decision is never interrupted"),
            at_most("beats_p99_ratio", figures["beats_p99_ratio"], 1.2, ONE_BEAT),
            at_least(
                "fifo_spike_p99_ratio",
                figures["fifo_spike_p99_ratio"],
                10,
                "what the burst does without order",
            ),
        ],
    )


def _spike(policy: str, seed: int, begin: float) -> tuple[float, float]:
    """Return the p99 of chains that begin before the burst, and of those that begin in it, in seconds."""
    played = play(
        Play(LOAD, settings_of(policy), seed, begin + SPAN + AFTER, spike=(begin, SPAN, FACTOR), drain=120.0)
    )
    chains = list(zip(played.said_at, played.latencies, strict=True))
    before = [took for at, took in chains if at < begin]
    during = [took for at, took in chains if begin <= at < begin + SPAN]
    return quantile(before, 0.99), quantile(during, 0.99)


def _beats(policy: str, seeds: tuple[int, ...], begin: float, *, is_windowed: bool = True) -> float:
    """Return the p99 of awards after all beats over that of those before."""
    all_before: list[float] = []
    all_after: list[float] = []
    for seed in (*seeds, *(100 * further + seed for further in range(1, BURSTS) for seed in seeds)):
        before, after = play_beats(Beats(settings_of(policy), seed, begin, is_windowed))
        all_before += before
        all_after += after
    return quantile(all_after, 0.99) / quantile(all_before, 0.99)

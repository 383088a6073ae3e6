"""What becomes of calls on harvested workers that are evicted: `python -m bench evictions`.

H4 of spec/cameo-harvest.md. The shipped router, servers and device books in virtual time: ten harvested workers of 40 cores, each evicted
whole with a warning of 30 s, and one worker of 16 cores that is held. 100 functions whose calls are as long as Azure's: 4.1 % run for over
30 s, and have 82 % of the time. A call that is lost runs once more on harvested capacity, and then where functions hold some.

`success` is the part of calls that were done at their first try, at one eviction of a worker in 61.5 days, as published; and
`failures_per_million_R` counts the others at a rate of evictions R: once in 61.5 days, a day, 6 hours, an hour. A million calls keep ten
workers for 14 hours, in which a tenth of an eviction is to be expected: `success` is 1 or, with bad luck, some twenty millionths less.
`expected_failures_per_million` takes from all runs how many calls an eviction ends.

`estimate_over_observed` compares, at once an hour, the runs that were to be lost by the odds that the router had when it sent each, with
the runs that were lost. The region knows only its own recalls (core/rules/harvest/odds.py): those of `--experience` hours before the first
call, and those since. `estimate_given_over_observed` has the true rate in their place. Both are low in a short form, for the router learns a
run time when the run has ended, and calls run for up to an hour.

`counted_twice` is the largest of three counts: answers on the way to callers beyond the first of a call that was said once; runs that were
done of a call of which another was done before; and ends by the router's counts beyond the calls of their function. `lost_silently` is the
larger of two: calls without an answer, for six times the longest call after the last one came, and ends that the router's counts lack.
"""

# rows: H4, H-1, H-2, H-8, H-9

import argparse
import os
import sys
import time
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial, reduce
from multiprocessing import get_context
from pathlib import Path

from bench.support.choices import numbers
from bench.support.harvest.evicted import WORKERS, Ends, Evicted
from bench.support.report import Bar, Findings, Yardstick, at_least, at_most
from core.rules.harvest.odds import MILLION

CALLS, QUICK_CALLS = 1_000_000, 2_000
HOURLY = {"hour": 1.0, "61_5_days": 1 / (61.5 * 24), "day": 1 / 24, "6_hours": 1 / 6}
"""Evictions of one worker in an hour."""
PARTS = {"hour": 0.3, "61_5_days": 1.0, "day": 0.1, "6_hours": 0.1}
"""Of `--calls`."""
SHARDS = 4
"""Runs of the published rate, each with calls of its own."""
EXPERIENCE = 24
"""Hours. A region remembers no more."""
PUBLISHED, SUCCESS, ODDS = "61_5_days", 0.999_985, (0.5, 2.0)
LIMITED = "calls that are long are lost wherever their worker is evicted"


def options(parser: argparse.ArgumentParser) -> None:
    """Add seeds and the number of calls."""
    parser.add_argument("--seeds", type=numbers, default="1", help="whole numbers, joined by commas")
    parser.add_argument(
        "--calls",
        type=int,
        default=CALLS,
        help="at the published rate; a tenth of them at others, at the highest three tenths (default: %(default)s)",
    )
    parser.add_argument(
        "--experience",
        type=int,
        default=EXPERIENCE,
        help="hours for which the region has seen evictions before (default: %(default)s)",
    )


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Play all rates of evictions from each seed, and add the seeds up."""
    if chosen is None:
        parser = argparse.ArgumentParser()
        options(parser)
        chosen = parser.parse_args([])
    calls = QUICK_CALLS if is_quick else chosen.calls
    seeds = chosen.seeds[:1] if is_quick else chosen.seeds
    begun = time.perf_counter()
    found: dict[str, list[Ends]] = {}
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        jobs: list[tuple[str, Future[Ends]]] = []
        for name in HOURLY:
            shards = SHARDS if name == PUBLISHED else 1
            count = max(1, round(calls * PARTS[name] / shards))
            for seed in seeds:
                jobs += [
                    (name, pool.submit(played, name, seed, shard, count, chosen.experience))
                    for shard in range(shards)
                ]
        for name, job in jobs:
            found.setdefault(name, []).append(job.result())
    ends = {name: reduce(Ends.plus, many) for name, many in found.items()}
    return findings_of(ends, len(seeds), time.perf_counter() - begun)


def played(name: str, seed: int, shard: int, calls: int, experience: int) -> Ends:
    """Play one run."""
    told = partial(_tell, f"{name}, seed {seed}, part {shard}", calls)
    return Evicted(seed * SHARDS + shard, calls, HOURLY[name], told, experience).play()


def findings_of(ends: dict[str, Ends], seeds: int, seconds: float) -> Findings:
    """Return figures of each rate of evictions, and the bars."""
    figures: dict[str, float] = {}
    for name, one in ends.items():
        figures |= {
            f"failures_per_million_{name}": one.failures_per_million,
            f"calls_{name}": float(one.calls),
            f"evictions_{name}": float(one.evictions),
            f"lost_runs_{name}": float(one.lost_runs),
            f"expected_lost_runs_{name}": one.estimated,
            f"lost_core_hours_{name}": one.lost_seconds / 3_600,
            f"worker_hours_{name}": one.hours,
        }
    hourly, published = ends["hour"], ends[PUBLISHED]
    expected = expected_failures(ends)
    due = HOURLY[PUBLISHED] * WORKERS * published.hours
    first_try = published.failures_per_million
    figures |= {
        "evictions_expected_61_5_days": due,
        "first_try_failures_per_million": first_try,
        "estimate_given_over_observed": hourly.estimated_given / max(1, hourly.lost_runs),
        "seeds": float(seeds),
        "wall_seconds": seconds,
    }
    chance = f"{published.evictions} workers were evicted, {due:.2g} were to be expected: one ends more than 15 calls"
    bars = [
        at_least("success", 1 - first_try / MILLION, SUCCESS, chance),
        at_most("expected_failures_per_million", expected, 15, LIMITED),
        *_odds_bars(hourly),
        at_most("counted_twice", float(sum(one.twice for one in ends.values())), 0, "a count is wrong"),
        at_most("lost_silently", float(sum(one.silent for one in ends.values())), 0, "an end is not told"),
    ]
    known = [
        Yardstick(
            "published_success",
            SUCCESS,
            "SOSP'21: 99.9985 % in its worst period, on Azure's workers",
            "success",
        )
    ]
    return Findings({**figures, **{bar.name: bar.value for bar in bars}}, bars, known)


def expected_failures(ends: dict[str, Ends]) -> float:
    """Return how many of a million calls are to be expected to fail at their first try at the published rate.

    All runs tell how many calls an eviction ends in the mean; the run at the published rate tells for how long a million calls keep workers.
    """
    evictions = sum(one.evictions for one in ends.values())
    each = sum(one.retried_calls for one in ends.values()) / max(1, evictions)
    published = ends[PUBLISHED]
    per_call = HOURLY[PUBLISHED] * WORKERS * published.hours / max(1, published.calls)
    return MILLION * per_call * each


def _odds_bars(hourly: Ends) -> list[Bar]:
    """Return the bars of the router's odds: not below one bound, and not above the other."""
    if not hourly.lost_runs:
        return []
    ratio = hourly.estimated / hourly.lost_runs
    why = (
        "evictions are few, and each ends several calls: their number is chance; and a router has learned of no run that is longer than "
        "the time since the first call"
    )
    return [
        at_least("estimate_over_observed", ratio, ODDS[0], why),
        at_most("estimate_over_observed_most", ratio, ODDS[1], why),
    ]


def _tell(what: str, calls: int, ended: int) -> None:
    print(f"evictions: {what}: {ended:,} of {calls:,} calls ended", file=sys.stderr, flush=True)

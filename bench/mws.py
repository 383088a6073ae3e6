"""How many calls a second a region takes, by the way in which calls are routed: `python -m bench mws`.

H1 and H6 of spec/cameo-harvest.md. The shipped router and servers in virtual time: ten servers of 16 cores and 64 GiB, 200 functions with
Zipf rates, 3.8 core-seconds a call in the mean, 8 s to start an executor, idle executors kept for 10 minutes
(bench/support/functions/load.py has the rest). Every way has the same calls. Each run begins without executors; ten minutes later ten minutes
are measured. The capacity is the highest rate at which 99 of 100 calls have their answer within 50 s of being made, found by bisection.

    mws, jsq, hash     the policies of core/routing/; the last two send beyond the size of servers, as published
    mws_published      Min-Worker-Set as published, with the published estimate of rates

Ablations of `mws`, and others:

    rate_published     the published estimate of rates, close to one over the last gap between two calls
    own_twice          capacity that a function uses itself is not free for the function
    idle_not_first     an idle executor makes a server no better
    waits_off          no call waits in the router; each goes to the least loaded server if none has room
    keep_learned       idle executors are kept for as long as servers have learned
    jsq_waits          `jsq`, with the router's waiting room
    NAME_cold_2        `NAME` with 2 s to start an executor

`cold_share` is executors started for each call. `resizes` are changes of the size of a function's set in an hour.
"""

# rows: H1, H6, H-6, H-7

import argparse
import os
import statistics
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from bench.support.choices import numbers
from bench.support.functions.capacity import capacity_of
from bench.support.functions.load import CORE_SECONDS, CallLoad
from bench.support.functions.region import SERVERS, SIZE, Measured, Region, Setup, Spans
from bench.support.report import Findings, Yardstick, at_least, at_most
from core.nouns.function_limits import KEEP_ALIVE_MIN
from core.nouns.quantities import MILLI
from core.routing import POLICIES
from core.routing.jsq import JoinShortestQueue, JsqSettings
from core.routing.mws import MinWorkerSet, MwsSettings
from core.routing.rates import PublishedRates
from mizzen.views.plots import Curve, draw_lines, figure_option

FUNCTIONS = 200
RATES = (1.0, 5.0, 10.0, 14.0, 20.0)
"""Calls a second at which shares of cold starts are told."""
COMPARED = 10.0
"""The one of them at which all ways are compared."""
RATE_MAX = SERVERS * SIZE.cpu_milli / MILLI / CORE_SECONDS
"""Calls a second that keep every core busy."""


class Way(Struct, frozen=True):
    """One way to route calls."""

    setup: Setup
    cold_seconds: float = 8.0


class Effort(Struct, frozen=True):
    """How much is played."""

    spans: Spans
    steps: int
    """Of the bisection."""


FULL, QUICK = Effort(Spans(600, 600), 5), Effort(Spans(20, 20), 2)
MAIN = {name: Way(Setup(POLICIES[name])) for name in ("mws", "jsq", "hash")}
OTHERS = {
    "mws_published": Way(Setup(POLICIES["mws_published"], PublishedRates)),
    "rate_published": Way(Setup(MinWorkerSet(), PublishedRates)),
    "own_twice": Way(Setup(MinWorkerSet(MwsSettings(counts_own_once=False)))),
    "idle_not_first": Way(Setup(MinWorkerSet(MwsSettings(takes_idle_first=False)))),
    "waits_off": Way(Setup(MinWorkerSet(MwsSettings(waits=False)))),
    "keep_learned": Way(Setup(MinWorkerSet(), keep_alive_min=KEEP_ALIVE_MIN)),
    "jsq_waits": Way(Setup(JoinShortestQueue(JsqSettings(waits=True)))),
    **{f"{name}_cold_2": replace(way, cold_seconds=2.0) for name, way in MAIN.items()},
}
CURVES = (*MAIN, "mws_published")
"""Ways of which the shares of cold starts are told at all rates."""


class Tried(Struct, frozen=True):
    """What was found of one way from one seed."""

    capacity: float
    """Calls a second."""
    colds: dict[float, float]
    """Shares of cold starts, by rate; without those of runs that were given up."""
    resizes_per_hour: float
    """At `COMPARED`."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add seeds, variants and the length of the bisection."""
    parser.add_argument("--seeds", type=numbers, default="1,2", help="whole numbers, joined by commas")
    parser.add_argument(
        "--variants", default="", help="only these, joined by commas, beside mws, jsq and hash; default: all"
    )
    parser.add_argument(
        "--steps", type=int, default=FULL.steps, help="of the bisection (default: %(default)s)"
    )
    figure_option(parser, "shares of cold starts by rate")


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Find the capacity of each way from each seed, and the shares of cold starts."""
    if chosen is None:
        parser = argparse.ArgumentParser()
        options(parser)
        chosen = parser.parse_args([])
    effort = QUICK if is_quick else replace(FULL, steps=chosen.steps)
    seeds = chosen.seeds[:1] if is_quick else chosen.seeds
    named = [name for name in chosen.variants.split(",") if name]
    ways = MAIN if is_quick else MAIN | OTHERS
    ways = {name: way for name, way in ways.items() if not named or name in MAIN or name in named}
    begun = time.perf_counter()
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        jobs = {(name, seed): pool.submit(tried, name, seed, effort) for name in ways for seed in seeds}
        found = {name: [_told(name, seed, jobs[name, seed].result()) for seed in seeds] for name in ways}
        halves = {
            name: [
                pool.submit(played, MAIN[name], seed, max(1.0, mws.capacity / 2), effort.spans)
                for seed, mws in zip(seeds, found["mws"], strict=True)
            ]
            for name in ("mws", "jsq")
        }
        at_half = {name: _mean(one.result().cold_share for one in many) for name, many in halves.items()}
    if chosen.figure:
        chosen.figure.write_text(figure_of(found), encoding="utf-8")
    return findings_of(found, at_half, time.perf_counter() - begun)


def tried(name: str, seed: int, effort: Effort) -> Tried:
    """Find the capacity of one way, and the shares of cold starts."""
    way = (MAIN | OTHERS)[name]
    within = capacity_of(lambda rate: played(way, seed, rate, effort.spans), RATE_MAX, effort.steps)
    runs = {
        rate: played(way, seed, rate, effort.spans)
        for rate in (RATES if name in CURVES else (COMPARED,))
        if rate <= within or rate == COMPARED
    }
    colds = {rate: one.cold_share for rate, one in runs.items() if not one.is_given_up}
    hours = effort.spans.measured / 3_600
    return Tried(within, colds, runs[COMPARED].resizes / hours)


def played(way: Way, seed: int, rate: float, spans: Spans) -> Measured:
    """Play one run."""
    return Region(way.setup, CallLoad(seed, FUNCTIONS, way.cold_seconds), rate, spans).play()


def findings_of(found: dict[str, list[Tried]], at_half: dict[str, float], seconds: float) -> Findings:
    """Return means over the seeds, and the bars."""
    capacities = {name: _mean(one.capacity for one in many) for name, many in found.items()}
    figures = {f"capacity_{name}": capacity for name, capacity in capacities.items()}
    for name, many in found.items():
        for rate, cold in _colds(many):
            figures[f"cold_at_{rate:g}_{name}"] = cold
        figures[f"resizes_{name}"] = _mean(one.resizes_per_hour for one in many)
    figures |= {f"cold_at_half_{name}": cold for name, cold in at_half.items()}
    mws = [one.capacity for one in found["mws"]]
    figures |= {
        "capacity_mws_least_of_seeds": min(mws),
        "seeds": float(len(mws)),
        "wall_seconds": seconds,
    }
    least = RATE_MAX / 2 ** (FULL.steps + 1)
    bars = [
        at_least(
            f"capacity_over_{other}",
            capacities["mws"] / max(least, capacities[other]),
            bound,
            f"servers queue and keep warm what `{other}` sends them, so `{other}` is better than published",
        )
        for other, bound in (("jsq", 1.5), ("hash", 2.0))
    ]
    bars.append(
        at_most(
            "cold_over_jsq_at_half",
            at_half["mws"] / max(1e-6, at_half["jsq"]),
            0.2,
            "functions that are seldom called are cold wherever their calls go",
        )
    )
    known = [one for one in YARDSTICKS if one.beside in figures]
    return Findings({**figures, **{bar.name: bar.value for bar in bars}}, bars, known)


def _told(name: str, seed: int, one: Tried) -> Tried:
    """Say how far it is, and return what was found."""
    print(f"mws: {name}, seed {seed}: {one.capacity:.1f} calls a second", file=sys.stderr, flush=True)
    return one


def _colds(many: list[Tried]) -> list[tuple[float, float]]:
    """Return mean shares of cold starts by rate, where all seeds have one."""
    rates = sorted(set.intersection(*(set(one.colds) for one in many)))
    return [(rate, _mean(one.colds[rate] for one in many)) for rate in rates]


def _mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)


PAPER = "SOSP'21, figures 12 and 13: real servers, ten of 16 cores, functions of another load"
MODEL = "a model of the same load, made before the policies were built"
YARDSTICKS = [
    Yardstick("published_capacity_mws", 24, PAPER, "capacity_mws_published"),
    Yardstick("published_capacity_jsq", 14.8, PAPER, "capacity_jsq"),
    Yardstick("published_capacity_hash", 2.2, PAPER, "capacity_hash"),
    Yardstick("published_cold_at_10_mws", 0.08, PAPER, "cold_at_10_mws_published"),
    Yardstick("published_cold_at_10_jsq", 0.29, PAPER, "cold_at_10_jsq"),
    Yardstick("published_cold_at_1_jsq", 0.77, PAPER, "cold_at_1_jsq"),
    Yardstick("model_cold_at_10_mws", 0.02, MODEL, "cold_at_10_mws"),
    Yardstick("model_cold_at_10_jsq", 0.30, MODEL, "cold_at_10_jsq"),
    Yardstick("model_cold_at_10_mws_published", 0.13, f"{MODEL}: 0.10 to 0.16", "cold_at_10_mws_published"),
    Yardstick("model_capacity_mws", 22, f"{MODEL}: over 22", "capacity_mws"),
    Yardstick("model_capacity_jsq", 13.5, f"{MODEL}: 13 to 14", "capacity_jsq"),
    Yardstick("model_capacity_mws_published", 13.5, f"{MODEL}: 13 to 14", "capacity_mws_published"),
]


def figure_of(found: dict[str, list[Tried]]) -> str:
    """Return the shares of cold starts by rate, over all seeds."""
    curves = [Curve(name, _colds(found[name])) for name in CURVES if name in found]
    return draw_lines(
        "Executors started for each call", "calls a second", "share", [one for one in curves if one.points]
    )

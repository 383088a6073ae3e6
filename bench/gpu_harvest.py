"""How much of the time in which pods leave their GPUs idle functions use: `python -m bench gpu_harvest`.

H5 of spec/cameo-harvest.md. The shipped router, servers and device books in virtual time, on the duty cycles of 143 inference pods with a GPU
each. A pod lends its GPU after one idle sample (57 s), and wants it back at the first busy one, with a grace of 30 s. Four functions whose
weights take 22.7 s to load onto a device have more calls open than there are devices; calls run for 23 s in the median.

`share_P` is the device-seconds of calls that were done, as far as their pod was idle, of those that one gets who knows each idle run and pays
one load in it, with the router's policy P: `mws`, `jsq`, a usable server at `random`, or `any` device that is free, the first one found; `hash`
is another. `grace_share_P` is what the same calls did after their pod was busy again, and is no part of that. `rule_share` is what the rule
itself leaves: it waits for a sample.
`reclaim_p99_over_grace` is the time from when a pod wants its GPU until the pod has it. `primary_delay_outside_reclaim_ms` is the time in which
an executor was on a device that its pod had.

The day is played in `--windows` of `--hours`, at equal distances. Without the trace, cycles with the same idle times are drawn (`is_drawn`).
"""

# rows: H5, H-1, H-10

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial, reduce
from multiprocessing import get_context
from pathlib import Path

from bench.support.choices import numbers, words
from bench.support.harvest.finders import AnyIdle, AtRandom
from bench.support.harvest.lending import Lending, Lent
from bench.support.harvest.machines import GRACE
from bench.support.percentiles import percentile
from bench.support.report import Findings, Yardstick, at_least, at_most
from core.nouns.instant import SECOND
from core.routing import POLICIES
from core.routing.policy import RoutingPolicy
from scenarios.duty_cycles import HOURS, PODS, Cycle, cycles_or_drawn

MAIN = "mws"
WAYS: dict[str, RoutingPolicy] = {
    **{name: POLICIES[name] for name in (MAIN, "jsq", "hash")},
    **{one.name: one for one in (AtRandom(), AnyIdle())},
}
COMPARED = (MAIN, "jsq", "random", "any")
WINDOWS = 6
QUICK_PODS, QUICK_HOURS = 12, 0.2


def options(parser: argparse.ArgumentParser) -> None:
    """Add seeds, the file, and how much of the day is played."""
    parser.add_argument("--seeds", type=numbers, default="1", help="whole numbers, joined by commas")
    parser.add_argument("--set", type=Path, help="a file of duty cycles in the form of the trace")
    parser.add_argument(
        "--policies",
        type=words,
        default=",".join(COMPARED),
        help=f"of {', '.join(WAYS)}; joined by commas (default: %(default)s)",
    )
    parser.add_argument("--pods", type=int, default=PODS, help="the first ones (default: all)")
    parser.add_argument(
        "--windows", type=int, default=WINDOWS, help="parts of the day (default: %(default)s)"
    )
    parser.add_argument(
        "--hours", type=float, default=HOURS / WINDOWS, help="of each window (default: the whole day)"
    )


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Play all windows with each policy from each seed, and add them up."""
    if chosen is None:
        parser = argparse.ArgumentParser()
        options(parser)
        chosen = parser.parse_args([])
    seeds = chosen.seeds[:1] if is_quick else chosen.seeds
    pods, hours, windows = chosen.pods, chosen.hours, chosen.windows
    if is_quick:
        pods, hours, windows = QUICK_PODS, QUICK_HOURS, 1
    begun = time.perf_counter()
    cycles, is_drawn = cycles_or_drawn(chosen.set, seeds[0])
    names = [MAIN, *(name for name in chosen.policies if name != MAIN)]
    found: dict[str, list[Lent]] = {}
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        jobs = [
            (name, pool.submit(played, name, cycles[:pods], HOURS * window / windows, hours, seed))
            for name in names
            for seed in seeds
            for window in range(windows)
        ]
        for name, job in jobs:
            found.setdefault(name, []).append(job.result())
    lent = {name: reduce(Lent.plus, many) for name, many in found.items()}
    return findings_of(lent, is_drawn, len(seeds), time.perf_counter() - begun)


def played(name: str, cycles: Sequence[Cycle], begin: float, hours: float, seed: int) -> Lent:
    """Play one window from an hour on."""
    told = partial(_tell, f"{name}, seed {seed}, from hour {begin:.1f}", hours)
    return Lending(WAYS[name], cycles, 3_600 * begin, 3_600 * (begin + hours), seed, told).play()


def findings_of(lent: dict[str, Lent], is_drawn: bool, seeds: int, seconds: float) -> Findings:
    """Return figures of each policy, and the bars of `mws`."""
    figures: dict[str, float] = {}
    for name, one in lent.items():
        best = max(1.0, one.best)
        figures |= {
            f"share_{name}": one.useful / best,
            f"grace_share_{name}": one.in_grace / best,
            f"useful_of_lent_{name}": one.useful / max(1.0, one.lent),
            f"lost_share_{name}": one.lost / best,
            f"loads_per_lend_{name}": one.starts / max(1, one.lends),
            f"calls_{name}": float(one.done),
            f"lost_calls_{name}": float(one.lost_calls),
            f"reclaim_p50_seconds_{name}": percentile(one.reclaims or [0.0], 50),
            f"reclaim_p99_seconds_{name}": percentile(one.reclaims or [0.0], 99),
            f"delay_outside_reclaim_ms_{name}": one.delay_ms,
        }
    main = lent[MAIN]
    figures |= {
        "rule_share": main.by_rule / max(1.0, main.best),
        "best_device_hours": main.best / 3_600,
        "reclaims": float(len(main.reclaims)),
        "is_drawn": float(is_drawn),
        "seeds": float(seeds),
        "wall_seconds": seconds,
    }
    grace = GRACE / SECOND
    bars = [
        at_least(
            "share_of_clairvoyant",
            figures[f"share_{MAIN}"],
            0.75,
            f"the rule that waits one sample leaves {figures['rule_share']:.2f}, and lost calls and loads take of that",
        ),
        at_most(
            "reclaim_p99_over_grace",
            max(figures[f"reclaim_p99_seconds_{name}"] for name in lent) / grace,
            1,
            "executors are ended too late",
        ),
        at_most(
            "primary_delay_outside_reclaim_ms",
            max(one.delay_ms for one in lent.values()),
            0,
            "an executor was on a device that its pod had",
        ),
    ]
    known = [
        Yardstick("rule_of_one_sample", 0.87, "computed from the trace, without a router", "rule_share"),
        Yardstick("wanted_share", 0.6, "spec/cameo-harvest.md 2.5", "share_of_clairvoyant"),
    ]
    return Findings({**figures, **{bar.name: bar.value for bar in bars}}, bars, known)


def _tell(what: str, hours: float, hour: float) -> None:
    print(f"gpu_harvest: {what}: {hour:.0f} of {hours:.1f} hours played", file=sys.stderr, flush=True)

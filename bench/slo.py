"""Whom bursts of urgent work make late: exhaustive search against a federation that binds early, over the same eight hours.

Six regions of three GPU types and two agents each under the published load, of which nine tenths are entitled to somebody; a third of the
work reads data that lies in two regions only (bench/support/planet/planet.py `MIXED_TYPES`, `READS_SHARE`). Beside it four tenants, with a quarter of the planet
that lies idle or is lent to others between their bursts, submit urgent work in bursts of a fifth of the planet each. GPUs fail; no
power does: of so few GPU-hours not a twentieth of an outage is to be expected, and one takes a whole region of this size. Both are
played by the same queue, stores and agents; the federation's work is bound, when it is submitted, to the region with the least demand
over supply (docs/decisions/0033-designs-that-are-compared.md). Figures are folded from the logs alone (core/figures/plane.py).

slo_violations              of waits that began within quota, those within it for more than ten minutes before they ran (the specification's
                            guess at an SLO that the paper does not state); `slo_high_*`: of levels 4 to 6 alone
federated_violations        the same of the federation
federated_over_exhaustive   the one over the other; of none over nothing, as if one wait more had been late
"""

# rows: E3

import argparse
import statistics
from collections.abc import Mapping
from pathlib import Path

from bench.support.planet.data import reading
from bench.support.planet.planet import (
    READS_SHARE,
    Size,
    errors_of,
    fleet_of,
    gpus_in,
    load_of,
    play,
    seeds_of,
    seeds_option,
    sized,
    tenants_of,
)
from bench.support.report import Findings, at_least, at_most
from mizzen.views.plots import Curve, draw_curves, figure_option
from scenarios.scenario import ScenarioSpec
from scenarios.variant import Variant
from scenarios.variants.exhaustive import Exhaustive
from scenarios.variants.federated import Federated
from scenarios.variants.regional_queues import RegionalQueues
from scenarios.workloads.mast import Mast

FULL = Size(hours=8.0, gpus=600, load=1.2, warm_hours=1.0, is_mixed=True)
QUICK = Size(hours=0.3, gpus=32, load=1.2, warm_hours=0.05, gpus_max=16, is_mixed=True)
SEEDS = (1, 2, 3)
BASE_ENTITLED, BURST_ENTITLED = 0.65, 0.25
"""Of the planet, what the tenants of each sort are entitled to together."""
BURST_TENANTS = tuple(f"burst-{number}" for number in range(4))
BURSTS = 8
BURST_SHARE = 0.2
"""Of the planet's GPUs, what one burst asks for."""
BURST_LEVEL = 5
GPUS_MEAN = 29.0
"""Of a workload with GPUs, as the load draws them."""


VARIANTS: dict[str, Variant] = {
    "exhaustive": Exhaustive(),
    "federated": Federated(),
    "regional_queues": RegionalQueues(),
}
KEPT = (
    "slo_violations",
    "slo_violations_5",
    "slo_violations_20",
    "slo_violations_worst_hour",
    "slo_waits",
    "slo_high_violations",
    "slo_high_violations_worst_hour",
    "slo_high_waits",
    "within_quota_p95_minutes",
    "allocation_mean",
    "cpu_seconds",
)
"""Of a run's figures, those that are told of each design."""


LATE_AFTER = {5: "slo_violations_5", 10: "slo_violations", 20: "slo_violations_20"}
"""By minutes, the share of waits that were longer."""


def options(parser: argparse.ArgumentParser) -> None:
    """Which seeds, and where they are drawn."""
    seeds_option(parser, SEEDS)
    figure_option(parser)


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Each design, over some seeds; means over them, and the worst of ours."""
    size = QUICK if is_quick else sized(FULL, chosen)
    seeds = SEEDS[:1] if is_quick else seeds_of(chosen, SEEDS)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in VARIANTS}
    for seed in seeds:
        for name, variant in VARIANTS.items():
            found[name].append(play(spec_of(size, seed, variant), seed, size.warm_hours).figures)
    figures = {"seeds": float(len(seeds))}
    for name, runs in found.items():
        for figure in KEPT:
            figures[f"{figure}_{name}"] = statistics.fmean(one.get(figure, 0.0) for one in runs)
    ours, theirs = (figures[f"slo_violations_{name}"] for name in ("exhaustive", "federated"))
    least = 1 / max(1.0, figures["slo_waits_exhaustive"] * len(seeds))
    figures["slo_violations_worst_seed"] = max(one["slo_violations"] for one in found["exhaustive"])
    figures["federated_violations"] = theirs
    figures["federated_over_exhaustive"] = theirs / max(ours, least)
    if chosen is not None and chosen.figure:
        chosen.figure.write_text(figure_of(figures), encoding="utf-8")
    limit = "the federation's bursts found room where they were bound"
    return Findings(
        figures,
        [
            at_most("slo_violations", ours, 0.010, "urgent gangs wait for those who leave for them"),
            at_least("federated_over_exhaustive", figures["federated_over_exhaustive"], 10, limit),
            at_least("federated_violations", theirs, 0.05, limit),
        ],
    )


def figure_of(figures: Mapping[str, float]) -> str:
    """Of each design, how many were late, by what is called late."""
    curves = [
        Curve(name, [(float(after), figures[f"{figure}_{name}"]) for after, figure in LATE_AFTER.items()])
        for name in VARIANTS
    ]
    curves.append(Curve("0.010", [(5.0, 0.01), (20.0, 0.01)]))
    return draw_curves("Waits within quota that were longer", "wait (minutes)", "share (of 1)", curves)


def spec_of(size: Size, seed: int, variant: Variant) -> ScenarioSpec:
    """The eight hours."""
    fleet = fleet_of(size)
    base = load_of(size, fleet, seed, Mast(workloads=1, hours=1, standing=1.0))
    count = round(BURSTS * BURST_SHARE * gpus_in(fleet) / GPUS_MEAN)
    bursts = Mast(
        workloads=max(BURSTS, count),
        hours=base.hours,
        gpus_max=size.gpus_max,
        priority=BURST_LEVEL,
        tenants=dict.fromkeys(BURST_TENANTS, 1.0),
        cpu_share=0.0,
        recurring_share=0.0,
        bursts=BURSTS,
    )
    if size.is_mixed:
        bursts = reading(bursts, fleet, READS_SHARE)
    return ScenarioSpec(
        name="bench_slo",
        survives="Bursts of urgent work on a full planet.",
        fleet=fleet,
        workload=(base, bursts),
        faults=(errors_of(fleet, base.hours),),
        tenants=tenants_of(fleet, BASE_ENTITLED) | tenants_of(fleet, BURST_ENTITLED, BURST_TENANTS),
        variant=variant,
    )

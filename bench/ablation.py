"""Five designs of schedulers on the same load: how much late binding and a wide search are each worth.

The designs of MAST's table 1, by their numbers there, played by the same queue, stores and agents
(docs/decisions/0033-designs-that-are-compared.md):

    6  global queue, regional allocation (ours)      3  global queue, cluster allocation
    5  regional queues, regional allocation          2  regional queues, cluster allocation
    1  cluster queues

A small planet in clusters of 13 to 16 nodes (one region is smaller than that, a cluster of 3), where no workload wants more than 8, under
1.2 times as much work as there is room for and bursts of urgent work. Designs are ordered by `slo_violations`, the share of waits within
quota that took more than ten minutes, and designs which that cannot tell apart by `allocation_mean`: over all seeds, each design
against each. Shares are told apart by two standard errors of their difference. Useful work and waits are told beside it.

The order by two measures is reported and no bar: the second measure was chosen after the first had shown how little two designs differ.

order_by_two_measures        1, if each design is better than each that the paper has behind it, by this comparison
order_by_violations_alone    the same by `slo_violations` alone, order_by_allocation_alone by `allocation_mean` alone
design_N_place               by two measures, from 1

Two that are beside are no designs of the table. `on_demand_data`: all is as in 6, but work runs where its tenant's data was made.
`papers_preemption`: all is as in 6, but bids are scored and victims ordered by the paper's rules (docs/decisions/0032).
"""

# rows: E16

import argparse
import math
import statistics
from collections.abc import Mapping
from functools import cmp_to_key
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from bench.slo import spec_of
from bench.support.planet.planet import Size, play, seeds_of, seeds_option, sized
from bench.support.report import Findings
from core.nouns.preemption import BidScore, VictimOrder
from mizzen.views.plots import draw_bars, figure_option
from scenarios.schema.preemption import PreemptionSpec
from scenarios.variant import Variant
from scenarios.variants.cluster_queues import ClusterQueues
from scenarios.variants.exhaustive import Exhaustive
from scenarios.variants.global_queue_over_clusters import GlobalQueueOverClusters
from scenarios.variants.on_demand_data import OnDemandData
from scenarios.variants.regional_queues import RegionalQueues
from scenarios.variants.regional_queues_over_clusters import RegionalQueuesOverClusters

CLUSTER_NODES = 16
FULL = Size(hours=8.0, gpus=512, load=1.2, warm_hours=1.0, gpus_max=64)
QUICK = Size(hours=0.15, gpus=32, load=1.2, warm_hours=0.05, gpus_max=16)
SEEDS = (1, 2, 3)
DESIGNS: dict[str, Variant] = {
    "6": Exhaustive(),
    "3": GlobalQueueOverClusters(cluster_nodes=CLUSTER_NODES),
    "5": RegionalQueues(),
    "2": RegionalQueuesOverClusters(cluster_nodes=CLUSTER_NODES),
    "1": ClusterQueues(cluster_nodes=CLUSTER_NODES),
}
"""In the published order, best first."""
BESIDE: dict[str, Variant] = {"on_demand_data": OnDemandData(), "papers_preemption": Exhaustive()}
PAPERS = PreemptionSpec(order=VictimOrder.PAPER, score=BidScore.PAPER)
"""Longest run first, and one figure a job, summed over them."""
KEPT = (
    "slo_violations",
    "slo_waits",
    "slo_high_violations",
    "allocation_mean",
    "useful_rate",
    "within_quota_p95_minutes",
    "over_quota_mean_minutes",
    "lost_share",
    "preemptions",
)

OUTCOME = ("slo_violations", "slo_waits", "allocation_mean")
ERRORS_APART = 2
"""Standard errors by which two shares are told apart. Waits of one burst are not independent, so that true errors are larger."""


def options(parser: argparse.ArgumentParser) -> None:
    """Which seeds, and where they are drawn."""
    seeds_option(parser, SEEDS)
    figure_option(parser)


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Each design, over some seeds."""
    size = QUICK if is_quick else sized(FULL, chosen)
    seeds = SEEDS[:1] if is_quick else seeds_of(chosen, SEEDS)
    figures = {"seeds": float(len(seeds))}
    for name, variant in (DESIGNS | BESIDE).items():
        rules = PAPERS if name == "papers_preemption" else None
        specs = [(seed, replace(spec_of(size, seed, variant), preemption=rules)) for seed in seeds]
        runs = [play(spec, seed, size.warm_hours).figures for seed, spec in specs]
        for figure in KEPT:
            label = f"design_{name}" if name in DESIGNS else name
            figures[f"{label}_{figure}"] = statistics.fmean(one.get(figure, 0.0) for one in runs)

    outcomes = {
        name: Outcome(*(figures[f"design_{name}_{figure}"] for figure in OUTCOME)) for name in DESIGNS
    }
    figures |= order_figures(outcomes, len(seeds))
    if chosen is not None and chosen.figure:
        chosen.figure.write_text(figure_of(figures), encoding="utf-8")
    return Findings(figures)


def order_figures(outcomes: Mapping[str, "Outcome"], seeds: int) -> dict[str, float]:
    """Return whether the designs come in the order in which they are given, by two measures and by each alone, and their places."""
    pairs = [(outcomes[one], outcomes[other]) for one, other in combinations(outcomes, 2)]

    def compared(one: str, other: str) -> int:
        return -1 if outcomes[one].is_better(outcomes[other], seeds) else 1

    places = enumerate(sorted(outcomes, key=cmp_to_key(compared)), 1)
    return {
        "order_by_two_measures": float(all(one.is_better(other, seeds) for one, other in pairs)),
        "order_by_violations_alone": float(all(one.violations < other.violations for one, other in pairs)),
        "order_by_allocation_alone": float(all(one.allocation > other.allocation for one, other in pairs)),
        **{f"design_{name}_place": float(place) for place, name in places},
    }


def figure_of(figures: Mapping[str, float]) -> str:
    """Of each design, how many were late and how much was not given out."""
    late = [figures[f"design_{name}_slo_violations"] for name in DESIGNS]
    idle = [1 - figures[f"design_{name}_allocation_mean"] for name in DESIGNS]
    bars = {"of waits within quota, late by more than 10 minutes": late, "of GPU-hours, not given out": idle}
    return draw_bars(
        "What each design costs", "design (number in MAST's table 1)", "share (of 1)", tuple(DESIGNS), bars
    )


class Outcome(NamedTuple):
    """By what a design is compared: means over the seeds."""

    violations: float
    waits: float
    allocation: float

    def is_better(self, other: "Outcome", seeds: int = 1) -> bool:
        """Fewer are late; or, where that may be chance, more is given out."""
        counts = [max(1.0, seeds * one.waits) for one in (self, other)]
        late = sum(count * one.violations for count, one in zip(counts, (self, other), strict=True))
        share = late / sum(counts)
        error = math.sqrt(share * (1 - share) * sum(1 / count for count in counts))
        if abs(self.violations - other.violations) > ERRORS_APART * error:
            return self.violations < other.violations
        return self.allocation > other.allocation

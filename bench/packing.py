"""How full a cluster gets: lists of the openb trace, one pod after the other, on one agent and one store.

The published protocol: the pods of a list are shuffled, and then drawn again until they want 1.3 times the GPUs that there
are; each is offered once, in turn; nobody leaves; who finds no place is dropped and still counts as arrived. The figure is
`allocated_percent_at_100`: what is placed, in percent of all GPUs, as a mean over all pods at which what has arrived rounds to 100 %.

    python -m bench packing --nodes FILE --pods FILE… --rules bestfit|fgd|default --ties name|random --seeds 42..51

Without files it takes every list of the trace that is there, and where there is no trace, a small cluster that is drawn.

source    spec/traces.md §2 (Weng et al., "Beware of Fragmentation", USENIX ATC 2023, and the results of its simulator)
"""

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path

from bench.support.packing.openb import FOLDER, NODES_FILE, lists_in, name_of, published_in
from bench.support.packing.page import figure_of, kept_in
from bench.support.packing.run import AT, RULES, TIES, UPTO_MAX, Order, Packed, packed_all, seeds_of
from bench.support.packing.small import small_lists
from bench.support.report import Bar, Findings, Yardstick, at_least, at_most, within
from mizzen.views.plots import figure_option

SEEDS = "42..51"
"""As published."""
QUICK_SEEDS = "42"
DRAWN = "default"
"""The list whose curves are drawn."""
CLOSE_TO_PUBLISHED = 0.5
"""Points."""
NOT_REPRODUCED = (
    "cpu250 alone: nobody who took the protocol up came to the published figure there; why is not known"
)
DEMAND = "the demand learned so far, and prices that are solved off the decision path"


def options(parser: argparse.ArgumentParser) -> None:
    """What to offer, to whom, and what to keep of it."""
    parser.add_argument("--nodes", type=Path, help="a list of nodes")
    parser.add_argument("--pods", type=Path, nargs="+", help="lists of pods")
    parser.add_argument(
        "--data", type=Path, default=FOLDER, help="a folder with the trace (default: %(default)s)"
    )
    parser.add_argument("--rules", nargs="+", choices=[*RULES], default=[*RULES], help="default: all of them")
    parser.add_argument("--ties", choices=TIES, help="default: as the rule set has it")
    parser.add_argument("--seeds", help=f"as 42..51 or 42,44 (default: {SEEDS})")
    parser.add_argument("--processes", type=int, default=2, help="at a time (default: %(default)s)")
    parser.add_argument(
        "--keep", type=Path, help="a file of runs: what is in it is not run again, what is run is put into it"
    )
    figure_option(parser, f"the list {DRAWN}, on to 130 %% arrived,")


def run(directory: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """All lists, all rules, all seeds."""
    if chosen is None:
        parser = argparse.ArgumentParser()
        options(parser)
        chosen = parser.parse_args([])
    nodes, lists = _files(directory, chosen, is_quick=is_quick)
    seeds = seeds_of(chosen.seeds or (QUICK_SEEDS if is_quick else SEEDS))
    if chosen.figure and DRAWN not in map(name_of, lists):
        raise SystemExit(f"--figure draws the list {DRAWN}, which is not among those that are offered")
    upto = {path: UPTO_MAX if chosen.figure and name_of(path) == DRAWN else AT for path in lists}
    orders = [
        (path, Order(rules, chosen.ties or "", seed, upto[path]))
        for path in lists
        for rules in chosen.rules
        for seed in seeds
    ]
    done = kept_in(chosen.keep) if chosen.keep else []
    runs = packed_all(nodes, orders, done, 1 if is_quick else chosen.processes, chosen.keep)
    published = published_in(nodes.parent)
    if chosen.figure:
        curves = figure_of([one for one in runs if one.list == DRAWN], nodes.parent)
        chosen.figure.write_text(curves, encoding="utf-8")
    return findings_of(runs, published, is_named=chosen.pods is not None)


def _files(directory: Path, chosen: argparse.Namespace, *, is_quick: bool) -> tuple[Path, list[Path]]:
    """The list of nodes, and those of pods."""
    if chosen.nodes and chosen.pods:
        return chosen.nodes, chosen.pods
    if chosen.nodes or chosen.pods:
        raise SystemExit("say both --nodes and --pods, or neither")
    lists = lists_in(chosen.data)
    if is_quick or not lists:
        return small_lists(directory)
    return chosen.data / NODES_FILE, lists


def findings_of(
    runs: Sequence[Packed], published: dict[tuple[str, str], list[float]], *, is_named: bool
) -> Findings:
    """Means over seeds, by rules and list, and what is to be said of them.

    published   by list and policy: percent allocated at 100, by seed
    is_named    whether the lists were named: the figure then has the name that is asked for
    """
    by_name: dict[tuple[str, str], list[Packed]] = {}
    for one in runs:
        by_name.setdefault((one.rules, one.list), []).append(one)
    figures: dict[str, float] = {}
    means = {key: statistics.fmean(one.at_100 for one in of) for key, of in by_name.items()}
    for (rules, name), mean in means.items():
        figures[f"{rules}_{name}"] = mean
        if is_named:
            suffix = "" if len(means) == 1 else f"_{rules}_{name}"
            figures[f"allocated_percent_at_100{suffix}"] = mean
        if len(by_name[rules, name]) > 1:
            figures[f"{rules}_{name}_sd"] = statistics.stdev(one.at_100 for one in by_name[rules, name])
    for rules in dict.fromkeys(rules for rules, _ in by_name):
        mine = [one for one in runs if one.rules == rules]
        figures[f"{rules}_cpu_pods_dropped_percent_max"] = max(
            100 * sum(one.cpu_pods_dropped for one in of) / max(1, sum(one.cpu_pods for one in of))
            for (of_rules, _), of in by_name.items()
            if of_rules == rules
        )
        figures[f"{rules}_decision_p50_us"] = statistics.median(one.decision_p50_us for one in mine)
        figures[f"{rules}_decision_p99_us"] = statistics.median(one.decision_p99_us for one in mine)
    figures["decision_p50_us"] = max(
        value for name, value in figures.items() if name.endswith("_decision_p50_us")
    )
    before = {key: statistics.fmean(values) for key, values in published.items()}
    bars = _bars(figures, means, before)
    yardsticks = [
        Yardstick(f"{policy}_{name}", mean, "published: the simulator's own result files, mean of 10 seeds")
        for (name, policy), mean in before.items()
        if (policy, name) in means
    ]
    return Findings(figures, bars, yardsticks)


def _bars(
    figures: dict[str, float], means: dict[tuple[str, str], float], published: dict[tuple[str, str], float]
) -> list[Bar]:
    """Those that can be judged by what was run, and by what is known of others: some of them of all lists alone."""
    bars: list[Bar] = []
    for rules, tolerance in (("bestfit", 0.6), ("fgd", CLOSE_TO_PUBLISHED)):
        mean, theirs = means.get((rules, "default")), published.get(("default", rules))
        if mean is not None and theirs is not None:
            bars.append(
                within(f"{rules}_default", mean, theirs, tolerance, "other shuffles than the published ones")
            )
    fgd = {name: mean for (name, policy), mean in published.items() if policy == "fgd"}
    both = [name for name in fgd if ("fgd", name) in means]
    if both and len(both) == len(fgd):
        figures["fgd_lists_within_half_a_point"] = close = sum(
            abs(means["fgd", name] - fgd[name]) <= CLOSE_TO_PUBLISHED for name in both
        )
        bars.append(at_least("fgd_lists_within_half_a_point", close, len(both) - 1, NOT_REPRODUCED))
    gains = {name: means["default", name] - fgd[name] for name in fgd if ("default", name) in means}
    if gains:
        figures["mean_gain_over_published_fgd"] = statistics.fmean(gains.values())
        figures["worst_list_gain"] = min(gains.values())
    if gains and len(gains) == len(fgd):
        bars += [
            at_least("mean_gain_over_published_fgd", figures["mean_gain_over_published_fgd"], 1.2, DEMAND),
            at_least("worst_list_gain", figures["worst_list_gain"], 0.1, DEMAND),
        ]
    dropped = figures.get("default_cpu_pods_dropped_percent_max")
    if dropped is not None:
        bars.append(
            at_most(
                "default_cpu_pods_dropped_percent_max", dropped, 5, "room is kept for tasks that need GPUs"
            )
        )
    bars.append(
        at_most("decision_p50_us", figures["decision_p50_us"], 1_000, "numpy calls on the rows that changed")
    )
    return bars

"""How much sooner urgent messages are decided beside bulk: least laxity first against first in, first out, on chains of four hosts.

Each host decides 100 urgent messages a second of 1 ms, which come along the chain, and bulk of 10 ms of its own, exponentially
distributed; the load is that of each host. In virtual time all seeds and loads are played; live, the hosts are four processes over NATS,
whose decisions sleep.

    p50_gain_LOAD, p99_gain_LOAD    time of urgent chains from end to end, fifo over llf; medians over seeds, virtual
    late_share_LOAD                 of urgent chains, those that took longer than 100 ms, by llf
    loss_at_30                      by how much llf is slower than fifo at a load of 0.3 (p50)
    bulk_loss                       by how much less bulk llf does a second than fifo, at worst
    bulk_p50_LOAD_POLICY_ms         waits of bulk at one host
    keeper_p99_gain, keeper_query_loss   of a keeper with a log: 200 urgent messages a second that each make a fact, beside queries of 1 ms at a
                                    load of 0.8; a commit takes 1 ms. By how much sooner answers come, and how many queries fewer are decided
    live_p50_gain_at_85             and live_p99_gain_at_85: as above, live
    ablations, at 0.85: `no_costs`, `quantum_N_ms`, `turn_512` (a turn of 512 envelopes, however long), `reports` (bulk that is due in a
    second, as reports are) and `reports_windowed` (the same, looked at 3.5 seconds later), and one tenant that says ten times as much as each
    other one: `flood_POLICY_p50_ms` and `_p99_ms` of the others, with `llf` and with `token`

source    Cameo (NSDI'21): 4.6 times at best, over several tenants; spec/cameo-harvest.md C1
"""

# rows: C1, C-1, C-2, C-4, C-5, C-8

import argparse
import statistics
from pathlib import Path

from msgspec.structs import replace

from bench.support.choices import numbers
from bench.support.dispatch.chain import quantile, settings_of
from bench.support.dispatch.keeper import KeeperRun, play_keeper
from bench.support.dispatch.live import LiveChain
from bench.support.dispatch.virtual import Play, Played, play
from bench.support.report import Findings, Yardstick, at_least, at_most
from core.dispatch.context import Context, Urgency
from core.dispatch.traits import BEAT_LOOK
from core.nouns.dispatch import UrgencyClass
from core.nouns.instant import MILLISECOND, SECOND, Nanoseconds, seconds
from core.nouns.limits import TURN_ENVELOPES_MAX
from mizzen.views.plots import Curve, draw_lines, figure_option
from runtime.dispatch.turns import Turn
from runtime.loop import run as run_loop

LOADS = (0.3, 0.5, 0.7, 0.85, 0.95)
AT = 0.85
SEEDS, QUICK_SEEDS = (1, 2, 3, 4, 5), (1,)
SPAN, QUICK_SPAN = 60.0, 2.0
LIVE_SPAN, LIVE_ROUNDS = 30.0, 2
QUANTA_MS = (1, 5, 50, 100)
FLOOD = 250.0
"""Urgent messages a second of one tenant: ten times those of each other one."""
TOKEN_RATE = 40
A_SECOND = seconds(1)
KEEPER_RATE, KEEPER_LOAD = 200.0, 0.8
COMMIT = Nanoseconds(MILLISECOND)
LONG = seconds(3600)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the seeds, and how long each run is."""
    parser.add_argument("--seeds", type=numbers, default=SEEDS, help="with commas between")
    parser.add_argument("--span", type=float, default=SPAN, help="virtual seconds of each run")
    parser.add_argument(
        "--live-rounds", type=int, default=LIVE_ROUNDS, help="runs by each policy, live; 0: none"
    )
    figure_option(parser, "how long urgent chains take by load")


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Play the chains in virtual time, then live."""
    given = chosen or argparse.Namespace(seeds=SEEDS, span=SPAN, live_rounds=LIVE_ROUNDS, figure=None)
    seeds, span = (QUICK_SEEDS, QUICK_SPAN) if is_quick else (given.seeds, given.span)
    runs = {
        (load, policy): [play(Play(load, settings_of(policy), seed, span)) for seed in seeds]
        for load in LOADS
        for policy in ("fifo", "llf")
    }
    figures = _by_load(runs)
    figures |= _ablations(seeds, span)
    figures |= _keeper(seeds, span)
    bars = [
        at_least(
            "p50_gain_at_85",
            figures["p50_gain_at_85"],
            4.6,
            "decisions of urgent messages take their time too",
        ),
        at_least("p99_gain_at_85", figures["p99_gain_at_85"], 4.6, "a decision is never interrupted"),
        at_most("late_share_at_85", figures["late_share_at_85"], 0.03, "a decision is never interrupted"),
        at_most("loss_at_30", figures["loss_at_30"], 0.05, "there is hardly a queue"),
        at_most("bulk_loss", figures["bulk_loss"], 0.05, "bulk that still waits at the end"),
        at_most("keeper_query_loss", figures["keeper_query_loss"], 0.05, "a keeper waits for commits"),
    ]
    rounds = 1 if is_quick else given.live_rounds
    if rounds:
        live = run_loop(_live(rounds, QUICK_SPAN if is_quick else LIVE_SPAN))
        figures |= live
        why = "processes wake up late from a sleep, and share two cores with the server"
        bars += [
            at_least(name, live[name], 3, why) for name in ("live_p50_gain_at_85", "live_p99_gain_at_85")
        ]
    if given.figure:
        given.figure.write_text(_drawn(runs))
    yardstick = Yardstick(
        "the paper's best",
        4.6,
        "Cameo (NSDI'21), abstract; several tenants, unknown load",
        beside="p50_gain_at_85",
    )
    return Findings(figures, bars, [yardstick])


def _by_load(runs: dict[tuple[float, str], list[Played]]) -> dict[str, float]:
    figures: dict[str, float] = {}
    losses = []
    for load in LOADS:
        fifo, llf, at = runs[load, "fifo"], runs[load, "llf"], f"at_{100 * load:.0f}"
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            figures[f"{name}_gain_{at}"] = _median(fifo, share) / _median(llf, share)
            figures[f"fifo_{name}_{at}_ms"], figures[f"llf_{name}_{at}_ms"] = (
                _median(fifo, share),
                _median(llf, share),
            )
        figures[f"late_share_{at}"] = statistics.mean(one.late_share for one in llf)
        for policy, played in (("fifo", fifo), ("llf", llf)):
            waits = [quantile(one.bulk_waits, 0.5) for one in played]
            figures[f"bulk_p50_{at}_{policy}_ms"] = statistics.median(waits) * SECOND / MILLISECOND
        losses.append(1 - sum(one.bulk_done for one in llf) / sum(one.bulk_done for one in fifo))
    figures["loss_at_30"] = 1 / figures["p50_gain_at_30"] - 1
    figures["bulk_loss"] = max(losses)
    return figures


def _median(played: list[Played], share: float) -> float:
    return statistics.median(one.quantile(share) for one in played)


def _ablations(seeds: tuple[int, ...], span: float) -> dict[str, float]:
    """Return the p50 and p99 of urgent chains at 0.85, each with one thing otherwise."""
    llf = settings_of("llf")
    due, looked_at = (Context(Urgency(UrgencyClass.BULK, left)) for left in (A_SECOND, A_SECOND + BEAT_LOOK))
    plain = Play(AT, llf, 0, span)
    ways = {
        "no_costs": replace(plain, knows_costs=False),
        "turn_512": replace(plain, turn=Turn(TURN_ENVELOPES_MAX, LONG)),
        "reports": replace(plain, bulk=due),
        "reports_windowed": replace(plain, bulk=looked_at),
    }
    for milliseconds in QUANTA_MS:
        quantum = Nanoseconds(milliseconds * MILLISECOND)
        ways[f"quantum_{milliseconds}_ms"] = replace(plain, settings=settings_of("llf", quantum))
    for policy in ("llf", "token"):
        settings = settings_of(policy, rate=TOKEN_RATE)
        ways[f"flood_{policy}"] = replace(plain, settings=settings, floods=FLOOD)
    figures: dict[str, float] = {}
    for name, way in ways.items():
        played = [play(replace(way, seed=seed)) for seed in seeds]
        figures[f"{name}_p50_ms"], figures[f"{name}_p99_ms"] = _median(played, 0.5), _median(played, 0.99)
    return figures


def _keeper(seeds: tuple[int, ...], span: float) -> dict[str, float]:
    """Return what a keeper's urgent messages gain, and what its queries lose."""
    took: dict[str, list[float]] = {"fifo": [], "llf": []}
    done = dict.fromkeys(took, 0)
    for seed in seeds:
        for policy in took:
            settings = settings_of(policy)
            found, queries = play_keeper(KeeperRun(settings, seed, KEEPER_RATE, KEEPER_LOAD, COMMIT, span))
            took[policy] += found
            done[policy] += queries
    return {
        "keeper_p99_gain": quantile(took["fifo"], 0.99) / quantile(took["llf"], 0.99),
        "keeper_query_loss": 1 - done["llf"] / done["fifo"],
    }


async def _live(rounds: int, span: float) -> dict[str, float]:
    """Return gains of one run after the other by each policy, in turn."""
    figures: dict[str, float] = {}
    async with LiveChain() as chain:
        found: dict[str, list[list[float]]] = {"fifo": [], "llf": []}
        for seed in range(1, rounds + 1):
            for policy, runs in found.items():
                played = await chain.play(AT, settings_of(policy), seed, span)
                runs.append(played.latencies)
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        fifo, llf = (
            statistics.median(quantile(run, share) for run in found[policy]) for policy in ("fifo", "llf")
        )
        figures[f"live_{name}_gain_at_85"] = fifo / llf
        figures[f"live_fifo_{name}_ms"], figures[f"live_llf_{name}_ms"] = 1000 * fifo, 1000 * llf
    return figures


def _drawn(runs: dict[tuple[float, str], list[Played]]) -> str:
    """Return the curve of both policies by load."""
    curves = [
        Curve(f"{policy}, {name}", [(load, _median(runs[load, policy], share)) for load in LOADS])
        for policy in ("fifo", "llf")
        for name, share in (("p50", 0.5), ("p99", 0.99))
    ]
    return draw_lines("Urgent chains of four hosts", "load of each host", "time from end to end (ms)", curves)

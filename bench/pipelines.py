"""How many pipelines meet their deadlines, by the way in which the queue ranks them: `python -m bench pipelines`.

C3 of spec/cameo-harvest.md. The whole plane in the simulated world: three regions of 16 GPUs; 15 templates of 3 to 5 stages, whose run times
and GPUs are drawn from jobs of the Philly trace (at most 3 hours and 8 GPUs; without the trace from a lognormal of the same median). Each
template has run 20 times before. Then 300 runs arrive, 70 % of them in six bursts of ten minutes, so many hours that the load is 0.9. A
stage's run time differs from run to run (sigma 0.25 of its logarithm), and 15 % of runs have 2.5 times the input. A deadline is 1.5 to 3
times the typical critical path. All is one tenant's and of one level, so that nothing but deadlines and age ranks it.

Every variant has the same runs, and runs all of them: what would be infeasible is accepted without a deadline, and counts as met if it
ended by the time that was asked for. `met` is the share of the 300 that did.

    off        ranked by age alone, as all work
    edf, llf   by deadline; by start deadline
    told       llf, where users told the true run times, and nothing is known of their families
    blind      llf, where nobody says how large inputs are
    no_rule    llf, where stages that can no longer be in time stay urgent
    spread     llf and off with even arrivals on three regions of 80 GPUs, for comparison

Makespan: from the first of the 300 arrivals to the last end.
"""

# rows: C3, C-12, C-13

import argparse
import random
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from unittest.mock import patch

import structlog
from msgspec import Struct
from msgspec.structs import replace

from bench.support.report import Findings, Yardstick, at_least, at_most
from core.events.pipelines import PipelineEnded, StagesReprioritised
from core.fact import Fact
from core.images.pipelines import PipelineRow
from core.nouns.instant import SECOND
from core.nouns.pipeline import NoDeadline, OnLate
from core.nouns.quantities import MILLI
from core.nouns.ranking import DeadlinePolicy, RankingSettings
from mizzen.views.plots import Curve, draw_curves, figure_option
from runtime.gc_tuning import settle_down
from runtime.virtual_loop import VirtualLoop
from scenarios.play.operators import Operators
from scenarios.play.run import Run
from scenarios.play.simulated import simulated_run
from scenarios.scenario import ScenarioSpec
from scenarios.schema.fleet import FleetSpec
from scenarios.workload import Arrival
from scenarios.workloads.philly import FILE
from scenarios.workloads.pipelines import Pipelines
from scenarios.worlds.simulated.world import START

LOAD, EARLIER_LOAD = 0.9, 0.7
"""GPU-seconds of runs by those that there are meanwhile; of the earlier runs less, so that their waits are ordinary ones."""
GPUS, SPREAD_GPUS = 16, 80
"""Of each of three regions."""
REGIONS, NODE_GPUS = 3, 8
LOOK_SECONDS = 60.0
PATIENCE_HOURS = 48.0
"""After the last arrival."""
TRACE = "../shared/data/philly-2017"
COMPRESSION = 8.0
"""All spans of the load are so many times shorter, so that a run takes a minute; those of the plane (starts, auctions, looks at pipelines once
a minute) are as ever, so they count for more than in reality."""
SLACKS = (1.5, 1.8, 2.1, 2.4, 2.7, 3.0)
"""Edges of the bins of the figure."""
DAY_HOURS = 24.0


class Variant(Struct, frozen=True):
    """One way to rank the same runs."""

    policy: DeadlinePolicy
    is_told: bool = False
    tells_size: bool = True
    has_rule: bool = True
    gpus: int = GPUS
    burst_share: float = 0.7


OFF, EDF, LLF = DeadlinePolicy.OFF, DeadlinePolicy.EDF, DeadlinePolicy.LLF
MAIN = {"off": Variant(OFF), "edf": Variant(EDF), "llf": Variant(LLF), "told": Variant(LLF, is_told=True)}
OTHERS = {
    "blind": Variant(LLF, tells_size=False),
    "no_rule": Variant(LLF, has_rule=False),
    "spread_off": Variant(OFF, gpus=SPREAD_GPUS, burst_share=0.0),
    "spread_llf": Variant(LLF, gpus=SPREAD_GPUS, burst_share=0.0),
}


class Played(Struct, frozen=True):
    """What became of the 300 runs of one variant and seed."""

    by_slack: dict[float, tuple[int, int]]
    """By the lower edge of a bin of slacks, how many were in time of how many."""
    met: float
    refused: float
    refused_met: float
    """Of those that are infeasible, the part that was in time all the same."""
    failed: int
    makespan_hours: float
    changes: int
    """Facts about start deadlines that moved."""


class Amount(Struct, frozen=True):
    """How much of it all."""

    pipelines: int
    templates: int
    earlier_runs: int


FULL, QUICK = Amount(300, 15, 20), Amount(12, 3, 4)


def options(parser: argparse.ArgumentParser) -> None:
    """Those that it has of its own."""
    parser.add_argument(
        "--trace", default=TRACE, help="where the Philly trace is; without one, run times are lognormal"
    )
    parser.add_argument("--seeds", default="1,2,3", help="numbers, joined by commas")
    parser.add_argument(
        "--variants", default="", help="only these, joined by commas, beside off, llf and told"
    )
    figure_option(parser, "the share in time by slack, for each way")


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Play every variant from every seed."""
    if chosen is None:
        parser = argparse.ArgumentParser()
        options(parser)
        chosen = parser.parse_args([])
    seeds = [1] if is_quick else [int(seed) for seed in chosen.seeds.split(",")]
    amount = QUICK if is_quick else FULL
    trace = chosen.trace if (Path(chosen.trace) / FILE).exists() else ""
    named = [name for name in chosen.variants.split(",") if name]
    variants = MAIN | OTHERS
    if named or is_quick:
        variants = {name: one for name, one in variants.items() if name in {*named, "off", "llf", "told"}}
    begun = time.perf_counter()
    found = {
        name: [played(variant, amount, seed, trace) for seed in seeds] for name, variant in variants.items()
    }
    if chosen.figure:
        chosen.figure.write_text(figure_of(found), encoding="utf-8")
    return findings_of(found, time.perf_counter() - begun)


def played(variant: Variant, amount: Amount, seed: int, trace: str) -> Played:
    """Play one variant from a seed."""
    return Trial(variant, amount, seed, trace).play()


class Trial:
    """One variant from one seed."""

    def __init__(self, variant: Variant, amount: Amount, seed: int, trace: str) -> None:
        self.variant, self.amount = variant, amount
        self.fleet = FleetSpec(
            regions=REGIONS, nodes=variant.gpus // NODE_GPUS, workers=1, gpus_per_node=NODE_GPUS, agents=1
        )
        load = Pipelines(
            pipelines=amount.pipelines,
            templates=amount.templates,
            hours=DAY_HOURS,
            burst_share=variant.burst_share,
            tells_size=variant.tells_size,
            told=variant.is_told,
            on_late=OnLate.ACCEPT,
            earlier_runs=amount.earlier_runs,
            compression=COMPRESSION,
            trace=trace,
            priority=3,
            tenant="ml",
        )
        self.load = self._loaded(load, seed)
        self.spec = ScenarioSpec(name="bench_pipelines", survives="", fleet=self.fleet, workload=(self.load,))
        self.loop = VirtualLoop(START)
        self.run: Run = simulated_run(self.spec, seed, self.loop)
        self.arrivals = self._drawn(self.load, seed)
        self.ended: list[PipelineRow] = []
        """As they were at their ends: a queue forgets what ended a day ago."""
        self.changes = 0
        self.run.witness.watchers.append(self._watch)

    def _watch(self, fact: Fact) -> None:
        self.changes += isinstance(fact.event, StagesReprioritised)
        if isinstance(fact.event, PipelineEnded):
            row = deepcopy(self.run.witness.queue.pipelines.rows[fact.event.pipeline])
            row.outcome, row.ended_at = fact.event.outcome, max(stage.ended_at for stage in row.stages)
            self.ended.append(row)

    def _drawn(self, load: Pipelines, seed: int) -> list[Arrival]:
        return load.arrivals(self.fleet, random.Random(f"pipelines/{seed}"))

    def _loaded(self, load: Pipelines, seed: int) -> Pipelines:
        """Return the load over so many hours that it is what it should be."""
        arrivals = self._drawn(load, seed)
        first = self.amount.templates * self.amount.earlier_runs
        there = REGIONS * self.variant.gpus / COMPRESSION
        earlier, later = (sum(map(_gpu_hours, part)) for part in (arrivals[:first], arrivals[first:]))
        return replace(
            load, hours=later / there / LOAD, earlier_hours=max(1.0, earlier / there / EARLIER_LOAD)
        )

    def play(self) -> Played:
        """All of it."""
        settle_down()
        try:
            with structlog.testing.capture_logs(), _rule(is_on=self.variant.has_rule):
                self.loop.run_until_complete(self._play())
        finally:
            self.loop.cancel_all()
            self.loop.close()
        assert not self.run.witness.violations, self.run.witness.violations[0]
        assert not self.run.users.problems, self.run.users.problems[0]
        return self._counted()

    async def _play(self) -> None:
        run = self.run
        try:
            await run.begin()
            refused = await Operators(run.users).rank_by(RankingSettings(deadlines=self.variant.policy))
            assert not refused, refused
            run.users.play(self.arrivals, "bench")
            run.users.begin(self.disturb(), "disturb")
            until = run.world.now() + self.load.span + 3_600 * PATIENCE_HOURS
            while run.world.now() < until and not self._is_over():
                await run.world.sleep(LOOK_SECONDS)
        finally:
            await run.stop()

    async def disturb(self) -> None:
        """Do something to the plane meanwhile."""

    def _is_over(self) -> bool:
        return len(self.ended) == len(self.arrivals)

    def _counted(self) -> Played:
        assert self._is_over(), "some pipeline has not ended"
        rows = [row for row in self.ended if row.asked_due_at]
        assert len(rows) == self.amount.pipelines, len(rows)
        ends = [row for row in rows if _is_met(row)]
        infeasible = [row for row in rows if row.no_deadline is NoDeadline.INFEASIBLE]
        by_slack: dict[float, tuple[int, int]] = {}
        for row in rows:
            slack = self._slack(row)
            edge = max((edge for edge in SLACKS[:-1] if edge <= slack), default=SLACKS[0])
            met, count = by_slack.get(edge, (0, 0))
            by_slack[edge] = met + _is_met(row), count + 1
        return Played(
            by_slack,
            len(ends) / len(rows),
            len(infeasible) / len(rows),
            sum(map(_is_met, infeasible)) / max(1, len(infeasible)),
            sum(row.outcome not in ("met", "late") for row in rows),
            (max(row.ended_at for row in rows) - min(row.submitted_at for row in rows)) / (3_600 * SECOND),
            self.changes,
        )

    def _slack(self, row: PipelineRow) -> float:
        """Return the time that a run was given by the length of its critical path without waits, as it then ran."""
        spans = {stage.workload: stage.ended_at - stage.started_at for stage in row.stages}
        ends: list[int] = []
        for stage in row.stages:
            ends.append(max((ends[before] for before in stage.after), default=0) + spans[stage.workload])
        return (row.asked_due_at - row.submitted_at) / max(1, *ends)


def _is_met(row: PipelineRow) -> bool:
    return row.outcome in ("met", "late") and row.ended_at <= row.asked_due_at


def _gpu_hours(arrival: Arrival) -> float:
    assert arrival.pipeline is not None
    return sum(
        job.need.gpu_milli * job.tasks * (job.emulation.work if job.emulation else 0)
        for stage in arrival.pipeline.stages
        for job in stage.workload.jobs
    ) / (MILLI * 3_600 * SECOND)


@contextmanager
def _rule(*, is_on: bool) -> Iterator[None]:
    """Without the rule no stage is ever late, and all stay as urgent as their start deadlines say."""
    if is_on:
        yield
        return
    with (
        patch("components.job_queue.pipelines.looks.misses_deadline", lambda *_: False),
        patch("components.job_queue.pipelines.requests.misses_deadline", lambda *_: False),
    ):
        yield


def findings_of(found: dict[str, list[Played]], seconds: float) -> Findings:
    """Means over the seeds, and the bars."""
    means = {name: statistics.mean(one.met for one in many) for name, many in found.items()}
    figures = {f"met_{name}": value for name, value in means.items()}
    gain, gain_told = means["llf"] - means["off"], means["told"] - means["off"]
    spans = {name: statistics.mean(one.makespan_hours for one in many) for name, many in found.items()}
    figures |= {
        "gain_told": gain_told,
        "met_gain_least_of_seeds": min(
            llf.met - off.met for llf, off in zip(found["llf"], found["off"], strict=True)
        ),
        "refused_share": statistics.mean(one.refused for one in found["llf"]),
        "refused_met_when_forced": statistics.mean(one.refused_met for one in found["llf"]),
        "refused_share_told": statistics.mean(one.refused for one in found["told"]),
        "start_deadlines_moved": statistics.mean(one.changes for one in found["llf"]),
        "makespan_hours_off": spans["off"],
        "seeds": float(len(found["llf"])),
        "failed": float(sum(one.failed for many in found.values() for one in many)),
        "wall_seconds": seconds,
    }
    bars = [
        at_least("met_gain", gain, 0.05, "bursts leave too much waiting that no order can avoid"),
        at_least(
            "learned_over_told",
            gain / gain_told if gain_told > 0 else 1.0,
            0.85,
            "run times vary from run to run",
        ),
        at_most(
            "makespan_loss", spans["llf"] / spans["off"] - 1, 0.05, "urgent stages leave GPUs idle for gangs"
        ),
    ]
    model = "a model of the same load by the authors of this issue, without regions' boundaries"
    yardsticks = [
        Yardstick("model_met_off", 0.72, model, "met_off"),
        Yardstick("model_met_edf", 0.75, f"{model}; without the rule for late stages", "met_edf"),
        Yardstick("model_met_no_rule", 0.67, model, "met_no_rule"),
        Yardstick("model_met_llf", 0.86, model, "met_llf"),
    ]
    known = [one for one in yardsticks if one.beside in figures]
    return Findings({**figures, **{bar.name: bar.value for bar in bars}}, bars, known)


def figure_of(found: dict[str, list[Played]]) -> str:
    """The share in time by slack, over all seeds."""
    curves = []
    for name in ("off", "edf", "llf", "told"):
        points = []
        for edge in SLACKS[:-1]:
            cells = [one.by_slack.get(edge, (0, 0)) for one in found.get(name, [])]
            count = sum(cell[1] for cell in cells)
            if count:
                points.append((edge, sum(cell[0] for cell in cells) / count))
        if points:
            curves.append(Curve(name, points))
    return draw_curves(
        "Pipelines that met their deadline",
        "deadline / critical path as it ran",
        "share",
        curves,
        begin=(1.5, 0.0),
    )

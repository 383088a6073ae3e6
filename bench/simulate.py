"""The whole plane in the simulated world on one core: messages delivered a second, beats and heads not counted.

Three regions of 300 nodes take 2,000 workloads within a minute: every auction, claim, start, report and end is played by
the real components, hosts, codec and logs. The auditor checks every fact, as in every scenario.
"""

import statistics
import time
from pathlib import Path

from bench.support.report import Findings, at_least
from scenarios.play.simulated import run_simulated
from scenarios.scenario import ScenarioSpec, all_checks
from scenarios.schema.fleet import FleetSpec
from scenarios.schema.outcome import Outcome
from scenarios.workloads.steady import Steady

REPETITIONS = 3
FULL = ScenarioSpec(
    name="bench_simulate",
    survives="Nothing happens but work.",
    fleet=FleetSpec(regions=3, nodes=300),
    workload=(
        Steady(
            workloads=2000,
            hours=1 / 60,
            minutes_median=0.1,
            minutes_max=0.2,
            gpus_max=32,
            fails_share=0,
            cancels_share=0,
        ),
    ),
    checks=all_checks(),
)
QUICK = ScenarioSpec(
    name="bench_simulate_quick",
    survives="Nothing happens but work.",
    fleet=FleetSpec(regions=2, nodes=20, workers=2),
    workload=(Steady(workloads=40, hours=1 / 60, minutes_median=0.1, minutes_max=0.2, gpus_max=16),),
    checks=all_checks(),
)


def run(_: Path, *, is_quick: bool) -> Findings:
    """Play the same minutes several times; the median counts."""
    spec = QUICK if is_quick else FULL
    rates: list[float] = []
    on_cpu: list[float] = []
    outcome = Outcome(spec.name, 1, "simulated")
    for _repetition in range(1 if is_quick else REPETITIONS):
        outcome, wall, cpu = _play(spec)
        rates.append(outcome.messages / wall)
        on_cpu.append(outcome.messages / cpu)
    figures = {
        "messages_per_s": statistics.median(rates),
        "messages_per_cpu_s": statistics.median(on_cpu),
        "messages": float(outcome.messages),
        "facts": float(outcome.facts),
        "messages_per_workload": outcome.messages / outcome.figures["submitted"],
        "virtual_seconds_per_s": outcome.virtual_seconds / outcome.wall_seconds,
    }
    limit = (
        "one message costs about as much in the components that decide and fold as in the host, the bus and the loop "
        "that carry it, all of them Python"
    )
    return Findings(figures, [at_least("messages_per_s", figures["messages_per_s"], 40_000, limit)])


def _play(spec: ScenarioSpec) -> tuple[Outcome, float, float]:
    """One run with the wall and processor seconds that it took."""
    wall, cpu = time.perf_counter(), time.process_time()
    outcome = run_simulated(spec, 1)
    assert outcome.is_good, outcome.first_problem()
    return outcome, time.perf_counter() - wall, time.process_time() - cpu

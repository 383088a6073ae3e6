"""Planned work on racks and power domains under ten thousand tasks, whose controllers move, return, ignore, refuse or are dead.

The rules are counted (Twine §2.4): nothing that had to leave still runs a minute after its window began, nothing was forced
before its deadline, and nothing was touched to which nobody had agreed. One simulated region, one core.

source    spec E10: rack and power-domain windows, three answers, refusing and dead controllers
"""

# rows: E10

import time
from pathlib import Path
from typing import Any

import structlog

from bench.support.report import Findings, at_most
from scenarios.play.simulated import run_simulated
from scenarios.scenario import ScenarioSpec, read_scenario
from scenarios.schema.outcome import Outcome

SERVICES = 100
TASKS = 100
HOURS = 1.0


def run(_: Path, *, is_quick: bool) -> Findings:
    """One seed, timed by the clock."""
    spec = (
        _spec(services=10, tasks=10, nodes=40)
        if is_quick
        else _spec(services=SERVICES, tasks=TASKS, nodes=1_600)
    )
    begun = time.perf_counter()
    with structlog.testing.capture_logs():
        outcome = run_simulated(spec, 1)
    figures = _figures(outcome, time.perf_counter() - begun)
    assert outcome.is_good, outcome.first_problem()
    why = "a rule of task control is broken"
    return Findings(
        figures,
        [
            at_most("missed_windows", figures["missed_windows"], 0, why),
            at_most("early_stops", figures["early_stops"], 0, why),
            at_most("operations_unasked", figures["operations_unasked"], 0, why),
        ],
    )


def _figures(outcome: Outcome, wall: float) -> dict[str, float]:
    names = (
        "windows",
        "missed_windows",
        "early_stops",
        "operations",
        "operations_acked",
        "operations_forced",
        "operations_unasked",
        "operations_healthy",
    )
    return {name: outcome.figures[name] for name in names} | {
        "wall_seconds": wall,
        "messages": float(outcome.messages),
        "facts": float(outcome.facts),
    }


def _spec(*, services: int, tasks: int, nodes: int) -> ScenarioSpec:
    """A fifth of the services under each sort of controller, and one more fifth under none."""
    sorts = ("moves", "returns", "ignores", "refuses", "dead")
    load = {"hours": HOURS, "tasks": tasks, "workloads": services // len(sorts), "unavailable_max": tasks}
    workload: list[dict[str, Any]] = [  # Any: as a scenario file has it
        {"services": {**load, "controller": sort}} for sort in sorts
    ]
    # Of whom nobody is dead at the start; a controller that never answers is one that was never started.
    controllers = [
        {"consents": {"called": "moves", "answer": "move"}},
        {"consents": {"called": "returns", "answer": "stop_and_return"}},
        {"consents": {"called": "ignores", "answer": "ignore"}},
        {"refuses": {"called": "refuses"}},
        {"silent": {"called": "dead"}},
    ]
    planned = {"notice_seconds": [60, 600], "window_seconds": [120, 600], "after_seconds": [500, 2500]}
    faults = [
        {"work_on_nodes": {**planned, "scope": "rack", "kind": "power", "times": 6}},
        {"work_on_nodes": {**planned, "scope": "rack", "kind": "network", "times": 6}},
        {"work_on_nodes": {**planned, "scope": "power_domain", "kind": "power", "times": 2}},
        {"work_on_nodes": {**planned, "scope": "power_domain", "kind": "reboot", "times": 1}},
    ]
    return read_scenario(
        {
            "name": "bench_maintenance",
            "survives": "Every window is kept, and nothing is touched before its time.",
            "fleet": {"regions": 1, "nodes": nodes, "workers": 20, "power_domains": 10, "nodes_per_rack": 16},
            "workload": workload,
            "controllers": controllers,
            "faults": faults,
            "calm": {"minutes": 120},
        }
    )

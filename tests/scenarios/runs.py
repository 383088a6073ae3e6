"""Scenarios as tests run them: quietly, in processes of their own where that is what is tested; and one that is tiny."""

import os
import subprocess
import sys
from pathlib import Path

import structlog

from scenarios.run import Outcome, run_simulated
from scenarios.scenario import FleetSpec, LoadSpec, MisfortuneSpec, ScenarioSpec, load_scenario

HOUSE = Path(__file__).resolve().parents[2]

TINY = ScenarioSpec(
    name="tiny",
    survives="A few minutes of everything that can go wrong, on a handful of nodes.",
    fleet=FleetSpec(regions=2, nodes=3, workers=2),
    load=LoadSpec(
        workloads=14,
        hours=0.1,
        minutes_median=0.5,
        minutes_max=2,
        gpus_max=16,
        fails_share=0.5,
        cancels_share=0.2,
    ),
    misfortune=MisfortuneSpec(
        drop=0.1, repeat=0.1, reorders=True, crashes_each=1, down_seconds_max=5, workers_lost=1
    ),
    calm_hours=3,
)


def run_quietly(spec: ScenarioSpec, seed: int) -> Outcome:
    """Play it; its thousands of log lines go nowhere."""
    with structlog.testing.capture_logs():
        return run_simulated(spec, seed)


def digest_of_library(name: str, seed: int) -> tuple[str, int, str, int, list[str]]:
    """What came of a scenario of the library: name, seed, digest, violations, problems. For a pool of processes."""
    outcome = run_quietly(load_scenario(name), seed)
    return name, seed, outcome.digest, len(outcome.violations), outcome.problems


def digest_elsewhere(seed: int, hash_seed: str) -> str:
    """The tiny scenario's digest, from a process of its own with this hash seed."""
    program = f"from tests.scenarios.runs import TINY, run_quietly; print(run_quietly(TINY, {seed}).digest)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=HOUSE,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
    )
    return done.stdout.strip()

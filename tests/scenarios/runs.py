"""Scenarios as tests run them: quietly, in processes of their own where that is what is tested; and one that is tiny."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import structlog

from scenarios.play.simulated import run_simulated
from scenarios.scenario import ScenarioSpec, load_scenario, parse_scenario
from scenarios.schema.outcome import Outcome

HOUSE = Path(__file__).resolve().parents[2]

TINY = parse_scenario(
    """
name: tiny
survives: A few minutes of everything that can go wrong, on a handful of nodes.
fleet: {regions: 2, nodes: 3, workers: 2}
workload:
  - steady:
      workloads: 14
      hours: 0.1
      minutes_median: 0.5
      minutes_max: 2
      gpus_max: 16
      fails_share: 0.5
      cancels_share: 0.2
      holds_share: 0.2
      requeues_share: 0.2
faults:
  - message_loss: {share: 0.1}
  - message_repeat: {share: 0.1}
  - message_reorder: {share: 0.1}
  - crash_each: {down_seconds: [0.1, 5]}
  - rack_cut: {for_seconds: [5, 120]}
calm: {minutes: 180}
""",
    "tiny.yaml",
)


def run_quietly(spec: ScenarioSpec, seed: int, *, decides_twice: bool = False) -> Outcome:
    """Play it; its thousands of log lines go nowhere."""
    with structlog.testing.capture_logs():
        return run_simulated(spec, seed, decides_twice=decides_twice)


def outcome_of_library(name: str, seed: int) -> Outcome:
    """What came of a scenario of the library. For a pool of processes."""
    return run_quietly(load_scenario(name), seed)


def digest_elsewhere(seed: int, hash_seed: str) -> str:
    """The tiny scenario's digest, from a process of its own with this hash seed."""
    program = f"from tests.scenarios.runs import TINY, run_quietly; print(run_quietly(TINY, {seed}).digest)"
    return _run_elsewhere(program, hash_seed, seconds=50).strip()


def digests_elsewhere(names: Sequence[str], seed: int, hash_seed: str) -> dict[str, str]:
    """The digests of scenarios of the library, all from one process of its own with this hash seed."""
    program = (
        "from tests.scenarios.runs import outcome_of_library\n"
        f"for name in {list(names)!r}:\n    print(name, outcome_of_library(name, {seed}).digest)"
    )
    lines = _run_elsewhere(program, hash_seed, seconds=110).splitlines()
    return {line.split()[0]: line.split()[1] for line in lines}


def _run_elsewhere(program: str, hash_seed: str, *, seconds: float) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=HOUSE,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=seconds,
    )
    return done.stdout

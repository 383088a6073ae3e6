"""Three real gangs take turns on this machine: `python -m bench rounds_live`.

`mizzen up scenarios/library/rounds_live.yaml`: real processes over NATS and SQLite, three gangs of two ranks that run
`examples/train_charlm.py` on four slots of the pool `shared`, in rounds of ten seconds, with weights 1, 1 and 2 and `max_min`. Emulated
work runs beside the pool. Counted is the time in which all three gangs were there (scenarios/play/live_turns.py).

    share_error      of the gang for which it is largest, | part of all time received / part of all time owed - 1 |. Time is received
                     from when all ranks run until the attempt is over, so a gang pays for its own start
    steps_lost       of all gangs, steps that the program told and that were not in the checkpoint from which it went on
    digests_differ   logs that do not fold to what the run's witness has
    turns            attempts that ran, of all gangs
    counted_seconds  for how long all three were there

`--keep DIR` has the plane there, and leaves its logs.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.support.report import Findings, at_most
from core.images import empty_image
from core.nouns.ids import LogName
from scenarios.scenario import LIBRARY
from store.sqlite import facts_in

ROOT = Path(__file__).resolve().parents[1]
SCENARIO = LIBRARY / "rounds_live.yaml"
QUICK_STEPS, QUICK_BATCH, QUICK_ROUND_SECONDS = 450, 352, 5
"""Of a gang of weight 1, of each rank, and the shortest round that may be set."""
QUICK_COMPRESSION = 1_440
"""Of the emulated load."""
SECONDS_MAX = 1_200.0
GANGS = 3


def options(parser: argparse.ArgumentParser) -> None:
    """Add where the logs are left."""
    parser.add_argument("--keep", type=Path, help="a directory for the plane and its logs")


def run(directory: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Play the scenario, and tell what its summary and its logs say."""
    scenario = quick_scenario(directory) if is_quick else SCENARIO
    kept = directory / "plane" if chosen is None or chosen.keep is None else chosen.keep.absolute()
    found = figures_of(played(scenario, kept))
    limit = "a gang that is stopped pays for the start of its ranks, and a round is short beside that"
    return Findings(
        found,
        [
            at_most("share_error", found["share_error"], 0.2, limit),
            at_most("steps_lost", found["steps_lost"], 0, "a gang was killed before it had saved"),
        ],
    )


def played(scenario: Path, directory: Path) -> dict[str, Any]:  # Any: a summary, as JSON
    """Return the summary of a scenario that is played in real processes."""
    binaries = Path(sys.executable).parent
    ended = subprocess.run(
        [sys.executable, "-m", "mizzen", "up", str(scenario), "--directory", str(directory), "--json"],
        cwd=ROOT,
        env=os.environ | {"PATH": f"{binaries}{os.pathsep}{os.environ.get('PATH', '')}"},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert ended.stdout, ended.stderr
    summary: dict[str, Any] = json.loads(ended.stdout)
    assert ended.returncode == 0, summary.get("problems", ended.stderr)
    return summary


def figures_of(summary: dict[str, Any]) -> dict[str, float]:  # Any: a summary, as JSON
    """Return the figures of a summary, and of the logs that it names."""
    turns: Sequence[dict[str, Any]] = summary["turns"]  # Any: as JSON has them
    assert len(turns) == GANGS, f"{len(turns)} of {GANGS} gangs ran beside the others"
    parts = {f"part_of_{one['workload']}": one["received_part"] for one in turns}
    owed = {f"owed_to_{one['workload']}": one["owed_part"] for one in turns}
    counted = max(one["owed_seconds"] for one in turns)
    return {
        "share_error": max(abs(one["received_part"] / one["owed_part"] - 1) for one in turns),
        "steps_lost": float(sum(one["steps_lost"] for one in turns)),
        "digests_differ": float(differing(summary["digests"], Path(summary["directory"]))),
        "turns": float(sum(one["attempts"] for one in turns)),
        "counted_seconds": counted,
        **parts,
        **owed,
        "violations": float(summary["invariant_violations"]),
        "seconds": summary["seconds"],
    }


def differing(digests: dict[str, str], directory: Path) -> int:
    """Return how many logs, folded from their first fact on, come to another digest."""
    count = 0
    for name, digest in digests.items():
        log = LogName(name)
        image = empty_image(log)
        for fact in facts_in(directory, log):
            image.fold(fact)
        count += image.digest() != digest
    return count


def quick_scenario(directory: Path) -> Path:
    """Write the scenario with jobs of few steps and short rounds; return its path."""
    text = SCENARIO.read_text(encoding="utf-8")
    text = re.sub(r"round_seconds: \d+", f"round_seconds: {QUICK_ROUND_SECONDS}", text)
    text = re.sub(r"compression: \d+", f"compression: {QUICK_COMPRESSION}", text)
    for name, steps in (("shared", QUICK_STEPS), ("shared_heavy", 2 * QUICK_STEPS)):
        job = (ROOT / "examples" / f"{name}.yaml").read_text(encoding="utf-8")
        job = re.sub(r"(--steps|steps:) \d+", rf"\1 {steps}", job)
        job = re.sub(r"--batch \d+", f"--batch {QUICK_BATCH}", job)
        (directory / f"{name}.yaml").write_text(job, encoding="utf-8")
        text = text.replace(f"../../examples/{name}.yaml", f"{name}.yaml")
    path = directory / SCENARIO.name
    path.write_text(text, encoding="utf-8")
    return path

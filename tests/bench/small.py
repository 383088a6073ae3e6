"""A benchmark as people type it, in small."""

import json
import subprocess
import sys
from pathlib import Path

HOUSE = Path(__file__).parents[2]


def small(name: str, directory: Path) -> dict[str, float]:
    """Run a benchmark; its figures, of which every bar is one."""
    command = [sys.executable, "-m", "bench", name, "--json", "--quick", "--directory", str(directory)]
    done = subprocess.run(command, cwd=HOUSE, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr
    report = json.loads(done.stdout)
    assert all(report["figures"][bar["name"]] == bar["value"] for bar in report["bars"])
    assert [] == list(directory.iterdir())
    figures: dict[str, float] = report["figures"]
    return figures

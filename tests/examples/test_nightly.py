"""The stages of the example pipeline, one after the other: each reads the checkpoints of those before it."""

import json
import os
import subprocess
import sys
from pathlib import Path

HOUSE = Path(__file__).resolve().parents[2]


def run(stage: str, directory: Path, *before: str) -> str:
    """Run one stage as its task would be, after these; return what it writes."""
    environ = {**os.environ, "PYTHONPATH": str(HOUSE / "mizzen" / "sdk")}
    environ["MIZZEN_CHECKPOINT_DIR"] = str(directory / stage)
    for name in before:
        environ[f"MIZZEN_STAGE_{name.upper()}_CHECKPOINT_DIR"] = str(directory / name)
        environ[f"MIZZEN_STAGE_{name.upper()}_STEP"] = "1"
    script = HOUSE / "examples" / "nightly.py"
    done = subprocess.run(  # our own script
        [sys.executable, script, stage], env=environ, capture_output=True, text=True, check=False
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout


def test_stages_read_what_the_ones_before_saved(tmp_path: Path) -> None:
    """The loss falls while the second trains, and the third publishes what that came to."""
    run("prep", tmp_path)
    told = run("train", tmp_path, "prep")
    losses = [float(line.split()[-1]) for line in told.splitlines()]
    assert losses[0] > losses[-1]
    published = run("publish", tmp_path, "prep", "train")
    loss = json.loads(published.removeprefix("published: "))["loss"]
    assert abs(loss - losses[-1]) < 1e-3
    assert json.loads((tmp_path / "publish" / "1").read_text()) == {"loss": loss}
    assert (tmp_path / "publish" / "1.done").exists()

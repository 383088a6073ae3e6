"""A small trace that `mizzen policy` is tried on, with speeds beside it, and what the command prints."""

from pathlib import Path

import pytest

from mizzen.cli import main

Captured = pytest.CaptureFixture[str]
SPEEDS = """
slow: {v100: 10, k80: 8}
fast: {v100: {1: 20, 2: 36}, k80: {1: 4, 2: 7}}
"""
LINES = (
    ("slow", 1, 36_000, 1.0, 0),
    ("slow", 1, 36_000, 2.0, 0),
    ("fast", 1, 72_000, 1.0, 600),
    ("fast", 2, 72_000, 1.0, 600),
    ("fast", 1, 7_200, 1.0, 5_000),
)


def five_jobs(folder: Path) -> str:
    """Write five jobs, and a file of speeds beside them; return the path of the trace."""
    (folder / "speeds.yaml").write_text(SPEEDS, encoding="utf-8")
    lines = (
        f"{model}\tpython3 main.py\t.\t-n\t0\t{steps}\t{gpus}\t{weight}\t-1\t{arrival}"
        for model, gpus, steps, weight, arrival in LINES
    )
    path = folder / "five.trace"
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def told(capsys: Captured, *words: str) -> str:
    """What a command prints."""
    capsys.readouterr()
    assert 0 == main(["policy", *words]), capsys.readouterr().err
    return capsys.readouterr().out

"""Which commands there are: the page that lists them, the help that shows them, and how fast both appear."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from mizzen.cli import app, main

HOUSE = Path(__file__).resolve().parents[2]
Captured = pytest.CaptureFixture[str]

READ_AND_STEER = (
    "queue", "show", "explain", "logs", "cancel", "hold", "priority", "release", "requeue", "preempt", "preemption", "nodes", "log", "replay", "state",
    "report",
    "tasks", "restart", "move", "update", "resize", "controllers",
    "drain", "undrain", "maintain", "pools", "prices", "tenants", "quota", "data", "region",
)  # fmt: skip
DEAR = {"nats", "numpy", "structlog", "aiosqlite", "yaml", "rich.live", "core.codec", "runtime.wiring"}
"""What only some commands need, and none to show its help."""


def commands() -> list[str]:
    """As `mizzen --help` names them."""
    return sorted(name for name in app if not name.startswith("-"))


def test_page_lists_every_command_with_an_example() -> None:
    """And none that is not there."""
    text = (HOUSE / "docs" / "commands.md").read_text()
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    named = {section.splitlines()[0].removeprefix("mizzen ") for section in sections}
    assert commands() == sorted(named)
    for section in sections:
        name = section.splitlines()[0]
        assert re.search(rf"^```\n\$ {name}\b.*\n.+", section, flags=re.MULTILINE), f"{name} has no example"


def test_help_shows_every_command(capsys: Captured) -> None:
    """Each with a line that says what it is for."""
    assert 0 == main(["--help"])
    shown = capsys.readouterr().out
    assert [] == [
        name for name in commands() if not re.search(rf"^│ {name} +[A-Z]", shown, flags=re.MULTILINE)
    ]
    for name in READ_AND_STEER:
        assert 0 == main([name, "--help"])
        shown = capsys.readouterr().out
        assert f"Usage: mizzen {name}" in shown
        assert "--json" in shown


@pytest.mark.processes
def test_help_loads_nothing_dear() -> None:
    """What speaks to planes and reads logs is loaded when a command is run: its help is there at once."""
    listing = (
        "import sys\nfrom mizzen.cli import main\n"
        f"for name in ['', *{READ_AND_STEER!r}]:\n    main([*name.split(), '--help'])\n"
        "print()\nprint(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", listing], cwd=HOUSE, capture_output=True, text=True, check=True, timeout=30
    )
    assert set() == DEAR & set(done.stdout.splitlines()[-1].split())

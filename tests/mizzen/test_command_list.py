"""Which commands there are: the page that lists them, the help that shows them, and how fast both appear."""

import contextlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cyclopts import MissingArgumentError

from mizzen.cli import GROUPS, app, main

HOUSE = Path(__file__).resolve().parents[2]
Captured = pytest.CaptureFixture[str]

READ_AND_STEER = (
    "queue", "show", "explain", "logs", "cancel", "hold", "priority", "release", "requeue", "preempt", "preemption", "nodes", "log", "replay", "state",
    "report",
    "tasks", "restart", "move", "update", "resize", "controllers",
    "drain", "undrain", "maintain", "pools", "dispatch", "prices", "tenants", "quota", "data", "region",
)  # fmt: skip
DEAR = {"nats", "numpy", "structlog", "aiosqlite", "yaml", "rich.live", "core.codec", "runtime.wiring"}
"""What only some commands need, and none to show its help."""


def commands() -> list[str]:
    """As `mizzen --help` names them."""
    return sorted(name for name in app if not name.startswith("-"))


def test_every_command_is_in_exactly_one_group() -> None:
    """The groups hold the commands that there are, each once; the titles and their order are what users learn."""
    titles = ["Work", "Fleet", "Tenants", "Logs and time", "Simulation", "About"]
    assert titles == list(GROUPS)
    grouped = [name for group in GROUPS.values() for name in group if name != "--help"]
    assert commands() == sorted(grouped)
    assert ["submit", "queue", "show"] == list(GROUPS["Work"])[:3], "the most used first"


def test_page_lists_every_command_with_an_example() -> None:
    """In the groups and the order of the help, and no other command."""
    text = (HOUSE / "docs" / "commands.md").read_text()
    found: dict[str, list[str]] = {}
    for chapter in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, *sections = re.split(r"^### mizzen ", chapter, flags=re.MULTILINE)
        found[title.strip()] = [section.splitlines()[0] for section in sections]
        for section in sections:
            name = section.splitlines()[0]
            example = rf"^```\n\$ mizzen {name}\b.*\n.+"
            assert re.search(example, section, flags=re.MULTILINE), f"{name} has no example"
    assert {title: [name for name in group if name != "--help"] for title, group in GROUPS.items()} == found


@pytest.mark.parametrize("columns", [80, 120])
def test_help_shows_every_command_in_its_group(
    columns: int, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of the groups, each with its sentence on the same line."""
    monkeypatch.setenv("COLUMNS", str(columns))
    assert 0 == main(["--help"])
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= columns
    panels = re.split(r"^╭─ (.+?) ─+╮$", shown, flags=re.MULTILINE)[1:]
    lines = {
        title: dict(re.findall(r"^│ (\S+)(?: \(-h\))? +(\S.*?) +│$", panel, flags=re.MULTILINE))
        for title, panel in zip(panels[::2], panels[1::2], strict=True)
    }
    assert [(title, list(group.items())) for title, group in GROUPS.items()] == [
        (title, list(group.items())) for title, group in lines.items()
    ]


def test_sentences_are_in_plain_words() -> None:
    """A sentence begins with a verb, ends with a full stop, and leaves no reader to guess the subject."""
    sentences = [sentence for group in GROUPS.values() for sentence in group.values()]
    assert [] == [one for one in sentences if not re.fullmatch(r"[A-Z][^.]*\.", one)]
    vague = re.compile(
        r"\b(who|whom|whose|what|somebody|nobody|anew|room|give up|given up|push|pushed)\b", re.IGNORECASE
    )
    assert [] == [one for one in sentences if vague.search(one)]


def test_help_of_a_command(capsys: Captured) -> None:
    """It has the sentence of the list, and after it the list is the same as before."""
    main(["--help"])
    listed = capsys.readouterr().out
    sentences = {name: sentence for group in GROUPS.values() for name, sentence in group.items()}
    for name in READ_AND_STEER:
        assert 0 == main([name, "--help"])
        shown = capsys.readouterr().out
        assert f"Usage: mizzen {name}" in shown
        assert sentences[name] in shown
        assert "--json" in shown
    main(["--help"])
    assert listed == capsys.readouterr().out


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


@pytest.mark.processes
def test_list_of_commands_imports_no_command() -> None:
    """The list is there at once, however many commands there come to be."""
    listing = "import sys\nfrom mizzen.cli import main\nmain(['--help'])\nprint()\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", listing], cwd=HOUSE, capture_output=True, text=True, check=True, timeout=30
    )
    loaded = done.stdout.splitlines()[-1].split()
    assert [] == [name for name in loaded if name.startswith(("mizzen.commands.", "mizzen.actions", "core."))]


WORDS = {"LOG": "global", "SEQUENCE": "7", "N": "7", "TENANT": "ml"}
"""What stands for the words that an operator fills in."""


def commands_told_to_operators() -> list[str]:
    """Each command that the page quotes, with all that it says of options."""
    text = (HOUSE / "docs" / "operating.md").read_text()
    return sorted(set(re.findall(r"`mizzen ([^`]+)`", text)))


@pytest.mark.parametrize("told", commands_told_to_operators())
def test_command_told_to_operators_is_one(told: str) -> None:
    """Whoever was woken at night types it as it stands there: the command and its options are known, though an argument may be left out."""
    words = [WORDS.get(word, word) for word in told.split()]
    assert words[0] in commands()
    with contextlib.suppress(MissingArgumentError):
        app.parse_args(words, exit_on_error=False, print_error=False)

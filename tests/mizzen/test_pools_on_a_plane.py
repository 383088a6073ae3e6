"""An operator sets a pool of a plane that runs, by the commands, as they are typed."""

import json
from typing import Any

import pytest

from mizzen.cli import main
from tests.mizzen.running import RunningPlane

pytestmark = pytest.mark.processes

Captured = pytest.CaptureFixture[str]


def told(capsys: Captured, *words: str, exit_code: int = 0) -> tuple[str, str]:
    """What a command prints, and what it says is wrong."""
    capsys.readouterr()
    assert exit_code == main(words), capsys.readouterr().err
    return capsys.readouterr()


def listed(capsys: Captured) -> list[dict[str, Any]]:  # Any: whatever JSON can hold
    """The pools of r1."""
    rows: list[dict[str, Any]] = json.loads(
        told(capsys, "pools", "--region", "r1", "--json")[0]
    )  # Any: as above
    return rows


def test_pool_is_set_and_listed(plane: RunningPlane, capsys: Captured) -> None:
    """What was set is listed, and what is wrong is told with what to do next; then it is set back."""
    before = listed(capsys)
    pool = before[0]["pool"]
    words = ("pools", "set", pool, "--region", "r1")
    said, _ = told(capsys, *words, "--reserve", "1", "--limit", "97.5%")
    assert said.startswith(f"{pool} of r1 is searched by ")
    assert said.endswith("keeps 1 empty node in each zone, takes work up to 97.5% of the GPUs\n")
    assert [(1, 975)] * len(before) == [(row["reserve"], row["limit"]) for row in listed(capsys)]
    assert " 97.5%" in told(capsys, "pools")[0]
    _, wrong = told(capsys, "pools", "set", "no-such", "--region", "r1", "--reserve", "1", exit_code=1)
    assert f"there is no no-such; there are {pool}" in wrong
    _, wrong = told(capsys, *words, "--rules", "no-such", "--reserve", "9999", exit_code=1)
    assert "no-such: there is no rule of this name; there are " in wrong
    assert "has more than" in wrong
    _, wrong = told(capsys, *words, exit_code=2)
    assert "say what is to be set" in wrong
    back = json.loads(told(capsys, *words, "--reserve", "0", "--limit", "100%", "--json")[0])
    assert (0, 1_000) == (back["settings"]["reserve"], back["settings"]["limit"])
    assert [row | {"empty": 0, "used": 0} for row in before] == [
        row | {"empty": 0, "used": 0} for row in listed(capsys)
    ]

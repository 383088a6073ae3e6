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


def test_needs_policy_and_plans_are_typed(plane: RunningPlane, capsys: Captured) -> None:
    """Each command answers people and JSON; each mistake is told with how to write it. No planner is there, which is told too."""
    pool, words = listed(capsys)[0]["pool"], ("--region", "r1")
    _, wrong = told(capsys, "pools", "need", pool, "H100", "--survives", "zone", *words, exit_code=2)
    assert "needs: H100 is no need; write a GPU type and a count, as in H100=400\n" in wrong
    assert "--survives: zone is neither power_domain nor none\n" in wrong
    _, wrong = told(capsys, "pools", "need", pool, "B200=8", *words, exit_code=2)
    assert "needs: the region has no B200; it has " in wrong
    _, wrong = told(capsys, "pools", "policy", "--at-once", "many", exit_code=2)
    assert "--at-once: many is no share of a region's nodes; write --at-once 10%" in wrong
    _, wrong = told(capsys, "pools", "policy", "--automatic", "off", exit_code=2)
    assert "say which region by --region" in wrong
    _, wrong = told(capsys, "pools", "apply", "--plan", "0", *words, exit_code=2)
    assert "--plan: plans are numbered from 1" in wrong
    _, wrong = told(capsys, "pools", "apply", *words, exit_code=1)
    assert "there is no plan of r1; `mizzen pools plan --region r1` tells why" in wrong
    assert "no pool of r1 has needs; " in told(capsys, "pools", "plan", *words)[0]
    need = ("pools", "need", pool, "H100=8", "--survives", "none", "--by-hand", *words)
    assert [
        f"{pool} of r1 needs 8 H100, but not after the loss of a power domain",
        "plans of r1 are applied by hand from now on",
    ] == told(capsys, *need)[0].splitlines()[:2]
    assert "r1      by hand                10%" in told(capsys, "pools", "policy", *words)[0]
    assert [{"region": "r1", "policy": {"is_automatic": True, "at_once": 100}}] == json.loads(
        told(capsys, "pools", "policy", "--automatic", "on", *words, "--json")[0]
    )
    assert "REGION  POOL" in told(capsys, "pools", *words)[0].split("\n\n")[1]
    assert {"needs": 8, "node_type": "H100", "pool": pool}.items() <= listed(capsys)[0]["needs"][0].items()
    assert told(capsys, "pools", "plan", *words)[0].startswith("there is no plan of r1 yet: ")
    (shown,) = json.loads(told(capsys, "pools", "plan", *words, "--json")[0])
    assert (True, 0, False) == (shown["has_needs"], shown["plan"]["number"], shown["is_applied"])
    done = json.loads(told(capsys, "pools", "need", pool, "none", *words, "--json")[0])
    assert ([], False) == (done["settings"]["needs"], done["has_needs"])

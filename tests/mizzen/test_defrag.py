"""A plan of moves as it is shown, and kept in a file."""

from pathlib import Path

import msgspec
import pytest

from core.nouns.defragmentation import Freeing, Plan
from core.nouns.workload import Kind
from mizzen.actions.defrag import Executed, read_plan
from mizzen.actions.defrag_text import executed_lines, lines_of
from mizzen.terminal.output import CommandError
from tests.builders import EU
from tests.core.placing.scattered import Scattered
from tests.core.placing.test_defragmenting import plan_of


def a_plan(freeing: Freeing = Freeing.NODES) -> Plan:
    """One move of a gang, and one of a task that stands alone."""
    region = Scattered(4)
    region.run({0: 1}, 3)
    region.run({1: 1}, 2)
    region.run({2: 1, 3: 1}, 1, kind=Kind.SERVICE)
    return plan_of(region, freeing)


def test_plan_is_shown_with_before_and_after() -> None:
    """P30: what it gains and costs in one sentence, the region before and after, and each move with what it destroys."""
    lines = lines_of(a_plan())
    assert (
        "3 moves would free 3 nodes of eu and destroy 124 GPU-seconds of work: 8 GPUs a move; nothing is asked for yet"
        == lines[0]
    )
    text = "\n".join(lines)
    assert ["free", "nodes", "of", "4", "0", "3"] in [line.split() for line in lines]
    assert ["largest", "gang", "in", "a", "zone", "0", "24"] in [line.split() for line in lines]
    assert "FREES  MOVES          GPUS  FROM  TO    LOST  ASKS" in text
    assert "  eu-1   w-2               2  eu-1  eu-0   124  -" in text


def test_empty_plan_says_why() -> None:
    """P30: where nothing can come free it is told what stands in the way."""
    region = Scattered(2)
    assert ["nothing would come free in eu: no node is in use that could"] == lines_of(plan_of(region))
    region.run({0: 1}, 1, kind=Kind.INTERACTIVE)
    assert [
        "nothing would come free in eu",
        "",
        "stays in use:",
        "  1 node: interactive work is not moved by choice",
    ] == lines_of(plan_of(region))


def test_racks_are_named() -> None:
    """Where racks are to come free, each move tells which it frees."""
    region = Scattered(6)
    for node in (0, 2, 4):
        region.run({node: 1}, 8)
    lines = lines_of(plan_of(region, Freeing.RACKS))
    assert any(line.startswith("  rack ") for line in lines)
    assert "free 1 rack of eu" in lines[0]


def test_plan_survives_its_file(tmp_path: Path) -> None:
    """It is read as it was written; one with a field that this build does not know, or of another version, is refused."""
    plan, path = a_plan(), tmp_path / "plan.json"
    path.write_bytes(msgspec.json.encode(plan))
    assert plan == read_plan(path)
    path.write_bytes(msgspec.json.encode(msgspec.to_builtins(plan) | {"more": 1}))
    with pytest.raises(CommandError, match="is no plan"):
        read_plan(path)
    path.write_bytes(msgspec.json.encode(msgspec.to_builtins(plan) | {"version": 2}))
    with pytest.raises(CommandError, match="of another build"):
        read_plan(path)


def test_requested_moves_are_told() -> None:
    """P30: parts of the plan that do not hold any more are left out, and named."""
    left_out = (((7, 7),), "w-3 is not there any more")
    some = executed_lines(Executed(EU, "d-4", ((1, 2),), 2, 3, 1_800_000_000_000, (left_out,)))
    assert some[0].startswith(
        "d-4 frees eu-[1-2] (2 nodes): 3 moves are asked for, and work that has not agreed in 30m stays"
    )
    assert ["  left out: eu-7: w-3 is not there any more"] == some[1:]
    none = executed_lines(Executed(EU, "", (), 0, 0, 0, (left_out,) * 22))
    assert "nothing of this plan holds any more in eu; nothing is asked for" == none[0]
    assert "  and 2 more" == none[-1]

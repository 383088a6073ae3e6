"""`mizzen policy`, on a small trace: shares and comparisons for people and as JSON, and mistakes in one sentence."""

import json
from pathlib import Path

import pytest

from core.sharing.policies import POLICIES
from mizzen.cli import main
from tests.mizzen.policy_trace import SPEEDS, Captured, five_jobs, told


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """Five jobs, and a file of speeds beside them."""
    return five_jobs(tmp_path)


def test_list_names_every_policy(capsys: Captured) -> None:
    """A line each, as JSON too."""
    lines = told(capsys, "list").splitlines()
    assert [*POLICIES] == [line.split()[0] for line in lines[1:]]
    assert [*POLICIES] == [row["policy"] for row in json.loads(told(capsys, "list", "--json"))]


def test_shares_of_a_trace(trace: str, capsys: Captured) -> None:
    """By class; whoever gains most from the V100 has it, and twice the weight is a class of its own."""
    found = json.loads(told(capsys, "solve", trace, "--gpus", "V100=2,k80=2", "--json"))
    by_class = {row["class"]: row for row in found["classes"]}
    assert ["slow x1", "slow x1 weight 2.0", "fast x1", "fast x2"] == list(by_class)
    assert ["3", "5"] == by_class["fast x1"]["jobs"]
    assert by_class["fast x1"]["shares"]["here/v100"] > by_class["slow x1"]["shares"]["here/v100"]
    text = told(capsys, "solve", trace, "--gpus", "V100=2,k80=2")
    assert "CLASS" in text
    assert "max_min: objective " in text


def test_policies_are_compared(trace: str, capsys: Captured, tmp_path: Path) -> None:
    """Those that are named, in this order, each with its figures; a move that costs something makes completion no sooner."""
    words = ("compare", trace, "--gpus", "v100=2,k80=2", "--workers", "1")
    free = json.loads(told(capsys, *words, "--policies", "max_min,fifo,sjf", "--json"))
    assert ["max_min", "fifo", "sjf"] == [one["policy"] for one in free["policies"]]
    assert [5, 5, 5] == [one["summary"]["jobs"] for one in free["policies"]]
    drawing = tmp_path / "compared.svg"
    text = told(capsys, *words, "--policies", "fifo,allox", "--charge", "5m", "--plot", str(drawing))
    assert "POLICY" == text.split()[0]
    assert "allox: 4: it has 2 GPUs, and AlloX is for jobs of one GPU alone" in text
    assert "<svg" in drawing.read_text(encoding="utf-8")


def test_broken_promises_are_named(trace: str, capsys: Captured) -> None:
    """Of two jobs that are to end within .6 and 20 times their length on a V100, the first cannot; without promises there is no column."""
    path = Path(trace)
    lines = path.read_text(encoding="utf-8").splitlines()
    text = "\n".join(
        line.replace("\t-1\t", f"\t{part}\t") for line, part in zip(lines, (0.6, 20), strict=False)
    )
    path.write_text(text, encoding="utf-8")
    words = (
        "compare",
        trace,
        "--gpus",
        "v100=2,k80=2",
        "--policies",
        "min_cost,min_cost,fifo",
        "--workers",
        "1",
    )
    found = told(capsys, *words).splitlines()
    assert ["LATE", "1/2", "1/2"] == [line.split()[-1] for line in found[:3]]
    assert ["min_cost: later than promised: 1", "fifo: later than promised: 1"] == found[3:]
    assert [["1"], ["1"]] == [
        one["summary"]["late"] for one in json.loads(told(capsys, *words, "--json"))["policies"]
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    assert "LATE" not in told(capsys, *words)


MISTAKES = {
    "--gpus x": "--gpus: 'x' is no number of GPUs of a type; write for example V100=36,eu/K80=24",
    "--gpus v100=0x8": "--gpus: 'v100=0x8' is no number of GPUs of a type",
    "--gpus v100=2@0": "--gpus: 'v100=2@0' has no price: more than 0 dollars, as in H100=64@2.50",
    "--gpus v100=2@free": "--gpus: 'v100=2@free' is no number of GPUs of a type",
    "--gpus v100=2 --entities ads=2": "--entities: no job is of ads; the jobs here are of no entity, as in any trace",
    "--gpus v100=2 --charge 10m --round 1m": "--charge: a move that costs 10m leaves no time to work in rounds of 1m; make rounds longer",
    "--gpus v100=2 --charge 6m": "leaves no time to work in rounds of 6m",
    "--gpus v100=2,v100=3": "--gpus: here/v100 stands twice",
    "--gpus v100=2 --policies maxmin": "there is no policy `maxmin` (did you mean `max_min`?)",
    "--gpus v100=2 --round soon": "--round: soon is no span",
    "--gpus v100=2 --round 0s": "--round is 1 s at least",
    "--gpus h100=2 --policies fifo": "--gpus: no speeds are known on h100; they are on k80, v100",
    "--gpus v100=1 --policies fifo": "it needs 2 GPUs of one type in one region, and the most are 1",
    "--gpus v100=2 --speeds nowhere.yaml": "nowhere.yaml",
    "--gpus v100=2 --plot nowhere/at/all.svg": "--plot: there is no folder nowhere/at",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_mistake_is_one_sentence(words: str, trace: str, capsys: Captured) -> None:
    """On standard error."""
    assert main(["policy", "compare", trace, "--workers", "1", *words.split()]) in {1, 2}
    out, err = capsys.readouterr()
    assert ("", 1) == (out, err.count("\n"))
    assert MISTAKES[words] in err


def test_trace_that_cannot_be_read(tmp_path: Path, capsys: Captured) -> None:
    """There is none, it has no speeds beside it, or a line is short: the line is named."""
    path = tmp_path / "jobs.trace"
    for text, said in (
        (None, "cannot be read"),
        ("slow\tx\n", "no speeds are known: name a file of them with --speeds"),
    ):
        if text is not None:
            path.write_text(text, encoding="utf-8")
        assert 1 == main(["policy", "compare", str(path), "--gpus", "v100=2"])
        assert said in capsys.readouterr().err
    (tmp_path / "speeds.yaml").write_text(SPEEDS, encoding="utf-8")
    assert 1 == main(["policy", "compare", str(path), "--gpus", "v100=2"])
    assert "jobs.trace: line 1" in capsys.readouterr().err

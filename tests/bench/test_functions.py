"""The benchmarks of real calls: what they count from what was written, when they kill, what they read of others, and small runs."""

import argparse
import json
import sys
from collections import Counter, deque
from itertools import islice
from pathlib import Path

import msgspec
import pytest

from bench import beside_gangs, functions_killed, short_tasks
from bench.support.functions.programs.timing import Forms, Work, in_window, rate_of, tell
from bench.support.functions.programs.token_calls import outcome_of
from bench.support.functions.running import ProgramFailed, told_by
from bench.support.functions.timed import Timed, fastest, forms_of, peers_of
from bench.support.functions.tokens import Written, figures_of, read
from mizzen.sdk.mizzen.functions import CallFailed, CallLost, CallRefused
from tests.bench.small import small

HOUSE = Path(__file__).resolve().parents[2]
SMALL = Work(mapped=30, called=20, in_flight=3, one_by_one=15, warm=2)


def timed(version: str, fast: float, chunks: float | None = None) -> Timed:
    """One round of a system with two forms, of which one is twice as fast."""
    chunked = {} if chunks is None else {"pool": chunks}
    calls = {"tasks": fast / 10, "actors": fast / 20}
    spans = {"task": [2_000 / fast] * 10, "actor": [1_000 / fast] * 10}
    return Timed(version, {"tasks": fast / 2, "actors": fast}, chunked, calls, spans)


# short_tasks


def test_fastest_form_counts() -> None:
    """The highest rate in the median of rounds, and the shortest span of all rounds."""
    forms = forms_of([timed("1", 1_000.0), timed("1", 3_000.0), timed("1", 2_000.0)])
    assert {"map_per_s", "call_per_s", "call_p50_ms", "call_p99_ms"} == set(forms), "there are no chunks"
    assert {"tasks": 1_000.0, "actors": 2_000.0} == forms["map_per_s"]
    assert ("actors", "actor") == (
        fastest("map_per_s", forms["map_per_s"]),
        fastest("call_p50_ms", forms["call_p50_ms"]),
    )
    assert 0.5 == forms["call_p50_ms"]["actor"]


def test_best_peer_is_the_one_to_beat() -> None:
    """Of each figure another; chunks of others stand beside ours alone."""
    found = short_tasks.findings_of(
        [timed("ours", 6_000.0, 90_000.0)],
        {"ray": [timed("2.6", 3_000.0, 60_000.0)], "dask": [timed("2026", 500.0)]},
    )
    bars = {bar.name: (bar.value, bar.met) for bar in found.bars}
    assert (2.0, True) == bars["map_over_best_peer"]
    assert (600.0, False) == bars["call_per_s"]
    assert 1.5 == found.figures["chunks_over_best_peer"]
    assert 0.5 == found.figures["call_p50_over_best_peer"]
    assert 1_500.0 == found.figures["map_per_s_ray_tasks"]
    told = {one.name: (one.value, one.beside) for one in found.yardsticks}
    assert (3_000.0, "map_per_s") == told["ray map_per_s"]
    assert "dask chunks_per_s" not in told
    assert all(one.beside in found.figures for one in found.yardsticks if one.beside)


def test_figure_names_all_systems_and_their_best() -> None:
    """Each in its fastest form."""
    drawn = short_tasks.figure_of(
        {"mizzen": [timed("ours", 6_000.0)], "ray": [timed("2.6", 3_000.0, 60_000.0)]}
    )
    assert all(f">{text}<" in drawn for text in ("mizzen", "ray", "6e+03", "3e+03"))


def test_without_peers_there_is_nothing_to_beat(capsys: pytest.CaptureFixture[str]) -> None:
    """Which is said aloud; the bars of ours stay."""
    assert [] == short_tasks.present("")
    assert "there is no --peers" in capsys.readouterr().err
    found = short_tasks.findings_of([timed("ours", 60_000.0)], {})
    assert {"map_per_s": True, "call_per_s": True, "call_p50_ms": True} == {
        bar.name: bar.met for bar in found.bars
    }


def test_missing_peer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The interpreter is asked, not this one."""
    for module in ("distributed", "hyperqueue"):
        (tmp_path / f"{module}.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    isolated = tmp_path / "python"
    isolated.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    isolated.chmod(0o755)
    assert ["dask", "hyper_queue"] == short_tasks.present(str(isolated))
    assert f"ray is left out: {isolated} has no module ray" in capsys.readouterr().err
    assert ["dask", "hyper_queue"] == peers_of(str(isolated))


def test_interpreter_must_be_a_program() -> None:
    """Found on the path as a shell would."""
    assert Path(short_tasks.interpreter("sh")).is_absolute()
    with pytest.raises(argparse.ArgumentTypeError, match="no program"):
        short_tasks.interpreter("/nowhere/python")


def test_what_a_program_tells_is_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All forms, each with rates, and a span for each single call."""
    monkeypatch.setattr(sys, "argv", ["", json.dumps(SMALL._asdict())])
    made = Counter[str]()

    def mapped(count: int) -> list[int]:
        made["mapped"] += count
        return list(range(count))

    def one(number: int) -> int:
        made["one"] += 1
        return number

    forms = Forms({"map": mapped}, {}, {"window": lambda count, _: list(range(count))}, {"one": one})
    tell("msgspec", forms, SMALL)
    found = msgspec.json.decode(capsys.readouterr().out, type=Timed)
    assert msgspec.__version__ == found.version
    assert found.map_per_s["map"] > 0
    assert {} == found.chunks_per_s
    assert SMALL.one_by_one == len(found.call_ms["one"])
    assert {"mapped": 2 + 30, "one": 10 + 15} == made, "those that warm up are made too"


def test_wrong_values_are_no_rate() -> None:
    """A form that makes no calls is found out."""
    with pytest.raises(AssertionError, match="another value"):
        rate_of(lambda _: [], 10)


def test_window_keeps_so_many_in_flight() -> None:
    """As many as it may and no more, and every value comes."""
    out: deque[int] = deque()
    most = 0

    def submit(number: int) -> int:
        nonlocal most
        out.append(number)
        most = max(most, len(out))
        return number

    def result(number: int) -> int:
        out.remove(number)
        return number

    assert list(range(20)) == in_window(20, 4, submit, result)
    assert (4, 0) == (most, len(out))


async def test_program_without_a_result_has_failed(tmp_path: Path) -> None:
    """With the last line that it wrote."""
    with pytest.raises(ProgramFailed, match=r"no_calls ended with 1 and no result: .*No module named"):
        await told_by("no_calls", told=Timed, directory=tmp_path, seconds_max=30.0)


# functions_killed


def test_calls_are_counted_from_what_was_written() -> None:
    """Tokens 0, 3 and 6 are `once`; 7 has no end, 4 two, and 5 was begun again after a kill, which is no fault."""
    begins = Counter({0: 1, 1: 1, 2: 1, 3: 2, 4: 1, 5: 2, 7: 1, 8: 1})
    ends = {number: ["done"] for number in (0, 1, 5)}
    ends |= {2: ["failed"], 3: ["lost"], 4: ["done", "done"], 6: ["lost"], 8: ["wrong"]}
    assert {
        "unanswered": 1.0,
        "answered_twice": 1.0,
        "answered_wrongly": 1.0,
        "once_begun_twice": 1.0,
        "lost_share": 3 / 6,
        "once_lost_share": 2 / 3,
        "begun_again_share": 1 / 6,
    } == figures_of(Written(begins, ends), 9)


def test_files_that_cannot_be_so_are_no_measurement() -> None:
    """A call that is done has begun, and nothing has a token that no caller had."""
    with pytest.raises(AssertionError, match="whose begin was not written"):
        figures_of(Written(Counter(), {0: ["done"]}), 1)
    with pytest.raises(AssertionError, match="that no caller had"):
        figures_of(Written(Counter({9: 1}), {}), 9)


def test_all_files_are_read(tmp_path: Path) -> None:
    """Of every executor and every caller; one that wrote nothing is none."""
    (tmp_path / "begins").mkdir()
    for name, tokens in (("1.1", (0, 300)), ("2.2", (300,))):
        (tmp_path / "begins" / name).write_bytes(b"".join(one.to_bytes(8, "little") for one in tokens))
    (tmp_path / "ends-0").write_text("0 done\n300 lost\n300 done\n")
    found = read(tmp_path / "begins", [tmp_path / "ends-0", tmp_path / "ends-1"])
    assert Counter({300: 2, 0: 1}) == found.begins
    assert {0: ["done"], 300: ["lost", "done"]} == found.ends


def test_ends_are_told_in_a_word() -> None:
    """A value that is not the token is wrong."""
    values = (7, 8, CallLost("x"), CallRefused("x"), CallFailed("x"), ValueError("x"))
    assert ["done", "wrong", "lost", "refused", "failed", "failed"] == [outcome_of(one, 7) for one in values]


def test_victims_are_killed_in_turn() -> None:
    """By the same schedule each time; a quarter soon after the one before, else once calls go on."""
    kills = list(islice(functions_killed.schedule((3.0, 4.0)), 600))
    assert kills == list(islice(functions_killed.schedule((3.0, 4.0)), 600))
    assert list(functions_killed.VICTIMS) * 200 == [victim for victim, _, _ in kills]
    soon = [span for _, waits, span in kills if not waits]
    assert 100 < len(soon) < 200
    assert max(soon) <= functions_killed.SOON_SECONDS
    assert all(3.0 <= span <= 4.0 for _, waits, span in kills if waits)


def test_each_token_has_one_caller() -> None:
    """Whatever the number of calls."""
    effort = msgspec.structs.replace(functions_killed.FULL, calls=1_003)
    callers = functions_killed.callers_of(effort, Path("there"))
    tokens = [token for one in callers for token in range(one.first, one.first + one.many)]
    assert list(range(1_003)) == tokens
    assert effort.callers == len({one.ends for one in callers})


# beside_gangs


def test_worst_sort_of_start_counts() -> None:
    """Medians over medians."""
    alone = {"single": [1.0, 2.0, 3.0], "gang": [4.0] * 3, "real": [10.0] * 3}
    beside = {"single": [2.0, 2.0, 9.0], "gang": [8.0] * 3, "real": [9.0] * 3}
    found = beside_gangs.figures_of(alone, beside, beside_gangs.Rates([100.0, 300.0], [50.0, 60.0]))
    ratios = {name: found[name] for name in ("single_p50_ratio", "gang_p50_ratio", "real_p50_ratio")}
    assert {"single_p50_ratio": 1.0, "gang_p50_ratio": 2.0, "real_p50_ratio": 0.9} == ratios
    assert 2.0 == found["start_p50_ratio"]
    assert (200.0, 55.0) == (found["map_per_s_alone"], found["map_per_s_beside"])


def test_rate_is_between_two_lines() -> None:
    """By the clock of the program that told them."""
    before, now = beside_gangs.Told(10.0, 500), beside_gangs.Told(12.5, 1_000)
    assert 200.0 == now.per_second_since(before)


# Small runs.


@pytest.mark.processes
def test_short_tasks_in_small(tmp_path: Path) -> None:
    """Every call has its value, or there would be no rate."""
    figures = small("short_tasks", tmp_path)
    assert all(figures[name] > 0 for name in ("map_per_s", "chunks_per_s", "call_per_s", "call_p50_ms"))


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.timeout(120)
def test_beside_gangs_in_small(tmp_path: Path) -> None:
    """All sorts of starts are measured in both phases, and calls go on meanwhile."""
    figures = small("beside_gangs", tmp_path)
    assert all(figures[name] > 0 for name in ("start_p50_ratio", "map_per_s_beside", "map_per_s_alone"))
    both = {name.removesuffix("_all_cores") for name in figures}
    assert 2 * len(both) == len(figures), "all is measured on either plane"


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.timeout(120)
def test_functions_killed_in_small(tmp_path: Path) -> None:
    """The promise holds in small too, and each sort of process was killed."""
    figures = small("functions_killed", tmp_path)
    kept = (
        "unanswered",
        "answered_twice",
        "answered_wrongly",
        "once_begun_twice",
        "lost_share",
        "other_deaths",
    )
    assert [0.0] * len(kept) == [figures[name] for name in kept]
    assert all(figures[f"kills_{victim}"] > 0 for victim in functions_killed.VICTIMS)
    assert figures["once_lost_share"] < 1

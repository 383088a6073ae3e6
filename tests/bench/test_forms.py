"""Every benchmark tells how long it takes and has a form of at most five minutes; yardsticks stand beside figures that there are."""

import argparse
import io
import shlex

import pytest
from rich.console import Console

from bench import global_rate, start
from bench.__main__ import add_options, benchmarks, in_short, main
from bench.support.durations import DURATIONS, SHORT_MINUTES_MAX, Duration
from bench.support.report import Findings, Machine, Yardstick, print_report, report_of

HERE = Machine("a processor", 2, 0.1, 0.1, "Linux", "3.11", "3.40", "uvloop", "2.15")


def test_every_benchmark_tells_how_long_it_takes() -> None:
    """The table has each that is found by its file's name."""
    assert [] == [name for name in benchmarks() if name not in DURATIONS]


@pytest.mark.parametrize("name", benchmarks())
def test_short_form_takes_five_minutes_at_most(name: str) -> None:
    """The options of a short form are options that the benchmark has, and a benchmark without one is short itself."""
    duration = DURATIONS[name]
    parser = argparse.ArgumentParser()
    has_options = add_options(name, parser)
    if duration.is_short:
        assert duration.minutes <= SHORT_MINUTES_MAX
    else:
        assert has_options
        assert parser.parse_args(shlex.split(duration.short)) != parser.parse_args([])
        assert 0 < duration.short_minutes <= SHORT_MINUTES_MAX < duration.minutes


@pytest.mark.parametrize(
    ("words", "seeds"), [(["--short"], (1,)), (["--short", "--seeds", "2,3"], (2, 3)), ([], (1, 2, 3))]
)
def test_short_form_is_played(
    words: list[str], seeds: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--short` gives the benchmark its options, and options that are given themselves count."""
    played: list[argparse.Namespace] = []

    def run(*_: object, chosen: argparse.Namespace, **__: object) -> Findings:
        played.append(chosen)
        return Findings({})

    monkeypatch.setattr("bench.slo.run", run)
    assert 0 == main(["slo", *words, "--json"])
    assert [seeds] == [one.seeds for one in played]


def test_short_form_of_all() -> None:
    """A benchmark with options is given those of its short form, one without is played as it is."""
    found = benchmarks()
    assert in_short("scan", found["scan"]) is found["scan"]
    assert (1,) == in_short("slo", found["slo"]).keywords["chosen"].seeds  # type: ignore[attr-defined]


def test_duration_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` has a line for each benchmark."""
    with pytest.raises(SystemExit):
        main(["--help"])
    told = capsys.readouterr().out
    assert all(f"  {name} " in told for name in benchmarks())
    assert "2 h; --short: 4 min (--seeds 1)" == Duration(120, "--seeds 1", 4).text
    assert "3 min" == Duration(3).text


def test_yardstick_stands_beside_the_figure_of_the_same_work() -> None:
    """The table shows both, and a yardstick beside a figure that is not there is a mistake of the benchmark."""
    yardsticks = [Yardstick("others_per_s", 407, "elsewhere", "ours_per_s"), Yardstick("rough", 3, "a guess")]
    report = report_of("start", Findings({"ours_per_s": 1_234.0}, [], yardsticks), HERE, 61.2)
    console = Console(width=160, record=True, file=io.StringIO())
    print_report(report, console)
    lines = console.export_text().splitlines()
    (line,) = [line for line in lines if "others_per_s" in line]
    assert ["others_per_s", "407", "ours_per_s", "1,234", "elsewhere"] == line.split()
    assert "took 61 s" in lines[0]
    with pytest.raises(AssertionError, match="ours_per_s"):
        report_of("start", Findings({}, [], yardsticks), HERE)


@pytest.mark.parametrize("benchmark", [start, global_rate])
def test_peers_are_compared_by_the_same_work(benchmark: object) -> None:
    """Emulated starts beside Slurm's array, grants beside its interactive allocation, real processes beside HyperQueue."""
    yardsticks: list[Yardstick] = benchmark.YARDSTICKS  # type: ignore[attr-defined]
    beside = {one.name: (one.beside, one.value) for one in yardsticks}
    assert all(figure for figure, _ in beside.values())
    expected = {
        "Slurm array_of_5000_per_s": ("burst_per_s", 407),
        "Slurm interactive_allocation_p50_ms": ("single_grant_p50_ms", 4.7),
        "Slurm gangs_8x8_per_s": ("gang_burst_per_s", 311),
        "HyperQueue submit_to_start_p50_ms": ("real_p50_ms", 20.7),
        "HyperQueue tasks_per_s": ("real_burst_per_s", 493),
    }
    if benchmark is global_rate:
        expected = {"Slurm array_of_5000_per_s": ("bound_per_s", 407)}
        assert not [name for name in beside if "HyperQueue" in name], "it starts real processes"
    assert expected.items() <= beside.items()

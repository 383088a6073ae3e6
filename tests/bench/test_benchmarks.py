"""Benchmarks run, and report in one form. What they measure here means nothing: they are told to be quick."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from bench.support.report import Bar, Findings, Yardstick, at_least, at_most, machine, print_report, report_of
from bench.support.store.region_history import RegionHistory
from core.images.region import RegionImage
from core.nouns.ids import LogName

HOUSE = Path(__file__).resolve().parents[2]

REPORT = Findings(
    figures={"appends_per_s": 123_456.789, "delay_ms": 0.123456},
    bars=[
        at_least("appends_per_s", 123_456.789, 100_000, "nothing"),
        at_most("delay_ms", 0.2, 0.1, "the disk is slow"),
    ],
    yardsticks=[Yardstick("others_per_s", 1_000, "somewhere")],
)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`python -m bench`, as people type it."""
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(command, cwd=HOUSE, capture_output=True, text=True, check=False)


@pytest.mark.processes
@pytest.mark.parametrize(
    ("name", "bars"),
    [
        pytest.param("ack_latency", ["p99_ms", "operations_per_s"], marks=pytest.mark.slow),
        pytest.param(
            "boot",
            [f"followers_up_seconds_{size}" for size in ("10k", "10k_busy", "100k", "100k_busy")],
            marks=pytest.mark.slow,
        ),
        ("bus", ["request_p50_ratio", "messages_per_s"]),
        ("estimate", ["band_hit_rate", "estimate_p99_100k_ms"]),
        pytest.param("defrag", ["plan_cpu_seconds", "freed_share"], marks=pytest.mark.slow),
        ("remembered", ["queue_gb", "open_seconds"]),
        ("simulate", ["messages_per_s"]),
        ("simulate_faults", ["hour_seconds", "messages_per_s"]),
        ("start", ["single_p50_ms", "single_p99_ms", "gang_p50_ms", "real_p50_ms", "burst_per_s"]),
    ],
)
def test_benchmark_reports_its_bars(name: str, bars: list[str], tmp_path: Path) -> None:
    """Those that the others do not show: over a real server, and of a whole plane."""
    done = run(name, "--json", "--quick", "--directory", str(tmp_path))
    assert 0 == done.returncode, done.stderr
    report = json.loads(done.stdout)
    assert bars == [bar["name"] for bar in report["bars"]]
    assert all(report["figures"][bar["name"]] == bar["value"] > 0 for bar in report["bars"])
    beside = [yardstick["beside"] for yardstick in report["yardsticks"] if "beside" in yardstick]
    assert all(report["figures"][figure] > 0 for figure in beside)


@pytest.mark.processes
@pytest.mark.parametrize(
    ("name", "kept"),
    [
        pytest.param("backfill", ["promises_broken"], marks=pytest.mark.slow),
        ("commit", ["retries_exhausted"]),
        ("decision", ["decided_otherwise", "cache_wrong"]),
        ("global_rate", ["not_durable", "rank_inversions", "full_not_durable", "full_idle_gpus"]),
        ("maintenance", ["missed_windows", "early_stops", "operations_unasked"]),
        pytest.param("plane_loss", ["task_deaths", "double_starts"], marks=pytest.mark.slow),
        ("rate_limit", ["over_budget"]),
        ("scan", ["order_differs"]),
    ],
)
def test_rules_hold_in_small_too(name: str, kept: list[str], tmp_path: Path) -> None:
    """Those that count what must never be: their bars are met however little is played, and something was."""
    done = run(name, "--json", "--quick", "--directory", str(tmp_path))
    assert 0 == done.returncode, done.stderr
    report = json.loads(done.stdout)
    bars = {bar["name"]: bar for bar in report["bars"]}
    assert [0.0] * len(kept) == [bars[name]["value"] for name in kept]
    assert all(bars[name]["met"] for name in kept)
    assert any(value > 0 for value in report["figures"].values())


@pytest.mark.processes
def test_log_benchmark_reports_in_the_form(tmp_path: Path) -> None:
    """One JSON object: every bar with its value and whether it was met, whatever that is; and nothing is left behind."""
    done = run("log", "--json", "--quick", "--directory", str(tmp_path))
    assert 0 == done.returncode, done.stderr
    report = json.loads(done.stdout)
    assert {"name", "machine", "figures", "bars", "yardsticks", "took_seconds"} == set(report)
    assert "log" == report["name"]
    assert {"cpu", "cores", "load", "fsync_ms", "system", "python", "loop", "sqlite", "nats"} == set(
        report["machine"]
    )
    assert report["machine"]["fsync_ms"] > 0
    bars = {bar["name"]: bar for bar in report["bars"]}
    assert {
        "append_ratio_1",
        "append_ratio_16",
        "append_ratio_256",
        "memory_append_us",
        "read_events_per_s",
        "replay_events_per_s",
        "startup_growth",
        "append_p99_added_ms",
        "archive_bytes_per_event",
    } == set(bars)
    for name, bar in bars.items():
        assert report["figures"][name] == bar["value"]
        assert bar["value"] > 0 or name == "append_p99_added_ms"
        assert isinstance(bar["met"], bool)
        assert bar["met"] or bar["limited_by"], "a missed bar says what limits it"
    assert all(set(yardstick) == {"name", "value", "source"} for yardstick in report["yardsticks"])
    assert [] == list(tmp_path.iterdir())


@pytest.mark.processes
def test_unknown_benchmark_is_refused() -> None:
    """The error names those that there are."""
    done = run("speed")
    assert 2 == done.returncode
    assert "log" in done.stderr


def test_missing_directory_is_refused(tmp_path: Path) -> None:
    """Before anything is measured, and by name."""
    missing = tmp_path / "missing"
    done = run("log", "--quick", "--directory", str(missing))
    assert 2 == done.returncode
    assert f"{missing}: there is no such directory" in done.stderr


def test_bars_are_met_or_missed() -> None:
    """A bar at its bound is met; a missed one carries its sentence, a met one none."""
    assert Bar("a", 5, 5, True, "at_least") == at_least("a", 5, 5, "why")
    assert Bar("a", 4, 5, False, "at_least", "why") == at_least("a", 4, 5, "why")
    assert Bar("a", 5, 5, True, "at_most") == at_most("a", 5, 5, "why")
    assert Bar("a", 6, 5, False, "at_most", "why") == at_most("a", 6, 5, "why")


def test_report_for_people(tmp_path: Path) -> None:
    """The table shows each figure once, its bar beside it, and says what limits what was missed."""
    console = Console(width=120, record=True, file=io.StringIO())
    report = report_of("log", REPORT, machine(tmp_path))
    assert {"appends_per_s": 123_500.0, "delay_ms": 0.1235} == report.figures
    print_report(report, console)
    text = console.export_text()
    assert 1 == text.count("appends_per_s")
    assert "123,500" in text
    assert "≥ 100,000" in text
    assert "delay_ms missed: the disk is slow" in text
    assert "others_per_s" in text


def test_history_folds() -> None:
    """What the benchmark replays is a life that a region can have, the same every time."""
    images = []
    for _ in range(2):
        image = RegionImage.empty()
        facts = RegionHistory(LogName("region.bench")).facts()
        for _ in range(20_000):
            image.fold(next(facts))
        images.append(image)
    assert images[0].digest() == images[1].digest()
    assert 500 < len(images[0].capacity.live()) < 2_000
    assert len(images[0].attempts.rows) < 4_000, "what has ended is forgotten"

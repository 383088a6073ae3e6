"""The benchmarks of rounds run in small, and the published mechanism gives the figures of its authors."""

import argparse
from collections import Counter
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from bench import equal_optima, policy_jct, policy_load, round_length, rounds_share
from bench.support.sharing import plays
from bench.support.sharing.load import dice_of, poisson_load
from bench.support.sharing.static import Kind, instance, played, shortfall
from bench.support.sharing.tables import has_gavel, made_up_table
from core.sharing.accounts import Place
from core.sharing.problem import MILLIONTHS, Column, JobClass, Shares, SharingProblem
from core.sharing.rounds import Present


def test_rounds_share_reports_its_bars(tmp_path: Path) -> None:
    """A few instances keep both bars, as all do: the shortfall is no matter of how many are played."""
    found = rounds_share.run(tmp_path, is_quick=True)
    assert ["shortfall_max_rounds", "pair_share_error"] == [bar.name for bar in found.bars]
    assert all(bar.met for bar in found.bars)
    assert 0.0 < found.figures["gang_undelivered"] < 0.1


def test_the_part_of_jobs_and_places_that_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of six places two are off by 6 % and one by 20 %; of three jobs one, as in another what is missing in a place is had in the other."""
    received = {(0, 0): 48, (0, 1): 50, (1, 0): 47, (1, 1): 53, (2, 0): 40, (2, 1): 50}
    problem = SharingProblem(
        tuple(JobClass(f"{job}") for job in range(3)),
        (Column("here", "one"), Column("here", "other")),
        (2, 2),
        np.ones((3, 2)),
    )
    shares = Shares(np.full((3, 2), MILLIONTHS // 2), problem.none_together)
    present = Present(problem, [("0",), ("1",), ("2",)], shares)
    counted = Counter({(f"{job}", Place(column)): rounds for (job, column), rounds in received.items()})
    monkeypatch.setattr(rounds_share, "instance", lambda kind, seed: present)
    monkeypatch.setattr(rounds_share, "played", lambda present, rounds, stay: iter([counted]))
    figures = rounds_share.share_errors("pair", Kind(), 1)
    assert (1 / 3, 3 / 6) == (figures["pair_jobs_off"], figures["pair_places_off"])


OF_TRACES = ["published_error", "max_min_jct_hours", "makespan_hours"]
OF_LOADS = ["loaded_ratio", "light_ratio", "charged_ratio", "space_ratio"]


@pytest.mark.parametrize("is_there", [True, False])
def test_policy_jct_reports_its_bars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_there: bool
) -> None:
    """Every bar has a figure, though little is played; without the published data, those of its traces have no bar."""
    if is_there and not has_gavel():
        pytest.skip("the published data is not there")
    if not is_there:
        monkeypatch.setattr(policy_jct, "has_gavel", lambda: False)
        table = made_up_table()
        monkeypatch.setattr(policy_jct, "gavel_table", lambda: table)
        monkeypatch.setattr(plays, "gavel_table", lambda: table)
        monkeypatch.setattr(policy_jct, "FOLDER", tmp_path)
    found = policy_jct.run(tmp_path, is_quick=True)
    assert (OF_TRACES * is_there) + OF_LOADS == [bar.name for bar in found.bars]
    assert float(is_there) == found.figures["has_published_data"]
    assert all(found.figures[name] > 0 for name in [*OF_TRACES, *OF_LOADS])


@pytest.mark.parametrize(
    ("benchmark", "words", "names"),
    [
        (policy_load, ["--policies", "max_min,sjf"], {"max_min_0.8_hours", "sjf_0.8_fairness"}),
        (
            round_length,
            ["--rounds", "360", "--charges", "0,600"],
            {"hours_360_0", "hours_360_600", "kept_360"},
        ),
        (equal_optima, [], {"ratio_all", "faster_weight_5", "slower_first_quarter"}),
    ],
)
def test_reported_benchmarks_draw_what_they_measure(
    benchmark: ModuleType, words: list[str], names: set[str], tmp_path: Path
) -> None:
    """Options choose what is played; a charge makes jobs no faster; of equal optima the chosen one is not the slower for all."""
    parser = argparse.ArgumentParser()
    benchmark.options(parser)
    figure = tmp_path / "figure.svg"
    chosen = parser.parse_args([*words, "--figure", str(figure)])
    if benchmark is policy_load:
        chosen.loads = "0.8"
    figures = benchmark.run(tmp_path, is_quick=True, chosen=chosen).figures
    assert names <= figures.keys()
    assert figure.read_text().startswith("<?xml")
    assert figures.get("hours_360_600", 1.0) >= figures.get("hours_360_0", 1.0)
    assert figures.get("ratio_all", 1.0) <= 1.0


def test_one_trace_is_played_as_asked(tmp_path: Path) -> None:
    """With `--trace` the figures are of that trace, policy, fleet, charge and round alone."""
    parser = argparse.ArgumentParser()
    policy_jct.options(parser)
    trace = tmp_path / "some.trace"
    line = "A3C\tcommand\tfolder\t-n\t1\t1000\t1\t1\t-1\t{}\n"
    trace.write_text("".join(line.format(100 * number) for number in range(4)))
    words = ["--trace", str(trace), "--gpus", "V100=1", "--policy", "fifo", "--charge", "30", "--round", "60"]
    found = policy_jct.run(tmp_path, is_quick=False, chosen=parser.parse_args(words))
    assert {"jct_hours", "p99_hours", "makespan_hours", "lease_share"} <= found.figures.keys()
    assert 1.0 == found.figures["lease_share"]
    assert [] == found.bars


def test_published_figures_are_repeated() -> None:
    """The replay of the published mechanism gives what its authors' simulator does, within 1 %, on both traces."""
    if not has_gavel():
        pytest.skip("the published traces are not there")
    figures, _ = policy_jct.traces(is_quick=False)
    assert figures["published_error"] <= 0.01
    assert figures["max_min_jct_hours"] <= 3.90
    assert figures["makespan_hours"] <= 17.90


def test_load_is_drawn_by_its_dice() -> None:
    """The same dice draw the same jobs; widths and weights come in the published parts, and only if asked for."""
    table = made_up_table()
    one, other = (
        poisson_load(2_000, 2.6, table, has_widths=True, has_weights=True, **dice_of(4)) for _ in range(2)
    )
    assert one == other
    assert 2_000 / 2.6 == pytest.approx(one[-1].arrival / 3_600, rel=0.1)
    parts = [sum(job.gpus == width for job in one) / 2_000 for width in (1, 2, 4, 8)]
    assert [0.7, 0.1, 0.15, 0.05] == pytest.approx(parts, abs=0.03)
    assert 0.2 == pytest.approx(sum(job.weight == 5.0 for job in one) / 2_000, abs=0.03)
    plain = poisson_load(50, 2.6, table, **dice_of(4), has_widths=False, has_weights=False)
    assert {(1, 1.0)} == {(job.gpus, job.weight) for job in plain}


def test_jobs_with_static_shares_are_near_them() -> None:
    """A benchmark that measured nothing would keep its bar: jobs here have fractional shares, and some fall behind a little."""
    present = instance(Kind(), 1)
    fractions = [
        target for places in present.targets.values() for target in places.values() if target < 0.999
    ]
    assert len(fractions) > 10
    *_, received = played(present, 50, 2.0)
    assert 0.0 < shortfall(present, received, 50) < 6.0

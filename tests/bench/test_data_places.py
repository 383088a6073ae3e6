"""The drawn planet of tables has the published figures, and the benchmark keeps what no plan may break."""

from pathlib import Path

import numpy as np
import pytest

from bench import data_moves, replan
from bench.balance import run
from bench.support.data_places.drawn import GPUS, Draw, drawn_problem
from bench.support.data_places.plays import first_version, ours, second_version
from core.data_places.figures import figures_of
from core.data_places.problem import checked

PROBLEM = checked(drawn_problem(Draw(40_000, seed=3)))


def test_readers_sizes_and_demand_are_as_published() -> None:
    """E1: 3, 17 and 45 readers a table; 565 MB and 7.5 TB at 50 and 99 %; high priority asks for 0.8 of each type; ranks correlate by 0.5."""
    readers = np.percentile(np.bincount(PROBLEM.job_tables), [50, 90, 99])
    assert [3, 17, 45] == pytest.approx(readers.tolist(), rel=0.1)
    sizes = np.percentile(PROBLEM.sizes, [50, 99])
    assert [565e6, 7.5e12] == pytest.approx(sizes.tolist(), rel=0.15)
    assert PROBLEM.sizes.max() == 100e12
    for gpu_type in range(3):
        mine = (PROBLEM.job_type == gpu_type) & PROBLEM.is_high
        assert 0.8 == pytest.approx(PROBLEM.job_demand[mine].sum() / PROBLEM.supply[:, gpu_type].sum())
    read = np.bincount(PROBLEM.job_of, PROBLEM.sizes[PROBLEM.job_tables])
    ranks = [np.argsort(np.argsort(one)) for one in (read, PROBLEM.job_demand)]
    assert 0.5 == pytest.approx(np.corrcoef(ranks[0], ranks[1])[0, 1], abs=0.05)


def test_placement_by_hand_is_as_published() -> None:
    """E1: the smallest region has 2.6 times its supply, and nine tenths of demand are at home."""
    figures = figures_of(PROBLEM, PROBLEM.home, PROBLEM.copies)
    assert 2.3 <= figures.worst <= 2.9
    assert 0.65 <= figures.std <= 0.90
    assert 0.85 <= figures.home_rate <= 0.95
    assert figures.storage_over == 0
    assert GPUS / GPUS.sum() == pytest.approx(PROBLEM.supply.sum(axis=1) / PROBLEM.supply.sum())


def test_reads_of_other_teams() -> None:
    """A twentieth of all places of readers are exchanged; a team is 200 tables."""
    team = PROBLEM.job_tables // 200
    first = team[PROBLEM.job_starts[:-1]]
    apart = (team != first[PROBLEM.job_of]).mean()
    assert 0.03 <= apart <= 0.12


def test_every_way_to_plan_keeps_bytes_and_storage() -> None:
    """A day of each on a small draw: no more than 2 % of bytes copied, no region too full, and the homes hold their tables."""
    problem = drawn_problem(Draw(4_000, seed=1))
    for play in (first_version, second_version, ours):
        after, day = play(problem)
        assert day.bytes_share <= 0.02
        assert day.figures.storage_over == 0
        assert day.figures == figures_of(after, after.home, after.copies) or play is ours
        checked(after)
        copied = (problem.sizes[:, None] * (after.held & ~problem.held)).sum()
        assert copied / problem.all_bytes == pytest.approx(day.bytes_share)


def test_benchmark_keeps_bytes_and_storage_in_small_too(tmp_path: Path) -> None:
    """Its other bars mean something at full size only."""
    findings = run(tmp_path, is_quick=True)
    met = {bar.name: bar.met for bar in findings.bars}
    assert met["bytes_a_day"]
    assert met["storage_over"]
    assert {"v0_worst", "v0_std", "worst", "std", "home_rate", "collocation", "solve_1m_seconds"} <= set(met)
    assert findings.figures["worst"] < findings.figures["v0_worst"]


def test_replanning_hears_a_shift_that_daily_plans_do_not(tmp_path: Path) -> None:
    """Half an hour in place of four: the first copy comes within ten minutes of the first shift, and work waits less."""
    findings = replan.run(tmp_path, is_quick=True)
    assert {"first_copy_minutes", "daily_over_loop_wait"} == {bar.name for bar in findings.bars}
    assert findings.figures["daily_over_loop_wait"] > 1
    assert findings.figures["copies"] >= 1


def test_half_a_day_of_moves_keeps_its_promises(tmp_path: Path) -> None:
    """The plan of five days is not drained in half of one."""
    findings = data_moves.run(tmp_path, is_quick=True)
    met = {bar.name: bar.met for bar in findings.bars}
    assert {
        "cap_exceeded": True,
        "without_whole_copy": True,
        "urgent_inversions": True,
        "backlog_left": False,
    } == met
    assert findings.figures["orders"] >= 5

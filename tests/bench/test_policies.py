"""The benchmarks of policies, in their quick forms."""

from pathlib import Path

import pytest

from bench import policy_solve, policy_vectors
from bench.support.sharing.drawn import drawn_jobs
from bench.support.sharing.tables import has_gavel


def test_vectors_come_out(tmp_path: Path) -> None:
    """Each to the digits that were published, as far as the measured speeds are there."""
    found = policy_vectors.run(tmp_path, is_quick=True)
    assert [True] == [bar.met for bar in found.bars]
    assert {"a_error", "b_error", "b_rounds_error", "c_error", "vectors_wrong"} <= set(found.figures)
    assert (13 if has_gavel() else 4) == found.figures["vectors_played"]


def test_a_vector_that_comes_out_otherwise_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the measured speeds four results are played; of vector B another choice, or other rounds, is one wrong each."""
    monkeypatch.setattr(policy_vectors, "has_gavel", lambda: False)
    monkeypatch.setattr(policy_vectors, "NEXT", {"0": 1, "1": 0, "2": 2})
    found = policy_vectors.run(tmp_path, is_quick=True)
    assert (1, 4) == (found.figures["vectors_wrong"], found.figures["vectors_played"])
    # The second job is owed less than the type has, and takes what is left.
    monkeypatch.setattr(policy_vectors, "SHARES", ((0.6, 0.4, 0.0), (0.2, 0.5, 0.2), (0.2, 0.0, 0.8)))
    found = policy_vectors.run(tmp_path, is_quick=True)
    assert 2 == found.figures["vectors_wrong"]


def test_solve_times_have_every_bar(tmp_path: Path) -> None:
    """And the quick programmes come to what their papers' forms do."""
    found = policy_solve.run(tmp_path, is_quick=True)
    assert 8 == len(found.bars)
    assert {one.beside for one in found.yardsticks} <= set(found.figures)
    assert found.figures["gap_max"] <= 1e-6
    reported = {"max_min_wide_ms", "water_filling_wide_ms", "hierarchical_fifo_512x3_ms"}
    assert reported <= set(found.figures)
    assert not reported & {bar.name for bar in found.bars}


def test_wide_jobs_are_of_many_classes() -> None:
    """26 models, four widths and two weights; on eight types there is twice what the jobs take, as for jobs of one GPU."""
    problem = policy_solve._wide(drawn_jobs(4_000))
    assert 150 < len(problem.classes) <= 208
    assert 4_000 == sum(one.count for one in problem.classes)
    assert {(gpus, weight) for gpus in (1, 2, 4, 8) for weight in (1.0, 5.0)} == {
        (one.gpus, one.weight) for one in problem.classes
    }
    wanted = sum(one.gpus * one.count for one in problem.classes)
    assert 2.0 == pytest.approx(sum(problem.gpus) / wanted, rel=1e-3)

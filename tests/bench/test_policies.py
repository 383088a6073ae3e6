"""The benchmarks of policies, in their quick forms."""

from pathlib import Path

from bench import policy_solve, policy_vectors


def test_vectors_come_out(tmp_path: Path) -> None:
    """Each to the digits that were published, as far as the measured speeds are there."""
    found = policy_vectors.run(tmp_path, is_quick=True)
    assert [True] == [bar.met for bar in found.bars]
    assert {"a_error", "c_error", "vectors_wrong"} <= set(found.figures)


def test_solve_times_have_every_bar(tmp_path: Path) -> None:
    """And the quick programmes come to what their papers' forms do."""
    found = policy_solve.run(tmp_path, is_quick=True)
    assert 8 == len(found.bars)
    assert {one.beside for one in found.yardsticks} <= set(found.figures)
    assert found.figures["gap_max"] <= 1e-6

"""The benchmarks of estimated and of wrong speeds: their bars are there, and hold on made-up speeds where the measured ones are not."""

from pathlib import Path

import pytest

from bench import estimator, profile
from bench.support.report import Findings
from bench.support.sharing.tables import gavel_table, made_up_table


@pytest.fixture(params=[estimator, profile], ids=["estimator", "profile"])
def findings(request: pytest.FixtureRequest, tmp_path: Path) -> Findings:
    """Of the quick form."""
    found = request.param.run(tmp_path, is_quick=True)
    assert isinstance(found, Findings)
    return found


def test_quick_form_has_every_bar(findings: Findings) -> None:
    """Each bar is of a figure that is told, and in these two even one seed meets all of them."""
    assert findings.bars
    for bar in findings.bars:
        assert bar.value == findings.figures[bar.name]
        assert bar.met, bar


def test_references_know_themselves_in_made_up_speeds() -> None:
    """G28: what two models keep is a product of a number of each here, so that one run tells almost all."""
    found = estimator.found(made_up_table(), range(1), 0.2)
    assert [16] == found.matches
    assert sum(found.errors) / len(found.errors) < 0.01
    assert 26 * 26 * 3 > len(found.errors) > 26 * 10 * 3


def test_what_ran_is_no_error_of_an_estimate() -> None:
    """G28: with every run made, only pairs with the ten models that are no reference are estimated: thirty numbers of each model."""
    found = estimator.found(made_up_table(), range(1), 1.0)
    assert 26 * 10 * 3 == len(found.errors)
    assert 10 * 10 * 3 == len(found.stranger_errors)
    assert 10 * 10 * 3 == len(found.pair_errors)


def test_a_copy_of_a_reference_has_no_error() -> None:
    """G28: with every run made the whole error is of the ten strangers, on whatever speeds; so it is more over these than over all."""
    found = estimator.found(gavel_table(), range(2), 1.0)
    assert 0.0 < sum(found.stranger_errors) == pytest.approx(sum(found.errors))
    assert 2 * 10 * 10 * 3 == len(found.stranger_errors) < len(found.errors)

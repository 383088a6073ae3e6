"""Lags: what is owed less what was received, within bounds, and where it goes when shares change."""

import pytest

from core.sharing.accounts import LAG_MAX, PATIENCE, Accounts, Place

HERE, THERE, BESIDE = Place(0), Place(1), Place(0, "other")


def test_lag_is_rounds_owed_less_rounds_received() -> None:
    """Three rounds of .4 and one received leave .2, in the place where it was received."""
    accounts = Accounts()
    for _ in range(3):
        accounts.owe({"a": {HERE: 0.4, BESIDE: 0.5}})
    accounts.receive("a", HERE, 1.0)
    assert (0.2, 1.5) == pytest.approx((accounts.lag("a", HERE), accounts.lag("a", BESIDE)))


def test_rounds_without_a_target_are_not_booked() -> None:
    """Idle GPUs cost a job nothing: it is owed as much as before, and nothing in the place where it was idle."""
    accounts = Accounts()
    accounts.owe({"a": {HERE: 0.5}})
    accounts.receive("a", THERE, 1.0)
    assert (0.5, 0.0) == (accounts.lag("a", HERE), accounts.lag("a", THERE))


def test_lag_is_cut_below() -> None:
    """A job that had all it wanted for long is shut out for five rounds of it at most."""
    accounts = Accounts()
    accounts.owe({"a": {HERE: 0.5}})
    for _ in range(40):
        accounts.receive("a", HERE, 1.0)
    assert -LAG_MAX == accounts.lag("a", HERE)


def test_a_column_that_falls_behind_takes_the_same_part_from_all() -> None:
    """Once a job reached the cut, the column's clock stands still: others there are owed no more, those elsewhere are."""
    accounts = Accounts()
    targets = {"behind": {HERE: 1.0}, "beside": {HERE: 0.25}, "elsewhere": {THERE: 0.25}}
    for _ in range(8):
        accounts.owe(targets)
    assert (LAG_MAX, LAG_MAX / 4, 2.0) == tuple(
        accounts.lag(job, place) for job, places in targets.items() for place in places
    )
    accounts.receive("behind", HERE, 1.0)
    accounts.owe(targets)
    assert (LAG_MAX, (LAG_MAX + 1) / 4) == (accounts.lag("behind", HERE), accounts.lag("beside", HERE))


def test_job_that_cannot_run_stops_no_clock_for_long() -> None:
    """Once it is overdue the others are owed their targets again, round after round."""
    accounts = Accounts()
    targets = {"on hold": {HERE: 1.0}, "runs": {HERE: 0.5}}
    for _ in range(PATIENCE + 1):
        accounts.owe(targets)
        accounts.receive("runs", HERE, 0.5)
    before = accounts.lag("runs", HERE)
    accounts.owe(targets)
    assert (LAG_MAX, 0.5) == (accounts.lag("on hold", HERE), accounts.lag("runs", HERE) - before)


def test_lag_goes_along_to_other_places() -> None:
    """New shares elsewhere take the lag with them, divided by target; the old place has none left."""
    accounts = Accounts()
    for _ in range(2):
        accounts.owe({"a": {HERE: 0.9}})
    accounts.owe({"a": {THERE: 0.3, BESIDE: 0.1}})
    assert (0.0, 1.35 + 0.3, 0.45 + 0.1) == pytest.approx(
        tuple(accounts.lag("a", place) for place in (HERE, THERE, BESIDE))
    )


def test_a_job_without_targets_keeps_its_lag() -> None:
    """Shares that leave a job out for a while do not make it forget what it was owed."""
    accounts = Accounts()
    accounts.owe({"a": {HERE: 0.9}})
    accounts.owe({"a": {}})
    assert 0.9 == accounts.lag("a", HERE)


def test_overdue_after_patience() -> None:
    """G21: a job is overdue once it was owed a round for `PATIENCE` rounds and did not run; any run ends that."""
    accounts = Accounts()
    targets = {"a": {HERE: 0.5}, "b": {HERE: 0.001}}
    for _ in range(1 + PATIENCE):
        accounts.owe(targets)
    assert accounts.overdue("a") is None
    accounts.owe(targets)
    assert 2 == accounts.overdue("a")
    assert accounts.overdue("b") is None, "a job that is owed less than a round does not wait"
    accounts.receive("a", THERE, 0.1)
    assert accounts.overdue("a") is None


def test_overdue_by_what_is_owed_in_all_places() -> None:
    """G21: a job that is owed half a round in each of two places is owed a round; one that had too much in a third is not owed less."""
    accounts = Accounts()
    targets = {"a": {HERE: 0.25, THERE: 0.25, BESIDE: 0.1}}
    accounts.owe(targets)
    accounts.receive("a", BESIDE, 4.0)
    for _ in range(PATIENCE):
        accounts.owe(targets)
    assert accounts.overdue("a") is None
    accounts.owe(targets)
    assert 2 == accounts.overdue("a")


def test_an_account_that_is_closed_is_empty() -> None:
    """A job that ended leaves nothing to a later one of the same id."""
    accounts = Accounts()
    for _ in range(30):
        accounts.owe({"a": {HERE: 1.0}})
    accounts.forget("a")
    assert (0.0, None) == (accounts.lag("a", HERE), accounts.overdue("a"))

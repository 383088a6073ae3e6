"""The published mechanism: its priorities, its ties, and what it does to jobs without shares, or on hardware that is not theirs."""

from collections.abc import Mapping, Sequence

import pytest

from core.sharing.published import NEVER_RAN, RESET_SECONDS, Assigned, PublishedRounds

ROUND = 360.0
SHARES = {"j0": (0.6, 0.4, 0.0), "j1": (0.2, 0.6, 0.2), "j2": (0.2, 0.0, 0.8)}
ROUNDS = {"j0": (3, 1, 0), "j1": (1, 3, 0), "j2": (0, 0, 4)}


def rounds_of(
    gpus: tuple[int, ...],
    shares: Mapping[str, Sequence[float]],
    *,
    widths: tuple[int, ...] = (),
    **how: object,
) -> PublishedRounds:
    """The mechanism, with the shares of these jobs just computed; each runs on all types."""
    mechanism = PublishedRounds(gpus, ROUND, **how)  # type: ignore[arg-type]  # by name
    for number, job in enumerate(shares):
        mechanism.add(job, widths[number] if widths else 1, [1.0] * len(gpus))
    mechanism.reset(0.0, shares)
    return mechanism


@pytest.mark.parametrize("begins_with", [0.0, ROUND / 2])
def test_worked_example(begins_with: float) -> None:
    """G17, vector B: shares over rounds received give the published priorities, and from half a round on each account the same choice."""
    mechanism = rounds_of((1, 1, 1), SHARES, begins_with=begins_with)
    for job, row in ROUNDS.items():
        for kind, rounds in enumerate(row):
            mechanism.book(job, kind, rounds * ROUND)
    if not begins_with:
        # Each type was booked for four rounds, so a priority is four times the share over the rounds.
        found = [[mechanism.priority(job, kind) / 4 for kind in range(3)] for job in SHARES]
        never = 0.2 * NEVER_RAN / 4
        assert [[0.2, 0.4, 0.0], [0.2, 0.2, never], [never, 0.0, 0.2]] == [
            pytest.approx(row) for row in found
        ]
    assert {"j2": 0, "j0": 1, "j1": 2} == mechanism.selected()


def test_ties_go_by_deficit_then_by_share_then_by_arrival() -> None:
    """G17: without a share on a type all priorities are 0 there; then what was missed before a reset decides, then the share."""
    mechanism = rounds_of((1, 1), {"j0": (0.0, 0.0), "j1": (0.0, 0.0)})
    assert {"j0": 0, "j1": 1} == mechanism.selected(), "by arrival"
    mechanism = rounds_of((1, 1), {"j0": (0.5, 0.5), "j1": (0.5, 0.5)})
    mechanism.book("j0", 0, 2 * ROUND)
    mechanism.reset(2 * ROUND, {"j0": (0.0, 0.0), "j1": (0.0, 0.0)})
    assert {"j1": 0, "j0": 1} == mechanism.selected(), "the second missed a round of the first type"
    mechanism = rounds_of((1,), {"j0": (0.25,), "j1": (0.5,)}, begins_with=0.0)
    assert {"j1": 0} == mechanism.selected(), "of jobs that never ran, the larger share goes first"


def test_types_are_filled_in_turn() -> None:
    """Fault 2: a job with no share of the first type takes its idle GPU, although its own type has one free; FIFO refuses."""
    shares = {"j0": (0.0, 1.0)}
    assert {"j0": 0} == rounds_of((1, 1), shares).selected()
    assert {"j0": 1} == rounds_of((1, 1), shares, is_fifo=True).selected()
    assert {"j0": 1} == rounds_of((1, 1), shares).selected(order=(1, 0))


def test_a_type_without_speed_is_not_used() -> None:
    """G13: a job is not put where it has no speed, whatever its share."""
    mechanism = PublishedRounds((1, 1), ROUND)
    mechanism.add("j0", 1, (0.0, 1.0))
    mechanism.reset(0.0, {"j0": (1.0, 0.0)})
    assert (0.0, {"j0": 1}) == (mechanism.priority("j0", 0), mechanism.selected())


def test_wide_jobs_are_passed_over() -> None:
    """A job that does not fit in what is left is passed over, and nothing is kept for it."""
    mechanism = rounds_of((4,), {"j0": (0.9,), "j1": (0.5,), "j2": (0.1,)}, widths=(1, 4, 2))
    assert {"j0": 0, "j2": 0} == mechanism.selected()


def test_a_new_job_has_no_shares_for_half_an_hour() -> None:
    """Fault 4: a job that came after the shares takes idle GPUs and leaves them empty; shares are due 1,920 s after the last."""
    mechanism = rounds_of((2,), {"j0": (1.0,)})
    mechanism.reset(ROUND, {"j0": (1.0,)})
    assert not mechanism.is_due(1e9), "without an arrival or an end, shares stay"
    mechanism.add("late", 1, (1.0,))
    assert {"j0": 0, "late": 0} == mechanism.selected()
    assert {"j0": Assigned(0, (0,))} == mechanism.assign(mechanism.selected())
    assert (False, True) == tuple(mechanism.is_due(ROUND + RESET_SECONDS + late) for late in (-1.0, 0.0))


def test_gpus_are_kept_widest_first() -> None:
    """A job keeps its GPUs if they are free; a wider one is placed first and may take those of a narrower one."""
    mechanism = rounds_of((4,), {"j0": (0.5,), "j1": (0.5,), "wide": (0.5,)}, widths=(1, 1, 2))
    assert {"j0": Assigned(0, (0,)), "j1": Assigned(0, (1,))} == mechanism.assign({"j0": 0, "j1": 0})
    assert {"wide": Assigned(0, (0, 1)), "j1": Assigned(0, (2,))} == mechanism.assign({"j1": 0, "wide": 0})
    assert {"j1": Assigned(0, (2,)), "j0": Assigned(0, (0,))} == mechanism.assign({"j0": 0, "j1": 0})


def test_accounts_begin_anew_at_a_reset() -> None:
    """After a reset a job's priority knows nothing of the time before, and jobs that ended are gone."""
    mechanism = rounds_of((1,), {"j0": (0.5,), "j1": (0.5,)})
    mechanism.book("j0", 0, 10 * ROUND)
    assert mechanism.priority("j0", 0) < mechanism.priority("j1", 0)
    mechanism.end("j1")
    mechanism.add("j2", 1, (1.0,))
    mechanism.reset(10 * ROUND, {"j0": (0.5,), "j2": (0.5,)})
    assert mechanism.priority("j0", 0) == mechanism.priority("j2", 0) == 1.0

"""Who of a tenant's running work is within quota: by our rules, and by the paper's."""

import pytest

from core.nouns.ids import WorkloadId
from core.nouns.ranking import DEFAULT_RANKING, RankingSettings
from core.nouns.tenant import OVER_LEVEL
from core.ranking.scan import QuotaHold
from core.rules.quota import Running, reclassify

TYPE = "H100"
BY_CREDIT = RankingSettings(walks_by_level=False)
COUNTED = RankingSettings(counts_borrowed=True)
PAPER = RankingSettings(walks_by_level=False, counts_borrowed=True)
OVER = OVER_LEVEL


def work(number: int, gpus: int, asked: int, level: int, submitted: int = 0) -> Running:
    """Awarded in the order of the numbers, and submitted so unless told otherwise."""
    return Running(WorkloadId(f"w-{number}"), number, asked, level, {TYPE: gpus}, submitted or number)


def changed(
    *running: Running,
    entitled: int = 8,
    ranking: RankingSettings = DEFAULT_RANKING,
    is_spent: bool = False,
    kept: tuple[QuotaHold, ...] = (),
) -> dict[int, int]:
    """By number."""
    found = reclassify(running, {TYPE: entitled}, frozenset({TYPE}), ranking, is_spent=is_spent, kept=kept)
    return {int(name[2:]): level for name, level in found.items()}


def test_work_within_quota_stays_and_the_first_submitted_moves_up() -> None:
    """Nothing changes that need not; of the work over quota the one first in line has the headroom, and not the one awarded first."""
    assert {} == changed(work(1, 4, 3, 3), work(2, 4, 3, 3), work(3, 4, 3, OVER))
    assert {3: 3} == changed(work(1, 4, 3, 3), work(2, 4, 3, OVER, 9), work(3, 4, 3, OVER, 5))
    assert {2: OVER} == changed(work(1, 4, 3, 3), work(2, 8, 3, 3))


def test_level_decides_and_by_the_paper_it_does_not() -> None:
    """The higher level takes the quota from the lower; by one walk whoever has it keeps it."""
    low, high = work(1, 8, 1, 1), work(2, 8, 5, OVER)
    assert {1: OVER, 2: 5} == changed(low, high)
    assert {} == changed(low, high, ranking=BY_CREDIT)
    assert {} == changed(low, high, ranking=PAPER)
    assert {2: OVER} == changed(low, work(2, 8, 5, 5), ranking=BY_CREDIT)


def test_borrowed_gpus_count_by_the_paper() -> None:
    """4 within and 4 beyond of a quota of 8: by our rule they move up; where 8 more are borrowed nothing does before all fits."""
    within, beyond, more = work(1, 4, 3, 3), work(2, 4, 3, OVER), work(3, 8, 3, OVER)
    for ranking in (DEFAULT_RANKING, COUNTED, PAPER):
        assert {2: 3} == changed(within, beyond, ranking=ranking)
    assert {2: 3} == changed(within, beyond, more)
    assert {} == changed(within, beyond, more, ranking=COUNTED)
    assert {} == changed(within, beyond, more, ranking=PAPER)
    assert {2: 3, 3: 3} == changed(within, beyond, more, entitled=16, ranking=PAPER)


def test_shrunk_quota_by_the_paper() -> None:
    """Who loses its standing borrows from then on, and that fills the quota: nobody over it moves up into what is left."""
    running = work(1, 8, 3, 3), work(2, 2, 3, OVER)
    assert {1: OVER, 2: 3} == changed(*running, entitled=4)
    assert {1: OVER} == changed(*running, entitled=4, ranking=COUNTED)
    assert {1: OVER} == changed(*running, entitled=4, ranking=PAPER)


@pytest.mark.parametrize("ranking", [DEFAULT_RANKING, BY_CREDIT, COUNTED, PAPER])
def test_spent_budget_leaves_nothing_that_takes_gpus_within(ranking: RankingSettings) -> None:
    """By whatever rule; what takes none is untouched."""
    nothing = Running(WorkloadId("w-9"), 9, 3, 3, {})
    assert {1: OVER} == changed(
        work(1, 4, 3, 3), work(2, 4, 3, OVER), nothing, ranking=ranking, is_spent=True
    )


def test_quota_held_for_a_waiting_gang_lifts_no_work_behind_it() -> None:
    """4 are left and kept for work submitted as number 5 of level 3: work that came before it or asks for more has them all the same."""
    gang = QuotaHold(WorkloadId("w-5"), 3, 5, {TYPE: 8})
    within = work(1, 4, 3, 3)
    assert {} == changed(within, work(2, 4, 3, OVER, 6), kept=(gang,))
    assert {} == changed(within, work(2, 4, 1, OVER, 4), kept=(gang,))
    assert {2: 3} == changed(within, work(2, 4, 3, OVER, 4), kept=(gang,))
    assert {2: 5} == changed(within, work(2, 4, 5, OVER, 6), kept=(gang,))
    assert {2: 3} == changed(within, work(2, 4, 3, OVER, 6), entitled=16, kept=(gang,))
    alike = QuotaHold(WorkloadId("w-5"), 0, 5, {TYPE: 8})
    assert {} == changed(within, work(2, 4, 5, OVER, 6), ranking=BY_CREDIT, kept=(alike,))
    assert {2: 1} == changed(within, work(2, 4, 1, OVER, 4), ranking=BY_CREDIT, kept=(alike,))

"""What the image of shared pools counts as received: only time in the column of the pick, by the span of rounds that held then."""

from core.events.queue import WorkloadAwarded, WorkloadBound, WorkloadSubmitted
from core.events.sharing import PicksAdded, PolicySet, RoundBegun, SharesSet
from core.fact import Event, Fact
from core.images import GlobalImage
from core.nouns.ids import GLOBAL_LOG, WorkloadId
from core.nouns.instant import Instant, seconds
from core.nouns.sharing import WHOLE, ClassShares, PoolShares, ShareColumn, SharingSettings
from core.sharing.classes import class_of
from tests.builders import US, a_fact
from tests.components.support.shared_pool import shared

W1 = WorkloadId("w-1")


def test_attempt_that_comes_to_run_in_a_column_that_it_is_to_leave_counts_for_none() -> None:
    """Its award was for the column before: what it has there is not time in the one for which it is picked now."""
    image = GlobalImage.empty(("sharing",))
    columns = (ShareColumn(US, "V100"), ShareColumn(US, "K80"))
    for event in (
        WorkloadSubmitted(W1, 1, shared(), "ada"),
        PicksAdded(columns, {W1: 0}),
        WorkloadAwarded(W1, 1, US, 0, ()),
        RoundBegun(7, columns, {W1: 1}, (W1,), seconds(60)),
        WorkloadBound(W1, 1, US, 1),
    ):
        image.fold(a_fact(event, log=GLOBAL_LOG))
    assert 0 == image.sharing.picks[W1].counted_at


def test_time_before_another_span_is_counted_by_the_span_of_then() -> None:
    """350 s of rounds of 360 s are not 58 rounds of 6 s."""
    image = GlobalImage.empty(("sharing",))
    column, (name,) = ShareColumn(US, "V100"), (class_of(shared()),)
    told: tuple[tuple[int, Event], ...] = (
        (1, WorkloadSubmitted(W1, 1, shared(), "ada")),
        (1, SharesSet(PoolShares(1, (column,), (1,), (ClassShares(name, ((0, WHOLE),)),), "highs"))),
        (1, PicksAdded((column,), {W1: 0})),
        (1, WorkloadAwarded(W1, 1, US, 0, ())),
        (360, RoundBegun(1, (column,), {}, (), seconds(60))),
        (360, WorkloadBound(W1, 1, US, 1)),
        (710, PolicySet(SharingSettings(round_span=seconds(6)), 1)),
        (714, RoundBegun(119, (column,), {}, (), seconds(1))),
    )
    for at, event in told:
        instant = Instant(seconds(at))
        image.fold(Fact(GLOBAL_LOG, 1, instant, "", "", event, instant))
    owed, received = 2 * WHOLE, round(WHOLE * (350 / 360 + 4 / 6))
    assert abs(owed - received - image.sharing.lags[W1]["us/V100"]) <= 2

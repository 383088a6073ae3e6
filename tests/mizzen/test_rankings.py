"""By which rules the queue ranks: read from options, asked of a real queue, and told."""

from typing import Any

import pytest
from msgspec.structs import replace

from core.events.queue import PrioritySet
from core.events.tenants import RankingSet
from core.messages.queue import SetPriority
from core.messages.tenants import SetRanking
from core.nouns.ids import GLOBAL_LOG, WorkloadId
from core.nouns.instant import SECOND, Nanoseconds
from core.nouns.ranking import CreditSettings, DeadlinePolicy, RankingSettings
from mizzen.actions.ranking import RankingWish, ranking_of, ranking_table_of, ranking_wish_of, set_ranking
from mizzen.actions.workloads import TRIES_MAX, set_priority
from mizzen.connect.plane import RequestRefused, submitter
from mizzen.terminal.output import MISUSED, CommandError
from tests.mizzen.half_plane import half_plane
from tests.runtime.aids import Place, virtual

HOUR = 3_600 * SECOND
PAPER = RankingSettings(
    CreditSettings(lag_weight=0),
    shares_by_entitlement=False,
    walks_by_level=False,
    counts_borrowed=True,
    is_in_passes=True,
    quota_patience=Nanoseconds(0),
    gather_percent=0,
    pass_span=Nanoseconds(300 * SECOND),
    deadlines=DeadlinePolicy.OFF,
)
W1 = WorkloadId("w-1")


def wish(*, is_paper: bool = False, **options: Any) -> RankingWish | None:  # Any: texts
    """As typed."""
    names = (
        "half_life",
        "age_cap",
        "share_weight",
        "lag_weight",
        "lag_cap",
        "quota_patience",
        "gather",
        "pass_span",
        "share_by",
        "walk",
        "borrowed_counts",
        "order",
        "deadlines",
        "pending_max",
        "remembered_max",
    )
    return ranking_wish_of(**{**dict.fromkeys(names, ""), **options}, is_paper=is_paper)


def wished(**options: Any) -> RankingWish:  # Any: as `wish` takes them
    """The same, and something is wished for."""
    found = wish(**options)
    assert found is not None
    return found


def test_each_rule_is_set_alone() -> None:
    """What is not said stays as it is, whatever that is."""
    assert wish() is None
    for was in (RankingSettings(), PAPER):
        assert was == RankingWish().on(was)
    credit = CreditSettings(
        half_life=Nanoseconds(12 * HOUR),
        age_cap=Nanoseconds(48 * HOUR),
        share_weight=HOUR,
        lag_weight=7,
        lag_cap=Nanoseconds(6 * HOUR),
    )
    figures = wished(half_life="12h", age_cap="2d", share_weight="1h", lag_weight="7", lag_cap="6h")
    assert RankingSettings(credit) == figures.on(RankingSettings())
    rules = wished(
        share_by="mean",
        walk="credit",
        quota_patience="0",
        gather="3%",
        borrowed_counts="yes",
        order="passes",
        pass_span="5m",
        deadlines="off",
        lag_weight="0",
    )
    assert replace(PAPER, gather_percent=3) == rules.on(RankingSettings())
    back = wished(
        share_by="entitlement",
        walk="level",
        quota_patience="1d",
        gather="0",
        borrowed_counts="no",
        order="events",
        pass_span="10s",
        deadlines="llf",
        lag_weight="100",
    )
    assert RankingSettings() == back.on(PAPER)


def test_rules_of_the_paper_are_set_at_once() -> None:
    """The figures that it does not name stay, and what is said besides comes on top."""
    credit = CreditSettings(half_life=Nanoseconds(HOUR), lag_cap=Nanoseconds(2 * HOUR))
    was = RankingSettings(credit)
    assert replace(PAPER, credit=replace(credit, lag_weight=0)) == wished(is_paper=True).on(was)
    mixed = wished(is_paper=True, walk="level", half_life="1d", lag_cap="1d").on(was)
    assert replace(PAPER, walks_by_level=True) == mixed
    was = wished(pending_max="7", remembered_max="8").on(RankingSettings())
    assert RankingSettings(pending_max=7, remembered_max=8) == was
    assert replace(PAPER, pending_max=7, remembered_max=8) == wished(is_paper=True).on(was)


@pytest.mark.parametrize(
    "options",
    [
        {"half_life": "long"},
        {"lag_weight": "-1"},
        {"pass_span": "-1"},
        {"quota_patience": "soon"},
        {"gather": "half"},
        {"share_by": "all"},
        {"walk": "slow"},
        {"borrowed_counts": "1"},
        {"order": "all"},
        {"deadlines": "bad"},
        {"pending_max": "-1"},
        {"remembered_max": "all"},
    ],
)
def test_invalid_rankings_are_told(options: dict[str, Any]) -> None:  # Any: texts
    """In one sentence that names the option; of several, each."""
    with pytest.raises(CommandError, match=next(iter(options)).partition("_")[0]) as wrong:
        wish(**options)
    assert (MISUSED, 0) == (wrong.value.exit_code, len(wrong.value.problems))
    with pytest.raises(CommandError, match="2 things are wrong") as wrong:
        wish(**{**options, "age_cap": "old"})
    assert 2 == len(wrong.value.problems)


class Quicker:
    """A bus on which somebody else says something just before a request of this sort, so many times."""

    def __init__(
        self, bus: Any, kind: type, said: Any, times: int
    ) -> None:  # Any: a bus; makes of a request another
        self._bus, self._kind, self._said, self._times = bus, kind, said, times

    async def ask(self, message: Any, timeout: Nanoseconds) -> Any:  # Any: as the bus does
        """As the bus does."""
        if isinstance(message, self._kind) and self._times:
            self._times -= 1
            await self._bus.ask(self._said(message), timeout)
        return await self._bus.ask(message, timeout)


def _turned(message: SetRanking) -> SetRanking:
    return SetRanking(RankingSettings(counts_borrowed=message.revision % 2 == 0), message.revision)


@virtual
async def test_ranking_is_set_and_told(place: Place) -> None:
    """It is a fact with who asked; once more when somebody was quicker; a figure that cannot be is refused."""
    plane = await half_plane(place)
    assert (RankingSettings(), 0) == ((was := await ranking_of(plane.bus)).settings, was.revision)
    done = await set_ranking(plane.bus, wished(is_paper=True))
    assert (PAPER, 1) == (done.settings, done.revision)
    assert [RankingSet(1, PAPER, submitter())] == await plane.events(GLOBAL_LOG, RankingSet)
    quicker: Any = Quicker(plane.bus, SetRanking, _turned, 1)  # Any: a bus that can only be asked
    done = await set_ranking(quicker, wished(walk="credit"))
    assert (RankingSettings(walks_by_level=False), 3) == (done.settings, done.revision)
    with pytest.raises(RequestRefused, match="half_life"):
        await set_ranking(plane.bus, wished(half_life="1ms"))
    always: Any = Quicker(plane.bus, SetRanking, _turned, TRIES_MAX)  # Any: as above
    with pytest.raises(CommandError, match="all the time"):
        await set_ranking(always, wished(walk="credit"))


@virtual
async def test_priority_is_set_after_another_users_change(place: Place) -> None:
    """On the priority of the other user; a user that always comes too late is told."""
    plane = await half_plane(place)

    def other(message: SetPriority) -> SetPriority:
        return SetPriority(W1, message.revision, message.revision % 2)

    quicker: Any = Quicker(plane.bus, SetPriority, other, 1)  # Any: a bus that can only be asked
    done = await set_priority(quicker, W1, 5)
    assert (W1, "its priority is 5 from now on", "") == (done.workload, done.text, done.error)
    done = await set_priority(plane.bus, W1, None)
    assert "its priority is that of its tenant from now on" == done.text
    told = await plane.events(GLOBAL_LOG, PrioritySet)
    assert [PrioritySet(W1, 1, 0), PrioritySet(W1, 2, 5), PrioritySet(W1, 3, None)] == told
    always: Any = Quicker(plane.bus, SetPriority, other, TRIES_MAX)  # Any: as above
    with pytest.raises(CommandError, match="all the time"):
        await set_priority(always, W1, 5)


def test_rules_are_told_with_the_papers() -> None:
    """A line for each, named as its option; where both are alike nothing of the paper's is set."""
    for settings, values in (
        (
            RankingSettings(),
            [
                "1d",
                "1d",
                "12h",
                "100",
                "1d",
                "entitlement",
                "level",
                "1d",
                "0%",
                "no",
                "events",
                "10s",
                "llf",
            ],
        ),
        (
            PAPER,
            ["1d", "1d", "12h", "0", "1d", "mean", "credit", "never", "0%", "yes", "passes", "5m", "off"],
        ),
    ):
        head, *lines = (line.split() for line in ranking_table_of(settings, None))
        assert ["RULE", "IS", "PAPER", "MEANING"] == head
        assert [*values, "200000", "1000000"] == [line[1] for line in lines]
        paper = ["-", "-", "-", "0", "-", "mean", "credit", "never", "0%", "yes", "passes", "5m", "off"]
        assert [*paper, "-", "-"] == [line[2] for line in lines]
    names = [line.split()[0] for line in ranking_table_of(PAPER, None)[1:]]
    assert [
        "half-life", "age-cap", "share-weight", "lag-weight", "lag-cap",
        "share-by", "walk", "quota-patience", "gather", "borrowed-counts", "order", "pass",
        "deadlines", "pending-max", "remembered-max",
    ] == names  # fmt: skip

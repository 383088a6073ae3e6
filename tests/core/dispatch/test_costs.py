"""C-2 and C-6: costs are learnt within ten messages, follow a drift within a hundred, and add up along the costliest way."""

import pytest

from core.dispatch.costs import COST_MAX, LASTS, SAMPLES, SENDERS_MAX, TAGS, TOLD_EVERY, Costs, tag_of
from core.messages.agents import FindBid, PlaceAward
from core.messages.broker import ExecuteAward, SolicitBid
from core.messages.queue import Abstention, Bid
from core.messages.store import DeclineAward, SubmitClaim
from core.nouns.dispatch import DEFAULT_COSTS, UrgencyClass
from core.nouns.instant import MILLISECOND, SECOND

GANG = UrgencyClass.GANG


def test_unknown_cost_is_that_of_its_class_and_never_0() -> None:
    """Nor does a decision that took no time say anything."""
    costs = Costs()
    for sort in UrgencyClass:
        assert DEFAULT_COSTS[sort] == costs.own(SolicitBid, 8, sort) > 0
    costs.measured(SolicitBid, 8, 0)
    assert DEFAULT_COSTS[GANG] == costs.own(SolicitBid, 8, GANG), "no time says nothing"


def test_cost_is_the_75th_percentile_by_type_and_size() -> None:
    """Sizes within a factor of two are alike."""
    costs = Costs()
    for cost in range(1, 101):
        costs.measured(FindBid, 8, cost)
    assert 76 == costs.own(FindBid, 8, GANG)
    assert 76 == costs.own(FindBid, 15, GANG), "of sizes within a factor of two"
    assert DEFAULT_COSTS[GANG] == costs.own(FindBid, 16, GANG)
    assert DEFAULT_COSTS[GANG] == costs.own(PlaceAward, 8, GANG)


def test_drift_of_ten_times_is_known_within_a_hundred_messages() -> None:
    """C-6: one decision that is slow changes nothing."""
    costs = Costs()
    for _ in range(1_000):
        costs.measured(FindBid, 1, MILLISECOND)
    seen = []
    for _ in range(SAMPLES):
        costs.measured(FindBid, 1, 10 * MILLISECOND)
        seen.append(costs.own(FindBid, 1, GANG))
    assert MILLISECOND == seen[0], "one that is slow changes nothing"
    assert 10 * MILLISECOND == seen[-1]


def test_way_of_a_chain_adds_up() -> None:
    """C-2, C-6: the agent tells the broker, and the broker what it knows by then."""
    agent, broker = Costs((FindBid,)), Costs((SolicitBid,))
    agent.measured(FindBid, 1, 7 * MILLISECOND)
    broker.measured(SolicitBid, 1, MILLISECOND)
    bid = max(DEFAULT_COSTS[UrgencyClass.PLACEMENT], 1)
    told = agent.to_tell(Bid, 0)
    assert {"find-bid": 7 * MILLISECOND + bid} == told
    broker.hear("agent.eu.a0", told, 0)
    assert 7 * MILLISECOND + bid == broker.way(SolicitBid)
    assert {"solicit-bid": 8 * MILLISECOND + bid} == broker.to_tell(FindBid, 0)


def test_way_of_a_diamond_is_the_costliest_side() -> None:
    """Of each sender the newest counts, and of all senders the costliest."""
    costs = Costs((ExecuteAward, PlaceAward))
    costs.hear("store.eu", {tag_of(SubmitClaim): 3 * MILLISECOND, tag_of(DeclineAward): 9 * MILLISECOND}, 0)
    assert 9 * MILLISECOND == costs.way(PlaceAward)
    costs.hear("store.eu", {tag_of(SubmitClaim): 12 * MILLISECOND, tag_of(DeclineAward): 9 * MILLISECOND}, 0)
    assert 12 * MILLISECOND == costs.way(PlaceAward)
    costs.hear("store.us", {tag_of(SubmitClaim): 40 * MILLISECOND}, 0)
    assert 40 * MILLISECOND == costs.way(PlaceAward), "of all senders the costliest"
    costs.hear("store.us", {tag_of(SubmitClaim): 4 * MILLISECOND}, 0)
    assert 12 * MILLISECOND == costs.way(PlaceAward), "of each sender the newest"


def test_way_of_which_nothing_was_told_is_that_of_the_classes() -> None:
    """Where a chain ends, nothing is added."""
    assert max(DEFAULT_COSTS[UrgencyClass.PLACEMENT], 1) == Costs().way(FindBid)
    assert 0 == Costs().way(Abstention), "it ends there"


def test_costs_are_told_with_the_tenth_message_or_after_a_second() -> None:
    """C-6: each type of message has a count of its own, because others hear it."""
    costs = Costs((FindBid,))
    assert {} == costs.to_tell(Bid, 0), "nothing is known"
    costs.measured(FindBid, 1, MILLISECOND)
    assert costs.to_tell(Bid, 0), "the first"
    told = [bool(costs.to_tell(Bid, 1)) for _ in range(1_000)]
    assert 95 <= sum(told) <= 105
    assert max(len(run) for run in "".join("x" if one else "." for one in told).split("x")) < 2 * TOLD_EVERY
    assert costs.to_tell(Bid, 2 + SECOND)
    assert costs.to_tell(Abstention, 3), "each type has its own count: others hear it"


@pytest.mark.parametrize("hearers", [2, 3, 4, 5, 7, 8, 10])
def test_each_of_several_hearers_is_told_costs(hearers: int) -> None:
    """C-6: whose answers go to them in turn."""
    costs = Costs((FindBid,))
    costs.measured(FindBid, 1, MILLISECOND)
    told = [0] * hearers
    for number in range(hearers * 200):
        told[number % hearers] += bool(costs.to_tell(Bid, 1))
    assert min(told) >= 10, told


def test_word_of_a_sender_that_is_gone_is_forgotten() -> None:
    """Else the costliest way would be that of a host that nobody has any more."""
    costs = Costs()
    costs.hear("store.gone", {tag_of(SubmitClaim): SECOND}, 0)
    costs.hear("store.eu", {tag_of(SubmitClaim): MILLISECOND}, 1)
    assert SECOND == costs.way(PlaceAward)
    costs.hear("store.eu", {tag_of(SubmitClaim): MILLISECOND}, LASTS)
    assert MILLISECOND == costs.way(PlaceAward)


def test_nonsense_that_is_told_is_bounded() -> None:
    """Unknown tags, absurd costs and very many senders."""
    costs = Costs()
    costs.hear("anybody", {"no-such-tag": 7, tag_of(SubmitClaim): -5}, 0)
    assert "no-such-tag" not in TAGS
    assert costs.way(PlaceAward) > 0
    costs.hear("anybody", {tag_of(SubmitClaim): 1 << 62}, 0)
    assert COST_MAX == costs.way(PlaceAward)
    for number in range(SENDERS_MAX):
        costs.hear(f"store.r{number}", {tag_of(SubmitClaim): MILLISECOND}, 0)
    costs.hear("last", {tag_of(DeclineAward): MILLISECOND}, 0)
    assert MILLISECOND == costs.way(PlaceAward), "who was heard longest ago is forgotten"

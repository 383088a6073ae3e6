"""The allocation agent goes by its region's prices from the moment that they are in the log, and its choices can be made again."""

from typing import Any

import pytest

from components.allocation_agent.component import AllocationAgent
from core.component import Decision
from core.events.pools import PoolChanged
from core.events.prices import PricesSet
from core.images import RegionImage
from core.messages.agents import FindBid, PlaceAward
from core.messages.broker import ExecuteAward, SolicitBid
from core.messages.queue import Bid
from core.messages.store import SubmitClaim
from core.nouns.ids import AgentName, WorkloadId
from core.nouns.mix import WEIGHT, Mix, TypicalShape
from core.nouns.placement import Claim
from core.nouns.pool import PoolSettings
from core.nouns.prices import NO_PRICES, Prices
from core.nouns.workload import Kind
from core.placing.diagnosis.replay_choice import Outcome, retraced
from core.placing.placer import SECTIONS
from core.rules.placement.rule_sets import rule_set
from tests.builders import EU, EU_LOG, a_claim, a_job, granted, joined
from tests.components.support.machine import Machine
from tests.components.support.placement_store import Start
from tests.matching import said_once

A0 = AgentName("a0")
ODD, EVEN = 0, 1
"""Nodes with three GPUs free, and with four."""


def prices(revision: int, gpus: int) -> PricesSet:
    """Whoever comes wants so many GPUs of one node."""
    shape = TypicalShape(gpus=gpus, node_types=("H100",), weight=WEIGHT)
    return PricesSet(Prices(revision, Mix((shape,)), ((0,),)))


def an_agent(start: Start) -> Machine[Any]:
    """Of a region with one node of either sort."""
    machine = start(AllocationAgent(EU, A0))
    busy = granted(a_claim("w-8", placed={ODD: 5})), granted(a_claim("w-9", placed={EVEN: 4}))
    machine.fact(EU_LOG, joined("w0", 0, 2), *busy)
    machine.wake()
    return machine


def ask(machine: Machine[Any], workload: str = "w-1") -> Decision:
    """For room for one task of one GPU."""
    name = f"auction of {workload}"
    request = SolicitBid(EU, WorkloadId(workload), name, (a_job(),), 3, Kind.TRAINING)
    return machine.hear(FindBid(EU, A0, request))


def node_of(decision: Decision) -> int:
    """Where it would go."""
    (spread,) = said_once(decision, Bid).spreads
    return spread.nodes[0]


def claimed(machine: Machine[Any], workload: str = "w-1") -> Claim:
    """It bids, is awarded, and claims."""
    bid = said_once(ask(machine, workload), Bid)
    award = ExecuteAward(
        EU, WorkloadId(workload), 1, 1, 3, Kind.TRAINING, (a_job(),), A0, bid.spreads, view=bid.view
    )
    return said_once(machine.hear(PlaceAward(EU, A0, award)), SubmitClaim).claim


@pytest.mark.parametrize(("gpus", "node"), [(2, ODD), (3, EVEN)])
def test_agent_chooses_by_the_prices_of_the_log(start: Start, gpus: int, node: int) -> None:
    """Room for a pair is not broken where pairs are wanted, nor room for three where that is."""
    machine = an_agent(start)
    machine.fact(EU_LOG, prices(1, gpus))
    assert node == node_of(ask(machine))
    assert node == node_of(ask(machine.restart()))


def test_agent_follows_prices_that_change(start: Start) -> None:
    """What it had worked out by the old ones is of no use; and each bid names the prices that it was made by."""
    machine = an_agent(start)
    assert 0 == said_once(ask(machine, "w-1"), Bid).view.prices_revision
    for revision, (gpus, node) in enumerate(((2, ODD), (3, EVEN), (2, ODD)), 1):
        machine.fact(EU_LOG, prices(revision, gpus))
        forget_bids(machine)
        told = ask(machine, f"w-{revision + 1}")
        assert (node, revision) == (node_of(told), said_once(told, Bid).view.prices_revision)


def test_pool_with_rules_of_its_own_minds_no_prices(start: Start) -> None:
    """They are for those that read them."""
    machine = an_agent(start)
    machine.fact(EU_LOG, PoolChanged("training", PoolSettings("best_fit:8")), prices(1, 3))
    assert ODD == node_of(ask(machine))


@pytest.mark.parametrize(("gpus", "node"), [(2, ODD), (3, EVEN)])
def test_choice_is_made_again_by_the_prices_of_its_view(start: Start, gpus: int, node: int) -> None:
    """From the log as it was; by any other prices it would not come out so."""
    machine = an_agent(start)
    machine.fact(EU_LOG, prices(1, gpus))
    claim = claimed(machine)
    assert node == claim.spreads[0].nodes[0]
    known = machine.logs[EU_LOG][: claim.view.sequence]
    image = RegionImage.empty(SECTIONS)
    for fact in known:
        image.fold(fact)
    assert Outcome.EQUAL == retraced(image, claim).outcome
    others = prices(1, 5 - gpus).prices
    assert Outcome.DIFFERENT == retraced(image, claim, plan_of=lambda _: rule_set("", others)).outcome
    assert NO_PRICES != image.prices.prices


def forget_bids(machine: Machine[Any]) -> None:
    """Until nothing is counted as offered."""
    while machine.state.bids:
        machine.wake(machine.component.due(machine.state))

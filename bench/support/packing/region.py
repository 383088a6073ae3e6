"""A region as an agent and a store see it: messages go to and fro at once, both fold the facts, and nothing is written.

The agent is asked as a broker asks it (`FindBid`, or `PlaceAward` without a place that somebody bid), the store judges the claim
that comes of it, and what it records is told back with packed rows, as over a bus. What the queue would say stands in facts of
its log.
"""

import time
from collections.abc import Sequence

from msgspec.structs import replace

from bench.support.packing.openb import ListedNode
from components.allocation_agent.component import AllocationAgent
from components.allocation_agent.state import AgentState
from components.placement_store.component import PlacementStore
from components.placement_store.state import StoreState
from core.component import Decision, Images, RowsTold
from core.events.queue import AttemptClosed, AwardReturned, RegionAdded, WorkloadAwarded
from core.events.region import AttemptEnded, AwardDeclined, ClaimGranted
from core.fact import NO_LOG, Event, Fact, Note
from core.images import GlobalImage, RegionImage
from core.messages.agents import BidSettled, ClaimAnswered, FindBid, PlaceAward
from core.messages.base import Envelope, Message, Woken
from core.messages.broker import ExecuteAward, SolicitBid
from core.messages.pools import PoolAnswered, SetPool
from core.messages.prices import PricesAnswered, SetPrices
from core.messages.queue import Bid
from core.messages.store import DeclineAward, RecordEnd, RecordJoin, SubmitClaim
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import GLOBAL_LOG, AgentName, RegionName, WorkerName, WorkloadId, region_log
from core.nouns.instant import MILLISECOND, Instant
from core.nouns.mix import Mix
from core.nouns.placement import Spread, View
from core.nouns.pool import PoolSettings
from core.nouns.prices import Prices
from core.nouns.solved_from import SolvedFrom
from core.nouns.workload import EndCause, JobSpec, Kind, Phase
from core.placing.placer import SECTIONS

POOL = "training"
NODES_A_RACK = 16
"""A list tells no racks: 16 nodes of one model, in their order, make one."""
LOWEST = 0
"""Everybody's priority: nobody is pushed out."""
AGENT = AgentName("a0")
KIND = Kind.TRAINING
_BENCH = "bench"


class PackingRegion:
    """One agent and one store."""

    def __init__(self, name: str, nodes: Sequence[ListedNode], rules: str) -> None:
        self.region = RegionName(name)
        self._log = region_log(self.region)
        self.at = Instant(0)
        self._sequence = self._global_sequence = self._heard = 0
        self.store = PlacementStore(self.region)
        queue = GlobalImage.empty(self.store.follows[0].sections)
        self.store_state: StoreState = self.store.initial(Images(self.at, None, {GLOBAL_LOG: (queue, 0)}))
        self.agent = AllocationAgent(self.region, AGENT)
        empty = RegionImage.empty(SECTIONS)
        self.agent_state: AgentState = self.agent.initial(Images(self.at, None, {self._log: (empty, 0)}))
        self.spans: list[float] = []
        """Seconds that the agent needed to decide on each award."""
        self.gpu_milli = sum(node.total.gpu_milli for node in nodes)
        self._queue_says(RegionAdded(self.region))
        for inventory in _inventories(nodes):
            self._store_hears(RecordJoin(self.region, inventory))
        settings = PoolSettings(rules)
        (answer,) = self._store_hears(SetPool(self.region, POOL, settings, 0, _BENCH)).messages
        assert isinstance(answer, PoolAnswered), answer

    def set_prices(self, prices: Prices) -> None:
        """As a planner sets them."""
        newer = replace(prices, revision=self.store_state.image.prices.revision + 1)
        solved_from = SolvedFrom(sequence=self._sequence)
        (answer,) = self._store_hears(SetPrices(self.region, newer, solved_from, _BENCH)).messages
        assert isinstance(answer, PricesAnswered), answer

    def set_mix(self, mix: Mix) -> None:
        """What is to come, for rules that ask no more than that."""
        self.set_prices(Prices(mix=mix, rents=((0,) * len(mix.shapes),)))

    # One workload.

    def place(
        self, workload: WorkloadId, jobs: tuple[JobSpec, ...], bid: Bid | None = None
    ) -> tuple[Spread, ...]:
        """Award it to this region; where it was granted, or nothing if the region declined.

        bid     of this region, if it was asked for one
        """
        self.at = Instant(self.at + MILLISECOND)
        sequence = self._queue_says(WorkloadAwarded(workload, 1, self.region, 0, ()))
        award = ExecuteAward(
            self.region,
            workload,
            1,
            sequence,
            LOWEST,
            KIND,
            jobs,
            AGENT,
            bid.spreads if bid else (),
            bid.victims if bid else (),
            bid.view if bid else View(0),
        )
        envelope = self._envelope(PlaceAward(self.region, AGENT, award), "broker")
        begun = time.perf_counter()
        decision = self.agent.decide(self.agent_state, envelope)
        self.spans.append(time.perf_counter() - begun)
        return self._carried_out(workload, decision)

    def _carried_out(self, workload: WorkloadId, decision: Decision) -> tuple[Spread, ...]:
        """What the agent says goes to the store, and the store's answer to the agent, until neither says anything."""
        self._noted(decision)
        (message,) = decision.messages
        recorded = self._store_hears(message)
        events = [event for event in recorded.events if isinstance(event, (ClaimGranted, AwardDeclined))]
        assert events, (message, recorded)
        (event,) = events
        if isinstance(event, AwardDeclined):
            assert isinstance(message, DeclineAward), message
            self._queue_says(AwardReturned(workload, 1, event.reason, self.region, self._sequence))
            return ()
        assert isinstance(message, SubmitClaim), message
        for answer in recorded.messages:
            assert isinstance(answer, ClaimAnswered), answer
            self._noted(self.agent.decide(self.agent_state, self._envelope(answer, self.store.name)))
        return event.claim.spreads

    def bid_for(self, workload: WorkloadId, jobs: tuple[JobSpec, ...]) -> Bid | None:
        """What this region offers, if anything."""
        request = SolicitBid(self.region, workload, f"{workload}.1", jobs, LOWEST, KIND)
        envelope = self._envelope(FindBid(self.region, AGENT, request), "broker")
        begun = time.perf_counter()
        decision = self.agent.decide(self.agent_state, envelope)
        self.spans.append(time.perf_counter() - begun)
        self._noted(decision)
        (answer,) = decision.messages
        return answer if isinstance(answer, Bid) else None

    def has_lost(self, workload: WorkloadId) -> None:
        """Another region's bid was better."""
        settled = BidSettled(self.region, AGENT, workload, f"{workload}.1", has_won=False)
        self._noted(self.agent.decide(self.agent_state, self._envelope(settled, "queue")))

    def end(self, workload: WorkloadId) -> None:
        """It has done its work."""
        self.at = Instant(self.at + MILLISECOND)
        recorded = self._store_hears(RecordEnd(self.region, workload, 1, EndCause.COMPLETED))
        assert any(isinstance(event, AttemptEnded) for event in recorded.events), recorded
        closed = AttemptClosed(workload, 1, EndCause.COMPLETED, Phase.COMPLETED, self.region, self._sequence)
        self._queue_says(closed)
        if (self.store.due(self.store_state) or self.at + 1) <= self.at:
            self._store_hears(Woken())

    # What a host does.

    def _envelope(self, message: Message, sender: str) -> Envelope:
        self._heard += 1
        return Envelope(message, sender, f"m-{self._heard}", self.at)

    def _noted(self, decision: Decision) -> None:
        """The agent records nothing: all of it is notes."""
        for event in decision.events:
            self.agent_state = self.agent.evolve(self.agent_state, self._note(event))

    def _note(self, event: Event | Note) -> Fact:
        return Fact(NO_LOG, 0, self.at, "", _BENCH, event, self.at)

    def _queue_says(self, event: Event) -> int:
        self._global_sequence += 1
        fact = Fact(GLOBAL_LOG, self._global_sequence, self.at, "", _BENCH, event, self.at)
        self.store_state = self.store.evolve(self.store_state, fact)
        return self._global_sequence

    def _store_hears(self, message: Message) -> Decision:
        """What it records is numbered, folded by both, and told with packed rows."""
        envelope = self._envelope(message, self.agent.name)
        decision = self.store.decide(self.store_state, envelope)
        first = self._sequence + 1
        for event in decision.events:
            if isinstance(event, Note):
                self.store_state = self.store.evolve(self.store_state, self._note(event))
                continue
            self._sequence += 1
            fact = Fact(self._log, self._sequence, self.at, envelope.id, _BENCH, event, self.at)
            self.store_state = self.store.evolve(self.store_state, fact)
            self.agent_state = self.agent.evolve(self.agent_state, fact)
        rows = self.store.packed_rows(self.store_state, first) if self._sequence >= first else b""
        if rows:
            told = RowsTold(self._log, self._sequence, rows)
            self.agent_state = self.agent.evolve(self.agent_state, self._note(told))
        return decision


def _inventories(nodes: Sequence[ListedNode]) -> list[Inventory]:
    """A worker for each rack; nodes have their number in the list."""
    by_model: dict[str, list[int]] = {}
    for number, node in enumerate(nodes):
        by_model.setdefault(node.model, []).append(number)
    found: list[Inventory] = []
    for model, numbers in sorted(by_model.items()):
        for first in range(0, len(numbers), NODES_A_RACK):
            rack, worker = len(found), WorkerName(f"w{len(found)}")
            groups = [
                NodeGroup(number, 1, nodes[number].total, model, rack, NODES_A_RACK, pool=POOL)
                for number in numbers[first : first + NODES_A_RACK]
            ]
            found.append(Inventory(worker, tuple(groups)))
    return found

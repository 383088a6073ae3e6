"""A region's store and broker on one clock, and workers that beat, fall silent and come back: what health is tested with."""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from components.placement_store.component import PlacementStore
from components.region_broker.component import RegionBroker
from core.component import Decision
from core.events.control import NodesClosed
from core.events.region import AttemptEnded
from core.fact import Event
from core.images.capacity import Capacity
from core.images.closures import Closure
from core.messages.base import Message
from core.messages.nodes import ReleaseNodes
from core.messages.store import RecordJoin
from core.messages.workers import NodesChecked, WorkerBeat
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import WorkerName, WorkloadId
from core.nouns.instant import SECOND, Instant, seconds
from core.nouns.limits import QUARANTINE_CHECK
from core.nouns.maintenance import ClosureKind, Scope, ScopeKind
from core.nouns.workload import EndCause
from tests.builders import EU, EU_LOG, NODE, a_claim, granted
from tests.components.support.machine import Machine
from tests.components.support.region_broker import Broker

Start = Callable[..., Machine[Any]]
Kind = TypeVar("Kind", bound=Event | Message)
BEAT = 5
"""Seconds between the beats of one worker; they beat one after the other."""


def named(number: int) -> WorkerName:
    """The name of a worker that serves nodes `2 * number` and the next."""
    return WorkerName(f"w{number}")


def a_worker(number: int, power_domain: str = "", zone: str = "zone-0", *, other: str = "") -> Inventory:
    """Two nodes in this power domain and zone; the second one in another power domain, if that is named."""
    first = 2 * number
    groups = [NodeGroup(first, 2, NODE, "H100", number, 2, zone, power_domain)]
    if other:
        groups = [
            NodeGroup(node, 1, NODE, "H100", number, 2, zone, domain)
            for node, domain in ((first, power_domain), (first + 1, other))
        ]
    return Inventory(named(number), tuple(groups))


def nodes_of(*workers: int) -> list[int]:
    """The nodes of these workers."""
    return [node for worker in workers for node in (2 * worker, 2 * worker + 1)]


class Region:
    """Both, and what they said and recorded."""

    def __init__(self, start: Start, inventories: Iterable[Inventory]) -> None:
        self.store = start(PlacementStore(EU))
        for inventory in inventories:
            self.store.hear(RecordJoin(EU, inventory))
        self.broker = Broker(start(RegionBroker(EU), logs={EU_LOG: list(self.store.logs[EU_LOG])}))
        self.said: list[tuple[int, Message]] = []
        """All that the broker said, and how many seconds after the start."""
        self.is_store_deaf = False
        self.ill: dict[int, tuple[tuple[int, str], ...]] = {}
        self.began = self.now
        self.dice: random.Random | None = None
        """With dice, one beat in ten is lost."""
        self.ticks = 0

    # Reading.

    @property
    def now(self) -> Instant:
        """On everybody's clock."""
        return self.broker.machine.now

    @property
    def second(self) -> int:
        """Seconds since the start."""
        return (self.now - self.began) // SECOND

    @property
    def capacity(self) -> Capacity:
        """As the log has it."""
        capacity: Capacity = self.store.state.image.capacity
        return capacity

    def closed(self, source: str) -> list[int]:
        """The nodes that this source closes."""
        closure: Closure | None = self.capacity.closures.get(source)
        return sorted(closure.each) if closure else []

    def recorded(self, kind: type[Kind]) -> list[Kind]:
        """All facts of one type, in order."""
        return [fact.event for fact in self.store.logs[EU_LOG] if isinstance(fact.event, kind)]

    def told(self, kind: type[Kind]) -> list[tuple[int, Kind]]:
        """All words of one type, and when each was said."""
        return [(at, message) for at, message in self.said if isinstance(message, kind)]

    # What happens.

    def beat(self, *workers: int) -> None:
        """These beat now."""
        for worker in workers:
            self.broker.reports += 1
            order = (1, self.broker.reports)
            beat = WorkerBeat(EU, named(worker), (), order, self.broker.life, self.ill.get(worker, ()))
            self.hear(beat)

    def hear(self, message: Message) -> None:
        """The broker hears this now."""
        self._settle(self.broker.machine.hear(message))
        self._settle(self.broker.machine.wake())

    def run(self, span: int, alive: Sequence[int] = ()) -> None:
        """So many seconds pass, in which these workers beat, one after the other."""
        for _ in range(span):
            for worker in alive:
                if worker % BEAT == self.ticks % BEAT and not (self.dice and self.dice.random() < 0.1):
                    self.beat(worker)
            self._settle(self.broker.machine.wait(seconds(1)))
            self.ticks += 1

    def fact(self, *events: Event) -> None:
        """The store records this, whatever led to it; the broker reads it and says what it calls for."""
        machine = self.store
        machine.now = self.now
        machine._evolve(tuple(events), "", "somebody")
        self._settle(Decision())
        self._settle(self.broker.machine.wake())

    def ask(self, message: Message) -> Decision:
        """Somebody asks the store."""
        self.store.now = self.now
        answered = self.store.hear(message)
        self._settle(Decision())
        self._settle(self.broker.machine.wake())
        return answered

    def release(self, *nodes: int) -> ReleaseNodes:
        """What an operator says who has looked at these nodes in quarantine just now."""
        scope = Scope(ScopeKind.NODE, tuple(str(node) for node in nodes))
        return ReleaseNodes(EU, scope, "looked at", "olga", self.store.sequence(EU_LOG))

    def restart_broker(self) -> None:
        """Another life of the broker."""
        self.broker = self.broker.restart()
        self._settle(self.broker.woken)

    def _settle(self, decision: Decision) -> None:
        """What the broker said reaches the store, and what that recorded reaches the broker, until nothing follows."""
        while True:
            for message in decision.messages:
                self.said.append((self.second, message))
                if type(message) in self.store.component.hears and not self.is_store_deaf:
                    self.store.now = self.now
                    self.store.hear(message, sender="broker.eu")
            machine = self.broker.machine
            fresh = self.store.logs[EU_LOG][len(machine.logs[EU_LOG]) :]
            if not fresh:
                return
            for fact in fresh:
                machine.logs[EU_LOG].append(fact)
                machine.fold(replace(fact, heard_at=self.now))
            decision = machine.wake()


def fall_ill(broker: Broker) -> None:
    """One of the first worker's nodes is ill, is checked and well again; another fails what starts on it."""
    machine, worker = broker.machine, named(0)
    key = (WorkloadId("w-ill"), 1)
    machine.fact(
        EU_LOG, NodesClosed("quarantine", ClosureKind.QUARANTINE, ((0, 0),), "ill", until_checked=True)
    )
    broker.beat(worker)
    machine.hear(NodesChecked(EU, worker, (0,), ()))
    machine.wait(QUARANTINE_CHECK)
    machine.fact(
        EU_LOG, granted(a_claim(*key, placed={1: 1})), AttemptEnded(*key, EndCause.TASK_FAILED, 1, 0, (1,))
    )
    machine.wake()


def a_region(start: Start, workers: int, *, domains: int = 0) -> Region:
    """So many workers that all beat just now, dealt among so many power domains; none: all in one zone without any."""
    inventories = [
        a_worker(number, f"power-{number % domains}" if domains else "") for number in range(workers)
    ]
    region = Region(start, inventories)
    region.run(BEAT, range(workers))
    return region

"""A store, the harvester of its region and a function server: functions use what nobody needs, and owners have it back in time."""

import random
from typing import Any

import pytest
from msgspec import Struct, field

from components.harvester.component import Harvester
from components.placement_store.component import PlacementStore
from core.component import Decision
from core.events.harvest import HarvestReleased
from core.events.queue import RegionAdded, WorkloadAwarded
from core.fact import Event, Fact
from core.images import RegionImage
from core.invariants.consistency import check_ledger
from core.invariants.harvest import RecallWatch, check_harvest_fact, check_harvested
from core.messages.base import Message
from core.messages.harvest import HarvestOdds, NodeSize, NodeUse, ServerSized, SizeServer
from core.messages.nodes import DrainNodes, UndrainNodes
from core.messages.pools import SetPool
from core.messages.store import RecordJoin, RecordLoss, RecordReturn, RecordStarted, SubmitClaim
from core.nouns.harvest import RELEASE_SPAN, HarvestSettings
from core.nouns.ids import GLOBAL_LOG, WorkerName, WorkloadId
from core.nouns.instant import MILLISECOND, SECOND, Instant, Nanoseconds, after, seconds
from core.nouns.maintenance import Scope, ScopeKind
from core.nouns.pool import PoolSettings
from core.nouns.quantities import NOTHING, Amount
from core.nouns.workload import EndCause
from tests.builders import EU, EU_LOG, NODE, a_claim, an_inventory, attempt
from tests.components.support.harvest import POOL, Start, lend
from tests.components.support.machine import Machine
from tests.components.support.placement_store import end
from tests.core.properties import SEEDS

NODES = 8
TICK = Nanoseconds(250 * MILLISECOND)
W0 = WorkerName("w0")


class Executors(Struct):
    """Of a function server's node: devices in use, and until when the calls on each may go on."""

    size: NodeSize
    ends: list[Instant] = field(default_factory=list)
    """By device in use, when its call ends or is ended."""


class Server:
    """A function server that keeps to its sizes: calls run on, after a recall for the grace at most."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.revision = 0
        self.nodes: dict[int, Executors] = {}
        self.dead_until = Instant(0)

    def hear(self, said: SizeServer, now: Instant) -> ServerSized | None:
        """Take new sizes, and answer."""
        if now < self.dead_until:
            return None
        if said.revision >= self.revision:
            self.revision = said.revision
            told = {size.node: size for size in said.sizes}
            for node, known in self.nodes.items():
                self._size(known, told.pop(node, NodeSize(node, NODE, NOTHING, known.size.within)), now)
            for node, size in told.items():
                self.nodes[node] = Executors(size)
        return self.said()

    def _size(self, known: Executors, size: NodeSize, now: Instant) -> None:
        """Victims are idle executors, which leave at once; then calls that end first, which have the grace."""
        surplus = len(known.ends) - size.size.gpu_milli // 1_000
        if surplus > 0 and size.size != known.size.size:
            known.ends.sort()
            latest = after(now, size.within)
            known.ends = [min(at, latest) if place < surplus else at for place, at in enumerate(known.ends)]
        known.size = size

    def tick(self, now: Instant) -> ServerSized | None:
        """Calls end and begin. Return the report if something recalled was left."""
        if now < self.dead_until:
            return None
        has_left = False
        for known in self.nodes.values():
            room = known.size.size.gpu_milli // 1_000
            was_over = len(known.ends) > room
            known.ends = [at for at in known.ends if at > now]
            has_left |= was_over and len(known.ends) <= room
            if len(known.ends) < room and self.dice.random() < 0.3:
                known.ends.append(after(now, seconds(self.dice.choice((0.5, 5, 60)))))
        return self.said() if has_left else None

    def die(self, until: Instant) -> None:
        """Its executors end with it, and it knows of nothing when it is back."""
        self.dead_until, self.revision, self.nodes = until, 0, {}

    def said(self) -> ServerSized:
        """What it uses."""
        uses = tuple(NodeUse(node, Amount(1_000 * len(one.ends))) for node, one in self.nodes.items())
        return ServerSized(EU, "w0", self.revision, uses)


class Region:
    """All three, and a shadow of the log in which each fact is checked."""

    def __init__(self, start: Start, seed: int) -> None:
        self.dice = random.Random(seed)
        self.store: Machine[Any] = start(PlacementStore(EU))
        self.harvester: Machine[Any] = start(Harvester(EU, ("r0",)))
        self.server = Server(self.dice)
        self.image, self.watch = RegionImage.empty(), RecallWatch()
        self.told = 0
        self.odds = 0
        self.drained = 0
        for machine in (self.store, self.harvester):
            machine.fact(GLOBAL_LOG, RegionAdded(EU))
        self.say(RecordJoin(EU, an_inventory("w0", 0, NODES)))
        self.set_pool()

    @property
    def now(self) -> Instant:
        """The time of all."""
        return self.store.now

    def say(self, message: Message) -> None:
        """The store hears it, and the harvester follows."""
        self.store.hear(message)
        self.follow()

    def set_pool(self, **parts: Any) -> None:  # Any: settings
        """The pool is harvested so."""
        settings = PoolSettings(harvest=HarvestSettings(is_on=True, grace=seconds(5)), **parts)
        self.say(SetPool(EU, POOL, settings, self.store.state.image.pools.revision, "olga"))

    def follow(self) -> None:
        """Each new fact is checked, folded, and told to the harvester."""
        facts: list[Fact] = self.store.logs[EU_LOG]
        for fact in facts[self.told :]:
            found = [text for _, text in check_harvest_fact(fact, self.image)]
            self.image.fold(fact)
            found += check_harvested(self.image, range(len(self.image.capacity.node_type)))
            assert [] == found + self.watch.look(fact.at, self.image), fact.event
            assert isinstance(fact.event, Event)
            self.harvester.fact(EU_LOG, fact.event)
        self.told = len(facts)

    def carry(self, decision: Decision) -> None:
        """What the harvester says reaches the others, unless the bus loses it."""
        for message in decision.messages:
            if isinstance(message, HarvestOdds):
                self.odds += 1
            elif self.dice.random() < 0.1:
                continue
            elif isinstance(message, SizeServer):
                answer = self.server.hear(message, self.now)
                if answer is not None and self.dice.random() < 0.9:
                    self.carry(self.harvester.hear(answer))
            else:
                self.say(message)

    def wait(self, span: int) -> None:
        """So much time passes."""
        for _ in range(span // TICK):
            now = after(self.now, TICK)
            self.harvester.now = now
            self.store.wake(now)
            self.follow()
            said = self.server.tick(now)
            if said is not None:
                self.carry(self.harvester.hear(said))
            self.carry(self.harvester.wake())

    # What owners do.

    def place(self, number: int) -> None:
        """A gang is granted, if it fits."""
        name, sequence = WorkloadId(f"w-{number}"), 0
        for machine in (self.store, self.harvester):
            sequence = machine.fact(GLOBAL_LOG, WorkloadAwarded(name, 1, EU, 0, ()))
        nodes = self.dice.sample(range(NODES), self.dice.randint(1, 3))
        placed = dict.fromkeys(nodes, self.dice.choice((1, 4, 8)))
        self.say(SubmitClaim(EU, a_claim(name, placed=placed, award_sequence=sequence)))

    def step(self, number: int) -> None:
        """Something happens to the region."""
        live = [name for name, _, _ in self.image.capacity.live()]
        choice = self.dice.randrange(12)
        if choice < 4 or not live:
            self.place(number)
        elif choice < 6:
            end(self.store, self.dice.choice(live), EndCause.COMPLETED)
        elif choice == 6:
            self.store.hear(RecordStarted(EU, *attempt(self.dice.choice(live))))
        elif choice == 7:
            name = self.dice.choice(live)
            held = self.image.capacity.holding(*attempt(name))
            assert held is not None
            node = self.dice.choice(held.claim.spreads[0].nodes)
            lend(self.store, name, node, Amount(1_000 * self.dice.randint(0, 2)), number)
        elif choice == 8:
            self._drain()
        elif choice == 9:
            self.set_pool(limit=self.dice.choice((600, 1_000)), reserve=self.dice.choice((0, 2)))
        elif choice == 10 and self.dice.random() < 0.3:
            self.store.hear(RecordLoss(EU, W0, self.store.sequence(EU_LOG)))
            self.server.die(after(self.now, seconds(3)))
            self.follow()
            self.wait(seconds(4))
            self._end_all()
            self.store.hear(RecordReturn(EU, W0, self.store.sequence(EU_LOG)))
        elif choice == 11 and self.dice.random() < 0.3:
            self.server.die(after(self.now, seconds(self.dice.choice((1, 30)))))
        self.follow()

    def _drain(self) -> None:
        revision = self.store.state.image.maintenance.revision
        scope = Scope(ScopeKind.NODE, (str(self.dice.randrange(NODES)),))
        kind = self.dice.choice((DrainNodes, UndrainNodes))
        drain = DrainNodes(EU, scope, "old", revision, 0, "olga")
        self.store.hear(drain if kind is DrainNodes else UndrainNodes(EU, scope, revision, "olga"))

    def _end_all(self) -> None:
        for name, _, _ in self.image.capacity.live():
            end(self.store, name, EndCause.COMPLETED)
        self.follow()

    def calm(self) -> None:
        """Everything ends, nodes are open, and the pool is harvested whole."""
        self._end_all()
        for node in range(NODES):
            revision = self.store.state.image.maintenance.revision
            self.say(UndrainNodes(EU, Scope(ScopeKind.NODE, (str(node),)), revision, "olga"))
        self.set_pool()
        self.wait(seconds(90))


@pytest.mark.parametrize("seed", SEEDS)
def test_capacity_is_used_and_given_back(start: Start, seed: int) -> None:
    """H-1: whatever owners, settings, losses, a bus that loses words and a server that dies do: each fact keeps to the rules, releases
    come in time, and in the end functions may use all that is free.
    """
    region = Region(start, seed)
    region.wait(seconds(15))
    assert NODES == sum(known.size != NOTHING for known in region.image.harvest.nodes.values())
    for number in range(1, 120):
        region.step(number)
        region.wait(seconds(region.dice.choice((0.25, 1, 12))))
    assert [] == check_ledger(region.image.capacity)
    region.calm()
    nodes = region.image.harvest.nodes
    assert dict.fromkeys(range(NODES), NODE) == {node: known.size for node, known in sorted(nodes.items())}
    assert all(known.is_calm for known in nodes.values())
    assert region.odds > 10


def test_server_that_lives_gives_back_within_the_grace(start: Start) -> None:
    """H-1: reclaim is at most the grace at the 99th percentile, and a second for words that the bus loses."""
    region = Region(start, 7)
    region.wait(seconds(30))
    for number in range(1, 60):
        region.place(number)
        region.wait(seconds(12))
        if number % 4 == 0:
            region.calm()
    parts = [
        part
        for fact in region.store.logs[EU_LOG]
        if isinstance(fact.event, HarvestReleased)
        for part in fact.event.parts
    ]
    assert len(parts) > 50
    assert all(part.is_confirmed for part in parts)
    spans = sorted(part.after for part in parts)
    assert spans[len(spans) * 99 // 100] <= seconds(5) + 2 * SECOND
    assert spans[-1] < seconds(5) + RELEASE_SPAN

"""Many agents over one placement store, without a bus or a file: each learns what happened so many facts later.

The store and the agents are the real ones, and what they say to each other is heard at once; only the facts come late. That
is how claims meet, so it can be played as often and as fast as one likes, always in the same way.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct

from components.allocation_agent.component import AllocationAgent
from components.allocation_agent.state import AgentState
from components.placement_store.component import PlacementStore
from components.placement_store.state import StoreState
from core.component import Component, Decision, ImageAdopted, Images, RowsAlone, RowsTold
from core.events.queue import RegionAdded, WorkloadAwarded
from core.events.region import ClaimGranted
from core.fact import NO_LOG, Event, Fact, Note
from core.images import RegionImage
from core.images.capacity import Capacity
from core.messages.agents import AwardHandedBack, ClaimAnswered, PlaceAward, SetAgents
from core.messages.base import Envelope, LogHeard, Message, Woken
from core.messages.broker import ExecuteAward
from core.messages.store import DeclineAward, RecordEnd, RecordJoin, SubmitClaim
from core.nouns.agents import AgentSettings, Turn
from core.nouns.fleet import Inventory
from core.nouns.ids import GLOBAL_LOG, AgentName, LogName, RegionName, TenantName, WorkloadId, region_log
from core.nouns.instant import MILLISECOND, Instant, Nanoseconds, after
from core.nouns.placement import Claim
from core.nouns.workload import EndCause, JobSpec, Kind
from core.placing.partitions import full_of, turn_of
from core.placing.placer import SECTIONS

STREAM = AgentSettings()
EAST = RegionName("east")
LOG = region_log(EAST)
TICK = Nanoseconds(MILLISECOND // 10)
NO_WAIT = Nanoseconds(0)
TURNS_MAX = 100
"""Words between one agent and the store about one award; ten tries are some thirty."""


class Asked(Struct, frozen=True):
    """One workload that is to be placed."""

    jobs: tuple[JobSpec, ...]
    priority: int = 3
    kind: Kind = Kind.TRAINING
    tenant: str = "bench"
    is_healing: bool = False
    is_incremental: bool = False


class LaggingAgent:
    """One agent, and the facts that it has yet to be told."""

    def __init__(self, component: AllocationAgent, at: Instant) -> None:
        self.component = component
        self.state: AgentState = component.initial(Images(at, None, {}))
        self.late: deque[tuple[Fact, bytes]] = deque()
        """Facts, each with the rows of the nodes that it changed."""
        self._wanted: frozenset[type[Event]] | None = None
        """The facts that are folded; None: all."""

    def tell(self, fact: Fact, rows: bytes, lag: int) -> None:
        """A fact became durable: the agent is told all but the newest ones."""
        self.late.append((fact, rows))
        while len(self.late) > lag:
            self._hand_on(*self.late.popleft())

    def catch_up(self, sequence: int) -> None:
        """It is told of all facts up to this one."""
        while self.late and self.late[0][0].sequence <= sequence:
            self._hand_on(*self.late.popleft())

    def follow_as_wanted(self) -> None:
        """Hand on fewer facts from here on, if the agent wants rows alone, as a host does."""
        (follow,) = self.component.follows_now(self.state)
        if follow.facts == self._wanted:
            return
        assert follow.facts is not None, "a crowd's agents never go back to folding every fact"
        self._wanted = follow.facts
        self._note(RowsAlone(LOG))

    def _hand_on(self, fact: Fact, rows: bytes) -> None:
        if self._wanted is None or type(fact.event) in self._wanted:
            self.component.evolve(self.state, fact)
        if self._wanted is not None:
            self._note(RowsTold(LOG, fact.sequence, rows))

    def _note(self, note: Note) -> None:
        self.component.evolve(self.state, Fact(NO_LOG, 0, Instant(0), "", "bench", note))


class Crowd:
    """The store, its agents, and what came of their claims.

    lag        facts that each agent has yet to be told of, while it does not wait for them itself
    stripes    whether agents look at different pods first, as a broker lets them
    make       what an agent is, by its name
    settings   how agents see the region
    held       claims that were granted before any agent is there
    tick       how long after the message before each message is heard
    """

    def __init__(
        self,
        inventories: Iterable[Inventory],
        *,
        agents: int,
        lag: int = 0,
        stripes: bool = True,
        make: Callable[[RegionName, AgentName], AllocationAgent] = AllocationAgent,
        settings: AgentSettings = STREAM,
        held: Iterable[Claim] = (),
        tick: Nanoseconds = TICK,
    ) -> None:
        self.now = Instant(0)
        self._tick = tick
        self.lag, self.stripes = lag, stripes
        self.store = PlacementStore(EAST)
        self.state: StoreState = self.store.initial(Images(self.now, None, {}))
        self.agents = [
            LaggingAgent(make(EAST, AgentName(f"a{number}")), self.now) for number in range(agents)
        ]
        self.facts: list[Fact] = []
        """The region's log."""
        self.claims: list[tuple[Claim, str, bool]] = []
        """Each that was judged, with the verdict, and whether one of its nodes had changed since its view."""
        self._global = 0
        self._workloads = 0
        self._queue(RegionAdded(EAST))
        self._decide(self.store, self.state, LogHeard(GLOBAL_LOG))
        for inventory in inventories:
            self.say(RecordJoin(EAST, inventory))
        self.settings = settings
        if settings != STREAM:
            self.say(SetAgents(EAST, settings, agents, 0, "bench"))
        self.handed_back = 0
        """Awards that agents gave back for a full agent."""
        self.catch_up()
        self._grant_before(held)

    def _grant_before(self, held: Iterable[Claim]) -> None:
        """Grant claims at once, and let each agent begin with an image of that."""
        facts = [ClaimGranted(claim.workload, claim.epoch, claim, is_merged=False) for claim in held]
        for event in facts:
            fact = Fact(LogName(LOG), len(self.facts) + 1, self.now, "bench", "bench", event, self.now)
            self.facts.append(fact)
            self.store.evolve(self.state, fact)
        encoded = self.state.image.encode(SECTIONS) if facts else b""
        for agent in self.agents if facts else ():
            note = ImageAdopted(LOG, RegionImage.decode(encoded, SECTIONS), len(self.facts))
            agent.component.evolve(agent.state, Fact(NO_LOG, 0, self.now, "", "bench", note))

    # What is done.

    @property
    def capacity(self) -> Capacity:
        """Of the region, now."""
        return self.state.image.capacity

    def place(self, *asked: Asked) -> list[WorkloadId]:
        """These are awarded at once, one to each agent in turn; all search before the first claim is judged."""
        able = self.able
        awards = [(able[number % len(able)], self.award(one)) for number, one in enumerate(asked)]
        self.place_all(awards)
        return [award.workload for _, award in awards]

    @property
    def able(self) -> list[LaggingAgent]:
        """The agents that are asked first: those with partitions, if there are some."""
        full = len(full_of(self.settings, self._names))
        return self.agents[full:] or self.agents

    @property
    def _names(self) -> list[AgentName]:
        return [agent.component.agent for agent in self.agents]

    def place_all(self, awards: Sequence[tuple[LaggingAgent, ExecuteAward]]) -> None:
        """Each agent searches for its award; then the claims are judged, one after the other."""
        claims = [(agent, self.hear(agent, self.word_for(agent, award))) for agent, award in awards]
        for agent, messages in claims:
            self._settle(agent, messages)

    def word_for(self, agent: LaggingAgent, award: ExecuteAward, waited: Nanoseconds = NO_WAIT) -> PlaceAward:
        """An award as the broker hands it to the agent, after it waited so long."""
        turn = (
            turn_of(self.settings, self._names, agent.component.agent, self.now) if self.stripes else Turn()
        )
        return PlaceAward(EAST, agent.component.agent, award, turn, waited)

    def award(self, asked: Asked) -> ExecuteAward:
        """The queue's log shows it awarded."""
        self._workloads += 1
        workload = WorkloadId(f"w-{self._workloads}")
        sequence = self._queue(WorkloadAwarded(workload, 1, EAST, 0, ()))
        return ExecuteAward(
            EAST,
            workload,
            1,
            sequence,
            asked.priority,
            asked.kind,
            asked.jobs,
            AgentName(""),
            (),
            tenant=TenantName(asked.tenant),
            is_healing=asked.is_healing,
            is_incremental=asked.is_incremental,
        )

    def say(self, message: Message) -> tuple[Message, ...]:
        """The store hears this. What it records is told to the agents."""
        return self._decide(self.store, self.state, message).messages

    def end(self, workload: WorkloadId) -> None:
        """Its first attempt ends."""
        self.say(RecordEnd(EAST, workload, 1, EndCause.COMPLETED))

    def wait(self, span: Nanoseconds) -> None:
        """So much time passes, and the store is woken for what is due."""
        self.now = after(self.now, span)
        while (due := self.store.due(self.state)) is not None and due <= self.now:
            self._decide(self.store, self.state, Woken())

    def catch_up(self) -> None:
        """Every agent is told of everything."""
        for agent in self.agents:
            agent.catch_up(len(self.facts))

    def recorded(self, kind: type[Event]) -> list[Any]:  # Any: of whichever kind
        """All facts of this sort."""
        return [fact.event for fact in self.facts if isinstance(fact.event, kind)]

    # What follows.

    def _queue(self, event: Event) -> int:
        self._global += 1
        fact = Fact(GLOBAL_LOG, self._global, self.now, "queue", "queue", event, self.now)
        self.store.evolve(self.state, fact)
        return self._global

    def _settle(self, agent: LaggingAgent, messages: Sequence[Message]) -> None:
        """What an agent says is judged, and it hears the answer, until it is content."""
        turns = 0
        waiting = deque(messages)
        while waiting:
            message = waiting.popleft()
            turns += 1
            assert turns < TURNS_MAX, "it goes on for ever"
            if isinstance(message, DeclineAward):
                self.say(message)
            elif isinstance(message, AwardHandedBack):
                self.handed_back += 1
                full = self.agents[self.handed_back % max(1, len(self.agents) - len(self.able))]
                agent = full
                waiting.extend(self.hear(full, self.word_for(full, message.award)))
            elif isinstance(message, SubmitClaim):
                claim = message.claim
                is_old = has_changed_since(self.capacity, claim)
                for answer in self.say(message):
                    assert isinstance(answer, ClaimAnswered), answer
                    self.claims.append((claim, answer.verdict, is_old))
                    waiting.extend(self.hear(agent, answer))
                    has_rows_alone = agent.state.believed is not None
                    agent.catch_up(
                        answer.sequence if answer.verdict == "conflict" and not has_rows_alone else 0
                    )
                    due = agent.component.due(agent.state)
                    if agent.state.conflicted and due is not None and due <= self.now:
                        waiting.extend(self.hear(agent, Woken()))

    def hear(self, agent: LaggingAgent, message: Message) -> tuple[Message, ...]:
        """What an agent says to a message, once it has taken in what it needs."""
        messages = [*self._decide(agent.component, agent.state, message).messages]
        agent.follow_as_wanted()
        while agent.state.waiting:
            messages += self._decide(agent.component, agent.state, Woken()).messages
            agent.follow_as_wanted()
        return tuple(messages)

    def _decide(self, component: Component[Any], state: Any, message: Message) -> Decision:  # Any: its state
        self.now = after(self.now, self._tick)
        decision = component.decide(state, Envelope(message, "bench", "bench", self.now))
        for event in decision.events:
            self._evolve(component, state, event)
        return decision

    def _evolve(self, component: Component[Any], state: Any, event: Event | Note) -> None:  # Any: its state
        if isinstance(event, Note):
            component.evolve(state, Fact(NO_LOG, 0, self.now, "bench", "bench", event, self.now))
            return
        fact = Fact(LogName(LOG), len(self.facts) + 1, self.now, "bench", "bench", event, self.now)
        self.facts.append(fact)
        component.evolve(state, fact)
        rows = self.store.packed_rows(self.state, fact.sequence)
        assert rows is not None, fact.sequence
        for agent in self.agents:
            agent.tell(fact, rows, self.lag)


def has_changed_since(capacity: Capacity, claim: Claim) -> bool:
    """Whether one of its nodes has changed since the claim's view: what detection by sequence would call a conflict."""
    seen = claim.view.sequence
    return any(capacity.changed[node] > seen for spread in claim.spreads for node in spread.nodes)

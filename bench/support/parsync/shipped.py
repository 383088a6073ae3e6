"""The model's three phases with the agents and the store that are shipped, in virtual time and in the model's steps.

Slots are nodes of one GPU. In each step every agent is handed as many awards as the model's schedulers attempt; all search before the
first claim is judged, claims are judged in a drawn order, and a claim has one try. What becomes durable is told to all agents in the
same step, which take it in when the round's partitions are due. Nodes are drawn by their score, as the model draws slots.
"""

import random
from collections import deque

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bench.support.agents.lagging import EAST, Asked, Crowd, LaggingAgent
from bench.support.parsync.model import STEP, TASK_SECONDS, Setup
from bench.support.parsync.phases import PHASES
from bench.support.store.commit_plane import job_of, joins
from components import AllocationAgent
from components.allocation_agent.state import AgentState
from core.component import Images
from core.messages.agents import AwardHandedBack, ClaimAnswered
from core.messages.base import Message
from core.messages.broker import ExecuteAward
from core.messages.pools import SetPool
from core.messages.store import DeclineAward, SubmitClaim
from core.nouns.ids import WorkloadId
from core.nouns.instant import Instant, Nanoseconds, after, seconds
from core.nouns.pool import PoolSettings
from core.nouns.workload import Kind

FULL = 1
LEVEL_RULES = "islands:2"
"""By which all nodes of one GPU are equally good."""
ASKED = Asked((job_of(1, 1),))
TICK = Nanoseconds(1_000)
"""So short that all messages of a step are heard in the step."""


class ShippedPhase(Struct):
    """What came of one phase."""

    attempts: int = 0
    conflicts: int = 0
    delay_s: float = 0.0
    """Of all tasks that started, together."""
    started: int = 0

    @property
    def conflict_share(self) -> float:
        """Of all attempts."""
        return self.conflicts / max(1, self.attempts)

    @property
    def mean_s(self) -> float:
        """Mean delay in seconds."""
        return self.delay_s / max(1, self.started)


class _Drawing(AllocationAgent):
    """An agent that draws nodes by score."""

    def initial(self, images: Images) -> AgentState:
        """Begin so."""
        state = super().initial(images)
        state.is_weighted = True
        return state


def shipped_phases(setup: Setup, phase_seconds: float) -> list[ShippedPhase]:
    """Play the three phases, each for so many seconds."""
    run = _Run(setup)
    found = []
    for loads in PHASES:
        phase = ShippedPhase()
        for _ in range(round(phase_seconds / STEP)):
            run.step(phase, loads)
        found.append(phase)
    return found


class _Run:
    """A region of slots, agents that each have a queue of tasks, and what runs."""

    def __init__(self, setup: Setup) -> None:
        self._setup, self._dice = setup, np.random.default_rng(setup.seed)
        self._order = random.Random(setup.seed)
        inventories = [event.inventory for event in joins(setup.slots, gpus=1)]
        self._crowd = Crowd(
            inventories,
            agents=setup.agents + FULL,
            make=_Drawing,
            settings=replace(setup.settings, full=FULL, tries=1),
            tick=TICK,
        )
        if setup.is_level:
            self._crowd.say(SetPool(EAST, Kind.TRAINING.value, PoolSettings(LEVEL_RULES), 0, "bench"))
        self._queues: list[deque[Instant]] = [deque() for _ in self._crowd.able]
        """Arrivals of the tasks that wait."""
        self._running: deque[tuple[Instant, WorkloadId]] = deque()
        """When each task ends; all last as long."""
        self._steps = round(self._crowd.now / 1e9 / STEP)

    def step(self, phase: ShippedPhase, loads: tuple[float, float]) -> None:
        """Play one step."""
        self._steps += 1
        now = Instant(seconds(self._steps * STEP))
        assert self._crowd.now <= now, "the messages of a step take longer than the step"
        self._crowd.now = now
        while self._running and self._running[0][0] <= now:
            self._crowd.end(self._running.popleft()[1])
        claims: list[tuple[int, Instant, LaggingAgent, SubmitClaim]] = []
        half = len(self._queues) // 2
        for index, agent in enumerate(self._crowd.able):
            rate = loads[index >= half] * self._setup.attempts_per_s
            self._queues[index].extend([now] * int(self._dice.poisson(rate * STEP)))
            claims += self._claims_of(index, agent, now, phase)
        self._order.shuffle(claims)
        for index, arrived, agent, claim in claims:
            self._judge(index, arrived, agent, claim, now, phase)

    def _claims_of(
        self, index: int, agent: LaggingAgent, now: Instant, phase: ShippedPhase
    ) -> list[tuple[int, Instant, LaggingAgent, SubmitClaim]]:
        """Hand an agent what it may attempt in this step."""
        queue, allowed = self._queues[index], self._setup.attempts_per_s * STEP
        count = min(len(queue), int(allowed) + int(self._dice.random() < allowed % 1))
        found, back = [], []
        for _ in range(count):
            arrived = queue.popleft()
            said = self._crowd.hear(agent, self._word(agent, Nanoseconds(now - arrived)))
            claims = [message for message in said if isinstance(message, SubmitClaim)]
            if claims:
                found.append((index, arrived, agent, claims[0]))
                continue
            assert any(isinstance(message, AwardHandedBack) for message in said), said
            back.append(arrived)
        queue.extendleft(reversed(back))
        return found

    def _word(self, agent: LaggingAgent, waited: Nanoseconds) -> Message:
        award: ExecuteAward = self._crowd.award(ASKED)
        return self._crowd.word_for(agent, award, waited)

    def _judge(
        self,
        index: int,
        arrived: Instant,
        agent: LaggingAgent,
        claim: SubmitClaim,
        now: Instant,
        phase: ShippedPhase,
    ) -> None:
        phase.attempts += 1
        (answer,) = self._crowd.say(claim)
        assert isinstance(answer, ClaimAnswered), answer
        for message in self._crowd.hear(agent, answer):
            if isinstance(message, DeclineAward):
                self._crowd.say(message)
        if answer.verdict == "conflict":
            phase.conflicts += 1
            self._queues[index].appendleft(arrived)
            return
        phase.started += 1
        phase.delay_s += (now - arrived) / 1e9
        self._running.append((after(now, seconds(TASK_SECONDS)), claim.claim.workload))

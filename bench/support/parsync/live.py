"""A region of slots whose agents are processes, and a driver in the queue's and the broker's place that makes attempts at a rate.

A slot is a node of one GPU, and a task takes a slot for five seconds. Tasks arrive for each agent at random (Poisson) and wait with
the driver, in order. An agent is handed K of them a second at most, and a claim has one try: a conflict costs an attempt, and its task
is the next one of its agent again. So agents are as slow as the published ones, whatever the machine is.
"""

import asyncio
import heapq
import math
import random
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct, field

from bench.support.store.commit_plane import EAST, LOG, LogWriter, Seat, job_of, joins, workload_of
from bus.port import Bus
from core.events.queue import WorkloadAwarded, WorkloadSubmitted
from core.events.region import AwardDeclined, ClaimGranted
from core.fact import Event
from core.messages.broker import ExecuteAward
from core.messages.store import RecordEnd
from core.nouns.ids import GLOBAL_LOG, AgentName
from core.nouns.workload import EndCause, Kind, WorkloadSpec

TASK_SECONDS = 5.0
JOB = job_of(1, 1)
TICK_SECONDS = 0.004
"""An attempt is made so late at most, if the machine keeps up."""
WARM_SECONDS_MAX = 120


class Slots:
    """The logs of the region and of the queue before anybody keeps them: slots, and workloads that are awarded.

    awarded   by the number of a workload, the sequence of its award
    """

    def __init__(self, slots: int, attempts: int) -> None:
        self._region, self._queue = LogWriter(LOG), LogWriter(GLOBAL_LOG)
        for event in joins(slots, gpus=1):
            self._region.put(event)
        self.awarded: dict[int, int] = {}
        for number in range(1, attempts + 1):
            self._queue.put(
                WorkloadSubmitted(workload_of(number), number, WorkloadSpec("bench", (JOB,)), "bench")
            )
            self._queue.put(WorkloadAwarded(workload_of(number), 1, EAST, 0, ()))
            self.awarded[number] = self._queue.sequence

    async def write(self, directory: Path) -> None:
        """Write both."""
        await self._region.write(directory)
        await self._queue.write(directory)


class StepFigures(Struct):
    """What came of one step of the load. A delay lasts from a task's arrival until its start is durable and heard."""

    load: float
    seconds: float = 0.0
    delays: list[float] = field(default_factory=list)
    """Of the tasks that started in the step, in seconds."""
    attempts: int = 0
    conflicts: int = 0
    handed_back: int = 0
    """Attempts of an agent that believed no slot free."""

    @property
    def mean_s(self) -> float:
        """Mean delay in seconds."""
        return float(np.mean(self.delays)) if self.delays else 0.0

    @property
    def p99_s(self) -> float:
        """The delay in seconds that one task in a hundred exceeds."""
        return float(np.quantile(self.delays, 0.99)) if self.delays else 0.0

    @property
    def conflict_share(self) -> float:
        """Of all attempts."""
        return self.conflicts / max(1, self.attempts)

    @property
    def rate(self) -> float:
        """Tasks started a second."""
        return len(self.delays) / max(self.seconds, 1e-9)


class _Task(Struct):
    """One task that waits or is tried."""

    agent: AgentName
    arrived: float


class Attempts(Seat):
    """Makes attempts, K a second for each agent with partitions, and ends tasks."""

    def __init__(self, bus: Bus, agents: list[AgentName], slots: Slots, attempts_per_s: float) -> None:
        super().__init__(bus, agents)
        self._slots = slots
        self._gap = 1 / attempts_per_s
        self._number, self._last = 0, max(slots.awarded)
        """The numbers of the last award that was tried from the beginning of the log, and of the next from its end."""
        self._queues: dict[AgentName, deque[_Task]] = {}
        self._tried: dict[int, _Task] = {}
        """By the number of the workload that stands for the attempt."""
        self._ends: list[tuple[float, int]] = []
        """When each task that runs ends, and its number."""
        self._step = StepFigures(0.0)

    async def play(self, loads: Sequence[float], step_seconds: float, seed: int) -> list[StepFigures]:
        """Play one load after the other, each a part of K, and return the figures of each; what waits then is forgotten."""
        able = self.agents[len(self.full) :]
        dice = random.Random(seed)
        self._queues = {agent: deque() for agent in able}
        begun = time.perf_counter()
        # Agents begin their attempts one after the other.
        free_at = {agent: begun + self._gap * number / len(able) for number, agent in enumerate(able)}
        arrives = dict.fromkeys(able, begun)
        found = []
        for load in loads:
            self._step = StepFigures(load)
            found.append(self._step)
            start = time.perf_counter()
            while (now := time.perf_counter()) < start + step_seconds:
                for agent in able:
                    while arrives[agent] <= now:
                        self._queues[agent].append(_Task(agent, arrives[agent]))
                        arrives[agent] += dice.expovariate(load / self._gap)
                    if free_at[agent] <= now and self._queues[agent]:
                        self._try(self._queues[agent].popleft(), now)
                        # A late attempt does not delay the next one.
                        free_at[agent] = max(free_at[agent] + self._gap, now - self._gap)
                self._end_until(now)
                await asyncio.sleep(TICK_SECONDS)
            self._step.seconds = time.perf_counter() - start
        self._queues = {}
        return found

    async def warm_up(self) -> None:
        """Let each agent answer one attempt by the present settings, and the store know of every award.

        The last awards of the log are taken, and given again as the queue gives them, until they are answered. Their tasks end at
        once.
        """
        self._step = StepFigures(0.0)
        able = self.agents[len(self.full) :]
        numbers = range(self._last - len(able) + 1, self._last + 1)
        self._last -= len(able)
        for number, agent in zip(numbers, able, strict=True):
            self._tried[number] = _Task(agent, time.perf_counter())
        deadline = time.monotonic() + WARM_SECONDS_MAX
        while self._tried:
            assert time.monotonic() < deadline, f"{len(self._tried)} of {len(able)} agents do not answer"
            for number, task in self._tried.items():
                self.hand(self._award(number, task), task.agent)
            await asyncio.sleep(0.5)
        await self.settle()

    async def settle(self) -> None:
        """End what runs, until no attempt is under way and no task runs."""
        deadline = time.monotonic() + 60
        while self._ends or self._tried:
            assert time.monotonic() < deadline, (
                f"{len(self._tried)} attempts are under way, {self.missed} facts were missed"
            )
            self._end_until(math.inf)
            await asyncio.sleep(0.05)

    def _try(self, task: _Task, now: float) -> None:
        self._number += 1
        self._step.attempts += 1
        self._tried[self._number] = task
        self.hand(self._award(self._number, task), task.agent, now - task.arrived)

    def _award(self, number: int, task: _Task) -> ExecuteAward:
        return ExecuteAward(
            EAST, workload_of(number), 1, self._slots.awarded[number], 3, Kind.TRAINING, (JOB,), task.agent, ()
        )  # fmt: skip

    def _end_until(self, now: float) -> None:
        while self._ends and self._ends[0][0] <= now:
            _, number = heapq.heappop(self._ends)
            self.bus.say(RecordEnd(EAST, workload_of(number), 1, EndCause.COMPLETED))

    def handed_back(self, award: ExecuteAward, agent: AgentName) -> None:
        """The agent believes no slot free: that attempt is gone."""
        task = self._tried.pop(int(award.workload[2:]), None)
        if task is not None:
            self._step.handed_back += 1
            self._again(task)

    def hear(self, event: Event, now: float) -> None:
        """A task has its slot, or has met a conflict."""
        match event:
            case ClaimGranted(workload=workload):
                number = int(workload[2:])
                task = self._tried.pop(number, None)
                if task is not None:
                    self._step.delays.append(now - task.arrived)
                heapq.heappush(self._ends, (now + TASK_SECONDS, number))
            case AwardDeclined(workload=workload):
                task = self._tried.pop(int(workload[2:]), None)
                if task is not None:
                    self._step.conflicts += 1
                    self._again(task)

    def _again(self, task: _Task) -> None:
        """Be the next one of its agent."""
        if task.agent in self._queues:
            self._queues[task.agent].appendleft(task)

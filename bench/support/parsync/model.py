"""Schedulers that place tasks on slots, each by a view of its own that is brought up to date partition by partition.

A slot runs one task. Tasks arrive at each scheduler at random (Poisson), wait in order, and last five seconds. A scheduler makes K
attempts a second, failed ones counted. In each step all schedulers choose slots that they believe free; a slot goes to a drawn one of
those that chose it, the others have met a conflict: their tasks go back to the front, and they believe the slot taken. A slot that is
freed is seen when its partition is taken in. Partitions, rotations, turns and strategies are those of core/placing/; inside a
partition slots are drawn by their scores, as published, and by `tier-first` among those of the best tier.

source    ParSync (ATC'21); spec/protean-parsync.md §2.2, §2.6
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from core.nouns.agents import AgentSettings, AgentView, Placing, Rotation, Turn
from core.nouns.instant import Nanoseconds, seconds
from core.placing.partition_search import first_in_round
from core.placing.partitions import dealt, owned_by, round_span
from core.placing.strategies import STRATEGIES
from core.placing.strategies.adaptive import is_late_after
from core.placing.strategies.strategy import Candidates

STEP = 0.025
"""Seconds of a step."""
TASK_SECONDS = 5.0
SCARCE_SHARE = 0.1
"""Of slots that the second sort of tasks wants, and of tasks that are of that sort."""
SCARCE_FROM = 0.9
"""A slot's score for the second sort of tasks is at least so much where it is wanted, and small elsewhere."""
ELSEWHERE_MAX = 0.12
Scores = NDArray[np.float64]


class Setup(Struct, frozen=True):
    """One run."""

    slots: int = 200_000
    agents: int = 20
    partitions: int = 20
    attempts_per_s: float = 2_000.0
    """Of one scheduler: K."""
    sync_seconds: float = 0.5
    """G."""
    view: AgentView = AgentView.PARSYNC
    placing: Placing = Placing.LATENCY_FIRST
    rotation: Rotation = Rotation.DIFFERENT
    is_over_all: bool = False
    """Whether slots are drawn by score over all partitions, as of old."""
    in_blocks: bool = False
    has_two_sorts: bool = False
    """Whether a tenth of the tasks wants a tenth of the slots."""
    is_level: bool = False
    """Whether all slots have one score, so that all partitions are equally good and slots are drawn alike."""
    exponential: bool = False
    """Whether tasks last exponentially long, with the same mean."""
    seed: int = 1

    @property
    def settings(self) -> AgentSettings:
        """As agents would be set."""
        return AgentSettings(
            self.view.value,
            self.placing.value,
            self.partitions,
            seconds(self.sync_seconds),
            self.rotation.value,
        )

    def scaled(self, part: float) -> "Setup":
        """The same with this part of the slots and of the attempts."""
        return Setup(
            **{
                **{name: getattr(self, name) for name in self.__struct_fields__},
                "slots": round(self.slots * part),
                "attempts_per_s": self.attempts_per_s * part,
            }
        )


class Started(Struct):
    """What came of one phase."""

    delays: list[Scores]
    """Seconds from the arrival to the start, of the tasks that started, by step."""
    qualities: list[Scores]
    sorts: list[NDArray[np.bool_]]
    """Which of these were of the second sort."""
    attempts: int = 0
    conflicts: int = 0
    times: list[float] = []
    """Seconds from the beginning of the run to that of each step in which tasks started."""
    flaps: int = 0
    """How often a scheduler became late, or ceased to be late: `adaptive` changes its strategy then."""

    @property
    def delay(self) -> Scores:
        """Of all tasks."""
        return np.concatenate(self.delays) if self.delays else np.zeros(0)

    @property
    def quality(self) -> Scores:
        """Scores of the slots for their tasks."""
        return np.concatenate(self.qualities) if self.qualities else np.zeros(0)

    @property
    def is_scarce(self) -> NDArray[np.bool_]:
        """Which of the tasks were of the second sort."""
        return np.concatenate(self.sorts) if self.sorts else np.zeros(0, dtype=bool)

    @property
    def conflict_share(self) -> float:
        """Of all attempts."""
        return self.conflicts / max(1, self.attempts)


class Model:
    """All schedulers and slots. Slots are numbered by partition, and all partitions have as many.

    score     (sorts, slots) score of each slot for a task of each sort, higher is better
    tier      (sorts, slots) its tier for a task of each sort, 0 is best
    believed  (agents, slots) whether a scheduler believes a slot free
    free      (agents, partitions) slots that a scheduler believes free
    best      (sorts, agents, partitions) those of them of the best tier
    total     (sorts, agents, partitions) the sum of their scores
    fresh     (agents, partitions) the step in which each partition was taken in
    """

    def __init__(self, setup: Setup) -> None:
        assert setup.slots % setup.partitions == 0, setup
        self.setup = setup
        self.dice = np.random.default_rng(setup.seed)
        slots, agents, parts = setup.slots, setup.agents, setup.partitions
        self._size = slots // parts
        order = np.argsort(dealt(slots, parts, in_blocks=setup.in_blocks), kind="stable")
        score, tier = self._scores_and_tiers(slots)
        self.score, self.tier = score[:, order], tier[:, order]
        sorts = len(self.score)
        self.is_free = np.ones(slots, dtype=bool)
        self.believed = np.ones((agents, slots), dtype=bool)
        self.free = np.full((agents, parts), self._size, dtype=np.int64)
        self.best = np.repeat(self._sums(self.tier == 0)[:, None, :], agents, axis=1).astype(np.int64)
        self.total = np.repeat(self._sums(self.score)[:, None, :], agents, axis=1)
        self.fresh = np.zeros((agents, parts), dtype=np.int64)
        self.queues: list[deque[tuple[float, bool]]] = [deque() for _ in range(agents)]
        """Arrivals of the tasks that wait, and whether each is of the second sort."""
        self.is_late = [False] * agents
        self.present = list(range(agents))
        """Agents that are there: others get no tasks, and own nothing."""
        self.now = 0.0
        self._sorts = range(sorts)
        self._steps = 0
        self._round = -1
        self._owned: dict[int, range] = {}
        """What each scheduler owns in this round; empty if nobody owns anything."""
        self._ends_at = np.full(slots, np.inf)

    def _sums(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return (sorts, partitions) the sums of values by slot."""
        found: NDArray[Any] = values.reshape(len(values), self.setup.partitions, -1).sum(axis=2)
        return found

    def _scores_and_tiers(self, slots: int) -> tuple[Scores, NDArray[np.int64]]:
        """Return scores and tiers by the order of slots in the region, in which wanted ones lie together, as a node type does."""
        common = np.ones(slots) if self.setup.is_level else self.dice.random(slots)
        if not self.setup.has_two_sorts:
            return common[None, :], np.zeros((1, slots), dtype=np.int64)
        wanted = np.arange(slots) < round(SCARCE_SHARE * slots)
        well, badly = self.dice.random(slots), self.dice.random(slots)
        other = np.where(wanted, SCARCE_FROM + (1 - SCARCE_FROM) * well, ELSEWHERE_MAX * badly)
        return np.stack([common, other]), np.stack([wanted, ~wanted]).astype(np.int64)

    # Time.

    def play(self, span: float, rates: Callable[[int], float]) -> Started:
        """Play so many seconds, with this many tasks a second at each scheduler."""
        found = Started([], [], [])
        for _ in range(round(span / STEP)):
            self._step(found, rates)
        return found

    def _step(self, found: Started, rates: Callable[[int], float]) -> None:
        self._steps += 1
        self.now = self._steps * STEP
        # 1. Tasks end, and their slots are free; partitions are taken in.
        over = np.flatnonzero(self._ends_at <= self.now)
        self.is_free[over] = True
        self._ends_at[over] = np.inf
        self._take_in()
        # 2. Tasks arrive, and every scheduler chooses slots for those that have waited longest.
        chosen: list[tuple[int, NDArray[np.int64], list[tuple[float, bool]]]] = []
        for agent in self.present:
            self._arrive(agent, rates(agent))
            slots, tasks = self._choose(agent, found)
            chosen.append((agent, slots, tasks))
        # 3. A slot goes to a drawn one of those that chose it.
        self._judge(chosen, found)

    def _take_in(self) -> None:
        setup, settings = self.setup, self.setup.settings
        count = len(self.present)
        number = round(self.now * 1e9) // round_span(settings, count, is_full=False)
        if number == self._round:
            return
        before, self._round = self._round, number
        for index, agent in enumerate(self.present):
            if setup.view is AgentView.STATESYNC:
                partitions = range(setup.partitions if number // count != before // count else 0)
            else:
                turn = Turn(index, count, number, is_full=False)
                partitions = self._owned[agent] = owned_by(turn, setup.partitions, setup.rotation)
            for partition in partitions:
                self._take_in_one(agent, partition)

    def _take_in_one(self, agent: int, partition: int) -> None:
        at = self._slots_of(partition)
        free = self.is_free[at]
        self.believed[agent, at] = free
        self.free[agent, partition] = np.count_nonzero(free)
        for sort in self._sorts:
            self.best[sort, agent, partition] = np.count_nonzero(free & (self.tier[sort, at] == 0))
            self.total[sort, agent, partition] = self.score[sort, at] @ free
        self.fresh[agent, partition] = self._steps

    def _slots_of(self, partition: int) -> slice:
        return slice(partition * self._size, (partition + 1) * self._size)

    def _believe_taken(self, agent: int, partition: int, slots: NDArray[np.int64]) -> None:
        """Believe slots of one partition taken that were believed free."""
        self.believed[agent, slots] = False
        self.free[agent, partition] -= len(slots)
        for sort in self._sorts:
            self.best[sort, agent, partition] -= np.count_nonzero(self.tier[sort, slots] == 0)
            self.total[sort, agent, partition] -= self.score[sort, slots].sum()

    def _arrive(self, agent: int, rate: float) -> None:
        count = int(self.dice.poisson(rate * STEP))
        sorts = (
            self.dice.random(count) < SCARCE_SHARE
            if self.setup.has_two_sorts
            else np.zeros(count, dtype=bool)
        )
        self.queues[agent].extend((self.now, bool(sort)) for sort in sorts)

    # Choosing.

    def _choose(self, agent: int, found: Started) -> tuple[NDArray[np.int64], list[tuple[float, bool]]]:
        """Return slots that a scheduler believes free, each with its task; they are taken from its queue and its view."""
        queue = self.queues[agent]
        allowed = self.setup.attempts_per_s * STEP
        count = int(allowed) + int(self.dice.random() < allowed % 1)
        count = min(count, len(queue))
        if not count:
            return np.zeros(0, dtype=np.int64), []
        waited = Nanoseconds(round((self.now - queue[0][0]) * 1e9))
        is_late = is_late_after(waited, was_late=self.is_late[agent])
        found.flaps += is_late != self.is_late[agent]
        self.is_late[agent] = is_late
        tasks = [queue.popleft() for _ in range(count)]
        slots: list[NDArray[np.int64]] = []
        served: list[tuple[float, bool]] = []
        for sort in (False, True):
            mine = [task for task in tasks if task[1] is sort]
            taken = self._slots_for(agent, int(sort), len(mine)) if mine else np.zeros(0, dtype=np.int64)
            slots.append(taken)
            served += mine[: len(taken)]
            queue.extendleft(reversed(mine[len(taken) :]))
        return np.concatenate(slots), served

    def _slots_for(self, agent: int, sort: int, count: int) -> NDArray[np.int64]:
        if self.setup.is_over_all:
            found = self._drawn(np.flatnonzero(self.believed[agent]), sort, count)
            self.believed[agent, found] = False
            return found
        found_in: list[NDArray[np.int64]] = []
        while count > 0:
            partition = self._first(agent, sort)
            if partition is None:
                break
            at = self._slots_of(partition)
            free = np.flatnonzero(self.believed[agent, at]) + at.start
            if self.setup.placing is Placing.TIER_FIRST and self.setup.has_two_sorts:
                tiers = self.tier[sort, free]
                free = free[tiers == tiers.min()]
            found = self._drawn(free, sort, count)
            self._believe_taken(agent, partition, found)
            found_in.append(found)
            count -= len(found)
        return np.concatenate(found_in) if found_in else np.zeros(0, dtype=np.int64)

    def _first(self, agent: int, sort: int) -> int | None:
        """Return the partition that the strategy puts first; None if none has a slot that is believed free."""
        free = self.free[agent]
        candidates = Candidates(
            free > 0,
            (self.best[sort, agent] == 0).astype(np.int64),
            self.fresh[agent],
            lambda: 1 - self.total[sort, agent] / np.maximum(free, 1),
            is_late=self.is_late[agent],
        )
        equal = STRATEGIES[self.setup.placing](candidates)
        if self._owned:
            equal = first_in_round(equal, self._owned[agent], self._round)
        first = np.flatnonzero(equal)
        return int(first[self.dice.integers(len(first))]) if len(first) else None

    def _drawn(self, slots: NDArray[np.int64], sort: int, count: int) -> NDArray[np.int64]:
        """Return some of these slots, drawn without replacement, better ones more often."""
        if len(slots) <= count:
            return slots
        keys = self.dice.exponential(size=len(slots)) / np.maximum(self.score[sort, slots], 1e-9)
        return slots[np.argpartition(keys, count)[:count]]

    def _judge(
        self, chosen: Sequence[tuple[int, NDArray[np.int64], list[tuple[float, bool]]]], found: Started
    ) -> None:
        slots = np.concatenate([one for _, one, _ in chosen])
        if not len(slots):
            return
        tasks = [task for _, _, mine in chosen for task in mine]
        order = self.dice.permutation(len(slots))
        _, firsts = np.unique(slots[order], return_index=True)
        has_won = np.zeros(len(slots), dtype=bool)
        has_won[order[firsts]] = True
        has_won &= self.is_free[slots]
        won = slots[has_won]
        self.is_free[won] = False
        lasts = self.dice.exponential(TASK_SECONDS, len(won)) if self.setup.exponential else TASK_SECONDS
        self._ends_at[won] = self.now + lasts
        arrived = np.asarray([at for at, _ in tasks])
        sorts = np.asarray([sort for _, sort in tasks], dtype=bool)
        found.attempts += len(slots)
        found.conflicts += int(len(slots) - len(won))
        found.times.append(self.now - STEP)
        found.delays.append(self.now - arrived[has_won])
        found.qualities.append(self.score[sorts[has_won].astype(np.int64) if len(self.score) > 1 else 0, won])
        found.sorts.append(sorts[has_won])
        begin = 0
        for agent, mine, own in chosen:
            lost = [
                task
                for task, is_won in zip(own, has_won[begin : begin + len(mine)], strict=True)
                if not is_won
            ]
            self.queues[agent].extendleft(reversed(lost))
            begin += len(mine)


def conflicts_expected(slots: int, agents: int, picks: int) -> float:
    """Return the expected conflicts of N schedulers that each draw K of S free slots, none knowing of the others.

    source    ParSync §3: N·K − S + S·(1 − K/S)^N
    """
    return agents * picks - slots + slots * (1 - picks / slots) ** agents


def conflicts_drawn(slots: int, agents: int, picks: int, rounds: int, seed: int) -> float:
    """Return the mean conflicts of as many draws."""
    dice = np.random.default_rng(seed)
    total = 0
    for _ in range(rounds):
        taken = np.concatenate(
            [dice.choice(slots, picks, replace=False, shuffle=False) for _ in range(agents)]
        )
        total += agents * picks - len(np.unique(taken))
    return total / rounds

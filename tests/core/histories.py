"""Random histories that a log could really hold, drawn from a seed.

Every event is one that its keeper might have decided at that moment, worked out here by the plainest means: rows of plain
dictionaries, no indexes, no columns. What images, indexes and checks make of such a history is what tests compare.
"""

import random
from collections import Counter
from collections.abc import Callable

from msgspec.structs import replace

from core.claims.checks import nodes_without_capacity
from core.events.control import ClaimRevised, DomainLost, NodesClosed, NodesOpened, OperationsDone
from core.events.pools import NodesPooled, PoolsApplied, PoolsPlanned
from core.events.queue import (
    AttemptClosed,
    AwardReturned,
    CancelRequested,
    PrioritySet,
    RankedBid,
    RegionAdded,
    RequeueRequested,
    StandingChanged,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadHeld,
    WorkloadReleased,
    WorkloadsForgotten,
)
from core.events.region import (
    AttemptEnded,
    AttemptsForgotten,
    AwardDeclined,
    CheckpointCommitted,
    ClaimGranted,
    GangStarted,
    NodesJoined,
    NodesLost,
    NodesReturned,
    StopOrdered,
)
from core.fact import Event, Fact
from core.images import RegionImage
from core.images.control import TaskPhase
from core.nouns.ids import GLOBAL_LOG, AttemptKey, TenantName, WorkerName, WorkloadId
from core.nouns.instant import SECOND, Instant
from core.nouns.operation import ControlSpec, OperationPhase, Outcome, job_and_rank
from core.nouns.placement import Claim, needs_of, numbers_in, runs_of
from core.nouns.pooling import NodesMove, PoolsPlan
from core.nouns.quantities import Amount
from core.nouns.workload import EndCause, JobSpec, Kind, Phase
from core.pooling.moving import pools_by_node
from tests.builders import (
    EU,
    START,
    US,
    a_claim,
    a_fact,
    a_job,
    a_spec,
    a_spread,
    amount,
    an_inventory,
    granted,
    opened,
    promised,
    submitted,
)
from tests.core.task_histories import TaskSteps

TRIES = 6
WORKERS = 4
NODES_OF_WORKER = 3
CAUSES = {
    Phase.PENDING: EndCause.PREEMPTED,
    Phase.COMPLETED: EndCause.COMPLETED,
    Phase.FAILED: EndCause.TASK_FAILED,
    Phase.CANCELLED: EndCause.CANCELLED,
}
"""Of which an attempt ends that makes its workload this."""


class RegionHistory:
    """A region's life: workers come, go and come back; work is promised, granted, touched, stopped and ends."""

    def __init__(self, seed: int, *, is_pooled: bool = True) -> None:
        """is_pooled   whether nodes come into several pools"""
        self.dice = random.Random(seed)
        self._is_pooled = is_pooled
        self.facts: list[Fact] = []
        self.total: dict[int, Amount] = {}
        self.gpu_type: dict[int, str] = {}
        self.worker_of: dict[int, WorkerName] = {}
        self.lost: dict[WorkerName, bool] = {}
        self.live: dict[AttemptKey, Claim] = {}
        self.started: list[AttemptKey] = []
        self.stopping: list[AttemptKey] = []
        self.steps: dict[AttemptKey, int] = {}
        self.promises: dict[AttemptKey, Claim] = {}
        self.over: list[AttemptKey] = []
        self.placed: dict[AttemptKey, Counter[tuple[int, int]]] = {}
        """Of live attempts: how many tasks of each job each node has."""
        self.closed: dict[str, list[int]] = {}
        """Nodes by what closes them."""
        self.drawn = 0
        self.now = START
        self.image = RegionImage.empty()
        """Of the history so far: what steps on tasks are drawn from."""
        self.tasks = TaskSteps(self)
        self._is_waiting_for = list(range(WORKERS))
        self.dice.shuffle(self._is_waiting_for)  # Lower numbers may join after higher ones.

    def draw(self, count: int) -> list[Fact]:
        """So many more steps. Returns the whole history."""
        self.say(opened())
        self._join()
        for _ in range(count):
            self.step()
        return self.facts

    def step(self) -> None:
        """One more step, if one is found that can be taken."""
        known = len(self.facts)
        for _ in range(TRIES):
            self.dice.choice(self._steps())()
            if len(self.facts) > known:
                return

    # What is so, from scratch.

    def is_there(self, node: int) -> bool:
        """Whether the node is there and not lost."""
        return node in self.total and not self.lost[self.worker_of[node]]

    def is_open(self, node: int) -> bool:
        """Whether it is there, and nothing closes it."""
        return self.is_there(node) and not any(node in nodes for nodes in self.closed.values())

    def needs(self, key: AttemptKey) -> dict[int, Amount]:
        """What a live attempt holds on each of its nodes."""
        found: dict[int, Amount] = {}
        for (job, node), tasks in self.placed[key].items():
            need = self.live[key].jobs[job].need.times(tasks)
            found[node] = found.get(node, Amount()).plus(need)
        return found

    def held(self, node: int, *, is_ending: bool) -> Amount:
        """What live attempts hold on a node that is not lost, stopping or not."""
        mine = [
            self.needs(key).get(node, Amount()) for key in self.live if (key in self.stopping) == is_ending
        ]
        return _sum(mine) if self.is_there(node) else Amount()

    def free(self, node: int) -> Amount:
        """What nobody holds on a node that is not lost."""
        if not self.is_there(node):
            return Amount()
        return self.total[node].minus(self.held(node, is_ending=False)).minus(self.held(node, is_ending=True))

    def reserved(self, node: int) -> Amount:
        """What promises need on a node beyond what their victims hold there."""
        return _sum([self._reserved_by(claim, node) for claim in self.promises.values()])

    def available(self, node: int) -> Amount:
        """Free and not promised."""
        left = self.free(node).minus(self.reserved(node))
        return Amount(max(0, left.gpu_milli), max(0, left.cpu_milli), max(0, left.memory_bytes))

    def _reserved_by(self, claim: Claim, node: int) -> Amount:
        theirs = _sum([self.needs(key).get(node, Amount()) for key in claim.victims if key in self.live])
        left = needs_of(claim).get(node, Amount()).minus(theirs)
        return Amount(max(0, left.gpu_milli), max(0, left.cpu_milli), max(0, left.memory_bytes))

    # Steps.

    def _steps(self) -> list[Callable[[], None]]:
        common = [self._grant, self._grant, self._promise, self._start, self._start, self._start, self._end]
        return [
            *common,
            self._stop,
            self._checkpoint,
            self._join,
            self._lose,
            self._return,
            self._return,
            self._decline,
            self._forget,
            *([self._pool] if self._is_pooled else []),
            *self.tasks.steps(),
        ]

    def say(self, event: Event) -> None:
        """One more fact, and what is so after it."""
        fact = a_fact(event, len(self.facts) + 1, at=self.now)
        self.now = Instant(self.now + self.dice.choice((1, 1, 1, 1, 10, 70)) * SECOND)
        self.facts.append(fact)
        self.image.fold(fact)
        match event:
            case ClaimGranted(workload=workload, epoch=epoch, claim=claim):
                self.live[workload, epoch] = claim
                self.placed[workload, epoch] = Counter(
                    {
                        (job, node): tasks
                        for job, spread in enumerate(claim.spreads)
                        for node, tasks in zip(spread.nodes, spread.tasks, strict=True)
                    }
                )
            case ClaimRevised(workload=workload, epoch=epoch, moves=moves):
                placed = self.placed[workload, epoch]
                for move in moves:
                    if move.node_from >= 0:
                        placed[job_and_rank(move.task)[0], move.node_from] -= 1
                    if move.node_to >= 0:
                        placed[job_and_rank(move.task)[0], move.node_to] += 1
            case NodesClosed(source=source, nodes=nodes):
                self.closed.setdefault(source, []).extend(numbers_in(nodes))
            case NodesOpened(source=source, nodes=nodes):
                left = [node for node in self.closed[source] if node not in numbers_in(nodes)]
                self.closed[source] = left

    def _join(self) -> None:
        if not self._is_waiting_for:
            return
        number = self._is_waiting_for.pop()
        worker = WorkerName(f"w{number}")
        total = self.dice.choice((amount(8, 64, 512), amount(4, 16, 64)))
        gpu_type = self.dice.choice(("H100", "A100"))
        first = number * NODES_OF_WORKER
        served = an_inventory(worker, first, NODES_OF_WORKER, total=total, gpu_type=gpu_type)
        self.say(NodesJoined(worker, served))
        self.lost[worker] = False
        for node in served.numbers():
            self.total[node], self.gpu_type[node], self.worker_of[node] = total, gpu_type, worker

    def _lose(self) -> None:
        there = [worker for worker, is_lost in self.lost.items() if not is_lost]
        if there and self.dice.random() < 0.5:
            several = self.dice.sample(there, min(len(there), self.dice.choice((1, 1, 2))))
            self.lost.update(dict.fromkeys(several, True))
            if len(several) == 1:
                self.say(NodesLost(several[0], self._nodes_of(several[0])))
            else:
                nodes = [node for worker in several for node in self._nodes_of(worker)]
                self.say(DomainLost("power-0", tuple(several), runs_of(nodes)))

    def _return(self) -> None:
        for worker in [worker for worker, is_lost in self.lost.items() if is_lost]:
            nodes = set(self._nodes_of(worker))
            if all(nodes.isdisjoint(self.needs(key)) or self._outlives_loss(key) for key in self.live):
                self.lost[worker] = False
                self.say(NodesReturned(worker, self._nodes_of(worker)))
                self.tasks.leave_with(nodes)

    def _outlives_loss(self, key: AttemptKey) -> bool:
        """Tasks that stand alone do, and a gang that was stopped there to return."""
        row = self.image.control.row(*key)
        return row is not None and (row.stands_alone or row.is_paused)

    def _nodes_of(self, worker: WorkerName) -> tuple[int, ...]:
        return tuple(node for node, owner in sorted(self.worker_of.items()) if owner == worker)

    def _pool(self) -> None:
        """Some vacant nodes come into a pool that takes every kind of work."""
        vacant = [
            node
            for node in sorted(self.total)
            if self.is_open(node) and self.free(node) == self.total[node] and self.reserved(node) == Amount()
        ]
        nodes = self.dice.sample(vacant, min(len(vacant), self.dice.randint(1, 3)))
        pools = pools_by_node(self.image.capacity)
        to = self.dice.choice(("training", "free", "spare"))
        moved = [node for node in nodes if pools[node] != to]
        if not moved:
            return
        known = self.image.pools
        moves = tuple(NodesMove(pools[node], to, ((node, node),)) for node in sorted(moved))
        self.say(PoolsPlanned(PoolsPlan(known.plan.number + 1, moves), "planner"))
        self.say(PoolsApplied(known.plan.number, "planner"))
        self.say(NodesPooled(runs_of(moved), to, known.plan.number))

    def _draw_job(self, name: str) -> JobSpec:
        dice = self.dice
        return a_job(
            dice.randint(1, 4),
            dice.choice((0.3, 0.6, 1, 2, 4)),
            name=name,
            gpu_type=dice.choice(("H100", "A100")),
            cpus=dice.choice((0, 1, 4)),
            gib=dice.choice((0, 16)),
        )

    def _draw_claim(self, victims: tuple[AttemptKey, ...], priority: int) -> Claim | None:
        """Tasks thrown at nodes that have room, or will when the victims have ended."""
        room = {node: self.available(node) for node in self.total if self.is_open(node)}
        for key in victims:
            for node, need in self.needs(key).items():
                if node in room:
                    room[node] = room[node].plus(need)
        jobs = tuple(self._draw_job(name) for name in ("main", "eval")[: self.dice.randint(1, 2)])
        spreads = []
        for job in jobs:
            placed: dict[int, int] = {}
            for _ in range(job.tasks):
                nodes = [
                    node
                    for node, left in room.items()
                    if left.covers(job.need) and self.gpu_type[node] == job.gpu_type
                ]
                if not nodes:
                    return None
                node = self.dice.choice(sorted(nodes))
                placed[node] = placed.get(node, 0) + 1
                room[node] = room[node].minus(job.need)
            spreads.append(a_spread(placed))
        self.drawn += 1
        kind = self.dice.choice((Kind.TRAINING, Kind.TRAINING, Kind.INTERACTIVE, Kind.SERVICE, Kind.SERVICE))
        control = ControlSpec(self.dice.choice(("", "shards", "shards")), self.dice.choice((0, 2, 9)))
        claim = a_claim(
            f"w-{self.drawn}",
            self.dice.randint(1, 3),
            jobs=jobs,
            spreads=tuple(spreads),
            priority=priority,
            kind=kind,
            victims=victims,
            award_sequence=self.drawn,
        )
        if nodes_without_capacity(claim, self.image.capacity):
            return None  # By their sums they fit, and no device holds one of the parts.
        return replace(claim, tenant=TenantName("ml"), control=control)

    def _grant(self) -> None:
        claim = self._draw_claim((), self.dice.randint(0, 5))
        if claim is not None:
            self.say(granted(claim))

    def _promise(self) -> None:
        taken = [key for claim in self.promises.values() for key in claim.victims]
        victims = [
            key for key, claim in self.live.items() if key not in taken and claim.kind != Kind.INTERACTIVE
        ]
        if not victims:
            return
        chosen = tuple(self.dice.sample(victims, min(len(victims), self.dice.randint(1, 2))))
        claim = self._draw_claim(chosen, 1 + max(self.live[key].priority for key in chosen))
        if claim is not None:
            self.say(promised(claim))
            self.promises[claim.workload, claim.epoch] = claim

    def _start(self) -> None:
        waiting = [key for key in self.live if key not in self.started and key not in self.stopping]
        if waiting:
            key = self.dice.choice(waiting)
            self.started.append(key)
            row = self.image.control.row(*key)
            tasks = row.tasks if row is not None else {}
            starting = [task for task, one in tasks.items() if one.phase is TaskPhase.STARTING]
            begun = tuple(
                number
                for number, operation in (row.operations.items() if row is not None else ())
                if operation.task in starting and operation.phase is OperationPhase.BEGUN
            )
            self.say(GangStarted(*key))
            if begun:
                self.say(OperationsDone(*key, begun, Outcome.HEALTHY))

    def _checkpoint(self) -> None:
        if self.live:
            key = self.dice.choice(list(self.live))
            self.steps[key] = self.steps.get(key, 0) + self.dice.randint(1, 9)
            self.say(CheckpointCommitted(*key, self.steps[key]))

    def _stop(self) -> None:
        unstopped = [key for key in self.live if key not in self.stopping]
        if not unstopped:
            return
        key = self.dice.choice(unstopped)
        self.stopping.append(key)
        by = [claim.workload for claim in self.promises.values() if key in claim.victims]
        if by:
            self.say(StopOrdered(*key, EndCause.PREEMPTED, by[0]))
        else:
            self.say(StopOrdered(*key, EndCause.CANCELLED))

    def _end(self) -> None:
        if not self.live:
            return
        key = self.dice.choice(list(self.live))
        freed = sum(need.gpu_milli for need in self.needs(key).values())
        del self.live[key], self.placed[key]
        self.over.append(key)
        cause = EndCause.CANCELLED if key in self.stopping else EndCause.COMPLETED
        self.say(AttemptEnded(*key, cause, gpu_milli=freed))
        for other, waiting in list(self.promises.items()):
            if key in waiting.victims and not any(victim in self.live for victim in waiting.victims):
                del self.promises[other]
                if all(self.is_open(node) for node in needs_of(waiting)):
                    self.say(ClaimGranted(*other, waiting, is_merged=True))
                else:
                    self.over.append(other)
                    self.say(AwardDeclined(*other, "promise_broken", waiting.award_sequence))

    def _decline(self) -> None:
        """A promise that is withdrawn, or an award for which there was no room."""
        if self.dice.random() < 0.5:
            return
        if self.promises and self.dice.random() < 0.3:
            key, claim = self.dice.choice(list(self.promises.items()))
            del self.promises[key]
            self.say(AwardDeclined(*key, "withdrawn", claim.award_sequence))
        else:
            self.drawn += 1
            key = (WorkloadId(f"w-{self.drawn}"), 1)
            self.say(AwardDeclined(*key, "no_capacity", self.drawn))
        self.over.append(key)

    def _forget(self) -> None:
        if self.over and self.dice.random() < 0.3:
            keys, self.over = tuple(sorted(self.over)), []
            self.say(AttemptsForgotten(keys, self.drawn))


class QueueHistory:
    """The queue's life: workloads are submitted, held, awarded, bound, closed, cancelled and forgotten."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.facts: list[Fact] = []
        self.phases: dict[WorkloadId, Phase] = {}
        self.epochs: dict[WorkloadId, int] = {}
        self.holds: dict[WorkloadId, tuple[bool, int]] = {}
        self.regions: dict[WorkloadId, str] = {}
        self.saved: dict[WorkloadId, tuple[int, int]] = {}
        self.unwanted: list[WorkloadId] = []
        """Those that are to be cancelled."""
        self.region_sequence = 0
        self.number = 0
        self.standings = 0

    def draw(self, count: int) -> list[Fact]:
        """So many steps. Returns the whole history."""
        self._say(opened())
        self._say(RegionAdded(EU))
        self._say(RegionAdded(US))
        steps = [self._submit, self._submit, self._award, self._award, self._bind, self._close, self._hold]
        steps += [self._give_back, self._cancel, self._requeue, self._forget, self._rank]
        for _ in range(count):
            self.dice.choice(steps)()
        return self.facts

    def _say(self, event: Event) -> None:
        self.facts.append(a_fact(event, len(self.facts) + 1, log=GLOBAL_LOG))

    def _one_of(self, *phases: Phase) -> WorkloadId | None:
        found = [workload for workload, phase in self.phases.items() if phase in phases]
        return self.dice.choice(found) if found else None

    def _submit(self) -> None:
        self.number += 1
        key = f"key-{self.number}" if self.dice.random() < 0.5 else ""
        spec = a_spec(a_job(self.dice.randint(1, 3)), priority=self.dice.randint(0, 6))
        event = submitted(self.number, spec, key=key)
        self.phases[event.workload] = Phase.PENDING
        self.epochs[event.workload] = 0
        self.holds[event.workload] = (False, 0)
        self._say(event)

    def _hold(self) -> None:
        workload = self._one_of(Phase.PENDING, Phase.AWARDED, Phase.RUNNING)
        if workload is not None:
            is_held, revision = self.holds[workload]
            self.holds[workload] = (not is_held, revision + 1)
            kind = WorkloadReleased if is_held else WorkloadHeld
            self._say(kind(workload, revision + 1))

    def _award(self) -> None:
        workload = self._one_of(Phase.PENDING)
        if workload is not None and not self.holds[workload][0] and workload not in self.unwanted:
            self.phases[workload] = Phase.AWARDED
            self.epochs[workload] += 1
            region = self.dice.choice((EU, US))
            self.regions[workload] = region
            epoch, bids = self.epochs[workload], (RankedBid(region, (0, 1)),)
            resume = self.saved.get(workload, (0, 0))
            level, charge = self.dice.choice((-1, 3)), {"H100": self.dice.randrange(1, 9) * 1_000}
            self._say(
                WorkloadAwarded(
                    workload, epoch, region, 0, bids, *resume, TenantName("default"), level, charge
                )
            )

    def _rank(self) -> None:
        workload = self._one_of(Phase.AWARDED, Phase.RUNNING)
        if workload is not None:
            self.standings += 1
            level, charge = self.dice.choice((-1, 3)), {"H100": self.dice.randrange(1, 9) * 1_000}
            tenant = TenantName("default")
            self._say(StandingChanged(workload, self.epochs[workload], self.standings, tenant, level, charge))
            self._say(PrioritySet(workload, self.standings, self.dice.choice((None, 2))))

    def _cited(self) -> int:
        self.region_sequence += 1
        return self.region_sequence

    def _bind(self) -> None:
        workload = self._one_of(Phase.AWARDED)
        if workload is not None:
            self.phases[workload] = Phase.RUNNING
            region = EU if self.regions[workload] == EU else US
            self._say(WorkloadBound(workload, self.epochs[workload], region, self._cited()))

    def _give_back(self) -> None:
        workload = self._one_of(Phase.AWARDED)
        if workload is not None:
            self.phases[workload] = Phase.PENDING
            region = EU if self.regions[workload] == EU else US
            self._say(AwardReturned(workload, self.epochs[workload], "no_capacity", region, self._cited()))

    def _close(self) -> None:
        workload = self._one_of(Phase.AWARDED, Phase.RUNNING)
        if workload is not None:
            ends = (Phase.CANCELLED,) if workload in self.unwanted else (Phase.PENDING, Phase.FAILED)
            phase = self.dice.choice((Phase.COMPLETED, *ends))
            cause = CAUSES[phase]
            self.phases[workload] = phase
            region = EU if self.regions[workload] == EU else US
            epoch = self.epochs[workload]
            self.saved[workload] = (epoch, 7)
            self._say(AttemptClosed(workload, epoch, cause, phase, region, self._cited(), epoch, 7))

    def _cancel(self) -> None:
        workload = self._one_of(Phase.PENDING, Phase.RUNNING)
        if workload is None:
            return
        if self.phases[workload] == Phase.PENDING:
            self.phases[workload] = Phase.CANCELLED
            self._say(WorkloadCancelled(workload))
        else:
            self.unwanted.append(workload)
            self._say(CancelRequested(workload))

    def _requeue(self) -> None:
        workload = self._one_of(Phase.AWARDED, Phase.RUNNING)
        if workload is not None:
            self._say(RequeueRequested(workload, self.epochs[workload]))

    def _forget(self) -> None:
        over = tuple(workload for workload, phase in self.phases.items() if phase.is_terminal)
        if over and self.dice.random() < 0.3:
            for workload in over:
                del self.phases[workload]
            self._say(WorkloadsForgotten(over))


def _sum(amounts: list[Amount]) -> Amount:
    total = Amount()
    for one in amounts:
        total = total.plus(one)
    return total

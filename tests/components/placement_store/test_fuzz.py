"""A store that is told anything about tasks and nodes, of any age and in any order: whatever it records keeps to the rules.

The rules are those that the auditor checks; each fact is checked as it comes. Everything is heard twice.
"""

import random
from collections import Counter
from typing import Any

from msgspec.structs import replace

from components.placement_store.component import PlacementStore
from core.events import pools
from core.events.control import EVENTS, ControlForgotten, DestructionHalted
from core.events.region import ClaimGranted, ClaimPromised
from core.images import RegionImage
from core.images.control import AttemptControl
from core.invariants.consistency import check_ledger, check_nodes_balance, check_region_fact
from core.invariants.control import check_control
from core.messages.base import Message
from core.messages.control import (
    BeginOperations,
    ChangeAttempt,
    ExpireAcks,
    FinishOperations,
    ForgetControl,
    MarkStuck,
    OperateTasks,
    RecordAnswer,
    RecordTasksDown,
    RecordTasksGone,
    RecordTasksUp,
    ReviseClaim,
)
from core.messages.nodes import (
    CancelMaintenance,
    CloseNodes,
    DrainNodes,
    LiftDrain,
    MoveMaintenance,
    OpenNodes,
    PlanMaintenance,
    RecordDomainLoss,
    ReleaseNodes,
    UndrainNodes,
)
from core.messages.pools import ApplyPools, SetPool, SetPoolingPolicy, SetPoolsPlan
from core.messages.store import (
    OrderStop,
    RecordCheckpoint,
    RecordEnd,
    RecordJoin,
    RecordLoss,
    RecordReturn,
    RecordStarted,
    SubmitClaim,
)
from core.nouns.ids import GLOBAL_LOG, AgentName, AttemptKey, WorkerName, WorkloadId
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.maintenance import ClosureKind, MaintenanceKind, MaintenancePhase, Scope, ScopeKind
from core.nouns.operation import (
    WHOLE,
    Ack,
    Answer,
    BegunBy,
    ControlSpec,
    OperationKind,
    OperationPhase,
    Outcome,
    TaskMove,
    task_number,
)
from core.nouns.placement import runs_of
from core.nouns.pool import PoolSettings, Survives
from core.nouns.pooling import NodesMove, PoolingPolicy, PoolsBasis, PoolsPlan
from core.nouns.workload import EndCause, Kind
from core.pooling.moving import pools_by_node
from core.rules.headroom import Headroom
from core.touched import touched_by
from tests.builders import EU, EU_LOG, a_claim, an_inventory
from tests.components.support.machine import Machine
from tests.components.support.placement_store import REGIONS, Start, award
from tests.core.properties import SEEDS

NAMES = [f"w-{number}" for number in range(1, 6)]
STEPS = 1_000
RUNS_OUT = {ControlForgotten, DestructionHalted}
"""They take an hour, or sixty stops a minute; other tests have them."""


class Teller:
    """Draws what is said to a store: mostly what makes sense now, and often what never did."""

    def __init__(self, machine: Machine[Any], seed: int) -> None:
        self.machine, self.dice = machine, random.Random(seed)
        self.epochs: Counter[str] = Counter()

    @property
    def image(self) -> RegionImage:
        """The store's."""
        image: RegionImage = self.machine.state.image
        return image

    def next(self) -> Message:
        """One more word."""
        drawn = self.dice.random()
        if drawn < 0.08:
            return self._claim()
        if drawn < 0.18:
            return self._of_nodes()
        if drawn < 0.24:
            return self._of_attempt()
        return self._of_tasks()

    # What it may be about.

    def _key(self) -> AttemptKey:
        keys = [(workload, epoch) for workload, epoch, _ in self.image.capacity.live()]
        anything = (WorkloadId(self.dice.choice(NAMES)), self.dice.randint(1, 4))
        return self.dice.choice(keys) if keys and self.dice.random() < 0.95 else anything

    def _some(self, listed: list[int], most: int = 3) -> tuple[int, ...]:
        """Of these, and now and then what is none of them."""
        dice = self.dice
        chosen = dice.sample(listed, min(len(listed), dice.randint(1, most)))
        if dice.random() < 0.1:
            chosen.append(dice.choice((-1, -7, 99, 1 << 40)))
        return tuple(chosen)

    def _nodes(self) -> tuple[int, ...]:
        return self._some(list(range(8)))

    def _seen(self) -> int:
        return max(0, self.machine.sequence(EU_LOG) - self.dice.choice((0, 0, 0, 1, 9)))

    def _scope(self) -> Scope:
        kind = self.dice.choice((ScopeKind.NODE, ScopeKind.NODE, ScopeKind.RACK, ScopeKind.WORKER))
        if self.dice.random() < 0.2:
            return Scope(ScopeKind.ZONE, ("zone-0",))
        names = ("w0",) if kind is ScopeKind.WORKER else tuple(map(str, self._nodes()))
        return Scope(kind, names)

    def _span(self) -> int:
        return seconds(self.dice.choice((0, 1, 5, 60))) - self.dice.choice((0, 0, 0, 1 << 40))

    # Words.

    def _claim(self) -> Message:
        dice, name = self.dice, self.dice.choice(NAMES)
        live = any(workload == name for workload, _, _ in self.image.capacity.live())
        if not live or dice.random() < 0.1:
            self.epochs[name] += 1
        epoch = max(1, self.epochs[name])
        placed = {node: dice.randint(1, 4) for node in dice.sample(range(8), dice.randint(1, 3))}
        made = a_claim(
            name,
            epoch,
            placed,
            gpus=dice.choice((0.5, 1)),
            kind=dice.choice((Kind.SERVICE, Kind.SERVICE, Kind.TRAINING)),
            award_sequence=award(self.machine, name, epoch),
        )
        control = ControlSpec(dice.choice(("shards", "shards", "")), dice.choice((0, 2, 9)))
        seen = self.machine.sequence(EU_LOG) if epoch % 2 else 0
        return SubmitClaim(
            EU,
            replace(
                made,
                control=control,
                max_duration=self._span(),
                is_healing=dice.random() < 0.2,
                is_incremental=len(placed) > 1,
                view=replace(made.view, sequence=seen),
            ),
        )

    def _set_pool(self) -> Message:
        dice, pools = self.dice, self.image.pools
        rules = dice.choice(("plain", "plain", "", "no-such-rules"))
        reserve, limit = dice.choice((0, 0, 1, 2, 9, -1)), dice.choice((1_000, 900, 500, 0, 1_001))
        needs = dice.choice(((), (), (("H100", 8),), (("H100", 999),)))
        settings = PoolSettings(rules, reserve, limit, needs, dice.choice((*Survives,)))
        pool = dice.choice(("training", "training", "training", "no-such-pool"))
        return SetPool(EU, pool, settings, pools.revision - dice.choice((0, 0, 0, 1)))

    def _of_nodes(self) -> Message:
        dice, maintenance = self.dice, self.image.maintenance
        worker = WorkerName(dice.choice(("w0", "w1", "w1")))
        revision = maintenance.revision - dice.choice((0, 0, 0, 1))
        late = dice.randint(4, 7)
        drains = [source for source in self.image.capacity.closures if source.startswith("d-")]
        name = dice.choice([*maintenance.rows, "m-99"])
        kind = dice.choice(list(ClosureKind))
        words: list[Message] = [
            RecordJoin(EU, an_inventory(worker, 0 if worker == "w0" else 4, 4)),
            RecordJoin(EU, an_inventory(f"w{late}", 2 * late, 2)),
            RecordLoss(EU, worker, self._seen()),
            *[RecordReturn(EU, worker, self._seen())] * 4,
            RecordDomainLoss(EU, "power-0", (worker, WorkerName("w0")), self._seen()),
            DrainNodes(EU, self._scope(), "fan", revision, self._span()),
            UndrainNodes(EU, self._scope(), revision),
            UndrainNodes(EU, self._scope(), revision, drain=dice.choice([*drains, "d-99"])),
            PlanMaintenance(
                EU,
                self._scope(),
                dice.choice(list(MaintenanceKind)),
                self._span(),
                max(1, self._span()),
                max(0, self._span()),
                maintenance.planned - dice.choice((0, 0, 1)),
            ),
            MoveMaintenance(EU, name, dice.choice(list(MaintenancePhase))),
            MoveMaintenance(EU, name, dice.choice(list(MaintenancePhase))),
            MoveMaintenance(EU, name, dice.choice(list(MaintenancePhase))),
            CancelMaintenance(EU, name),
            CloseNodes(EU, kind, self._nodes(), "ill", sequence=self._seen()),
            *[OpenNodes(EU, kind, tuple(range(8)), "well", self._seen())] * 2,
            *[OpenNodes(EU, kind, tuple(range(8)), "well")] * 2,
            *[ReleaseNodes(EU, self._scope(), "looked at", sequence=self._seen())] * 2,
            self._set_pool(),
            self._set_pool(),
            *self._of_pools(),
        ]
        return dice.choice(words)

    def _of_pools(self) -> list[Message]:
        dice, pools = self.dice, self.image.pools
        by_node = pools_by_node(self.image.capacity)
        wanted: dict[tuple[str, str], list[int]] = {}
        for node in self._nodes():
            known = by_node[node] if 0 <= node < len(by_node) and dice.random() < 0.95 else "training"
            wanted.setdefault((known, dice.choice(("service", "training", "free"))), []).append(node)
        moves = tuple(NodesMove(*key, runs_of(nodes)) for key, nodes in wanted.items())
        basis = PoolsBasis(self._seen(), pools.revision - dice.choice((0, 0, 0, 1)))
        plan = PoolsPlan(pools.plan.number + dice.choice((1, 1, 1, 1, 0, 2)), moves, basis=basis)
        policy = PoolingPolicy(is_automatic=dice.random() < 0.6, at_once=dice.choice((1_000, 1_000, 100, 0)))
        closures = [name for name, one in self.image.capacity.closures.items() if one.pool]
        return [
            *[SetPoolsPlan(EU, plan, "planner")] * 3,
            SetPoolingPolicy(EU, policy, pools.revision),
            ApplyPools(EU, pools.plan.number, "olga"),
            *[LiftDrain(EU, dice.choice([*closures, "d-1"]))] * 2,
        ]

    def _of_attempt(self) -> Message:
        dice, key = self.dice, self._key()
        words: list[Message] = [
            *[RecordStarted(EU, *key)] * 8,
            RecordCheckpoint(EU, *key, dice.randint(1, 99)),
            OrderStop(EU, *key, dice.choice(list(EndCause))),
            RecordEnd(EU, *key, dice.choice((EndCause.NODE_LOST, EndCause.CANCELLED))),
        ]
        return dice.choice(words)

    def _of_tasks(self) -> Message:
        dice, key = self.dice, self._key()
        row = self.image.control.spec_of(*key)
        if row is None:
            return ForgetControl(EU, *key)
        often = (self._operate, self._answer, self._begin, self._run, self._revise)
        return dice.choice((*often, *often, *often, self._begin, self._finish, self._change))(key, row)

    def _operate(self, key: AttemptKey, row: AttemptControl) -> Message:
        dice = self.dice
        new = [task_number(job, rank) for job, one in enumerate(row.jobs) for rank in range(one.tasks)]
        tasks = self._some(sorted({*row.tasks, *new}))
        kind = dice.choice(list(OperationKind))
        if not row.stands_alone and dice.random() < 0.9:
            kind, tasks = dice.choice((OperationKind.MOVE, OperationKind.RESTART)), (WHOLE,)
        sources = ["", "", *self.image.capacity.closures, f"r-{row.revision}"]
        source = dice.choice(sources)
        by = dice.choice(("user:ada", "rebalancer", "health", ""))
        return OperateTasks(EU, *key, kind, tasks, "why not", source, self._span(), by, row.next_operation)

    def _answer(self, key: AttemptKey, row: AttemptControl) -> Message:
        dice = self.dice
        acks = tuple(
            Ack(number, dice.choice((Answer.PROCEED, *Answer)), dice.random() < 0.1)
            for number in self._some([*row.operations], 9)
        )
        return RecordAnswer(EU, *key, row.changed - dice.choice((0, 0, 0, 1)), acks)

    def _begin(self, key: AttemptKey, row: AttemptControl) -> Message:
        by = self.dice.choice(list(BegunBy))
        return BeginOperations(EU, *key, self._some([*row.operations], 9), by)

    def _finish(self, key: AttemptKey, row: AttemptControl) -> Message:
        operations = self._some([*row.operations])
        words: list[Message] = [
            ExpireAcks(EU, *key, operations),
            MarkStuck(EU, *key, operations),
            ForgetControl(EU, *key),
            FinishOperations(EU, *key, operations, self.dice.choice(list(Outcome))),
        ]
        return self.dice.choice(words)

    def _run(self, key: AttemptKey, row: AttemptControl) -> Message:
        dice = self.dice
        tasks = tuple(
            (task, row.tasks[task].run - dice.choice((0, 0, 0, 1)) if task in row.tasks else 0)
            for task in self._some([*row.tasks])
        )
        cause = dice.choice((EndCause.TASK_FAILED, EndCause.NODE_FAILED, EndCause.COMPLETED))
        gang_is_up = not row.stands_alone
        words: list[Message] = [
            RecordTasksGone(EU, *key, tasks),
            RecordTasksUp(EU, *key, tasks),
            RecordTasksUp(EU, *key, tasks),
        ]
        if not gang_is_up:
            words.append(RecordTasksDown(EU, *key, tasks, cause, 1, dice.random() < 0.5))
        return dice.choice(words)

    def _revise(self, key: AttemptKey, row: AttemptControl) -> Message:
        dice = self.dice
        operations = row.operations.values()
        begun = [o.task for o in operations if o.phase is OperationPhase.BEGUN and o.kind.value != "stop"]
        moves = []
        for task in self._some(begun or [*row.tasks]):
            node = row.tasks[task].node if task in row.tasks else -1
            where = dice.choice((node, node, dice.randrange(8), dice.randrange(8), dice.randrange(-1, 9)))
            moves.append(TaskMove(task, node, where))
        agent = AgentName(dice.choice(("", "a0")))
        return ReviseClaim(EU, *key, row.claim_revision + dice.choice((1, 1, 1, 0, 2)), tuple(moves), agent)

    def _change(self, key: AttemptKey, row: AttemptControl) -> Message:
        first, *others = row.jobs
        tasks = max(1, first.tasks + self.dice.choice((-1, 0, 1)))
        jobs = (replace(first, tasks=tasks), *others)
        return ChangeAttempt(EU, *key, row.revision + self.dice.choice((0, 1)), jobs)


def test_store_keeps_the_rules_of_tasks_whatever_it_is_told(start: Start) -> None:
    """T1, T6: no fact ever breaks what must hold: rooms, acknowledgements, deadlines, windows, limits, budgets."""
    told: Counter[type] = Counter()
    for seed in SEEDS[:8]:
        told.update(played(start, seed))
    assert {*EVENTS, *pools.EVENTS} - set(told) <= RUNS_OUT, "what is never recorded is not tried"


def played(start: Start, seed: int) -> Counter[type]:
    """Checks each fact of one store's life. Returns what sorts of facts it had."""
    told: Counter[type] = Counter()
    machine = start(PlacementStore(EU), hears_twice=True)
    machine.fact(GLOBAL_LOG, *REGIONS)
    for worker, first in (("w0", 0), ("w1", 4)):
        machine.hear(RecordJoin(EU, an_inventory(worker, first, 4)))
    teller = Teller(machine, seed)
    before = RegionImage.empty()
    checked = 0
    for _ in range(STEPS):
        machine.hear(teller.next())
        if teller.dice.random() < 0.1:
            machine.wait(Nanoseconds(teller.dice.choice((1, seconds(1), seconds(20), seconds(130)))))
        for fact in machine.logs[EU_LOG][checked:]:
            assert [] == check_region_fact(EU, fact, before, None), (seed, fact)
            if isinstance(fact.event, ClaimGranted | ClaimPromised) and not fact.event.claim.victims:
                is_promised = before.capacity.promise(fact.event.workload, fact.event.epoch) is not None
                broken = Headroom(before.capacity).broken_by(fact.event.claim, before.pools)
                assert is_promised or broken is None, (seed, fact)
            touched = touched_by(before.capacity, fact)
            before.fold(fact)
            assert [] == check_nodes_balance(before.capacity, touched), (seed, fact)
            told[type(fact.event)] += 1
        checked = len(machine.logs[EU_LOG])
        assert [] == check_control(before), seed
    assert [] == check_ledger(before.capacity), seed
    assert before.digest() == machine.state.image.digest()
    return told

"""What the broker has recorded: nodes that come and go, gangs that start, save, stop and end; and what is forgotten."""

import random

import pytest

from components.placement_store.component import PlacementStore
from core.component import NOTHING
from core.events.queue import AttemptClosed, AwardReturned, WorkloadAwarded, WorkloadsForgotten
from core.events.region import (
    AttemptEnded,
    AttemptsForgotten,
    CheckpointCommitted,
    ClaimGranted,
    ClaimPromised,
    GangStarted,
    NodesJoined,
    NodesLost,
    NodesReturned,
    StopOrdered,
)
from core.fact import Event
from core.images import GlobalImage, RegionImage
from core.images.region import AttemptPhase
from core.invariants.consistency import check_ledger, check_nodes_balance, check_region_fact
from core.messages.base import Message
from core.messages.store import (
    DeclineAward,
    OrderStop,
    RecordCheckpoint,
    RecordEnd,
    RecordJoin,
    RecordLoss,
    RecordReturn,
    RecordStarted,
    SubmitClaim,
)
from core.messages.workers import JoinRefused
from core.nouns.fleet import UNNUMBERED, Inventory, NodeGroup
from core.nouns.ids import GLOBAL_LOG, AttemptKey, WorkerName, WorkloadId
from core.nouns.instant import Nanoseconds
from core.nouns.limits import FORGET_AGAIN, FORGET_INTERVAL, FORGOTTEN_AT_ONCE_MAX, RETENTION
from core.nouns.placement import needs_of
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause, Phase
from core.rows import pack_rows, unpack_rows
from core.touched import touched_by
from tests.builders import EU, EU_LOG, NODE, US, a_claim, a_fact, a_queue, an_inventory, attempt, submitted
from tests.components.support.placement_store import (
    FIRST,
    REGIONS,
    W1,
    Start,
    a_store,
    award,
    claim,
    close,
    decline,
    end,
    give_back,
    place,
    promise,
    refusal,
    stop,
)
from tests.core.properties import SEEDS
from tests.matching import facts, said

W0 = WorkerName("w0")

# Nodes.


def test_nodes_join_once(start: Start) -> None:
    """A worker that is known joins no more, however often its inventory is told."""
    machine = start(PlacementStore(EU))
    join = RecordJoin(EU, an_inventory())
    assert [NodesJoined(W0, an_inventory())] == facts(machine.hear(join))
    assert NOTHING == machine.hear(join)
    assert NOTHING == machine.hear(RecordJoin(EU, an_inventory("w0", 8, 2)))


def test_nodes_that_come_without_numbers(start: Start) -> None:
    """They stand behind all that there are, in racks of their own, or in the rack that is told; said again, nothing more joins."""
    machine = a_store(start)
    own = (group(UNNUMBERED, count, rack_first=UNNUMBERED) for count in (3, 1))
    loose = Inventory(WorkerName("w9"), (group(UNNUMBERED, 1, rack_first=1), *own))
    (event,) = facts(machine.hear(RecordJoin(EU, loose)))
    assert isinstance(event, NodesJoined)
    last_rack = max(machine.state.image.capacity.rack[:4])
    found = [(one.first, one.rack_first, one.count) for one in event.inventory.groups]
    assert [(4, 1, 1), (5, last_rack + 1, 3), (8, last_rack + 3, 1)] == found
    assert NOTHING == machine.hear(RecordJoin(EU, loose))


@pytest.mark.parametrize("first", [0, 3])
def test_nodes_with_taken_numbers(start: Start, first: int) -> None:
    """A node belongs to one worker."""
    decision = a_store(start).hear(RecordJoin(EU, an_inventory("w1", first, 2)))
    assert ([], 1) == (facts(decision), len(said(decision, JoinRefused)))


def group(first: int, count: int, **parts: object) -> NodeGroup:
    """A run of nodes."""
    return NodeGroup(**{  # type: ignore[arg-type]
        "first": first, "count": count, "total": NODE, "gpu_type": "H100", "rack_first": 9, "nodes_per_rack": 2,
        **parts,
    })  # fmt: skip


@pytest.mark.parametrize(
    "groups",
    [
        pytest.param((group(8, 2), group(9, 2)), id="a number twice"),
        pytest.param((group(-2, 2),), id="numbers below zero"),
        pytest.param((group(8, 2, nodes_per_rack=0),), id="racks of no nodes"),
        pytest.param((group(8, 2, rack_first=-1),), id="a rack below zero"),
        pytest.param((group(8, 2, gpu_type=""),), id="no type"),
        pytest.param((group(8, 2, gpu_type="any"),), id="a type that is none"),
        pytest.param((group(1 << 40, 1),), id="a number that no array can hold"),
    ],
)
def test_inventory_that_cannot_be_folded(start: Start, groups: tuple[NodeGroup, ...]) -> None:
    """It is not recorded: a fact that no image can fold would stop the store for good."""
    decision = a_store(start).hear(RecordJoin(EU, Inventory(WorkerName("w9"), groups)))
    assert ([], 1) == (facts(decision), len(said(decision, JoinRefused)))


def test_worker_is_lost_and_returns(start: Start) -> None:
    """Once each, whoever says it again."""
    machine = a_store(start)
    loss = RecordLoss(EU, W0, 2)
    assert [NodesLost(W0, (0, 1, 2, 3))] == facts(machine.hear(loss))
    assert NOTHING == machine.hear(loss)
    back = RecordReturn(EU, W0, 3)
    assert [NodesReturned(W0, (0, 1, 2, 3))] == facts(machine.hear(back))
    assert NOTHING == machine.hear(back)


def test_loss_or_return_that_comes_late(start: Start) -> None:
    """What was seen before the newest change of that worker says nothing about now."""
    machine = a_store(start)
    machine.hear(RecordLoss(EU, W0, 2))
    assert NOTHING == machine.hear(RecordReturn(EU, W0, 2)), "its nodes reported empty before they were lost"
    machine.hear(RecordReturn(EU, W0, 3))
    assert NOTHING == machine.hear(RecordLoss(EU, W0, 3)), "its silence was counted before it was back"
    assert [NodesLost] == [type(event) for event in facts(machine.hear(RecordLoss(EU, W0, 4)))]


def test_loss_or_return_of_an_unknown_worker(start: Start) -> None:
    """Nothing is recorded."""
    machine = a_store(start)
    assert NOTHING == machine.hear(RecordLoss(EU, WorkerName("w9"), 9))
    assert NOTHING == machine.hear(RecordReturn(EU, WorkerName("w9"), 9))


def test_return_while_an_attempt_still_counts_on_a_node(start: Start) -> None:
    """Its end is recorded first: until then the worker stays lost."""
    machine = a_store(start)
    place(machine, "w-1", {0: 1, 3: 1})
    machine.hear(RecordLoss(EU, W0, machine.sequence(EU_LOG)))
    back = RecordReturn(EU, W0, machine.sequence(EU_LOG))
    assert NOTHING == machine.hear(back)
    end(machine, "w-1", EndCause.NODE_LOST)
    assert [NodesReturned] == [type(event) for event in facts(machine.hear(back))]


# Attempts.


def test_first_cause_to_stop_stands(start: Start) -> None:
    """A second order changes nothing, whatever its cause."""
    machine = a_store(start)
    place(machine)
    wanted = StopOrdered(W1, 1, EndCause.CANCELLED, requester="somebody")
    assert [wanted] == facts(stop(machine, cause=EndCause.CANCELLED))
    assert NOTHING == stop(machine, cause=EndCause.CANCELLED)
    assert NOTHING == stop(machine, cause=EndCause.TIMEOUT)


def test_gang_is_started_once(start: Start) -> None:
    """Also while it is told to stop."""
    machine = a_store(start)
    place(machine)
    stop(machine)
    started = RecordStarted(EU, *attempt())
    assert [GangStarted(W1, 1)] == facts(machine.hear(started))
    assert NOTHING == machine.hear(started)


def test_checkpoint_counts_only_when_it_is_newer(start: Start) -> None:
    """An older one that comes late is worth less than what is recorded."""
    machine = a_store(start)
    place(machine)
    assert [CheckpointCommitted(W1, 1, 70)] == facts(machine.hear(RecordCheckpoint(EU, *attempt(), 70)))
    assert NOTHING == machine.hear(RecordCheckpoint(EU, *attempt(), 70))
    assert NOTHING == machine.hear(RecordCheckpoint(EU, *attempt(), 60))
    assert [CheckpointCommitted(W1, 1, 71)] == facts(machine.hear(RecordCheckpoint(EU, *attempt(), 71)))


def test_end_is_recorded_once(start: Start) -> None:
    """With what it frees, its cause and its exit code; the first one stands."""
    machine = a_store(start)
    place(machine, "w-1", {0: 2, 1: 1}, gpus=2)
    decision = machine.hear(RecordEnd(EU, *attempt(), EndCause.TASK_FAILED, 3))
    assert [AttemptEnded(W1, 1, EndCause.TASK_FAILED, 3, 6_000, cpu_milli=0, bare_cpu_milli=0)] == facts(
        decision
    )
    assert NOTHING == machine.hear(RecordEnd(EU, *attempt(), EndCause.COMPLETED))


LATE: list[Message] = [
    OrderStop(EU, *attempt(), EndCause.CANCELLED),
    RecordStarted(EU, *attempt()),
    RecordCheckpoint(EU, *attempt(), 99),
    RecordEnd(EU, *attempt(), EndCause.COMPLETED),
]


@pytest.mark.parametrize("message", LATE, ids=lambda message: type(message).__name__)
@pytest.mark.parametrize("phase", ["never", "promised", "declined", "ended", "forgotten"])
def test_word_about_an_attempt_that_is_not_live(start: Start, message: Message, phase: str) -> None:
    """Nothing is recorded: a checkpoint of an ended attempt does not count, and an order finds nobody."""
    machine = a_store(start)
    if phase == "promised":
        place(machine, "w-9", {0: 8})
        promise(machine, "w-1", {0: 8}, (attempt("w-9"),))
    elif phase == "declined":
        decline(machine, sequence=award(machine))
    elif phase in ("ended", "forgotten"):
        place(machine)
        end(machine)
    if phase == "forgotten":
        close(machine)
        machine.wake()
        assert {} == machine.state.image.attempts.rows
    assert NOTHING == machine.hear(message)


# Forgetting.


def test_ended_attempt_is_forgotten_once_the_queues_log_shows_it_superseded(start: Start) -> None:
    """Never by age alone."""
    machine = a_store(start)
    place(machine)
    end(machine)
    assert [] == facts(machine.wait(Nanoseconds(3 * RETENTION)))
    sequence = close(machine)
    assert [AttemptsForgotten((attempt(),), sequence)] == facts(machine.wait(FORGET_INTERVAL))


@pytest.mark.parametrize("superseded_by", ["return", "next award", "forgotten"])
def test_declined_attempt_is_forgotten_once_it_is_superseded(start: Start, superseded_by: str) -> None:
    """By its return, by the next award, or with the whole workload."""
    machine = a_store(start)
    decline(machine, sequence=award(machine))
    assert [] == facts(machine.wait(Nanoseconds(3 * RETENTION)))
    if superseded_by == "return":
        give_back(machine)
    elif superseded_by == "next award":
        award(machine, "w-1", 2, US)
    else:
        machine.fact(GLOBAL_LOG, WorkloadsForgotten((W1,)))
    assert [AttemptsForgotten((attempt(),), FIRST + 1)] == facts(machine.wait(FORGET_INTERVAL))


def test_live_attempt_is_not_forgotten(start: Start) -> None:
    """Though the queue's log should show another award: it is stopped, and its capacity is held until it has ended."""
    machine = a_store(start)
    place(machine)
    sequence = award(machine, "w-1", 2, US)
    abandoned = StopOrdered(*attempt(), EndCause.ABANDONED, global_sequence=sequence)
    assert [abandoned] == facts(machine.wake())
    assert [] == facts(machine.wait(Nanoseconds(3 * RETENTION)))
    end(machine, cause=EndCause.ABANDONED)
    assert [AttemptsForgotten((attempt(),), FIRST + 1)] == facts(machine.wait(FORGET_INTERVAL))


def test_attempt_ahead_of_the_queues_log_is_not_forgotten(start: Start) -> None:
    """What was not read says nothing: an award that is not there yet is not superseded."""
    machine = a_store(start)
    decline(machine, sequence=FIRST + 2)
    award(machine, "w-8")
    assert [] == facts(machine.wait(Nanoseconds(3 * FORGET_INTERVAL)))
    award(machine, "w-9")
    assert [] == facts(machine.wait(Nanoseconds(3 * FORGET_INTERVAL)))
    award(machine, "w-1")
    assert [] == facts(machine.wait(Nanoseconds(3 * FORGET_INTERVAL)))
    give_back(machine)
    assert [AttemptsForgotten((attempt(),), FIRST + 3)] == facts(machine.wait(FORGET_INTERVAL))


def test_forgotten_attempt_is_never_granted(start: Start) -> None:
    """A claim of it that comes late finds that its award does not stand; a late decline is about nothing."""
    machine = a_store(start)
    made = place(machine)
    end(machine)
    close(machine)
    machine.wait(FORGET_INTERVAL)
    assert ("refused", Reason.AWARD_NOT_STANDING) == refusal(claim(machine, made))
    assert NOTHING == decline(machine, sequence=made.award_sequence)


def test_many_are_forgotten_in_parts(start: Start) -> None:
    """A fact has a size: the rest follows at once."""
    machine = a_store(start)
    count = FORGOTTEN_AT_ONCE_MAX + 1
    for number in range(count):
        decline(machine, f"w-{number}", sequence=award(machine, f"w-{number}"))
    machine.fact(GLOBAL_LOG, WorkloadsForgotten(tuple(WorkloadId(f"w-{number}") for number in range(count))))
    sizes: list[int] = []
    while machine.state.image.attempts.rows:
        for event in facts(machine.wait(FORGET_AGAIN if sizes else FORGET_INTERVAL)):
            assert isinstance(event, AttemptsForgotten)
            sizes.append(len(event.attempts))
    assert [FORGOTTEN_AT_ONCE_MAX, 1] == sizes


def test_many_ends_do_not_pile_up(start: Start) -> None:
    """At 20 ends a second, for minutes: the queue may forget none that its region remembers."""
    machine = a_store(start)
    for minute in range(4):
        names = [WorkloadId(f"w-{minute * 1_200 + number}") for number in range(1_200)]
        for name in names:
            decline(machine, name, sequence=award(machine, name))
        machine.fact(GLOBAL_LOG, WorkloadsForgotten(tuple(names)))
        machine.wait(FORGET_INTERVAL)
        machine.wait(FORGET_AGAIN)
        assert not machine.state.image.attempts.rows


def test_superseded_attempts_are_found_when_the_store_starts_again(start: Start) -> None:
    """The logs alone are enough to find them."""
    machine = a_store(start)
    place(machine)
    end(machine)
    close(machine)
    assert [AttemptsForgotten((attempt(),), FIRST + 1)] == facts(machine.restart().wake())


# Rows told beside facts.


def test_rows_name_the_nodes_that_facts_changed(start: Start) -> None:
    """From a sequence on, each once, as they are now."""
    machine = a_store(start)
    store: PlacementStore = machine.component  # type: ignore[assignment]  # this one is a store
    place(machine, "w-1", {0: 1})
    first = machine.sequence(EU_LOG) + 1
    place(machine, "w-2", {2: 1})
    place(machine, "w-3", {2: 1, 3: 1})
    packed = store.packed_rows(machine.state, first)
    assert packed is not None
    assert [2, 3] == unpack_rows(packed)[:, 0].tolist()
    assert b"" == store.packed_rows(machine.state, machine.sequence(EU_LOG) + 1)
    capacity = machine.state.image.capacity
    assert pack_rows(capacity, range(4)) == store.packed_rows(machine.state, 1)


# Anything at all.


@pytest.mark.parametrize("seed", SEEDS)
def test_store_keeps_the_rules_whatever_it_is_told(start: Start, seed: int) -> None:
    """P3: claims, orders and reports of any age, in any order, about anything: no fact ever breaks what must hold."""
    dice = random.Random(seed)
    machine = start(PlacementStore(EU))
    queue, before = a_queue(*REGIONS), RegionImage.empty()
    machine.fact(GLOBAL_LOG, *REGIONS)
    checked = 0
    for _ in range(400):
        machine.hear(drawn(dice, queue, before, machine.sequence(GLOBAL_LOG), machine.sequence(EU_LOG)))
        if dice.random() < 0.2:
            machine.wait(Nanoseconds(dice.choice((1, FORGET_INTERVAL))))
        for fact in machine.logs[EU_LOG][checked:]:
            assert [] == check_region_fact(EU, fact, before, queue), fact
            touched = touched_by(before.capacity, fact)
            before.fold(fact)
            assert [] == check_nodes_balance(before.capacity, touched), fact
        checked = len(machine.logs[EU_LOG])
        for event in what_the_queue_says(dice, queue, before):
            sequence = machine.fact(GLOBAL_LOG, event)
            queue.fold(a_fact(event, sequence, log=GLOBAL_LOG))
    assert [] == check_ledger(before.capacity)
    assert before.digest() == machine.state.image.digest()
    told = {type(fact.event) for fact in machine.logs[EU_LOG]}
    assert {ClaimGranted, ClaimPromised, StopOrdered, AttemptEnded, AttemptsForgotten} <= told


NAMES = [f"w-{number}" for number in range(1, 7)]


def what_the_queue_says(dice: random.Random, queue: GlobalImage, region: RegionImage) -> list[Event]:
    """One thing that a queue may record now, or nothing: it awards what does not stand, and closes what the region ended."""
    workload = WorkloadId(dice.choice(NAMES))
    row = queue.workloads.rows.get(workload)
    if row is None:
        return [submitted(int(workload.removeprefix("w-")))]
    if not row.is_active:
        place = dice.choice((EU, EU, US))
        return [WorkloadAwarded(workload, row.epoch + 1, place, 0, ())]
    attempt_row = region.attempts.row(workload, row.epoch)
    if row.region == US and dice.random() < 0.5:
        return [AwardReturned(workload, row.epoch, "", US, 1)]
    if attempt_row is not None and attempt_row.phase == AttemptPhase.DECLINED:
        return [AwardReturned(workload, row.epoch, "", EU, attempt_row.sequence)]
    if attempt_row is not None and attempt_row.phase == AttemptPhase.ENDED:
        return [
            AttemptClosed(workload, row.epoch, EndCause.PREEMPTED, Phase.PENDING, EU, attempt_row.sequence)
        ]
    return []


def drawn(
    dice: random.Random, queue: GlobalImage, region: RegionImage, global_sequence: int, sequence: int
) -> Message:
    """Something that might be said to a store: mostly about what is so, and sometimes about what was, or never will be."""
    standing = [(name, row.epoch) for name, row in queue.workloads.rows.items() if row.is_active]
    live = [(name, epoch) for name, epoch, _ in region.capacity.live()]
    promised = [(name, epoch) for name, epochs in region.capacity.promises.items() for epoch in epochs]
    anything: list[AttemptKey] = [(WorkloadId(dice.choice(NAMES)), dice.randint(1, 9))]
    key = dice.choice(standing or anything) if dice.random() < 0.8 else anything[0]
    about = dice.choice(live or anything) if dice.random() < 0.8 else anything[0]
    abandoned = dice.choice(promised or anything) if dice.random() < 0.5 else key
    worker = dice.choice(("w0", "w1"))
    seen = max(0, sequence - dice.choice((0, 0, 1, 5)))
    placed = {node: dice.randint(2, 8) for node in dice.sample(range(8), dice.randint(1, 3))}
    in_the_way = [
        (name, epoch) for name, epoch, held in region.capacity.live() if placed.keys() & needs_of(held.claim)
    ]
    made = a_claim(
        *key,
        placed,
        priority=dice.randint(0, 6),
        victims=tuple(sorted(in_the_way)) if dice.random() < 0.8 else tuple(anything),
        award_sequence=max(1, global_sequence + dice.choice((-3, -1, 0, 0, 1))),
        view_sequence=seen,
    )
    by = abandoned[0] if dice.random() < 0.8 else WorkloadId(dice.choice(NAMES))
    cause = EndCause.PREEMPTED if dice.random() < 0.5 else dice.choice(list(EndCause))
    told: list[Message] = [
        RecordJoin(EU, an_inventory(worker, 0 if worker == "w0" else 4, 4)),
        RecordLoss(EU, WorkerName(worker), seen)
        if dice.random() < 0.1
        else RecordReturn(EU, WorkerName(worker), seen),
        OrderStop(EU, *about, cause, by),
        OrderStop(EU, *about, cause, by),
        RecordStarted(EU, *about),
        RecordCheckpoint(EU, *about, dice.randint(1, 99)),
        RecordEnd(EU, *about, cause),
        RecordReturn(EU, WorkerName(worker), seen),
        DeclineAward(EU, *abandoned, global_sequence, dice.choice((Reason.WITHDRAWN, Reason.NO_CAPACITY))),
    ]
    return SubmitClaim(EU, made) if dice.random() < 0.5 else dice.choice(told)

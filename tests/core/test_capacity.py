"""The ledger of a region: what is free, held, ending or lost on every node, and what promises reserve of it."""

import pytest

from core.events.region import AttemptEnded, AwardDeclined, NodesLost, NodesReturned, StopOrdered
from core.images import RegionImage
from core.images.capacity import Capacity, Columns
from core.invariants.consistency import check_ledger
from core.nouns.ids import WorkerName
from core.nouns.placement import NodeRow, parts_of
from core.nouns.quantities import Amount
from core.nouns.workload import EndCause
from core.touched import touched_by
from tests.builders import NODE, a_claim, a_fact, a_region, amount, attempt, granted, joined, promised
from tests.core.histories import RegionHistory
from tests.core.properties import SEEDS


def in_gpus(columns: Columns, node: int) -> tuple[int, int, int, int]:
    """Devices free, held, ending and reserved."""
    values = (columns.free[node], columns.held[node], columns.ending[node], columns.reserved[node])
    assert all(value % 1000 == 0 for value in values)
    free, held, ending, reserved = (value // 1000 for value in values)
    return free, held, ending, reserved


def parts(capacity: Capacity, node: int) -> tuple[Amount, Amount, Amount, Amount, Amount]:
    """Total, free, held, ending and reserved, each with all its resources."""
    gpu, cpu, memory = capacity.gpu, capacity.cpu, capacity.memory
    return (
        Amount(gpu.total[node], cpu.total[node], memory.total[node]),
        Amount(gpu.free[node], cpu.free[node], memory.free[node]),
        Amount(gpu.held[node], cpu.held[node], memory.held[node]),
        Amount(gpu.ending[node], cpu.ending[node], memory.ending[node]),
        Amount(gpu.reserved[node], cpu.reserved[node], memory.reserved[node]),
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_ledger_after_every_fact_of_a_random_history(seed: int) -> None:
    """T1: free + held + ending (+ lost) = total on every node, and each part is what counting it anew gives.

    That holds through promises, losses and returns, whichever worker joined first; and what promises reserve is exactly
    what they need beyond what their victims hold, and of shared devices no less.
    """
    history = RegionHistory(seed)
    history.draw(0)
    image = RegionImage.empty()
    folded = 0
    for _ in range(220):
        history.step()
        for fact in history.facts[folded:]:
            image.fold(fact)
        folded = len(history.facts)
        capacity = image.capacity
        assert [] == check_ledger(capacity)
        assert list(history.total) == [n for n in history.total if capacity.has_node(n)]
        for node, total in history.total.items():
            held, ending = history.held(node, is_ending=False), history.held(node, is_ending=True)
            counted = (total, history.free(node), held, ending)
            assert counted == parts(capacity, node)[:4]
            wanted, reserved = history.reserved(node), parts(capacity, node)[4]
            shares = node in capacity.devices.by_node or any(
                node in parts_of(claim) for claim in history.promises.values()
            )
            if history.is_there(node):
                assert reserved.covers(wanted) if shares else wanted == reserved
            assert history.available(node).covers(capacity.available(node))
            assert shares or history.available(node) == capacity.available(node)
            assert history.is_open(node) == capacity.is_open(node)
        assert set(history.live) == {(workload, epoch) for workload, epoch, _ in capacity.live()}


@pytest.mark.parametrize("seed", SEEDS)
def test_row_changes_only_on_touched_nodes(seed: int) -> None:
    """What `touched_by` does not name, a fact leaves as it was: indexes and checks may look at the named nodes alone."""
    image = RegionImage.empty()
    for fact in RegionHistory(seed).draw(150):
        capacity = image.capacity
        size = len(capacity.node_type)
        before = [(parts(capacity, node), capacity.node_row(node)) for node in range(size)]
        touched = set(touched_by(capacity, fact))
        image.fold(fact)
        for node in range(size):
            if node not in touched:
                assert before[node] == (parts(capacity, node), capacity.node_row(node)), fact.event


def test_node_when_claim_is_granted_stopped_and_ended() -> None:
    """Free becomes held, held becomes ending at the order to stop, and ending is free again when nothing runs."""
    history = [joined(), granted(a_claim("w-1", placed={0: 3}, gpus=2))]
    assert (2, 6, 0, 0) == in_gpus(a_region(*history).capacity.gpu, 0)
    history.append(StopOrdered(*attempt("w-1"), EndCause.CANCELLED))
    assert (2, 0, 6, 0) == in_gpus(a_region(*history).capacity.gpu, 0)
    history.append(AttemptEnded(*attempt("w-1"), EndCause.CANCELLED))
    assert (8, 0, 0, 0) == in_gpus(a_region(*history).capacity.gpu, 0)


def test_node_when_its_worker_is_lost() -> None:
    """All that it has is lost until it reports empty: nothing is free, held or ending there."""
    history = [joined(), granted(a_claim("w-1", placed={0: 1, 3: 1}))]
    history.append(NodesLost(WorkerName("w0"), (0, 1, 2, 3)))
    capacity = a_region(*history).capacity
    assert [(0, 0, 0, 0)] * 4 == [in_gpus(capacity.gpu, node) for node in range(4)]
    assert Amount() == capacity.available(1)
    assert NodeRow(1, Amount(), is_open=False) == capacity.node_row(1)
    ended = [*history, AttemptEnded(*attempt("w-1"), EndCause.NODE_LOST)]
    assert (0, 0, 0, 0) == in_gpus(a_region(*ended).capacity.gpu, 0)
    back = [*ended, NodesReturned(WorkerName("w0"), (0, 1, 2, 3))]
    assert (8, 0, 0, 0) == in_gpus(a_region(*back).capacity.gpu, 0)


def test_attempt_when_only_one_of_its_workers_is_lost() -> None:
    """The rest of its capacity is held, then ending, then free, as if nothing had happened to the other."""
    history = [joined("w0", 0, 1), joined("w1", 1, 1), granted(a_claim("w-1", placed={0: 1, 1: 2}))]
    history += [NodesLost(WorkerName("w1"), (1,)), StopOrdered(*attempt("w-1"), EndCause.NODE_LOST)]
    capacity = a_region(*history).capacity
    assert [(7, 0, 1, 0), (0, 0, 0, 0)] == [in_gpus(capacity.gpu, node) for node in (0, 1)]
    capacity = a_region(*history, AttemptEnded(*attempt("w-1"), EndCause.NODE_LOST)).capacity
    assert [(8, 0, 0, 0), (0, 0, 0, 0)] == [in_gpus(capacity.gpu, node) for node in (0, 1)]


def test_promise_reserves_capacity_that_its_victims_do_not_hold() -> None:
    """It stays free in the ledger, but no other workload may claim it; its victims' capacity still counts as theirs."""
    victim = granted(a_claim("w-1", placed={0: 5}))
    claim = promised(a_claim("w-2", placed={0: 7, 1: 2}, priority=5, victims=(attempt("w-1"),)))
    capacity = a_region(joined(), victim, claim).capacity
    assert [(3, 5, 0, 2), (8, 0, 0, 2)] == [in_gpus(capacity.gpu, node) for node in (0, 1)]
    assert amount(1, 64, 512) == capacity.available(0)
    stopping = StopOrdered(*attempt("w-1"), EndCause.PREEMPTED)
    capacity = a_region(joined(), victim, claim, stopping).capacity
    assert (3, 0, 5, 2) == in_gpus(capacity.gpu, 0)
    ended = AttemptEnded(*attempt("w-1"), EndCause.PREEMPTED)
    capacity = a_region(joined(), victim, claim, stopping, ended).capacity
    assert (8, 0, 0, 7) == in_gpus(capacity.gpu, 0)


def test_promise_when_it_is_withdrawn_or_kept() -> None:
    """Either way nothing stays reserved."""
    victim = granted(a_claim("w-1", placed={0: 5}))
    claim = a_claim("w-2", placed={0: 7, 1: 2}, priority=5, victims=(attempt("w-1"),))
    before = [joined(), victim, promised(claim)]
    withdrawn = a_region(*before, AwardDeclined(*attempt("w-2"), "withdrawn", 1)).capacity
    assert [(3, 5, 0, 0), (8, 0, 0, 0)] == [in_gpus(withdrawn.gpu, node) for node in (0, 1)]
    assert withdrawn.promise(*attempt("w-2")) is None
    kept = a_region(*before, AttemptEnded(*attempt("w-1"), EndCause.COMPLETED), granted(claim)).capacity
    assert [(1, 7, 0, 0), (6, 2, 0, 0)] == [in_gpus(kept.gpu, node) for node in (0, 1)]
    assert kept.promise(*attempt("w-2")) is None


def test_two_promises_on_one_node_reserve_their_sum() -> None:
    """Each counts what it lacks, and a victim's share counts for its own promise alone."""
    history = [joined(), granted(a_claim("w-1", placed={0: 2})), granted(a_claim("w-2", placed={0: 2}))]
    history.append(promised(a_claim("w-3", placed={0: 3}, priority=5, victims=(attempt("w-1"),))))
    history.append(promised(a_claim("w-4", placed={0: 5}, priority=5, victims=(attempt("w-2"),))))
    capacity = a_region(*history).capacity
    assert (4, 4, 0, 4) == in_gpus(capacity.gpu, 0)
    assert 0 == capacity.available(0).gpu_milli


def test_nodes_when_lower_numbers_join_later() -> None:
    """Numbers in between belong to nobody until a node of that number joins."""
    capacity = a_region(joined("w1", 4, 2)).capacity
    assert [False] * 4 + [True] * 2 == [capacity.has_node(node) for node in range(6)]
    assert not capacity.has_node(-1)
    assert not capacity.has_node(6)
    capacity = a_region(joined("w1", 4, 2), joined("w0", 0, 4)).capacity
    assert [True] * 6 == [capacity.has_node(node) for node in range(6)]
    assert [0, 0, 1, 1, 2, 2] == capacity.rack
    assert NODE == capacity.available(0)


def test_changed_names_the_newest_fact_that_swayed_the_row() -> None:
    """It is what a claim's view is compared with: a stop changes no room, and a grant elsewhere is no matter."""
    image = a_region(joined())
    assert [1, 1, 1, 1] == image.capacity.changed
    events = [granted(a_claim("w-1", placed={1: 1})), StopOrdered(*attempt("w-1"), EndCause.CANCELLED)]
    for sequence, event in enumerate(events, 2):
        image.fold(a_fact(event, sequence))
    assert [1, 2, 1, 1] == image.capacity.changed
    image.fold(a_fact(AttemptEnded(*attempt("w-1"), EndCause.CANCELLED), 4))
    assert [1, 4, 1, 1] == image.capacity.changed

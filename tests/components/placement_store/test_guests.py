"""How the claims of guests are judged: against the host as it is now, and against the CPUs and memory of its node."""

from typing import Any

import pytest
from msgspec.structs import replace

from components.placement_store.component import PlacementStore
from core.component import NOTHING
from core.events.region import AttemptEnded, ClaimGranted
from core.messages.nodes import DrainNodes
from core.messages.store import RecordJoin, RecordLoss
from core.nouns.ids import GLOBAL_LOG, AttemptKey, WorkerName
from core.nouns.maintenance import Scope, ScopeKind
from core.nouns.placement import Claim
from core.nouns.reasons import Reason
from core.nouns.workload import Kind
from tests.builders import EU, EU_LOG, a_claim, a_job, attempt
from tests.components.support.machine import Machine
from tests.components.support.placement_store import REGIONS, Start, award, claim, end, refusal, stop, verdict
from tests.components.support.shared_pool import pool_nodes
from tests.matching import facts

HOST, GUEST, NEXT = attempt("w-1"), attempt("w-2"), attempt("w-3")


def a_pool_store(start: Start, nodes: int = 1) -> Machine[Any]:
    """A shared pool of nodes with two H100 each, all on the worker w0."""
    machine = start(PlacementStore(EU))
    machine.fact(GLOBAL_LOG, *REGIONS)
    machine.hear(RecordJoin(EU, pool_nodes(nodes, 2, "H100").inventory))
    return machine


def one(
    machine: Machine[Any],
    key: AttemptKey,
    beside: AttemptKey | None = None,
    *,
    gpus: float = 1,
    cpus: float = 8,
    node: int = 0,
    **parts: Any,  # Any: parts of a claim
) -> Claim:
    """An awarded job of one task in the pool."""
    made = a_claim(
        key[0],
        key[1],
        {node: 1},
        jobs=(a_job(1, gpus, cpus=cpus),),
        award_sequence=award(machine, *key),
        **{"kind": Kind.SHARED, **parts},
    )
    return replace(made, beside=beside)


def a_hosting_store(start: Start, **host: Any) -> Machine[Any]:  # Any: parts of a claim
    """The host has been granted."""
    machine = a_pool_store(start, 2)
    assert "granted" == verdict(claim(machine, one(machine, HOST, **host)))
    return machine


def test_guest_is_granted_beside_its_host(start: Start) -> None:
    """One fact, with the host's name in it; and once more, the same answer without a fact."""
    machine = a_hosting_store(start)
    made = one(machine, GUEST, HOST)
    decision = claim(machine, made)
    assert [ClaimGranted(*GUEST, made, is_merged=True)] == facts(decision)
    assert 1_000 == machine.state.image.capacity.available(0).gpu_milli
    again = claim(machine, made)
    assert ("granted", ()) == (verdict(again), again.events)


def test_second_guest_for_one_host(start: Start) -> None:
    """A conflict, which its agent meets as any other; nothing is recorded."""
    machine = a_hosting_store(start)
    claim(machine, one(machine, GUEST, HOST))
    decision = claim(machine, one(machine, NEXT, HOST))
    assert (("conflict", Reason.CONFLICT), ()) == (refusal(decision), decision.events)
    assert ("conflict", Reason.CONFLICT) == refusal(claim(machine, one(machine, attempt("w-4"), GUEST)))


@pytest.mark.parametrize("case", ["ended", "stopping", "elsewhere", "wide", "no room", "promised"])
def test_guest_whose_host_takes_none_now(start: Start, case: str) -> None:
    """The present state counts: the host has ended or is to end, lies elsewhere, is wider, or its node lacks the CPUs."""
    machine = a_hosting_store(start, **({"gpus": 2} if case == "wide" else {}))
    match case:
        case "ended":
            end(machine)
        case "stopping":
            stop(machine)
        case "promised":
            wide = one(machine, attempt("w-9"), gpus=2, priority=5, victims=(HOST,))
            assert "promised" == verdict(claim(machine, wide))
    made = one(machine, GUEST, HOST, node=int(case == "elsewhere"), cpus=90 if case == "no room" else 8)
    decision = claim(machine, made)
    assert (("conflict", Reason.CONFLICT), ()) == (refusal(decision), decision.events)


def test_claim_that_no_guest_may_make(start: Start) -> None:
    """Several tasks, a part of a GPU, another kind, victims, or itself as host: refused for good."""
    machine = a_hosting_store(start)
    two = replace(one(machine, GUEST, HOST), jobs=(a_job(2),), spreads=a_claim(placed={0: 2}).spreads)
    for made in (
        two,
        one(machine, GUEST, HOST, gpus=0.5),
        replace(one(machine, GUEST, HOST), victims=(HOST,)),
        one(machine, attempt("w-1", 2), HOST),
    ):
        assert ("refused", Reason.BAD_CLAIM) == refusal(claim(machine, made))
    other = one(machine, GUEST, HOST, kind=Kind.TRAINING)
    assert ("refused", Reason.WRONG_POOL) == refusal(claim(machine, other))


def test_guest_on_a_node_that_takes_nothing_new(start: Start) -> None:
    """A drained or lost node keeps what runs there, and a guest is new."""
    machine = a_hosting_store(start)
    machine.hear(DrainNodes(EU, Scope(ScopeKind.NODE, ("0",)), "its fan rattles", 0))
    assert machine.state.image.capacity.closed[0]
    assert ("conflict", Reason.NODE_CLOSED) == refusal(claim(machine, one(machine, GUEST, HOST)))
    lost = a_hosting_store(start)
    lost.hear(RecordLoss(EU, WorkerName("w0"), lost.sequence(EU_LOG)))
    assert ("conflict", Reason.NODE_CLOSED) == refusal(claim(lost, one(lost, GUEST, HOST)))


def test_pair_is_no_victim(start: Start) -> None:
    """A promise over a host or a guest is a conflict: its end alone frees no GPU. Alone again, it may be one."""
    machine = a_hosting_store(start)
    claim(machine, one(machine, GUEST, HOST))
    for key in (HOST, GUEST):
        wide = one(machine, attempt("w-9"), gpus=2, priority=5, victims=(key,))
        assert ("conflict", Reason.CONFLICT) == refusal(claim(machine, wide))
    end(machine, "w-1")
    wide = one(machine, attempt("w-9"), gpus=2, priority=5, victims=(GUEST,))
    assert "promised" == verdict(claim(machine, wide))


def test_gpus_that_the_end_of_a_pair_frees(start: Start) -> None:
    """Refusals end by what is freed: nothing by the first to end, and the device by the second."""
    machine = a_hosting_store(start)
    claim(machine, one(machine, GUEST, HOST))
    freed = [
        fact.gpu_milli
        for workload in ("w-1", "w-2")
        for fact in facts(end(machine, workload))
        if isinstance(fact, AttemptEnded)
    ]
    assert [0, 1_000] == freed
    assert 2_000 == machine.state.image.capacity.available(0).gpu_milli
    assert NOTHING == end(machine, "w-2")

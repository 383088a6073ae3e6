"""Another workload in a victim's place: when it is too late for that, and whom it must not cost anything."""

import pytest
from msgspec.structs import replace

from core.events.control import OperationsBegun
from core.events.region import AttemptEnded, PromiseRevised, StopOrdered
from core.messages.control import OperateTasks
from core.messages.store import OrderStop, RecordCheckpoint
from core.nouns.ids import WorkloadId
from core.nouns.instant import seconds
from core.nouns.limits import PREEMPTION_ASK_SPAN
from core.nouns.operation import ControlSpec, OperationKind
from core.nouns.placement import Claim
from core.nouns.workload import EndCause
from tests.builders import EU, a_claim, a_job, attempt
from tests.components.support.task_control import SHARDS, TENANT, W1, Start, a_gang
from tests.components.task_control.test_negotiated_preemption import W2, W9, Scene, an_offer, half, settings


def on(workload: str, *nodes: int, gpus: int = 4, control: ControlSpec = SHARDS) -> Claim:
    """One task of so many GPUs on each of these nodes."""
    claim = a_claim(workload, placed=dict.fromkeys(nodes, 1), gpus=gpus)
    return replace(claim, control=control, tenant=TENANT)


def test_stopping_victim_offers_no_substitute(start: Start) -> None:
    """Its capacity comes free without that."""
    scene = Scene(start, half("w-1"))
    scene.grant(half("w-2"))
    scene.promise(placed={0: 1}, gpus=4)
    scene.hear(OrderStop(EU, W1, 1, EndCause.CANCELLED))
    scene.answers(an_offer())
    assert [] == scene.recorded(PromiseRevised)


def test_offer_behind_the_deadline(start: Start) -> None:
    """Task control was dead, and the broker's order was followed: another would not even be asked."""
    scene = Scene(start, half("w-1"))
    scene.grant(half("w-2"))
    scene.promise(placed={0: 1}, gpus=4)
    scene.store.wait(PREEMPTION_ASK_SPAN)
    scene.store.hear(OrderStop(EU, W1, 1, EndCause.PREEMPTED, W9))
    scene._forward()
    scene.control.now = scene.store.now
    scene.answers(an_offer())
    assert [] == scene.recorded(PromiseRevised)


def test_substitute_that_frees_no_needed_capacity_is_not_taken(start: Start) -> None:
    """Meanwhile there is capacity without any end: no attempt is stopped in the place of one that need not stop."""
    scene = Scene(start, half("w-1"))
    scene.grant(half("w-2"))
    assert "promised" == scene.promise(placed={0: 1}, gpus=4).verdict
    scene.grant(on("w-3", 5))
    scene.end(EndCause.COMPLETED, W2)
    scene.answers(an_offer("w-3"))
    assert [] == scene.recorded(PromiseRevised)


def test_offer_by_which_another_victim_would_go_for_nothing(start: Start) -> None:
    """It would make the room of both."""
    scene = Scene(start, on("w-1", 0))
    scene.grant(on("w-2", 1))
    scene.grant(on("w-3", 0, 1, control=ControlSpec()))
    assert "promised" == scene.promise(placed={0: 1, 1: 1}, gpus=4, victims=(W1, W2)).verdict
    scene.answers(an_offer("w-3"))
    assert [] == scene.recorded(PromiseRevised)


def test_offer_for_a_job_that_is_alone(start: Start) -> None:
    """It is not amounts alone that count there."""
    scene = Scene(start, half("w-1"))
    scene.grant(on("w-3", 5))
    alone = replace(a_job(1, 4), is_alone=True)
    assert "promised" == scene.promise(placed={0: 1}, jobs=(alone,)).verdict
    scene.answers(an_offer("w-3"))
    assert [] == scene.recorded(PromiseRevised)


def test_victim_that_ended_already_counts_to_the_claim(start: Start) -> None:
    """N8: one victim has gone, and lost its work; a substitute offered then is held against the rest of the cap."""
    scene = Scene(start, on("w-1", 0, gpus=2))
    for name in ("w-2", "w-3", "w-4"):
        scene.grant(on(name, 0, gpus=2, control=ControlSpec()))
    scene.wait(seconds(1_000))
    scene.hear(RecordCheckpoint(EU, W1, 1, 5))
    settings(scene, claim_max=2_200)
    assert "promised" == scene.promise(placed={0: 1}, gpus=4, victims=(W1, W2)).verdict
    assert scene.ordered(W2)
    scene.end(EndCause.PREEMPTED, W2)
    scene.answers(an_offer("w-3"))
    assert [] == scene.recorded(PromiseRevised)
    assert 2_000 == sum(event.destroyed for event in scene.recorded(AttemptEnded))


def test_operators_own_deadline_is_within_their_budget(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """T27: a preemption that somebody asks for is charged to them, also when it is stopped unasked."""
    monkeypatch.setattr("components.placement_store.tasks.budget_of", lambda _: 2)
    scene = Scene(start, a_gang(1))
    for number in range(2, 6):
        scene.grant(a_gang(1, workload=f"w-{number}", first=number - 1))
    for number in range(1, 6):
        workload = WorkloadId(f"w-{number}")
        row = scene.store.state.image.control.spec_of(workload, 1)
        wish = OperateTasks(
            EU, *attempt(workload), OperationKind.PREEMPT, (), "why", requester="operator:olga", deadline=1_000,
            first=row.next_operation if row is not None else 0,
        )  # fmt: skip
        scene.hear(wish)
    scene.wait(seconds(1))
    assert 2 == len(scene.recorded(StopOrdered))
    assert 2 == sum(event.charged for event in scene.recorded(OperationsBegun))

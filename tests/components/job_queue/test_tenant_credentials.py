"""A tenant's credentials, as the queue sees them: their own tenant's work, and nobody else's."""

from typing import Any

import pytest
from msgspec.structs import replace

from components.job_queue.component import JobQueue
from core.codec import encode
from core.component import Decision
from core.events.queue import WorkloadCancelled, WorkloadSubmitted
from core.messages import MESSAGES
from core.messages.base import Answer, Message, Notice, Refused
from core.messages.pipelines import (
    CancelPipeline,
    ListPipelines,
    PipelinesListed,
    PipelineTested,
    SubmitPipeline,
    TestPipeline,
)
from core.messages.queue import (
    Acknowledged,
    CancelWorkload,
    ListWorkloads,
    Submitted,
    SubmitWorkload,
    WorkloadsListed,
)
from core.messages.tenants import ListTenants, TenantsListed
from core.nouns.ids import PipelineId, TenantName, WorkloadId
from core.nouns.pipeline import PipelineSpec, StageSpec
from core.nouns.reasons import Reason, sentence
from core.nouns.workload import Kind, Serves
from core.rules.ownership import (
    ABOUT_ONE,
    ABOUT_PIPELINE,
    OF_ALL,
    OF_FUNCTIONS,
    ON_ACCOUNT,
    TENANTS_MAY,
    against,
    owns,
)
from tests.builders import a_job, a_spec
from tests.components.support.job_queue import W1, Start, a_job_queue, submit
from tests.components.support.machine import Machine
from tests.components.support.pipelines import P1, submit_pipeline
from tests.components.support.shared_pool import shared
from tests.core.reflection import example
from tests.matching import facts, said_once

ADA, EVE = "ml/ada@desk", "bio/eve@desk"
QUESTIONS: dict[type[Message], Message] = {
    kind: replace(example(kind, is_full=False), workload=W1) for kind in ABOUT_ONE
} | {kind: replace(example(kind, is_full=False), pipeline=P1) for kind in ABOUT_PIPELINE}
HEARD = tuple(kind for kind in JobQueue.hears if not issubclass(kind, Notice))
ASKED = tuple(kind for kind in ABOUT_ONE if kind in HEARD)


def of(tenant: str) -> Any:  # Any: as `a_spec` makes it
    """A workload of this tenant."""
    return a_spec(tenant=TenantName(tenant))


def pipeline_of(tenant: str) -> PipelineSpec:
    """One of one stage of this tenant."""
    return PipelineSpec("nightly", (StageSpec("main", replace(of(tenant), name="nightly")),))


def with_both(start: Start) -> Machine[Any]:
    """w-1 is of ml, w-2 of bio."""
    machine = a_job_queue(start)
    assert ["w-1", "w-2"] == [submit(machine, of("ml")), submit(machine, of("bio"))]
    return machine


def refusal(decision: Decision) -> Refused:
    """Nothing is recorded, nobody else is told anything, and why."""
    assert () == decision.events
    assert 1 == len(decision.messages)
    return said_once(decision, Refused)


@pytest.mark.parametrize("kind", HEARD, ids=lambda kind: kind.__name__)
def test_nothing_touches_anothers_work(start: Start, kind: type[Message]) -> None:
    """Whatever the queue hears, with another tenant's credentials it changes nothing and tells nothing of it, and says why."""
    machine = with_both(start)
    if kind in ABOUT_PIPELINE:
        submit_pipeline(machine, pipeline_of("ml"))
    before = machine.component.due(machine.state)
    message = QUESTIONS.get(kind) or example(kind, is_full=False)
    if kind in ON_ACCOUNT:
        is_pipeline = kind in (SubmitPipeline, TestPipeline)
        message = replace(message, spec=pipeline_of("ml") if is_pipeline else of("ml"))
    decision = machine.hear(message, sender=EVE, tenant="bio")
    assert [] == facts(decision)
    assert before == machine.component.due(machine.state)
    if kind in OF_ALL:
        (answer,) = decision.messages
        assert W1.encode() not in encode(answer)
        return
    expected = Reason.NOT_YOURS if kind in TENANTS_MAY else Reason.OPERATORS_ONLY
    assert (expected, sentence(expected)) == (refusal(decision).reason, refusal(decision).sentence)


@pytest.mark.parametrize("kind", ASKED, ids=lambda kind: kind.__name__)
def test_ones_own_work_is_as_an_operators(start: Start, kind: type[Message]) -> None:
    """The same words come to the same, said by an operator or by whoever it belongs to."""
    by_owner = with_both(start).hear(QUESTIONS[kind], sender=ADA, tenant="ml")
    assert by_owner.messages
    assert with_both(start).hear(QUESTIONS[kind]) == by_owner


@pytest.mark.parametrize("kind", ASKED, ids=lambda kind: kind.__name__)
def test_unknown_work_is_unknown_to_every_tenant(start: Start, kind: type[Message]) -> None:
    """No tenant is told that an unknown workload is another tenant's."""
    message = replace(QUESTIONS[kind], workload=WorkloadId("w-9"))
    decision = with_both(start).hear(message, sender=EVE, tenant="bio")
    assert Reason.UNKNOWN_WORKLOAD == refusal(decision).reason


def test_unlisted_messages_are_refused_to_tenants() -> None:
    """A new message is refused to tenants until it is listed, and one that names a workload is held against it."""
    for kind in MESSAGES:
        if issubclass(kind, Answer):
            assert kind not in TENANTS_MAY
            continue
        message = example(kind, is_full=True)
        no = against("bio", EVE, message, lambda _: "ml")
        if kind in OF_ALL:
            assert no is None
            assert not hasattr(message, "workload"), f"{kind.__name__} names a workload"
            assert not hasattr(message, "pipeline"), f"{kind.__name__} names a pipeline"
        else:
            assert no is not None, kind.__name__
            expected = Reason.NOT_YOURS if kind in TENANTS_MAY else Reason.OPERATORS_ONLY
            assert expected == no[0], kind.__name__
        assert against("", "", message, lambda _: "ml") is None, "operators may ask for everything"
    assert {*ON_ACCOUNT, *ABOUT_ONE, *ABOUT_PIPELINE, *OF_FUNCTIONS, *OF_ALL} == TENANTS_MAY


def test_operators_own_everything_and_tenants_themselves() -> None:
    """And no name is another one's beginning."""
    assert owns("", "ml")
    assert owns("ml", "ml")
    assert not owns("ml", "mlx")
    assert not owns("ml", "")


def test_submits_on_its_own_account_alone(start: Start) -> None:
    """Under its own name: the keys of others are theirs, so nobody is answered what somebody else submitted."""
    machine = with_both(start)
    mine = SubmitWorkload(of("bio"), EVE, "k")
    decision = machine.hear(mine, sender=EVE, tenant="bio")
    (event,) = facts(decision)
    assert isinstance(event, WorkloadSubmitted)
    assert WorkloadSubmitted(WorkloadId("w-3"), 3, mine.spec, EVE, "k") == replace(event, start=None)
    assert "w-3" == said_once(machine.hear(mine, sender=EVE, tenant="bio"), Submitted).workload
    others = SubmitWorkload(of("ml"), EVE)
    assert (Reason.NOT_YOURS, ("tenant: these are the credentials of bio",)) == _told(machine, others)
    for entity, is_theirs in (("ml", True), ("bio", False)):
        spec = replace(shared(entity=entity), tenant=TenantName("bio"))
        reason, _ = _told(machine, SubmitWorkload(spec, EVE))
        assert (reason == Reason.NOT_YOURS) is is_theirs, "the share of another tenant is theirs too"
    assert (Reason.INVALID, ("submitter: it is not who says this",)) == _told(
        machine, replace(mine, submitter=ADA)
    )


def _told(machine: Machine[Any], message: Message) -> tuple[str, tuple[str, ...]]:
    told = refusal(machine.hear(message, sender=EVE, tenant="bio"))
    return told.reason, told.problems


def test_lists_its_own_page_by_page(start: Start) -> None:
    """Neither another's lines nor how many there are; an operator sees all."""
    machine = a_job_queue(start)
    for tenant in ("ml", "bio", "ml", "bio", "ml"):
        submit(machine, of(tenant))
    page = said_once(machine.hear(ListWorkloads(count_max=2), sender=ADA, tenant="ml"), WorkloadsListed)
    assert (["w-1", "w-3"], {"PENDING": 3}) == ([row.workload for row in page.rows], page.counts)
    rest = said_once(machine.hear(ListWorkloads((), page.next, 2), sender=ADA, tenant="ml"), WorkloadsListed)
    assert (["w-5"], 0) == ([row.workload for row in rest.rows], rest.next)
    every = said_once(machine.hear(ListWorkloads()), WorkloadsListed)
    assert ([1, 2, 3, 4, 5], {"PENDING": 5}) == ([int(row.workload[2:]) for row in every.rows], every.counts)


def test_tenants_and_their_gpus_are_no_secret(start: Start) -> None:
    """As with Slurm, where nothing is private unless an operator says so: a tenant sees from which tenants it borrows."""
    machine = with_both(start)
    asked = ListTenants()
    mine = said_once(machine.hear(asked, sender=ADA, tenant="ml"), TenantsListed)
    assert mine == said_once(machine.hear(asked), TenantsListed)


def test_its_word_stands_under_its_name(start: Start) -> None:
    """So that the log tells who ended what."""
    machine = with_both(start)
    said_once(machine.hear(CancelWorkload(W1), sender=ADA, tenant="ml"), Acknowledged)
    assert [ADA] == [fact.actor for fact in machine.journal if isinstance(fact.event, WorkloadCancelled)]


def test_pipelines_of_others_are_not_listed(start: Start) -> None:
    """And one's own may be shown, tested and cancelled."""
    machine = a_job_queue(start)
    for tenant in ("ml", "bio"):
        submit_pipeline(machine, pipeline_of(tenant))
    listed = said_once(machine.hear(ListPipelines(), sender=EVE, tenant="bio"), PipelinesListed)
    assert ["p-2"] == [row.pipeline for row in listed.rows]
    both = PipelineSpec("nightly", (*pipeline_of("bio").stages, *pipeline_of("ml").stages))
    assert Reason.NOT_YOURS == _told(machine, SubmitPipeline(both, EVE))[0], (
        "none of the stages may be another's"
    )
    tested = machine.hear(TestPipeline(pipeline_of("bio"), EVE), sender=EVE, tenant="bio")
    assert said_once(tested, PipelineTested).stages
    decision = machine.hear(CancelPipeline(PipelineId("p-2")), sender=EVE, tenant="bio")
    assert ["w-2"] == [event.workload for event in facts(decision) if isinstance(event, WorkloadCancelled)]


def test_only_operators_serve_everybody(start: Start) -> None:
    """A tenant's capacity is for the tenant's own functions."""
    job = replace(a_job(), serves=Serves.ALL)
    spec = replace(a_spec(job, tenant="ml"), kind=Kind.SERVICE)
    message = SubmitWorkload(spec, ADA, "key")
    decision = with_both(start).hear(message, sender=ADA, tenant="ml")
    assert Reason.OPERATORS_ONLY == refusal(decision).reason
    own = replace(message, spec=replace(spec, jobs=(replace(job, serves=Serves.OWN),)))
    assert facts(with_both(start).hear(own, sender=ADA, tenant="ml"))
    assert facts(with_both(start).hear(message))

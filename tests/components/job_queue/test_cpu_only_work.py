"""Work that wants no GPUs: how much must come free, and of what, before a region that refused it is asked again."""

from typing import Any

import pytest
from msgspec.structs import replace

from core.component import Decision
from core.events.region import AttemptEnded
from core.messages.queue import Abstention, ExplainWorkload, WorkloadExplained
from core.messages.store import RecordEnd, RecordJoin
from core.nouns.fleet import ANY_TYPE, CPU_TYPE
from core.nouns.ids import AgentName, WorkloadId
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause, JobSpec
from tests.builders import (
    EU,
    EU_LOG,
    a_claim,
    a_job,
    a_spec,
    a_spread,
    amount,
    an_inventory,
    attempt,
    granted,
    joined,
)
from tests.components.allocation_agent.test_bids_and_claims import an_agent, ask
from tests.components.support.job_queue import W1, W3, Start, a_job_queue, asked, auction_of, grant, submit
from tests.components.support.machine import Machine
from tests.components.support.placement_store import a_store, place
from tests.matching import facts, said_once

BARE = a_job(2, 0, gpu_type=CPU_TYPE, cpus=8)
ANYWHERE = a_job(2, 0, gpu_type=ANY_TYPE, cpus=8)
WITH_GPUS = a_job(2, 8, cpus=8)


def refused(start: Start, job: JobSpec, *, gpus: int = 0, cpus: int = 0) -> Machine[Any]:
    """One region may run it, and says how much it lacks."""
    queue = a_job_queue(start)
    queue.fact(EU_LOG, joined("w9", 4, 2, total=amount(0, 64, 64), gpu_type=CPU_TYPE))
    submit(queue, a_spec(job, regions=[EU]))
    queue.hear(refusal(queue, W1, auction_of(queue.wake()), gpus=gpus, cpus=cpus))
    queue.wake()
    return queue


def refusal(
    queue: Machine[Any], workload: WorkloadId, auction: str, *, gpus: int = 0, cpus: int = 0
) -> Abstention:
    """A region lacks so much, on the newest view."""
    view = queue.sequence(EU_LOG)
    said = Abstention(EU, AgentName("a0"), workload, auction, Reason.NO_CAPACITY, view, gpus)
    return replace(said, missing_cpu_milli=cpus)


def ends(queue: Machine[Any], gpus: int = 0, cpus: int | None = 0, bare: int | None = 0) -> Decision:
    """Something else did there, and freed that."""
    epoch = queue.sequence(EU_LOG)
    end = AttemptEnded(*attempt(W3, epoch), EndCause.COMPLETED, 0, gpus, cpu_milli=cpus, bare_cpu_milli=bare)
    queue.fact(EU_LOG, grant(epoch, W3), end)
    return queue.wake()


@pytest.mark.parametrize(
    ("job", "freed", "is_asked"),
    [
        pytest.param(BARE, (0, 4_000, 4_000), True, id="enough"),
        pytest.param(BARE, (0, 3_999, 3_999), False, id="too little"),
        pytest.param(BARE, (64_000, 64_000, 0), False, id="on nodes with GPUs"),
        pytest.param(BARE, (0, None, None), True, id="an earlier build does not say what"),
        pytest.param(ANYWHERE, (0, 4_000, 0), True, id="on any node"),
        pytest.param(ANYWHERE, (8_000, 3_999, 0), False, id="too little on any node"),
        pytest.param(ANYWHERE, (0, None, None), True, id="an earlier build, on any node"),
    ],
)
def test_work_without_gpus_waits_for_cpus(
    start: Start, job: JobSpec, freed: tuple[int, int | None, int | None], *, is_asked: bool
) -> None:
    """M20: where it can lie on nodes without GPUs alone, for CPUs of those; never for any gang of GPUs that ends."""
    queue = refused(start, job, cpus=4_000)
    assert is_asked == bool(asked(ends(queue, *freed)))


def test_freed_cpus_add_up(start: Start) -> None:
    """They count from the view on which it was refused; its explanation then has what is missing still, from that view."""
    queue = refused(start, BARE, cpus=4_000)
    assert [] == asked(ends(queue, bare=3_000))
    told = said_once(queue.hear(ExplainWorkload(W1)), WorkloadExplained)
    assert [(EU, 0, 4_000)] == [
        (one.region, one.missing_gpu_milli, one.missing_cpu_milli) for one in told.regions if one.region == EU
    ]
    assert [(W1, EU)] == asked(ends(queue, bare=1_000))


def test_work_with_gpus_waits_for_gpus(start: Start) -> None:
    """Whatever CPUs come free; an end that frees nothing may have been in the way by 1."""
    queue = refused(start, WITH_GPUS, gpus=2)
    assert [] == asked(ends(queue, cpus=64_000, bare=64_000))
    assert [(W1, EU)] == asked(ends(queue))


@pytest.mark.parametrize(("gpu_type", "bare"), [(CPU_TYPE, 12_000), ("H100", 0)])
def test_store_records_the_cpus_that_come_free(start: Start, gpu_type: str, bare: int) -> None:
    """The fact has all CPUs that the attempt held, and of these the ones on nodes without GPUs."""
    store = a_store(start)
    store.hear(RecordJoin(EU, an_inventory("w9", 4, 2, gpu_type=gpu_type)))
    job = a_job(3, 0, gpu_type=gpu_type, cpus=4)
    place(store, jobs=(job,), spreads=(a_spread({4: 2, 5: 1}),))
    (ended,) = facts(store.hear(RecordEnd(EU, *attempt(), EndCause.COMPLETED)))
    assert isinstance(ended, AttemptEnded)
    assert (0, 12_000, bare) == (ended.gpu_milli, ended.cpu_milli, ended.bare_cpu_milli)


def test_agent_reports_the_missing_cpus(start: Start) -> None:
    """Of two tasks that find no place, each counts with at least what the best node lacks; and no GPUs."""
    reader = a_job(1, 0, cpus=5, gpu_type=CPU_TYPE)
    busy = granted(a_claim("w-9", jobs=(reader,), spreads=(a_spread({0: 1}),)))
    agent = an_agent(start, joined("w0", 0, 2, total=amount(0, 8, 64), gpu_type=CPU_TYPE), busy)
    told = said_once(ask(agent, a_job(3, 0, cpus=4, gpu_type=CPU_TYPE)), Abstention)
    assert (Reason.NO_CAPACITY, 0, 1_000) == (told.reason, told.missing_gpu_milli, told.missing_cpu_milli)

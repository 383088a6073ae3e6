"""Refusals that expire when an attempt's level falls: capacity that may be preempted counts as freed."""

import pytest

from core.events.region import AttemptRanked
from core.nouns.fleet import ANY_TYPE, CPU_TYPE
from core.nouns.tenant import OVER_LEVEL
from core.nouns.workload import JobSpec
from tests.builders import EU, EU_LOG, a_claim, a_job, a_spec, a_spread, amount, attempt, granted, joined
from tests.components.job_queue.test_inadmissible import OTHER, in_eu, refuse, refused
from tests.components.support.job_queue import W1, W2, Start, a_job_queue, asked, submit
from tests.components.support.quota import award

RACKS = joined("w9", 4, 2, total=amount(0, 64, 64), gpu_type=CPU_TYPE)


@pytest.mark.parametrize(
    ("wanted", "gpus", "cpus", "is_asked"),
    [
        pytest.param(a_job(4, 4), 8_000, 0, True, id="as many GPUs as are missing"),
        pytest.param(a_job(4, 4), 8_001, 0, False, id="fewer"),
        pytest.param(a_job(9, 0, gpu_type=CPU_TYPE, cpus=1), 0, 3_000, True, id="as many CPUs without GPUs"),
        pytest.param(
            a_job(9, 0, gpu_type=CPU_TYPE, cpus=1), 0, 3_001, False, id="the others are beside GPUs"
        ),
        pytest.param(a_job(9, 0, gpu_type=ANY_TYPE, cpus=1), 0, 11_000, True, id="on any node all of them"),
        pytest.param(a_job(9, 0, gpu_type=ANY_TYPE, cpus=1), 0, 11_001, False, id="and no more"),
    ],
)
def test_capacity_that_may_be_preempted_counts_as_freed(
    start: Start, wanted: JobSpec, gpus: int, cpus: int, *, is_asked: bool
) -> None:
    """Two tasks of 4 GPUs and 4 CPUs, and one of 3 CPUs on a node without GPUs, become preemptible. A refusal counts the milli that are
    missing beyond preemptible work, so as many more count as free from now on.
    """
    queue = a_job_queue(start)
    queue.fact(EU_LOG, RACKS)
    jobs = (a_job(2, 4, cpus=4), a_job(1, 0, name="reader", gpu_type=CPU_TYPE, cpus=3))
    submit(queue, a_spec(*jobs, regions=[EU]))
    award(queue, W1)
    spreads = (a_spread({0: 1, 1: 1}), a_spread({4: 1}))
    queue.fact(EU_LOG, granted(a_claim(W1, jobs=jobs, spreads=spreads)))
    queue.wake()
    submit(queue, a_spec(wanted, regions=[EU]), key="wants")
    refuse(queue, queue.wake(), W2, gpus=gpus, cpus=cpus)
    assert [] == asked(queue.wake())
    queue.fact(EU_LOG, AttemptRanked(*attempt(W1), 1, OVER_LEVEL))
    assert is_asked == bool(asked(queue.wake()))


def test_work_without_gpus_may_have_blocked_gpus(start: Start) -> None:
    """By its CPUs or its memory: a refusal that names no amount expires."""
    queue = a_job_queue(start)
    reader = a_job(1, 0, cpus=3)
    submit(queue, a_spec(reader, regions=[EU]))
    award(queue, W1)
    queue.fact(EU_LOG, granted(a_claim(W1, jobs=(reader,), spreads=(a_spread({0: 1}),))))
    queue.wake()
    submit(queue, in_eu(4), key="wants")
    refuse(queue, queue.wake(), W2)
    assert [] == asked(queue.wake())
    queue.fact(EU_LOG, AttemptRanked(*attempt(W1), 1, OVER_LEVEL))
    assert [(W2, EU)] == asked(queue.wake())


def test_forgotten_workload_may_hold_any_capacity(start: Start) -> None:
    """Its attempt becomes preemptible, and every refusal of its region expires."""
    queue = refused(start, (1, 1, 9_000))
    queue.fact(EU_LOG, granted(a_claim(OTHER, 1)))
    assert [] == asked(queue.wake())
    queue.fact(EU_LOG, AttemptRanked(OTHER, 1, 1, OVER_LEVEL))
    assert [(W1, EU)] == asked(queue.wake())

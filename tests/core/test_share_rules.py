"""What may not be in the `share` of a submission, whichever way it comes: one sentence for each, with its field."""

from typing import Any

import pytest
from msgspec.structs import replace

from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import GPU_TYPES_MAX, NEED_MAX, WEIGHT_MAX
from core.nouns.sharing import ShareSpec
from core.nouns.workload import Kind, WorkloadSpec
from core.rules.submission import problems_of
from tests.builders import a_job, a_spec


def of_a_pool(**changed: Any) -> WorkloadSpec:  # Any: fields of a specification
    """Return work of a shared pool on V100, with these parts."""
    spec = a_spec(a_job(2, 1, gpu_type="V100"), kind=Kind.SHARED)
    return replace(replace(spec, grace=seconds(10), share=ShareSpec()), **changed)


def with_share(**share: Any) -> WorkloadSpec:  # Any: fields of a share
    """Return the same, with these parts of its share."""
    return of_a_pool(share=ShareSpec(**share))


@pytest.mark.parametrize(
    "spec",
    [
        of_a_pool(),
        with_share(model="m", speeds={"V100": NEED_MAX}, steps=NEED_MAX, weight=WEIGHT_MAX, entity="nlp"),
        of_a_pool(
            jobs=(a_job(1, 1, gpu_type="any"),), share=ShareSpec(speeds={"V100": 1, "B200": 1}), tenant="ads"
        ),
    ],
)
def test_share_that_may_be(spec: WorkloadSpec) -> None:
    """The least, the most, and speeds of whichever types where any will do."""
    assert () == problems_of(spec)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            of_a_pool(jobs=tuple(a_job(1, 1, gpu_type="V100", name=name) for name in ("a", "b"))),
            "share: a workload of several jobs cannot be stopped as one",
        ),
        (of_a_pool(kind=Kind.SERVICE), "share: service work is not shared by a policy"),
        (of_a_pool(share=None), "share: work of a shared pool must have one"),
        (of_a_pool(grace=Nanoseconds(0)), "grace: it is stopped round after round; say how long it needs"),
        (
            of_a_pool(jobs=(a_job(1, 0.5, gpu_type="V100"),)),
            "jobs[0].need.gpu_milli: a policy shares whole GPUs",
        ),
        (with_share(speeds={"V100": 1, "K80": 1}), "share.speeds: it may not run on K80"),
        (with_share(speeds={"V100": 0}), "share.speeds: each must be more than 0"),
        (
            of_a_pool(
                jobs=(a_job(1, 1, gpu_type="any"),),
                share=ShareSpec(speeds={f"T{number}": 1 for number in range(GPU_TYPES_MAX + 1)}),
            ),
            "share.speeds: ",
        ),
        (with_share(steps=-1), "share.steps: -1 is not between 0 and "),
        (with_share(weight=0), "share.weight: it is not more than 0"),
        (with_share(weight=WEIGHT_MAX + 1), "share.weight: it is not more than 0"),
        (with_share(model="a b"), "share.model: use 1 to "),
        (with_share(entity="a/b"), "share.entity: use 1 to "),
        (with_share(within=Nanoseconds(-1)), "share.within: "),
    ],
)
def test_share_that_may_not_be(spec: WorkloadSpec, said: str) -> None:
    """One answer, and no second beside it."""
    (problem,) = problems_of(spec)
    assert problem.startswith(said)

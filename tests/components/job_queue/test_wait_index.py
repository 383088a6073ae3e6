"""What is waited for, by types, level and width, against sums over all that wait."""

import random
from itertools import groupby

import pytest

from components.job_queue.state.wait_index import Types, WaitIndex, types_of
from core.estimating.run_times import size_of
from core.images.queue import WorkloadRow
from core.nouns.ids import TenantName, WorkloadId
from core.nouns.placement import gpu_milli_of
from core.nouns.workload import WorkloadSpec
from tests.builders import START, a_job, a_spec, of_types

TENANTS = [TenantName("ml"), TenantName("art"), TenantName("bio")]
LEVELS = range(4)
H100 = ("H100",)


def row_of(number: int, spec: WorkloadSpec) -> WorkloadRow:
    """It waits."""
    return WorkloadRow(number, spec, "ada", "", START)


def width_of(spec: WorkloadSpec) -> int:
    """Of all its jobs together."""
    return size_of(gpu_milli_of(spec.jobs))


@pytest.mark.parametrize("seed", range(6))
def test_each_tenants_widest_beyond_its_headroom_are_left_out(seed: int) -> None:
    """Against all that wait, one after the other: narrow ones first, as far as the tenant's work of a level has headroom."""
    dice, index = random.Random(seed), WaitIndex()
    waiting: dict[WorkloadId, tuple[WorkloadSpec, int]] = {}
    rooms = {
        (tenant, level): dice.choice((0, 12_000, 40_000, 10**9)) for tenant in TENANTS for level in LEVELS
    }

    def most(tenant: TenantName, level: int, types: Types) -> int:
        return rooms[tenant, level] if types == H100 else 10**9

    for number in range(60):
        workload = WorkloadId(f"w-{number}")
        job = a_job(1, dice.choice((1, 2, 4, 8, 16)))
        kinds = dice.choice((("H100",), ("A100",)))
        spec = a_spec(of_types(job, *kinds), tenant=dice.choice(TENANTS))
        level = dice.choice(LEVELS)
        index.note(workload, row_of(number, spec), level, is_waiting=True)
        waiting[workload] = spec, level
        if dice.random() < 0.3:
            gone = dice.choice(list(waiting))
            spec, level = waiting.pop(gone)
            index.note(gone, row_of(0, spec), level, is_waiting=False)
        if dice.random() < 0.2:
            changed = dice.choice(list(rooms))
            rooms[changed] = dice.choice((0, 12_000, 40_000, 10**9))
            index.renew(changed[0])
        for least in LEVELS:
            expected: dict[tuple[Types, int], int] = {}
            of = sorted(
                waiting.values(), key=lambda one: (one[0].tenant, one[1], types_of(one[0]), width_of(one[0]))
            )
            for (tenant, level, types), group in groupby(
                of, key=lambda one: (one[0].tenant, one[1], types_of(one[0]))
            ):
                room = most(tenant, level, types)
                for spec, _ in group:
                    taken = min(room, gpu_milli_of(spec.jobs))
                    room -= taken
                    if taken and level >= least:
                        key = types, width_of(spec)
                        expected[key] = expected.get(key, 0) + taken
            assert expected == index.capped_from(least, most)


def test_width_is_of_all_jobs() -> None:
    """Two jobs of 8 GPUs, and one task of 16, are as wide, whichever type each asks for."""
    index = WaitIndex()
    two = a_spec(a_job(1, 8, name="a"), of_types(a_job(1, 8, name="b"), "A100"))
    index.note(WorkloadId("w-1"), row_of(1, two), 3, is_waiting=True)
    index.note(WorkloadId("w-2"), row_of(2, a_spec(a_job(4, 4))), 3, is_waiting=True)
    assert {(H100, 5): 24_000, (("A100",), 5): 8_000} == index.waiting_from(0)

"""Parts of devices on a real worker: its two CPU slots are two devices, and programs run on them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from core.nouns.ids import WorkloadId
from core.nouns.quantities import Amount
from core.nouns.workload import Phase
from runtime.fleet_file import FleetFile, RegionSpec
from runtime.tasks.spool import TaskSpool
from tests.mizzen.asking import cancel, until_refused
from tests.mizzen.running import HERE, RunningPlane, running_plane

pytestmark = pytest.mark.processes

TWO_DEVICES = FleetFile({HERE: RegionSpec(this_machine=True, cpu_slots=2)}, "fleet")


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[RunningPlane]:
    """One region, of this machine alone."""
    with running_plane(tmp_path, TWO_DEVICES) as plane:
        yield plane


def submit(plane: RunningPlane, name: str, gpu_milli: int) -> WorkloadId:
    """One program that needs a part of a device."""
    spec = plane.program(name, "exec sleep 600")
    job = replace(spec.jobs[0], need=Amount(gpu_milli=gpu_milli))
    return plane.submit(replace(spec, jobs=(job,)))


def by_slot(plane: RunningPlane) -> list[list[WorkloadId]]:
    """Whose programs are on each of the machine's devices on which there are any."""
    spool: object = plane.world.unit("worker", HERE).spool
    assert isinstance(spool, TaskSpool)
    found: dict[int, list[WorkloadId]] = {}
    for share in spool._programs.shares.values():
        for place in share.commanded.places:
            found.setdefault(place.slots[0][0], []).append(share.key.workload)
    return [found[slot] for slot in sorted(found)]


def test_third_part_that_no_device_holds_waits(plane: RunningPlane) -> None:
    """Three times 600 milli are less than two devices, and two of them start; the third waits and does not fail its start.

    400 milli more run beside one of them, on its device; and once the other has ended, the third runs in its place.
    """
    first, second = submit(plane, "first", 600), submit(plane, "second", 600)
    for workload in (first, second):
        plane.until(workload, Phase.RUNNING)
    assert [[first], [second]] == sorted(by_slot(plane))
    third = submit(plane, "third", 600)
    until_refused(plane, third)
    small = submit(plane, "small", 400)
    plane.until(small, Phase.RUNNING)
    beside, (alone,) = sorted(by_slot(plane), key=len, reverse=True)
    assert small in beside
    cancel(plane, alone)
    plane.until(third, Phase.RUNNING)
    assert [beside, [third]] == sorted(by_slot(plane), key=len, reverse=True)
    for workload in (*beside, third):
        cancel(plane, workload)

"""Which devices a machine has and which of them a task gets."""

import os
import sys
from types import SimpleNamespace

import pytest

from core.nouns.fleet import UNNUMBERED
from core.nouns.ids import WorkerName
from runtime.tasks.slots import (
    Device,
    Slots,
    allot,
    cpus_of,
    find_devices,
    gpu_type_of,
    inventory_of_this_machine,
)


@pytest.mark.parametrize(
    ("need", "used", "count", "slots"),
    [
        (1000, {}, 4, ((0, 1000),)),
        (2000, {0: 1000, 2: 300}, 4, ((1, 1000), (3, 1000))),
        (2000, {0: 1000, 2: 300}, 3, None),
        (300, {0: 1000, 1: 500, 2: 700}, 4, ((2, 300),)),
        (300, {0: 1000, 1: 800}, 4, ((2, 300),)),
        (300, {0: 1000, 1: 800}, 2, None),
        (0, {0: 1000}, 1, ()),
        (1000, {0: 1000, 1: 1000}, None, ((2, 1000),)),
        (3000, {1: 1000}, None, ((0, 1000), (2, 1000), (3, 1000))),
    ],
)
def test_slots_are_found(need: int, used: dict[int, int], count: int | None, slots: Slots | None) -> None:
    """Whole ones where all is wanted, the fullest that fits for a part, and none when there is no room."""
    assert slots == allot(need, used, count)


@pytest.mark.parametrize(
    ("used", "together", "is_new", "slots"),
    [
        ({0: 400, 1: 600}, 0, False, ((0, 300),)),
        ({0: 400, 1: 800}, 1, False, None),
        ({0: 400, 1: 600}, None, True, ((2, 300),)),
        ({0: 400, 1: 600, 2: 1000}, None, True, None),
    ],
)
def test_part_of_a_device_that_is_shared_with_others(
    used: dict[int, int], together: int | None, is_new: bool, slots: Slots | None
) -> None:
    """It is where those are with whom the region counts it, and nowhere else; the first of them takes a free one."""
    assert slots == allot(300, used, 3, together, is_new=is_new)


def test_slots_beyond_the_cpus_wrap_around() -> None:
    """A machine may serve more slots than it has CPUs."""
    usable = sorted(os.sched_getaffinity(0))
    assert (usable[0],) == cpus_of(((0, 1000), (len(usable), 1000)))
    assert () == cpus_of(())


@pytest.mark.parametrize(
    ("name", "gpu_type"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA", "NVIDIA"),
        ("", "GPU"),
    ],
)
def test_short_names(name: str, gpu_type: str) -> None:
    """What people write into a job file."""
    assert gpu_type == gpu_type_of([Device("GPU-x", name)])


def test_machine_without_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its CPU slots are its devices, with the library and without a driver, or without both."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert (Device("", "cpu"),) * 8 == find_devices()

    class NoDriver(Exception):
        """What the library raises."""

    def fail() -> None:
        raise NoDriver

    monkeypatch.setitem(sys.modules, "pynvml", SimpleNamespace(nvmlInit=fail, NVMLError=NoDriver))
    assert (Device("", "cpu"),) * 3 == find_devices(3)


def test_machine_with_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the library's order, by their UUIDs; one that cannot be asked is left out."""

    def handle(index: int) -> int:
        if index == 1:
            raise OSError("it fell off its bus")
        return index

    def state(handle: int, link: int) -> int:
        if handle == 0 or link == 2:
            raise OSError("it has no such link")
        return 1

    library = SimpleNamespace(
        NVMLError=OSError,
        NVML_NVLINK_MAX_LINKS=18,
        NVML_FEATURE_ENABLED=1,
        nvmlDeviceGetNvLinkState=state,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: 3,
        nvmlDeviceGetHandleByIndex=handle,
        nvmlDeviceGetUUID=lambda handle: f"GPU-{handle}",
        nvmlDeviceGetName=lambda handle: "NVIDIA H200",
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(total=141 << 30),
    )
    monkeypatch.setitem(sys.modules, "pynvml", library)
    assert (
        Device("GPU-0", "NVIDIA H200", 141 << 30),
        Device("GPU-2", "NVIDIA H200", 141 << 30, links=2),
    ) == find_devices()


@pytest.mark.parametrize(("links", "island"), [((18, 18, 18, 18), 4), ((4, 4, 0), 0), ((18,), 0), ((), 0)])
def test_island_of_a_machine(links: tuple[int, ...], island: int) -> None:
    """All GPUs where each has links; nobody knows where one has none."""
    devices = [Device(f"GPU-{index}", "NVIDIA H200", 141 << 30, count) for index, count in enumerate(links)]
    (node,) = inventory_of_this_machine(WorkerName("w0"), devices).groups
    assert island == node.island
    assert (141 << 30 if links else 0) == node.gpu_memory


def test_this_machine_is_a_node() -> None:
    """One that runs programs and is numbered by its region."""
    (node,) = inventory_of_this_machine(WorkerName("w0"), [Device("", "cpu")] * 8).groups
    assert (UNNUMBERED, UNNUMBERED, 1, True) == (node.first, node.rack_first, node.count, node.runs_programs)
    assert ("cpu", 8000) == (node.gpu_type, node.total.gpu_milli)
    assert node.total.cpu_milli >= 1000
    assert node.total.memory_bytes > 1 << 28
    (node,) = inventory_of_this_machine(
        WorkerName("w0"), [Device("GPU-x", "NVIDIA H200")], first=7, rack=3
    ).groups
    assert ("H200", 1000, 7, 3) == (node.gpu_type, node.total.gpu_milli, node.first, node.rack_first)

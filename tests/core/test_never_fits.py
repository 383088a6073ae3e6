"""Why a fleet could never hold a workload: what it says, and that it says something exactly when nothing could hold it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.events.region import NodesJoined
from core.fact import Fact
from core.images.region import Hardware, HardwareRow
from core.nouns.fleet import gpu_type_of, node_type_of
from core.nouns.ids import RegionName
from core.nouns.workload import Extent, JobSpec, Kind, Program, Topology, WorkloadSpec
from core.rules.never_fits import could_fit, reasons_never
from tests.builders import EU, EU_LOG, GIB, START, US, a_job, a_spec, amount, an_inventory, of_types
from tests.core.properties import PROPERTY


def having(*rows: tuple[str, int, int]) -> Hardware:
    """So many nodes of so many GPUs each, by type."""
    return Hardware(
        {kind: HardwareRow(nodes, 1000 * gpus, 1000 * gpus * nodes) for kind, nodes, gpus in rows}
    )


def sized(*rows: tuple[str, int, int, int, int, int]) -> Hardware:
    """So many nodes of so many GPUs, CPUs, GiB, and GiB of each GPU, by type."""
    found = {}
    for kind, nodes, gpus, cpus, gib, gpu_gib in rows:
        node = amount(gpus, cpus, gib)
        found[kind] = HardwareRow(
            nodes, node.gpu_milli, node.gpu_milli * nodes, node, node.times(nodes), gpu_gib * GIB, nodes
        )
    return Hardware(found)


SIZED = {
    EU: sized(("H100", 4, 8, 64, 512, 80), ("cpu", 2, 0, 96, 1024, 0)),
    US: sized(("H100", 2, 8, 128, 256, 80)),
}


def a_program(gpu_type: str = "H100", gpus: int = 1) -> JobSpec:
    """A job that runs something."""
    return replace(a_job(1, gpus, gpu_type=gpu_type), emulation=None, program=Program("true"))


BOTH = {EU: having(("H100", 4, 8), ("cpu (real)", 1, 8)), US: having(("H100", 2, 8), ("A100", 100, 4))}


@pytest.mark.parametrize(
    ("spec", "hardware", "said"),
    [
        pytest.param(
            a_spec(a_job(gpu_type="B200")), BOTH,
            ["jobs[0].gpu_type: no node has B200; the fleet has A100 (4 a node), H100 (8 a node)"],
            id="unknown type",
        ),
        pytest.param(
            a_spec(a_program("B200")), {EU: BOTH[EU]},
            ["jobs[0].gpu_type: no node has B200; region eu has cpu (8 a node)"],
            id="unknown type, for a program in one region",
        ),
        pytest.param(
            a_spec(a_program()), BOTH,
            ["jobs[0].gpu_type: all nodes with H100 are emulated and run no programs; for programs the fleet has cpu (8 a node)"],
            id="only emulated nodes have it",
        ),
        pytest.param(
            a_spec(a_program()), {US: BOTH[US]},
            ["jobs[0].gpu_type: all nodes with H100 are emulated and run no programs; for programs region us has none"],
            id="only emulated nodes at all",
        ),
        pytest.param(
            a_spec(a_job(gpu_type="cpu")), BOTH,
            ["jobs[0].gpu_type: all nodes with cpu run programs and emulate none; for emulated work the fleet has A100 (4 a node), H100 (8 a node)"],
            id="only nodes for programs have it",
        ),
        pytest.param(
            a_spec(a_job(1, 8), a_job(2, 9, name="b")), BOTH,
            ["jobs[1].need.gpu_milli: a task asks for 9 H100, and no node of the fleet has more than 8"],
            id="more than a node has",
        ),
        pytest.param(
            a_spec(replace(a_job(3, 3), topology=Topology(pack=Extent.NODE))), BOTH,
            ["jobs[0].need.gpu_milli: 3 tasks on one node ask for 9 H100, and no node of the fleet has more than 8"],
            id="more than a node has, of tasks that must lie on one",
        ),
        pytest.param(
            a_spec(a_job(5, 8)), BOTH,
            ["jobs[0].tasks: 5 tasks ask for 40 H100, and no region with such nodes has more than 32"],
            id="more than any region has",
        ),
        pytest.param(
            a_spec(a_job(5, 8), regions=(EU,)), {EU: BOTH[EU]},
            ["jobs[0].tasks: 5 tasks ask for 40 H100, and region eu has 32"],
            id="more than the pinned region has",
        ),
        pytest.param(
            a_spec(a_job(gpu_type="B200"), regions=(EU, US)), BOTH,
            ["jobs[0].gpu_type: no node has B200; regions eu and us have A100 (4 a node), H100 (8 a node)"],
            id="unknown type, pinned to two",
        ),
        pytest.param(
            a_spec(a_job(2, 8)), {EU: having(("H100", 1, 8)), US: having(("H100", 99, 4))},
            ["jobs[0].tasks: 2 tasks ask for 16 H100, and no region with such nodes has more than 8"],
            id="large nodes here, many nodes there",
        ),
        pytest.param(
            a_spec(a_job(4, 8), a_job(1, 4, gpu_type="A100", name="b")), BOTH,
            ["jobs: together they ask for 32 H100 and 4 A100, and no region has as much; one must hold them all"],
            id="one job here, the other there",
        ),
        pytest.param(
            a_spec(a_job(3, 8), a_job(3, 4, name="b")), {EU: BOTH[EU]},
            ["jobs: together they ask for 36 H100, and region eu has not as much"],
            id="each by itself",
        ),
        pytest.param(
            a_spec(of_types(a_job(5, 8), "A200", "B200")), BOTH,
            ["jobs[0].gpu_type: no node has A200 or B200; the fleet has A100 (4 a node), H100 (8 a node)"],
            id="unknown types",
        ),
        pytest.param(
            a_spec(of_types(a_job(1, 9), "A100", "H100")), BOTH,
            ["jobs[0].need.gpu_milli: a task asks for 9 A100 or H100, and no node of the fleet has more than 8"],
            id="more than a node has of either type",
        ),
        pytest.param(
            a_spec(of_types(a_job(54, 8), "A100", "H100")), {EU: having(("H100", 53, 8), ("A100", 50, 8))},
            ["jobs[0].tasks: 54 tasks ask for 432 A100 or H100, and region eu has 424 of one type"],
            id="more than there is of one type",
        ),
        pytest.param(
            a_spec(a_job(1, 4, gpu_type="any"), a_job(1, 8, name="b")), {EU: having(("A100", 1, 2), ("H100", 1, 8))},
            ["jobs: together they ask for 4 GPUs of any type and 8 H100, and region eu has not as much"],
            id="jobs that only one type holds",
        ),
        pytest.param(
            a_spec(a_program("any")), {US: BOTH[US]},
            ["jobs[0].gpu_type: no node with GPUs is for programs; for that region us has none"],
            id="any type, on nodes for programs",
        ),
        pytest.param(
            a_spec(a_program("any")), {EU: BOTH[EU]},
            ["jobs[0].gpu_type: no node with GPUs is for programs; for that region eu has cpu (8 a node)"],
            id="any GPU, and there are CPUs",
        ),
        pytest.param(
            a_spec(a_job(cpus=3_000_000)), SIZED,
            ["jobs[0].need.cpu_milli: a task asks for 3000000 CPUs, and no node of the fleet has more than 128 (the largest is one of type H100 in region us)"],
            id="more CPUs than a node has",
        ),
        pytest.param(
            a_spec(a_job(gib=1024)), SIZED,
            ["jobs[0].need.memory_bytes: a task asks for 1024 GiB, and no node of the fleet has more than 512 GiB (the largest is one of type H100 in region eu)"],
            id="more memory than a node of its type has",
        ),
        pytest.param(
            a_spec(a_job(cpus=100, gib=300)), SIZED,
            ["jobs[0].need.memory_bytes: a task asks for 300 GiB, and no node of the fleet with as much of the rest has more than 256 GiB (the largest is one of type H100 in region us)"],
            id="CPUs of one node, and memory of another",
        ),
        pytest.param(
            a_spec(replace(a_job(), gpu_memory=81 * GIB)), {US: SIZED[US]},
            ["jobs[0].gpu_memory: each GPU needs 81 GiB, and no node of region us has more than 80 GiB (the largest is one of type H100 in region us)"],
            id="larger GPUs than there are",
        ),
        pytest.param(
            a_spec(a_job(5, 1, cpus=60)), {EU: SIZED[EU]},
            ["jobs[0].tasks: 5 tasks ask for 300 CPUs, and region eu has 256"],
            id="more CPUs than all nodes have",
        ),
        pytest.param(
            a_spec(a_job(5, 0, cpus=1, gib=500)), {EU: SIZED[EU]},
            ["jobs[0].tasks: 5 tasks ask for 2500 GiB, and region eu has 2048 GiB"],
            id="more memory than all nodes have",
        ),
        pytest.param(
            a_spec(a_job(4, 1, cpus=64), a_job(1, 1, cpus=1, name="b")), {EU: SIZED[EU]},
            ["jobs: together they ask for 257 CPUs, and region eu has not as much"],
            id="more CPUs in two jobs",
        ),
    ],
)  # fmt: skip
def test_reasons_name_the_hardware_of_the_fleet(
    spec: WorkloadSpec, hardware: dict[RegionName, Hardware], said: list[str]
) -> None:
    """In devices, by job, and of the nodes that are for such work."""
    assert not any(could_fit(spec, region) for region in hardware.values())
    assert said == list(reasons_never(spec, hardware))


BORDER = {EU: replace(BOTH[EU], shared=having(("V100", 1, 2)).rows), US: BOTH[US]}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            a_spec(a_job(gpu_type="V100")),
            "every node with V100 is in the pool shared, for jobs with `share` alone; for others the fleet has A100 (4 a node), H100 (8 a node)",
        ),
        (
            a_spec(a_job(), kind=Kind.SHARED),
            "no node with H100 is in the pool shared; the pool shared of the fleet has V100 (2 a node)",
        ),
        (
            a_spec(a_job(gpu_type="B200"), kind=Kind.SHARED),
            "no node has B200; the pool shared of the fleet has V100 (2 a node)",
        ),
    ],
)
def test_nodes_beyond_the_border_of_a_shared_pool_are_named(spec: WorkloadSpec, said: str) -> None:
    """A type that is there, but not for such work, is not said to be missing."""
    assert [f"jobs[0].gpu_type: {said}"] == list(reasons_never(spec, BORDER))


@pytest.mark.parametrize(
    "job",
    [a_job(cpus=3_000_000), a_job(gib=1 << 20), replace(a_job(), gpu_memory=1 << 50)],
)
def test_nothing_is_said_of_what_is_not_known(job: JobSpec) -> None:
    """An image that an older build folded has GPUs alone; a fact that adds nodes tells nothing of those before."""
    hardware = having(("H100", 4, 8))
    assert could_fit(a_spec(job), hardware)
    inventory = an_inventory("w9", 8, 2)
    hardware._joined(Fact(EU_LOG, 9, START, "", "", NodesJoined(inventory.worker, inventory)))
    assert 6 == hardware.rows["H100"].nodes
    assert could_fit(a_spec(job), hardware)


def test_memory_of_gpus_that_is_not_known_excludes_nothing() -> None:
    """The region is asked, and its agents answer that no node is known to have as much."""
    assert could_fit(a_spec(replace(a_job(), gpu_memory=1)), sized(("H100", 1, 8, 64, 512, 0)))


TYPES = st.sampled_from(["H100", "H100 (real)", "A100"])
ASKED = st.sampled_from([("H100",), ("A100",), ("H100", "A100"), ("any",)])
ROWS = st.dictionaries(
    TYPES,
    st.tuples(st.integers(1, 4), st.integers(1, 8), st.integers(1, 4), st.integers(1, 4), st.integers(0, 2)),
    min_size=1,
)


@PROPERTY
@given(
    regions=st.lists(ROWS, min_size=1, max_size=3),
    asked=st.lists(
        st.tuples(
            st.integers(1, 6), st.integers(1, 9), ASKED, st.booleans(),
            st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 3)),
        ),
        min_size=1, max_size=3,
    ),
)  # fmt: skip
def test_there_is_a_reason_for_whatever_does_not_fit(
    regions: list[dict[str, tuple[int, int, int, int, int]]],
    asked: list[tuple[int, int, tuple[str, ...], bool, tuple[int, int, int]]],
) -> None:
    """And each names a job that is there."""
    hardware = {
        RegionName(f"r{number}"): sized(*((kind, *size) for kind, size in rows.items()))
        for number, rows in enumerate(regions)
    }
    jobs = [
        of_types(
            replace(
                a_program() if is_program else a_job(),
                tasks=tasks,
                need=amount(gpus, cpus, gib),
                gpu_memory=gpu_gib * GIB,
            ),
            *types,
        )
        for tasks, gpus, types, is_program, (cpus, gib, gpu_gib) in asked
    ]
    spec = a_spec(*jobs)
    if not any(could_fit(spec, region) for region in hardware.values()):
        reasons = reasons_never(spec, hardware)
        assert reasons
        assert all(
            reason.startswith(("jobs: ", *(f"jobs[{n}]." for n in range(len(jobs))))) for reason in reasons
        )


@pytest.mark.parametrize("runs_programs", [False, True])
def test_type_of_a_node_tells_its_gpu_type(*, runs_programs: bool) -> None:
    """There and back."""
    assert ("H100", runs_programs) == gpu_type_of(node_type_of("H100", runs_programs=runs_programs))

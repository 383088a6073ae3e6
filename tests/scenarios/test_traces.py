"""Traces as loads: read as they are, or refused with what is wrong with them; what they do not tell is drawn."""

import gzip
from pathlib import Path

import pytest

from core.nouns.instant import SECOND
from runtime.fleet_file import EMULATED_NODE, RegionSpec
from scenarios.schema.fleet import FleetSpec
from scenarios.schema.parts import FieldError
from scenarios.trace import Trace
from scenarios.workloads.openb import Openb
from scenarios.workloads.philly import Philly
from tests.scenarios.loads import FLEET, drawn, gpus_of_all, job_of, work_seconds

PHILLY = """submit_time,duration_s,num_gpus,vc
2017-10-03 00:00:00,600,1,abc
2017-10-03 00:01:40,7200,8,def
2017-10-03 00:03:20,30,64,abc
"""
OPENB = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
pod-0,12000,16384,1,460,,LS,Running,0,700,100
pod-1,120000,12288,2,1000,A100|T4,BE,Failed,100,160,100
pod-2,8000,24576,0,0,,Burstable,Pending,400,460,
"""
OPENB_BARE = """name,cpu_milli,memory_mib,num_gpu,gpu_milli
pod-0,12000,16384,1,1000
pod-1,6000,12288,1,460
"""


def philly_in(directory: Path, text: str = PHILLY) -> str:
    """A folder with such a trace."""
    (directory / "jobs.csv.gz").write_bytes(gzip.compress(text.encode()))
    return str(directory)


def openb_in(directory: Path, text: str = OPENB, pods: str = "default") -> str:
    """The same, of the other trace."""
    (directory / f"openb_pod_list_{pods}.csv.gz").write_bytes(gzip.compress(text.encode()))
    return str(directory)


def test_jobs_of_philly(tmp_path: Path) -> None:
    """Their times fill the hours; nobody is longer or larger than the load allows; tenants are the virtual clusters."""
    load = Philly(
        workloads=3,
        hours=1,
        compression=10,
        minutes_max=60,
        gpus_max=16,
        fails_share=0,
        cancels_share=0,
        directory=philly_in(tmp_path),
    )
    arrivals = drawn(load)
    assert [0, 180, 360] == [arrival.at // SECOND for arrival in arrivals]
    assert [60, 360, 3] == [work_seconds(arrival) for arrival in arrivals]
    assert [(1, 1_000), (1, 8_000), (2, 8_000)] == [
        (job_of(one).tasks, job_of(one).need.gpu_milli) for one in arrivals
    ]
    assert ["abc", "def", "abc"] == [one.spec.tenant for one in arrivals]


def test_pods_of_openb(tmp_path: Path) -> None:
    """Parts of a GPU, whole ones and none, with the CPUs and the memory that the trace says, as far as a node has them."""
    mixed = FleetSpec(
        regions={
            "eu": RegionSpec(nodes=40, gpu_type="H100"),
            "us": RegionSpec(nodes=1, gpu_type="A100"),
        }
    )
    load = Openb(workloads=3, hours=1, fails_share=1, directory=openb_in(tmp_path))
    arrivals = drawn(load, mixed)
    assert [0, 900, 3600] == [arrival.at // SECOND for arrival in arrivals]
    assert [600, 60, 60] == [work_seconds(arrival) for arrival in arrivals]
    needs = [job_of(arrival).need for arrival in arrivals]
    assert [460, 2000, 0] == [need.gpu_milli for need in needs]
    assert [12_000, EMULATED_NODE.cpu_milli, 8_000] == [need.cpu_milli for need in needs]
    assert [16384 << 20, 12288 << 20, 24576 << 20] == [need.memory_bytes for need in needs]
    assert [5, 1, 3] == [arrival.spec.priority for arrival in arrivals]
    assert "A100" == job_of(arrivals[1]).gpu_type
    emulations = [job_of(arrival).emulation for arrival in arrivals]
    assert [False, True, False] == [bool(one and one.fails_after) for one in emulations]
    assert 0 == arrivals[1].spec.retry.task_failed


def test_list_without_times(tmp_path: Path) -> None:
    """When they come and how long they run is drawn, and what they want is as the list says."""
    load = Openb(
        workloads=2, hours=1, directory=openb_in(tmp_path, OPENB_BARE, "multigpu20"), pods="multigpu20"
    )
    arrivals = drawn(load)
    assert 0 < arrivals[0].at < arrivals[1].at < 3600 * SECOND
    assert {1000, 460} == {job_of(arrival).need.gpu_milli for arrival in arrivals}


def test_other_dice_take_another_place_of_a_trace(tmp_path: Path) -> None:
    """And the same dice the same."""
    lines = "".join(f"2017-10-03 00:{minute:02}:00,{minute + 1},1,vc\n" for minute in range(60))
    directory = philly_in(tmp_path, PHILLY.splitlines(keepends=True)[0] + lines)
    load = Philly(workloads=3, hours=1, directory=directory)
    loads = [drawn(load, seed=seed) for seed in (1, 1, 2)]
    assert loads[0] == loads[1] != loads[2]


@pytest.mark.parametrize(
    ("text", "field", "said"),
    [
        (PHILLY.rpartition("2017")[0], "workloads", "3 are asked for, and {folder} has 2 jobs"),
        (
            PHILLY.replace("vc", "cluster"),
            "directory",
            "{folder}/jobs.csv.gz: its columns are not submit_time, duration_s, num_gpus, vc",
        ),
        (
            PHILLY.replace("7200", "long"),
            "directory",
            "{folder}/jobs.csv.gz: line 3: could not convert string to float: 'long'",
        ),
        (
            PHILLY.replace("2017-10-03 00:00:00,600,1,abc", "2017-10-03 00:00:00"),
            "directory",
            "{folder}/jobs.csv.gz: line 2: it is cut off",
        ),
    ],
)
def test_trace_that_cannot_be_used(text: str, field: str, said: str, tmp_path: Path) -> None:
    """The file and the line are named, and what is wrong with it, before anything is drawn."""
    load = Philly(workloads=3, hours=1, directory=philly_in(tmp_path, text))
    wrong = load.problem(FLEET, ("workload", "philly"))
    assert wrong is not None
    assert (("workload", "philly", field), said.format(folder=tmp_path)) == (wrong.path, wrong.text)
    with pytest.raises(FieldError):
        drawn(load)


def test_file_that_is_no_archive(tmp_path: Path) -> None:
    """It is not read as if it were one, nor is half of one."""
    path = tmp_path / "jobs.csv.gz"
    path.write_text(PHILLY, encoding="utf-8")
    load = Philly(workloads=3, hours=1, directory=str(tmp_path))
    wrong = load.problem(FLEET, ())
    assert wrong is not None
    assert wrong.text.startswith(f"{path}: it cannot be read (Not a gzipped file")
    path.write_bytes(gzip.compress(PHILLY.encode())[:-20])
    wrong = load.problem(FLEET, ())
    assert wrong is not None
    assert wrong.text.startswith(f"{path}: it cannot be read (Compressed file ended")


@pytest.mark.parametrize(
    ("kind", "file"), [(Philly, "jobs.csv.gz"), (Openb, "openb_pod_list_default.csv.gz")]
)
def test_trace_that_is_not_there(kind: type[Trace], file: str, tmp_path: Path) -> None:
    """One sentence, with the whole path."""
    wrong = kind(workloads=3, hours=1, directory=str(tmp_path)).problem(FLEET, ())
    assert wrong is not None
    assert (("directory",), f"{tmp_path / file}: there is no such file") == (wrong.path, wrong.text)


def test_list_that_is_not_there(tmp_path: Path) -> None:
    """Those that are there are named, and the one that may have been meant."""
    openb_in(tmp_path, pods="cpu050")
    wrong = Openb(workloads=3, hours=1, directory=openb_in(tmp_path), pods="cpu05").problem(FLEET, ())
    assert wrong is not None
    text = "there is no list `cpu05` (did you mean `cpu050`?); there are cpu050, default"
    assert (("pods",), text) == (wrong.path, wrong.text)


@pytest.mark.parametrize("load", [Philly(workloads=400, hours=8), Openb(workloads=400, hours=8)])
def test_real_trace(load: Trace) -> None:
    """Where it has been put beside the repository, it can be read, and every job of it fits."""
    if not load.folder.is_dir():
        pytest.skip(f"{load.folder} is not there")
    assert load.problem(FLEET, ()) is None
    assert len(load.jobs()) > 8000
    arrivals = drawn(load)
    assert 400 == len(arrivals)
    assert arrivals[-1].at <= 8 * 3600 * SECOND
    assert all(gpus_of_all(arrival) <= 320 for arrival in arrivals)

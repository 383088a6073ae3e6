"""A trace as a load: its times, sizes and clusters, compressed and capped; what it does not tell is drawn."""

import gzip
import random
from pathlib import Path

import pytest

from core.nouns.instant import SECOND
from scenarios.philly import FILE, trace_load
from scenarios.scenario import FleetSpec, LoadSpec, ScenarioError

LOAD = LoadSpec(
    workloads=3, hours=1, compression=10, minutes_max=60, gpus_max=16, fails_share=0, cancels_share=0
)
FLEET = FleetSpec(regions=1, nodes=4)
JOBS = """submit_time,duration_s,num_gpus,vc
2017-10-03 00:00:00,600,1,abc
2017-10-03 00:01:40,7200,8,def
2017-10-03 00:03:20,30,64,abc
"""


def written(directory: Path, text: str = JOBS) -> Path:
    """The folder of a trace."""
    with gzip.open(directory / FILE, "wt", encoding="utf-8") as file:
        file.write(text)
    return directory


def test_jobs_of_a_trace(tmp_path: Path) -> None:
    """Ten times faster; nobody longer or larger than the load allows; whole nodes for whoever needs more than one."""
    arrivals = trace_load(written(tmp_path), LOAD, FLEET, random.Random(1))
    assert [0, 10, 20] == [arrival.at // SECOND for arrival in arrivals]
    found = [(arrival.spec.jobs[0], arrival.spec.tenant) for arrival in arrivals]
    assert [60, 360, 3] == [job.emulation.work // SECOND for job, _ in found if job.emulation]
    assert [(1, 1_000), (1, 8_000), (2, 8_000)] == [(job.tasks, job.need.gpu_milli) for job, _ in found]
    assert ["abc", "def", "abc"] == [tenant for _, tenant in found]


def test_same_chance_gives_the_same_jobs(tmp_path: Path) -> None:
    """And another place of the trace is another load."""
    lines = "".join(f"2017-10-03 00:{minute:02}:00,{minute + 1},1,vc\n" for minute in range(60))
    trace = written(tmp_path, JOBS.splitlines(keepends=True)[0] + lines)
    loads = [trace_load(trace, LOAD, FLEET, random.Random(seed)) for seed in (1, 1, 2)]
    assert loads[0] == loads[1] != loads[2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (JOBS.rpartition("2017")[0], "2 jobs, and 3 are asked for"),
        (JOBS.replace("vc", "cluster"), "its columns are not submit_time, duration_s, num_gpus, vc"),
        (JOBS.replace("600", "long"), "could not convert string to float: 'long'"),
    ],
)
def test_trace_that_cannot_be_used(text: str, said: str, tmp_path: Path) -> None:
    """The file is named, and what is wrong with it."""
    with pytest.raises(ScenarioError, match=said) as raised:
        trace_load(written(tmp_path, text), LOAD, FLEET, random.Random(1))
    assert str(raised.value).startswith(str(tmp_path / FILE))


def test_trace_that_is_not_there(tmp_path: Path) -> None:
    """One sentence."""
    with pytest.raises(ScenarioError, match="there is no such file"):
        trace_load(tmp_path, LOAD, FLEET, random.Random(1))

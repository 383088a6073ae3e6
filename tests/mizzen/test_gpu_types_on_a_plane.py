"""Jobs of several GPU types, or of any, on a plane that runs: submitted as files, and shown."""

from pathlib import Path

import pytest

from core.nouns.ids import WorkloadId
from core.nouns.workload import Phase
from tests.mizzen.asking import Captured, ask, cancel
from tests.mizzen.running import RunningPlane

pytestmark = pytest.mark.processes

FILES = {
    "gang": "emulate: {work: 1h}\ntasks: 2\nresources: {gpus: [B200:8, H100:8]}",
    "any": "emulate: {work: 1h}\nresources: {gpus: any:4}",
    "cpus": "emulate: {work: 1h}\nresources: {cpus: 4}",
    "program": "run: exec sleep 600\nresources: {gpus: any:0, cpus: 1}",
}
SHOWN = {
    "gang": "main: 2 x 8 GPUs on B200 or H100",
    "any": "main: 1 x 4 GPUs on any type",
    "cpus": "main: 1 x 4 CPUs on any type",
    "program": "main: 1 x 1 CPUs on any type",
}


def submitted(capsys: Captured, folder: Path, name: str) -> WorkloadId:
    """By its file."""
    path = folder / f"{name}.yaml"
    path.write_text(f"name: {name}\n{FILES[name]}\n")
    return WorkloadId(ask(capsys, f"submit {path}").strip())


@pytest.mark.parametrize("name", FILES)
def test_job_runs_on_a_type_that_will_do(
    plane: RunningPlane, capsys: Captured, tmp_path: Path, name: str
) -> None:
    """T4: on the one that there is; of any, on GPUs if it needs some, and a program only on nodes for programs."""
    workload = submitted(capsys, tmp_path, name)
    plane.until(workload, Phase.RUNNING)
    assert SHOWN[name] in ask(capsys, f"show {workload}")
    row = plane.world.unit("job_queue").state.image.workloads.rows[workload]
    assert (str(row.region) == "here") == (name == "program")
    assert "gpu_type" in ask(capsys, f"explain {workload}")
    cancel(plane, workload)

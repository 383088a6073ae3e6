"""`serve: functions` in a job file: capacity for functions in place of a program, and one sentence for each mistake."""

import pytest

from core.nouns.workload import Kind, Serves
from tests.mizzen.test_job_file import problems, read

SERVING = """\
name: serving
serve: functions
tasks: 4
resources: {gpus: cpu:1}
"""


@pytest.mark.parametrize(
    ("more", "serves"), [("", Serves.OWN), ("for: own", Serves.OWN), ("for: all", Serves.ALL)]
)
def test_serving_is_read(more: str, serves: Serves) -> None:
    """It is a service whose tasks run no program, for the tenant's own functions unless it says for all."""
    spec = read(SERVING + more)
    (job,) = spec.jobs
    assert (Kind.SERVICE, serves, 4) == (spec.kind, job.serves, job.tasks)
    assert job.program is not None
    assert "" == job.program.run
    assert -1 == spec.retry.task_failed, "its tasks are started again for ever"


def test_emulated_job_serves_too() -> None:
    """On emulated nodes, for as long as it pretends to work."""
    (job,) = read(f"{SERVING}emulate: {{work: 8h}}").jobs
    assert job.program is None
    assert job.emulation is not None
    assert Serves.OWN is job.serves


def test_other_work_serves_nothing() -> None:
    """By default."""
    assert Serves.NO is read("name: a\nrun: 'true'\nresources: {gpus: cpu:1}").jobs[0].serves


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (SERVING.replace("functions", "pages"), "serve: pages is no kind of service"),
        (f"{SERVING}for: everybody", "for: everybody is no word for whose functions"),
        (f"{SERVING}run: python train.py", "serve: it stands in place of run; leave one of them out"),
        (f"{SERVING}env: {{A: b}}", "env: a job that serves functions runs no program; leave it out"),
        (f"{SERVING}secrets: [KEY]", "secrets: a job that serves functions runs no program; leave it out"),
        (
            "name: a\nrun: 'true'\nfor: all\nresources: {gpus: cpu:1}",
            "for: it belongs to serve; leave it out, or serve functions",
        ),
    ],
)
def test_mistake_is_told_at_its_line(text: str, wanted: str) -> None:
    """Each in one sentence, and no other."""
    (found,) = problems(text)
    assert wanted in str(found)

"""`mizzen submit` of a pipeline: what would be asked for, and what a real queue answers."""

import json
from pathlib import Path

import pytest

from bus.server import URL_VARIABLE
from core.messages.pipelines import CancelPipeline, PipelineCancelled
from core.nouns.ids import GLOBAL_LOG, PipelineId, WorkloadId
from core.nouns.instant import SECOND
from core.nouns.pipeline import NoDeadline, Outcome
from core.rules.ownership import sender_of
from mizzen.actions import submit as submission
from mizzen.cli import main
from mizzen.jobs.file import Job, read_job
from mizzen.jobs.source import Source, sheet_of
from mizzen.terminal.output import FAILED, MISUSED, CommandError
from tests.mizzen.half_plane import half_plane
from tests.mizzen.test_submit import Done, run
from tests.runtime.aids import START, Place, virtual
from tests.worlds.plane import plane

Captured = pytest.CaptureFixture[str]

NIGHTLY = """\
name: nightly
within: 6h
emulate: {work: 1m}
resources: {gpus: H100:1}
stages:
  prep: {resources: {gpus: cpu:4}, begins: daily 02:00 for 7h, input: 40GB}
  train: {after: [prep], expected: 2h}
"""
ORDER = "name: p\nemulate: {work: 1m}\nresources: {gpus: H100:1}\nstages: [{name: a}, {name: b}]"


def job_of(text: str) -> Job:
    """A file that is submitted when virtual time begins."""
    return read_job(sheet_of(Source("job.yaml", text)), Path("/home/ada"), START)


@virtual
async def test_pipeline_is_submitted_once(place: Place) -> None:
    """However often it is said; it ends when its stages have."""
    half = await half_plane(place)
    job = job_of(ORDER)
    accepted = await submission.pipeline_submitted(half.bus, job, "mine")
    assert (PipelineId("p-1"), (WorkloadId("w-2"), WorkloadId("w-3"))) == (
        accepted.pipeline, accepted.workloads
    )  # fmt: skip
    assert (0, NoDeadline.NONE) == (accepted.due_at, accepted.no_deadline)
    assert accepted == await submission.pipeline_submitted(half.bus, job, "mine")
    cancelled = await half.bus.ask(CancelPipeline(accepted.pipeline), submission.ASK_SPAN)
    assert isinstance(cancelled, PipelineCancelled)
    assert Outcome.CANCELLED is await submission.pipeline_ended(half.bus, accepted.pipeline)


@virtual
async def test_deadline_that_cannot_be_met(place: Place) -> None:
    """It is refused at its line, or accepted without a deadline; tested, it is told with the earliest deadline."""
    half = await half_plane(place)
    text = "name: p\nemulate: {work: 1m}\nresources: {gpus: H100:1}\nwithin: 1h\nexpected: 2h\nbegins: daily 00:00 for 1d\n"
    with pytest.raises(CommandError, match="nothing was submitted: The pipeline would miss") as caught:
        await submission.pipeline_submitted(half.bus, job_of(text), "a")
    assert FAILED == caught.value.exit_code
    [problem] = caught.value.problems
    assert str(problem).startswith("job.yaml:4:9: within: the earliest deadline that can be met is ")
    accepting = job_of(f"{text}on_late: accept")
    tested = await submission.pipeline_tested(half.bus, accepting)
    assert (NoDeadline.INFEASIBLE, True) == (tested.no_deadline, tested.earliest > START + 3_600 * SECOND)
    accepted = await submission.pipeline_submitted(half.bus, accepting, "b")
    assert (0, NoDeadline.INFEASIBLE) == (accepted.due_at, accepted.no_deadline)


@virtual
async def test_refused_pipeline(place: Place) -> None:
    """What is wrong with the request as a whole is told at the top; of an unknown one there is no end to wait for."""
    half = await half_plane(place)
    job = job_of(ORDER)
    with pytest.raises(CommandError) as caught:
        await submission.pipeline_submitted(half.bus, job, "k" * 300)
    assert (MISUSED, ["job.yaml:1:1: key: 256 characters are the most"]) == (
        caught.value.exit_code, caught.value.problems
    )  # fmt: skip
    with pytest.raises(CommandError, match="p-9: No pipeline of this id is known"):
        await submission.pipeline_ended(half.bus, PipelineId("p-9"))


@virtual
async def test_tenants_credentials_name_the_tenant_of_all_stages(place: Place) -> None:
    """Unless the file names one, there is one alone."""
    half = await half_plane(place)
    bus = place.network.endpoint(sender_of("ads", "ada"), tenant="ads")
    accepted = await submission.pipeline_submitted(bus, job_of(ORDER), "mine")
    await place.sleep(1)
    rows = (await half.image(GLOBAL_LOG)).workloads.rows
    assert ["ads", "ads"] == [rows[workload].spec.tenant for workload in accepted.workloads]


def test_dry_run_of_a_pipeline(tmp_path: Path, capsys: Captured) -> None:
    """It tells the deadline, then each stage, and its workload as that of any job; what the command line says is of the top."""
    path = tmp_path / "job.yaml"
    path.write_text(NIGHTLY.replace("within: 6h", "within: 30h"))
    words = ["submit", str(path), "--dry-run", "--tenant", "ads", "--set", "stages.train.expected=3h"]
    assert 0 == main([*words, "--json"])
    told = json.loads(capsys.readouterr().out)
    assert ["ads", "ads"] == [stage["workload"]["tenant"] for stage in told["stages"]]
    assert 3 * 3_600 * SECOND == told["stages"][1]["workload"]["expected"]
    assert 0 == main(words)
    out, err = capsys.readouterr()
    assert "" == err
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert [
        "pipeline nightly", "within 1d6h of the submission"
    ] == lines[:2]  # fmt: skip
    assert ["on late refuse", "together in one region", ""] == lines[2:5]
    assert ["stage prep", "after nothing: from the submission on", "begins daily 02:00 for 7h, UTC"] == lines[
        5:8
    ]
    assert ["name nightly.prep", "tenant ads"] == lines[8:10]
    second = lines[lines.index("stage train") :]
    assert ["stage train", "after prep", "name nightly.train"] == second[:3]
    assert "expected 3h" in second
    assert "input 40000000000" in lines


def test_dry_run_of_a_job_with_a_deadline(tmp_path: Path, capsys: Captured) -> None:
    """Its deadline in UTC, and no word of a region that it shares with none."""
    path = tmp_path / "job.yaml"
    path.write_text(
        "name: p\nrun: x\nresources: {gpus: cpu:1}\ndeadline: 2060-01-01T02:00+01:00\non_late: accept\n"
    )
    assert 0 == main(["submit", str(path), "--dry-run"])
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert ["pipeline p", "deadline 2060-01-01T01:00:00.000Z", "on late accept", "", "stage main"] == lines[
        :5
    ]


def test_change_to_a_file_of_a_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """A change takes one workload, and what is asked of a submission alone is told to be left out."""
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "job.yaml"
    path.write_text(NIGHTLY.replace("within: 6h", "within: 30h"))
    assert MISUSED == main(["update", "w-1", "job.yaml"])
    assert "job.yaml:5:1: stages: it makes a pipeline, and a plain workload is asked for" in (
        capsys.readouterr().err
    )
    path.write_text("name: p\nrun: x\nresources: {gpus: cpu:1}\nwithin: 2h\non_late: accept\n")
    assert 0 != main(["update", "w-1", "job.yaml"])  # There is no plane.
    note = "within, on_late of p: left out; only a submission is given a deadline or a window"
    assert f"mizzen: note: {note}" in capsys.readouterr().err


@pytest.mark.processes
async def test_submission_of_a_pipeline_to_a_plane() -> None:
    """Its id alone is printed; to wait is to exit as it ends."""
    text = "name: p\nemulate: {work: 50ms}\nresources: {gpus: H100:8}\nwithin: 1h\nstages: [{name: a}, {name: b}]\n"
    async with plane() as world:
        assert Done(0, "p-1\n", "") == await run(world, text, "-w")
        done = await run(world, text, "--wait", "--json")
        assert (0, [{"pipeline": "p-2", "workloads": ["w-3", "w-4"]}, {"pipeline": "p-2", "outcome": "met"}]) == (
            done.exit_code, [json.loads(line) for line in done.out.splitlines()]
        )  # fmt: skip
        failing = text.replace("50ms", "1h, fails_after: 20ms")
        failed = await run(world, failing.replace("1h\n", "9h\n"), "-w")
        assert (FAILED, "p-3\n") == (failed.exit_code, failed.out)
        assert "mizzen: p-3 has ended failed; `mizzen pipeline p-3` tells why\n" == failed.err
        told = await run(world, text, "--test-only")
        assert (0, "") == (told.exit_code, told.err)
        assert told.out.startswith("it would be accepted; ")
        never = await run(world, text.replace("{name: b}", "{name: b, resources: {gpus: H100:9}}"))
        assert (FAILED, "") == (never.exit_code, never.out)
        assert "stdin:5:49: stages[1].resources.gpus: a task asks for 9 H100" in never.err

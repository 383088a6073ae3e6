"""Pipelines of a plane that runs, by the commands, as they are typed: listed, shown, watched, cancelled, and tested before."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from core.messages.pipelines import CancelPipeline
from core.messages.queue import HoldWorkload
from core.nouns.ids import PipelineId, WorkloadId
from core.nouns.pipeline import Outcome
from core.nouns.reasons import SENTENCES, Reason
from core.nouns.workload import Phase
from mizzen.cli import main
from mizzen.views.pipelines import stages, table
from tests.mizzen.asking import ENDLESS, As, Captured, ask, ask_json, cancel, refused
from tests.mizzen.running import RunningPlane
from tests.worlds.plane import work

pytestmark = pytest.mark.processes
Patch = pytest.MonkeyPatch

TOP = "name: nightly\nemulate: {work: 20ms}\nresources: {gpus: 'H100:1'}\n"
QUICK = f"{TOP}within: 1h\nexpected: 1s\nstages: [{{name: a}}, {{name: b}}]\n"
"""Stages a and b, over in a moment."""
LONG = """\
name: weekly
within: 9h
expected: 1s
emulate: {work: 20ms}
resources: {gpus: 'H100:1'}
stages: [{name: a}, {name: b, emulate: {work: 1h}, expected: 2h}, {name: c, expected: 41m}]
"""
"""Stages a, which is over in a moment, b, which goes on, and c. No run of b or c comes to its end, so what is expected of them counts."""


def submit(capsys: Captured, text: str, words: str = "") -> str:
    """The id of a job file that is accepted, as printed."""
    Path("job.yaml").write_text(text)
    return ask(capsys, f"submit job.yaml {words}").strip()


def until(plane: RunningPlane, pipeline: str, holds: Callable[[list[str]], bool]) -> None:
    """Wait until something holds of the phases of all stages."""
    rows = plane.world.unit("job_queue").state.image.pipelines.rows
    row = rows[PipelineId(pipeline)]
    plane.call(
        plane.world.until(lambda: holds([stage.phase for stage in row.stages]), 20, f"{pipeline} is so far")
    )


def until_ended(plane: RunningPlane, pipeline: str) -> Outcome:
    """Wait for the outcome."""
    rows = plane.world.unit("job_queue").state.image.pipelines.rows
    plane.call(plane.world.until(lambda: rows[PipelineId(pipeline)].outcome, 20, f"{pipeline} has ended"))
    return rows[PipelineId(pipeline)].outcome  # type: ignore[no-any-return]


def workloads(plane: RunningPlane, pipeline: str) -> list[WorkloadId]:
    """Of all stages."""
    row = plane.world.unit("job_queue").state.image.pipelines.rows[PipelineId(pipeline)]
    return [stage.workload for stage in row.stages]


@contextmanager
def a_long_one(plane: RunningPlane, capsys: Captured, text: str = LONG) -> Iterator[str]:
    """A pipeline of which stage b runs; it is cancelled afterwards."""
    pipeline = submit(capsys, text)
    until(plane, pipeline, lambda phases: phases[:2] == ["COMPLETED", "RUNNING"])
    try:
        yield pipeline
    finally:
        plane.say(CancelPipeline(PipelineId(pipeline)))
        until_ended(plane, pipeline)


def row_of(capsys: Captured, pipeline: str, words: str = "pipeline") -> list[str]:
    """The cells of a pipeline in the list."""
    (line,) = [line for line in ask(capsys, words).splitlines() if line.split()[0] == pipeline]
    return line.split()


class Until:
    """Ends what is watched for ever, once so many things were done between two looks."""

    def __init__(self, monkeypatch: Patch, steps: list[Callable[[], object]]) -> None:
        self._steps = iter(steps)
        monkeypatch.setattr(table, "pause", self)

    async def __call__(self, *_: object) -> None:
        step = next(self._steps, None)
        if step is None:
            raise KeyboardInterrupt
        step()


# Listed and shown.


def test_pipeline_in_time(plane: RunningPlane, capsys: Captured) -> None:
    """Listed and shown with the deadline that it met; the same as JSON, where changes and the outcome are."""
    pipeline = submit(capsys, QUICK, "-w")
    row = row_of(capsys, pipeline)
    assert [pipeline, "nightly", "default", "2/2"] == row[:4]
    assert ["-", "met"] == [row[5], row[7]]
    head, region, _, columns, *rows = ask(capsys, f"pipeline {pipeline}").splitlines()
    assert re.fullmatch(rf"{pipeline} nightly of default met the deadline \S+Z, 59m before it", head), head
    assert re.fullmatch(r"  its stages ran in r[01], where the first was placed", region), region
    assert "STAGE" == columns.split()[0]
    assert [("a", "COMPLETED", "-"), ("b", "COMPLETED", "a")] == [
        (cells[0], cells[2], cells[9]) for cells in (line.split() for line in rows)
    ]
    told = ask_json(capsys, f"pipeline {pipeline.removeprefix('p-')}")
    assert (pipeline, "met", [], workloads(plane, pipeline)) == (
        told["pipeline"], told["outcome"], told["changes"], [stage["workload"] for stage in told["stages"]]
    )  # fmt: skip
    listed = ask_json(capsys, "pipeline")
    (one,) = [one for one in listed["pipelines"] if one["pipeline"] == pipeline]
    assert (2, 2, "met", None) == (one["stages"], one["completed"], one["outcome"], one["laxity"])
    assert listed["now"] >= one["ends_at"]


def test_pipeline_that_goes_on(plane: RunningPlane, capsys: Captured) -> None:
    """The running stage in the list, the time left, the forecast, and what waits for what."""
    with a_long_one(plane, capsys) as pipeline:
        row = row_of(capsys, pipeline)
        assert ["1/3", "b", "runs"] == [row[3], *row[7:]]
        assert re.fullmatch(r"8h1\dm", row[5]), row
        head, region, *_, a, b, c, note = ask(capsys, f"pipeline {pipeline}").splitlines()
        assert re.match(
            rf"{pipeline} weekly of default has the deadline \S+Z, in 8h59m, and is likely to end at ", head
        )
        assert re.fullmatch(r"  its stages run in r[01], where the first was placed", region)
        assert ["a", "COMPLETED", "-"] == [a.split()[0], a.split()[2], a.split()[5]]
        assert ["b*", "RUNNING", "-"] == [b.split()[0], b.split()[2], b.split()[5]]
        assert ["c*", "PENDING", "(waits_for_stage)"] == [c.split()[0], *c.split()[2:4]]
        assert "* a stage by which the end is determined" == note
        assert pipeline == ask(capsys, "pipeline").splitlines()[1].split()[0], "the least laxity first"


def test_pipeline_that_fails(plane: RunningPlane, capsys: Captured) -> None:
    """The stage that failed and those that were cancelled for it; meanwhile, that it cannot complete."""
    failing = TOP + (
        "stages:\n  a: {emulate: {work: 1h, fails_after: 20ms}}\n  b: {after: [a]}\n  c: {emulate: {work: 1h}}\n"
    )
    pipeline = submit(capsys, failing)
    until(plane, pipeline, lambda phases: phases == ["FAILED", "CANCELLED", "RUNNING"])
    assert ["c", "runs,", "cannot", "complete"] == row_of(capsys, pipeline)[7:]
    head, *_, a, b, c, _ = ask(capsys, f"pipeline {pipeline}").splitlines()
    assert f"{pipeline} nightly of default has a stage that ended without completion; no deadline" == head
    assert ["FAILED", "CANCELLED", "RUNNING"] == [line.split()[2] for line in (a, b, c)]
    assert "-" == b.split()[6], "it never started"
    assert ask(capsys, f"cancel -w {pipeline}") == f"{pipeline} has ended: failed\n"
    assert (
        f"{pipeline} nightly of default has failed; no deadline"
        == (ask(capsys, f"pipeline {pipeline}").splitlines()[0])
    )
    assert "failed" == row_of(capsys, pipeline)[7]


def test_start_deadline_that_moves(plane: RunningPlane, running: WorkloadId, capsys: Captured) -> None:
    """A run of the stage's family is over sooner than its user said: told at the next event of the pipeline, with that as the cause."""
    text = (
        "name: moves\nregions: [r0]\nemulate: {work: 20ms}\nwithin: 2h\nstages:\n"
        "  a: {tasks: 4, resources: {gpus: 'H100:8'}}\n"
        "  b: {after: [a], resources: {gpus: 'H100:1'}, expected: 20m}\n"
    )
    pipeline = submit(capsys, text)
    first, second = workloads(plane, pipeline)
    plane.say(HoldWorkload(second, 0))
    earlier = plane.submit(work("moves.b", gpus=1, milliseconds=20, region="r1"))
    plane.until(earlier, Phase.COMPLETED)
    cancel(plane, running)
    plane.until(first, Phase.COMPLETED)
    said = ask(capsys, f"pipeline {pipeline}").splitlines()
    assert "start deadlines moved:" in said
    change = said[said.index("start deadlines moved:") + 1]
    assert re.fullmatch(r"  \S+Z  b: \S+Z, (19|20)m later; a runs", change), change
    one = ask_json(capsys, f"pipeline {pipeline}")["changes"][0]
    assert ("b", False, "a runs") == (one["stage"], one["is_late"], one["cause"])
    assert f"{pipeline} cancelled\n" == ask(capsys, f"cancel {pipeline}")


def test_unknown_pipeline(plane: RunningPlane, capsys: Captured) -> None:
    """In one sentence, by each command."""
    unknown = SENTENCES[Reason.UNKNOWN_PIPELINE]
    assert unknown == refused(capsys, "pipeline p-9999")
    assert unknown == refused(capsys, "pipeline -w 9999")
    for words in ("cancel p-9999", "cancel -w p-9999"):
        assert f"p-9999: {unknown}" == refused(capsys, words)


# Watched.


def test_pipeline_is_watched_to_its_end(plane: RunningPlane, capsys: Captured) -> None:
    """A line for each change of a stage, and one for the end."""
    pipeline = submit(capsys, QUICK)
    said = [line.split(maxsplit=1)[1] for line in ask(capsys, f"pipeline -w {pipeline}").splitlines()]
    assert ["a COMPLETED", "b COMPLETED", f"{pipeline} met"] == [
        line for line in said if line.endswith(("COMPLETED", "met"))
    ]
    told = [json.loads(line) for line in ask(capsys, f"pipeline -w {pipeline} --json").splitlines()]
    assert [("a", "COMPLETED"), ("b", "COMPLETED"), ("", "met")] == [
        (line["stage"], line["state"]) for line in told
    ]
    free = submit(capsys, QUICK.replace("within: 1h\n", ""), "-w")
    assert ask(capsys, f"pipeline -w {free}").splitlines()[-1].endswith(f"{free} completed")


def test_pipelines_are_watched(plane: RunningPlane, capsys: Captured, monkeypatch: Patch) -> None:
    """A line for each pipeline, and again when its state changes; until Ctrl-C."""
    with a_long_one(plane, capsys) as pipeline:

        def end() -> None:
            plane.say(CancelPipeline(PipelineId(pipeline)))
            until_ended(plane, pipeline)

        Until(monkeypatch, [lambda: None, end])
        said = [line.split(maxsplit=1)[1] for line in ask(capsys, "pipeline -w", 130).splitlines()]
        mine = [line for line in said if line.startswith(f"{pipeline} ")]
        assert [
            f"{pipeline} weekly 1 of 3 stages completed, b runs",
            f"{pipeline} weekly cancelled",
        ] == [line.partition(", deadline ")[0] for line in mine]
        Until(monkeypatch, [])
        told = [json.loads(line) for line in ask(capsys, "pipeline -w --json", 130).splitlines()]
        assert (pipeline, "cancelled") in [(one["pipeline"], one["outcome"]) for one in told]
        assert all(one["at"] for one in told)


def test_pipelines_are_watched_on_a_terminal(
    plane: RunningPlane, capsys: Captured, monkeypatch: Patch
) -> None:
    """They are drawn again; one pipeline until it has ended."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    pipeline = submit(capsys, QUICK, "-w")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    Until(monkeypatch, [lambda: None])
    assert 130 == main(["pipeline", "-w"])
    drawn = capsys.readouterr().out
    assert "LAXITY" in drawn
    assert pipeline in drawn
    assert 0 == main(["pipeline", "-w", pipeline])
    assert f"{pipeline} nightly of default met the deadline" in capsys.readouterr().out


# Cancelled.


def test_pipelines_are_cancelled(plane: RunningPlane, capsys: Captured) -> None:
    """With all stages, at once or waited for, beside workloads; a pipeline that has ended is told with its outcome."""
    done = submit(capsys, QUICK, "-w")
    other = plane.submit(work("other", milliseconds=ENDLESS))
    with a_long_one(plane, capsys) as first, a_long_one(plane, capsys) as second:
        capsys.readouterr()
        assert 1 == main(["cancel", "-w", first, other, "p-9999", done])
        out, err = capsys.readouterr()
        assert [f"{first} cancelled", f"{other} cancelled", f"{done} has ended: met"] == out.splitlines()
        assert f"mizzen: p-9999: {SENTENCES[Reason.UNKNOWN_PIPELINE]}\n" == err
        assert ["1/3", "cancelled"] == row_of(capsys, first)[3::4]
        assert ask(capsys, f"cancel {second}") in {
            f"{second} is being stopped: b runs\n", f"{second} cancelled\n"
        }  # fmt: skip
        assert Outcome.CANCELLED is until_ended(plane, second)
        (told,) = ask_json(capsys, f"cancel {second}")
        assert (second, "cancelled", "cancelled", "") == (
            told["workload"], told["text"], told["phase"], told["error"]
        )  # fmt: skip
        assert f"{second} weekly of default was cancelled; the deadline" in ask(capsys, f"pipeline {second}")


def test_stage_is_cancelled_alone(plane: RunningPlane, capsys: Captured) -> None:
    """With those that wait for it; the pipeline was cancelled then, though a stage completed."""
    with a_long_one(plane, capsys) as pipeline:
        a, b, c = workloads(plane, pipeline)
        ask(capsys, f"cancel -w {b}")
        assert Outcome.CANCELLED is until_ended(plane, pipeline)
        assert ["COMPLETED", "CANCELLED", "CANCELLED"] == [
            ask_json(capsys, f"show {workload}")["phase"] for workload in (a, b, c)
        ]


def test_other_commands_take_no_pipeline(plane: RunningPlane, capsys: Captured) -> None:
    """They are about workloads, and name the one that is about pipelines."""
    for words in ("hold p-1", "requeue p-1", "show p-1", "priority 3 p-1"):
        assert "p-1 is a pipeline; `mizzen pipeline p-1`" in refused(capsys, words, 2)


# Stages among workloads.


def test_stage_in_queue_show_and_explain(plane: RunningPlane, capsys: Captured) -> None:
    """What it waits for, of which pipeline it is a stage, where that is held, and by when it must start."""
    with a_long_one(plane, capsys, LONG.replace("expected: 2h", "expected: 41m")) as pipeline:
        last = workloads(plane, pipeline)[2]
        (line,) = [line for line in ask(capsys, "queue").splitlines() if line.split()[0] == last]
        waits = "waits for b, which will take 40m more"
        assert line.endswith(f"(waits_for_stage) {waits}"), line
        place = rf"stage c of {pipeline} \(weekly\), held to r[01] with its other stages; it must start within 8h1\dm"
        shown = ask(capsys, f"show {last}")
        assert re.search(rf"^  pipeline      {place}$", shown, flags=re.MULTILINE), shown
        assert waits.removeprefix("waits ") in shown
        told = ask(capsys, f"explain {last}")
        assert f"{last} is PENDING (waits_for_stage): {SENTENCES[Reason.WAITS_FOR_STAGE]}\n" in told
        assert re.search(rf"^  it is {place}$", told, flags=re.MULTILINE), told
        assert f"\n  it {waits}\n" in told
        stage = ask_json(capsys, f"show {last}")["stage"]
        assert (pipeline, "c", ["b"]) == (
            stage["pipeline"], stage["stage"], [one["stage"] for one in stage["waits_for"]]
        )  # fmt: skip


def test_stage_that_waits_for_its_window(plane: RunningPlane, capsys: Captured) -> None:
    """How long until it opens; a plain job with a window is the one stage of a pipeline."""
    opens = datetime.now(UTC) + timedelta(hours=3)
    pipeline = submit(capsys, f"{TOP}within: 2d\nbegins: daily {opens:%H:%M}\n")
    (workload,) = workloads(plane, pipeline)
    (line,) = [line for line in ask(capsys, "queue").splitlines() if line.split()[0] == workload]
    assert re.search(r"\(waits_for_window\) may begin in (2h5\dm|3h)$", line), line
    assert re.search(
        rf"  pipeline      the one stage of {pipeline}; it must start within 1d",
        ask(capsys, f"show {workload}"),
    )
    told = ask(capsys, f"pipeline {pipeline}")
    assert f"\nmain begins daily {opens:%H:%M} for 1h, UTC\n" in told
    assert "PENDING (waits_for_window)" in told
    assert f"{pipeline} cancelled\n" == ask(capsys, f"cancel {pipeline}")


# Before a submission.


def test_pipeline_is_tested(plane: RunningPlane, capsys: Captured) -> None:
    """Nothing is submitted: when it would end, or the earliest deadline, and the same as JSON."""
    before = ask_json(capsys, "pipeline")["pipelines"]
    Path("job.yaml").write_text(LONG)
    said = ask(capsys, "submit job.yaml --test-only").splitlines()
    assert said[0].startswith("it would be accepted; it is likely to end in 2h4")
    assert re.match(r"that is 6h1\dm before its deadline ", said[1])
    assert ["STAGE", "GPUS", "START-BY"] == said[3].split()[:3]
    Path("job.yaml").write_text(LONG.replace("9h", "1h"))
    said = ask(capsys, "submit job.yaml --test-only", 1).splitlines()
    assert re.fullmatch(
        r"its deadline \S+Z cannot be met: it would be late even if nothing else ran", said[0]
    )
    assert re.match(r"the earliest deadline that can be met is \S+Z, in 2h41m", said[2])
    assert re.match(r"or b would have to take 1h41m(\d+s)? less", said[3])
    told = ask_json(capsys, "submit job.yaml --test-only", 1)
    assert ("infeasible", "b", ["a", "b", "c"]) == (
        told["no_deadline"], told["shorten"], [stage["name"] for stage in told["stages"]]
    )  # fmt: skip
    assert [one["pipeline"] for one in before] == [
        one["pipeline"] for one in ask_json(capsys, "pipeline")["pipelines"]
    ]


# Tenants.


def make(capsys: Captured, *tenants: str) -> None:
    """Make these tenants, and the default one: once there is a tenant, work is submitted for one that there is."""
    for name in ("default", *tenants):
        ask(capsys, f"quota set {name} --level 3")


def test_tenant_sees_its_own_pipelines(let_in: As, plane: RunningPlane, capsys: Captured) -> None:
    """Without changes of start deadlines, which are in the log; of another tenant's nothing is told or done."""
    make(capsys, "ml")
    with a_long_one(plane, capsys, f"{LONG}tenant: ml\n") as pipeline:
        let_in("ml")
        assert "ml" == row_of(capsys, pipeline)[2]
        assert ["ml"] == sorted({one["tenant"] for one in ask_json(capsys, "pipeline")["pipelines"]})
        capsys.readouterr()
        assert 0 == main(["pipeline", pipeline])
        out, err = capsys.readouterr()
        assert out.startswith(f"{pipeline} weekly of ml has the deadline ")
        assert f"mizzen: note: {stages.UNTOLD}\n" == err
        told = ask_json(capsys, f"pipeline {pipeline}")
        assert ([], 3) == (told["changes"], len(told["stages"]))
        let_in("bio")
        not_theirs = SENTENCES[Reason.NOT_YOURS]
        assert not_theirs == refused(capsys, f"pipeline {pipeline}")
        assert f"{pipeline}: {not_theirs}" == refused(capsys, f"cancel {pipeline}")
        assert [] == ask_json(capsys, "pipeline")["pipelines"]
        let_in("ml")
        assert f"{pipeline} cancelled\n" == ask(capsys, f"cancel -w {pipeline}")


def test_budget_of_work_under_deadlines(let_in: As, plane: RunningPlane, capsys: Captured) -> None:
    """Set, shown alone and beside quotas, and counted; a pipeline beyond it is accepted without a deadline. Operators alone set it."""
    assert "nobody made research" in refused(capsys, "quota deadlines research --gpu-hours 5 --period 7d")
    assert "there is no tenant research" in refused(capsys, "quota deadlines research")
    make(capsys, "research")
    assert "research: as much work under deadlines as it likes\n" == ask(capsys, "quota deadlines research")
    spent = "research: 0h of 3 predicted GPU-hours under deadlines in 7d; the next period begins in 6d23h"
    assert f"{spent}\n" == ask(capsys, "quota deadlines research --gpu-hours 3 --period 7d")
    assert spent == ask(capsys, "quota show research").splitlines()[-1]
    assert {"gpu_hours": 3, "period": 604_800_000_000_000} == ask_json(capsys, "quota deadlines research")[
        "deadlines"
    ]
    text = f"{LONG}tenant: research\n"
    with a_long_one(plane, capsys, text):
        assert "research: 2.7h of 3 " in ask(capsys, "quota deadlines research")
        note = "was accepted without a deadline: the tenant's budget of work under deadlines is spent"
        Path("job.yaml").write_text(text)
        capsys.readouterr()
        assert 0 == main(["submit", "job.yaml"])
        out, err = capsys.readouterr()
        assert f"mizzen: note: {out.strip()} {note}" in err
        assert "although " in ask(capsys, f"pipeline {out.strip()}").splitlines()[1]
        ask(capsys, f"cancel -w {out.strip()}")
    let_in("research")
    assert "research: 2.7h of 3 " in ask(capsys, "quota deadlines research")
    assert "only the plane's operators" in refused(capsys, "quota deadlines research --gpu-hours none")
    let_in("")
    assert "as much work under deadlines as it likes" in ask(
        capsys, "quota deadlines research --gpu-hours none"
    )
    assert "as it likes" not in ask(capsys, "quota show research")


def test_invalid_budgets_and_rules(plane: RunningPlane, capsys: Captured) -> None:
    """All that is wrong is told at once, and nothing is asked for."""
    capsys.readouterr()
    assert 2 == main(["quota", "deadlines", "research", "--gpu-hours", "many", "--period", "soon"])
    said = capsys.readouterr().err.splitlines()
    assert ["--gpu-hours", "--period", "mizzen"] == [line.partition(":")[0] for line in said]
    assert "mizzen: 2 things are wrong; nothing was asked for" == said[-1]
    assert "--deadlines: bad is none of llf, edf, off" == refused(capsys, "quota ranking --deadlines bad", 2)


def test_rank_of_work_under_deadlines(plane: RunningPlane, capsys: Captured) -> None:
    """By start deadline unless set otherwise."""

    def rule(words: str = "") -> list[str]:
        said = ask(capsys, f"quota ranking {words}").splitlines()
        (line,) = [line for line in said if line.split()[0] == "deadlines"]
        return line.split()[1:3]

    assert ["llf", "off"] == rule()
    assert ["edf", "off"] == rule("--deadlines edf")
    assert "edf" == ask_json(capsys, "quota ranking")["settings"]["deadlines"]
    assert ["llf", "off"] == rule("--deadlines llf")

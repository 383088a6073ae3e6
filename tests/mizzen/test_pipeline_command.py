"""`mizzen pipeline`, and what other commands tell of pipelines: as text, and asked of a real queue."""

from typing import Any

import msgspec
import pytest

from core.estimating.durations import DurationBy
from core.events.pipelines import PipelineSubmitted, StagePriority, StagesReprioritised, SubmittedStage
from core.fact import Event, Fact
from core.messages.pipelines import Expected, ListedPipeline, PipelineShown, ShownStage
from core.messages.queue import ListedWorkload, StageTold, WaitedStage, WorkloadExplained
from core.nouns.ids import GLOBAL_LOG, PipelineId, RegionName, TenantName, WorkloadId
from core.nouns.instant import SECOND, Instant, Nanoseconds
from core.nouns.pipeline import Cause, DailyWindow, NoDeadline, Outcome
from core.nouns.reasons import SENTENCES, Reason
from core.nouns.tenant import Budget
from core.nouns.workload import Phase
from core.rules.ownership import sender_of
from mizzen.actions import submit as submission
from mizzen.actions.quotas import DeadlineWish, Wish, set_deadline_budget, set_quota, tenant_listed, wish_of
from mizzen.actions.workloads import Done, cancel, cancel_and_wait
from mizzen.connect.plane import RequestRefused
from mizzen.terminal.output import MISUSED
from mizzen.views.fleet.tenant_table import deadlines_of
from mizzen.views.phrases.pipeline_text import place_text, waiting_text
from mizzen.views.pipelines.stages import (
    Change,
    PipelineTold,
    changes_of,
    lines_of,
    pipeline_of,
    pipeline_told,
    stage_table,
)
from mizzen.views.pipelines.table import pipelines_listed, table_of
from mizzen.views.pipelines.tested import lines_of_test
from mizzen.views.pipelines.watching import told_as_lines
from mizzen.views.workloads.explain import waiting_lines
from mizzen.views.workloads.queue_lines import place_text as queued_text
from tests.builders import a_spec
from tests.mizzen.asking import Captured, refused
from tests.mizzen.half_plane import half_plane
from tests.mizzen.test_submit_pipelines import job_of
from tests.runtime.aids import START, Place, virtual

ML = TenantName("ml")
P7 = PipelineId("p-7")
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
NOON = Instant(START + 12 * HOUR)
"""When all is shown here that is shown without a plane."""
COLUMNS = ["STAGE", "WORKLOAD", "STATE", "GPUS", "START-BY", "LAXITY", "STARTS", "ENDS", "BAND", "AFTER"]


def at(minutes: float) -> Instant:
    """So many minutes after noon."""
    return Instant(NOON + round(minutes * MINUTE))


def expected(likely: float, soon: float | None = None, late: float | None = None) -> Expected:
    """In minutes after noon; without a band it is known."""
    return Expected(at(likely if soon is None else soon), at(likely), at(likely if late is None else late))


def a_stage(
    name: str,
    *after: str,
    starts: float = 0,
    ends: float | Expected = 0,
    start_by: float | None = None,
    **more: Any,
) -> ShownStage:  # Any: other fields
    """A stage with one GPU that is pending unless told otherwise; times are minutes after noon."""
    found: dict[str, Any] = {
        "workload": f"w-{name}",
        "phase": Phase.PENDING,
        "gpu_milli": 1_000,
        **more,
    }  # Any: as above
    ends = ends if isinstance(ends, Expected) else expected(ends)
    by = Instant(0) if start_by is None else at(start_by)
    return ShownStage(
        name=name,
        cost=Nanoseconds(0),
        by=DurationBy.EXPECTED,
        starts=expected(starts),
        ends=ends,
        after=after,
        start_by=by,
        **found,
    )


def shown(*stages: ShownStage, due: float | None = 120, **more: Any) -> PipelineShown:  # Any: other fields
    """Pipeline p-7 of ml, with a deadline so many minutes after noon."""
    due_at = Instant(0) if due is None else at(due)
    return PipelineShown(P7, "nightly", ML, stages, NOON, at(-60), due_at, **more)


def lines(told: PipelineShown, *changes: Change) -> list[str]:
    """As shown, with one blank between words."""
    return [" ".join(line.split()) for line in lines_of(PipelineTold(told, changes))]


# One pipeline.


def test_pipeline_before_it_starts() -> None:
    """The deadline and the forecast with its band; a row for each stage, with a mark on those by which the end is determined."""
    told = shown(
        a_stage("prep", ends=expected(10, 8, 12), start_by=50, is_critical=True, reason="waiting_turn"),
        a_stage("count", ends=5, start_by=90, gpu_milli=0),
        a_stage("train", "prep", "count", starts=10, ends=expected(70, 60, 90), start_by=-60, is_critical=True),
        ends=expected(70, 60, 90),
    )  # fmt: skip
    assert [
        "p-7 nightly of ml has the deadline 14:00:00Z, in 2h, and is likely to end at 13:10:00Z (between 13:00:00Z and 13:30:00Z)",
        "",
        " ".join(COLUMNS),
        "prep* w-prep PENDING (waiting_turn) 1 12:50:00Z 50m 12:00:00Z 12:10:00Z 12:08:00Z-12:12:00Z -",
        "count w-count PENDING - 13:30:00Z 1h30m 12:00:00Z 12:05:00Z - -",
        "train* w-train PENDING 1 11:00:00Z -1h 12:10:00Z 13:10:00Z 13:00:00Z-13:30:00Z prep, count",
        "* a stage by which the end is determined",
    ] == lines(told)


def test_pipeline_that_goes_on() -> None:
    """Past times of what has ended, no laxity of what has started, and the region to which its stages are held."""
    told = shown(
        a_stage("a", phase=Phase.COMPLETED, starts=-50, ends=-20, start_by=-10, ended_at=at(-20), is_critical=True, is_late=True),
        a_stage("b", "a", phase=Phase.RUNNING, starts=-20, ends=expected(10, 5, 20), start_by=20, is_critical=True, is_late=True),
        a_stage("c", "b", phase=Phase.AWARDED, starts=10, ends=20, start_by=30, is_critical=True, is_late=True),
        ends=expected(20),
        due=-1,
        region=RegionName("eu"),
    )  # fmt: skip
    assert [
        "p-7 nightly of ml has the deadline 11:59:00Z, which has passed, and is likely to end at 12:20:00Z",
        "its stages run in eu, where the first was placed",
        "",
        " ".join(COLUMNS),
        "a w-a COMPLETED 1 11:50:00Z - 11:10:00Z 11:40:00Z - -",
        "b* w-b RUNNING 1 12:20:00Z - 11:40:00Z 12:10:00Z 12:05:00Z-12:20:00Z a",
        "c* w-c AWARDED 1 12:30:00Z 30m 12:10:00Z 12:20:00Z - b",
        "* a stage by which the end is determined",
        "c can no longer be in time",
    ] == lines(told)


@pytest.mark.parametrize(
    ("outcome", "due", "late_by", "told"),
    [
        (Outcome.MET, 30, 0, "met the deadline 12:30:00Z, 45m before it"),
        (Outcome.MET, None, 0, "completed"),
        (Outcome.LATE, -30, 15 * MINUTE, "ended 15m after the deadline 11:30:00Z"),
        (Outcome.FAILED, 30, 0, "has failed; the deadline 12:30:00Z"),
        (Outcome.CANCELLED, None, 0, "was cancelled; no deadline"),
    ],
)
def test_pipeline_that_has_ended(outcome: Outcome, due: float | None, late_by: int, told: str) -> None:
    """The outcome first; nothing is said of what determines the end, of windows, or of stages that might be late."""
    one = a_stage(
        "a", phase=Phase.COMPLETED, starts=-60, ends=-15, ended_at=at(-15), is_critical=True, is_late=True,
        begins=DailyWindow(Nanoseconds(0), Nanoseconds(HOUR)),
    )  # fmt: skip
    found = shown(
        one, due=due, outcome=outcome, late_by=Nanoseconds(late_by), ended_at=at(-15), region=RegionName("eu")
    )
    assert [
        f"p-7 nightly of ml {told}",
        "its stages ran in eu, where the first was placed",
        "",
        " ".join(COLUMNS),
        "a w-a COMPLETED 1 - - 11:00:00Z 11:45:00Z - -",
    ] == lines(found)


def test_pipeline_with_a_stage_that_failed() -> None:
    """No end is to be expected; a stage that was cancelled before it ran has no start, and one that is forgotten no GPUs."""
    told = shown(
        a_stage("a", phase=Phase.FAILED, starts=-50, ends=-20, ended_at=at(-20), gpu_milli=0),
        a_stage("b", "a", phase=Phase.CANCELLED, starts=-20, ends=-20, ended_at=at(-20)),
        a_stage("c", phase=Phase.RUNNING, starts=-20, ends=20),
        due=None,
    )  # fmt: skip
    assert [
        "p-7 nightly of ml has a stage that ended without completion; no deadline",
        "",
        " ".join(COLUMNS),
        "a w-a FAILED - - - 11:10:00Z 11:40:00Z - -",
        "b w-b CANCELLED 1 - - - 11:40:00Z - a",
        "c w-c RUNNING 1 - - 11:40:00Z 12:20:00Z - -",
    ] == lines(told)


@pytest.mark.parametrize(
    ("why", "told"),
    [
        (NoDeadline.INFEASIBLE, "it would be late even if nothing else ran"),
        (NoDeadline.OVER_BUDGET, "its tenant's budget of work under deadlines is spent"),
    ],
)
def test_pipeline_without_the_deadline_that_was_asked_for(why: NoDeadline, told: str) -> None:
    """The asked one is told with the reason."""
    found = shown(a_stage("a"), due=None, asked_due_at=at(5), no_deadline=why, ends=expected(20))
    assert [
        "p-7 nightly of ml has no deadline, and is likely to end at 12:20:00Z",
        f"it has no deadline, although 12:05:00Z was asked for: {told}",
    ] == lines(found)[:2]


def test_windows_and_late_stages() -> None:
    """Both only of stages that are yet to start; a window is told as a job file has it, to the second."""
    window = DailyWindow(
        Nanoseconds(2 * HOUR + 5 * MINUTE), Nanoseconds(2 * HOUR + 30 * MINUTE + 10 * SECOND)
    )
    told = shown(
        a_stage("a", phase=Phase.RUNNING, begins=window, is_late=True),
        a_stage("b", begins=window, reason="waits_for_window"),
        a_stage("c", is_late=True, start_by=-5),
        ends=expected(20),
    )
    assert ["b begins daily 02:05 for 2h30m10s, UTC", "c can no longer be in time"] == lines(told)[6:]


def test_band_of_less_than_a_second_is_none() -> None:
    """Two equal times tell nothing."""
    instants = Expected(at(5), Instant(at(5) + 1), Instant(at(5) + 2))
    told = shown(a_stage("a", ends=instants), ends=instants)
    assert "is likely to end at 12:05:00Z" == lines(told)[0].partition(" and ")[2]
    assert "a w-a PENDING 1 - - 12:00:00Z 12:05:00Z - -" == lines(told)[3]


def test_table_of_stages_that_are_not_submitted() -> None:
    """They have neither workloads nor states, which are left out; so are no dates within half a day."""
    head, line = stage_table([a_stage("a", workload="", starts=60, ends=24 * 60)], NOON)
    assert [name for name in COLUMNS if name not in ("WORKLOAD", "STATE")] == head.split()
    assert ["a", "1", "-", "-", "13:00:00Z", "2026-01-02T12:00:00Z", "-", "-"] == line.split()


# Changes of start deadlines.


def submitted_fact(*names: str) -> Event:
    """The fact that p-7 was accepted with these stages, w-1 and following."""
    stages = tuple(
        SubmittedStage(name, WorkloadId(f"w-{place}"), start_by=at(50)) for place, name in enumerate(names, 1)
    )
    return PipelineSubmitted(P7, 7, "nightly", ML, stages, "ada", due_at=at(120), asked_due_at=at(120))


def moved_fact(
    stage: int, old: float, new: float, cause: Cause = Cause.TIME, by: str = "", *, is_late: bool = False
) -> Event:
    """The fact that a stage must start at another time, in minutes after noon."""
    return StagesReprioritised(P7, (StagePriority(stage, at(old), at(new), is_late),), cause, WorkloadId(by))


def changes(*events: Event) -> tuple[Change, ...]:
    """Those that facts of five past twelve tell."""
    facts = [Fact(GLOBAL_LOG, number, at(5), "m-1", "queue", event) for number, event in enumerate(events, 1)]
    return changes_of(facts)


@pytest.mark.parametrize(
    ("cause", "by", "told"),
    [
        (Cause.BOUND, "w-1", "prep runs"),
        (Cause.ENDED, "w-1", "prep completed"),
        (Cause.FAILED, "w-1", "an attempt of prep ended without completion"),
        (Cause.MOVED, "w-1", "prep moves to another region"),
        (Cause.CHANGED, "w-2", "its user changed train"),
        (Cause.TIME, "", "run times and waits of other work, or the passing of time"),
    ],
)
def test_change_is_told_with_its_cause(cause: Cause, by: str, told: str) -> None:
    """The stage that caused it is told by its name in the pipeline."""
    found = changes(submitted_fact("prep", "train"), moved_fact(1, 50, 70, cause, by))
    assert (Change(at(5), "train", at(50), at(70), is_late=False, cause=told),) == found
    assert [
        "",
        "start deadlines moved:",
        f"2026-01-01T12:05:00.000Z train: 13:10:00Z, 20m later; {told}",
    ] == lines(shown(a_stage("prep"), ends=expected(20)), *found)[-3:]


def test_changes_are_told_in_order_with_direction_and_lateness() -> None:
    """Earlier or later and by how much; what became late, and what can be in time again though its start deadline is the same."""
    events = (
        submitted_fact("prep", "train"),
        moved_fact(0, 50, 49),
        moved_fact(0, 49, 49, is_late=True),
        moved_fact(1, 50, 20, is_late=True),
        moved_fact(0, 49, 49),
    )
    assert [
        "12:49:00Z, 1m earlier",
        "still 12:49:00Z, and it can no longer be in time",
        "12:20:00Z, 30m earlier, and it can no longer be in time",
        "still 12:49:00Z, and it can be in time again",
    ] == [
        line.partition(": ")[2].partition(";")[0]
        for line in lines(shown(a_stage("prep"), ends=expected(9)), *changes(*events))[-4:]
    ]


# Lists.


def listed(number: int, **more: Any) -> ListedPipeline:  # Any: other fields
    """One of two stages, none of which runs, that is likely to end in ten minutes."""
    found = {"stages": 2, "completed": 0, "running": (), "ends_at": at(10), **more}
    return ListedPipeline(PipelineId(f"p-{number}"), "nightly", ML, **found)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, "0/2 - - 12:10Z waits"),
        ({"running": ("a",)}, "0/2 - - 12:10Z a runs"),
        ({"running": ("a", "b")}, "0/2 - - 12:10Z a, b run"),
        ({"due_at": at(60), "laxity": 50 * MINUTE}, "0/2 13:00Z 50m 12:10Z waits"),
        (
            {"due_at": at(5), "laxity": -5 * MINUTE, "is_late": True, "running": ("a",), "completed": 1},
            "1/2 12:05Z -5m 12:10Z late, a runs",
        ),
        ({"ends_at": Instant(0), "running": ("b",), "is_late": True}, "0/2 - - - b runs, cannot complete"),
        ({"outcome": Outcome.MET, "completed": 2, "due_at": at(60)}, "2/2 13:00Z - 12:10Z met"),
        ({"outcome": Outcome.MET, "completed": 2}, "2/2 - - 12:10Z completed"),
        (
            {"outcome": Outcome.LATE, "completed": 2, "due_at": at(5), "late_by": 5 * MINUTE},
            "2/2 12:05Z - 12:10Z late by 5m",
        ),
        ({"outcome": Outcome.FAILED, "completed": 1}, "1/2 - - 12:10Z failed"),
        ({"outcome": Outcome.CANCELLED}, "0/2 - - 12:10Z cancelled"),
    ],
)  # fmt: skip
def test_pipeline_in_a_list(more: dict[str, Any], told: str) -> None:  # Any: as above
    """How many stages have completed, the time left, and the state in a word or two."""
    head, line = table_of([listed(7, **more)], NOON)
    assert ["ID", "NAME", "TENANT", "STAGES", "DEADLINE", "LAXITY", "ENDS", "STATE"] == head.split()
    assert f"p-7 nightly ml {told}" == " ".join(line.split())


@virtual
async def test_list_in_pages(place: Place) -> None:
    """A list that is longer than an answer is whole all the same, the least laxity first."""
    half = await half_plane(place)
    text = "name: p\nemulate: {work: 1m}\nresources: {gpus: H100:1}\nstages: [{name: a}, {name: b}]\n"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("components.job_queue.pipelines.queries.PIPELINES_LISTED_MAX", 2)
        for within in ("", "within: 9h\n", "within: 7h\n", "", "within: 8h\n"):
            await submission.pipeline_submitted(half.bus, job_of(f"{text}{within}"), f"{place.loop.now_ns()}")
            await place.moment()
        rows, now = await pipelines_listed(half.bus)
    assert ["p-3", "p-5", "p-2", "p-1", "p-4"] == [row.pipeline for row in rows]
    assert (True, True) == (START < now, all(row.stages == 2 for row in rows))


# Before a submission.


def wish_of_level() -> Wish:
    """A tenant is to be made."""
    return wish_of((), borrow="", lend="", level="4", run_min="", budget="", is_forced=False)


TESTED = """\
name: p
within: 3h
emulate: {work: 1m}
resources: {gpus: H100:1}
stages:
  prep: {expected: 10m}
  train: {after: [prep], expected: 2h30s}
"""


async def lines_tested(bus: Any, text: str) -> list[str]:  # Any: a bus
    """What `--test-only` tells of a job file."""
    tested = await submission.pipeline_tested(bus, job_of(text))
    return [" ".join(line.split()) for line in lines_of_test(tested)]


@virtual
async def test_feasible_pipeline_is_tested(place: Place) -> None:
    """When it would end, how long that is before its deadline, and by when each stage would have to start."""
    half = await half_plane(place)
    assert [
        "it would be accepted; it is likely to end in 2h10m, at 02:10:31Z",
        "that is 49m before its deadline 03:00:01Z",
        "",
        "STAGE GPUS START-BY LAXITY STARTS ENDS BAND AFTER",
        "prep* 1 00:49:31Z 49m 00:00:01Z 00:10:01Z - -",
        "train* 1 00:59:31Z 59m 00:10:01Z 02:10:31Z - prep",
    ] == await lines_tested(half.bus, TESTED)
    free = await lines_tested(half.bus, TESTED.replace("within: 3h\n", ""))
    assert ["it would be accepted; it is likely to end in 2h10m, at 02:10:31Z", ""] == free[:2]
    assert "prep* 1 - - 00:00:01Z 00:10:01Z - -" == free[3]


@virtual
async def test_infeasible_pipeline_is_tested(place: Place) -> None:
    """The earliest deadline and what one stage would have to save: both as they can be typed, so that the next submission is accepted."""
    half = await half_plane(place)
    found = await lines_tested(half.bus, TESTED.replace("3h", "1h"))
    assert [
        "its deadline 01:00:01Z cannot be met: it would be late even if nothing else ran",
        "it is likely to end in 2h10m, at 02:10:31Z",
        "the earliest deadline that can be met is 02:10:32Z, in 2h10m30s",
        "or train would have to take 1h10m30s less",
        "with `on_late: accept` it is taken without a deadline",
        "",
    ] == found[:6]
    for mended in (TESTED.replace("3h", "2h10m30s"), TESTED.replace("3h", "1h").replace("2h30s", "50m")):
        assert (await lines_tested(half.bus, mended))[0].startswith("it would be accepted; ")
    found = await lines_tested(half.bus, TESTED.replace("3h", "5m"))
    assert "to shorten one stage is not enough; train takes longest" == found[3]


@virtual
async def test_pipeline_over_budget_is_tested(place: Place) -> None:
    """It would be accepted without a deadline; the budget is counted in predicted GPU-hours, from the submission on."""
    half = await half_plane(place)
    await set_quota(half.bus, ML, wish_of_level())
    await set_deadline_budget(half.bus, ML, DeadlineWish(Budget(3, Nanoseconds(24 * HOUR))))
    text = f"tenant: ml\n{TESTED}"
    assert "it would be accepted" == (await lines_tested(half.bus, text))[0].partition(";")[0]
    accepted = await submission.pipeline_submitted(half.bus, job_of(text), "a")
    assert NoDeadline.NONE is accepted.no_deadline
    await place.moment()
    (told,) = deadlines_of([await tenant_listed(half.bus, ML)])
    assert "ml: 2.2h of 3 predicted GPU-hours under deadlines in 1d; the next period begins in 23h59m" == told
    found = await lines_tested(half.bus, text)
    why = "its tenant's budget of work under deadlines is spent"
    assert ["it would be accepted", f"it would have no deadline: {why}", ""] == [
        found[0].partition(";")[0],
        *found[1:3],
    ]
    assert "prep* 1 - - " == found[4][:12]
    accepted = await submission.pipeline_submitted(half.bus, job_of(text), "b")
    assert (0, NoDeadline.OVER_BUDGET) == (accepted.due_at, accepted.no_deadline)
    shown_now = (await pipeline_told(half.bus, accepted.pipeline)).shown
    assert (
        f"  it has no deadline, although {'03:00:01Z'} was asked for: {why}"
        == lines_of(PipelineTold(shown_now))[1]
    )


# Ids, and what a tenant may see.


def test_pipeline_is_named_with_or_without_its_letter() -> None:
    """As workloads are."""
    assert [P7, P7] == [pipeline_of("p-7"), pipeline_of("7")]


@pytest.mark.parametrize("text", ["p-", "p-x", "w-7", "nightly", "p-7-", "P-7", "p-\u0663"])
def test_malformed_id_is_told_without_a_plane(text: str, capsys: Captured) -> None:
    """By every command that takes one."""
    told = f"{text} is no pipeline; an id is one like p-7, and `mizzen pipeline` lists them"
    assert told == refused(capsys, f"pipeline {text}", MISUSED)
    assert told == refused(capsys, f"pipeline -w {text}", MISUSED)
    if text.startswith("p-"):
        assert told == refused(capsys, f"cancel w-1 {text}", MISUSED)


@virtual
async def test_pipeline_is_told_with_its_changes(place: Place) -> None:
    """From the queue's log, for operators; a tenant is told the same without them, and nothing of another tenant's."""
    half = await half_plane(place)
    job = job_of(f"tenant: ml\n{TESTED}")
    accepted = await submission.pipeline_submitted(half.bus, job, "a")
    await set_quota(half.bus, ML, wish_of_level())  # Anything else in the log is about others.
    told = await pipeline_told(half.bus, accepted.pipeline)
    assert ("p", ML, (), ("prep", "train")) == (
        told.shown.name, told.shown.tenant, told.changes, tuple(one.name for one in told.shown.stages)
    )  # fmt: skip
    mine = place.network.endpoint(sender_of("ml", "ada"), tenant="ml")
    assert (
        told.shown.stages[0].start_by
        == (await pipeline_told(mine, accepted.pipeline)).shown.stages[0].start_by
    )
    assert ["p-1"] == [row.pipeline for row in (await pipelines_listed(mine))[0]]
    theirs = place.network.endpoint(sender_of("bio", "eve"), tenant="bio")
    assert [] == (await pipelines_listed(theirs))[0]
    for act in (pipeline_told, cancel, cancel_and_wait):
        with pytest.raises(RequestRefused) as caught:
            await act(theirs, accepted.pipeline)  # type: ignore[arg-type]  # an id, too
        assert Reason.NOT_YOURS == caught.value.reason
    with pytest.raises(RequestRefused, match="No pipeline of this id is known"):
        await pipeline_told(half.bus, PipelineId("p-9"))


@virtual
async def test_pipeline_that_waits_is_cancelled_at_once(place: Place) -> None:
    """With or without waiting for its end, which is the same then; and again."""
    half = await half_plane(place)
    for key, act in (("a", cancel), ("b", cancel_and_wait)):
        accepted = await submission.pipeline_submitted(half.bus, job_of(TESTED), key)
        for _ in range(2):
            done = await act(half.bus, WorkloadId(accepted.pipeline))
            assert Done(WorkloadId(accepted.pipeline), "cancelled", "cancelled") == done
        told = (await pipeline_told(half.bus, accepted.pipeline)).shown
        assert [Phase.CANCELLED] * 2 == [stage.phase for stage in told.stages]


@virtual
async def test_pipeline_that_becomes_late(place: Place) -> None:
    """A stage that is not started in time: told where the pipeline is listed, shown and watched, and as a change."""
    half = await half_plane(place)
    accepted = await submission.pipeline_submitted(half.bus, job_of(TESTED.replace("3h", "2h10m31s")), "a")
    assert "waits" == table_of(*await pipelines_listed(half.bus))[1].split()[-1]
    await place.sleep(30)
    told = await pipeline_told(half.bus, accepted.pipeline)
    assert [
        "prep can no longer be in time", "train can no longer be in time", "", "start deadlines moved:"
    ] == lines_of(told)[6:10]  # fmt: skip
    assert {("prep", True), ("train", True)} == {(one.stage, one.is_late) for one in told.changes}
    assert all(
        "still" in line and "; run times and waits of other work" in line for line in lines_of(told)[10:]
    )
    assert ["late,", "waits"] == table_of(*await pipelines_listed(half.bus))[1].split()[-2:]
    said = told_as_lines(half.bus, accepted.pipeline, is_json=False)
    assert ["prep PENDING (late)", "train PENDING (late)"] == [
        (await anext(said)).split(maxsplit=1)[1] for _ in range(2)
    ]


# Stages in the queue.


def a_told(*waits_for: tuple[str, float], **more: Any) -> StageTold:  # Any: other fields
    """Stage train of p-7; it waits for stages with so many minutes left, of which a negative number says nothing."""
    stages = tuple(
        WaitedStage(name, WorkloadId(f"w-{name}"), Nanoseconds(round(left * MINUTE)))
        for name, left in waits_for
    )
    return StageTold(P7, "nightly", **{"stage": "train", "waits_for": stages, **more})


@pytest.mark.parametrize(
    ("stage", "told"),
    [
        (a_told(("prep", 40)), "waits for prep, which will take 40m more"),
        (a_told(("prep", -1)), "waits for prep"),
        (a_told(("prep", -1), ("count", -1)), "waits for prep, count"),
        (a_told(("prep", 5), ("count", 90), ("clean", -1)), "waits for count, which will take 1h30m more, and for prep, clean"),
        (a_told(begins_in=Nanoseconds(75 * MINUTE)), "may begin in 1h15m"),
        (a_told(begins_in=Nanoseconds(0)), ""),
        (a_told(), ""),
    ],
)  # fmt: skip
def test_what_a_stage_waits_for(stage: StageTold, told: str) -> None:
    """The stage that takes longest first; a window only once no stage is in the way."""
    assert told == waiting_text(stage)


@pytest.mark.parametrize(
    ("stage", "told"),
    [
        (a_told(), "stage train of p-7 (nightly)"),
        (a_told(start_in=Nanoseconds(23 * MINUTE)), "stage train of p-7 (nightly); it must start within 23m"),
        (
            a_told(region=RegionName("eu"), start_in=Nanoseconds(-5 * MINUTE)),
            "stage train of p-7 (nightly), held to eu with its other stages; it should have started 5m ago to be sure of its deadline",
        ),
        (
            a_told(start_in=Nanoseconds(-5 * MINUTE), is_late=True),
            "stage train of p-7 (nightly); it can no longer meet its deadline, and counts as work without one",
        ),
        (a_told(stage="", start_in=Nanoseconds(0)), "the one stage of p-7; it must start within 0s"),
    ],
)
def test_place_of_a_stage(stage: StageTold, told: str) -> None:
    """Its pipeline, the region of the others, and by when it must start."""
    assert told == place_text(stage)


def test_stage_in_the_queue() -> None:
    """The reason is followed by what is waited for; any other reason by what that means."""
    row = ListedWorkload(
        WorkloadId("w-2"), "nightly.train", "ml", 3, "training", Phase.PENDING, 0, 8_000, 1, Nanoseconds(0), Nanoseconds(0),
        reason=Reason.WAITS_FOR_STAGE, stage=a_told(("prep", 40)),
    )  # fmt: skip
    assert "(waits_for_stage) waits for prep, which will take 40m more" == queued_text(row)
    other = msgspec.structs.replace(row, reason=Reason.NO_CAPACITY)
    assert f"(no_capacity) {SENTENCES[Reason.NO_CAPACITY]}" == queued_text(other)


def test_stage_that_waits_is_explained() -> None:
    """First of which pipeline it is a stage, then what it waits for."""
    waiting = WorkloadExplained(
        WorkloadId("w-2"), "nightly.train", Phase.PENDING, Reason.WAITS_FOR_STAGE, "", 0, "", False, 0, False, "",
        stage=a_told(("prep", 40), start_in=Nanoseconds(HOUR)),
    )  # fmt: skip
    assert [
        "  it is stage train of p-7 (nightly); it must start within 1h",
        "  it waits for prep, which will take 40m more",
    ] == waiting_lines(waiting, a_spec())[:2]

"""Pipelines as a load: runs of templates are well formed, recur under the names of their families, and are what their file says."""

# rows: C-11, C-12, C-13

import gzip
import random
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
import structlog
from msgspec.structs import replace

from core.estimating.family import family_of
from core.messages.base import Refused
from core.nouns.ids import RegionName
from core.nouns.instant import SECOND, Instant
from core.nouns.pipeline import PipelineSpec
from core.nouns.reasons import Reason
from core.nouns.workload import WorkloadSpec
from core.rules.pipelines.deadlines import earliest_end
from core.rules.pipelines.submission import problems_of_pipeline
from runtime.virtual_loop import VirtualLoop
from scenarios.play.run import Run
from scenarios.play.simulated import simulated_run
from scenarios.scenario import parse_scenario
from scenarios.schema.fleet import FleetSpec
from scenarios.swarm.draw import draw_scenario
from scenarios.swarm.pool import play_seed
from scenarios.variant import Binder
from scenarios.workload import Arrival
from scenarios.workloads.pipelines import Pipelines, a_run, letters_of, templates_of
from scenarios.worlds.simulated.world import START
from tests.scenarios.loads import FLEET, drawn
from tests.scenarios.runs import run_quietly

HOUR = 3600 * SECOND
LOAD = Pipelines(pipelines=200, hours=12)
TRACE = """submit_time,duration_s,num_gpus,vc
2017-10-03 00:00:00,600,1,abc
2017-10-03 00:00:00,5400,4,abc
2017-10-03 00:01:40,72000,8,def
2017-10-03 00:03:20,30,2,abc
2017-10-03 00:03:20,900,64,abc
"""
PLAYED = """\
name: a_few
survives: A few pipelines, one of which asks for too much. Users cancel, hold and requeue.
fleet: {regions: 2, nodes: 2, workers: 1}
workload:
  - pipelines:
      {pipelines: 14, hours: 1, compression: 20, templates: 2, earlier_runs: 4, earlier_hours: 2, slack_min: 1, slack_max: 1,
       long_share: 0.5, cancels_share: 0.3, holds_share: 0.3, requeues_share: 0.3, change_minutes: 20, minutes_median: 5}
calm: {minutes: 90}
expectations: [pipelines_refused >= 1, pipelines_cancelled >= 1, pipelines_met >= 1]
"""
REFUSED_SEED = 3
GIVEN_UP = """\
name: given_up
survives: A region is given up, and the other one cannot hold all stages. It comes back, and all end.
fleet: {regions: {r0: {nodes: 1, gpu_type: H100, workers: 1}, r1: {nodes: 3, gpu_type: H100, gpus_per_node: 4, workers: 1}}}
workload:
  - pipelines: {pipelines: 12, hours: 2, compression: 10, templates: 4, bursts: 1, minutes_median: 5, slack_min: 10, slack_max: 20}
faults:
  - region_abandoned: {region: r0, times: 2, after_seconds: [30, 400], for_seconds: [60, 200]}
calm: {minutes: 60}
"""


def pipelines_of(load: Pipelines, seed: int = 1, fleet: FleetSpec = FLEET) -> list[PipelineSpec]:
    """All that a load submits, by arrival."""
    return [pipeline_of(arrival) for arrival in drawn(load, fleet, seed)]


def pipeline_of(arrival: Arrival) -> PipelineSpec:
    """What is submitted."""
    assert arrival.pipeline is not None
    return arrival.pipeline


def workloads_of(specs: list[PipelineSpec]) -> list[WorkloadSpec]:
    """Of all stages."""
    return [stage.workload for spec in specs for stage in spec.stages]


def work_of(spec: WorkloadSpec) -> int:
    """How long a stage runs."""
    (job,) = spec.jobs
    assert job.emulation is not None
    return job.emulation.work


def template_name(spec: PipelineSpec) -> str:
    """Of which it is a run."""
    return spec.name.partition("-")[0]


# What runs are.


@pytest.mark.parametrize(
    "load",
    [
        LOAD,
        replace(LOAD, told=True, together=False, compression=30),
        replace(LOAD, window_share=1.0, compression=7),
        replace(LOAD, stages_min=1, stages_max=8, earlier_runs=2, data=("clicks",), window_share=0.5),
        replace(LOAD, tenants={"ours": 1.0, "theirs": 2.0}, fails_share=0.5, cancels_share=0.5),
    ],
)
def test_runs_are_well_formed(load: Pipelines) -> None:
    """The queue would accept each, whenever in the day it comes; its arrival names its first stage's workload."""
    assert load.problem(FLEET, ()) is None
    arrivals = drawn(load)
    assert load.pipelines + load.templates * load.earlier_runs == len(arrivals)
    assert sorted(arrival.at for arrival in arrivals) == [arrival.at for arrival in arrivals]
    for arrival in arrivals:
        spec = pipeline_of(arrival)
        assert () == problems_of_pipeline(spec, Instant(START + arrival.at))
        assert arrival.spec == spec.stages[0].workload
        assert load.stages_min <= len(spec.stages) == arrival.workloads <= load.stages_max
        assert 0 <= arrival.stage < len(spec.stages)
        assert arrival.at <= load.span * SECOND
        assert max(map(work_of, workloads_of([spec]))) <= load.lasts * SECOND


def test_load_is_drawn_from_its_dice_alone() -> None:
    """The same again from the same dice, and another from others."""
    assert drawn(LOAD) == drawn(LOAD)
    assert drawn(LOAD) != drawn(LOAD, seed=2)


def test_stages_of_a_template_are_of_one_family_each() -> None:
    """Over all its runs, and of one tenant; no two templates share one."""
    specs = pipelines_of(LOAD)
    families: dict[str, set[str]] = {}
    for spec in specs:
        mine = {family_of(stage.workload.name) for stage in spec.stages}
        assert len(spec.stages) == len(mine)
        assert mine == families.setdefault(template_name(spec), mine)
    assert LOAD.templates == len(families)
    assert len(set(chain(*families.values()))) == sum(map(len, families.values()))
    tenants = {(template_name(spec), spec.tenant) for spec in specs}
    assert LOAD.templates == len(tenants)
    assert len(specs) == len({spec.name for spec in specs})


def test_templates_are_chains_and_diamonds() -> None:
    """Of a diamond two stages run beside each other, and the last waits for both."""
    shapes = Counter(tuple(stage.after for stage in spec.stages) for spec in pipelines_of(LOAD))
    assert (("prep",), ("prep",), ("train", "evaluate")) in {shape[-3:] for shape in shapes}
    assert ((), ("prep",), ("train",)) in shapes
    assert {3, 4, 5} == set(map(len, shapes))


def test_letters_count_up() -> None:
    """Each number has its own, without a digit."""
    assert ["a", "z", "aa", "az", "ba"] == [letters_of(number) for number in (0, 25, 26, 51, 52)]
    assert 1000 == len({letters_of(number) for number in range(1000)})


# Deadlines, sizes and words.


def test_deadline_is_so_many_critical_paths() -> None:
    """Of the template's typical run times, not of those of the run; some runs have none."""
    load = replace(LOAD, slack_min=2.0, slack_max=4.0, no_deadline_share=0.25)
    dice = random.Random(4)
    slacks = []
    for template in templates_of(dice, load, FLEET):
        typical = [round(60 * SECOND * stage.minutes) for stage in template.stages]
        path = earliest_end(template.steps(), typical, Instant(0))  # type: ignore[arg-type]
        for number in range(30):
            spec, spans = a_run(template, dice, load, number)
            assert {stage.name: work_of(stage.workload) for stage in spec.stages} == spans
            slacks.append(spec.within / path)
    with_deadline = [slack for slack in slacks if slack]
    assert 0.75 == pytest.approx(len(with_deadline) / len(slacks), abs=0.06)
    assert 2.0 <= min(with_deadline) < 2.2
    assert 3.8 < max(with_deadline) <= 4.0


def test_larger_inputs_take_longer() -> None:
    """All stages of a run by the same factor, of which its user tells."""
    load = replace(LOAD, sigma=0.0, long_share=0.3, long_factor=3.0)
    runs: dict[str, set[tuple[int, int]]] = {}
    count = 0
    for spec in pipelines_of(load):
        sizes = {stage.workload.input_size for stage in spec.stages}
        assert 1 == len(sizes)
        for stage in spec.stages:
            key = f"{template_name(spec)} {stage.name}"
            runs.setdefault(key, set()).add((stage.workload.input_size, work_of(stage.workload)))
        usual = min(size for size, _ in runs[f"{template_name(spec)} {spec.stages[0].name}"])
        count += sizes != {usual}
    for found in runs.values():
        (size, work), (larger, longer) = sorted(found)
        assert 3.0 == pytest.approx(longer / work) == pytest.approx(larger / size)
    assert 0.3 == pytest.approx(count / load.pipelines, abs=0.1)


def test_loads_that_tell_otherwise_have_the_same_runs() -> None:
    """What users say, whether stages go together, and when they must be done changes neither the stages nor their run times."""
    works = [
        [(arrival.at, *map(work_of, workloads_of([pipeline_of(arrival)]))) for arrival in drawn(load)]
        for load in (
            LOAD,
            replace(LOAD, told=True, together=False),
            replace(LOAD, tells_size=False, no_deadline_share=1.0, window_share=0.5),
        )
    ]
    assert works[0] == works[1] == works[2]
    assert {0} == {spec.input_size for spec in workloads_of(pipelines_of(replace(LOAD, tells_size=False)))}


def test_oracles_words_are_right_and_teach_nothing() -> None:
    """Each stage is told to run as long as it does, and is of a family that no other run has."""
    specs = workloads_of(pipelines_of(replace(LOAD, told=True)))
    assert all(spec.expected == work_of(spec) for spec in specs)
    assert len(specs) == len({family_of(spec.name) for spec in specs})
    assert {0} == {spec.expected for spec in workloads_of(pipelines_of(LOAD))}


def test_windows_are_of_last_stages_and_open_before_the_deadline() -> None:
    """Most of them when the stages before are about through."""
    load = replace(LOAD, window_share=0.4, compression=2)
    has_window = []
    for arrival in drawn(load):
        spec, at = pipeline_of(arrival), Instant(START + arrival.at)
        windows = [stage.begins for stage in spec.stages]
        assert {None} == set(windows[:-1])
        has_window.append(windows[-1] is not None)
        if windows[-1] is not None:
            assert windows[-1].lasts == 3 * HOUR
            assert at < windows[-1].begins_from(at) < at + spec.within
    assert 0.4 == pytest.approx(sum(has_window) / len(has_window), abs=0.1)


def test_long_stages_write_checkpoints() -> None:
    """Every five to ten minutes, before spans are divided; short ones do not."""
    load = replace(LOAD, compression=10)
    saves: dict[bool, list[int]] = {}
    for spec in workloads_of(pipelines_of(load)):
        (job,) = spec.jobs
        assert job.emulation is not None
        every = job.emulation.checkpoint_every / SECOND
        assert not every or 30 <= every <= 60
        saves.setdefault(bool(every), []).append(work_of(spec))
    assert {True, False} == set(saves)
    assert sum(saves[True]) / len(saves[True]) > sum(saves[False]) / len(saves[False])


# When they come.


def test_earlier_runs_come_evenly_before_the_others() -> None:
    """So many of each template, without a deadline; the others come after that."""
    load = replace(LOAD, earlier_runs=4, earlier_hours=6, compression=2, pipelines=60)
    arrivals = drawn(load)
    earlier, later = arrivals[:60], arrivals[60:]
    assert {0} == {pipeline_of(arrival).within for arrival in earlier}
    assert min(pipeline_of(arrival).within for arrival in later) > 0
    assert {4} == set(Counter(template_name(pipeline_of(one)) for one in earlier).values())
    assert [3 * HOUR * place // 60 for place in range(60)] == [arrival.at for arrival in earlier]
    assert 3 * HOUR <= later[0].at < later[-1].at <= 9 * HOUR == load.span * SECOND
    assert {4} == set(Counter(template_name(pipeline_of(one)) for one in later).values())


def test_most_come_in_bursts() -> None:
    """Seven in ten, in six bursts of ten minutes; the others at any time."""
    load = replace(LOAD, pipelines=600, bursts=2, hours=24)
    minutes = Counter(arrival.at // (600 * SECOND) for arrival in drawn(load))
    assert 0.7 == pytest.approx(sum(sorted(minutes.values())[-4:]) / 600, abs=0.08)


# What files say wrongly, and traces.


@pytest.mark.parametrize(
    ("load", "field"),
    [
        (Pipelines(pipelines=3, hours=1, workloads=4), "workloads"),
        (Pipelines(pipelines=3, hours=1, stages_min=4, stages_max=3), "stages_max"),
        (Pipelines(pipelines=3, hours=1, slack_min=4, slack_max=3), "slack_max"),
        (Pipelines(pipelines=3, hours=1, burst_minutes=61), "burst_minutes"),
        (Pipelines(pipelines=3, hours=1, two_jobs_share=0.5), "two_jobs_share"),
        (Pipelines(pipelines=3, hours=1, gpus_max=1000), "gpus_max"),
        (Pipelines(pipelines=3, hours=1, trace="nowhere"), "trace"),
    ],
)
def test_field_that_cannot_be_is_named(load: Pipelines, field: str) -> None:
    """With its place in the file."""
    problem = load.problem(FLEET, ("workload", 0))
    assert problem is not None
    assert ("workload", 0, field) == problem.path


def test_stages_of_a_trace_are_its_jobs(tmp_path: Path) -> None:
    """Those that are neither too long, too wide nor over at once."""
    (tmp_path / "jobs.csv.gz").write_bytes(gzip.compress(TRACE.encode()))
    load = replace(LOAD, trace=str(tmp_path))
    assert [(10.0, 1), (90.0, 4)] == list(load.lengths())
    stages = [stage for one in templates_of(random.Random(1), load, FLEET) for stage in one.stages]
    assert {(10.0, 1), (90.0, 4)} == {(stage.minutes, stage.gpus) for stage in stages}
    problem = replace(load, minutes_max=5).problem(FLEET, ())
    assert problem is not None
    assert ("trace",) == problem.path


# Users.


@pytest.fixture(scope="module")
def played() -> Iterator[Run]:
    """A few pipelines, played."""
    loop = VirtualLoop(START)
    run = simulated_run(parse_scenario(PLAYED, "a_few.yaml"), REFUSED_SEED, loop)
    with structlog.testing.capture_logs():
        loop.run_until_complete(run.play())
    yield run
    loop.cancel_all()
    loop.close()


def test_users_submit_pipelines_until_they_are_answered(played: Run) -> None:
    """Each stage is accepted or refused under the key of its pipeline and its own name, and nothing is wrong."""
    users, outcome = played.users, played.outcome
    assert "" == outcome.first_problem()
    assert users.has_submitted_all
    refused = list(users.refused_pipelines.values())
    assert refused
    assert {Reason.INFEASIBLE} == {one.reason for one in refused}
    assert outcome.figures["pipelines_refused"] == len(refused)
    assert outcome.figures["pipelines"] == len(users.pipelines)
    for key in users.refused_pipelines:
        assert {key} <= {name.partition("/")[0] for name in users.refused}
    rows = played.witness.queue.pipelines.rows
    for key, pipeline in users.pipelines.items():
        mine = {f"{key}/{stage.name}": stage.workload for stage in rows[pipeline].stages}
        assert mine.items() <= users.accepted.items()


def test_pipelines_are_cancelled_whole(played: Run) -> None:
    """As many as users have, or more where a stage was cancelled alone; start deadlines move and are recorded."""
    figures = played.outcome.figures
    assert figures["pipelines_cancelled"] >= 1
    assert figures["stages_reprioritised"] >= 1


def test_refusal_of_a_pipeline_for_another_reason_is_a_problem(played: Run) -> None:
    """A deadline that cannot be met is refused rightly; nothing else is."""
    (conservation,) = [check for check in played.spec.checks if check.name == "conservation"]
    refused = Refused(Reason.TOO_MANY, "As many are pending as may be.")
    played.users.refused["load-99/train"] = refused
    try:
        found = played.world.loop.run_until_complete(conservation.at_end(played))  # type: ignore[attr-defined]
    finally:
        del played.users.refused["load-99/train"]
    assert ["load-99/train was refused: As many are pending as may be."] == found


def test_design_that_binds_early_binds_each_stage() -> None:
    """By itself; or all where the widest one is bound, if they run together."""

    class ByWidth(Binder):
        """Binds by the number of GPUs."""

        def bound(self, spec: WorkloadSpec) -> WorkloadSpec:
            wide = spec.jobs[0].need.gpu_milli > 1000
            return replace(spec, regions=(RegionName("r1" if wide else "r0"),))

    for together in (True, False):
        for spec in pipelines_of(replace(LOAD, together=together, pipelines=20)):
            bound = ByWidth().bound_pipeline(spec)
            assert replace(bound, stages=spec.stages) == spec
            regions = [stage.workload.regions for stage in bound.stages]
            alone = [ByWidth().bound(stage.workload).regions for stage in spec.stages]
            assert regions == ([max(alone)] * len(alone) if together else alone)


def test_facts_name_the_stages(played: Run) -> None:
    """The workload of each stage is in the log as its user said."""
    rows = played.witness.queue.workloads.rows.values()
    logged = {row.spec.name for row in rows if row.spec.name.startswith("nightly")}
    arrivals = played.spec.arrivals(random.Random(f"load/{played.seed}"))
    wanted = {spec.name for arrival in arrivals for spec in workloads_of([pipeline_of(arrival)])}
    refused = len(wanted) - len(logged)
    assert logged <= wanted
    assert refused == len(played.users.refused)


@pytest.mark.parametrize("seed", [1, 6, 7])
def test_region_that_is_given_up_keeps_no_stage_for_ever(seed: int) -> None:
    """A pipeline that only that region could hold is accepted, and waits for it as other work does; no stage is held to a region that is too
    small for it because another stage was awarded there.
    """
    assert "" == run_quietly(parse_scenario(GIVEN_UP, "given_up.yaml"), seed).first_problem()


# The swarm.


def test_pipelines_are_in_some_seeds_of_the_swarm() -> None:
    """One in eight, beside all that other seeds have; of every sort."""
    drawn_specs = [draw_scenario(seed) for seed in range(1, 401)]
    loads = [load for spec in drawn_specs for load in spec.workload if isinstance(load, Pipelines)]
    assert 0.08 < len(loads) / len(drawn_specs) < 0.17
    assert {True, False} == {load.together for load in loads}
    assert {True, False} == {load.window_share > 0 for load in loads}
    assert {True, False} == {load.earlier_runs > 0 for load in loads}
    assert {True, False} == {bool(load.data) for load in loads}
    rankings = [spec.ranking for spec in drawn_specs if spec.ranking is not None]
    assert {"edf", "off"} == {str(one.deadlines) for one in rankings}


@pytest.mark.parametrize("seed", [18, 36, 45])
def test_seed_with_pipelines_is_clean(seed: int) -> None:
    """With budgets of tenants, windows, and a region that is given up."""
    assert any(isinstance(load, Pipelines) for load in draw_scenario(seed).workload)
    assert "" == play_seed(seed).problem

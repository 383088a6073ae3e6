"""Job files with stages and deadlines: what each stage is, and every problem at its line of its stage."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.nouns.ids import RegionName, TenantName
from core.nouns.instant import SECOND, Instant, Nanoseconds
from core.nouns.limits import STAGES_MAX
from core.nouns.pipeline import NO_DEADLINE, DailyWindow, OnLate, PipelineSpec, StageSpec
from core.nouns.quantities import Amount
from core.nouns.workload import NEVER, WorkloadSpec
from core.rules.pipelines.submission import problems_of_pipeline
from mizzen.jobs import parts, stages, workload
from mizzen.jobs.file import Job, JobFileError, load_job, read_job
from mizzen.jobs.source import Source, sheet_of
from mizzen.jobs.values import instant_of, span_of, window_of, window_text
from runtime.yaml_tree import Problem
from tests.core.properties import PROPERTY

FOLDER = Path("/home/ada")
NOW = Instant(int(datetime(2026, 11, 22, tzinfo=UTC).timestamp()) * SECOND)
HOUR = Nanoseconds(3_600 * SECOND)
TOP = "name: p\nrun: x\nresources: {gpus: H100:1}\n"


def job_of(text: str) -> Job:
    """A text that is submitted at midnight of 2026-11-22 from Ada's home."""
    return read_job(sheet_of(Source("job.yaml", text, "job.yaml")), FOLDER, NOW)


def pipeline_of(text: str) -> PipelineSpec:
    """The pipeline of such a text."""
    found = job_of(text).pipeline
    assert found is not None
    return found


def stages_of(text: str) -> dict[str, StageSpec]:
    """Its stages by name."""
    return {stage.name: stage for stage in pipeline_of(text).stages}


def problems(text: str) -> list[str]:
    """All that is wrong with a text."""
    with pytest.raises(JobFileError) as caught:
        job_of(text)
    return [str(problem) for problem in caught.value.problems]


def env_of(spec: WorkloadSpec) -> dict[str, str]:
    """The variables of its only job."""
    (job,) = spec.jobs
    assert job.program is not None
    return job.program.env


# What it says.


def test_list_of_stages_is_an_order() -> None:
    """Each waits for the stage before, and each has the fields of the top."""
    spec = pipeline_of(TOP + "stages:\n- name: a\n- {name: b, run: y}\n- {name: c, priority: 5}\n")
    assert ("p", NO_DEADLINE, NEVER, OnLate.REFUSE, True) == (
        spec.name, spec.deadline, spec.within, spec.on_late, spec.is_together
    )  # fmt: skip
    assert [("a", ()), ("b", ("a",)), ("c", ("b",))] == [(stage.name, stage.after) for stage in spec.stages]
    assert ["p.a", "p.b", "p.c"] == [stage.workload.name for stage in spec.stages]
    assert ["x", "y", "x"] == [stage.workload.jobs[0].program.run for stage in spec.stages]  # type: ignore[union-attr]
    assert [None, None, 5] == [stage.workload.priority for stage in spec.stages]


def test_mapping_of_stages_is_a_graph() -> None:
    """A stage waits for those that it names, and without `after` for none; deadline, tenant and region are of all."""
    text = """
        name: p
        tenant: ads
        regions: [eu]
        deadline: 2026-11-22T04:00+01:00
        on_late: accept
        together: false
        stages:
          prep: {run: a, resources: {gpus: cpu:1}, input: 40GB}
          left: {run: b, resources: {gpus: H100:8}, after: [prep], expected: 1h}
          right: {emulate: {work: 1m}, resources: {cpus: 2}, begins: daily 02:00 for 2h}
          end: {run: d, resources: {gpus: cpu:1}, after: [left, right], input: 1000}
    """
    spec = pipeline_of(text)
    assert (NOW + 3 * HOUR, OnLate.ACCEPT, False, "ads") == (
        spec.deadline, spec.on_late, spec.is_together, spec.tenant
    )  # fmt: skip
    found = {stage.name: stage for stage in spec.stages}
    assert {"prep": (), "left": ("prep",), "right": (), "end": ("left", "right")} == {
        name: stage.after for name, stage in found.items()
    }
    assert {(TenantName("ads"), (RegionName("eu"),))} == {
        (stage.workload.tenant, stage.workload.regions) for stage in spec.stages
    }
    assert (40_000_000_000, HOUR) == (found["prep"].workload.input_size, found["left"].workload.expected)
    assert (DailyWindow(Nanoseconds(2 * HOUR), Nanoseconds(2 * HOUR)), None) == (
        found["right"].begins, found["left"].begins
    )  # fmt: skip
    assert 1_000 == found["end"].workload.input_size


def test_fields_of_a_stage_are_merged_with_those_of_the_top() -> None:
    """A stage's field replaces the same one of the top, part by part in a mapping; its run, emulation or jobs replace each other."""
    found = stages_of("""
        name: p
        run: x
        tasks: 4
        resources: {gpus: H100:8, memory: 1GiB}
        env: {A: 1, B: 2}
        secrets: [KEY]
        checkpoint: {dir: /shared, grace: 10s}
        stages:
          own: {resources: {gpus: A100:1}, env: {B: 3, C: 4}, secrets: [TOKEN], nodes: 2, checkpoint: {grace: 20s}}
          jobs: {jobs: {one: {run: y, resources: {gpus: cpu:1}}}}
          theirs: {}
    """)
    (job,) = found["own"].workload.jobs
    assert (Amount(1_000, 0, 1 << 30), "A100", 2) == (job.need, job.gpu_type, job.tasks)
    assert {"A": "1", "B": "3", "C": "4"} == env_of(found["own"].workload)
    assert ("/shared", ("TOKEN",)) == (job.program and (job.program.checkpoint_dir, job.program.secrets))
    assert (20 * SECOND, 10 * SECOND) == (found["own"].workload.grace, found["theirs"].workload.grace)
    assert (["one"], [1]) == (
        [job.name for job in found["jobs"].workload.jobs], [job.tasks for job in found["jobs"].workload.jobs]
    )  # fmt: skip
    assert {"A": "1", "B": "2"} == env_of(found["theirs"].workload) == env_of(found["jobs"].workload)
    assert 4 == found["theirs"].workload.jobs[0].tasks


def test_emulated_stage_below_a_top_that_runs() -> None:
    """What stands in place of the top's `run` replaces it, and the other way round."""
    runs = stages_of(TOP + "stages: {a: {emulate: {work: 1m}}, b: {}}")
    emulates = stages_of(
        "name: p\nemulate: {work: 1m}\nresources: {gpus: H100:1}\nstages: {a: {run: x}, b: {}}"
    )
    for found, name in ((runs, "a"), (emulates, "b")):
        assert found[name].workload.jobs[0].emulation is not None
        assert found[{"a": "b", "b": "a"}[name]].workload.jobs[0].program is not None


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("deadline: 2026-11-22T03:00", PipelineSpec("p", (), deadline=Instant(NOW + 3 * HOUR))),
        ("within: 3h\non_late: accept", PipelineSpec("p", (), within=Nanoseconds(3 * HOUR), on_late=OnLate.ACCEPT)),
        ("begins: daily 02:30", PipelineSpec("p", ())),
    ],
)  # fmt: skip
def test_plain_job_with_a_deadline(line: str, wanted: PipelineSpec) -> None:
    """It is a pipeline of one stage, whose workload keeps its name."""
    job = job_of(TOP + line + "\nexpected: 1h")
    begins = DailyWindow(Nanoseconds(5 * HOUR // 2), HOUR) if "begins" in line else None
    assert job.pipeline is not None
    (stage,) = job.pipeline.stages
    assert ("main", "p", HOUR, begins) == (
        stage.name, stage.workload.name, stage.workload.expected, stage.begins
    )  # fmt: skip
    assert (wanted.name, wanted.deadline, wanted.within, wanted.on_late) == (
        job.pipeline.name, job.pipeline.deadline, job.pipeline.within, job.pipeline.on_late
    )  # fmt: skip
    assert stage.workload == job.spec


def test_plain_job_without_a_deadline() -> None:
    """What its user expects makes no pipeline of it."""
    job = job_of(TOP + "expected: 1h\ninput: 5GB")
    assert job.pipeline is None
    assert (HOUR, 5_000_000_000) == (job.spec.expected, job.spec.input_size)


def test_arguments_are_given_to_every_stage() -> None:
    """One of them must ask for them."""
    text = 'name: p\nresources: {gpus: cpu:1}\nstages: [{name: a, run: x}, {name: b, run: echo "$@"}]'
    found = read_job(sheet_of(Source("job.yaml", text), ["c d"]), FOLDER, NOW).pipeline
    assert found is not None
    assert "set -- 'c d'\necho \"$@\"" == found.stages[1].workload.jobs[0].program.run  # type: ignore[union-attr]
    with pytest.raises(JobFileError, match="no run takes them"):
        read_job(sheet_of(Source("job.yaml", TOP + "stages: [{name: a}]"), ["c"]), FOLDER, NOW)


@pytest.mark.parametrize("text", ["daily 00:00 for 1d", "daily 02:00 for 1h", "daily 23:59 for 90m"])
def test_windows(text: str) -> None:
    """As people write them; and as we write them, they are the same again."""
    window = window_of(text)
    assert span_of(text.rpartition(" ")[2]) == window.lasts
    assert window == window_of(window_text(window))
    assert "daily 02:05 for 1h" == window_text(window_of("daily 2:05"))


def test_times_of_a_calendar() -> None:
    """UTC unless they say otherwise."""
    assert NOW == instant_of("2026-11-22T00:00") == instant_of("2026-11-22 01:00:00+01:00")
    assert NOW + SECOND // 2 == instant_of("2026-11-22T00:00:00.5Z")


# What is wrong with it.


def test_everything_wrong_is_told_at_once() -> None:
    """Of the top once, however many stages have it; of a stage with the stage's path; in the order of the file."""
    text = """\
name: nightly
env: {A-B: 1}
deadline: 2020-01-01T00:00
priority: 9
run: x
resources: {gpus: H100:1}
max_duration: 1h
stages:
  prep:
    resources: {gpus: H100:1.5}
    tenant: ads
    nodez: 3
  train:
    after: [prep, eval, nowhere]
    expected: 2h
    env: {B C: 1}
  eval:
    after:
    - train
    - eval
    begins: daily 25:00
    kind: service
"""
    late = (NOW - instant_of("2020-01-01T00:00")) // SECOND
    window = "write for example daily 02:00, or daily 02:00 for 2h, in UTC"
    assert [
        "job.yaml:2:7: env: 'A-B' cannot be the name of a variable",
        f"job.yaml:3:11: deadline: it passed {late} s ago",
        "job.yaml:4:11: priority: 9 is not between 0 and 6",
        "job.yaml:10:23: stages.prep.resources.gpus: more than one device must be whole devices (multiples of 1000)",
        "job.yaml:11:5: stages.prep.tenant: it holds for all stages; say it at the top",
        "job.yaml:12:5: stages.prep: unknown field 'nodez'; did you mean 'nodes'?",
        "job.yaml:14:12: stages.train.after: they wait for each other in a circle: train -> eval -> train",
        "job.yaml:14:25: stages.train.after: there is no stage nowhere; there are prep, train, eval",
        "job.yaml:15:15: stages.train.expected: it is longer than max_duration, at which the workload is stopped",
        "job.yaml:16:11: stages.train.env: 'B C' cannot be the name of a variable",
        "job.yaml:20:7: stages.eval.after: a stage cannot wait for itself",
        f"job.yaml:21:13: stages.eval.begins: daily 25:00 is no window; {window}",
        "job.yaml:22:11: stages.eval.kind: a service ends on request alone, so no stage can wait for it",
    ] == problems(text)


STAGES = {
    # Of all stages.
    "stages: []": "4:9: stages: there must be one at least",
    "stages: 3": "4:9: stages: it must be a list, and is one value; write [3]",
    "stages:": "4:8: stages: it has no value",
    "stages: [a]": "4:10: stages[0]: it must be a mapping of fields, and is a",
    "stages: {a: b}": "4:13: stages.a: it must be a mapping of fields, and is b",
    f"stages: [{', '.join(f'{{name: s{number}}}' for number in range(STAGES_MAX + 1))}]":
        f"4:1: stages: there are {STAGES_MAX + 1}, and {STAGES_MAX} are the most",
    "stages: {a-b: {}, a_b: {}}": "4:9: stages: a-b and a_b would both be MIZZEN_STAGE_A_B_... for later stages",
    "stages: {a: {after: [b]}, b: {after: [a]}}":
        "4:21: stages.a.after: they wait for each other in a circle: a -> b -> a",
    # Names.
    "stages: [{run: y}]": "4:10: stages[0].name: it is missing; each stage has one",
    "stages: [{name: a}, {name: a}]": "4:28: stages[1].name: two stages are called a",
    "stages: [{name: a}, {name: b}, {name: a}]": "4:39: stages[2].name: two stages are called a",
    "stages:\n  a: {}\n  a: {}": "6:3: stages.a: it is there twice; first on line 5",
    "stages: {a b: {}}": "4:10: stages.a b: use 1 to 128 letters, digits, '.', '_' and '-', a letter or digit first",
    "stages: [{name: a/b}]": "4:17: stages[0].name: use 1 to 128 letters",
    "stages: {a: {name: b}}": "4:14: stages.a.name: a stage in a mapping is called as its key; leave it out",
    # What a stage waits for.
    "stages: {a: {after: [b]}}": "4:22: stages.a.after: there is no stage b; there are a",
    "stages: {a: {after: [a]}}": "4:22: stages.a.after: a stage cannot wait for itself",
    "stages: {a: {}, b: {after: [a, a]}}": "4:28: stages.b.after: a stage is named twice",
    "stages: {a: {}, b: {after: a}}": "4:28: stages.b.after: it must be a list, and is one value; write [a]",
    "stages: [{name: a}, {name: b, after: [a]}]":
        "4:31: stages[1].after: stages in a list run one after the other; write a mapping by name to say after",
    "after: [a]": "4:1: after: only a stage waits for others; say it in that stage",
    # The deadline.
    "deadline: 2026-11-21T23:59:59": "4:11: deadline: it passed 1 s ago",
    "deadline: 2026-11-23T00:00\nwithin: 2h": "5:9: within: it is another way to say deadline; leave one of them out",
    "deadline: in 2h": "4:11: deadline: in 2h is a span; write within: 2h instead",
    "deadline: +90m": "4:11: deadline: +90m is a span; write within: 90m instead",
    "deadline: 1h30m": "4:11: deadline: 1h30m is a span; write within: 1h30m instead",
    "deadline: soon": "4:11: deadline: soon is no time; write for example 2026-11-22T03:00, which is UTC unless",
    "deadline: 2026-13-01T00:00": "4:11: deadline: 2026-13-01T00:00 is no time of any calendar",
    "deadline: 1969-01-01T00:00": "4:11: deadline: 1969-01-01T00:00 is no time of this age",
    "deadline: 9999-01-01T00:00": "4:11: deadline: it is no time of this age",
    "within: 0s": "4:9: within: it must be longer than zero",
    "within: soon": "4:9: within: soon is no span",
    "within: 2h\non_late: wait": "5:10: on_late: wait is no answer to a deadline that cannot be met; there are refuse, accept",
    "on_late: accept": "4:1: on_late: without deadline or within there is nothing to be late for; leave it out",
    "together: true": "4:1: together: it is about stages, and there are none; leave it out",
    "within: 1h\nstages: [{name: a, within: 1h}]": "5:20: stages[0].within: it holds for all stages; say it at the top",
    "within: 1h\nstages: {a: {on_late: accept}}": "5:14: stages.a.on_late: it holds for all stages",
    "stages: {a: {together: true}}": "4:14: stages.a.together: it holds for all stages",
    "stages: {a: {stages: {}}}": "4:14: stages.a.stages: a stage has no stages of its own",
    "stages: {a: {deadline: x}}": "4:14: stages.a.deadline: it holds for all stages",
    # Windows.
    "begins: daily 02:00\nwithin: 1h": "4:9: begins: the window does not open before the deadline",
    "within: 1h\nstages: [{name: a, begins: daily 02:00}]":
        "5:28: stages[0].begins: the window does not open before the deadline",
    "begins: nightly": "4:9: begins: nightly is no window",
    "begins: daily 02:00 for 0s": "4:9: begins: it must be longer than zero",
    "begins: daily 02:00 for 2d": "4:9: begins: a window opens at a time of day, and lasts a day at most",
    "begins: daily 02:00\nstages: {a: {}}": "4:1: begins: say it in the stage that begins then",
    # Its workload.
    "max_duration: 1h\nstages: {a: {expected: 2h}}": "5:24: stages.a.expected: it is longer than max_duration",
    "expected: 2h\nstages: {a: {}, b: {max_duration: 1h}}": "4:11: expected: it is longer than max_duration",
    "stages: {a: {kind: service}, b: {after: [a]}}":
        "4:20: stages.a.kind: a service ends on request alone, so no stage can wait for it",
    "kind: service\nstages: [{name: a}, {name: b}]": "4:7: kind: a service ends on request alone",
    "stages: {a: {share: {}, checkpoint: {grace: 5s}}}":
        "4:21: stages.a.share: rounds of a shared pool know no stages; let it be ordinary work",
    "stages: {a: {resources: {gpus: H100}}}": "4:32: stages.a.resources.gpus: H100 is not TYPE:COUNT",
    "stages: {a: {emulate: {}}}": "4:23: stages.a.emulate.work: it is missing",
    "stages: {a: {jobs: {b: {run: x, resources: {gpus: H100:1.5}}}}}":
        "4:51: stages.a.jobs.b.resources.gpus: more than one device",
    "stages: {a: {jobs: {b c: {run: x, resources: {gpus: H100:1}}}}}": "4:21: stages.a.jobs.b c: use 1 to 128 letters",
    "env: {A: [b]}\nstages: [{name: a}, {name: b}]": "4:10: env.A: it must be one value, and is a list",
    "envv: {}\nstages: [{name: a}, {name: b}]": "4:1: unknown field 'envv'; did you mean 'env'?",
    "stages: {a: {depends_on: [b]}}": "4:14: stages.a: unknown field 'depends_on'; did you mean 'after'?",
}  # fmt: skip


@pytest.mark.parametrize("lines", STAGES, ids=lambda lines: lines[:60])
def test_problem_of_one_field(lines: str) -> None:
    """It is the only one that is told, at its line of its stage."""
    [problem] = problems(TOP + lines)
    assert problem.startswith(f"job.yaml:{STAGES[lines]}"), problem


def test_name_of_a_pipeline() -> None:
    """A bad or missing one is told once, and not again of each stage."""
    stages = "run: x\nresources: {gpus: H100:1}\nstages: [{name: a}, {name: b}]"
    assert ["job.yaml:1:1: name: it is missing; say what to call it"] == problems(stages)
    [problem] = problems(f"name: my jobs\n{stages}")
    assert problem.startswith("job.yaml:1:7: name: use 1 to 128 letters")


def test_missing_fields_are_told_of_each_stage() -> None:
    """At the stage that neither has them nor finds them at the top."""
    assert [
        "job.yaml:2:13: stages.a.resources: it is missing; say what one task needs, as in resources: {gpus: H100:8}",
        "job.yaml:2:26: stages.b.run: it is missing; say what to run",
    ] == problems("name: p\nstages: {a: {run: x}, b: {resources: {gpus: H100:1}}}")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("stages[1].jobs[0].need.gpu_milli: too many", "8:25: stages.b.resources.gpus: too many"),
        ("stages[0].jobs[0].need.gpu_milli: too many", "3:19: resources.gpus: too many"),
        ("stages[1].regions: mars is not in the fleet", "4:10: regions: mars is not in the fleet"),
        ("stages[1].priority: 6 is above the level", "8:6: stages.b.priority: 6 is above the level"),
        ("stages[1].tenant: there is none", "1:1: tenant: there is none"),
        ("stages: no region could hold all of them", "7:3: stages: no region could hold all of them"),
        ("deadline: the earliest is tomorrow", "5:9: within: the earliest is tomorrow"),
        ("stages[0].the whole: too large", "7:6: stages.a: the whole: too large"),
        ("stages[7].x: y", "1:1: stages[7].x: y"),
        ("key: 256 characters are the most", "1:1: key: 256 characters are the most"),
    ],
)
def test_problem_that_the_queue_tells(said: str, told: str) -> None:
    """It is told at the line of the stage, or of the top where the stage has the field from."""
    job = job_of(TOP + "regions: [eu]\nwithin: 1d\nstages:\n  a: {}\n  b: {resources: {gpus: A100:8}}\n")
    assert f"job.yaml:{told}" == str(job.located(said))


def test_file_where_a_plain_workload_is_asked_for(tmp_path: Path) -> None:
    """One with stages has none, and one with a deadline is more than one: a scenario and a change take neither."""
    said = "it makes a pipeline, and a plain workload is asked for here; only `mizzen submit` takes pipelines"
    with pytest.raises(JobFileError) as caught:
        _ = job_of(TOP + "stages: [{name: a}]").spec
    assert f"job.yaml:4:1: stages: {said}" == str(caught.value)
    path = tmp_path / "job.yaml"
    path.write_text(TOP + "within: 1h")
    with pytest.raises(JobFileError) as caught:
        load_job(path)
    assert f"{path}:4:1: within: {said}" == str(caught.value)


# Whatever it says.

FIELDS = st.sampled_from([
    *workload.OF_WORKLOAD, *parts.OF_JOB, *stages.OF_PIPELINE, *stages.OF_STAGE, "a", "b",
])  # fmt: skip
VALUES = st.sampled_from([
    "1", "a", "[a]", "[b, a]", "[]", "{}", "~", "{a: {}}", "{a: {after: [b]}, b: {}}", "[{name: a}, {name: b}]", "2h", "daily 02:00",
    "accept", "true", "2026-11-23T00:00", "{work: 1m}", "{gpus: H100:1}", "service", "{a: 1}", "{<<: {after: [a]}}",
])  # fmt: skip
GOOD = st.sampled_from([
    ("run", "y"), ("emulate", "{work: 1m}"), ("env", "{A: 1}"), ("priority", "5"), ("expected", "2h"), ("max_duration", "3h"),
    ("input", "5GB"), ("checkpoint", "{grace: 5s}"), ("jobs", "{b: {run: x, resources: {gpus: A100:1}}}"), ("retry", "{}"),
    ("tasks", "2"), ("nodes", "3"), ("begins", "daily 02:00"), ("after", "[a]"), ("after", "[b]"), ("resources", "{cpus: 2}"),
    ("within", "1d"), ("on_late", "accept"), ("together", "false"), ("kind", "service"), ("name", "a"), ("name", "b"),
])  # fmt: skip
A_STAGE = st.lists(
    st.one_of(GOOD, GOOD, GOOD, st.tuples(FIELDS, VALUES)), max_size=3, unique_by=lambda pair: pair[0]
).map(lambda pairs: "{" + ", ".join(f"{field}: {value}" for field, value in pairs) + "}")


@PROPERTY
@given(A_STAGE, A_STAGE, A_STAGE, st.booleans())
def test_any_stages_are_a_pipeline_or_have_problems(top: str, one: str, other: str, is_list: bool) -> None:
    """A pipeline that was read is one that the queue finds well formed."""
    named = f"{{<<: {one}, name: c}}, {{<<: {other}, name: d}}"
    written = f"[{named}]" if is_list else f"{{a: {one}, b: {other}}}"
    text = f"<<: [{top}, {{name: p, run: x, resources: {{gpus: H100:1}}}}]\nstages: {written}\n"
    found, wrong = read_or_not(text)
    if found is not None:
        assert () == problems_of_pipeline(found, NOW)
    else:
        assert wrong
        assert all(problem.place.source == "job.yaml" and problem.text for problem in wrong)


def read_or_not(text: str) -> tuple[PipelineSpec | None, list[Problem]]:
    """Its pipeline, or all that is wrong with it."""
    try:
        return pipeline_of(text), []
    except JobFileError as error:
        return None, error.problems

"""The job file: what it says is the workload, and whatever is wrong is told at once, with its line."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.nouns.ids import DatasetName, RegionName, TenantName
from core.nouns.instant import MILLISECOND, SECOND, Nanoseconds
from core.nouns.operation import ControlSpec
from core.nouns.quantities import Amount
from core.nouns.workload import Emulation, Extent, JobSpec, Kind, Program, RetryLimits, Topology, WorkloadSpec
from core.rules.submission import problems_of
from mizzen.jobs import maps, parts, shared, slurm_options, stages, workload
from mizzen.jobs.file import Job, JobFileError, load_job, read_job
from mizzen.jobs.source import BYTES_MAX, Source, read_source, sheet_of
from mizzen.jobs.values import SPAN_MAX, span_of, span_text
from runtime.tasks import environment
from runtime.yaml_tree import Problem
from tests.core.properties import PROPERTY

HOUSE = Path(__file__).resolve().parents[2]
DOCUMENT = (HOUSE / "docs" / "job-file.md").read_text()
FOLDER = Path("/home/ada")
MINUTE = 60 * SECOND
SMALLEST = "name: a\nrun: x\nresources: {gpus: H100:8}\n"


def job_of(text: str, name: str = "job.yaml") -> Job:
    """The workload or the pipeline of a text that is submitted from Ada's home."""
    return read_job(sheet_of(Source(name, text, name)), FOLDER)


def read(text: str, name: str = "job.yaml") -> WorkloadSpec:
    """The workload of such a text."""
    return job_of(text, name).spec


def problems(text: str, name: str = "job.yaml") -> list[str]:
    """All that is wrong with a text."""
    with pytest.raises(JobFileError) as caught:
        read(text, name)
    return [str(problem) for problem in caught.value.problems]


def with_line(line: str) -> str:
    """The smallest file, and a fourth line."""
    return SMALLEST + line


# What it says.


def test_smallest_file() -> None:
    """Three fields; all others have defaults, and it runs where it is submitted."""
    job = JobSpec("main", 1, Amount(8_000), "H100", program=Program("x", "/home/ada"))
    assert WorkloadSpec("a", (job,)) == read(SMALLEST)


def test_where_tasks_lie() -> None:
    """Of each job for itself."""
    spec = read("""
        name: a
        run: x
        tasks: 4
        resources: {gpus: H100:8, gpu_memory: 80GiB}
        alone: true
        topology: {pack: zone, spread: rack, tasks_per_node: 2, zones: [zone-0, zone-1], near: [zone-1]}
    """)
    (job,) = spec.jobs
    assert 80 << 30 == job.gpu_memory
    assert job.is_alone
    assert Topology(Extent.ZONE, Extent.RACK, 2, ("zone-0", "zone-1"), ("zone-1",)) == job.topology


def test_every_field_of_a_program() -> None:
    """In every form that is not the usual one."""
    spec = read("""
        name: llama-2
        tenant: research
        priority: 6
        kind: interactive
        regions: [eu, us]
        data: [clicks, users.daily]
        fresh_data: true
        on_region_loss: {move_after: 30m}
        max_duration: 1:30:00
        retry: {task_failed: 3, start_failed: 0}
        checkpoint: {dir: /shared, every: 5m, grace: 20, size: 40GiB}
        run: |
          a
          b
        tasks: 4
        resources: {gpus: [H100:0.5], cpus: 500m, memory: 16GiB}
        env: {A: 0010, B: true, C: "", D: 1.50, E: on, F: 1:30}
        secrets: [TOKEN]
        directory: sub/../run
        early_warning: 1m30s
        slurm_env: true
        expected: 45m
        input: 20GB
    """)
    env = {
        "MIZZEN_CHECKPOINT_SECONDS": "300", "A": "0010", "B": "true", "C": "", "D": "1.50", "E": "on", "F": "1:30",
    }  # fmt: skip
    program = Program("a\nb\n", "/home/ada/run", env, ("TOKEN",), "/shared", 90 * SECOND, has_slurm_env=True)  # type: ignore[arg-type]  # a span
    job = JobSpec("main", 4, Amount(500, 500, 16 << 30), "H100", program=program)
    wanted = WorkloadSpec(
        "llama-2", (job,), TenantName("research"), 6, Kind.INTERACTIVE, (RegionName("eu"), RegionName("us")),
        RetryLimits(3, 0), 90 * MINUTE, 20 * SECOND,  # type: ignore[arg-type]  # spans
        data=(DatasetName("clicks"), DatasetName("users.daily")), needs_fresh_data=True, checkpoint_bytes=40 << 30,
        move_after=Nanoseconds(30 * MINUTE), expected=Nanoseconds(45 * MINUTE), input_size=20_000_000_000,
    )  # fmt: skip
    assert wanted == spec


def test_checkpoint_variable_that_is_set_stays() -> None:
    """`every` is only what tasks find otherwise."""
    spec = read(with_line("checkpoint: {every: 5s}\nenv: {MIZZEN_CHECKPOINT_SECONDS: 7}"))
    assert spec.jobs[0].program is not None
    assert {"MIZZEN_CHECKPOINT_SECONDS": "7"} == spec.jobs[0].program.env


def test_controller_that_is_asked_before_tasks_are_touched() -> None:
    """Its name, how many may be down at once, and whether they may go on unseen."""
    text = "kind: service\ncontrol: {controller: replicas, max_unavailable: 2, strict: true, isolation: 45s}"
    control = ControlSpec("replicas", 2, is_strict=True, isolation=45 * SECOND)  # type: ignore[arg-type]  # a span
    assert control == read(with_line(text)).control
    assert ControlSpec() == read(with_line("control: {}")).control
    assert ControlSpec("x") == read(with_line("control: {controller: x, strict: false}")).control


def test_service_that_is_content_with_a_part() -> None:
    """L1: whole or nothing, unless the file says otherwise."""
    assert read(with_line("kind: service\nplacement: incremental")).is_incremental
    assert not read(with_line("kind: service\nplacement: gang")).is_incremental
    assert not read(with_line("kind: service")).is_incremental


def test_retries_of_a_service() -> None:
    """Its tasks are started again for ever, unless the file says how often."""
    assert RetryLimits(-1, 5) == read(with_line("kind: service")).retry
    assert RetryLimits(-1, 2) == read(with_line("kind: service\nretry: {start_failed: 2}")).retry
    assert RetryLimits(4, 5) == read(with_line("kind: service\nretry: {task_failed: 4}")).retry
    assert RetryLimits(0, 5) == read(with_line("kind: batch")).retry


def test_emulated_work() -> None:
    """In place of a program."""
    spec = read(
        "name: a\nresources: {gpus: H100:8}\nnodes: {min: 2, max: 2}\n"
        "emulate: {work: 10m, checkpoint_every: 500ms, fails_after: 1.5m, exit_code: 85, stop_span: 1d, set_up: 2m}"
    )
    emulation = Emulation(
        work=Nanoseconds(10 * MINUTE),
        checkpoint_every=Nanoseconds(500 * MILLISECOND),
        fails_after=Nanoseconds(90 * SECOND),
        exit_code=85,
        stop_span=Nanoseconds(86_400 * SECOND),
        set_up=Nanoseconds(2 * MINUTE),
    )
    assert (JobSpec("main", 2, Amount(8_000), "H100", emulation),) == spec.jobs


@pytest.mark.parametrize(("share", "model"), [("{model: bert}", "bert"), ("{weight: 2}", "a"), ("", "")])
def test_emulated_work_beside_a_partner(share: str, model: str) -> None:
    """The part of its speed that it keeps, by model; it says its own model where it shares a pool."""
    shared_pool = f"share: {share}\ncheckpoint: {{grace: 5}}\n" if share else ""
    spec = read(
        f"name: a-17\nresources: {{gpus: H100:1}}\n{shared_pool}"
        "emulate: {work: 10m, checkpoint_every: 1m, beside: {gpt: 1, bert: 0.625}}"
    )
    emulation = spec.jobs[0].emulation
    assert emulation is not None
    assert (model, (("bert", 625_000), ("gpt", 1_000_000))) == (emulation.model, emulation.beside)


@pytest.mark.parametrize("nodes", ["nodes: 2", "tasks: 2", "nodes: {min: 2, max: 2}"])
def test_nodes_are_another_word_for_tasks(nodes: str) -> None:
    """For tasks that take whole nodes."""
    assert 2 == read(with_line(nodes)).jobs[0].tasks


A_LIST = """
- {name: trainer, run: a, tasks: 4, resources: &gpu {gpus: H100:1}, env: {B: 3}}
- {name: evaluator, run: b, resources: *gpu, slurm_env: false, directory: /}
"""
A_MAPPING = """
  trainer: {run: a, tasks: 4, resources: &gpu {gpus: H100:1}, env: {B: 3}}
  evaluator: {run: b, resources: *gpu, slurm_env: false, directory: /}
"""
MERGED = """
- &first {name: trainer, run: a, tasks: 4, resources: {gpus: H100:1}, env: {B: 3}}
- {<<: *first, name: evaluator, run: b, tasks: 1, slurm_env: false, directory: /, env: {}}
"""


@pytest.mark.parametrize("jobs", [A_LIST, A_MAPPING, MERGED], ids=["list", "mapping", "merged"])
def test_several_jobs(jobs: str) -> None:
    """What the top says of programs holds for each of them; `env` is added to."""
    spec = read(f"name: a\nenv: {{A: 1, B: 2}}\nslurm_env: true\njobs:{jobs}")
    trainer = Program("a", "/home/ada", {"A": "1", "B": "3"}, has_slurm_env=True)
    evaluator = Program("b", "/", {"A": "1", "B": "2"})
    assert (
        JobSpec("trainer", 4, Amount(1_000), "H100", program=trainer),
        JobSpec("evaluator", 1, Amount(1_000), "H100", program=evaluator),
    ) == spec.jobs


def test_arguments_are_found_by_run() -> None:
    """As a shell has them."""
    sheet = sheet_of(Source("job.yaml", SMALLEST.replace("x", 'echo "$@"')), ["a b", "c"])
    program = read_job(sheet, FOLDER).spec.jobs[0].program
    assert program is not None
    assert "set -- 'a b' c\necho \"$@\"" == program.run
    with pytest.raises(JobFileError, match="no run takes them"):
        read_job(sheet_of(Source("job.yaml", SMALLEST), ["a"]), FOLDER)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("30s", 30), ("5m", 300), ("4h", 14_400), ("1d", 86_400), ("1h30m", 5_400), ("1h 30m", 5_400), ("90", 90),
        ("0.5", 0.5), ("500ms", 0.5), ("1.5h", 5_400), ("1:30:00", 5_400), ("01:30", 90), ("1-0", 86_400),
        ("1-01:30", 91_800), ("1-00:00:01", 86_401), ("0", 0),
    ],
)  # fmt: skip
def test_spans(text: str, span: float) -> None:
    """As people and as Slurm write them; and as we write them, they are the same again."""
    assert span * SECOND == span_of(text)
    assert span_of(text) == span_of(span_text(span_of(text)))


# What is wrong with it.


def test_everything_wrong_is_told_at_once() -> None:
    """How it is written, what fields hold, and what the queue would refuse it for; in the order of the file."""
    text = """\
name: my train
resource: {gpus: H100:8}
run: x
resources: {gpus: H100:x, cpus: many}
priority: 9
env: {A-B: 1, C: [d]}
name: again
stage: []
"""
    assert [
        "job.yaml:1:7: name: use 1 to 128 letters, digits, '.', '_' and '-', a letter or digit first",
        "job.yaml:2:1: unknown field 'resource'; did you mean 'resources'?",
        "job.yaml:4:19: resources.gpus: H100:x is not TYPE:COUNT",
        "job.yaml:4:33: resources.cpus: many is no number of CPUs; write for example 4 or 500m",
        "job.yaml:5:11: priority: 9 is not between 0 and 6",
        "job.yaml:6:7: env: 'A-B' cannot be the name of a variable",
        "job.yaml:6:18: env.C: it must be one value, and is a list",
        "job.yaml:7:1: name: it is there twice; first on line 1",
        "job.yaml:8:1: unknown field 'stage'; did you mean 'stages'?",
    ] == problems(text)


LINES = {
    "tenant: a b": "tenant: a b is no name; use letters, digits, '.', '_' and '-'",
    "tenant:": "tenant: it has no value",
    "tenant: [a]": "tenant: it must be one value, and is a list",
    "priority: high": "priority: high is no whole number",
    f"priority: {'9' * 5_000}": "is too large",
    "kind: traning": "kind: traning is no kind of work; did you mean training?",
    "kind: x": "x is no kind of work; there are training, interactive, service, batch, function",
    "regions: eu": "regions: it must be a list, and is one value; write [eu]",
    "regions: [eu, [us]]": "regions[1]: it must be one value, and is a list",
    "regions: [eu, eu]": "regions: one is named twice",
    "max_duration: soon": "max_duration: soon is no span; write for example 90s, 5m, 1h30m or 1:30:00",
    "max_duration: 1m1h": "1m1h is no span",
    "max_duration: 40000d": "40000d is more than a hundred years",
    "retry: 3": "retry: it must be a mapping of fields, and is 3",
    "retry: {preempted: 3}": "retry: unknown field 'preempted'",
    "retry: {task_failed: -1}": "retry: counts must not be negative",
    "checkpoint: {grace: 0s}": "checkpoint.grace: it must be longer than zero",
    "checkpoint: {every: 500ms}": "checkpoint.every: 500ms is not whole seconds",
    "checkpoint: {dir: ~/x}": "checkpoint.dir: ~/x: no node knows that home directory",
    "control: replicas": "control: it must be a mapping of fields, and is replicas",
    "control: {name: replicas}": "control: unknown field 'name'",
    "control: {controller: a.b}": "control.controller: use 1 to 128 letters, digits, '_' and '-'",
    "control: {max_unavailable: 1}": "control.max_unavailable: the tasks of kind training are touched together",
    "kind: service\ncontrol: {max_unavailable: 0}": "control.max_unavailable: 0 would let nothing ever be done",
    "kind: service\ncontrol: {max_unavailable: 100001}": "control.max_unavailable: 100001 is not between 0 and 100000",
    "control: {isolation: 1m}": "control.isolation: only strict work stops by itself",
    "control: {strict: true, isolation: 1s}": "control.isolation: it is not between 10 s and 86400 s",
    "on_region_loss: 30m": "on_region_loss: it must be a mapping of fields, and is 30m",
    "on_region_loss: {move_after: 0s}": "on_region_loss.move_after: it must be longer than zero",
    "on_region_loss: {wait: true}": "on_region_loss: unknown field 'wait'",
    "placement: incremental": "placement: the tasks of kind training start together, so they are placed together",
    "kind: service\nplacement: incremental\ntopology: {pack: rack}": "placement: tasks that must all lie in one place",
    "placement: partly": "placement: partly is no way to place it; there are gang, incremental",
    "control: {strict: maybe}": "control.strict: maybe is neither true nor false",
    "tenant: a.b": "tenant: use 1 to 128 letters, digits, '_' and '-'",
    "tasks: 0": "tasks: 0 is not between 1 and 100000",
    "tasks: 1.5": "tasks: 1.5 is no whole number",
    "nodes: 0": "nodes: 0 is not between 1 and 100000",
    "nodes: {min: 1, max: 2}": "nodes.max: a workload that grows and shrinks is not supported yet",
    "nodes: {min: 1}": "nodes.max: it is missing; min and max must both be there",
    "nodes: 2\ntasks: 2": "nodes: it is another word for tasks",
    "num_nodes: 2": "unknown field 'num_nodes'; did you mean 'nodes'?",
    "gpus: H100:8": "unknown field 'gpus'; did you mean 'resources.gpus'?",
    "topology: {pack: row}": "topology.pack: row is none of node, rack, pod, zone",
    "topology: {spread: rack, pack: rack}": "topology.spread: tasks that all lie in one rack cannot be spread",
    "topology: {tasks_per_node: 0}": "topology.tasks_per_node: 0 tasks on a node are none",
    "topology: {zones: [a, a]}": "topology.zones: one is named twice",
    "topology: {near: [b, b]}": "topology.near: one is named twice",
    "topology: {near: [b/c]}": "topology.near[0]: b/c is no name",
    "topology: {size: 3}": "topology: unknown field 'size'",
    "alone: maybe": "alone: maybe is neither true nor false",
    "data: {tables: [a]}": "data: it must be a list, and is a mapping",
    "data: clicks": "data: it must be a list, and is one value; write [clicks]",
    "data: [clicks, clicks]": "data: one is named twice",
    "data: [a/b]": "data[0]: a/b is no name",
    "expected: soon": "expected: soon is no span",
    "expected: 0": "expected: it must be longer than zero",
    "expected: 2h\nmax_duration: 1h": "expected: it is longer than max_duration",
    "input: lots": "input: lots is no size",
    "input: 999999999PiB": "is more than any machine has",
    "env: {1: a}": "env: '1' cannot be the name of a variable",
    "env: {A: }": "env.A: it has no value",
    "env: {MIZZEN_JOB_ID: a}": "env.MIZZEN_JOB_ID: names that begin with MIZZEN_ are Mizzen's own",
    'env: {"a\\nb": a}': "env: 'a\\nb' cannot be the name of a variable",
    'env: {A: "\\ud800"}': "env.A: half of a character cannot be part of a text",
    'env: {A: "\\0"}': "run: no text may hold a zero byte",
    "secrets: [MIZZEN_X]": "secrets[0]: MIZZEN_X: names that begin with MIZZEN_ are Mizzen's own",
    "secrets: [a b]": "secrets: 'a b' cannot be the name of a variable",
    "slurm_env: yes": "slurm_env: yes is neither true nor false",
    "emulate: {work: 1m}": "emulate: it stands in place of run",
    "emulate: {}": "emulate.work: it is missing",
    "emulate: {work: 0}": "emulate.work: it must be positive",
    "emulate: {work: 1, exit_code: 256}": "emulate.exit_code: 256 is not between 0 and 255",
    "emulate: {work: 1, beside: {a: 0}}": "emulate.beside.a: 0 is no part of its speed",
    "emulate: {work: 1, beside: {a: 1.1}}": "emulate.beside.a: 1.1 is no part of its speed",
    "jobs: []": "jobs: there must be one at least",
    "jobs: [a]": "jobs[0]: it must be a mapping of fields, and is a",
    "jobs: [{run: x}]": "jobs[0].name: it is missing; each job has one",
    "jobs: {a b: {run: x, resources: {gpus: H100:1}}}": "jobs.a b: use 1 to 128 letters",
    "jobs: {a: {run: x, resources: {gpus: H100:1}}}": "resources: it belongs to each of the jobs",
    "jobs: {a: {run: x, resources: {gpus: H100:1}, jobs: 1}}": "jobs.a: unknown field 'jobs'",
    "? [a]\n: b": "the name of a field must be plain text",
    "<<: a": "<<: only a mapping can be merged in",
    "tenant: !!python/object:os.system x": "tenant: tags like !name are not known here",
    "tenant: *x": "there is no anchor &x before this",
    "retry: &x {task_failed: *x}": "&x would hold itself",
    "a: [": "it is not YAML: expected the node content",
    "a\tb: : c": "it is not YAML: found character '\\t' that cannot start any token",
    "a: b: c": "it is not YAML: mapping values are not allowed here",
    'tenant: "\\UFFFFFFFF"': "it is not YAML: ",
    "tenant: \x01": "character 0x1 is not allowed in YAML",
    "---\nname: b": "a second document begins here",
    f"a: {'[' * 50}{']' * 50}": "it is nested more than 20 deep",
    f"a: [{', '.join('x' * 1 for _ in range(20_000))}]": "it has more than 20000 parts",
    "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{new}: &{new} [{', '.join(9 * [f'*{old}'])}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    ): "it has more than 20000 parts",
}  # fmt: skip


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[:40])
def test_problem_of_one_field(line: str) -> None:
    """It says what is wrong there, and what to write."""
    found = problems(with_line(line))
    assert [LINES[line]] == [LINES[line] for problem in found if LINES[line] in problem], found
    assert all(re.match(r"job\.yaml:\d+:\d+: ", problem) for problem in found)


TYPES = {
    "run: x\nresources: {gpus: [H100:8, A100:8]}": ("H100", ("A100",), 8_000),
    "run: x\nresources: {gpus: [H100:0.5]}": ("H100", (), 500),
    "run: x\nresources: {gpus: any:2}": ("any", (), 2_000),
    "run: x\nresources: {gpus: any:0, cpus: 4}": ("any", (), 0),
    "emulate: {work: 1m}\nresources: {cpus: 4}": ("any", (), 0),
    "emulate: {work: 1m}\nresources: {gpus: cpu:1, cpus: 4}": ("cpu", (), 1_000),
}


@pytest.mark.parametrize("rest", TYPES)
def test_types_that_will_do(rest: str) -> None:
    """One, several by the same count, any, or, for emulated work that asks for CPUs alone, nodes of any."""
    (job,) = read(f"name: a\n{rest}\n").jobs
    assert TYPES[rest] == (job.gpu_type, job.or_types, job.need.gpu_milli)


RESOURCES = {
    "{gpus: 8}": "resources.gpus: 8 names no type; write TYPE:COUNT, for example H100:8, or any:8",
    "{gpus: H100}": "resources.gpus: H100 is not TYPE:COUNT; write H100:1 for one",
    "{gpus: []}": "3:13: resources.gpus: it names no type; write TYPE:COUNT, for example H100:8",
    "{gpus: [H100:8, A100:4]}": "3:28: resources.gpus[1]: A100:4 is another count than 8, that of the first type; all have one",
    "{gpus: [H100:8, A100]}": "3:28: resources.gpus[1]: A100 is not TYPE:COUNT",
    "{gpus: [H100:8, H100:8]}": "3:19: resources.gpus: one is named twice",
    "{gpus: [H100:8, any:8]}": "3:19: resources.gpus: any stands for every type; name no other beside it",
    "{gpus: [cpu:8, H100:8]}": "3:19: resources.gpus: cpu slots cannot stand in for GPUs; name them alone",
    f"{{gpus: [{', '.join(f'G{number}:1' for number in range(17))}]}}": "resources.gpus: 16 types are the most",
    f"{{gpus: [H100:8, {'A' * 129}:8]}}": "resources.gpus: a type is 1 to 128 letters",
    "{gpus: any:0}": "resources: it asks for neither GPU nor CPU",
    "{gpus: H100:1.5}": "resources.gpus: more than one device must be whole devices",
    "{gpus: H100:0.0001}": "resources.gpus: H100:0.0001 is finer than thousandths",
    "{gpus: H100:0}": "resources: it asks for neither GPU nor CPU",
    "{cpus: 4}": "resources.gpus: it is missing; say TYPE:COUNT",
    "{gpus: H100:8, memory: 16G}": "resources.memory: 16G can be read in two ways; write GiB (1024s) or GB (1000s)",
    "{gpus: H100:8, memory: lots}": "resources.memory: lots is no size",
    "{gpus: H100:8, memory: 999999999PiB}": "is more than any machine has",
    "{gpus: H100:8, cpus: 999999999999999}": "resources.cpus: 999999999999999000 is more than",
    "8": "resources: it must be a mapping of fields, and is 8",
}


@pytest.mark.parametrize("resources", RESOURCES)
def test_problem_of_resources(resources: str) -> None:
    """There is one, and nothing follows from it."""
    [problem] = problems(f"name: a\nrun: x\nresources: {resources}\n")
    assert RESOURCES[resources] in problem


@pytest.mark.parametrize(
    "field", ["env: {A: 1}", "secrets: [A]", "directory: /", "early_warning: 1m", "slurm_env: true"]
)
def test_emulated_work_has_no_use_for_fields_of_programs(field: str) -> None:
    """No field of a job file is passed over."""
    [problem] = problems(f"name: a\nresources: {{gpus: H100:8}}\nemulate: {{work: 1m}}\n{field}")
    assert (
        f"job.yaml:4:1: {field.partition(':')[0]}: emulated work has no use for it; leave it out" == problem
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "job.yaml:1:1: it is empty"),
        ("# nothing\n", "job.yaml:2:1: it is empty"),
        ("--- ~", "job.yaml:1:5: it is empty"),
        ("[a]", "job.yaml:1:1: it must be a mapping of fields, such as `name: train`"),
        ("python train.py", "job.yaml:1:1: it must be a mapping of fields, such as `name: train`"),
    ],
)
def test_file_that_is_no_mapping(text: str, said: str) -> None:
    """That is the only problem that is told."""
    assert [said] == problems(text)


def test_problem_of_the_whole_is_told_at_the_top() -> None:
    """A workload that is too large for a log is so as a whole."""
    [problem] = problems(SMALLEST + f"env: {{A: {'x' * 140_000}}}")
    assert problem.startswith("job.yaml:1:1: the whole: 140")


def test_file_is_loaded_from_its_path(tmp_path: Path) -> None:
    """As if submitted from here, or from where it is said; a script too."""
    (tmp_path / "job.yaml").write_text(SMALLEST)
    assert replace(read(SMALLEST)) == load_job(tmp_path / "job.yaml", FOLDER)
    assert str(Path.cwd()) == load_job(HOUSE / "examples" / "charlm.yaml").jobs[0].program.directory  # type: ignore[union-attr]
    assert ("sweep", 4) == ((spec := load_job(HOUSE / "examples" / "sweep.sh")).name, spec.jobs[0].tasks)


FILES = {
    "dir": (None, "it is a directory; name a job file in it"),
    "binary": (b"\x7fELF\xff", "it is not text; name a job file or a script"),
    "zero.yaml": (b"name: a\0b", "it is not text; name a job file or a script"),
    "wide.yaml": ("name: a".encode("utf-16"), "it is not text; name a job file or a script"),
    "large.yaml": (b"#" * (BYTES_MAX + 1), "it has 1048577 bytes, and a job file may have 1048576"),
    "table.csv": (
        b"a,b\n",
        "it is neither a job file (.yaml) nor a script that begins with #! or #SBATCH lines",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_file_that_is_no_job_file(name: str, tmp_path: Path) -> None:
    """One sentence, before anything is made of it."""
    data, said = FILES[name]
    path = tmp_path / name
    path.mkdir() if data is None else path.write_bytes(data)
    with pytest.raises(JobFileError) as caught:
        load_job(path)
    assert f"{path}: {said}" == str(caught.value)


def test_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """By its size alone; and what does not tell its size is read no further than a job file may go."""
    path = tmp_path / "huge.yaml"
    with path.open("wb") as file:
        file.truncate(100 << 20)
    for huge in (path, Path("/dev/zero")):
        with pytest.raises(JobFileError, match="bytes"):
            load_job(huge)


# Whatever it says.

NAMES = st.sampled_from(
    [
        *workload.OF_WORKLOAD,
        *parts.OF_JOB,
        *parts.OF_RESOURCES,
        *stages.OF_PIPELINE,
        *stages.OF_STAGE,
        "<<",
        "?",
        "&a",
        "*a",
        "x",
    ]
)
SCALARS = st.sampled_from([
    "1", "-1", "1e9", "H100:8", "cpu:0.5", "[", "{a: b}", "|", ">-", '"', "'", "~", "a b", "1:30:00", "1-2:3", "16GiB", "9" * 30,
    "&a", "*a", "!!int 3", "!x", "\\", "\x85", "\ud7ff", "é", "- a", "true", "%YAML 1.1", "---", "...", "\t",
])  # fmt: skip
LIKE_A_JOB = st.lists(
    st.tuples(st.integers(0, 4), NAMES, st.one_of(SCALARS, st.text(max_size=20))), max_size=12
).map(lambda lines: "\n".join(f"{' ' * indent}{name}: {scalar}" for indent, name, scalar in lines))


@PROPERTY
@given(st.one_of(LIKE_A_JOB, LIKE_A_JOB.map(SMALLEST.__add__), st.text(max_size=200)))
def test_any_text_is_a_workload_or_has_problems(text: str) -> None:
    """And a workload that was read is one that the queue accepts."""
    spec, found = read_or_not(text)
    if spec is not None:
        assert () == problems_of(spec)
        assert spec.max_duration <= SPAN_MAX
    else:
        assert found
        assert all(problem.place.source == "job.yaml" and problem.text for problem in found)
        assert all(str(problem).isprintable() for problem in found)


def read_or_not(text: str) -> tuple[WorkloadSpec | None, list[Problem]]:
    """Its workload, or all that is wrong with it."""
    try:
        return read(text), []
    except JobFileError as error:
        return None, error.problems


# Maps.

MAP = "name: a\nmap: {function: score.deep:score, inputs: in put.jsonl, outputs: /out/a, credentials: ../ml.json}\nresources: {gpus: cpu:1}\n"


def test_map_is_a_task_that_runs_the_command() -> None:
    """With the node's own Mizzen; its kind is `function`, and paths begin where it is submitted."""
    spec = read(MAP)
    run = (
        "exec \"$MIZZEN_PYTHON\" -I -m mizzen map score.deep:score --inputs '/home/ada/in put.jsonl' --out /out/a "
        "--credentials /home/ml.json"
    )
    job = JobSpec("main", 1, Amount(1_000), "cpu", program=Program(run, "/home/ada"))
    assert WorkloadSpec("a", (job,), kind=Kind.FUNCTION) == spec
    assert environment.PYTHON_VARIABLE == maps.PYTHON_VARIABLE
    assert Kind.BATCH == read(f"{MAP}kind: batch\n").kind
    assert {"A": "b"} == read(f"{MAP}env: {{A: b}}\n").jobs[0].program.env  # type: ignore[union-attr]  # it has one


def test_every_problem_of_a_map_is_told() -> None:
    """At once, each with its line."""
    text = "name: a\nresources: {gpus: cpu:1}\nmap:\n  function: score\n  output: /out\n  inputs: ~/in.jsonl\nnodes: 2\n"
    assert [
        "job.yaml:4:3: map.outputs: it is missing; name a directory for the values",
        "job.yaml:4:13: map.function: score is not of the form module:name; write for example score:score",
        "job.yaml:5:3: map: unknown field 'output'; did you mean 'outputs'?",
        "job.yaml:6:11: map.inputs: ~/in.jsonl: no node knows that home directory; write the whole path",
        "job.yaml:7:1: nodes: a map is one task: its calls run on executors, as many at once as there is room for",
    ] == problems(text)
    for other, field in (("run: x", "map"), ("emulate: {work: 1s}", "map")):
        told = f"{field}: it stands in place of {other.partition(':')[0]}; leave one of them out"
        assert [told] == [one.partition(": ")[2] for one in problems(f"{MAP}{other}\n")]
    assert ["job.yaml:2:6: map: it must be a mapping of fields, and is x"] == problems(
        "name: a\nmap: x\nresources: {gpus: cpu:1}\n"
    )


def test_maps_without_credentials_are_found_wherever_they_stand() -> None:
    """At the top, in a job and in a stage; each with its path."""
    plain = "{function: f:f, inputs: i, outputs: o}"
    top = "resources: {gpus: cpu:1}\nname: a\n"
    given = "{function: f:f, inputs: i, outputs: o, credentials: c}"
    found = {
        f"{top}map: {given}": [],
        f"{top}map: {plain}": ["map.credentials"],
        f"name: a\njobs:\n- {{name: b, map: {plain}, resources: {{gpus: cpu:1}}}}": [
            "jobs[0].map.credentials"
        ],
        f"{top}stages:\n- {{name: b, map: {plain}}}\n- {{name: c, map: {given}}}": [
            "stages[0].map.credentials"
        ],
        f"{top}stages: {{b: {{run: x}}, c: {{map: {plain}, after: [b]}}}}": ["stages.c.map.credentials"],
    }
    assert found == {
        text: [one.field for one in maps.maps_without_credentials(job_of(text).fields)] for text in found
    }


def test_map_is_a_stage_of_its_own_kind_of_work() -> None:
    """A stage with a map takes no `run` from the top."""
    text = f"{SMALLEST}stages: {{train: {{}}, score: {{map: {{function: f:f, inputs: i, outputs: o}}, after: [train]}}}}\n"
    pipeline = job_of(text).pipeline
    assert pipeline is not None
    train, score = (stage.workload for stage in pipeline.stages)
    assert (Kind.TRAINING, Kind.FUNCTION) == (train.kind, score.kind)
    assert "mizzen map f:f" in score.jobs[0].program.run  # type: ignore[union-attr]  # it has one


# The document.


def test_document_has_a_row_for_every_field() -> None:
    """The tables name what the parser knows, and nothing else."""
    inner = {
        "retry": workload.OF_RETRY,
        "checkpoint": workload.OF_CHECKPOINT,
        "control": workload.OF_CONTROL,
        "on_region_loss": workload.OF_REGION_LOSS,
        "emulate": parts.OF_EMULATE,
        "map": maps.OF_MAP,
        "nodes": parts.OF_NODES,
        "resources": parts.OF_RESOURCES,
        "topology": parts.OF_TOPOLOGY,
        "share": shared.OF_SHARE,
    }
    known = {*workload.OF_WORKLOAD, *parts.OF_JOB, *stages.OF_PIPELINE, *stages.OF_STAGE}
    known |= {f"{name}.{field}" for name, fields in inner.items() for field in fields}
    rows = re.findall(r"^\| `([a-z_.]+)` \|(.*)\|$", DOCUMENT, re.MULTILINE)
    assert sorted(known) == sorted(name for name, _ in rows)
    assert [] == [name for name, cells in rows if cells.count("|") != 2]


def test_document_names_every_option_of_slurm() -> None:
    """Those that become something in the table, the others below it."""
    scripts = DOCUMENT.partition("## Scripts")[2]
    table, _, rest = scripts.partition("Left out, with a note")
    ignored, _, refused = rest.partition("Refused, with what to do")
    for text, options in (
        (table.partition("| --- |")[2], slurm_options.TAKEN),
        (ignored, slurm_options.IGNORED),
        (refused, slurm_options.REFUSED),
    ):
        assert sorted(options) == sorted(re.findall(r"`--([a-z-]+)`", text))


@pytest.mark.parametrize(
    "block", re.findall(r"```(yaml|bash)\n(.*?)```", DOCUMENT, re.DOTALL), ids=lambda block: block[0]
)
def test_examples_of_the_document_are_good(block: tuple[str, str]) -> None:
    """Every one can be submitted as it stands."""
    kind, text = block
    job_of(text, "job.yaml" if kind == "yaml" else "job.sh")


@pytest.mark.parametrize("path", sorted((HOUSE / "examples").glob("*.*")), ids=lambda path: path.name)
def test_examples_are_good(path: Path) -> None:
    """Those that come with Mizzen can be submitted."""
    if path.suffix in {".yaml", ".sh"}:
        job = read_job(sheet_of(read_source(str(path))), FOLDER)
        assert path.stem == (job.pipeline or job.spec).name

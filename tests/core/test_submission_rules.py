"""Whether a workload is well formed: every problem at once, each with its field; and whether it could ever fit."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from core.images.region import Hardware
from core.nouns.ids import RegionName, TenantName
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.limits import (
    CHECKPOINT_EVERY_MIN,
    CONTROLLED_TASKS_MAX,
    DATASETS_READ_MAX,
    FACT_BYTES_MAX,
    GPU_TYPES_MAX,
    ISOLATION_MAX,
    ISOLATION_MIN,
    NAME_LENGTH_MAX,
    NEED_MAX,
    RETRIES_MAX,
    SPAN_MAX,
    TASKS_MAX,
    WORKLOAD_MILLI_MAX,
)
from core.nouns.operation import ControlSpec
from core.nouns.quantities import Amount
from core.nouns.workload import (
    Emulation,
    Extent,
    JobSpec,
    Kind,
    Program,
    RetryLimits,
    Serves,
    Topology,
    WorkloadSpec,
)
from core.rules.never_fits import could_fit
from core.rules.submission import problems_of, problems_of_change
from tests.builders import a_job, a_region, a_spec, joined


def fields(spec: WorkloadSpec) -> list[str]:
    """What the problems are about."""
    return [problem.partition(":")[0] for problem in problems_of(spec)]


def with_job(**changed: object) -> WorkloadSpec:
    """A workload whose one job has these parts."""
    return a_spec(replace(a_job(), **changed))


def controlled(**changed: object) -> WorkloadSpec:
    """A workload that is controlled so."""
    return replace(a_spec(), control=replace(ControlSpec(), **changed))


def served(*tasks: int, controller: str = "shards") -> WorkloadSpec:
    """A service whose jobs have so many tasks."""
    jobs = tuple(a_job(count, name=f"job-{number}") for number, count in enumerate(tasks))
    control = replace(ControlSpec(), controller=controller)
    return replace(a_spec(*jobs), kind=Kind.SERVICE, control=control)


def running(**changed: object) -> WorkloadSpec:
    """A workload whose one job runs a program."""
    return with_job(emulation=None, program=replace(Program("true"), **changed))


def emulated(**changed: object) -> WorkloadSpec:
    """A workload whose one job behaves so."""
    return with_job(emulation=replace(Emulation(work=Nanoseconds(1)), **changed))


def serving(kind: Kind = Kind.SERVICE, run: str = "") -> WorkloadSpec:
    """A service whose one job holds capacity for functions."""
    spec = with_job(emulation=None, program=Program(run), serves=Serves.OWN)
    return replace(spec, kind=kind)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(a_spec(), id="smallest"),
        pytest.param(serving(), id="capacity for functions"),
        pytest.param(a_spec(a_job(), a_job(name="eval")), id="two jobs"),
        pytest.param(a_spec(a_job(1, 0.25)), id="a share of a device"),
        pytest.param(a_spec(a_job(TASKS_MAX, 8)), id="as many tasks as may be"),
        pytest.param(a_spec(a_job(1, 0, cpus=1)), id="no GPU"),
        pytest.param(running(), id="a program"),
        pytest.param(running(env={"A_1": ""}, secrets=("TOKEN",), directory="/x"), id="all of a program"),
        pytest.param(emulated(model="bert", beside=(("bert", 1), ("gpt", 1_000_000))), id="all of a partner"),
        pytest.param(emulated(idle=((SECOND, 1), (SECOND, 0)), keeps_bytes=1), id="idle by turns"),
        pytest.param(a_spec(priority=0), id="lowest"),
        pytest.param(a_spec(priority=6), id="highest"),
        pytest.param(a_spec(name="A.b_c-9"), id="every letter that may be"),
        pytest.param(a_spec(name="x" * NAME_LENGTH_MAX), id="longest name"),
        pytest.param(a_spec(tenant="-A_9"), id="every letter of a tenant"),
        pytest.param(controlled(controller="-A_9", unavailable_max=TASKS_MAX), id="all of a controller"),
        pytest.param(served(CONTROLLED_TASKS_MAX - 1, 1), id="as many tasks as a controller has"),
        pytest.param(served(CONTROLLED_TASKS_MAX, 1, controller=""), id="more tasks without a controller"),
        pytest.param(replace(served(CONTROLLED_TASKS_MAX, 1), kind=Kind.TRAINING), id="more tasks in a gang"),
        pytest.param(controlled(is_strict=True, isolation=ISOLATION_MIN), id="alone for a moment"),
        pytest.param(controlled(is_strict=True, isolation=ISOLATION_MAX), id="alone for a day"),
        pytest.param(controlled(isolation=Nanoseconds(0)), id="never alone"),
    ],
)
def test_nothing_is_wrong(spec: WorkloadSpec) -> None:
    """What users may ask for is accepted."""
    assert () == problems_of(spec)


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        pytest.param(a_spec(name=""), ["name"], id="no name"),
        pytest.param(a_spec(name="-x"), ["name"], id="name begins with a dash"),
        pytest.param(a_spec(name="a b"), ["name"], id="blank in the name"),
        pytest.param(a_spec(name="ä"), ["name"], id="other letters"),
        pytest.param(a_spec(name="x\n"), ["name"], id="name ends with a line"),
        pytest.param(a_spec(name="x" * (NAME_LENGTH_MAX + 1)), ["name"], id="long name"),
        pytest.param(a_spec(priority=-1), ["priority"], id="priority below"),
        pytest.param(a_spec(priority=7), ["priority"], id="priority above"),
        pytest.param(replace(a_spec(), jobs=()), ["jobs"], id="no job"),
        pytest.param(a_spec(a_job(), a_job()), ["jobs"], id="two jobs of one name"),
        pytest.param(with_job(name=""), ["jobs[0].name"], id="no name of a job"),
        pytest.param(with_job(name="a b"), ["jobs[0].name"], id="blank in the name of a job"),
        pytest.param(with_job(tasks=0), ["jobs[0].tasks"], id="no task"),
        pytest.param(with_job(tasks=TASKS_MAX + 1), ["jobs[0].tasks"], id="too many tasks"),
        pytest.param(with_job(need=Amount()), ["jobs[0].need"], id="nothing needed"),
        pytest.param(with_job(need=Amount(1_500)), ["jobs[0].need.gpu_milli"], id="a device and a half"),
        pytest.param(with_job(need=Amount(1_000, -1)), ["jobs[0].need.cpu_milli"], id="CPUs below zero"),
        pytest.param(
            with_job(need=Amount(1_000, 0, -1)), ["jobs[0].need.memory_bytes"], id="memory below zero"
        ),
        pytest.param(with_job(or_types=("H100",)), ["jobs[0].gpu_type"], id="a type twice"),
        pytest.param(with_job(or_types=("any",)), ["jobs[0].gpu_type"], id="any beside a type"),
        pytest.param(with_job(or_types=("cpu",)), ["jobs[0].gpu_type"], id="CPU slots beside a type"),
        pytest.param(with_job(or_types=("",)), ["jobs[0].gpu_type"], id="a type without a name"),
        pytest.param(
            with_job(or_types=tuple(f"G{number}" for number in range(GPU_TYPES_MAX))),
            ["jobs[0].gpu_type"],
            id="too many types",
        ),
        pytest.param(with_job(emulation=None), ["jobs[0].program"], id="nothing to do"),
        pytest.param(with_job(program=Program("true")), ["jobs[0].program"], id="two things to do"),
        pytest.param(
            a_spec(a_job(), replace(a_job(name="b"), emulation=None, program=Program("true"))),
            ["jobs"],
            id="one job real and one emulated",
        ),
        pytest.param(
            replace(running(), jobs=(replace(running().jobs[0], need=Amount(49)),)),
            ["jobs[0].need"],
            id="a crumb of a device",
        ),
        pytest.param(
            replace(running(), jobs=(replace(running().jobs[0], need=Amount(0, 99)),)),
            ["jobs[0].need"],
            id="a crumb of a CPU",
        ),
        pytest.param(running(run=" "), ["jobs[0].program.run"], id="empty program"),
        pytest.param(running(directory="a/b"), ["jobs[0].program.directory"], id="relative directory"),
        pytest.param(
            running(checkpoint_dir="a"), ["jobs[0].program.checkpoint_dir"], id="relative checkpoints"
        ),
        pytest.param(running(env={"A-B": "1"}), ["jobs[0].program.env"], id="no name of a variable"),
        pytest.param(running(env={"A": "x\0"}), ["jobs[0].program"], id="zero byte"),
        pytest.param(running(secrets=("",)), ["jobs[0].program.secrets"], id="no name of a secret"),
        pytest.param(running(early_warning=-1), ["jobs[0].program.early_warning"], id="warned before"),
        pytest.param(emulated(work=0), ["jobs[0].emulation.work"], id="no work"),
        pytest.param(
            emulated(checkpoint_every=-1), ["jobs[0].emulation.checkpoint_every"], id="saves before"
        ),
        pytest.param(
            emulated(checkpoint_every=CHECKPOINT_EVERY_MIN - 1),
            ["jobs[0].emulation.checkpoint_every"],
            id="saves all the time",
        ),
        *(
            pytest.param(
                emulated(**{name: SPAN_MAX + 1}),
                [f"jobs[0].emulation.{name}"],
                id=f"more than a century of {name}",
            )
            for name in ("work", "checkpoint_every", "fails_after", "stop_span", "set_up")
        ),
        pytest.param(
            emulated(exit_code=256), ["jobs[0].emulation.exit_code"], id="an exit code of nine bits"
        ),
        pytest.param(emulated(exit_code=-1), ["jobs[0].emulation.exit_code"], id="an exit code below zero"),
        pytest.param(
            running(early_warning=SPAN_MAX + 1),
            ["jobs[0].program.early_warning"],
            id="warned a century before",
        ),
        pytest.param(
            a_spec(retry=RetryLimits(task_failed=RETRIES_MAX + 1)), ["retry"], id="retries for ever"
        ),
        pytest.param(
            a_spec(retry=RetryLimits(start_failed=RETRIES_MAX + 1)), ["retry"], id="starts for ever"
        ),
        pytest.param(with_job(gpu_type=""), ["jobs[0].gpu_type"], id="a single type without a name"),
        pytest.param(with_job(gpu_type="x" * 129), ["jobs[0].gpu_type"], id="a type with a long name"),
        pytest.param(
            with_job(gpu_type="H100 (real)"), ["jobs[0].gpu_type"], id="emulated work on a real node"
        ),
        pytest.param(
            with_job(tasks=TASKS_MAX, need=Amount(WORKLOAD_MILLI_MAX // TASKS_MAX // 1000 * 1000 + 1000)),
            ["jobs"],
            id="more GPUs together than 64 bits hold of a full queue",
        ),
        pytest.param(
            a_spec(
                replace(a_job(), tasks=1 << 9, need=Amount(1_000, 0, NEED_MAX)),
                replace(a_job(name="b"), need=Amount(1_000, 0, 1)),
            ),
            ["jobs"],
            id="more memory together than 64 bits hold",
        ),
        pytest.param(emulated(fails_after=-1), ["jobs[0].emulation.fails_after"], id="fails before"),
        pytest.param(emulated(stop_span=-1), ["jobs[0].emulation.stop_span"], id="stops before"),
        pytest.param(emulated(set_up=-1), ["jobs[0].emulation.set_up"], id="works before"),
        pytest.param(emulated(model="x" * 129), ["jobs[0].emulation.model"], id="a model with a long name"),
        *(
            pytest.param(emulated(beside=beside), ["jobs[0].emulation.beside"], id=f"beside {why}")
            for why, beside in {
                "standing still": (("bert", 0),),
                "faster": (("bert", 1_000_001),),
                "one twice": (("bert", 1), ("bert", 2)),
                "too many": tuple((f"m{number}", 1) for number in range(101)),
                "a long name": (("x" * 129, 1),),
            }.items()
        ),
        pytest.param(emulated(idle=((1, 1),)), ["jobs[0].emulation.idle"], id="idle for a moment"),
        pytest.param(emulated(idle=((SECOND, -1),)), ["jobs[0].emulation.idle"], id="fewer than none idle"),
        pytest.param(emulated(idle=((SECOND, 9),)), ["jobs[0].emulation.idle"], id="more idle than it holds"),
        pytest.param(
            emulated(keeps_bytes=-1), ["jobs[0].emulation.keeps_bytes"], id="less than nothing kept"
        ),
        pytest.param(
            emulated(idle=((SECOND, 1),) * 2_049), ["jobs[0].emulation.idle"], id="a cycle too long"
        ),
        pytest.param(
            emulated(work=SPAN_MAX // 2, beside=(("bert", 499_000),)),
            ["jobs[0].emulation.beside"],
            id="beside one for ever",
        ),
        pytest.param(replace(a_spec(), max_duration=-1), ["max_duration"], id="ends before"),
        pytest.param(replace(a_spec(), grace=-1), ["grace"], id="grace below zero"),
        pytest.param(a_spec(retry=RetryLimits(task_failed=-1)), ["retry"], id="retries below zero"),
        pytest.param(a_spec(retry=RetryLimits(start_failed=-1)), ["retry"], id="starts below zero"),
        pytest.param(a_spec(tenant=""), ["tenant"], id="no tenant"),
        pytest.param(a_spec(tenant="a.b"), ["tenant"], id="tenant that is two parts of a subject"),
        pytest.param(a_spec(tenant="x" * (NAME_LENGTH_MAX + 1)), ["tenant"], id="long tenant"),
        pytest.param(controlled(controller=">"), ["control.controller"], id="all controllers"),
        pytest.param(served(CONTROLLED_TASKS_MAX, 1), ["jobs"], id="more tasks than a controller has"),
        pytest.param(
            controlled(controller="x" * (NAME_LENGTH_MAX + 1)), ["control.controller"], id="long controller"
        ),
        pytest.param(controlled(unavailable_max=-1), ["control.unavailable_max"], id="fewer than none down"),
        pytest.param(
            controlled(unavailable_max=TASKS_MAX + 1), ["control.unavailable_max"], id="more down than may be"
        ),
        pytest.param(
            controlled(is_strict=True, isolation=ISOLATION_MIN - 1),
            ["control.isolation"],
            id="alone too soon",
        ),
        pytest.param(
            controlled(is_strict=True, isolation=ISOLATION_MAX + 1),
            ["control.isolation"],
            id="alone too long",
        ),
        pytest.param(controlled(isolation=Nanoseconds(-1)), ["control.isolation"], id="alone before"),
        pytest.param(serving(Kind.TRAINING), ["serves"], id="a gang for functions"),
        pytest.param(replace(serving(), grace=seconds(1)), ["grace"], id="no time for executors to leave"),
        pytest.param(serving(run="true"), ["jobs[0].program.run"], id="a program beside functions"),
    ],
)
def test_one_thing_is_wrong(spec: WorkloadSpec, wanted: list[str]) -> None:
    """Exactly its field is named."""
    assert wanted == fields(spec)


def test_every_problem_is_told_at_once() -> None:
    """Nobody mends one line to be told of the next."""
    bad = JobSpec("x", 0, Amount(-1, 0, -1), "H100", Emulation(Nanoseconds(0)))
    spec = replace(a_spec(bad, a_job(name="x"), name="", priority=9), grace=Nanoseconds(-1))
    wanted = [
        "name",
        "priority",
        "jobs",
        "jobs[0].tasks",
        "jobs[0].need.gpu_milli",
        "jobs[0].need.memory_bytes",
    ]
    assert [*wanted, "jobs[0].emulation.work", "grace"] == fields(spec)


def test_workload_that_is_larger_than_a_fact() -> None:
    """It is told now, and not when a fact of it cannot be written: its claim holds its jobs too."""
    jobs = [a_job(name=f"{number:05}" + "x" * 100) for number in range(FACT_BYTES_MAX // 400)]
    assert ["the whole"] == fields(a_spec(*jobs))


@pytest.mark.parametrize("milli", [1 << 63, (1 << 64) - 1])
@pytest.mark.parametrize("field", ["gpu_milli", "cpu_milli", "memory_bytes"])
def test_need_that_no_array_can_hold(field: str, milli: int) -> None:
    """It is refused here; an agent that searched for it would fail, and so would the next."""
    need = replace(Amount(1_000), **{field: milli // 1000 * 1000})
    assert [f"jobs[0].need.{field}"] == fields(with_job(need=need))


@pytest.mark.parametrize(
    ("tasks", "topology", "wanted"),
    [
        pytest.param(64, Topology(pack=Extent.NODE), [], id="as many as are searched together"),
        pytest.param(65, Topology(pack=Extent.NODE), ["topology.pack"], id="too many for a node"),
        pytest.param(
            3, Topology(pack=Extent.NODE, tasks_per_node=2), ["topology.pack"], id="apart and together"
        ),
        pytest.param(3, Topology(pack=Extent.NODE, tasks_per_node=3), [], id="no more than it has"),
        pytest.param(3, Topology(spread=Extent.NODE), ["topology.spread"], id="a node of its own for each"),
        pytest.param(
            3, Topology(pack=Extent.RACK, spread=Extent.RACK), ["topology.spread"], id="over racks of a rack"
        ),
    ],
)
def test_where_tasks_may_lie(tasks: int, topology: Topology, wanted: list[str]) -> None:
    """What can never be kept to is refused."""
    assert [f"jobs[0].{field}" for field in wanted] == fields(with_job(tasks=tasks, topology=topology))


def test_region_named_twice() -> None:
    """It would be asked twice and answer once, and its auction would wait for the other answer each time."""
    eu = RegionName("eu")
    assert ["regions"] == fields(a_spec(regions=(eu, eu)))


# Changes.


def changed_fields(was: WorkloadSpec, *jobs: JobSpec) -> list[str]:
    """What the problems of giving it these jobs are about."""
    return [problem.partition(":")[0] for problem in problems_of_change(was, jobs)]


@pytest.mark.parametrize(
    ("was", "job"),
    [
        pytest.param(a_spec(), a_job(), id="nothing"),
        pytest.param(a_spec(), a_job(7), id="tasks"),
        pytest.param(emulated(), emulated(work=Nanoseconds(7)).jobs[0], id="emulation"),
        pytest.param(running(), running(run="other", env={"A": "1"}).jobs[0], id="program"),
    ],
)
def test_change_that_is_one(was: WorkloadSpec, job: JobSpec) -> None:
    """What the tasks run, and how many there are."""
    assert [] == changed_fields(was, job)


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        pytest.param({"name": "other"}, ["jobs"], id="name"),
        pytest.param({"gpu_type": "A100"}, ["jobs[0].gpu_type"], id="type"),
        pytest.param({"or_types": ("A100",)}, ["jobs[0].gpu_type"], id="other types"),
        pytest.param({"need": Amount(2_000)}, ["jobs[0].need.gpu_milli"], id="devices"),
        pytest.param(
            {"need": Amount(1_000, 1, 1)},
            ["jobs[0].need.cpu_milli", "jobs[0].need.memory_bytes"],
            id="the rest",
        ),
        pytest.param({"emulation": None, "program": Program("x")}, ["jobs[0].program"], id="from emulated"),
        pytest.param({"emulation": None}, ["jobs[0].program"], id="to nothing"),
        pytest.param({"tasks": 0}, ["jobs[0].tasks"], id="no task"),
        pytest.param({"tasks": TASKS_MAX + 1}, ["jobs[0].tasks"], id="too many tasks"),
    ],
)
def test_change_that_is_none(changed: dict[str, object], wanted: list[str]) -> None:
    """A task keeps its room when it is started again: what it needs, and on what, stays."""
    assert wanted == changed_fields(a_spec(), replace(a_job(), **changed))


def test_change_of_a_workload_that_would_not_be_accepted_today() -> None:
    """An older build took it: only the errors of the change are told."""
    was = replace(a_spec(a_job(), a_job(name="eval")), tenant=TenantName("a.b"), priority=9)
    assert [] == changed_fields(was, a_job(2), a_job(name="eval"))
    assert ["jobs[1].tasks"] == changed_fields(was, a_job(2), a_job(0, name="eval"))


def test_change_to_more_tasks_than_a_controller_has() -> None:
    """A service grows to no more than it could be submitted with."""
    was = served(CONTROLLED_TASKS_MAX - 1, 1)
    assert ["jobs"] == changed_fields(was, was.jobs[0], replace(was.jobs[1], tasks=2))


def test_change_to_a_spec_larger_than_a_fact() -> None:
    """It is refused as at the submission."""
    assert ["the whole"] == changed_fields(running(), running(run="x" * FACT_BYTES_MAX).jobs[0])


def either(job: JobSpec) -> JobSpec:
    """The same, for which another type would do as well."""
    return replace(job, or_types=("A100",))


def hardware(*nodes: tuple[int, float, str]) -> Hardware:
    """So many nodes of so many GPUs of a type."""
    joins = []
    first = 0
    for number, (count, gpus, gpu_type) in enumerate(nodes):
        total = Amount(round(1000 * gpus), 9, 9)
        joins.append(joined(f"w{number}", first, count, total=total, gpu_type=gpu_type))
        first += count
    return a_region(*joins).hardware


@pytest.mark.parametrize(
    ("spec", "does_fit"),
    [
        pytest.param(a_spec(a_job(1, 8)), True, id="the largest task"),
        pytest.param(a_spec(a_job(1, 9)), False, id="a task larger than any node"),
        pytest.param(a_spec(a_job(20, 1)), True, id="all of it"),
        pytest.param(a_spec(a_job(21, 1)), False, id="more than all of it"),
        pytest.param(a_spec(a_job(16, 1), a_job(4, 1, name="eval")), True, id="all of it in two jobs"),
        pytest.param(a_spec(a_job(16, 1), a_job(5, 1, name="eval")), False, id="too much in two jobs"),
        pytest.param(a_spec(a_job(20), a_job(1, name="eval", gpu_type="A100")), True, id="two types"),
        pytest.param(a_spec(a_job(gpu_type="B200")), False, id="a type that is not there"),
        pytest.param(a_spec(either(a_job(20))), True, id="all of one of two types"),
        pytest.param(a_spec(either(a_job(21))), False, id="more than there is of either type"),
        pytest.param(
            a_spec(either(a_job(14)), either(a_job(8, name="b"))), True, id="two jobs on both types"
        ),
        pytest.param(
            a_spec(
                either(a_job(20)), a_job(1, name="b", gpu_type="any"), a_job(8, name="c", gpu_type="A100")
            ),
            False,
            id="more than all types together",
        ),
        pytest.param(
            a_spec(either(a_job(12)), a_job(9, name="b")), False, id="two jobs that only one type holds"
        ),
    ],
)
def test_could_fit_into_empty_nodes(spec: WorkloadSpec, *, does_fit: bool) -> None:
    """A no is final: two nodes of 8, one of 4 and one of another type, were they all empty, could never hold it."""
    assert does_fit == could_fit(spec, hardware((2, 8, "H100"), (1, 4, "H100"), (1, 8, "A100")))


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        pytest.param(lambda spec: replace(spec, name="other", tenant="t"), True, id="name"),
        pytest.param(lambda spec: replace(spec, grace=5), True, id="grace"),
        pytest.param(lambda spec: replace(spec, priority=4), True, id="priority"),
        pytest.param(lambda spec: replace(spec, regions=("eu",)), False, id="regions"),
        pytest.param(lambda spec: replace(spec, jobs=(a_job(3),)), False, id="tasks"),
        pytest.param(lambda spec: replace(spec, jobs=(a_job(2, cpus=1),)), False, id="CPUs"),
        pytest.param(lambda spec: replace(spec, jobs=(a_job(2, gpu_type="A100"),)), False, id="type"),
        pytest.param(lambda spec: replace(spec, jobs=(either(a_job(2)),)), False, id="types"),
    ],
)
def test_shape_is_equal_exactly_where_places_are(
    change: Callable[[WorkloadSpec], WorkloadSpec], *, is_same: bool
) -> None:
    """A refusal holds for a shape: whoever fits where another does not must have another."""
    spec = a_spec(a_job(2))
    assert is_same == (spec.shape == change(spec).shape)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(["clicks", "clicks"], id="twice"),
        pytest.param([""], id="no name"),
        pytest.param(["a/b"], id="a path"),
        pytest.param(["x" * (NAME_LENGTH_MAX + 1)], id="too long"),
        pytest.param([f"part-{number}" for number in range(DATASETS_READ_MAX + 1)], id="too many"),
    ],
)
def test_data_that_is_no_list_of_datasets(data: list[str]) -> None:
    """Told by its field, once."""
    assert ["data"] == fields(a_spec(data=data))
    assert [] == fields(a_spec(data=["clicks", "users.daily-2"]))

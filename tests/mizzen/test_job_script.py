"""Scripts: what their `#SBATCH` and `#MIZZEN` lines ask for, and that they run as they were written."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.nouns.instant import SECOND
from core.nouns.quantities import Amount
from core.nouns.workload import JobSpec, Program, WorkloadSpec
from mizzen.jobs.file import JobFileError, read_job
from mizzen.jobs.source import Sheet, Source, sheet_of
from tests.core.properties import PROPERTY

GIB = 1 << 30
FOLDER = Path("/home/ada")
SHELL = {"HOME": "/home/ada", "TOKEN": "x"}


def sheet(text: str, *arguments: str, name: str = "train.sh") -> Sheet:
    """What a script says that is submitted from Ada's shell."""
    return sheet_of(Source(name, text, name), arguments, SHELL)


def read(text: str, *arguments: str) -> WorkloadSpec:
    """The workload of a script."""
    return read_job(sheet(text, *arguments), FOLDER).spec


def asked(*lines: str) -> JobSpec:
    """The job of a script with these lines."""
    return read("\n".join((*lines, "true"))).jobs[0]


def problems(*lines: str) -> list[str]:
    """All that is wrong with a script of these lines."""
    with pytest.raises(JobFileError) as caught:
        asked(*lines)
    return [str(problem) for problem in caught.value.problems]


def program_of(job: JobSpec) -> Program:
    """What it runs."""
    assert job.program is not None
    return job.program


# What its lines ask for.


def test_script_of_every_option() -> None:
    """As somebody has it who used Slurm until yesterday."""
    spec = read("""\
#!/bin/sh
#SBATCH -J llama -N 2 --gres=gpu:H100:8   # two whole nodes
#SBATCH --time=1-12 --requeue --signal=B:USR1@300
#SBATCH -A research -c 8 --mem 64G -D /data
#SBATCH --export=NONE,MODEL=small,TOKEN

true
""")
    job = spec.jobs[0]
    assert ("llama", "research", 36 * 3600 * SECOND) == (spec.name, spec.tenant, spec.max_duration)
    assert (2, "H100", Amount(8_000, 8_000, 64 * GIB)) == (job.tasks, job.gpu_type, job.need)
    program = program_of(job)
    assert ("/data", {"MODEL": "small", "TOKEN": "x"}, 300 * SECOND, True) == (
        program.directory, program.env, program.early_warning, program.has_slurm_env,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "tasks", "gpus"),
    [
        ("--gres=gpu:H100:8", 1, 8),
        ("--gres=gpu:H100", 1, 1),
        ("--gres gpu:H100:8(S:0-1)", 1, 8),
        ("-N2 --gres=gpu:H100:8", 2, 8),
        ("-N 2-2 --gpus-per-node=H100:8", 2, 8),
        ("-N 2 --ntasks-per-node=8 --gpus-per-node H100:8", 16, 1),
        ("--ntasks-per-node=4 --gres=gpu:H100:8", 4, 2),
        ("-N 2 -n 16 --gres=gpu:H100:8", 16, 1),
        ("-n 1 --gres=gpu:H100:8", 1, 8),
        ("-n 4 --gpus-per-task=H100:2", 4, 2),
        ("-n 4 -G H100:8", 4, 2),
        ("-n 4 --gpus=8 --gpus-per-task=H100:2", 4, 2),
        ("-N 1 -N 3 --gres=gpu:H100:8", 3, 8),
    ],
)
def test_gpus_of_nodes_are_divided_among_tasks(lines: str, tasks: int, gpus: int) -> None:
    """Each task asks for what it would have of its node; of two that say the same the later holds."""
    job = asked(f"#SBATCH {lines}")
    assert (tasks, "H100", gpus * 1_000) == (job.tasks, job.gpu_type, job.need.gpu_milli)


@pytest.mark.parametrize(
    ("line", "gpus"), [("--gres=gpu:8", 8), ("-n 2 -G 8", 4), ("-n 4 --gpus=8 --gpus-per-task=2", 2)]
)
def test_gpus_of_no_type_are_of_any(line: str, gpus: int) -> None:
    """As Slurm takes it; and it is told, for GPUs differ."""
    found = sheet(f"#SBATCH {line}\ntrue")
    (job,) = read_job(found, FOLDER).spec.jobs
    assert ("any", gpus * 1_000) == (job.gpu_type, job.need.gpu_milli)
    assert [note for note in found.notes if note.endswith("names no type, so GPUs of any will do")]


@pytest.mark.parametrize(
    ("lines", "memory"),
    [
        ("--mem=1000", 1_000 << 20), ("--mem=16G", 16 * GIB), ("--mem=16GB", 16 * GIB), ("-N 2 --mem=16G", 16 * GIB),
        ("--ntasks-per-node=4 --mem=16G", 4 * GIB), ("-c 4 --mem-per-cpu=1G", 4 * GIB), ("--mem-per-gpu=2G", 16 * GIB),
    ],
)  # fmt: skip
def test_memory(lines: str, memory: int) -> None:
    """Of one task, in 1024s, and in megabytes unless a letter is given."""
    per_task = 4 if "per-node" in lines else 1
    assert memory == asked(f"#SBATCH --gres=gpu:H100:{8 * per_task} {lines}").need.memory_bytes


@pytest.mark.parametrize(
    ("time", "seconds"),
    [("90", 5_400), ("1:30", 90), ("1:30:00", 5_400), ("1-0", 86_400), ("1-1:30", 91_800), ("UNLIMITED", 0), ("0", 0)],
)  # fmt: skip
def test_time(time: str, seconds: int) -> None:
    """A bare number is minutes, as nowhere else."""
    assert seconds * SECOND == read(f"#SBATCH -t {time} --gres=gpu:H100:1\ntrue").max_duration


def test_script_without_a_word_of_gpus() -> None:
    """It is work for CPUs, and its author is told so."""
    found = sheet("#SBATCH -n 4 -c 2\ntrue\n")
    job = read_job(found, FOLDER).spec.jobs[0]
    assert (4, "cpu", Amount(2_000)) == (job.tasks, job.gpu_type, job.need)
    assert ["train.sh: it asks for no GPU, so each task gets cpu:2"] == found.notes


def test_lines_of_ours_go_before_those_of_slurm() -> None:
    """They set any field; the type of a GPU that Slurm's line leaves out among them."""
    spec = read(
        "#SBATCH --gres=gpu:8 -A somebody -N 2\n"
        "#MIZZEN --gpus H100:4 --tenant=me --retry.task_failed 3 --regions [eu,us] --env.GREETING 'good day'\n"
        "#MIZZEN --slurm_env false --checkpoint.every 5m --cpus 4 --memory 1GiB\n"
        "true"
    )
    job = spec.jobs[0]
    assert ("me", 3, ("eu", "us")) == (spec.tenant, spec.retry.task_failed, spec.regions)
    assert (2, Amount(4_000, 4_000, GIB)) == (job.tasks, job.need)
    assert {"MIZZEN_CHECKPOINT_SECONDS": "300", "GREETING": "good day"} == program_of(job).env
    assert not program_of(job).has_slurm_env


def test_lines_are_read_up_to_the_first_command() -> None:
    """As sbatch does; what comes later is told of, and so is a command that is not there."""
    found = sheet(
        "#!/bin/sh\n# a comment\n\n##SBATCH -n 9\n#SBATCHES\n#SBATCH -n 4 -p gpu -o out\ncd x\n#SBATCH -n 5\n  srun python x\n"
    )
    assert 4 == read_job(found, FOLDER).spec.jobs[0].tasks
    assert [
        "train.sh:6:14: --partition is left out: Mizzen has no partitions, and finds nodes of the type that is asked for",
        "train.sh:6:21: --output is left out: `mizzen logs` shows what a task writes",
        "train.sh: it asks for no GPU, so each task gets cpu:1",
        "train.sh:8: #SBATCH lines behind the first command are not read",
        "train.sh:9: there is no srun here; the script itself runs once for each task",
    ] == found.notes


PROBLEMS = {
    "#SBATCH --gres=shard:8": "--gres: shard:8 is not of the form gpu:H100:8",
    "#SBATCH --gres=gpu:a:1,gpu:b:1": "--gres: gpu:a:1,gpu:b:1 is not of the form gpu:H100:8",
    "#SBATCH --ntasks-per-node=3 --gres=gpu:H100:8": "--gres: 8 GPUs do not divide among 3 tasks",
    "#SBATCH -n 8 --gres=gpu:H100:8": "--gres: how many tasks share a node is not said",
    "#SBATCH -n 8 --mem=8G": "--mem: how many tasks share a node is not said",
    "#SBATCH --gres=gpu:H100:8 --gpus-per-task=4": "--gpus-per-task: it is 4 GPUs a task, and --gres is 8",
    "#SBATCH -N 2 -n 3 --gpus-per-task=H100:1": "--ntasks: 3 tasks do not divide among 2 nodes",
    "#SBATCH -N 2 -n 4 --ntasks-per-node=1": "--ntasks: 2 nodes with 1 tasks each have not 4",
    "#SBATCH -N 1-2": "--nodes: 1-2: a range is not supported yet; say one number",
    "#SBATCH -N none": "--nodes: none is no whole number",
    "#SBATCH -N 0": "--nodes: 0 is less than one",
    "#SBATCH --mem=0": "--mem: all that a node has cannot be asked for; say how much",
    "#SBATCH --mem=much": "--mem: much is no size; write for example 16G",
    "#SBATCH -t soon": "--time: soon is no span",
    "#SBATCH --signal=HUP@60": "--signal: HUP@60: only USR1 can be sent early",
    "#SBATCH --export=NOTHERE": "--export: NOTHERE is not set in this shell",
    "#SBATCH --export=A-B=c": "--export: A-B cannot be the name of a variable",
    "#SBATCH --array=1-9": "--array: arrays are not supported yet",
    "#SBATCH -C h100": "--constraint: features of nodes are not supported",
    "#SBATCH --exclusive": "--exclusive: a node cannot be asked for as such",
    "#SBATCH --ntask=3": "unknown option --ntask; did you mean --ntasks?",
    "#SBATCH -Z 3": "unknown option -Z",
    "#SBATCH -N": "--nodes: it has no value",
    "#SBATCH train": "train belongs to no option",
    "#SBATCH -J 'a": "a quotation mark is not closed on this line",
    "#SBATCH -J 'a b'": "name: use 1 to 128 letters",
    "#SBATCH -A 'a b'": "tenant: a b is no name",
    "#MIZZEN --priority": "priority: it has no value",
    "#MIZZEN --priority high": "priority: high is no whole number",
    "#MIZZEN --prority 3": "unknown field 'prority'; did you mean 'priority'?",
    "#MIZZEN --name.first x": "name.first: there is no such field",
    "#MIZZEN --env.A {": "it is not YAML",
    "#MIZZEN -n 3": "-n is not of the form --FIELD VALUE",
    "#!/bin/bash\r": "its lines end as on Windows",
    "#!/usr/bin/awk -f": "#!/usr/bin/awk -f: how to run that is not known; let a shell script start it",
    "#!'": "#!': how to run that is not known",
}


@pytest.mark.parametrize("line", PROBLEMS)
def test_problem_of_one_line(line: str) -> None:
    """It says what to write; what cannot be given is never passed over."""
    found = problems(line)
    assert [PROBLEMS[line]] == [PROBLEMS[line] for problem in found if PROBLEMS[line] in problem], found
    assert all(problem.startswith("train.sh:1:") for problem in found)


def test_everything_wrong_is_told_at_once() -> None:
    """With its line and column, and nothing that only follows from it."""
    assert [
        "train.sh:2:9: --nodes: x is no whole number",
        "train.sh:2:14: --gres: gpu:x:y is not of the form gpu:H100:8",
        "train.sh:3:9: --array: arrays are not supported yet; submit each index by itself",
        "train.sh:4:9: priority: 7 is not between 0 and 6",
    ] == problems("#!/bin/bash", "#SBATCH -N x --gres=gpu:x:y", "#SBATCH --array=1-3", "#MIZZEN --priority 7")


# That it runs.

LOUD = """\
# 'quotes', "quotes", `ticks`, $dollars, \\backslashes, {braces} and an EOF
cat <<'EOF'
$HOME "it's"
EOF
echo "$0 has $#: $1|$2"
"""


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ("#!/bin/sh", "/bin/sh has 2: a b|it's"),
        ("", "/bin/sh has 2: a b|it's"),
        ("#!/bin/bash", "train.sh has 2: a b|it's"),
        ("#!/usr/bin/env bash", "train.sh has 2: a b|it's"),
        ("#!/bin/sh -e", "train.sh has 2: a b|it's"),
    ],
)
def test_shell_script_runs_as_it_was_written(first: str, said: str) -> None:
    """Whatever is in it, under the shell that it names, with its arguments."""
    program = program_of(read(f"{first}\n{LOUD}", "a b", "it's").jobs[0])
    assert f'$HOME "it\'s"\n{said}\n' == ran(program.run)


@pytest.mark.parametrize(
    "first", ["#!/usr/bin/env python3", "#!/usr/bin/env -S python3 -u", "#!/usr/bin/python3"]
)
def test_python_script_runs_as_it_was_written(first: str) -> None:
    """Of other interpreters too the whole text is an argument."""
    text = f"{first}\nimport sys\nprint('it\\'s', *sys.argv[1:])\n"
    program = program_of(read_job(sheet(text, "a b", name="train"), FOLDER).spec.jobs[0])
    assert "it's a b\n" == ran(program.run.replace("/usr/bin/python3", "/usr/bin/env python3"))


def ran(run: str) -> str:
    """What a task prints."""
    return subprocess.run(
        ["/bin/sh", "-c", run], capture_output=True, text=True, check=True, timeout=10
    ).stdout


@pytest.mark.parametrize(
    ("path", "name"), [("a/my job.sh", "my-job.sh"), (".x.sh", "x.sh"), ("é.sh", "sh"), ("", "stdin")]
)
def test_script_is_called_as_its_file(path: str, name: str) -> None:
    """As far as a workload may be called so."""
    assert name == read_job(sheet_of(Source(path or "stdin", "#!/bin/sh\ntrue", path)), FOLDER).spec.name


@pytest.mark.parametrize(
    "text", ["#!/bin/bash\ntrue", "#SBATCH -n 3\ntrue", "\n# x\n#MIZZEN --tasks 3\ntrue"]
)
def test_script_is_known_by_how_it_begins(text: str) -> None:
    """Where its name does not tell."""
    assert "main" == read_job(sheet_of(Source("stdin", text)), FOLDER).spec.jobs[0].name


LINES = st.lists(
    st.tuples(
        st.sampled_from(["#SBATCH ", "#MIZZEN ", "#!", ""]),
        st.sampled_from([
            "", "-N", "-n 2", "--gres=gpu:", "--gpus", "--mem=", "-t ", "--signal=", "--export=", "--env.", "--set ", "'", "#",
        ]),
        st.text(max_size=12),
    ),
    max_size=6,
).map(lambda lines: "\n".join("".join(line) for line in lines))  # fmt: skip


@PROPERTY
@given(LINES)
def test_any_script_is_a_workload_or_has_problems(text: str) -> None:
    """And never anything else."""
    try:
        spec = read(text)
    except JobFileError as error:
        found = [str(problem) for problem in error.problems]
        spec = None
    else:
        found = []
    assert (spec is None) == bool(found)
    assert all(problem.isprintable() for problem in found)

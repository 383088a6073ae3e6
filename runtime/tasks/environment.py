"""What a task sees: torchrun's variables, Mizzen's, on request Slurm's, the user's, and little of the worker's own.

The worker's environment holds the password of the bus, so it is not handed on but for a few names that programs need.
"""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from core.messages.workers import PrepareTasks
from core.nouns.fleet import CPU_TYPE
from core.nouns.function import GpuPart, Holding
from core.nouns.function import Place as NodePlace
from core.nouns.limits import SECRETS_BYTES_MAX
from core.nouns.operation import WHOLE
from core.nouns.pipeline import stage_variable
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import Program, Serves
from runtime.tasks.layout import file_name
from runtime.tasks.processes import MARK
from runtime.tasks.slots import Slots

INHERITED = (
    "PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER", "SHELL", "LD_LIBRARY_PATH", "MIZZEN_DATA_DIR",
)  # fmt: skip
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
"""A task has as many CPUs as it has slots; libraries would start a thread for each of the machine's."""
PYTHON_PATH = "PYTHONPATH"
SDK = Path(__file__).resolve().parents[2] / "mizzen" / "sdk"
"""The directory with the package `mizzen` that training scripts import (mizzen/sdk/__init__.py), behind the user's own places."""
PYTHON_VARIABLE = "MIZZEN_PYTHON"
"""Names the interpreter with the node's own Mizzen, for a task that runs commands: `"$MIZZEN_PYTHON" -I -m mizzen`."""
HOLDING, BOOK = "MIZZEN_HOLDING", "MIZZEN_FUNCTION_BOOK"
"""What a task that serves functions holds, and the directory where it says so."""
HOLD = f'exec "${PYTHON_VARIABLE}" -I -m runtime.functions.hold'
"""What such a task runs."""
DEVICES, BELL = "MIZZEN_DEVICES", "MIZZEN_BELL"
"""How many devices a task holds, and how it says that some are idle (mizzen/sdk/mizzen/lending.py)."""
OURS = "MIZZEN_"
"""No variable of a user's begins with it: those of the worker do, and what it tells a task."""
ASKED = frozenset({"MIZZEN_CHECKPOINT_SECONDS"})
"""Of ours, what a job file may ask for: how often the program would like to write a checkpoint."""
SECRET = "MIZZEN_SECRET_"  # noqa: S105  # a name, not one
"""Before a secret's name in the worker's environment: nobody who submits may read other variables of whoever runs nodes."""

_ASSIGNMENTS = re.compile(r"(?:[A-Za-z_]\w*=[^\s'\"`$\\;&|<>(){}]*[ \t]+)*")
_ONE_COMMAND = re.compile(
    r"""(?:[<>]&|[^'"\\;&|()\n`#]|'[^']*'|"(?:[^"\\`]|\\.)*"|\\[^\n]|\\\n)*""", re.DOTALL
)
_FIRST_WORD = re.compile(r"[A-Za-z0-9_./+-]+(?=\s|$)")
_OF_THE_SHELL = (
    ". : [ [[ ! { } alias bg bind break builtin caller case cd command continue declare dirs disown do done echo elif else "
    "enable esac eval exec exit export false fc fg fi for function getopts hash help history if in jobs kill let local "
    "logout mapfile popd printf pushd pwd read readarray readonly return select set shift shopt source suspend test then "
    "time times trap true type typeset ulimit umask unalias unset until wait while"
)
"""Words that are no program, or do something else in a shell than the program of that name."""


NOT_SHARED = -1
"""Of a task that takes whole devices, or whose region does not say with whom it shares one."""


class Place(Struct, frozen=True):
    """Where one task stands among the others, and what it holds."""

    job: int
    rank: int
    local_rank: int
    local_count: int
    group: int
    """Where its node stands among those of the job."""
    node: int
    slots: Slots = ()
    devices: tuple[str, ...] = ()
    """The UUIDs of its GPUs."""
    shared: int = NOT_SHARED
    """The number of the device on its node of which it has a part."""


class Addresses(Struct, frozen=True):
    """What all tasks of a gang learn when they start."""

    masters: tuple[str, ...] = ()
    """By job, `host:port` of its rank 0."""
    hosts: tuple[tuple[str, ...], ...] = ()
    """By job, of its nodes in order."""


class SecretMissing(Exception):
    """A secret that was asked for is not on this node, or may not be had. Names it, and never says what is in one."""


def environment_of(
    command: PrepareTasks,
    place: Place,
    addresses: Addresses,
    directory: Path,
    checkpoints: Path,
    inherited: Mapping[str, str],
) -> dict[str, str]:
    """All that a task sees, but for its secrets.

    directory    the task's own, by which whatever descends from it is found
    checkpoints  where attempts keep checkpoints unless the program names a place
    inherited    the worker's own environment
    """
    program = program_of(command, place)
    theirs = {name: inherited[name] for name in INHERITED if name in inherited} | ONE_THREAD
    theirs |= {name: text for name, text in program.env.items() if not _is_ours(name)}
    seen = {name: text for name, text in theirs.items() if name not in program.secrets}
    seen[PYTHON_PATH] = os.pathsep.join(filter(None, (seen.get(PYTHON_PATH, ""), str(SDK))))
    seen |= _as_torchrun(command, place, addresses)
    seen |= _ours(command, place, addresses, checkpoints_of(command, place, checkpoints))
    seen |= _of_stages(command, checkpoints)
    seen[MARK] = str(directory)
    if command.jobs[place.job].gpu_type != "cpu":
        seen["CUDA_VISIBLE_DEVICES"] = ",".join(place.devices)
    if program.has_slurm_env:
        seen |= _as_slurm(command, place, addresses)
    return seen


def run_of(command: PrepareTasks, place: Place) -> str:
    """What the task's shell runs."""
    is_serving = command.jobs[place.job].serves is not Serves.NO
    return HOLD if is_serving else replacing_shell(program_of(command, place).run)


def of_holding(command: PrepareTasks, place: Place, name: str, book: Path) -> dict[str, str]:
    """What a task that serves functions is told of what it holds under this name; nothing to any other."""
    job = command.jobs[place.job]
    if job.serves is Serves.NO:
        return {}
    has_gpus = job.gpu_type != CPU_TYPE
    gpus = tuple(GpuPart(slot, milli) for slot, milli in place.slots) if has_gpus else ()
    slots = () if has_gpus else tuple(slot for slot, _ in place.slots)
    # A CPU slot is a core: calls need cores, as on nodes with GPUs.
    cores = Amount(0, max(job.need.gpu_milli, job.need.cpu_milli), job.need.memory_bytes)
    amount = job.need if has_gpus else cores
    holding = Holding(name, command.tenant, job.serves, False, gpus, slots, amount, NodePlace(place.node))
    return {HOLDING: msgspec.json.encode(holding).decode(), BOOK: str(book)}


def of_lending(place: Place, told: Path) -> dict[str, str]:
    """What a task is told that may lend its devices: how many it holds whole, and the pipe by which its worker hears."""
    whole = sum(milli == MILLI for _, milli in place.slots)
    return {DEVICES: str(whole), BELL: str(told)}


def _is_ours(name: str) -> bool:
    return name.startswith(OURS) and name not in ASKED


def without_lost_checkpoint(environ: dict[str, str]) -> str:
    """Take out what there is to resume if it is not on this node; returns what to tell the task's user then."""
    resumed = environ.get("MIZZEN_RESUME_FROM", "")
    if not resumed or Path(resumed).exists():
        return ""
    del environ["MIZZEN_RESUME_FROM"]
    step = environ.pop("MIZZEN_RESUME_STEP")
    return (
        f"mizzen: the checkpoint of step {step} is not on this node ({resumed}), so this attempt starts from the beginning; "
        "name a checkpoint.dir on storage that all nodes see\n"
    )


def program_of(command: PrepareTasks, place: Place) -> Program:
    """What the task runs."""
    program = command.jobs[place.job].program
    assert program is not None, (command.workload, place)
    return program


def checkpoints_of(command: PrepareTasks, place: Place, base: Path) -> Path:
    """Under which each attempt of the workload has a directory."""
    named = program_of(command, place).checkpoint_dir
    return (Path(named) if named else base) / file_name(command.workload)


def secrets_of(program: Program, inherited: Mapping[str, str], directory: Path) -> dict[str, str]:
    """What the program asked to be told in secret: from a file of that name, or the worker's environment under `SECRET`.

    Raises SecretMissing.
    """
    found = {}
    for name in program.secrets:
        if name.startswith(OURS) or not name.isidentifier():
            raise SecretMissing(f"{name} cannot be a secret's name")
        try:
            given = inherited.get(f"{SECRET}{name}")
            found[name] = (directory / name).read_text().rstrip("\n") if given is None else given
        except (OSError, UnicodeDecodeError) as error:
            raise SecretMissing(
                f"secret {name} is not on this node: write it into {directory / name}, or set {SECRET}{name} for the worker"
            ) from error
        if "\0" in found[name]:
            raise SecretMissing(f"secret {name} holds a zero byte, which no variable can")
    if sum(len(name) + len(text.encode()) for name, text in found.items()) > SECRETS_BYTES_MAX:
        raise SecretMissing(f"the secrets are larger than {SECRETS_BYTES_MAX} bytes together")
    return found


def replacing_shell(run: str) -> str:
    """The same, with `exec` where it is one command, so that signals reach the program and not a shell that waits for it.

    Not every `sh -c` does so by itself (Debian's dash does not). Where there is a doubt the shell stays.
    """
    text = run.strip()
    assignments = _ASSIGNMENTS.match(text)
    assert assignments is not None, run
    at = assignments.end()
    first = _FIRST_WORD.match(text, at)
    is_one = first is not None and first[0] not in _OF_THE_SHELL.split() and _ONE_COMMAND.fullmatch(text)
    return f"{text[:at]}exec {text[at:]}" if is_one else run


def _as_torchrun(command: PrepareTasks, place: Place, addresses: Addresses) -> dict[str, str]:
    host, port = _master(place, addresses)
    return {
        "RANK": str(place.rank),
        "LOCAL_RANK": str(place.local_rank),
        "WORLD_SIZE": str(command.jobs[place.job].tasks),
        "LOCAL_WORLD_SIZE": str(place.local_count),
        "GROUP_RANK": str(place.group),
        "MASTER_ADDR": host,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RESTART_COUNT": _restarts(command),
        "TORCHELASTIC_RUN_ID": command.workload,
    }


def _ours(command: PrepareTasks, place: Place, addresses: Addresses, checkpoints: Path) -> dict[str, str]:
    host, port = _master(place, addresses)
    seen = {
        PYTHON_VARIABLE: sys.executable,
        "MIZZEN_JOB_ID": command.workload,
        "MIZZEN_ATTEMPT": str(command.epoch),
        "MIZZEN_CHECKPOINT_DIR": str(checkpoints / str(command.epoch)),
        "MIZZEN_NODE_IPS": ",".join(_hosts(place, addresses)),
        "MIZZEN_AGREE_ADDR": f"{host}:{port + 1}",
    }
    if command.resume_epoch:
        resumed = checkpoints / str(command.resume_epoch) / str(command.resume_step)
        seen |= {"MIZZEN_RESUME_FROM": str(resumed), "MIZZEN_RESUME_STEP": str(command.resume_step)}
    return seen


def _of_stages(command: PrepareTasks, base: Path) -> dict[str, str]:
    """Where the stages that came before in the pipeline left their newest checkpoints, and of which step these are."""
    seen = {}
    for stage in command.forerunners:
        name = stage_variable(stage.stage)
        parent = Path(stage.directory) if stage.directory else base
        seen[f"{name}_CHECKPOINT_DIR"] = str(parent / file_name(stage.workload) / str(stage.epoch))
        seen[f"{name}_STEP"] = str(stage.step)
    return seen


def _as_slurm(command: PrepareTasks, place: Place, addresses: Addresses) -> dict[str, str]:
    hosts = _hosts(place, addresses)
    return {
        "SLURM_JOB_ID": command.workload,
        "SLURM_PROCID": str(place.rank),
        "SLURM_LOCALID": str(place.local_rank),
        "SLURM_NODEID": str(place.group),
        "SLURM_NTASKS": str(command.jobs[place.job].tasks),
        "SLURM_NNODES": str(len(hosts)),
        "SLURM_JOB_NODELIST": ",".join(hosts),
        "SLURM_RESTART_COUNT": _restarts(command),
    }


def _restarts(command: PrepareTasks) -> str:
    """How often it was started before: a task that stands alone counts its own runs, whatever became of the others."""
    return str(command.run if command.task != WHOLE else command.epoch - 1 + command.run)


def _master(place: Place, addresses: Addresses) -> tuple[str, int]:
    """Where rank 0 of the job listens; the port after it is for the agreement of ranks."""
    host, _, port = addresses.masters[place.job].rpartition(":")
    return host, int(port)


def _hosts(place: Place, addresses: Addresses) -> tuple[str, ...]:
    return addresses.hosts[place.job]

"""One job of a job file: its tasks, what each of them takes, and the program or the emulation that it is."""

import os.path
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from core.nouns.fleet import ANY_TYPE
from core.nouns.instant import SECOND, Nanoseconds
from core.nouns.limits import EXIT_CODE_MAX
from core.nouns.quantities import MILLI, Amount
from core.nouns.sharing import MICRO_STEPS, WHOLE
from core.nouns.workload import NEVER, Emulation, Extent, JobSpec, Program, Serves, Topology
from mizzen.jobs.maps import run_of_map
from mizzen.jobs.section import Section, as_items, as_text, as_yes_or_no, one, word_of
from mizzen.jobs.shared import read_speeds
from mizzen.jobs.values import (
    Unreadable,
    bytes_of,
    cpu_milli_of,
    decimal_of,
    gpus_of,
    name_of,
    span_of,
    whole_of,
)
from runtime.yaml_tree import Fields, Listing, Tree, shown

OF_JOB = (
    "run", "emulate", "map", "serve", "for", "tasks", "nodes", "resources", "env", "secrets", "directory", "early_warning", "slurm_env",
    "topology", "alone",
)  # fmt: skip
OF_RESOURCES = ("gpus", "cpus", "memory", "gpu_memory")
OF_TOPOLOGY = ("pack", "spread", "tasks_per_node", "zones", "near")
OF_NODES = ("min", "max")
OF_EMULATE = (
    "work",
    "steps",
    "speeds",
    "checkpoint_every",
    "fails_after",
    "exit_code",
    "stop_span",
    "set_up",
    "beside",
)
OF_WORK = ("run", "emulate", "map", "serve")
"""Of which a job has one."""
OF_EACH = (*OF_WORK, "for", "tasks", "nodes", "resources", "topology", "alone")
"""Of each job: above several jobs they would be nobody's."""
OF_PROGRAMS = ("env", "secrets", "directory", "early_warning", "slurm_env")
"""What only a program finds; above several jobs they hold for each that says nothing else."""

STAND_IN = JobSpec("unnamed", 1, Amount(gpu_milli=MILLI), ANY_TYPE, program=Program("true"))
"""Takes the place of what cannot be read, so that nothing more is said of it."""
OURS = "MIZZEN_"
"""No variable of a user's begins with it, but for the one that says how often to checkpoint."""
CHECKPOINT_VARIABLE = "MIZZEN_CHECKPOINT_SECONDS"


class Around(Struct, frozen=True):
    """What holds for all jobs of a workload."""

    folder: Path
    """From which it is submitted."""
    program: Program
    """What each program is unless its job says otherwise."""


def read_one_job(section: Section, name: str, around: Around) -> JobSpec:
    """The job that a section is."""
    is_emulated = "emulate" in section
    work = [field for field in OF_WORK if field in section]
    if work == ["emulate", "serve"]:
        work.pop()  # A task that serves on an emulated node ends, fails and stops as it pretends to.
    for field in work[1:]:
        section.misplaced(field, f"it stands in place of {work[0]}; leave one of them out")
    if not work:
        section.missing("run", "say what to run")
    (gpu_type, *or_types), need, gpu_memory = _resources(section, is_emulated=is_emulated)
    program = read_program(section, around)
    if "map" in section:
        program = replace(program, run=run_of_map(section, lambda tree: path_of(tree, around.folder)))
    serves = _serves(section)
    if serves is not Serves.NO:
        program = replace(around.program, run="", env={}, secrets=())
        tell_of_no_use(section, text="a job that serves functions runs no program; leave it out")
    elif is_emulated:
        tell_of_no_use(section)
    return JobSpec(
        name=name,
        tasks=_tasks(section),
        need=need,
        gpu_type=gpu_type,
        emulation=_emulation(section) if is_emulated else None,
        program=None if is_emulated else program,
        gpu_memory=gpu_memory,
        is_alone=section.read("alone", as_yes_or_no, STAND_IN.is_alone),
        topology=_topology(section),
        or_types=tuple(or_types),
        serves=serves,
    )


def _serves(section: Section) -> Serves:
    """Whose functions may use what the job holds."""
    if "serve" not in section:
        if "for" in section:
            section.misplaced("for", "it belongs to serve; leave it out, or serve functions")
        return Serves.NO
    section.read("serve", one(lambda text: word_of(text, ["functions"], "kind of service")), "")
    return section.read("for", one(_whose), Serves.OWN)


def _whose(text: str) -> Serves:
    return Serves(word_of(text, [Serves.OWN, Serves.ALL], "word for whose functions"))


def read_program(section: Section, around: Around) -> Program:
    """What a section says of a program, and for the rest what holds around it."""
    base = around.program
    env = section.section("env")
    for name in env.fields.keys if env is not None else ():
        if env is not None and name.startswith(OURS) and name != CHECKPOINT_VARIABLE:
            env.misplaced(name, f"names that begin with {OURS} are Mizzen's own")
    return Program(
        run=section.read("run", one(str), base.run),
        directory=section.read("directory", lambda tree: path_of(tree, around.folder), base.directory),
        env={**base.env, **(env.values(one(str), "") if env is not None else {})},
        secrets=section.items("secrets", one(_secret)) if "secrets" in section else base.secrets,
        checkpoint_dir=base.checkpoint_dir,
        early_warning=section.read("early_warning", one(span_of), base.early_warning),
        has_slurm_env=section.read("slurm_env", as_yes_or_no, base.has_slurm_env),
    )


def tell_of_no_use(
    section: Section,
    names: tuple[str, ...] = OF_PROGRAMS,
    text: str = "emulated work has no use for it; leave it out",
) -> None:
    """What only a program would find is for nobody in emulated work."""
    for name in names:
        if name in section:
            section.misplaced(name, text)


def path_of(tree: Tree, folder: Path) -> str:
    """An absolute path; one that is not begins where the workload is submitted. Raises Unreadable."""
    text = as_text(tree)
    if text.startswith("~"):
        raise Unreadable(f"{shown(text)}: no node knows that home directory; write the whole path")
    return os.path.normpath(folder / text)


def longer_than_zero(text: str) -> Nanoseconds:
    """A span of some length. Raises Unreadable."""
    span = span_of(text)
    if span == NEVER:
        raise Unreadable("it must be longer than zero; without it there is a default")
    return span


def whole_seconds(text: str) -> int:
    """A span as a count of seconds, one at least. Raises Unreadable."""
    span = longer_than_zero(text)
    if span % SECOND:
        raise Unreadable(f"{shown(text)} is not whole seconds")
    return span // SECOND


def _secret(text: str) -> str:
    if text.startswith(OURS):
        raise Unreadable(f"{shown(text)}: names that begin with {OURS} are Mizzen's own")
    return text


def _tasks(section: Section) -> int:
    """By either of its names."""
    if "nodes" not in section:
        return section.read("tasks", one(whole_of), STAND_IN.tasks)
    if "tasks" in section:
        section.misplaced("nodes", "it is another word for tasks; leave one of them out")
    if not isinstance(section.fields.entries["nodes"], Fields):
        return section.read("nodes", one(whole_of), STAND_IN.tasks)
    nodes = section.section("nodes", OF_NODES)
    assert nodes is not None
    for name in OF_NODES:
        if name not in nodes:
            nodes.missing(name, "min and max must both be there")
    bounds = [nodes.read(name, one(whole_of), None) for name in OF_NODES]
    if None not in bounds and bounds[0] != bounds[1]:
        nodes.misplaced(
            "max", "a workload that grows and shrinks is not supported yet; let min and max be equal"
        )
    return bounds[0] if bounds[0] is not None else STAND_IN.tasks


def _topology(section: Section) -> Topology:
    """Where its tasks lie to each other."""
    topology, default = section.section("topology", OF_TOPOLOGY), STAND_IN.topology
    if topology is None:
        return default
    return Topology(
        pack=topology.read("pack", one(_extent), default.pack),
        spread=topology.read("spread", one(_extent), default.spread),
        tasks_per_node=topology.read("tasks_per_node", one(_one_at_least), default.tasks_per_node),
        zones=topology.items("zones", one(name_of)),
        near=topology.items("near", one(name_of)),
    )


def _extent(text: str) -> Extent:
    if not text or text not in list(Extent):
        raise Unreadable(f"{shown(text)} is none of {', '.join(filter(None, Extent))}")
    return Extent(text)


def _one_at_least(text: str) -> int:
    count = whole_of(text)
    if count < 1:
        raise Unreadable(f"{count} tasks on a node are none; without it there may be as many as fit")
    return count


def _resources(section: Section, *, is_emulated: bool) -> tuple[list[str], Amount, int]:
    """The types of device that will do, what one task needs, and the bytes that each device must have."""
    resources = section.section("resources", OF_RESOURCES)
    if "resources" not in section:
        section.missing("resources", "say what one task needs, as in resources: {gpus: H100:8}")
    if resources is None:
        return [STAND_IN.gpu_type], STAND_IN.need, STAND_IN.gpu_memory
    gpu_types, gpu_milli = _gpus(resources)
    if "gpus" not in resources and is_emulated and "cpus" in resources:
        gpu_milli = 0  # It pretends to be work for CPUs, which there are on nodes of every type.
    elif "gpus" not in resources:
        resources.missing("gpus", "say TYPE:COUNT, for example H100:8, or cpu:4 for work without GPUs")
    cpu_milli = resources.read("cpus", one(cpu_milli_of), 0)
    need = Amount(gpu_milli, cpu_milli, resources.read("memory", one(bytes_of), 0))
    return gpu_types, need, resources.read("gpu_memory", one(bytes_of), STAND_IN.gpu_memory)


def _gpus(resources: Section) -> tuple[list[str], int]:
    """The types that will do, of which each is asked for by the same count: one, or a list of them."""
    if not isinstance(resources.fields.entries.get("gpus"), Listing):
        stand_in = STAND_IN.gpu_type, STAND_IN.need.gpu_milli
        gpu_type, gpu_milli = resources.read("gpus", one(gpus_of), stand_in)
        return [gpu_type], gpu_milli
    counts: list[int] = []

    def alike(text: str) -> str:
        gpu_type, gpu_milli = gpus_of(text)
        counts.append(gpu_milli)
        if gpu_milli != counts[0]:
            first = f"{counts[0] / MILLI:g}"
            raise Unreadable(
                f"{shown(text)} is another count than {first}, that of the first type; all have one"
            )
        return gpu_type

    types = resources.items("gpus", one(alike))
    nothing: tuple[Tree, ...] = ()
    if not resources.read("gpus", as_items, nothing):
        resources.misplaced("gpus", "it names no type; write TYPE:COUNT, for example H100:8")
    return list(types or (STAND_IN.gpu_type,)), counts[0] if counts else STAND_IN.need.gpu_milli


def _emulation(section: Section) -> Emulation:
    """What stands in place of a program."""
    emulate = section.section("emulate", OF_EMULATE)
    work = Nanoseconds(SECOND)
    if emulate is None:
        return Emulation(work)
    steps = emulate.read("steps", one(whole_of), 0)
    by_type = emulate.section("speeds")
    beside = emulate.section("beside")
    speeds = read_speeds(by_type) if by_type is not None else {}
    if steps and speeds:
        if "work" in emulate:
            emulate.misplaced(
                "work", "how long it takes follows from its steps and speeds; leave one of them out"
            )
        work = Nanoseconds(-(-steps * MICRO_STEPS * SECOND // max(speeds.values())))
    elif steps or speeds:
        emulate.missing("speeds" if steps else "steps", "steps and speeds must both be there")
        steps, speeds = 0, {}
    elif "work" not in emulate:
        emulate.missing("work", "say how long it takes, for example 10m")
    return Emulation(
        work=work if steps else emulate.read("work", one(span_of), work),
        checkpoint_every=emulate.read("checkpoint_every", one(span_of), NEVER),
        fails_after=emulate.read("fails_after", one(span_of), NEVER),
        exit_code=emulate.read("exit_code", one(_exit_code), 1),
        stop_span=emulate.read("stop_span", one(span_of), NEVER),
        set_up=emulate.read("set_up", one(span_of), NEVER),
        steps=steps,
        speeds=tuple(sorted(speeds.items())),
        beside=() if beside is None else tuple(sorted(beside.values(one(_part), WHOLE).items())),
    )


def _part(text: str) -> int:
    """Millionths of a speed."""
    part = decimal_of(text, len(str(WHOLE)) - 1)
    if not 0 < part <= 1:
        raise Unreadable(f"{shown(text)} is no part of its speed; write more than 0, and 1 at most")
    return int(part * WHOLE)


def _exit_code(text: str) -> int:
    code = whole_of(text)
    if not 0 <= code <= EXIT_CODE_MAX:
        raise Unreadable(f"{code} is not between 0 and {EXIT_CODE_MAX}")
    return code

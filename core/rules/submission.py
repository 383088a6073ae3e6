"""The check of submitted workloads: every problem at once, each with its field."""

import re
from collections.abc import Mapping, Sequence

from msgspec.structs import asdict, astuple, replace

from core.codec import encode
from core.nouns.fleet import ANY_TYPE, CPU_TYPE, gpu_type_of
from core.nouns.function_limits import SERVING_GRACE_MIN
from core.nouns.instant import MILLISECOND, SECOND
from core.nouns.limits import (
    BESIDE_MAX,
    CHECKPOINT_BYTES_MAX,
    CHECKPOINT_EVERY_MIN,
    CONTROLLED_TASKS_MAX,
    DATASETS_READ_MAX,
    EXIT_CODE_MAX,
    FACT_BYTES_MAX,
    GPU_TYPES_MAX,
    ISOLATION_MAX,
    ISOLATION_MIN,
    KEY_LENGTH_MAX,
    MODELS_BESIDE_MAX,
    NAME_LENGTH_MAX,
    NAMED_ZONES_MAX,
    NEED_MAX,
    PROGRAM_CPU_MILLI_MIN,
    PROGRAM_GPU_MILLI_MIN,
    RETRIES_MAX,
    SENDER_LENGTH_MAX,
    SPAN_MAX,
    TASKS_MAX,
    TOGETHER_MAX,
    WEIGHT_MAX,
    WORKLOAD_BYTES_MAX,
    WORKLOAD_MILLI_MAX,
)
from core.nouns.operation import ControlSpec
from core.nouns.quantities import MILLI, NOTHING, Amount
from core.nouns.sharing import MICRO_STEPS, WEIGHT, WHOLE
from core.nouns.tenant import LEVEL_MAX, LEVEL_MIN
from core.nouns.workload import Emulation, Extent, JobSpec, Kind, Program, Serves, WorkloadSpec
from core.rules.data.datasets import is_dataset_name
from core.rules.harvest.lending import problems_of_idling

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TOKEN = re.compile(r"[A-Za-z0-9_-]+")
"""A name that can be part of a subject: a controller is asked under its own name and the tenant's."""

LARGEST_NEED = Amount(NEED_MAX, NEED_MAX, NEED_MAX)


def problems_of_priority(priority: int | None) -> list[str]:
    """Return the problems of a requested level, regardless of the tenant's level."""
    if priority is None or LEVEL_MIN <= priority <= LEVEL_MAX:
        return []
    return [f"priority: {priority} is not between {LEVEL_MIN} and {LEVEL_MAX}"]


def problems_of_sender(submitter: str, key: str) -> tuple[str, ...]:
    """Return the problems of a submitter's name, and of the key under which a workload is submitted once.

    Both are stored as long as the workload.
    """
    lengths = {"submitter": (submitter, SENDER_LENGTH_MAX), "key": (key, KEY_LENGTH_MAX)}
    return tuple(
        f"{field}: {most} characters are the most"
        for field, (text, most) in lengths.items()
        if len(text) > most
    )


def problems_of(spec: WorkloadSpec) -> tuple[str, ...]:
    """Return the problems of a workload, in any region; empty if the workload is well formed."""
    found = problems_of_name(spec.name)
    found.extend(problems_of_priority(spec.priority))
    if not spec.jobs:
        found.append("jobs: there must be one at least")
    if any(job.serves for job in spec.jobs):
        found.extend(_problems_of_serving(spec))
    if len({job.program is None for job in spec.jobs}) > 1:
        found.append("jobs: some have a program and some an emulation; all of a workload have the same")
    names = [job.name for job in spec.jobs]
    if len(set(names)) != len(names):
        found.append("jobs: two have the same name")
    for index, job in enumerate(spec.jobs):
        found.extend(f"jobs[{index}].{problem}" for problem in _problems_of_job(job))
    if len(set(spec.regions)) != len(spec.regions):
        found.append("regions: one is named twice")
    found.extend(_problems_of_data(spec.data))
    spans = {
        "max_duration": spec.max_duration,
        "grace": spec.grace,
        "on_region_loss.move_after": spec.move_after,
        "expected": spec.expected,
    }
    found.extend(_problems_of_spans(spans))
    if 0 < spec.max_duration < spec.expected:
        found.append("expected: it is longer than max_duration, at which the workload is stopped")
    if not 0 <= spec.input_size <= NEED_MAX:
        found.append(f"input: it is not between 0 and {NEED_MAX}")
    if not 0 <= spec.checkpoint_bytes <= CHECKPOINT_BYTES_MAX:
        found.append(f"checkpoint.size: it is not between 0 and {CHECKPOINT_BYTES_MAX} bytes")
    fewest = -1 if spec.kind == Kind.SERVICE else 0  # -1: no limit, for independent tasks
    if spec.retry.task_failed < fewest or spec.retry.start_failed < 0:
        found.append("retry: counts must not be negative")
    if max(spec.retry.task_failed, spec.retry.start_failed) > RETRIES_MAX:
        found.append(f"retry: {RETRIES_MAX} are the most")
    if spec.is_incremental and spec.kind != Kind.SERVICE:
        found.append(f"placement: the tasks of kind {spec.kind} start together, so they are placed together")
    if spec.is_incremental and any(job.topology.pack for job in spec.jobs):
        found.append("placement: tasks that must all lie in one place are placed together")
    found.extend(_problems_of_token("tenant", spec.tenant))
    found.extend(_problems_of_control(spec.control))
    found.extend(_problems_of_share(spec))
    is_controlled = spec.kind == Kind.SERVICE and bool(spec.control.controller)
    if is_controlled and sum(job.tasks for job in spec.jobs) > CONTROLLED_TASKS_MAX:
        found.append(f"jobs: a service with a controller has {CONTROLLED_TASKS_MAX} tasks at most")
    found.extend(_problems_of_sums(spec.jobs))
    size = len(encode(spec))
    if size > FACT_BYTES_MAX // 2:
        found.append(f"the whole: {size} bytes, and {FACT_BYTES_MAX // 2} are the most")
    return tuple(found)


def problems_of_change(was: WorkloadSpec, jobs: tuple[JobSpec, ...]) -> tuple[str, ...]:
    """Return the problems of giving a workload these jobs: problems of the jobs themselves, and changes that are not allowed.

    Needs and hardware of tasks stay: a task that is started again may find only the capacity that it had.
    """
    known = set(problems_of(was))
    found = [problem for problem in problems_of(replace(was, jobs=jobs)) if problem not in known]
    names = [job.name for job in was.jobs]
    if names != [job.name for job in jobs]:
        found.append(f"jobs: they stay what they are, in this order: {', '.join(names)}")
        return tuple(found)
    for index, (job, changed) in enumerate(zip(was.jobs, jobs, strict=True)):
        found.extend(f"jobs[{index}].{problem}" for problem in _problems_of_changed_job(job, changed))
        if was.kind is Kind.SHARED and changed.tasks != job.tasks:
            found.append(
                f"jobs[{index}].tasks: in a shared pool a job has the GPUs of its share; submit it anew"
            )
    return tuple(found)


def _problems_of_changed_job(was: JobSpec, changed: JobSpec) -> list[str]:
    found = []
    if (changed.gpu_type, changed.or_types) != (was.gpu_type, was.or_types):
        found.append(f"gpu_type: it is {was.type_text}, and stays so")
    gpus, cpus = f"{was.need.gpu_milli / MILLI:g} {was.type_text}", f"{was.need.cpu_milli / MILLI:g} CPUs"
    asked = {"gpu_milli": gpus, "cpu_milli": cpus, "memory_bytes": f"{was.need.memory_bytes} bytes"}
    found.extend(
        f"need.{name}: a task has {text}, and that stays so"
        for name, text in asked.items()
        if getattr(changed.need, name) != getattr(was.need, name)
    )
    if changed.gpu_memory != was.gpu_memory or changed.is_alone != was.is_alone:
        found.append("gpu_memory, is_alone: on which nodes its tasks may be stays so")
    if changed.topology != was.topology:
        found.append("topology: where its tasks lie to each other stays so")
    if (changed.program is None) != (was.program is None):
        found.append(f"program: what was {'emulated' if was.program is None else 'a program'} stays so")
    if changed.serves != was.serves:
        found.append("serves: whose functions it serves stays so")
    return found


def _problems_of_spans(spans: Mapping[str, int]) -> list[str]:
    """Return the problems of spans, by field, that may be zero."""
    if min(spans.values()) >= 0 and max(spans.values()) <= SPAN_MAX:
        return []
    found = [f"{field}: it must not be negative" for field, span in spans.items() if span < 0]
    return found + [
        f"{field}: a hundred years are the most" for field, span in spans.items() if span > SPAN_MAX
    ]


def _problems_of_sums(jobs: Sequence[JobSpec]) -> list[str]:
    """Return the problems of the needs of all tasks together: sums over many workloads must stay numbers that a message can hold."""
    total, most = NOTHING, Amount(WORKLOAD_MILLI_MAX, WORKLOAD_MILLI_MAX, WORKLOAD_BYTES_MAX)
    for job in jobs:
        total = total.plus(job.need.times(job.tasks))
    if most.covers(total) or not all(LARGEST_NEED.covers(job.need) for job in jobs):
        return []  # If one task alone asks for too much, that is said of the job.
    return [
        f"jobs: all tasks together ask for {amount} {name}, and {limit} are the most"
        for name, amount, limit in zip(Amount.__struct_fields__, astuple(total), astuple(most), strict=True)
        if amount > limit
    ]


def _problems_of_share(spec: WorkloadSpec) -> list[str]:
    """Return the problems of work of a shared pool, which is stopped and goes on elsewhere, round after round."""
    share = spec.share
    if share is None:
        return ["share: work of a shared pool must have one"] if spec.kind is Kind.SHARED else []
    if spec.kind is not Kind.SHARED:
        return [f"share: {spec.kind} work is not shared by a policy"]
    found = []
    if len(spec.jobs) > 1:
        found.append("share: a workload of several jobs cannot be stopped as one; let it have one job")
    if not spec.grace:
        found.append("grace: it is stopped round after round; say how long it needs to save")
    for index, job in enumerate(spec.jobs):
        if not job.need.gpu_milli or job.need.gpu_milli % MILLI:
            found.append(f"jobs[{index}].need.gpu_milli: a policy shares whole GPUs; ask for one at least")
        strangers = sorted(share.speeds.keys() - {job.gpu_type, *job.or_types})
        if strangers and job.gpu_type != ANY_TYPE:
            found.append(
                f"share.speeds: it may not run on {', '.join(strangers)}; name that type in resources.gpus too"
            )
    if len(share.speeds) > GPU_TYPES_MAX:
        found.append(f"share.speeds: {GPU_TYPES_MAX} types are the most that can be named")
    if any(not 0 < speed <= NEED_MAX for speed in share.speeds.values()):
        found.append("share.speeds: each must be more than 0, and a number that can be held")
    if len(share.beside) > MODELS_BESIDE_MAX:
        found.append(f"share.beside: {MODELS_BESIDE_MAX} models are the most that can be named")
    if any(not 0 < part <= WHOLE for part in share.beside.values()):
        found.append("share.beside: each must be more than 0, and 1 at most")
    if not all(_NAME.fullmatch(name) and len(name) <= NAME_LENGTH_MAX for name in share.beside):
        found.append(f"share.beside: a model is 1 to {NAME_LENGTH_MAX} letters, digits, '.', '_' and '-'")
    if not 0 <= share.steps <= NEED_MAX:
        found.append(f"share.steps: {share.steps} is not between 0 and {NEED_MAX}")
    if not 0 < share.weight <= WEIGHT_MAX:
        found.append(f"share.weight: it is not more than 0, and {WEIGHT_MAX // WEIGHT} at most")
    for field, name in (("model", share.model), ("entity", share.entity)):
        if name and not (_NAME.fullmatch(name) and len(name) <= NAME_LENGTH_MAX):
            found.append(f"share.{field}: use 1 to {NAME_LENGTH_MAX} letters, digits, '.', '_' and '-'")
    return [*found, *_problems_of_spans({"share.within": share.within})]


def _problems_of_token(field: str, name: str) -> list[str]:
    if _TOKEN.fullmatch(name) and len(name) <= NAME_LENGTH_MAX:
        return []
    return [f"{field}: use 1 to {NAME_LENGTH_MAX} letters, digits, '_' and '-'"]


def _problems_of_data(data: Sequence[str]) -> list[str]:
    found = []
    if len(data) > DATASETS_READ_MAX:
        found.append(f"data: {DATASETS_READ_MAX} datasets are the most")
    if len(set(data)) != len(data):
        found.append("data: one is named twice")
    if not all(is_dataset_name(name) for name in data):
        found.append(f"data: use 1 to {NAME_LENGTH_MAX} letters, digits, '.', '_' and '-' for each")
    return found


def _problems_of_control(control: ControlSpec) -> list[str]:
    found = _problems_of_token("control.controller", control.controller) if control.controller else []
    if not 0 <= control.unavailable_max <= TASKS_MAX:
        found.append(f"control.unavailable_max: {control.unavailable_max} is not between 0 and {TASKS_MAX}")
    least, most = ISOLATION_MIN // SECOND, ISOLATION_MAX // SECOND
    if control.is_strict and not ISOLATION_MIN <= control.isolation <= ISOLATION_MAX:
        found.append(f"control.isolation: it is not between {least} s and {most} s")
    elif control.isolation < 0:
        found.append("control.isolation: it must not be negative")
    return found


def problems_of_name(name: str) -> list[str]:
    """Return the problems of the name of a workload, a job or a pipeline."""
    if _NAME.fullmatch(name) and len(name) <= NAME_LENGTH_MAX:
        return []
    return [f"name: use 1 to {NAME_LENGTH_MAX} letters, digits, '.', '_' and '-', a letter or digit first"]


def _problems_of_job(job: JobSpec) -> list[str]:
    found = problems_of_name(job.name)
    if not 1 <= job.tasks <= TASKS_MAX:
        found.append(f"tasks: {job.tasks} is not between 1 and {TASKS_MAX}")
    found.extend(
        f"need.{name}: it must not be negative" for name, amount in asdict(job.need).items() if amount < 0
    )
    found.extend(
        f"need.{name}: {amount} is more than {NEED_MAX}"
        for name, amount in asdict(job.need).items()
        if amount > NEED_MAX
    )
    if job.need.gpu_milli == 0 and job.need.cpu_milli == 0:
        found.append("need: it asks for neither GPU nor CPU")
    if job.need.gpu_milli > 1000 and job.need.gpu_milli % 1000:
        found.append("need.gpu_milli: more than one device must be whole devices (multiples of 1000)")
    found.extend(_problems_of_types(job))
    if not 0 <= job.gpu_memory <= NEED_MAX:
        found.append(f"gpu_memory: {job.gpu_memory} is not between 0 and {NEED_MAX}")
    if job.gpu_memory and not job.need.gpu_milli:
        found.append("gpu_memory: it asks for no GPU")
    found.extend(_problems_of_topology(job))
    if (job.emulation is None) == (job.program is None):
        found.append("program: a job has either a program or an emulation")
    if job.emulation is not None:
        found.extend(_problems_of_emulation(job.emulation))
        found.extend(problems_of_idling(job.emulation, job.need))
    if job.program is not None:
        found.extend(_problems_of_program(job.program, serves=job.serves is not Serves.NO))
        if 0 < job.need.gpu_milli < PROGRAM_GPU_MILLI_MIN or (
            not job.need.gpu_milli and 0 < job.need.cpu_milli < PROGRAM_CPU_MILLI_MIN
        ):
            text = f"{PROGRAM_GPU_MILLI_MIN} GPU milli, or {PROGRAM_CPU_MILLI_MIN} CPU milli"
            found.append(f"need: each task of a program is a process, and takes {text} at least")
    return found


def _problems_of_types(job: JobSpec) -> list[str]:
    """Return the problems of the GPU types that a job names."""
    types = (job.gpu_type, *job.or_types)
    found = []
    if not 0 < len(job.gpu_type) <= NAME_LENGTH_MAX:
        found.append(f"gpu_type: a type has 1 to {NAME_LENGTH_MAX} characters")
    if any(gpu_type_of(name)[1] for name in types):
        found.append("gpu_type: a program's job names the type alone, and runs on nodes that run programs")
    if len(types) == 1:
        return found
    if len(types) > GPU_TYPES_MAX:
        found.append(f"gpu_type: {GPU_TYPES_MAX} types are the most that can be named")
    if len(set(types)) != len(types):
        found.append("gpu_type: one is named twice")
    if any(not _NAME.fullmatch(name) or len(name) > NAME_LENGTH_MAX for name in job.or_types):
        found.append(f"gpu_type: a type is 1 to {NAME_LENGTH_MAX} letters, digits, '.', '_' and '-'")
    if ANY_TYPE in types:
        found.append(f"gpu_type: {ANY_TYPE} stands for every type; name no other beside it")
    if CPU_TYPE in types:
        found.append(f"gpu_type: {CPU_TYPE} slots cannot stand in for GPUs; name them alone")
    return found


def _problems_of_topology(job: JobSpec) -> list[str]:
    topology, found = job.topology, []
    pack, spread, most = topology.pack, topology.spread, topology.tasks_per_node
    if not 0 <= most <= TASKS_MAX:
        found.append(f"topology.tasks_per_node: {most} is not between 0 and {TASKS_MAX}")
    if spread is Extent.NODE:
        found.append("topology.spread: say `tasks_per_node: 1` for a node of its own for each task")
    if pack is Extent.NODE and (job.tasks > TOGETHER_MAX or 0 < most < job.tasks):
        found.append(f"topology.pack: a node takes {min(most or TOGETHER_MAX, TOGETHER_MAX)} tasks at most")
    if pack and list(Extent).index(spread) >= list(Extent).index(pack):
        text = f"tasks that all lie in one {pack} cannot be spread over several of {spread}"
        found.append(f"topology.spread: {text}")
    return [*found, *_problems_of_zones("zones", topology.zones), *_problems_of_zones("near", topology.near)]


def _problems_of_zones(field: str, zones: Sequence[str]) -> list[str]:
    found = []
    if len(set(zones)) != len(zones):
        found.append(f"topology.{field}: one is named twice")
    if len(zones) > NAMED_ZONES_MAX:
        found.append(f"topology.{field}: {NAMED_ZONES_MAX} are the most that can be named")
    if any(not _NAME.fullmatch(zone) or len(zone) > NAME_LENGTH_MAX for zone in zones):
        found.append(
            f"topology.{field}: a zone's name is 1 to {NAME_LENGTH_MAX} letters, digits, '.', '_' and '-'"
        )
    return found


def _problems_of_emulation(emulation: Emulation) -> list[str]:
    found = [] if emulation.work > 0 else ["emulation.work: it must be positive"]
    if emulation.steps or emulation.speeds:
        if not 0 < emulation.steps <= NEED_MAX:
            found.append(f"emulation.steps: {emulation.steps} is not between 1 and {NEED_MAX}")
        if not emulation.speeds or any(not 0 < speed <= NEED_MAX for _, speed in emulation.speeds):
            found.append("emulation.speeds: there must be one at least, each more than 0")
        elif emulation.steps * MICRO_STEPS * SECOND // min(speed for _, speed in emulation.speeds) > SPAN_MAX:
            found.append("emulation.steps: on the slowest type they would take more than a hundred years")
    found.extend(_problems_of_partners(emulation))
    spans = {
        "emulation.checkpoint_every": emulation.checkpoint_every,
        "emulation.fails_after": emulation.fails_after,
        "emulation.stop_span": emulation.stop_span,
        "emulation.set_up": emulation.set_up,
    }
    found.extend(_problems_of_spans(spans))
    if emulation.work > SPAN_MAX:
        found.append("emulation.work: a hundred years are the most")
    if 0 < emulation.checkpoint_every < CHECKPOINT_EVERY_MIN:
        least = CHECKPOINT_EVERY_MIN // MILLISECOND
        found.append(f"emulation.checkpoint_every: {least} ms are the least, or 0 for never")
    if not 0 <= emulation.exit_code <= EXIT_CODE_MAX:
        found.append(f"emulation.exit_code: {emulation.exit_code} is not between 0 and {EXIT_CODE_MAX}")
    return found


def _problems_of_serving(spec: WorkloadSpec) -> list[str]:
    """Return the problems of a workload whose tasks hold capacity for functions."""
    found = []
    if spec.kind is not Kind.SERVICE:
        found.append("serves: only a service holds capacity for functions; let kind be service")
    if 0 < spec.grace < SERVING_GRACE_MIN:
        found.append(f"grace: executors get {SERVING_GRACE_MIN // SECOND} s at least to leave")
    programs = [job.program for job in spec.jobs if job.serves and job.program is not None]
    found.extend(
        f"program.{name}: a job that serves functions runs no program"
        for name in ("env", "secrets", "checkpoint_dir", "early_warning", "has_slurm_env")
        if any(getattr(program, name) for program in programs)
    )
    return found


def _problems_of_program(program: Program, *, serves: bool) -> list[str]:
    found = []
    if bool(program.run.strip()) == serves:
        found = [
            "program.run: a job that serves functions has none" if serves else "program.run: it is empty"
        ]
    for name in ("directory", "checkpoint_dir"):
        path = getattr(program, name)
        if path and not path.startswith("/"):
            found.append(f"program.{name}: {path} is not an absolute path")
    found.extend(
        f"program.env: {name!r} cannot be the name of a variable"
        for name in program.env
        if not _VARIABLE.fullmatch(name)
    )
    found.extend(
        f"program.secrets: {name!r} cannot be the name of a variable"
        for name in program.secrets
        if not _VARIABLE.fullmatch(name)
    )
    texts = [program.run, program.directory, program.checkpoint_dir, *program.env.values()]
    if any("\0" in text for text in texts):
        found.append("program: no text may hold a zero byte")
    found.extend(_problems_of_spans({"program.early_warning": program.early_warning}))
    return found


def _problems_of_partners(emulation: Emulation) -> list[str]:
    """Return the problems of how an emulated job is known to its partner on a device, and of how fast it is beside others."""
    found = []
    names, parts = dict(emulation.beside), [part for _, part in emulation.beside]
    if len(emulation.model) > NAME_LENGTH_MAX:
        found.append(f"emulation.model: {NAME_LENGTH_MAX} characters are the most")
    if len(parts) > BESIDE_MAX or len(names) < len(parts):
        found.append(f"emulation.beside: {BESIDE_MAX} models are the most, each named once")
    if any(len(name) > NAME_LENGTH_MAX for name in names):
        found.append(f"emulation.beside: a name has {NAME_LENGTH_MAX} characters at most")
    if any(not 0 < part <= WHOLE for part in parts):
        found.append("emulation.beside: each must be more than 0, and all of its speed at most")
    elif parts:
        slowest = min((speed for _, speed in emulation.speeds), default=0)
        longest = emulation.steps * MICRO_STEPS * SECOND // slowest if slowest > 0 else emulation.work
        if longest * WHOLE // min(parts) > SPAN_MAX:
            found.append("emulation.beside: at that pace it would take more than a hundred years")
    return found

"""From a problem of a workload or a pipeline back to the line of the job file that it comes from.

The queue and its rules know a workload, and say `jobs[0].need.gpu_milli`; who wrote the file knows `resources.gpus`. Of a pipeline
they say `stages[2].jobs[0].need.gpu_milli`, and the file may have said it in that stage or for all stages at the top.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from runtime.yaml_tree import Fields, Listing, Place, Problem, Text, Tree, within

Trail = tuple[str | int, ...]
"""The way to a part of the file: names of fields, and places in lists."""

OF_JOB: dict[str, Trail] = {
    "emulation": ("emulate",),
    "gpu_memory": ("resources", "gpu_memory"),
    "gpu_type": ("resources", "gpus"),
    "need": ("resources",),
    "need.cpu_milli": ("resources", "cpus"),
    "need.gpu_milli": ("resources", "gpus"),
    "need.memory_bytes": ("resources", "memory"),
    "program": ("run",),
    "program.checkpoint_dir": ("checkpoint", "dir"),
    "program.directory": ("directory",),
    "program.early_warning": ("early_warning",),
    "program.env": ("env",),
    "program.run": ("run",),
    "program.secrets": ("secrets",),
}
"""Parts of a job that are called otherwise in the file. What is not here is called as it is, under `emulate` too."""
OF_WORKLOAD: dict[str, Trail] = {
    "control.is_strict": ("control", "strict"),
    "control.unavailable_max": ("control", "max_unavailable"),
    "grace": ("checkpoint", "grace"),
    "share.within": ("share", "slo"),
}
OF_PIPELINE: dict[str, tuple[Trail, ...]] = {"deadline": (("deadline",), ("within",))}
"""Parts of a pipeline that a file may say in another way."""
_JOB = re.compile(r"jobs\[([0-9]+)\]\.?(.*)")
_STAGE = re.compile(r"stages\[([0-9]+)\]\.(.*)", re.DOTALL)
_CIRCLE = re.compile(r"stages: .* in a circle: (.+?) -> ")


class Origin(Struct, frozen=True):
    """The fields of which a workload was made."""

    fields: Fields
    """Of a stage, its own and those of the top that hold for the stage."""
    jobs: tuple[Trail, ...]
    """The way to each of its jobs."""
    stage: Trail = ()
    """The way to the stage; empty: the fields are the whole file."""
    name: str = ""
    """Of the stage."""
    own: frozenset[Place] = frozenset()
    """Where the stage's own fields stand."""

    def told(self, problem: Problem) -> Problem:
        """Return a problem of these fields as one of the file: with the stage's path if it stands in the stage."""
        if problem.place not in self.own:
            return problem
        path = _called(self.stage)
        is_key = problem.field == "name" and isinstance(self.stage[-1], str)
        field = path if is_key or not problem.field else f"{path}.{problem.field}"
        return Problem(problem.place, field, problem.text)


def located(problem: str, fields: Fields, origins: Sequence[Origin]) -> Problem:
    """A problem as the queue tells it, at its place in these fields, of which the workloads were made so."""
    stage = _STAGE.fullmatch(problem)
    if stage is not None and stage[2].startswith("tenant: "):
        return _located(stage[2], fields, ())  # Only the top says it.
    if stage is not None and int(stage[1]) < len(origins):
        origin = origins[int(stage[1])]
        return origin.told(_located(stage[2], origin.fields, origin.jobs, origin.name))
    circle = _CIRCLE.match(problem)
    for origin in origins:
        if circle is not None and origin.name == circle[1] and "after" in origin.fields.entries:
            text = problem.partition(": ")[2]
            return origin.told(Problem(origin.fields.entries["after"].place, "after", text))
    return _located(problem, fields, origins[0].jobs if origins else ())


def _located(problem: str, fields: Fields, jobs: Sequence[Trail], stage: str = "") -> Problem:
    path, _, text = problem.partition(": ")
    match = _JOB.fullmatch(path)
    homes: list[Trail]
    if match is not None and int(match[1]) < len(jobs):
        job, part = jobs[int(match[1])], match[2]
        if part == "name" and job and isinstance(job[-1], str):
            return _of_key(fields, job, text)
        inner = _part(part)
        # What a job does not say of its program, the top may have said.
        homes = [(*job, *inner), *([inner] if part.startswith("program") else [])]
    elif re.fullmatch(r"[a-z_.]+", path):
        homes = [*OF_PIPELINE.get(path, (OF_WORKLOAD.get(path, tuple(path.split("."))),))]
    else:
        return Problem(fields.place, "", problem)
    if homes[0][-1:] == ("tasks",):
        homes.append((*homes[0][:-1], "nodes"))
    found = next((home for home in homes if _follow(fields, home)[1] == home), homes[0])
    tree = _follow(fields, found)[0]
    for key, place in _keys(tree):
        if _is_about(text, key, stage):
            return Problem(place, _called(found), text)
    return Problem(tree.place, _called(found), text)


def _is_about(text: str, key: str, stage: str) -> bool:
    """Whether a problem of a mapping or a list is one of this key or item."""
    if text == "a stage cannot wait for itself":
        return key == stage
    return text.startswith((repr(key), f"there is no stage {key};"))


def _of_key(fields: Fields, trail: Trail, text: str) -> Problem:
    """Of a job whose name is its key."""
    around = _follow(fields, trail[:-1])[0]
    place = around.keys.get(str(trail[-1])) if isinstance(around, Fields) else None
    return Problem(place or around.place, _called(trail), text)


def _part(part: str) -> Trail:
    """What a part of a job is called in it."""
    if part.startswith("emulation."):
        return ("emulate", *part.split(".")[1:])
    return OF_JOB.get(part, tuple(part.split(".")) if part else ())


def _follow(tree: Tree, trail: Trail) -> tuple[Tree, Trail]:
    """As far along the trail as there is something, and how far that is."""
    for count, step in enumerate(trail):
        if isinstance(tree, Fields) and step in tree.entries:
            tree = tree.entries[str(step)]
        elif isinstance(tree, Listing) and isinstance(step, int) and step < len(tree.items):
            tree = tree.items[step]
        else:
            return tree, trail[:count]
    return tree, trail


def _keys(tree: Tree) -> list[tuple[str, Place]]:
    """What a mapping or a list names, and where."""
    if isinstance(tree, Fields):
        return list(tree.keys.items())
    items = tree.items if isinstance(tree, Listing) else ()
    return [(item.text, item.place) for item in items if isinstance(item, Text)]


def _called(trail: Trail) -> str:
    path = ""
    for step in trail:
        path = f"{path}[{step}]" if isinstance(step, int) else within(path, step)
    return path

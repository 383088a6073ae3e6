"""From a problem of a workload back to the line of the job file that it comes from.

The queue and its rules know a workload, and say `jobs[0].need.gpu_milli`; who wrote the file knows `resources.gpus`.
"""

import re
from collections.abc import Sequence

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
_JOB = re.compile(r"jobs\[([0-9]+)\]\.?(.*)")


def located(problem: str, fields: Fields, jobs: Sequence[Trail]) -> Problem:
    """A problem as the queue tells it, at its place in these fields, whose jobs are to be found so."""
    path, _, text = problem.partition(": ")
    match = _JOB.fullmatch(path)
    if match is not None and int(match[1]) < len(jobs):
        job, part = jobs[int(match[1])], match[2]
        if part == "name" and job and isinstance(job[-1], str):
            return _of_key(fields, job, text)
        inner = _part(part)
        # What a job does not say of its program, the top may have said.
        homes = [(*job, *inner), *([inner] if part.startswith("program") else [])]
    elif re.fullmatch(r"[a-z_.]+", path):
        homes = [OF_WORKLOAD.get(path, tuple(path.split(".")))]
    else:
        return Problem(fields.place, "", problem)
    if homes[0][-1:] == ("tasks",):
        homes.append((*homes[0][:-1], "nodes"))
    found = next((home for home in homes if _follow(fields, home)[1] == home), homes[0])
    tree = _follow(fields, found)[0]
    for key, place in _keys(tree):
        if text.startswith(repr(key)):
            return Problem(place, _called(found), text)
    return Problem(tree.place, _called(found), text)


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

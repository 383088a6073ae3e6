"""The stages of a job file and their deadline: what holds for all stages is said once, at the top.

    name: nightly
    within: 6h
    resources: {gpus: H100:8}
    stages:
      prep: {run: ./prep.sh, resources: {gpus: cpu:4}}
      train: {run: torchrun train.py, after: [prep], expected: 2h}

A list of stages is an order, and a mapping by name says in `after` which stages each one waits for. For each stage the fields of
the top and the stage's own become one mapping, in which every part keeps its place, and which is read as any workload is.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from core.nouns.instant import Instant
from core.nouns.limits import STAGES_MAX
from core.nouns.pipeline import NO_DEADLINE, OnLate, PipelineSpec, StageSpec
from core.nouns.workload import NEVER, WorkloadSpec
from core.rules.submission import problems_of_name
from mizzen.jobs.origins import Origin, Trail, located
from mizzen.jobs.parts import OF_EACH, OF_JOB, OF_WORK, STAND_IN
from mizzen.jobs.section import Section, as_fields, as_yes_or_no, one, word_of
from mizzen.jobs.values import Unreadable, instant_of, positive_span_of, span_of, window_of
from mizzen.jobs.workload import OF_WORKLOAD, ONLY_JOB, named_parts, read_workload
from runtime.yaml_tree import Fields, Listing, Place, Problem, Text, Tree, shown

OF_STAGE = ("after", "begins")
OF_PIPELINE = ("stages", "deadline", "within", "on_late", "together")
MAKE_PIPELINE = ("stages", "deadline", "within", "begins")
"""Fields each of which makes a pipeline of a plain job."""

_ABOVE = (*OF_PIPELINE, "tenant")
"""Said at the top and in no stage."""
_SHARED = frozenset({*OF_WORKLOAD, *OF_JOB}) - {"name"}
"""Said at the top, and so for every stage that says nothing else."""
_INSTEAD = {
    **{name: (*(other for other in OF_WORK if other != name), "jobs") for name in OF_WORK},
    "jobs": OF_EACH,
    "tasks": ("nodes",),
    "nodes": ("tasks",),
}
"""Fields of the top that a stage with this field does without."""


class _Named(Struct, frozen=True):
    """A stage before its fields are read."""

    name: str
    trail: Trail
    key: Place
    """Where the name stands."""
    fields: Fields
    path: str


def read_plain(top: Section, folder: Path) -> list[tuple[StageSpec, Origin]]:
    """Return a file without stages as its only stage."""
    workload, jobs = read_workload(top, folder)
    begins = top.read("begins", one(window_of), None)
    return [(StageSpec(ONLY_JOB, workload, begins=begins), Origin(top.fields, jobs))]


def read_stages(top: Section, folder: Path) -> list[tuple[StageSpec, Origin]]:
    """Return the stages of a file, in its order, and the fields of which each was made."""
    pipeline = _name(top)
    parts = top.read("stages", lambda tree: named_parts(tree, "stages"), None)
    if parts is None:
        return [(_stand_in(pipeline, ONLY_JOB), Origin(top.fields, ()))]
    if len(parts) > STAGES_MAX:
        # Only so many are looked at, because each is made of all fields of the top.
        top.misplaced("stages", f"there are {len(parts)}, and {STAGES_MAX} are the most")
    stages = [_named(top, index, *part) for index, part in enumerate(parts[:STAGES_MAX])]
    is_order = isinstance(top.fields.entries["stages"], Listing)
    names = [stage.name for stage in stages]
    # Of stages with the same name only that is told, and nothing that follows from it.
    is_chain = is_order and len(set(names)) == len(names)
    return [
        _read_stage(
            top,
            stage,
            pipeline,
            folder,
            tuple(names[index - 1 : index]) if is_chain else (),
            is_order=is_order,
        )
        for index, stage in enumerate(stages)
    ]


def read_pipeline(top: Section, stages: Sequence[StageSpec]) -> PipelineSpec | None:
    """Return the pipeline of these stages; None: it is a plain workload."""
    has_stages, has_deadline = "stages" in top, "deadline" in top or "within" in top
    no_use = {
        "after": (True, "only a stage waits for others; say it in that stage"),
        "begins": (has_stages, "say it in the stage that begins then"),
        "together": (not has_stages, "it is about stages, and there are none; leave it out"),
        "on_late": (not has_deadline, "without deadline or within there is nothing to be late for; leave it out"),
    }  # fmt: skip
    for field, (is_so, text) in no_use.items():
        if is_so and field in top:
            top.misplaced(field, text)
    default = PipelineSpec("", ())
    spec = PipelineSpec(
        name=_name(top) if has_stages else top.read("name", one(str), STAND_IN.name),
        stages=tuple(stages),
        deadline=top.read("deadline", one(_deadline_of), NO_DEADLINE),
        within=top.read("within", one(positive_span_of), NEVER),
        on_late=top.read("on_late", one(_on_late), default.on_late),
        is_together=top.read("together", as_yes_or_no, default.is_together),
    )
    return spec if any(name in top for name in MAKE_PIPELINE) else None


def _name(top: Section) -> str:
    """The name of a pipeline; a stand-in if it is not sound, for otherwise the same would be told of each stage."""
    if "name" not in top:
        top.missing("name", "say what to call it")
    name = top.read("name", one(str), STAND_IN.name)
    found = [located(problem, top.fields, ()) for problem in problems_of_name(name)]
    top.problems.extend(found)
    return STAND_IN.name if found else name


def _named(top: Section, index: int, trail: Trail, path: str, key: str, tree: Tree) -> _Named:
    """A stage and its name; one that is no mapping has no fields."""
    try:
        fields = as_fields(tree)
    except Unreadable as error:
        top.problems.append(Problem(tree.place, path, str(error)))
        fields = Fields(tree.place, {}, {})
        return _Named(key or f"{STAND_IN.name}-{index}", trail, tree.place, fields, "")
    if key:
        around = as_fields(top.fields.entries["stages"])
        return _Named(key, trail, around.keys[key], fields, path)
    section = Section(fields, top.problems, path)
    if "name" not in section:
        section.missing("name", "each stage has one")
    name = section.read("name", one(str), f"{STAND_IN.name}-{index}")
    return _Named(name, trail, fields.entries.get("name", tree).place, fields, path)


def _read_stage(
    top: Section, stage: _Named, pipeline: str, folder: Path, before: tuple[str, ...], *, is_order: bool
) -> tuple[StageSpec, Origin]:
    """One stage, which waits for those before it if their order is that of a list."""
    name = Text(stage.key, f"{pipeline}.{stage.name}")
    own = _own(Section(stage.fields, top.problems, stage.path), is_order=is_order)
    fields = _merged(top.fields, own, name)
    origin = Origin(fields, (), stage.trail, stage.name, frozenset({*_places(stage.fields), stage.key}))
    if not stage.path:
        return _stand_in(pipeline, stage.name, before), origin
    found: list[Problem] = []
    section = Section(fields, found, "", (*OF_WORKLOAD, *OF_JOB, *OF_STAGE))
    workload, jobs = read_workload(section, folder)
    spec = StageSpec(
        name=stage.name,
        workload=workload,
        after=before if is_order else section.items("after", one(str)),
        begins=section.read("begins", one(window_of), None),
    )
    top.problems.extend(origin.told(problem) for problem in found)
    return spec, Origin(fields, jobs, origin.stage, origin.name, origin.own)


def _own(section: Section, *, is_order: bool) -> Fields:
    """A stage's fields without those that cannot be there, which are told."""
    wrong = {
        **dict.fromkeys(_ABOVE, "it holds for all stages; say it at the top"),
        "stages": "a stage has no stages of its own",
    }
    if is_order:
        wrong["after"] = "stages in a list run one after the other; write a mapping by name to say after"
    else:
        wrong["name"] = "a stage in a mapping is called as its key; leave it out"
    fields = section.fields
    for field, text in wrong.items():
        if field in section:
            section.misplaced(field, text)
    sound = {field: tree for field, tree in fields.entries.items() if field not in wrong}
    return Fields(fields.place, sound, {field: fields.keys[field] for field in sound})


def _merged(top: Fields, own: Fields, name: Text) -> Fields:
    """The fields of a stage: its own, and those of the top; of a mapping that both have, the fields of both."""
    without = {other for field in own.entries for other in _INSTEAD.get(field, ())}
    entries, keys = {**own.entries, "name": name}, {**own.keys, "name": name.place}
    for field, theirs in top.entries.items():
        mine = own.entries.get(field)
        if field not in _SHARED or field in without:
            continue
        if mine is None:
            entries[field], keys[field] = theirs, top.keys[field]
        elif isinstance(mine, Fields) and isinstance(theirs, Fields) and field != "jobs":
            entries[field] = Fields(
                mine.place, {**theirs.entries, **mine.entries}, {**theirs.keys, **mine.keys}
            )
    return Fields(own.place, entries, keys)


def _places(tree: Tree) -> list[Place]:
    """Where a tree and all that it holds stand."""
    found = [tree.place]
    parts: Sequence[Tree] = ()
    if isinstance(tree, Fields):
        found += tree.keys.values()
        parts = tuple(tree.entries.values())
    elif isinstance(tree, Listing):
        parts = tree.items
    for part in parts:
        found += _places(part)
    return found


def _stand_in(pipeline: str, name: str, after: tuple[str, ...] = ()) -> StageSpec:
    """Takes the place of a stage that cannot be read, so that others may wait for it."""
    return StageSpec(name, WorkloadSpec(f"{pipeline}.{name}", (STAND_IN,)), after)


def _deadline_of(text: str) -> Instant:
    """A time. Raises Unreadable, which for a span says where spans belong."""
    said = re.sub(r"(?i)^(?:in\s+|\+\s*)", "", text.strip())
    if said != text.strip() or said[-1:] in "dhms":
        try:
            span_of(said)
        except Unreadable:
            pass
        else:
            raise Unreadable(f"{shown(text)} is a span; write within: {said} instead")
    return instant_of(text.strip())


def _on_late(text: str) -> OnLate:
    return OnLate(word_of(text, list(OnLate), "answer to a deadline that cannot be met"))

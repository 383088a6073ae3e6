"""The check of submitted pipelines: every problem at once, each with a field."""

from collections.abc import Sequence

from core.nouns.instant import SECOND, Instant
from core.nouns.limits import NAME_LENGTH_MAX, NUMBER_MAX, PIPELINE_BYTES_MAX, SPAN_MAX, STAGES_MAX
from core.nouns.pipeline import DAY, NO_DEADLINE, PipelineSpec, StageSpec, stage_variable
from core.nouns.workload import Kind
from core.rules.pipelines.deadlines import ordered
from core.rules.submission import problems_of, problems_of_name


def problems_of_pipeline(spec: PipelineSpec, now: Instant) -> tuple[str, ...]:
    """Return the problems of a pipeline, wherever it runs, as of a submission now; empty: well formed."""
    found = list(problems_of_name(spec.name))
    if not spec.stages:
        found.append("stages: there must be one at least")
    if len(spec.stages) > STAGES_MAX:
        found.append(f"stages: there are {len(spec.stages)}, and {STAGES_MAX} are the most")
        return tuple(found)
    size = sum(len(text.encode()) for stage in spec.stages for text in _texts_of(stage))
    if size > PIPELINE_BYTES_MAX:
        found.append(
            f"stages: names, `after` and checkpoint directories have {size} bytes in all, and {PIPELINE_BYTES_MAX} are the most"
        )
    found += _problems_of_deadline(spec, now)
    names = [stage.name for stage in spec.stages]
    places = {name: names.index(name) for name in names}
    for place, stage in enumerate(spec.stages):
        found += (f"stages[{place}].{problem}" for problem in _problems_of_stage(spec, stage, places, now))
        if places[stage.name] != place:
            found.append(f"stages[{place}].name: two stages are called {stage.name}")
    found += _problems_of_variables(names)
    if len({stage.workload.tenant for stage in spec.stages}) > 1:
        found.append("stages: all of a pipeline are on account of one tenant")
    waited_for = {before for stage in spec.stages for before in stage.after}
    for place, stage in enumerate(spec.stages):
        if stage.workload.kind is not Kind.SERVICE:
            continue
        if stage.name in waited_for:
            found.append(
                f"stages[{place}].kind: a service ends on request alone, so no stage can wait for it"
            )
        elif spec.deadline or spec.within:
            found.append(f"stages[{place}].kind: a service ends on request alone, and can meet no deadline")
    if ordered(after_of(spec.stages)) is None:
        found.append(f"stages: they wait for each other in a circle: {' -> '.join(_cycle(spec.stages))}")
    return tuple(found)


def after_of(stages: Sequence[StageSpec]) -> list[tuple[int, ...]]:
    """Return for each stage the places of the stages named in `after`; names that no other stage has are left out."""
    places = {stage.name: place for place, stage in enumerate(stages)}
    return [
        tuple(places[name] for name in dict.fromkeys(stage.after) if name in places and places[name] != place)
        for place, stage in enumerate(stages)
    ]


def directory_of(stage: StageSpec) -> str:
    """Return the checkpoint directory that the user named; empty: it is on the node."""
    program = stage.workload.jobs[0].program if stage.workload.jobs else None
    return program.checkpoint_dir if program is not None else ""


def _texts_of(stage: StageSpec) -> tuple[str, ...]:
    """Return the texts of a stage that facts and claims about other stages repeat."""
    return stage.name, *stage.after, directory_of(stage)


def _problems_of_deadline(spec: PipelineSpec, now: Instant) -> list[str]:
    if spec.deadline and spec.within:
        return ["within: it is another way to say deadline; leave one of them out"]
    if not 0 <= spec.within <= SPAN_MAX:
        return ["within: it is not between 0 and a hundred years"]
    if not 0 <= spec.deadline <= NUMBER_MAX:
        return ["deadline: it is no time of this age"]
    if spec.deadline and spec.deadline <= now:
        return [f"deadline: it passed {(now - spec.deadline) // SECOND} s ago"]
    return []


def _problems_of_stage(
    spec: PipelineSpec, stage: StageSpec, places: dict[str, int], now: Instant
) -> list[str]:
    called = f"{spec.name}.{stage.name}" if len(spec.stages) > 1 else stage.workload.name
    if len(called) > NAME_LENGTH_MAX:
        return [f"name: {called} has {len(called)} characters, and {NAME_LENGTH_MAX} are the most"]
    found = list(problems_of(stage.workload))
    if stage.workload.name != called:
        found.append(f"name: the workload of stage {stage.name} is called {called}")
    if stage.workload.kind is Kind.SHARED:
        found.append("share: rounds of a shared pool know no stages; let it be ordinary work")
    if len(set(stage.after)) != len(stage.after):
        found.append("after: a stage is named twice")
    for name in dict.fromkeys(stage.after):
        if name == stage.name:
            found.append("after: a stage cannot wait for itself")
        elif name not in places:
            found.append(f"after: there is no stage {name}; there are {', '.join(places)}")
    if stage.begins is None:
        return found
    window, due_at = stage.begins, spec.due_at(now)
    if not 0 <= window.opens < DAY or not 0 < window.lasts <= DAY:
        found.append("begins: a window opens at a time of day, and lasts a day at most")
    elif due_at != NO_DEADLINE and window.begins_from(now) >= due_at:
        found.append("begins: the window does not open before the deadline")
    return found


def _problems_of_variables(names: Sequence[str]) -> list[str]:
    """Return the problem of stages that later ones could not tell apart in their environment."""
    seen: dict[str, str] = {}
    for name in dict.fromkeys(names):
        other = seen.setdefault(stage_variable(name), name)
        if other != name:
            return [f"stages: {other} and {name} would both be {stage_variable(name)}_... for later stages"]
    return []


def _cycle(stages: Sequence[StageSpec]) -> list[str]:
    """Return the names of stages that wait for each other, in turn, the first one again at the end."""
    after = after_of(stages)
    # A stage that waits for no other is on no circle: each stage that is left waits for one that is left.
    left = {place: set(before) for place, before in enumerate(after)}
    while free := [place for place, before in left.items() if not before & left.keys()]:
        for place in free:
            del left[place]
    path = [next(iter(left))]
    while True:
        path.append(next(place for place in after[path[-1]] if place in left))
        if path[-1] in path[:-1]:
            circle = path[path.index(path[-1]) :]
            return [stages[place].name for place in reversed(circle)]

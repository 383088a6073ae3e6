"""The `share` of a job file: work of a shared pool, which a policy gives part of the time and one of several GPU types."""

from decimal import Decimal

from msgspec.structs import replace

from core.nouns.sharing import MICRO_STEPS, WEIGHT, WHOLE, ShareSpec
from core.nouns.workload import NEVER, Kind, WorkloadSpec
from core.sharing.classes import model_of
from mizzen.jobs.section import Section, one
from mizzen.jobs.values import Unreadable, decimal_of, name_of, span_of, whole_of
from runtime.yaml_tree import shown

OF_SHARE = ("model", "speeds", "steps", "weight", "entity", "slo", "beside")
MAY_SHARE = (Kind.TRAINING, Kind.BATCH)
"""Kinds that can be stopped round after round."""
SPEED_DIGITS = len(str(MICRO_STEPS)) - 1
WEIGHT_DIGITS = len(str(WEIGHT)) - 1


def read_share(section: Section) -> ShareSpec:
    """Return what the section says."""
    default = ShareSpec()
    speeds, beside = section.section("speeds"), section.section("beside")
    return ShareSpec(
        model=section.read("model", one(name_of), default.model),
        speeds=read_speeds(speeds) if speeds is not None else {},
        steps=section.read("steps", one(whole_of), default.steps),
        weight=section.read("weight", one(_weight), default.weight),
        entity=section.read("entity", one(name_of), default.entity),
        within=section.read("slo", one(span_of), NEVER),
        beside=read_beside(beside) if beside is not None else {},
    )


def read_speeds(section: Section) -> dict[str, int]:
    """Return millionths of a step in a second, by GPU type."""
    return section.values(one(_speed), MICRO_STEPS)


def read_beside(section: Section) -> dict[str, int]:
    """Return millionths of its speed that a job keeps beside a job of a model, by model."""
    return section.values(one(_part), WHOLE)


def shared_kind(top: Section, kind: Kind) -> Kind:
    """Return the kind of a workload with a `share` whose file says `kind`, or nothing."""
    if "kind" in top and kind not in MAY_SHARE:
        top.misplaced(
            "share", f"{kind} work is not stopped round after round; only {' and '.join(MAY_SHARE)} work is"
        )
    if "priority" in top:
        top.misplaced(
            "priority", "in a shared pool weights decide, and no levels; write share.weight instead"
        )
    return Kind.SHARED


def with_models(spec: WorkloadSpec) -> WorkloadSpec:
    """Return a workload of which the emulated jobs say their model: beside it others may keep a part of their speed."""
    model = model_of(spec)
    jobs = (
        replace(job, emulation=replace(job.emulation, model=model)) if job.emulation else job
        for job in spec.jobs
    )
    return replace(spec, jobs=tuple(jobs))


def _speed(text: str) -> int:
    speed = int(decimal_of(text, SPEED_DIGITS) * MICRO_STEPS)
    if not speed:
        raise Unreadable(f"{shown(text)} is no speed; leave out the types on which it does not run")
    return speed


def _part(text: str) -> int:
    part = int(decimal_of(text, SPEED_DIGITS) * WHOLE)
    if not 0 < part <= WHOLE:
        raise Unreadable(f"{shown(text)} is no part of a speed; write more than 0, and 1 at most")
    return part


def _weight(text: str) -> int:
    weight: Decimal = decimal_of(text, WEIGHT_DIGITS) * WEIGHT
    if not weight:
        raise Unreadable("a weight of 0 would have it wait for ever; write more than 0")
    return int(weight)

"""All stages of a pipeline run in one region, unless the user let them run apart.

Before the first award, stages may be awarded only in regions that could hold all of them, as far as is known at the newest look; from
then on, only in the region of that award. A stage that reads data of which more has a home elsewhere goes to that data, and is held
nowhere. A hold ends when the region is given up, or when the first award was declined before a stage ran. While every region that
could hold all stages is given up, none is held: each runs where it can.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from components.job_queue.state.queue_state import QueueState
from core.events.pipelines import StagesHeld
from core.fact import Event
from core.images.pipelines import PipelineRow
from core.images.queue import WorkloadRow
from core.nouns.ids import PipelineId, RegionName, WorkloadId
from core.nouns.workload import WorkloadSpec
from core.rules.never_fits import could_fit


def shared_regions(
    state: QueueState,
    specs: Sequence[WorkloadSpec],
    regions: Sequence[RegionName],
    *,
    with_abandoned: bool = False,
) -> tuple[RegionName, ...]:
    """Return the regions, of these, that all workloads allow and could be held by; an unknown region may hold all.

    with_abandoned   regions that were given up count too, because they may be taken back
    """
    return tuple(
        region
        for region in regions
        if (with_abandoned or region not in state.image.regions.abandoned)
        and all(not spec.regions or region in spec.regions for spec in specs)
        and _could_hold(state, region, specs)
    )


def _could_hold(state: QueueState, region: RegionName, specs: Sequence[WorkloadSpec]) -> bool:
    image = state.regions[region]
    if image is None or not image.hardware.runs:
        return True
    return all(could_fit(spec, image.hardware) for spec in specs)


def held_at_first(
    state: QueueState, pipeline: PipelineId, workloads: Sequence[WorkloadId], specs: Sequence[WorkloadSpec]
) -> tuple[Event, ...]:
    """Return the fact that holds the stages of a new pipeline to the regions that all of them share, if some stage could go elsewhere."""
    shared, held = _first_hold(state, specs)
    return (StagesHeld(pipeline, tuple(workloads[place] for place in held), regions=shared),) if held else ()


def renewed(state: QueueState, pipeline: PipelineId, row: PipelineRow) -> tuple[Event, ...]:
    """Return the facts that end the hold of a pipeline to a region that is given up, or in which no stage ran or is to run; and those by
    which a pipeline that no award holds yet is held to other regions than before.
    """
    if not row.is_held_together or (row.region and not row.is_free):
        return ()
    rows = state.image.workloads.rows
    names = [stage.workload for stage in row.stages if not stage.phase.is_terminal]
    shared, held = _first_hold(state, [_as_asked(rows[name]) for name in names])
    to_hold = tuple(names[place] for place in held)
    to_free = tuple(name for name in names if rows[name].asked_regions is not None and name not in to_hold)
    is_new = row.is_free or any(_held_to(rows[name]) != shared for name in to_hold)
    events: list[Event] = []
    if to_free or (row.is_free and not to_hold):
        events.append(StagesHeld(pipeline, to_free))
    if to_hold and (is_new or to_free):
        events.append(StagesHeld(pipeline, to_hold, regions=shared))
    return tuple(events)


def _first_hold(state: QueueState, specs: Sequence[WorkloadSpec]) -> tuple[tuple[RegionName, ...], list[int]]:
    """Return the regions that all stages share, and the places of the stages to hold to them: none if no stage could go elsewhere.

    specs   with the regions that the user named
    """
    shared = shared_regions(state, specs, tuple(state.regions))
    if not shared or not any(set(_allowed(state, spec)) - set(shared) for spec in specs):
        return shared, []
    return shared, [place for place, spec in enumerate(specs) if not _has_data_elsewhere(state, spec, shared)]


def _as_asked(row: WorkloadRow) -> WorkloadSpec:
    return row.spec if row.asked_regions is None else replace(row.spec, regions=row.asked_regions)


def _held_to(row: WorkloadRow) -> tuple[RegionName, ...]:
    """Return the regions to which a stage is held; empty: as its user said."""
    return () if row.asked_regions is None else row.spec.regions


def held_by_award(
    state: QueueState, workload: WorkloadId, region: RegionName, held: dict[PipelineId, RegionName]
) -> tuple[Event, ...]:
    """Return the fact that holds a pipeline to the region of the first award, which comes before the award.

    held   pipelines that this decision has held already; is added to
    """
    found = state.image.pipelines.of.get(workload)
    if found is None:
        return ()
    pipeline, row = found[0], state.image.pipelines.rows[found[0]]
    if not row.is_held_together or row.region or pipeline in held:
        return ()
    stages = _stages_held(state, row, region)
    if workload not in stages:
        return ()  # This stage follows the data, and holds no other stage.
    held[pipeline] = region
    return (StagesHeld(pipeline, stages, region),)


def is_held_elsewhere(
    state: QueueState, workload: WorkloadId, region: RegionName, held: dict[PipelineId, RegionName]
) -> bool:
    """Return whether a workload may not be awarded in a region, because another stage holds the pipeline to another region.

    held   pipelines that this decision has held
    """
    found = state.image.pipelines.of.get(workload)
    if found is None:
        return False
    spec = state.image.workloads.rows[workload].spec
    if spec.regions and region not in spec.regions:
        return True
    chosen = held.get(found[0])
    return chosen is not None and chosen != region and _may_go(state, workload, chosen)


def _stages_held(state: QueueState, row: PipelineRow, region: RegionName) -> tuple[WorkloadId, ...]:
    return tuple(
        stage.workload
        for stage in row.stages
        if not stage.phase.is_terminal and _may_go(state, stage.workload, region)
    )


def _may_go(state: QueueState, workload: WorkloadId, region: RegionName) -> bool:
    """Return whether a stage may be held to a region. Once a region was given up, none may be left that suits all stages."""
    spec = _as_asked(state.image.workloads.rows[workload])
    can_go = (not spec.regions or region in spec.regions) and _could_hold(state, region, [spec])
    return can_go and not _has_data_elsewhere(state, spec, (region,))


def _has_data_elsewhere(state: QueueState, spec: WorkloadSpec, regions: tuple[RegionName, ...]) -> bool:
    """Return whether another region has more of the homes of the data that a workload reads than each of these."""
    if not spec.data:
        return False
    away = state.image.datasets.away_from
    return min(away(region, spec.data) for region in _allowed(state, spec)) < min(
        away(region, spec.data) for region in regions
    )


def _allowed(state: QueueState, spec: WorkloadSpec) -> tuple[RegionName, ...]:
    """Return the regions that could hold a workload, as far as is known; at least those that the user named."""
    named = spec.regions or tuple(state.regions)
    return shared_regions(state, [spec], named) or named

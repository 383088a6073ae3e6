"""Measured speeds of shared work: from a checkpoint of an attempt to a later one, a job has made so many steps in so much time.

    a checkpoint    is compared with one of the same attempt that lies at least a part of a round before it
    the average     of like jobs on a GPU type moves with each such speed
    SpeedMeasured   is recorded, once a round at most, when the average differs from the known speed, measured or told, by one part of `SPEED_DIFFERS_PART`

Jobs that share a GPU have an average for each kind of jobs beside them. A checkpoint that a job saves because it was told to stop is not used: by then it may have worked less. Averages are not recorded; a
queue that starts again begins with the speeds that are known.
"""

from components.job_queue.state.queue_state import QueueState
from components.job_queue.state.speed_meter import Mark, SpeedKey
from core.component import NOTHING, Decision
from core.events.region import CheckpointCommitted
from core.events.sharing import SpeedMeasured
from core.fact import Fact
from core.images.sharing import Sharing
from core.nouns.ids import WorkloadId
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.sharing import MICRO_STEPS
from core.rules.quota import narrowed

SPEED_DIFFERS_PART = 20
"""An average that differs by a 20th, 5 %, is recorded: shares are then solved again."""
SPEED_SPAN_PART = 20
"""At least this part of a round lies between two checkpoints from which a speed is measured: 18 s of 6 min."""


def speeds_due(state: QueueState) -> Instant | None:
    """Return since when an average that may be recorded in this round differs from what is known; None: none does."""
    return min(_to_record(state).values(), default=None)


def _to_record(state: QueueState) -> dict[SpeedKey, Instant]:
    """Return the averages that differ, and since when, but for those that were recorded in this round already."""
    meter, number = state.speeds, state.image.sharing.number
    return {key: at for key, at in meter.differing.items() if meter.recorded.get(key) != number}


def follow_checkpoint(state: QueueState, fact: Fact) -> None:
    """Follow a checkpoint in a region's log: the average of jobs like this one moves."""
    event, sharing, meter = fact.event, state.image.sharing, state.speeds
    if not isinstance(event, CheckpointCommitted) or event.workload not in sharing.jobs:
        return
    row, kind = state.image.workloads.rows[event.workload], sharing.jobs[event.workload].kind
    if row.epoch != event.epoch or state.image.awards.rows[event.workload].moving:
        return
    (job,) = narrowed(row.spec.jobs, row.types)
    other = state.neighbours.get(event.workload, WorkloadId(""))
    neighbour = f"{other}.{state.image.workloads.rows[other].epoch}" if other else ""
    span_min = Nanoseconds(sharing.settings.round_span // SPEED_SPAN_PART)
    speed = meter.saved(event.workload, Mark(event.epoch, event.step, fact.at, neighbour), span_min)
    if not speed or (other and other not in sharing.jobs):
        return
    beside = sharing.jobs[other].kind if other in sharing.jobs else ""
    key = SpeedKey(
        sharing.classes[kind].speed_key,
        job.gpu_type,
        sharing.classes[beside].speed_key if beside else "",
    )
    if beside:
        known = round(sharing.speed_beside(kind, beside, key.gpu_type) * MICRO_STEPS)
    else:
        known = sharing.speeds_of(kind).get(key.gpu_type, 0)
    average = meter.average(key, speed, _measured(sharing, key))
    if abs(average - known) * SPEED_DIFFERS_PART >= max(1, known):
        meter.differing.setdefault(key, fact.heard_at)
    else:
        meter.differing.pop(key, None)


def _measured(sharing: Sharing, key: SpeedKey) -> int:
    """Return the speed that was measured before, in millionths of a step in a second; 0: none was."""
    row = sharing.measured.get(key.jobs)
    if row is None:
        return 0
    return (
        row.together.get(key.gpu_type, {}).get(key.beside, 0)
        if key.beside
        else row.speeds.get(key.gpu_type, 0)
    )


def record_speeds(state: QueueState, now: Instant) -> Decision:
    """Return the speeds that differ from those that are known."""
    due = speeds_due(state)
    if due is None or due > now:
        return NOTHING
    meter = state.speeds
    return Decision(
        tuple(
            SpeedMeasured(key.jobs, key.gpu_type, meter.averages[key], key.beside)
            for key in sorted(_to_record(state))
        )
    )

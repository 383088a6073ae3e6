"""Refusals as facts: why every region refuses a shape that waits, so that a queue that starts again can still tell users.

A reason is recorded if it lasts (`LASTING`) and two walks over the waiting shapes in a row have found it, at least `NOTED_INTERVAL`
apart, while every region had a reason. At most one fact is written in `NOTED_STEP`, whatever waits, and none while reasons stay.
While a region is being asked anew, what is recorded stands. No decision of the queue reads the record: after a start regions are asked again.
"""

from components.job_queue.ordering import asked_for, bring_up
from components.job_queue.state.asked_shape import AskedShape, digest
from components.job_queue.state.queue_state import OpeningsSeen, QueueState, refusal_in
from components.job_queue.state.refusal_walk import Doubts, ShapesLookedAt
from core.codec import encode
from core.component import NOTHING, Decision
from core.events.queue import NotedRefusal, RefusalsNoted, RefusedShape
from core.fact import Fact
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.limits import (
    NOTED_AT_ONCE_MAX,
    NOTED_BYTES_MAX,
    NOTED_LOOKED_AT_MAX,
    WORKLOAD_MILLI_MAX,
)
from core.nouns.placement import gpu_milli_of
from core.nouns.reasons import LASTING
from core.ranking.scan import Group, QuotaClass


def note_refusals(state: QueueState, now: Instant) -> Decision:
    """Return the next part of a walk that is due, with the fact of what has changed."""
    walk = state.refusal_walk
    if walk.at is None or walk.at > now:
        return NOTHING
    bring_up(state, now)
    count = min(NOTED_AT_ONCE_MAX, NOTED_LOOKED_AT_MAX - walk.walked)
    groups = state.order.groups(walk.walked, count)
    noted: list[RefusedShape] = []
    doubts: dict[str, Doubts] = {}
    looked_at = 0
    size, has_news = 0, False
    for ((level, quota_class), shape), example in groups:
        looked_at += 1
        if quota_class is QuotaClass.BLOCKED:
            continue  # Its tenant's quota is the reason, and no region is asked.
        asked = asked_for(state, example, -level, quota_class)
        before = walk.doubts_before.get(asked.digest, {})
        refusals, found = _found(state, example.workload, asked, before, now)
        if found:
            doubts[asked.digest] = found
            has_news |= found != before
        if refusals:
            group = ((level, quota_class), shape)
            noted.append(_refused(state, group, asked.digest, example.workload, refusals))
            size += len(encode(noted[-1]))
            if size > NOTED_BYTES_MAX:
                break
    is_last = looked_at < NOTED_AT_ONCE_MAX and looked_at == len(groups)
    seen = ShapesLookedAt(doubts, looked_at, is_last, has_news)
    if not noted and len(state.order):
        return Decision(events=(seen,))  # Shapes that are gone are told beside the next reason.
    known = {row.shape for row in state.image.refusals.rows.values()} if is_last else set()
    gone = tuple(sorted(known - state.shape_names.keys()))
    return Decision(events=(RefusalsNoted(tuple(noted), gone), seen) if noted or gone else (seen,))


def _refused(
    state: QueueState,
    group: Group,
    request: str,
    workload: WorkloadId,
    refusals: tuple[NotedRefusal, ...],
) -> RefusedShape:
    """Return the record of a group of workloads, of which one is given."""
    spec = state.image.workloads.rows[workload].spec
    types = [frozenset(job.node_types) for job in spec.jobs if job.need.gpu_milli]
    gpu_milli = gpu_milli_of(spec.jobs) * state.order.count_of(group)
    return RefusedShape(
        request,
        digest(group[1]),
        workload,
        refusals,
        str(spec.kind),
        tuple(sorted(frozenset.intersection(*types))) if types else (),
        min(gpu_milli, WORKLOAD_MILLI_MAX),
    )


def follow_walk(state: QueueState, fact: Fact) -> None:
    """Fold a part of a walk, and begin a walk after a change: a cycle was begun, or the last waiting workload has left."""
    walk, is_empty = state.refusal_walk, not len(state.order)
    if isinstance(fact.event, ShapesLookedAt):
        walk.note(fact.event, fact.at)
    elif state.image.refusals.rows if is_empty else isinstance(fact.event, OpeningsSeen):
        walk.stir(fact.at)


def _found(
    state: QueueState, workload: WorkloadId, asked: AskedShape, before: Doubts, now: Instant
) -> tuple[tuple[NotedRefusal, ...], Doubts]:
    """Return the reasons against a request that are to be recorded, and those that the next walk must confirm."""
    row = state.image.workloads.rows[workload]
    regions = row.spec.regions or tuple(state.regions)
    against = {region: refusal_in(state, region, row.spec, asked) for region in regions}
    if row.move is not None or any(reason is None for reason, _ in against.values()):
        return (), before
    known = state.image.refusals.rows.get(asked.digest)
    noted: list[NotedRefusal] = []
    doubts: dict[RegionName, tuple[str, Instant]] = {}
    for region, (reason, said) in against.items():
        was = known.regions.get(region) if known is not None else None
        if reason not in LASTING:
            continue
        if (
            was is not None
            and was.reason == reason
            and was.since >= state.refusal_walk.taken_at(asked.shape, region)
        ):
            continue
        found, since = before.get(region, ("", now))
        if found != reason:
            doubts[region] = reason, now
            continue
        figures = (said.missing_gpu_milli, said.missing_cpu_milli, said.shortage) if said is not None else ()
        noted.append(NotedRefusal(region, reason, Nanoseconds(now - since), *figures))
    return tuple(noted), doubts

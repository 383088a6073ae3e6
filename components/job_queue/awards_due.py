"""The awards that are due for a look: the next step of each, by what its region's log shows."""

from msgspec.structs import replace

from components.job_queue.awards import Step, settle
from components.job_queue.ordering import host_of
from components.job_queue.regions import consent_of
from components.job_queue.state.queue_state import QueueState, Settled
from core.component import NOTHING, Decision
from core.fact import Event, Note
from core.messages.base import Message
from core.nouns.ids import WorkloadId
from core.nouns.instant import Instant, earliest
from core.rules.quota import settings_of


def settle_awards(state: QueueState, now: Instant) -> Decision:
    """Return the next steps of the awards that are due for a look."""
    workloads = state.awards_due.passed(now)
    if not workloads:
        return NOTHING
    events: list[Event | Note] = []
    messages: list[Message] = []
    for workload in workloads:
        step = _settle(state, workload, now)
        events.append(Settled(workload, step.again_at))
        events.extend(step.events)
        messages.extend(step.messages)
    return Decision(tuple(events), tuple(messages))


def _settle(state: QueueState, workload: WorkloadId, now: Instant) -> Step:
    row = state.image.workloads.rows[workload]
    image = state.regions.get(row.region)
    attempt = image.attempts.row(workload, row.epoch) if image is not None else None
    bid = state.won.get(workload)
    settings = settings_of(state.image.tenants, row.tenant)
    awarded_at = state.awarded_at.get(workload, now)
    consent, again_at = consent_of(state, row, now)
    before = state.image.pipelines.forerunners(workload) if row.is_active else ()
    step = settle(
        workload,
        row,
        attempt,
        bid,
        awarded_at,
        now,
        settings.run_min,
        consent,
        host_of(state, row),
        before,
    )
    return replace(step, again_at=earliest(step.again_at, again_at)) if row.is_active else step

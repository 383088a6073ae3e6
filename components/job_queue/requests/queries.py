"""Answers to users' queries: where a workload is, which workloads exist, and why a workload does not run.

Queries change no state. Reasons are computed from the queue's present state, so that an answer is never older than the question.
"""

from collections import Counter
from collections.abc import Callable

from components.job_queue.copies.obstacles import obstacle_in
from components.job_queue.copies.queries import copies_of, failures_of
from components.job_queue.ordering import asked_now, kept_why, lending_now, may_be_lent, pass_of
from components.job_queue.quota.drain import excluded, excluded_why, has_turn
from components.job_queue.requests.blockers import holders_of, kept_for
from components.job_queue.requests.stages_told import stage_told
from components.job_queue.reservations import promised_in, shown_start
from components.job_queue.rounds import why_not_picked
from components.job_queue.start_estimates import run_time_of, start_in_order
from components.job_queue.state.asked_shape import AskedShape
from components.job_queue.state.auctions import LACKS_CAPACITY
from components.job_queue.state.queue_state import QueueState, eligible, refusal_in, why_not_asked
from components.replies import answered, refused
from core.codec import encode
from core.component import Decision
from core.images import RegionImage
from core.images.queue import WorkloadRow
from core.images.refusals import HeldReason
from core.images.region import AttemptRow
from core.messages.base import Envelope, Message
from core.messages.queue import (
    ExplainWorkload,
    HardwareKnown,
    ListedWorkload,
    ListWorkloads,
    PastReason,
    RegionOutlook,
    ShowWorkload,
    WorkloadExplained,
    WorkloadShown,
    WorkloadsListed,
)
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.limits import AHEAD_SHOWN_MAX, LISTED_BYTES_MAX, LISTED_MAX, NUMBER_MAX
from core.nouns.placement import gpu_milli_of, runs_of
from core.nouns.reasons import Reason, sentence
from core.nouns.tenant import OVER_LEVEL
from core.nouns.workload import Kind, Phase
from core.ranking.scan import QuotaClass, Ranked
from core.rules.ownership import owned
from core.rules.quota import level_of, narrowed

Waiting = tuple[Reason, dict[RegionName, str]]
"""The reason why a pending workload waits, and the reasons of regions that refuse, by region."""
Drained = tuple[RegionName, Reason] | None
Request = tuple[AskedShape | None, int, Drained]
"""What regions are asked for, if the workload is in the order; the level; and the region drained for other work."""
Known = dict[tuple[AskedShape, Drained], Waiting]
"""Reasons within one answer, by the request and the region drained for other work."""


class UserAnswers:
    """The queue's deciders for users' queries."""

    def __init__(self, regions: tuple[RegionName, ...]) -> None:
        self.regions = regions
        self.deciders: dict[type[Message], Callable[[QueueState, Envelope], Decision]] = {
            ShowWorkload: self._show,
            ListWorkloads: self._list,
            ExplainWorkload: self._explain,
        }

    def _show(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, ShowWorkload)
        row = state.image.workloads.rows.get(message.workload)
        if row is None:
            return refused(Reason.UNKNOWN_WORKLOAD)
        reason = self._reason(state, message.workload, row, envelope.at)
        shown = WorkloadShown(
            workload=message.workload,
            name=row.spec.name,
            phase=row.phase,
            reason=reason or "",
            sentence=_sentence(row, reason),
            epoch=row.epoch,
            region=row.region,
            hold_revision=row.hold_revision,
            is_held=row.is_held,
            spec_revision=row.spec_revision,
            priority_revision=row.priority_revision,
            spec=row.spec if message.wants_spec else None,
            up_for=_span(row.started_at, envelope.at) if row.phase == Phase.RUNNING else -1,
            last_cause=row.last_cause,
            move_revision=row.move_revision,
            stage=stage_told(state, message.workload, envelope.at),
        )
        return answered(shown)

    # Lists.

    def _list(self, state: QueueState, envelope: Envelope) -> Decision:
        """Return a page of workloads. Rows of earlier pages are walked over again, which is too cheap to need an index."""
        message = envelope.message
        assert isinstance(message, ListWorkloads)
        rows = owned(envelope.tenant, state.image.workloads.rows)
        phases = frozenset(message.phases or Phase)
        count_max = min(max(1, message.count_max), LISTED_MAX)
        known: Known = {}
        listed: list[ListedWorkload] = []
        bytes_left = LISTED_BYTES_MAX
        next_after = last = 0
        for workload, row in rows.items():
            if row.number <= message.after or row.phase not in phases:
                continue
            line = self._line(state, workload, row, known, envelope.at)
            bytes_left -= len(encode(line))
            if listed and (len(listed) == count_max or bytes_left < 0):
                next_after = last
                break
            listed.append(line)
            last = row.number
        if message.after:
            return answered(WorkloadsListed(tuple(listed), next_after))
        found = Counter(row.phase for row in rows.values())
        counts = {phase.value: found[phase] for phase in Phase if found[phase]}
        return answered(WorkloadsListed(tuple(listed), next_after, counts, self._with_nodes(state)))

    def _with_nodes(self, state: QueueState) -> tuple[RegionName, ...]:
        images = {
            region: state.regions[region] for region in self.regions if not state.silent.get(region, True)
        }
        return tuple(region for region, image in images.items() if image is not None and image.hardware.runs)

    def _line(
        self,
        state: QueueState,
        workload: WorkloadId,
        row: WorkloadRow,
        known: Known,
        now: Instant,
    ) -> ListedWorkload:
        """Return one workload's line in a list; `known` as in `why`."""
        spec = row.spec
        reason, refusals = self.why(state, workload, row, known, now)
        is_over = _is_over(state, workload, row)
        attempt = _attempt(state, workload, row)
        until = row.ended_at or now
        up_at = row.started_at if row.phase != Phase.PENDING else 0
        return ListedWorkload(
            workload=workload,
            name=spec.name,
            tenant=spec.tenant,
            priority=row.level if row.is_active and not is_over else level_of(row, state.image.tenants),
            kind=spec.kind,
            phase=row.phase,
            epoch=row.epoch,
            gpu_milli=gpu_milli_of(spec.jobs),
            tasks=sum(job.tasks for job in spec.jobs),
            waited=_span(row.submitted_at, up_at or until),
            ran=_span(up_at, until) if up_at else Nanoseconds(0),
            region=row.region,
            regions=spec.regions,
            node_runs=runs_of(node for spread in attempt.spreads for node in spread.nodes) if attempt else (),
            saved_step=attempt.saved_step if attempt else 0,
            reason=reason or "",
            refusals=refusals,
            promised_in=promised_in(state, workload, now),
            is_over=is_over,
            stage=None if row.phase.is_terminal else stage_told(state, workload, now),
        )

    # Reasons.

    def _reason(
        self, state: QueueState, workload: WorkloadId, row: WorkloadRow, now: Instant
    ) -> Reason | None:
        """Return the reason why a workload does not run, as `why` does."""
        return self.why(state, workload, row, {}, now)[0]

    def why(
        self,
        state: QueueState,
        workload: WorkloadId,
        row: WorkloadRow,
        known: Known,
        now: Instant,
    ) -> tuple[Reason | None, dict[RegionName, str]]:
        """Return the reason why a workload does not run, and the reasons of regions that refuse.

        Awarded and ended workloads have no reason; an award that waits for a silent region has `REGION_UNREACHABLE`.

        known   caches reasons within one answer, by the shape asked for and the region drained for other work
        """
        if row.is_active:
            is_unreachable = row.phase == Phase.AWARDED and state.silent.get(row.region, True)
            return (Reason.REGION_UNREACHABLE if is_unreachable else None), {}
        if row.phase != Phase.PENDING:
            return None, {}
        if row.is_held:
            return Reason.UNHANDLED if row.hold_reason else Reason.HELD, {}
        if row.move is not None:
            return Reason.MOVING, {}
        if workload not in state.order:
            stage = state.image.pipelines.stage(workload)
            if stage is not None and not row.is_cancel_requested:
                is_ready = state.image.pipelines.is_ready(workload)
                return (Reason.WAITS_FOR_WINDOW if is_ready else Reason.WAITS_FOR_STAGE), {}
            if row.is_cancel_requested or row.spec.kind is not Kind.SHARED:
                return Reason.WAITING_TURN, {}
            return why_not_picked(state, workload)
        one, asked = asked_now(state, workload, now)
        drained = _drained(state, one)
        key = asked, drained
        if key not in known:
            known[key] = self._waiting(state, row, asked, drained)
        reason, refusals = known[key]
        return self._against_quota(state, one) or reason, refusals

    def _against_quota(self, state: QueueState, one: Ranked) -> Reason | None:
        """Return the reason of quota, budget or ranking against a workload's start, if there is one."""
        if one.quota_class is QuotaClass.BORROWING:
            if excluded_why(state, one.work) is Reason.AHEAD_OF_DUE:
                return Reason.AHEAD_OF_DUE
            if may_be_lent(state, one.work, lending_now(state)):
                return None
            return kept_why(state, one.work) or Reason.OVER_QUOTA
        if one.quota_class is QuotaClass.NOMINAL:
            return None
        if not state.order.is_passed(one.work.workload):
            return Reason.NOT_RANKED
        is_spent = one.work.uses_gpus and state.order.tenant(one.work.tenant).is_spent
        if is_spent:
            return Reason.BUDGET_SPENT
        return kept_why(state, one.work) or Reason.BORROWED_ALL

    def _waiting(self, state: QueueState, row: WorkloadRow, shape: AskedShape, drained: Drained) -> Waiting:
        """Return the reason why a pending workload waits, and the reasons of regions that refuse.

        Equal for pending workloads of one shape with the same `drained`: the shape covers needs, data and regions.
        """
        asked = eligible(state, row.spec, shape.level)
        request = shape, shape.level, drained
        said_by = {
            region: _against(state, row, request, region) for region in row.spec.regions or self.regions
        }
        refusals: dict[RegionName, str] = {
            region: reason for region, reason in said_by.items() if reason is not None
        }
        if any(region not in refusals for region in asked):
            return Reason.WAITING_TURN, refusals
        reasons = [refusals[region] for region in asked]
        if reasons:
            return Reason(Reason.NO_CAPACITY if Reason.NO_CAPACITY in reasons else reasons[0]), refusals
        for reason in (Reason.NO_DATA, Reason.DATA_NOT_FRESH, Reason.REGION_ABANDONED):
            if reason in refusals.values():
                return reason, refusals
        is_heard = all(not state.silent.get(region, True) for region in said_by)
        return (Reason.NO_SUCH_HARDWARE if is_heard else Reason.REGION_UNREACHABLE), refusals

    # Explanations.

    def _explain(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, ExplainWorkload)
        workload = message.workload
        row = state.image.workloads.rows.get(workload)
        if row is None:
            return refused(Reason.UNKNOWN_WORKLOAD)
        reason = self._reason(state, workload, row, envelope.at)
        is_ordered, drain = workload in state.order, state.drain
        one, shape, jobs, level = None, None, row.spec.jobs, row.level
        if is_ordered:
            one, asked = asked_now(state, workload, envelope.at)
            shape, jobs, level = asked, narrowed(jobs, asked.types), asked.level
        data = row.spec.data if row.phase == Phase.PENDING else ()
        request = shape, level, _drained(state, one) if one is not None else None
        outlooks = tuple(
            _outlook(state, workload, request, region, envelope.at)
            for region in (self.regions if row.phase == Phase.PENDING else ())
        )
        lacking = {one.region for one in outlooks if one.reason == Reason.NO_DATA}
        explained = WorkloadExplained(
            workload=workload,
            name=row.spec.name,
            phase=row.phase,
            reason=reason or "",
            sentence=_sentence(row, reason),
            epoch=row.epoch,
            region=row.region,
            is_held=row.is_held,
            hold_revision=row.hold_revision,
            is_cancel_requested=row.is_cancel_requested,
            shape=row.shape if shape is None else shape.text,
            rank=state.order.rank(workload) if is_ordered else -1,
            ahead=_ahead(state, workload) if is_ordered else (),
            asking=self._asking(state, workload, shape) if is_ordered else (),
            regions=outlooks,
            tenant=row.spec.tenant,
            standing=one.quota_class.text if one is not None else "",
            level=level,
            credit=max(-NUMBER_MAX, min(NUMBER_MAX, one.credit)) if one is not None else 0,
            age_weight=state.image.tenants.ranking.credit.age_weight,
            pass_number=pass_of(state, envelope.at),
            is_held_to=tuple(job.type_text for job in jobs) if jobs != row.spec.jobs else (),
            start=start_in_order(state, workload, envelope.at) if is_ordered else None,
            promised=shown_start(state, workload, envelope.at),
            run_time=run_time_of(state, workload, envelope.at),
            gathered_in=drain.region
            if is_ordered and drain is not None and has_turn(state, workload)
            else "",
            copies=copies_of(state, data, envelope.at),
            failed_copies=tuple(
                one for one in failures_of(state, data, envelope.at) if one.target in lacking
            ),
            stage=stage_told(state, workload, envelope.at),
        )
        return answered(explained)

    def _asking(
        self, state: QueueState, workload: WorkloadId, shape: AskedShape | None
    ) -> tuple[WorkloadId, ...]:
        """Return open auctions of workloads ahead, or of the same shape, in queue order.

        Those of the same shape come first, because a contended shape is asked for one workload at a time.
        """
        rank = state.order.rank(workload)
        ranks = {
            other: (auction.shape != shape, state.order.rank(other))
            for other, auction in state.auctions.open.items()
            if other != workload and other in state.order
        }
        turns = [other for other, (is_unlike, place) in ranks.items() if place < rank or not is_unlike]
        return tuple(sorted(turns, key=lambda other: ranks[other])[:AHEAD_SHOWN_MAX])


def _against(state: QueueState, row: WorkloadRow, request: Request, region: RegionName) -> Reason | None:
    """Return why a region does not bid for a workload; None where the region is asked, or would be.

    Until a region has answered a queue that has started again, the region's reason in the queue's log counts.
    """
    shape, level, drained = request
    if shape is None:
        why = why_not_asked(state, region, row.spec, level)
    else:
        why, _ = refusal_in(state, region, row.spec, shape)
    if why is Reason.REGION_EXCLUDED and row.asked_regions is not None:
        was_asked = not row.asked_regions or region in row.asked_regions
        return Reason.STAGES_ELSEWHERE if was_asked else why
    if why is not None or shape is None:
        return why
    if drained is not None and region == drained[0]:
        return drained[1]
    noted = None if state.auctions.has_said(region, shape) else _noted(state, shape, region)
    return Reason(noted.reason) if noted is not None else None


def _outlook(
    state: QueueState, workload: WorkloadId, request: Request, region: RegionName, now: Instant
) -> RegionOutlook:
    row, image, shape = state.image.workloads.rows[workload], state.regions[region], request[0]
    against = _against(state, row, request, region)
    auction = state.auctions.open.get(workload)
    bid = auction.bids.get(region) if auction is not None else None
    said = state.auctions.refused_by(shape).get(region) if shape is not None else None
    if auction is not None and said is None:
        said = auction.abstained.get(region)  # The refusal no longer holds: the region is asked again.
    noted = _noted(state, shape, region) if shape is not None else None
    taken = state.refusal_walk.taken_at(shape.shape, region) if shape is not None else 0
    figures = noted if said is None and noted is not None and noted.reason == against else said
    is_full = against is Reason.OPEN_BIDS or against in LACKS_CAPACITY
    prospect = said.prospect if said is not None else None
    lacks_data = against is Reason.NO_DATA
    return RegionOutlook(
        region=region,
        reason=against or "",
        sentence=sentence(against) if against else "",
        hardware=_hardware(image, row),
        missing_data=state.image.datasets.missing_in(region, row.spec.data),
        is_asked=auction is not None and region in auction.asked,
        score=bid.score if bid is not None else (),
        refused=said.workload if said is not None else WorkloadId(""),
        agent=said.agent if said is not None else "",
        view_sequence=said.view_sequence if said is not None else 0,
        missing_gpu_milli=figures.missing_gpu_milli if figures is not None else 0,
        missing_cpu_milli=figures.missing_cpu_milli if figures is not None else 0,
        shortage=figures.shortage if figures is not None else None,
        holders=holders_of(state, image, row.spec.jobs) if is_full and image is not None else (),
        kept_for=kept_for(state, region, against, workload),
        unbounded_gpu_milli=prospect.unbounded_gpu_milli if prospect and not prospect.spreads else 0,
        noted=_past(noted, max(row.submitted_at, row.awarded_at, taken), now) if noted is not None else (),
        no_copy=(obstacle_in(state, row.spec.data, region, now) or "") if lacks_data else "",
    )


def _noted(state: QueueState, asked: AskedShape, region: RegionName) -> HeldReason | None:
    """Return what the queue's log has of a region's refusals of a request."""
    row = state.image.refusals.rows.get(asked.digest)
    return row.regions.get(region) if row is not None else None


def _past(noted: HeldReason, first: int, now: Instant) -> tuple[PastReason, ...]:
    """Return a region's lasting reasons since `first`, the newest first."""
    found, end = [], int(now)
    for reason, since in ((noted.reason, noted.since), *noted.before):
        began = max(since, first)
        if began < end:
            found.append(PastReason(reason, _span(began, now), _span(began, end)))
        end = began
    return tuple(found)


def _ahead(state: QueueState, workload: WorkloadId) -> tuple[WorkloadId, ...]:
    return tuple(one.work.workload for one in state.order.ahead_of(workload, AHEAD_SHOWN_MAX))


def _is_over(state: QueueState, workload: WorkloadId, row: WorkloadRow) -> bool:
    """Return whether a workload is awarded or waits over its tenant's quota. Call `why` first, which updates the order."""
    if row.is_active:
        return row.level == OVER_LEVEL
    order = state.order
    if workload not in order or not order.is_passed(workload):
        return False
    return order.one(workload).quota_class is not QuotaClass.NOMINAL


def _sentence(row: WorkloadRow, reason: Reason | None) -> str:
    """Return the sentence of a reason, with the unit and error of a workload whose messages cannot be handled."""
    if reason is None:
        return ""
    return f"{sentence(reason)} ({row.hold_reason})" if reason == Reason.UNHANDLED else sentence(reason)


def _span(start: int, end: int) -> Nanoseconds:
    return Nanoseconds(max(0, end - start))


def _attempt(state: QueueState, workload: WorkloadId, row: WorkloadRow) -> AttemptRow | None:
    """Return the attempt of an active award, once the region's log shows the attempt."""
    image = state.regions.get(row.region) if row.is_active else None
    return image.attempts.row(workload, row.epoch) if image is not None else None


def _hardware(image: RegionImage | None, row: WorkloadRow) -> tuple[HardwareKnown, ...]:
    """Return the region's hardware of the node types that the workload asks for, whether or not enough."""
    if image is None:
        return ()
    rows = image.hardware.of(row.spec.kind)
    return tuple(
        HardwareKnown(name, rows[name].nodes, rows[name].gpu_milli, rows[name].gpu_milli_max)
        for name in sorted(rows)
        if any(job.takes(name) for job in row.spec.jobs)
    )


def _drained(state: QueueState, one: Ranked) -> Drained:
    """Return the region in which a borrowing workload is not asked for because it is drained for other work, and the reason."""
    region, why = excluded(state, one.work), excluded_why(state, one.work)
    return (region, why) if region is not None and why is not None else None

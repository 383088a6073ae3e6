"""What is due to each tenant while some wait for what is lent, and who is lent nothing meanwhile: worked out once a minute.

somebody waits for what may be lent    what is due to each tenant is recorded when it is something else, so that the image knows
                                       each one's lag (core/ranking/fair_lag.py), which orders what is over quota
room is missing for whoever is         whoever had more than was due, and is ahead of it by more than `LAG_SLACK`, is lent
furthest behind                        nothing in the region in which the least is missing: narrow work would take each GPU as
                                       it comes free, and wide work never start. Elsewhere room is lent as ever: a gang lies in
                                       one region, and what drains in others for it is of use to nobody
for longer than `LAG_PATIENCE`         it holds nobody back any more, and nothing more is due to it for that: its room may
                                       never come. An award over quota to the same tenant begins that anew
"""

from components.job_queue.ordering import asked_for, bring_up, lending_now, may_be_lent
from components.job_queue.quota.drain import closed_to, gathered_now, has_turn, index_gathering, note_gathered
from components.job_queue.state.auctions import LACKS_ROOM
from components.job_queue.state.queue_state import QueueState, SharesSeen, eligible
from components.job_queue.state.quota_ledger import Lending
from core.component import NOTHING, Decision
from core.events.queue import WorkloadAwarded
from core.events.tenants import SharesDue
from core.fact import Event, Fact, Note
from core.nouns.ids import RegionName, TenantName
from core.nouns.instant import Instant, Nanoseconds, after
from core.nouns.limits import DUES_TOLD_MAX, LAG_PATIENCE, LAG_SLACK, LAGGING_LOOKED_AT, SHARES_INTERVAL
from core.nouns.tenant import OVER_LEVEL
from core.ranking.fair_lag import FairShare, dues
from core.ranking.scan import LOWEST, PendingWork, QuotaClass, Ranked
from core.rules.quota import entitled_to


def index_shares(state: QueueState, fact: Fact) -> None:
    """Follow a fact of the queue."""
    event = fact.event
    index_gathering(state, fact)
    if isinstance(event, WorkloadAwarded) and event.level == OVER_LEVEL:
        state.lacking.pop(event.tenant, None)
    if isinstance(event, SharesDue):
        state.ranked_at = Instant(-1)  # Everybody's lag is another than the order has.
    watch_shares(state, fact.at)


def watch_shares(state: QueueState, now: Instant) -> None:
    """While anybody waits for what might be lent, or something is due to somebody, that is looked at."""
    if state.shares_at is None and _is_watched(state):
        state.shares_at = Instant((now // SHARES_INTERVAL + 1) * SHARES_INTERVAL)


def record_shares(state: QueueState, now: Instant) -> Decision:
    """What is due from now on."""
    if state.shares_at is None or state.shares_at > now:
        return NOTHING
    due = _dues_now(state, now)
    bring_up(state, now)
    lacking = _lacking_room(state)
    lending = lending_now(state)
    lent = state.ledger.lent_in_all(lending)
    gathered = gathered_now(state, now, lent, lambda work: _is_blocked(state, work, lending, is_aged=True))
    events: list[Event | Note] = [SharesSeen(tuple(lacking), tuple(lacking.values()), gathered)]
    if due != state.image.usage.dues():
        events += _told(due, tuple(sorted(state.ledger.quota)))
    return Decision(events=tuple(events))


def _is_watched(state: QueueState) -> bool:
    if not state.image.tenants.ranking.credit.lag_weight:
        return bool(state.image.usage.dues())
    return bool(state.ledger.wanted or state.image.usage.dues())


def _told(due: dict[TenantName, FairShare], types: tuple[str, ...]) -> list[SharesDue]:
    """In as many facts as that takes."""
    rows = list(due.items())
    starts = range(0, max(1, len(rows)), DUES_TOLD_MAX)
    return [SharesDue(dict(rows[at : at + DUES_TOLD_MAX]), types, is_more=at > 0) for at in starts]


def _dues_now(state: QueueState, now: Instant) -> dict[TenantName, FairShare]:
    if not state.image.tenants.ranking.credit.lag_weight:
        return {}
    ledger = state.ledger
    tenants = state.image.tenants
    unheard = {name for name, (span, _) in state.lacking.items() if span >= LAG_PATIENCE}
    claimants = ledger.claimants(tenants, state.image.usage, now, unheard)
    entitled = {name: sum(entitled_to(row, ledger.quota).values()) for name, row in tenants.rows.items()}
    return dues(claimants, entitled)


def note_shares(state: QueueState, seen: SharesSeen, now: Instant) -> None:
    """From now on room is gathered for these."""
    note_gathered(state, seen.gathered, now)
    note_lacking(state, seen.lacking, now, seen.nearest)


# Who is held back.


def note_lacking(
    state: QueueState, tenants: tuple[TenantName, ...], now: Instant, nearest: tuple[RegionName, ...]
) -> None:
    """For these room was missing at the newest look. Whoever of them is furthest behind holds others back, and loses patience by it.

    Of those that lack nothing now that is remembered for a while: who submits anew begins nothing anew.
    """
    for name in tenants:
        span, _ = state.lacking.get(name, (Nanoseconds(0), now))
        state.lacking[name] = span, now
    for name, (_, seen_at) in list(state.lacking.items()):
        if after(seen_at, LAG_PATIENCE) <= now:
            del state.lacking[name]
    patient = [name for name in tenants if state.lacking[name][0] < LAG_PATIENCE]
    lags = {name: state.image.usage.lag(name, now) for name in patient}
    state.lends_from = state.gathers_in = None
    if lags:
        first = max(lags, key=lambda name: (lags[name], name))
        state.lacking[first] = Nanoseconds(state.lacking[first][0] + SHARES_INTERVAL), now
        state.lends_from = lags[first] - LAG_SLACK
        state.gathers_in = dict(zip(tenants, nearest, strict=True))[first]
    state.shares_at, state.open_at = None, now
    watch_shares(state, now)


def is_held_back(state: QueueState, work: PendingWork) -> bool:
    """Whether a workload over quota is lent nothing where room is gathered, because its tenant had so much more than somebody who waits
    for that.
    """
    return state.lends_from is not None and state.order.tenant(work.tenant).lag < state.lends_from


def where_asked(state: QueueState, one: Ranked, willing: tuple[RegionName, ...]) -> tuple[RegionName, ...]:
    """Of willing regions those that may be asked for it. Over quota nothing is lent where room is gathered for another by age, nor, to who is
    held back, where it is for who is furthest behind.
    """
    if one.quota_class is not QuotaClass.BORROWING:
        return willing
    if has_turn(state, one.work.workload):
        return willing
    kept = {closed_to(state, one.work), state.gathers_in if is_held_back(state, one.work) else None}
    return tuple(region for region in willing if region not in kept)


def _lacking_room(state: QueueState) -> dict[TenantName, RegionName]:
    """For whose work over quota nothing but room is missing, and that could be had from what is lent; and where the least is missing."""
    if not state.image.tenants.ranking.credit.lag_weight:
        return {}
    lending = lending_now(state)
    lent = state.ledger.lent_in_all(lending)
    found: dict[TenantName, RegionName] = {}
    for work in state.order.heads(QuotaClass.BORROWING, LAGGING_LOOKED_AT):
        is_possible = any(lent.covers(need, work.tenant) for need in work.needs)
        if work.tenant not in found and is_possible and _is_blocked(state, work, lending):
            found[work.tenant] = _nearest(state, work)
    return found


def _nearest(state: QueueState, work: PendingWork) -> RegionName:
    """Of those that could hold it, the one whose refusal names the least that is missing; where it was before, while it is asked for."""
    said = state.auctions.refused_by(asked_for(state, work, LOWEST, QuotaClass.BORROWING))
    regions = eligible(state, state.image.workloads.rows[work.workload].spec) or tuple(state.regions)
    refused = [region for region in regions if region in said]
    if not refused:
        return state.gathers_in if state.gathers_in in regions else min(regions)
    return min(refused, key=lambda one: (said[one].missing_gpu_milli, one))


def _is_blocked(state: QueueState, work: PendingWork, lending: Lending, *, is_aged: bool = False) -> bool:
    """Whether each region has refused it for want of room, or nothing may be lent now.

    is_aged   also if it is kept from those that have not
    """
    if not may_be_lent(state, work, lending):
        return True
    if work.workload in state.auctions.open:
        return work.tenant in state.lacking  # It is asked for once more.
    asked = asked_for(state, work, LOWEST, QuotaClass.BORROWING)
    said = state.auctions.refused_by(asked)
    regions = eligible(state, state.image.workloads.rows[work.workload].spec, asked.level)
    where = where_asked(state, state.order.one(work.workload), regions) if is_aged else regions
    return bool(regions) and all(
        region not in where or (region in said and said[region].reason in LACKS_ROOM) for region in regions
    )

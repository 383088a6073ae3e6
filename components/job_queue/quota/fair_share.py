"""Fair shares: while borrowing work waits, each tenant's max-min share of the GPUs in use is recorded, and a region may be drained.

Once a minute: the shares (core/ranking/fair_lag.py), as `SharesDue` if they have changed, by which the image knows each tenant's lag,
the order of borrowing work; and the drain (quota/drain.py), as a note. A tenant whose patience is over (`LAG_PATIENCE`) claims no
share for work that gets no capacity.
"""

from components.job_queue.ordering import bring_up
from components.job_queue.quota.drain import choose_drain, index_drain, note_lacking, set_drain
from components.job_queue.state.queue_state import QueueState, SharesSeen
from core.component import NOTHING, Decision
from core.events.tenants import SharesDue
from core.fact import Event, Fact, Note
from core.nouns.ids import TenantName
from core.nouns.instant import Instant
from core.nouns.limits import DUES_TOLD_MAX, LAG_PATIENCE, SHARES_INTERVAL
from core.ranking.fair_lag import FairShare, dues
from core.rules.quota import entitled_to


def index_shares(state: QueueState, fact: Fact) -> None:
    """Follow a fact of the queue."""
    index_drain(state, fact)
    if isinstance(fact.event, SharesDue):
        state.ranked_at = Instant(-1)  # The lags in the order are outdated.
    watch_shares(state, fact.at)


def watch_shares(state: QueueState, now: Instant) -> None:
    """Schedule the next computation, at the full minute, while borrowing work waits or shares are recorded."""
    if state.shares_at is None and _is_watched(state):
        state.shares_at = Instant((now // SHARES_INTERVAL + 1) * SHARES_INTERVAL)


def record_shares(state: QueueState, now: Instant) -> Decision:
    """Return the shares and the drain from now on, once a minute."""
    if state.shares_at is None or state.shares_at > now:
        return NOTHING
    due = _dues_now(state, now)
    bring_up(state, now)
    drain, lacking = choose_drain(state, now)
    events: list[Event | Note] = [SharesSeen(lacking, drain)]
    if due != state.image.usage.dues():
        events += _told(due, tuple(sorted(state.ledger.quota)))
    return Decision(events=tuple(events))


def note_shares(state: QueueState, seen: SharesSeen, now: Instant) -> None:
    """Fold a computation."""
    set_drain(state, seen.drain, now)
    note_lacking(state, seen.lacking, now)
    state.shares_at, state.open_at = None, now
    watch_shares(state, now)


def _is_watched(state: QueueState) -> bool:
    if not state.image.tenants.ranking.credit.lag_weight:
        return bool(state.image.usage.dues())
    return bool(state.ledger.wanted or state.image.usage.dues())


def _told(due: dict[TenantName, FairShare], types: tuple[str, ...]) -> list[SharesDue]:
    """Return facts of at most `DUES_TOLD_MAX` tenants each."""
    rows = list(due.items())
    starts = range(0, max(1, len(rows)), DUES_TOLD_MAX)
    return [SharesDue(dict(rows[at : at + DUES_TOLD_MAX]), types, is_more=at > 0) for at in starts]


def _dues_now(state: QueueState, now: Instant) -> dict[TenantName, FairShare]:
    if not state.image.tenants.ranking.credit.lag_weight:
        return {}
    ledger, tenants = state.ledger, state.image.tenants
    unheard = {name for name, (span, _) in state.lacking.items() if span >= LAG_PATIENCE}
    claimants = ledger.claimants(tenants, state.image.usage, now, unheard)
    entitled = {name: sum(entitled_to(row, ledger.quota).values()) for name, row in tenants.rows.items()}
    return dues(claimants, entitled)

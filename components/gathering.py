"""Room that is gathered for who has waited over quota for as long as waiting counts: in one region nobody else is lent anything.

Of what comes free narrow work takes each piece, and a wide gang is first in the order and gets nothing. So how long it waits would go by
how much narrow work there is, and have no bound. For whoever has waited for `age_cap`, one after the other, room is gathered
where the smallest part of all is missing:

nobody is gathered for            the oldest of those for whom nothing but room is missing is chosen, and the region
somebody is                       that region is asked for it, and for nobody else who is over quota; for who is within quota, once the
                                  others have refused: else all of them would start there, for nobody has to leave there first.
                                  It is asked for everywhere, and may start elsewhere
it is awarded                     the next one is chosen
it waits for `GATHER_PATIENCE`    the next one is chosen, and it comes behind those who have not been tried

Whom it is gathered for is noted and not recorded: after a restart the oldest is chosen anew.
"""

from components.queue_order import there_is
from components.queue_state import Gathered, QueueState, eligible
from core.events.queue import WorkloadAwarded
from core.fact import Fact
from core.nouns.ids import RegionName
from core.nouns.instant import Instant, after
from core.nouns.limits import GATHER_PATIENCE, LAGGING_LOOKED_AT
from core.nouns.tenant import OVER_LEVEL
from core.ranking.scan import PendingWork, Ranked, Standing

NEVER = Instant(-1)


def index_gathering(state: QueueState, fact: Fact) -> None:
    """Follow a fact of the queue: whoever it was gathered for has what was wanted."""
    kept, event = state.gathered, fact.event
    if isinstance(event, WorkloadAwarded) and kept is not None and kept.workload == event.workload:
        state.gathered = None


def note_gathered(state: QueueState, gathered: Gathered | None, now: Instant) -> None:
    """From now on it is gathered for this one."""
    was = state.gathered
    if was is not None and was != gathered:
        state.gathered_until[was.workload] = now
    for workload in list(state.gathered_until):
        if workload not in state.order:
            del state.gathered_until[workload]
    state.gathered = gathered


def goes_on(state: QueueState, now: Instant) -> bool:
    """Whether it is gathered for the same one still."""
    kept = state.gathered
    if kept is None or now >= after(kept.since, GATHER_PATIENCE) or kept.workload not in state.order:
        return False
    spec = state.image.workloads.rows[kept.workload].spec
    is_over = state.order.one(kept.workload).standing is Standing.OVER
    return is_over and kept.region in eligible(state, spec, OVER_LEVEL)


def aged(state: QueueState, now: Instant) -> list[PendingWork]:
    """Who has waited over quota for as long as waiting counts, and wants no more than may be gathered: first who has not been tried, or was
    longest ago; of these the oldest.
    """
    ranking, there = state.image.tenants.ranking, there_is(state)
    most = {kind: count * ranking.gather_percent // 100 for kind, count in there.items()}
    found = [
        work
        for work in state.order.heads(Standing.OVER, LAGGING_LOOKED_AT)
        if after(work.submitted_at, ranking.credit.age_cap) <= now
        and any(all(count <= most.get(kind, 0) for kind, count in need.items()) for need in work.needs)
    ]
    tried = dict(state.gathered_until)
    if state.gathered is not None:
        tried[state.gathered.workload] = now
    return sorted(found, key=lambda work: (tried.get(work.workload, NEVER), work.number))


def kept_from_it(state: QueueState, one: Ranked) -> RegionName | None:
    """The region that is not asked for one that waits, since room is gathered there for another."""
    kept = state.gathered
    is_kept = kept is not None and one.standing is Standing.OVER and one.work.workload != kept.workload
    return kept.region if kept is not None and is_kept else None


def spared(state: QueueState, one: Ranked, left: tuple[RegionName, ...]) -> tuple[RegionName, ...]:
    """Of regions that may be asked for one within quota, the others, if there are any: it pushes out who borrows there, as it would if no room
    were gathered. Where they have refused it, it is asked for where room is gathered, and takes it.
    """
    kept = state.gathered
    if kept is None or one.standing is not Standing.WITHIN:
        return left
    return tuple(region for region in left if region != kept.region) or left


def is_in_line(state: QueueState, one: Ranked) -> bool:
    """Whether this is who it is gathered for, or stands among its tenant's of the same shape: more regions may be asked for one of them
    than for the others.
    """
    kept = state.gathered
    if kept is None or kept.workload not in state.order:
        return False
    work = state.order.work(kept.workload)
    return (work.tenant, work.shape) == (one.work.tenant, one.work.shape)

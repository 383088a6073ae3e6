"""How the job queue holds auctions: whom it asks for from the head of the order, and who is awarded what."""

from components.auctions import Auction, settled, solicited
from components.fair_shares import all_behind_held_back, where_asked
from components.queue_order import Asked, asked_for, bring_up, kept_from, lending_now, may_be_lent
from components.queue_state import (
    AuctionClosed,
    AuctionOpened,
    OpeningsSeen,
    QueueState,
    RefusalPassed,
    away_for,
    eligible,
    has_data,
)
from components.standings import award_of
from components.start_promises import StartPromising
from core.component import NOTHING, Decision
from core.fact import Event, Note
from core.messages.base import Message
from core.nouns.ids import RegionName, TenantName
from core.nouns.instant import Instant
from core.nouns.limits import AUCTIONS_MAX
from core.nouns.tenant import OVER_LEVEL
from core.ranking.scan import Group, PendingWork, Ranked, Standing
from core.rules.standing import Amounts

PROMISING = StartPromising()
"""Says of whom regions are to tell when they could start."""


def close_auctions(state: QueueState, now: Instant) -> Decision:
    """Of each tenant one at a time, and who borrows before anybody else is awarded: what the next may hold depends on what this one
    gets.
    """
    workloads = state.house.due.passed(now)
    if not workloads:
        return NOTHING
    bring_up(state, now)
    events: list[Event | Note] = []
    messages: list[Message] = []
    served: set[TenantName] = set()
    has_awarded = False
    for workload in workloads:
        tenant = state.image.workloads.rows[workload].spec.tenant
        bids = state.house.open[workload].ranked(away_for(state, workload))
        compared = [one for one in bids if has_data(state, workload, one[0].region)]
        best = compared[0][0] if compared else None
        if best is not None and state.book.quota:
            borrows = state.house.open[workload].level == OVER_LEVEL
            if tenant in served or (borrows and has_awarded):
                continue
            served.add(tenant)
        award = award_of(state, workload, best, [one for _, one in compared], now) if best is not None else ()
        won = best if award else None
        has_awarded = has_awarded or bool(award)
        events += [AuctionClosed(workload, won, is_void=best is not None and won is None), *award]
        if best is None:
            events.extend(PROMISING.closed(state, workload, now))
        messages.extend(settled(bid, has_won=bid is won) for bid, _ in bids)
    return Decision(tuple(events), tuple(messages))


def pass_refusals(state: QueueState, now: Instant) -> Decision:
    """Those that pass by themselves."""
    passed = state.house.refusals_due.passed(now)
    return (
        Decision(events=tuple(RefusalPassed(shape, region) for shape, region in passed))
        if passed
        else NOTHING
    )


def open_auctions(state: QueueState, now: Instant) -> Decision:
    """A bounded window from the head of the order: whoever every region refuses is passed over."""
    if state.open_at is None or state.open_at > now:
        return NOTHING
    if not len(state.order):
        return Decision(events=(OpeningsSeen(),))
    house = state.house
    room = AUCTIONS_MAX - len(house.open)
    events: list[Event | Note] = [OpeningsSeen()]
    messages: list[Message] = []
    bring_up(state, now)
    rows = state.image.workloads.rows
    lending = lending_now(state)
    askable: dict[Group, tuple[Asked, tuple[RegionName, ...]]] = {}
    kept: dict[Group, Amounts] = {}
    """Of those that name several GPU types: what of them somebody ahead of the first of them keeps."""

    def is_wanted(group: Group, example: PendingWork) -> bool:
        (level, standing), _ = group
        if standing is Standing.HELD:
            return False
        if standing is Standing.OVER and not any(lending.could_cover(need) for need in example.needs):
            return False
        if standing is Standing.WITHIN and len(example.needs) > 1:
            kept[group] = kept_from(state, example, -level)
        asked = asked_for(state, example, -level, standing)
        willing = house.willing(asked.shape, lambda: eligible(state, rows[example.workload].spec))
        askable[group] = asked, willing
        return bool(willing)

    chosen: dict[str, None] = {}
    done: set[Group] = set()
    """Of these nobody else is asked for now."""

    def is_free(one: Ranked) -> bool:
        shape = askable[one.group][0].shape
        if shape in house.tight and (shape in chosen or shape in house.asking):
            done.add(one.group)
            return False
        if not where_asked(state, one, askable[one.group][1]):
            if all_behind_held_back(state, one):
                done.add(one.group)
            return False
        if one.group in kept and kept[one.group] != kept_from(state, one.work, one.level):
            done.add(one.group)  # It is asked for on other types, once those before it are not asked for.
            return False
        may = house.may_ask(one.work.workload, shape)
        if may and one.standing is Standing.OVER and not may_be_lent(state, one.work, lending):
            return False
        if may:
            chosen[shape] = None
        return may

    found = state.order.first(room, is_wanted, is_free, done) if room > 0 else []
    for count, one in enumerate(found):
        workload = one.work.workload
        asked, willing = askable[one.group]
        willing = where_asked(state, one, willing)
        name = f"{state.image.regions.term}.{house.opened + count}"
        opened = Auction(
            name, asked.shape, willing, level=asked.level, types=asked.types, base=one.work.shape
        )
        events.append(AuctionOpened(workload, opened))
        how = PROMISING.how_asked(state, workload, now)
        messages.extend(solicited(region, workload, opened, rows[workload], how) for region in willing)
    return Decision(tuple(events), tuple(messages))

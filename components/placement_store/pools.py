"""The placement store's records of pools: the rules by which each pool is searched, and the capacity that each pool keeps free."""

from collections.abc import Callable

from components.placement_store.state import StoreState
from components.replies import answered, refused
from core.component import Decision
from core.events.pools import PoolChanged
from core.messages.base import Envelope, Message
from core.messages.pools import PoolAnswered, SetPool
from core.nouns.limits import NAME_LENGTH_MAX
from core.nouns.placement import Claim
from core.nouns.reasons import Reason
from core.rules.headroom import Headroom
from core.rules.pool_settings import problems_with, reason_of

HEARD_OF_POOLS: tuple[type[Message], ...] = (SetPool,)


class PoolRecords:
    """The store's decider for pool settings."""

    def __init__(self) -> None:
        self.deciders: dict[type[Message], Callable[[StoreState, Envelope], Decision]] = {SetPool: self._set}

    def _set(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, SetPool)
        headroom, pools = headroom_of(state), state.image.pools
        problems = problems_with(message.settings, message.pool, headroom)
        if len(message.by) > NAME_LENGTH_MAX:
            problems.append(f"by: {NAME_LENGTH_MAX} characters are the most")
        known = sorted({zone.pool for zone in headroom.zones.values()})
        if message.pool not in known:
            listed = f"there are {', '.join(known)}" if known else "no node has joined"
            problems.insert(0, f"pool: there is no {message.pool[:NAME_LENGTH_MAX]}; {listed}")
            return refused(Reason.UNKNOWN_PLACE, tuple(problems))
        if problems:
            return refused(reason_of(message.settings), tuple(problems))
        if message.revision != pools.revision:
            return refused(Reason.SUPERSEDED, (f"revision: it is {pools.revision} now",))
        if message.settings == pools.of(message.pool):
            return answered(PoolAnswered(message.pool, message.settings, pools.revision))
        changed = PoolChanged(message.pool, message.settings, message.by)
        return answered(PoolAnswered(message.pool, message.settings, pools.revision + 1), changed)


def broken_setting(state: StoreState, claim: Claim) -> Reason | None:
    """Return the reason against a claim that fits but would break a setting of one of its pools, if any."""
    pools = state.image.pools
    if not any(one.keeps_something_free for one in pools.settings.values()):
        return None
    return headroom_of(state).broken_by(claim, pools)


def headroom_of(state: StoreState) -> Headroom:
    """Return the memo of free capacity by zone: counted over all nodes at the first call, and updated by each fact from then on."""
    if state.headroom is None:
        state.headroom = Headroom(state.image.capacity)
    return state.headroom

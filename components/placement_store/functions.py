"""The placement store's record of calls of functions, as the region's routers count them."""

from collections.abc import Callable

from components.placement_store.node_joins import is_too_large
from components.placement_store.state import StoreState
from core.component import NOTHING, Decision
from core.events.functions import FunctionsCounted
from core.messages.base import Envelope, Message
from core.messages.functions import CountFunctions, FunctionsRemembered
from core.nouns.function_limits import FUNCTIONS_COUNTED
from core.nouns.ids import RegionName
from core.nouns.instant import Nanoseconds, after
from core.rules.functions.counts import is_count_well_formed

HEARD_OF_FUNCTIONS: tuple[type[Message], ...] = (CountFunctions,)


class FunctionRecords:
    """The store's decider for counts of calls."""

    def __init__(self, region: RegionName) -> None:
        self._region = region
        self.deciders: dict[type[Message], Callable[[StoreState, Envelope], Decision]] = {
            CountFunctions: self._count
        }

    def _count(self, state: StoreState, envelope: Envelope) -> Decision:
        """Record a count once. A router that counts more often than once in half a minute is not heard, and tries again."""
        message = envelope.message
        assert isinstance(message, CountFunctions)
        if not is_count_well_formed(message):
            return NOTHING
        functions = state.image.functions
        known = functions.routers.get(message.router)
        estimates = functions.estimates(envelope.at) if not message.number else ()
        kept = FunctionsRemembered(self._region, message.router, message.life, message.number, estimates)
        is_known = known is not None and known.life == message.life and message.number <= known.number
        if is_known or not message.number:
            return Decision(messages=(kept,))
        if known is not None and after(known.at, Nanoseconds(FUNCTIONS_COUNTED // 2)) > envelope.at:
            return NOTHING
        event = FunctionsCounted(message.router, message.life, message.number, message.span, message.counts)
        return NOTHING if is_too_large(event) else Decision((event,), (kept,))

"""The placement store's records of prices: the value of the region's capacity to expected tasks."""

from collections.abc import Callable

from components.placement_store.node_joins import is_too_large
from components.placement_store.state import StoreState
from components.replies import answered, refused
from core.component import Decision
from core.events.prices import PricesSet
from core.messages.base import Envelope, Message
from core.messages.prices import PricesAnswered, SetPrices
from core.nouns.limits import NAME_LENGTH_MAX
from core.nouns.reasons import Reason
from core.rules.repricing import problems_of

HEARD_OF_PRICES: tuple[type[Message], ...] = (SetPrices,)


class PriceRecords:
    """The store's decider for prices."""

    def __init__(self) -> None:
        self.deciders: dict[type[Message], Callable[[StoreState, Envelope], Decision]] = {
            SetPrices: self._set
        }

    def _set(self, state: StoreState, envelope: Envelope) -> Decision:
        """Record prices that follow on the present revision: of two planners that solved at one time, only the first succeeds."""
        message = envelope.message
        assert isinstance(message, SetPrices)
        known = state.image.prices.revision
        if message.prices.revision != known + 1:
            return refused(Reason.SUPERSEDED, (f"prices: the newest have revision {known}",))
        problems = problems_of(message.prices)
        if len(message.by) > NAME_LENGTH_MAX:
            problems.append(f"by: {NAME_LENGTH_MAX} characters are the most")
        if message.solved_from.sequence > state.sequence:
            problems.append(f"solved_from: this log has come to {state.sequence}")
        if problems:
            return refused(Reason.INVALID, tuple(problems))
        event = PricesSet(message.prices, message.solved_from, message.by)
        if is_too_large(event):
            return refused(Reason.TOO_LARGE)
        return answered(PricesAnswered(known + 1), event)

"""What a simulated network does to messages: knobs that a scenario turns, and cuts between endpoints."""

from collections.abc import Callable, Iterable

from msgspec import Struct

from core.messages.base import Message
from core.nouns.instant import MILLISECOND, Nanoseconds
from core.nouns.limits import INBOX_MAX


class Faults(Struct):
    """May be changed at any time; holds for what is said from then on."""

    delay_min: Nanoseconds = Nanoseconds(MILLISECOND // 5)
    delay_max: Nanoseconds = Nanoseconds(2 * MILLISECOND)
    drop_probability: float = 0.0
    repeat_probability: float = 0.0
    repeat_delay: Nanoseconds = Nanoseconds(50 * MILLISECOND)
    """A repeat comes up to so long after the first."""
    extra_delay_probability: float = 0.0
    extra_delay: Nanoseconds = Nanoseconds(500 * MILLISECOND)
    """Up to so much is added to the delay."""
    is_reordering: bool = False
    """Even what one endpoint says to one subject arrives out of order, which is beyond the promise of the port."""
    pending_max: int = INBOX_MAX
    """Messages on their way to one ear; more are lost, and counted where they would have been heard."""


Gate = Callable[[str, str, Message, Callable[[], None]], bool]
"""Asked as a message arrives: from whom, at whom, which, and how to let it arrive later, once or often. False: not now."""

IsCut = Callable[[str, str], bool]
"""Whether nothing that the first endpoint says reaches the second. Both are names."""


def between(ones: Iterable[str], others: Iterable[str], is_one_way: bool = False) -> IsCut:
    """A cut between endpoints, each given by its name or, with a `*` at the end, by how its name begins."""
    is_one, is_other = _matcher(ones), _matcher(others)
    if is_one_way:
        return lambda sender, hearer: is_one(sender) and is_other(hearer)
    return lambda sender, hearer: (
        (is_one(sender) and is_other(hearer)) or (is_other(sender) and is_one(hearer))
    )


def _matcher(names: Iterable[str]) -> Callable[[str], bool]:
    listed = list(names)
    whole = frozenset(name for name in listed if not name.endswith("*"))
    starts = tuple(name[:-1] for name in listed if name.endswith("*"))
    return lambda name: name in whole or name.startswith(starts)

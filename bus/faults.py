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
    repeats_in_order: bool = False
    """Every repeat comes exactly so long after the first: all that was said comes again as it was said."""
    extra_delay_probability: float = 0.0
    extra_delay: Nanoseconds = Nanoseconds(500 * MILLISECOND)
    """Up to so much is added to the delay."""
    is_reordering: bool = False
    """Even what one endpoint says to one subject arrives out of order, which is beyond the promise of the port."""
    pending_max: int = INBOX_MAX
    """Messages on their way to one ear; more are lost, and counted where they would have been heard."""


def added(one: Faults, other: Faults) -> Faults:
    """Both at once: each strikes by its own chance, and the later of two delays counts."""

    def either(first: float, second: float) -> float:
        return 1 - (1 - first) * (1 - second)

    return Faults(
        delay_min=max(one.delay_min, other.delay_min),
        delay_max=max(one.delay_max, other.delay_max),
        drop_probability=either(one.drop_probability, other.drop_probability),
        repeat_probability=either(one.repeat_probability, other.repeat_probability),
        repeat_delay=max(one.repeat_delay, other.repeat_delay),
        repeats_in_order=one.repeats_in_order or other.repeats_in_order,
        extra_delay_probability=either(one.extra_delay_probability, other.extra_delay_probability),
        extra_delay=max(one.extra_delay, other.extra_delay),
        is_reordering=one.is_reordering or other.is_reordering,
        pending_max=min(one.pending_max, other.pending_max),
    )


Gate = Callable[[str, str, Message, Callable[[], None]], bool]
"""Asked as a message arrives: from whom, at whom, which, and how to let it arrive later, once or often. False: not now."""

IsCut = Callable[[str, str], bool]
"""Whether nothing that the first endpoint says reaches the second. Both are names."""


def between(ones: Iterable[str], others: Iterable[str], is_one_way: bool = False) -> IsCut:
    """A cut between endpoints, each given by its name or, with a `*` at the end, by how its name begins."""
    is_one, is_other = named(ones), named(others)
    if is_one_way:
        return lambda sender, hearer: is_one(sender) and is_other(hearer)
    return lambda sender, hearer: (
        (is_one(sender) and is_other(hearer)) or (is_other(sender) and is_one(hearer))
    )


def named(names: Iterable[str]) -> Callable[[str], bool]:
    """Whether a name is one of these; a `*` at the end stands for any rest."""
    listed = list(names)
    whole = frozenset(name for name in listed if not name.endswith("*"))
    starts = tuple(name[:-1] for name in listed if name.endswith("*"))
    return lambda name: name in whole or name.startswith(starts)

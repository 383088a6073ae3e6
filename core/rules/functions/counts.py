"""The check of a router's counts of calls."""

from core.messages.functions import CountFunctions
from core.nouns.function_limits import FUNCTIONS_COUNTED_MAX
from core.nouns.limits import NEED_MAX, SPAN_MAX
from core.rules.functions.calls import is_word


def is_count_well_formed(said: CountFunctions) -> bool:
    """Return whether a store can record these counts. A router sends no others, but bytes may be spoiled on the way."""
    numbers = [said.number]
    for one in said.counts:
        numbers += (one.done, one.failed, one.lost, one.refused, one.again, *one.cold, one.ran, one.waited)
        numbers += (one.harvested, one.harvested_span, one.retried, one.lost_span)
    return (
        is_word(said.router)
        and len(said.life) <= 64
        and 0 <= said.span <= SPAN_MAX
        and len(said.counts) <= FUNCTIONS_COUNTED_MAX
        and len({one.function for one in said.counts}) == len(said.counts)
        and all(len(one.function) <= 512 for one in said.counts)
        and all(0 <= number <= NEED_MAX for number in numbers)
    )

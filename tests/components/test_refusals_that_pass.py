"""Refusals that pass by themselves: whoever said so is asked again, though nothing was freed."""

import pytest
from msgspec.structs import replace

from core.messages.queue import Abstention
from core.nouns.ids import AgentName
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.reasons import Reason
from tests.builders import EU, EU_LOG, a_spec
from tests.components.queueing import W1, Start, a_job_queue, asked, auction_of, submit

SPAN = seconds(5)


@pytest.mark.parametrize("reason", [Reason.NO_CAPACITY, Reason.DESTROYS_TOO_MUCH])
def test_region_that_says_when_is_asked_again_then(start: Start, reason: Reason) -> None:
    """N8: somebody has run for its least time by then, or the hour's destruction is less; nothing need be freed for that."""
    queue = a_job_queue(start)
    submit(queue, a_spec(regions=[EU]))
    auction = auction_of(queue.wake())
    said = Abstention(EU, AgentName("a0"), W1, auction, reason, queue.sequence(EU_LOG), 8_000)
    queue.hear(replace(said, again_in=SPAN))
    queue.wake()
    assert [] == asked(queue.wait(Nanoseconds(SPAN - 1)))
    assert [(W1, EU)] == asked(queue.wait(Nanoseconds(1)))

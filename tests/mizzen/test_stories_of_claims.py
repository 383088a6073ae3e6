"""What is told of an attempt that was granted in part, or given back after conflicts."""

from msgspec.structs import replace

from core.events.control import ClaimRevised
from core.events.queue import AwardReturned
from core.events.region import AwardDeclined
from core.nouns.instant import SECOND, Instant
from core.nouns.operation import TaskMove
from core.nouns.reasons import Reason
from core.nouns.workload import Kind
from mizzen.views.workloads import show_text
from tests.builders import EU, START, a_claim, attempt, granted
from tests.mizzen.test_stories import W1, Told, awarded, told
from tests.runtime.aids import Place, virtual


def shown(found: Told) -> list[str]:
    """As `mizzen show` tells it."""
    return show_text.lines_of(found.known.telling.story, None, Instant(START + 100 * SECOND))


@virtual
async def test_show_tells_how_many_tasks_have_a_place(place: Place) -> None:
    """L1: of one that was granted in part, until the others have one too."""
    part = replace(a_claim(placed={0: 2, 1: 1}, kind=Kind.SERVICE), is_incremental=True)
    grant = replace(granted(part), unplaced=(2,))
    found = await told(place, [awarded()], [grant])
    assert "  attempt 1: 3 of 5 tasks have a place, and the others are looking for one" in shown(found)


@virtual
async def test_show_once_all_have_a_place(place: Place) -> None:
    """L1: then there is nothing to say of it."""
    part = replace(a_claim(placed={0: 2, 1: 1}, kind=Kind.SERVICE), is_incremental=True)
    rest = ClaimRevised(*attempt(), 1, (TaskMove(3, -1, 2), TaskMove(4, -1, 2)))
    found = await told(place, [awarded()], [replace(granted(part), unplaced=(2,)), rest])
    (one,) = found.known.telling.story.attempts
    assert (5, 0, 0) == (one.tasks_placed, one.tasks_unplaced, one.restarts)
    assert not [line for line in shown(found) if "have a place" in line]


@virtual
async def test_cause_of_the_last_conflict_is_told(place: Place) -> None:
    """P19, L8: how many tries, which reason and which nodes: in show, and in explain."""
    exhausted = AwardDeclined(*attempt(), Reason.CONFLICTS_EXHAUSTED, 5, 10, Reason.NODE_CLOSED, (0, 3))
    returned = AwardReturned(W1, 1, Reason.CONFLICTS_EXHAUSTED, EU, 3)
    found = await told(place, [awarded(), returned], [exhausted])
    text = "conflicts_exhausted, after 10 tries, the last met node_closed on eu-[0,3]"
    assert f"  attempt 1: {text}" in shown(found)
    assert f"eu will not start it: {text}" in [text for _, _, text in found.chain]

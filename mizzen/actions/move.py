"""Moving a workload to another region: asked again until the move is planned, or refused."""

from msgspec import Struct
from msgspec.structs import replace

from bus.port import Bus
from core.messages.moves import MoveAnswered, MoveWorkload
from core.messages.queue import ShowWorkload, WorkloadShown
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import AUCTION_SPAN_MAX
from core.nouns.moving import MoveCost
from core.nouns.reasons import Reason
from mizzen.connect.plane import RequestRefused, ask, submitter
from mizzen.terminal.output import CommandError
from mizzen.views.phrases.text import time_text
from mizzen.views.plane_reads import pause

LOOK: Nanoseconds = seconds(0.2)
LOOKS_MAX = (2 * AUCTION_SPAN_MAX + seconds(2)) // LOOK
"""The queue asks the region once more after `AUCTION_SPAN_MAX`: both answers may be late."""
HOUR = 3600


class Moved(Struct, frozen=True):
    """A move that is planned; or, to where the workload runs, that there is none."""

    workload: WorkloadId
    from_region: RegionName
    to_region: RegionName
    revision: int
    cost: MoveCost


async def move_to(bus: Bus, workload: WorkloadId, region: RegionName, *, is_forced: bool) -> Moved:
    """Have it go on there. Raises CommandError: refused, or the region does not answer."""
    shown = await ask(bus, ShowWorkload(workload), WorkloadShown)
    asked = MoveWorkload(workload, shown.epoch, region, shown.move_revision, is_forced, submitter())
    first = answer = await ask(bus, asked, MoveAnswered)
    for _ in range(LOOKS_MAX):
        if answer.revision:
            return Moved(workload, RegionName(shown.region), region, answer.revision, first.cost)
        await pause(LOOK)
        answer = await ask(bus, asked, MoveAnswered)
    # Told that it does not move, it must not move: an answer that comes still later counts for nothing.
    try:
        await ask(bus, replace(asked, region=shown.region), MoveAnswered)
    except RequestRefused as refused:
        if refused.reason == Reason.SUPERSEDED:  # It was planned at the last moment.
            answer = await ask(bus, asked, MoveAnswered)
            return Moved(workload, RegionName(shown.region), region, answer.revision, first.cost)
    raise CommandError(f"{region} does not say whether it has capacity; try again in a moment")


def text_of(moved: Moved) -> str:
    """What is to happen, and what that costs."""
    workload, cost = moved.workload, moved.cost
    if moved.from_region == moved.to_region:
        return f"{workload} stays in {moved.to_region}; no move of it is under way"
    ship = f", {time_text(cost.ship)} of it for its checkpoint's way" if cost.ship else ""
    left = f"; it would run for {time_text(cost.left)} more" if cost.left >= 0 else ""
    return (
        f"{workload} moves from {moved.from_region} to {moved.to_region}: it stops as its controller agrees, in two minutes at the latest, "
        f"and pauses for about {time_text(cost.pause)}{ship} ({cost.gpu_seconds / HOUR:.1f} GPU-hours){left}\n"
        f"`mizzen show {workload}` follows it"
    )

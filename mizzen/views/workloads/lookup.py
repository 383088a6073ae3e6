"""What can be known of one workload: what the logs tell, and what the queue says now, each also without the other."""

from msgspec import Struct

from bus.port import Bus
from core.messages.queue import ExplainWorkload, WorkloadExplained
from core.nouns.ids import WorkloadId
from core.nouns.instant import Instant
from core.nouns.reasons import Reason
from mizzen.connect.plane import RequestRefused, ask
from mizzen.terminal.output import CommandError
from mizzen.views.workloads.story import Telling, told
from runtime.clock import wall_now


class Known(Struct):
    """All of it."""

    telling: Telling
    live: WorkloadExplained | None
    """None of a workload that has left the queue's image, and while the queue does not answer."""
    at: Instant
    """Here and now, for spans that go on."""
    notes: list[str]
    """What is missing, and why."""


async def known(bus: Bus, workload: WorkloadId) -> Known:
    """Raises CommandError when nothing is known of it, and when not even the queue's log can be read."""
    notes: list[str] = []
    live: WorkloadExplained | None = None
    try:
        live = await ask(bus, ExplainWorkload(workload), WorkloadExplained)
    except RequestRefused as refused:
        if refused.reason != Reason.UNKNOWN_WORKLOAD:
            raise
    except CommandError as error:
        notes.append(f"the queue's current state is missing: {error}")
    telling = await told(bus, workload)
    for region, why in sorted(telling.story.untold.items()):
        notes.append(f"{region}'s state of it is missing: {why}")
    return Known(telling, live, wall_now(), notes)

"""Rule 2 of what must always hold (DESIGN §11), as far as it is about data: nothing is placed where what it reads is not.

By the queue's own log, at every award: what a region holds when the queue decides. What goes afterwards goes without it.
"""

from core.events.queue import WorkloadAwarded
from core.fact import Fact
from core.images import GlobalImage


def check_data(fact: Fact, before: GlobalImage) -> list[str]:
    """What an award, to be folded next, would place away from its data."""
    event = fact.event
    if not isinstance(event, WorkloadAwarded):
        return []
    row = before.workloads.rows.get(event.workload)
    missing = before.datasets.missing_in(event.region, row.spec.data) if row is not None else ()
    if not missing:
        return []
    return [
        f"{event.workload} reads {', '.join(missing)}, and is awarded to {event.region}, where that is not"
    ]

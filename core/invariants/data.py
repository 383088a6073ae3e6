"""Rule 2 of what must always hold (DESIGN §11), as far as it is about data: nothing is placed where what it reads is not.

By the queue's own log, at every award: what a region holds when the queue decides. What goes afterwards goes without it.
"""

from core.events.queue import WorkloadAwarded
from core.fact import Fact
from core.images import GlobalImage
from core.rules.datasets import against_data


def check_data(fact: Fact, before: GlobalImage) -> list[str]:
    """What an award, to be folded next, would place away from its data."""
    event = fact.event
    if not isinstance(event, WorkloadAwarded):
        return []
    row = before.workloads.rows.get(event.workload)
    if row is None:
        return []
    missing = before.datasets.missing_in(event.region, row.spec.data)
    where = f"and is awarded to {event.region}, where that is not"
    if missing:
        return [f"{event.workload} reads {', '.join(missing)}, {where}"]
    level = event.level if event.level is not None else row.spec.priority or 0
    against = against_data(before.datasets, row.spec, event.region, level)
    return [f"{event.workload} reads what is fresh, {where}"] if against is not None else []

"""Rule 2 of the invariants (DESIGN §11) for data: no workload is awarded to a region without the data that it reads.

Checked at every award by the queue's own log: by the region's datasets at the decision. Datasets removed later are not considered.
"""

from core.events.queue import WorkloadAwarded
from core.fact import Fact
from core.images import GlobalImage
from core.rules.data.datasets import against_data


def check_data(fact: Fact, before: GlobalImage) -> list[str]:
    """Return the violation by an award, before the award is folded, that places a workload away from its data."""
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

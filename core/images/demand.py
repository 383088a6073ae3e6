"""A section of the queue's image: which tasks were asked for, counted by what they need.

It is bounded and fades: what is to come is expected to be like what came lately. Counts are of tasks, as they were submitted;
a workload that is tried again asks for nothing new.
"""

from msgspec import Struct, field

from core.events.queue import WorkloadSubmitted
from core.fact import Fact
from core.images.base import Section
from core.nouns.ids import RegionName
from core.nouns.limits import DEMAND_COUNTED_MAX, DEMAND_SHAPES_MAX
from core.nouns.quantities import Amount
from core.nouns.workload import JobSpec, Kind


class DemandRow(Struct):
    """Tasks of one shape."""

    need: Amount
    """Of one task."""
    node_types: tuple[str, ...]
    """As their job asks for them: each will do."""
    regions: tuple[RegionName, ...]
    """In which they may run; empty: in any."""
    count: int = 0


class Demand(Section):
    """Tasks by shape, the shape first seen first."""

    FOLDS = {WorkloadSubmitted: "_submitted"}

    rows: dict[str, DemandRow] = field(default_factory=dict)
    counted: int = 0
    """What all rows count together."""
    arrived: int = 0
    """Tasks ever submitted: what has faded since is in it too."""

    def _submitted(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadSubmitted)
        if event.spec.kind is Kind.SHARED:
            return
        for job in event.spec.jobs:
            self._count(job, event.spec.regions)
        while self.counted > DEMAND_COUNTED_MAX:
            self._fade()

    def _count(self, job: JobSpec, regions: tuple[RegionName, ...]) -> None:
        need, node_types = job.need, job.node_types
        key = f"{'|'.join(node_types)}:{need.gpu_milli}/{need.cpu_milli}/{need.memory_bytes}@{','.join(regions)}"
        row = self.rows.get(key)
        if row is None:
            if len(self.rows) >= DEMAND_SHAPES_MAX:
                self._drop_least()
            row = self.rows[key] = DemandRow(need, node_types, regions)
        row.count += job.tasks
        self.counted += job.tasks
        self.arrived += job.tasks

    def _drop_least(self) -> None:
        """The one counted least, and of equals the one seen first."""
        key = min(self.rows, key=lambda one: self.rows[one].count)
        self.counted -= self.rows.pop(key).count

    def _fade(self) -> None:
        """Every count is halved."""
        for key, row in list(self.rows.items()):
            row.count //= 2
            if not row.count:
                del self.rows[key]
        self.counted = sum(row.count for row in self.rows.values())

"""The bytes of datasets by region, and the workloads that read each copy: indexes, each equal to a count over the image."""

from collections import Counter

from components.job_queue.state.copy_notes import CopiesLooked, CopyMoved, ReadsLooked
from core.events.copies import CopyFailed, CopyMade, DataPlanned
from core.events.data import DataPolicySet, LinkSet, StorageSet
from core.events.regions import RegionAbandoned, RegionReadmitted
from core.fact import Fact
from core.images import GlobalImage
from core.images.queue import WorkloadRow
from core.nouns.ids import DatasetName, RegionName, WorkloadId
from core.nouns.instant import Instant, after
from core.nouns.limits import COPY_LOOK_SOON, WAITING_READS_INTERVAL
from core.nouns.workload import Phase

NO_DATASET = DatasetName("")
OF_DATA = (DataPlanned, StorageSet, LinkSet, DataPolicySet, RegionAbandoned, RegionReadmitted)
"""Facts about no dataset after which copies may be ordered or end."""


class DataLedger:
    """The queue's memory of data beside its image."""

    def __init__(self, regions: tuple[RegionName, ...], at: Instant) -> None:
        self.services = frozenset(regions)
        """Regions with a data service."""
        self.total = 0
        """Bytes of all datasets that are somewhere, one copy of each."""
        self.stored: Counter[RegionName] = Counter()
        """Bytes of datasets by region, those included that are to be deleted."""
        self.readers: Counter[tuple[DatasetName, RegionName]] = Counter()
        """Active awards by the copy that they read."""
        self.pending = 0
        """Pending workloads that read data."""
        self.moved: dict[int, int] = {}
        """Bytes that copies under way have moved, by order, as last reported."""
        self.look_at: Instant | None = at
        """When copies are ordered, if some may be."""
        self.reads_at: Instant | None = at
        """When waiting reads are recorded, if there are some."""

    def rebuild(self, image: GlobalImage) -> None:
        """Count the whole image, once, at a start."""
        for dataset in image.datasets.rows:
            self._count(image, dataset, 1)
        for row in image.workloads.rows.values():
            self._count_reader(row, 1)
        self.reads_at = self.reads_at if self.pending or image.readings.waiting else None

    def leave(self, image: GlobalImage, fact: Fact) -> bool:
        """Take a fact's dataset and workload out of the counts before it is folded; return whether the workload reads data. `enter` follows."""
        self._count(image, getattr(fact.event, "dataset", NO_DATASET), -1)
        return self._count_reader(_row_of(image, fact), -1)

    def enter(self, image: GlobalImage, fact: Fact, *, reads: bool) -> None:
        """Count a fact's dataset and workload as the fact has left them, and have copies looked at if that may change some."""
        dataset = getattr(fact.event, "dataset", NO_DATASET)
        self._count(image, dataset, 1)
        reads = self._count_reader(_row_of(image, fact), 1) or reads
        if isinstance(fact.event, CopyMade | CopyFailed):
            self.moved.pop(fact.event.copy, None)
        if dataset or reads or isinstance(fact.event, OF_DATA):
            soon = after(fact.at, COPY_LOOK_SOON)
            self.look_at = soon if self.look_at is None else min(soon, self.look_at)
        if self.pending and self.reads_at is None:
            self.reads_at = after(fact.at, WAITING_READS_INTERVAL)

    def note(self, fact: Fact) -> None:
        """Fold a note about data; ignore others."""
        match fact.event:
            case CopiesLooked(again_at):
                self.look_at = again_at
            case CopyMoved(copy, moved):
                self.moved[copy] = moved
            case ReadsLooked(again_at):
                self.reads_at = again_at

    def _count(self, image: GlobalImage, dataset: DatasetName, sign: int) -> None:
        row = image.datasets.rows.get(dataset)
        if row is None:
            return
        for region in (*row.regions, *image.copies.drops.get(dataset, ())):
            self.stored[region] += sign * row.size
        if row.regions:
            self.total += sign * row.size

    def _count_reader(self, row: WorkloadRow | None, sign: int) -> bool:
        """Add a live workload to the counts, or take it out; return whether it reads data."""
        if row is None or row.phase.is_terminal or not row.spec.data:
            return False
        if row.phase is Phase.PENDING:
            self.pending += sign
            return True
        for dataset in row.spec.data:
            key = dataset, row.region
            self.readers[key] += sign
            if not self.readers[key]:
                del self.readers[key]
        return True


def _row_of(image: GlobalImage, fact: Fact) -> WorkloadRow | None:
    """Return the row of the workload that a fact is about."""
    return image.workloads.rows.get(getattr(fact.event, "workload", WorkloadId("")))

"""Datasets that the jobs of a run waited for: what was copied for each, from the queue's log, and what the job read of it."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from core.events.copies import CopyMade, CopyOrdered
from core.events.queue import WorkloadBound, WorkloadSubmitted
from core.fact import Fact
from core.nouns.ids import DatasetName, RegionName, WorkloadId
from core.nouns.instant import SECOND, Instant
from scenarios.play.live_gangs import GangLook
from scenarios.schema.data import MB


class DataRead(Struct, frozen=True):
    """One dataset of one job."""

    name: str
    """Of the job."""
    workload: WorkloadId
    dataset: DatasetName
    source: RegionName = RegionName("")
    """Empty: nothing was copied for it."""
    target: RegionName = RegionName("")
    copied_bytes: int = 0
    copy_seconds: float = 0.0
    """From the order to the verified copy."""
    made_seconds: float = 0.0
    """From the submission of the job to the verified copy."""
    began_seconds: float = 0.0
    """From the submission of the job until it ran; 0: it never did."""
    read_bytes: int = 0
    """As its program told."""
    loss_first: float = 0.0
    loss_last: float = 0.0

    @property
    def problem(self) -> str:
        """Return what did not come about; empty: nothing."""
        if not self.source:
            return "no copy of it was made"
        if not self.began_seconds:
            return "the job did not run"
        if self.began_seconds < self.made_seconds:
            return "the job did not wait for the copy"
        if self.read_bytes != self.copied_bytes:
            return f"{self.copied_bytes} bytes of it were copied, and {self.read_bytes} read"
        if self.loss_last >= self.loss_first:
            return f"the loss on it did not fall: {self.loss_first} → {self.loss_last}"
        return ""


def data_read(
    facts: Iterable[Fact], gangs: Mapping[WorkloadId, tuple[GangLook, Sequence[DatasetName]]]
) -> list[DataRead]:
    """Return what became of the datasets of these jobs, from all facts of the queue's log."""
    asked: dict[WorkloadId, Instant] = {}
    bound: dict[WorkloadId, Instant] = {}
    orders: dict[int, tuple[Instant, CopyOrdered]] = {}
    made: dict[int, Instant] = {}
    for fact in facts:
        match fact.event:
            case WorkloadSubmitted(workload=workload) if workload in gangs:
                asked[workload] = fact.at
            case WorkloadBound(workload=workload) if workload in gangs:
                bound.setdefault(workload, fact.at)
            case CopyOrdered(copy=copy) as order:
                orders[copy] = (fact.at, order)
            case CopyMade(copy=copy):
                made[copy] = fact.at
    newest = {order.dataset: copy for copy, (_, order) in orders.items() if copy in made}
    rows = []
    for workload, (look, datasets) in gangs.items():
        for dataset in datasets:
            row = DataRead(
                look.name,
                workload,
                dataset,
                began_seconds=_seconds(asked[workload], bound[workload]) if workload in bound else 0.0,
                read_bytes=look.read.get(dataset, 0),
                loss_first=look.curve[0].loss if look.curve else 0.0,
                loss_last=look.curve[-1].loss if look.curve else 0.0,
            )
            if dataset in newest:
                at, order = orders[newest[dataset]]
                row = replace(
                    row,
                    source=order.source,
                    target=order.target,
                    copied_bytes=order.bytes,
                    copy_seconds=_seconds(at, made[order.copy]),
                    made_seconds=_seconds(asked[workload], made[order.copy]),
                )
            rows.append(row)
    return rows


def lines_of_data(rows: Iterable[DataRead]) -> list[tuple[str, str]]:
    """Return a line for people of each dataset that was copied."""
    return [(f"data ({row.workload})", _told(row)) for row in rows if row.source]


def _told(row: DataRead) -> str:
    size = f"{row.dataset}, {row.copied_bytes / MB:.1f} MB, copied from {row.source} to {row.target}"
    made = f"in {row.copy_seconds:.1f} s and verified {row.made_seconds:.1f} s after {row.name} asked for it"
    read = f"{row.read_bytes / MB:.1f} MB read, loss {row.loss_first:.3f} → {row.loss_last:.3f}"
    return f"{size} {made}; it began {row.began_seconds - row.made_seconds:.1f} s later, {read}"


def _seconds(since: Instant, until: Instant) -> float:
    return round((until - since) / SECOND, 2)

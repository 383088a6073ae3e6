"""Cost of the begin of a cycle for the job queue when every region has refused every shape that waits.

Workloads of distinct shapes, each a group of its own, are asked for and refused cycle by cycle, through the component itself. Then
the search at the begin of a cycle is timed: with the memo of willing regions that the cycle before left ("kept"), and without
("emptied", as after nodes joined a region).
"""

import statistics
import time
from pathlib import Path

from bench.support.report import Findings, at_most
from components.job_queue.component import JobQueue
from components.job_queue.state.queue_state import QueueState
from core.component import Images
from core.events.queue import RegionAdded, WorkloadSubmitted
from core.events.region import NodesJoined
from core.fact import NO_LOG, Event, Fact
from core.images import GlobalImage, RegionImage
from core.messages.base import Envelope, LogHeard, Message, Woken
from core.messages.broker import SolicitBid
from core.messages.queue import Abstention
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import (
    GLOBAL_LOG,
    AgentName,
    LogName,
    RegionName,
    TenantName,
    WorkerName,
    WorkloadId,
    region_log,
)
from core.nouns.instant import SECOND, Instant, Nanoseconds
from core.nouns.quantities import MILLI, Amount
from core.nouns.reasons import Reason
from core.nouns.workload import Emulation, JobSpec, WorkloadSpec

GROUPS, QUICK_GROUPS = 2_000, 200
LOOKS = 25
REGIONS = tuple(RegionName(f"r{number}") for number in range(10))
TENANTS = 50
GIB = 1 << 30
NOW = Instant(1_800_000_000 * SECOND)
LIMIT = "each group costs its request, its regions and a few look-ups, in plain Python"


def run(directory: Path, *, is_quick: bool) -> Findings:
    """Refuse every request, and time searches without a result."""
    del directory
    groups = QUICK_GROUPS if is_quick else GROUPS
    queue = Refused(groups)
    spans = {"kept": queue.looks(forgets=False), "emptied": queue.looks(forgets=True)}
    median = {name: statistics.median(found) for name, found in spans.items()}
    figures = {
        "groups": float(groups),
        "asked_cycles": float(queue.cycles),
        "emptied_p50_ms": median["emptied"],
        "kept_max_ms": max(spans["kept"]),
    }
    bars = [at_most("kept_p50_ms", median["kept"], 10, LIMIT)]
    return Findings({**figures, **{bar.name: bar.value for bar in bars}}, bars)


class Refused:
    """A queue of so many groups, each refused by every region."""

    def __init__(self, groups: int) -> None:
        self.component = JobQueue(REGIONS)
        image = GlobalImage.empty()
        for number, region in enumerate(REGIONS):
            image.fold(_fact(GLOBAL_LOG, number + 1, RegionAdded(region)))
        for number in range(1, groups + 1):
            event = WorkloadSubmitted(WorkloadId(f"w-{number}"), number, _spec(number), "ada")
            image.fold(_fact(GLOBAL_LOG, number + len(REGIONS), event))
        followed = {region_log(region): (_region(region), 1) for region in REGIONS}
        self.state: QueueState = self.component.initial(Images(NOW, image, dict(followed)))
        self.cycles = self.refused = 0
        for region in REGIONS:
            self._hear(LogHeard(region_log(region)))
        while (due := self.component.due(self.state)) is not None and due <= NOW:
            asked = [one for one in self._hear(Woken()) if isinstance(one, SolicitBid)]
            self.cycles += bool(asked)
            for one in asked:
                self._refuse(one)
        assert not self.state.auctions.open, "a cycle is open"
        assert self.refused == groups * len(REGIONS), self.refused

    def looks(self, *, forgets: bool) -> list[float]:
        """Return the milliseconds of some searches for a cycle."""
        spans = []
        for _ in range(LOOKS):
            self.state.open_at = NOW
            if forgets:
                self.state.auctions.forget_memos()
            begun = time.perf_counter()
            messages = self._hear(Woken())
            spans.append(1e3 * (time.perf_counter() - begun))
            assert not messages, messages
            assert self.state.open_at is None, "no search was made"
        return spans

    def _refuse(self, asked: SolicitBid) -> None:
        self.refused += 1
        gpu_milli = sum(job.need.gpu_milli * job.tasks for job in asked.jobs)
        self._hear(
            Abstention(
                asked.region, AgentName("a0"), asked.workload, asked.auction, Reason.NO_CAPACITY, 1, gpu_milli
            )
        )

    def _hear(self, message: Message) -> tuple[Message, ...]:
        decision = self.component.decide(self.state, Envelope(message, "bench", "m", NOW, "inbox"))
        for event in decision.events:
            self.state = self.component.evolve(self.state, Fact(NO_LOG, 0, NOW, "", "bench", event, NOW))
        return decision.messages


def _spec(number: int) -> WorkloadSpec:
    """Return a workload whose memory per task makes its shape its own, and no larger request of another's."""
    job = JobSpec("main", 1, Amount(8 * MILLI, 0, number * GIB), "H100", Emulation(Nanoseconds(600 * SECOND)))
    return WorkloadSpec(f"job-{number}", (job,), TenantName(f"t{number % TENANTS}"))


def _region(region: RegionName) -> RegionImage:
    image = RegionImage.empty(("attempts", "hardware", "starts"))
    worker = WorkerName("w0")
    group = NodeGroup(0, 100, Amount(8 * MILLI, 64 * MILLI, (GROUPS + 1) * GIB), "H100", 0, 10)
    image.fold(_fact(region_log(region), 1, NodesJoined(worker, Inventory(worker, (group,)))))
    return image


def _fact(log: LogName, sequence: int, event: Event) -> Fact:
    return Fact(log, sequence, NOW, "cause", "actor", event, NOW)

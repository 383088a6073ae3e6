"""How much of a region was given out, and how much of that was of use: from the region's log.

Available are all GPUs of nodes that are neither lost nor closed, and on closed nodes those that somebody still holds. Allocated
are those that attempts hold or are about to leave; what is reserved for somebody who has not got it yet is not.

Of an attempt's GPU-seconds are `starting` those until all ranks were up, `set_up` those until it worked, `useful` those of work
that a checkpoint or the workload's end made safe, `stopping` those from the order to stop, and `lost` what is left: it has to be
done again, or was done for nothing. What runs still counts as useful. Of an emulated task the log says how long its set-up takes
and how far a checkpoint is; a program's set-up is not known and counts as work, and its work is safe as of the checkpoint's fact.
A gang counts with the GPUs that it was granted, also where it grew or shrank later; the GPU of a pair counts as its host's, until it
passes to the guest.
"""

from collections.abc import Container, Iterable

from msgspec import Struct

from core.events.control import ClaimRevised, DomainLost, NodesClosed, NodesOpened, ScopeJoined
from core.events.region import (
    AttemptEnded,
    CheckpointCommitted,
    ClaimGranted,
    GangStarted,
    NodesJoined,
    NodesLost,
    NodesReturned,
    StopOrdered,
)
from core.fact import Event, Fact, Note
from core.figures.spans import Spans
from core.images.region import RegionImage
from core.nouns.ids import AttemptKey, WorkloadId
from core.nouns.instant import MILLISECOND, Instant
from core.nouns.placement import Claim, gpu_milli_of, nodes_of
from core.nouns.workload import EndCause

STEP = MILLISECOND
"""Progress in one step of an emulated task (runtime/spool.py)."""
NEVER = 1 << 62
"""Later than every instant."""
OF_MANY = (NodesJoined, NodesLost, NodesReturned, DomainLost, NodesClosed, NodesOpened, ScopeJoined)
"""After which all nodes are looked at."""


class Attempt(Struct):
    """One attempt's times; 0: that has not come."""

    workload: WorkloadId
    gpu_milli: int
    set_up: int
    is_emulated: bool
    resume_step: int
    granted_at: int
    started_at: int = 0
    safe_until: int = 0
    """What it did before is safe."""
    stopped_at: int = 0
    ended_at: int = 0
    holds_from: int = 0
    """Since when its GPUs are its own; `NEVER`: it is a guest."""

    @property
    def works_from(self) -> int:
        """Since when it works, or would have."""
        return self.started_at + self.set_up if self.started_at else 0


class Use(Struct):
    """What became of GPU-time, in GPU-milli-nanoseconds."""

    starting: int = 0
    set_up: int = 0
    useful: int = 0
    lost: int = 0
    stopping: int = 0

    def add(self, one: Attempt, since: Instant, until: Instant, *, is_wasted: bool) -> None:
        """An attempt's, as far as it lies between these times.

        is_wasted   nobody has any use of what it did: its workload ended otherwise than completed
        """
        end = one.ended_at or until
        stopped = min(end, one.stopped_at or end)
        works_from = min(stopped, one.works_from or stopped)
        safe = end if not one.ended_at else max(works_from, one.safe_until)
        safe = works_from if is_wasted else min(safe, stopped)

        def of(begin: int, finish: int) -> int:
            return one.gpu_milli * max(0, min(finish, until) - max(begin, since, one.holds_from))

        up = min(stopped, one.started_at or stopped)
        self.starting += of(one.granted_at, up)
        self.set_up += of(up, works_from)
        self.useful += of(works_from, safe)
        self.lost += of(safe, stopped)
        self.stopping += of(stopped, end)


class Rates:
    """One region's. Told of each fact of its log, in order."""

    def __init__(self, since: Instant) -> None:
        self.since = since
        self.spans = Spans(since, 2)
        """Of available and allocated GPU milli."""
        self.attempts: list[Attempt] = []
        """Ended after `since`, and alive."""
        self._image = RegionImage.empty(("capacity",))
        self._live: dict[tuple[WorkloadId, int], Attempt] = {}
        self._available = self._allocated = 0

    def take(self, fact: Fact) -> None:
        """A fact of the log."""
        event, capacity = fact.event, self._image.capacity
        nodes: Iterable[int] | None = ()
        if isinstance(event, OF_MANY):
            nodes = None
        elif isinstance(event, ClaimGranted):
            nodes = nodes_of(event.claim)
        elif isinstance(event, AttemptEnded | ClaimRevised):
            held = capacity.holding(event.workload, event.epoch)
            assert held is not None, (event.workload, event.epoch)
            nodes = nodes_of(held.claim)
            if isinstance(event, ClaimRevised):
                moved = [node for one in event.moves for node in (one.node_from, one.node_to) if node >= 0]
                nodes = sorted({*nodes, *moved})
        before, heir = self._sums(nodes), self._heir(event)
        self._image.fold(fact)
        after = self._sums(nodes)
        if nodes is None:
            self._available, self._allocated = after
        else:
            self._available += after[0] - before[0]
            self._allocated += after[1] - before[1]
        if before != after:
            self.spans.put(fact.at, (self._available, self._allocated))
        self._follow(fact)
        if heir is not None:
            self._live[heir].holds_from = fact.at

    def _heir(self, event: Event | Note) -> AttemptKey | None:
        """Return the guest to which a device passes by an event."""
        if not isinstance(event, AttemptEnded):
            return None
        held = self._image.capacity.holding(event.workload, event.epoch)
        return held.guest if held is not None else None

    def add_use(self, use: Use, until: Instant, wasted: Container[WorkloadId] = ()) -> None:
        """What became of all that was allocated until then.

        wasted   workloads that ended, and did not complete
        """
        for one in self.attempts:
            use.add(one, self.since, until, is_wasted=one.workload in wasted)

    def _sums(self, nodes: Iterable[int] | None) -> tuple[int, int]:
        """What is available and what is allocated of these nodes, or of all."""
        capacity = self._image.capacity
        gpu, available, allocated = capacity.gpu, 0, 0
        for node in range(len(capacity.node_type)) if nodes is None else nodes:
            if not capacity.is_lost[node]:
                taken = gpu.held[node] + gpu.ending[node]
                available += taken if capacity.closed[node] else gpu.total[node]
                allocated += taken
        return available, allocated

    def _follow(self, fact: Fact) -> None:
        match fact.event:
            case ClaimGranted(workload=workload, epoch=epoch, claim=claim):
                one = attempt_of(workload, claim, fact.at)
                held = self._image.capacity.holding(workload, epoch)
                if held is not None and held.claim.beside is not None:
                    one.holds_from = NEVER
                self._live[workload, epoch] = one
                self.attempts.append(one)
            case GangStarted(workload=workload, epoch=epoch):
                one = self._live[workload, epoch]
                one.started_at = fact.at
                one.safe_until = one.works_from
            case CheckpointCommitted(workload=workload, epoch=epoch, step=step):
                one = self._live[workload, epoch]
                done = one.works_from + max(0, step - one.resume_step) * STEP
                one.safe_until = max(one.safe_until, min(fact.at, done) if one.is_emulated else fact.at)
            case StopOrdered(workload=workload, epoch=epoch):
                self._live[workload, epoch].stopped_at = fact.at
            case AttemptEnded(workload=workload, epoch=epoch, cause=cause):
                one = self._live.pop((workload, epoch))
                one.ended_at = fact.at
                if cause is EndCause.COMPLETED:
                    one.safe_until = fact.at


def attempt_of(workload: WorkloadId, claim: Claim, at: Instant) -> Attempt:
    """As it is granted."""
    emulations = [job.emulation for job in claim.jobs if job.emulation is not None]
    return Attempt(
        workload,
        gpu_milli_of(claim.jobs),
        max((one.set_up for one in emulations), default=0),
        bool(emulations),
        claim.resume_step,
        at,
    )

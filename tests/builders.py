"""Small builders with defaults, so that a test shows only what matters to it.

Ids are given as plain text and numbers are small: a node has 8 GPUs, a rack 2 nodes, and a task needs whole GPUs.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from msgspec.structs import replace

from core.events.log import LogOpened
from core.events.queue import WorkloadSubmitted
from core.events.region import ClaimGranted, ClaimPromised, NodesJoined
from core.fact import NO_LOG, Event, Fact, Note
from core.images import GlobalImage, Image, RegionImage
from core.messages.base import Envelope, Message
from core.messages.units import UnitStatus
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import (
    GLOBAL_LOG,
    AgentName,
    AttemptKey,
    ClaimId,
    DatasetName,
    LogName,
    RegionName,
    TenantName,
    WorkerName,
    WorkloadId,
    region_log,
)
from core.nouns.instant import SECOND, Instant, Nanoseconds
from core.nouns.limits import SETTINGS, STATUS_INTERVAL
from core.nouns.placement import Claim, Spread, View
from core.nouns.quantities import Amount
from core.nouns.workload import Emulation, JobSpec, Kind, RetryLimits, WorkloadSpec

EU = RegionName("eu")
US = RegionName("us")
EU_LOG = region_log(EU)
US_LOG = region_log(US)
START = Instant(1_000 * SECOND)
"""When tests begin."""
GIB = 1 << 30
NODE = Amount(8_000, 64_000, 512 * GIB)

AnyImage = TypeVar("AnyImage", bound=Image)


# What users ask for.


def amount(gpus: float = 1, cpus: float = 0, gib: int = 0) -> Amount:
    """So many devices, cores and gibibytes."""
    return Amount(round(1000 * gpus), round(1000 * cpus), gib * GIB)


def a_job(
    tasks: int = 1,
    gpus: float = 1,
    *,
    name: str = "main",
    gpu_type: str = "H100",
    cpus: float = 0,
    gib: int = 0,
) -> JobSpec:
    """So many tasks of so many GPUs each."""
    return JobSpec(name, tasks, amount(gpus, cpus, gib), gpu_type, Emulation(work=Nanoseconds(60 * SECOND)))


def of_types(job: JobSpec, *types: str) -> JobSpec:
    """The same, for which any of these will do."""
    return replace(job, gpu_type=types[0], or_types=types[1:])


def a_spec(
    *jobs: JobSpec,
    name: str = "train",
    priority: int = 3,
    kind: Kind = Kind.TRAINING,
    regions: Iterable[RegionName] = (),
    retry: RetryLimits | None = None,
    tenant: str = "default",
    data: Iterable[str] = (),
    move_after: int = 0,
) -> WorkloadSpec:
    """A workload of these jobs, or of one task of one GPU."""
    return WorkloadSpec(
        name=name,
        jobs=jobs or (a_job(),),
        priority=priority,
        kind=kind,
        regions=tuple(regions),
        retry=retry or RetryLimits(),
        tenant=TenantName(tenant),
        data=tuple(map(DatasetName, data)),
        move_after=Nanoseconds(move_after),
    )


def submitted(number: int = 1, spec: WorkloadSpec | None = None, *, key: str = "") -> WorkloadSubmitted:
    """The fact that workload `w-<number>` was accepted from Ada."""
    return WorkloadSubmitted(WorkloadId(f"w-{number}"), number, spec or a_spec(), "ada", key)


# Where it may run.


def an_inventory(
    worker: str = "w0",
    first: int = 0,
    nodes: int = 4,
    *,
    total: Amount = NODE,
    gpu_type: str = "H100",
    rack_first: int | None = None,
    nodes_per_rack: int = 2,
) -> Inventory:
    """A run of like nodes that one worker serves. Racks are numbered through, unless told otherwise."""
    rack = first // nodes_per_rack if rack_first is None else rack_first
    return Inventory(WorkerName(worker), (NodeGroup(first, nodes, total, gpu_type, rack, nodes_per_rack),))


def joined(
    worker: str = "w0",
    first: int = 0,
    nodes: int = 4,
    *,
    total: Amount = NODE,
    gpu_type: str = "H100",
    rack_first: int | None = None,
) -> NodesJoined:
    """The fact that a worker's nodes are there: 4 of 8 GPUs each, unless told otherwise."""
    served = an_inventory(worker, first, nodes, total=total, gpu_type=gpu_type, rack_first=rack_first)
    return NodesJoined(served.worker, served)


# Claims.


def attempt(workload: str = "w-1", epoch: int = 1) -> AttemptKey:
    """An attempt's name."""
    return WorkloadId(workload), epoch


def a_spread(placed: Mapping[int, int]) -> Spread:
    """Tasks by node."""
    nodes = tuple(sorted(placed))
    return Spread(nodes, tuple(placed[node] for node in nodes))


def a_claim(
    workload: str = "w-1",
    epoch: int = 1,
    placed: Mapping[int, int] | None = None,
    *,
    gpus: float = 1,
    jobs: tuple[JobSpec, ...] = (),
    spreads: tuple[Spread, ...] = (),
    priority: int = 3,
    kind: Kind = Kind.TRAINING,
    victims: tuple[AttemptKey, ...] = (),
    award_sequence: int = 1,
    view_sequence: int = 0,
    tries: int = 1,
    agent: str = "a0",
    region: RegionName = EU,
) -> Claim:
    """A claim for one job that is placed so (one task on node 0 by default), or for these jobs at these places."""
    tasks = {0: 1} if placed is None else placed
    return Claim(
        claim=ClaimId(f"{workload}.{epoch}.{agent}.{tries}"),
        region=region,
        agent=AgentName(agent),
        workload=WorkloadId(workload),
        epoch=epoch,
        award_sequence=award_sequence,
        priority=priority,
        kind=kind,
        jobs=jobs or (a_job(sum(tasks.values()), gpus),),
        spreads=spreads or (a_spread(tasks),),
        view=View(view_sequence),
        victims=victims,
    )


def granted(claim: Claim, *, is_merged: bool = False) -> ClaimGranted:
    """The fact that a claim was granted."""
    return ClaimGranted(claim.workload, claim.epoch, claim, is_merged)


def promised(claim: Claim) -> ClaimPromised:
    """The fact that a claim was promised."""
    return ClaimPromised(claim.workload, claim.epoch, claim)


# Logs.


def a_fact(
    event: Event | Note, sequence: int = 1, *, log: LogName = EU_LOG, at: Instant | None = None
) -> Fact:
    """One event with its place in a log, a second after the one before it."""
    when = Instant(START + sequence * SECOND) if at is None else at
    if isinstance(event, Note):
        return Fact(NO_LOG, 0, when, "cause", "actor", event, when)
    return Fact(log, sequence, when, "cause", "actor", event, when)


def facts_of(events: Iterable[Event], *, log: LogName = EU_LOG, first: int = 1) -> list[Fact]:
    """These events, one after the other."""
    return [a_fact(event, sequence, log=log) for sequence, event in enumerate(events, first)]


def folded(image: AnyImage, events: Iterable[Event], *, log: LogName = EU_LOG, first: int = 1) -> AnyImage:
    """The image after these events."""
    for fact in facts_of(events, log=log, first=first):
        image.fold(fact)
    return image


def a_region(*events: Event) -> RegionImage:
    """The image of a region in which this happened; with nothing named, four empty nodes joined."""
    return folded(RegionImage.empty(), events or (joined(),))


def a_queue(*events: Event) -> GlobalImage:
    """The image of the queue's log in which this happened."""
    return folded(GlobalImage.empty(), events, log=GLOBAL_LOG)


def opened(term: int = 1) -> LogOpened:
    """The first fact of a term, which is held to the limits of this build."""
    return LogOpened("log-1", term, "fleet", "0.1.0", SETTINGS)


def a_status(
    unit: str = "auditor", *, life: str = "first", counts: Mapping[str, int] | None = None
) -> UnitStatus:
    """What a unit tells of itself, ten seconds after its start."""
    return UnitStatus(unit, "node-1", "0.1.0", life, 10 * SECOND, STATUS_INTERVAL, counts=dict(counts or {}))


def an_envelope(message: Message, *, at: Instant = START, reply_to: str = "", id: str = "m-1") -> Envelope:  # noqa: A002 (as Envelope calls it)
    """A message as a component hears it."""
    return Envelope(message, "somebody", id, at, reply_to)

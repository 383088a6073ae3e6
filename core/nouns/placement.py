"""A claim, and what becomes of it: exact capacity for one attempt, proposed against a numbered view."""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from core.nouns.ids import AgentName, AttemptKey, ClaimId, RegionName, TenantName, WorkloadId
from core.nouns.operation import ControlSpec, TaskMove, job_and_rank
from core.nouns.pipeline import Forerunner
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import JobSpec


class Spread(Struct, frozen=True):
    """Where one job's tasks go: `tasks[i]` of them on node `nodes[i]`, nodes ascending."""

    nodes: tuple[int, ...]
    tasks: tuple[int, ...]


SEARCH = 4
"""Grows when the search changes so that it would choose otherwise from the same view."""


class View(Struct, frozen=True):
    """What an agent knew when it chose: enough to choose again."""

    sequence: int
    """Of the region's log, folded so far."""
    open_bids: tuple[WorkloadId, ...] = ()
    """Workloads with open bids of the agent, which counted their capacity as taken."""
    open_claims: tuple[tuple[WorkloadId, int], ...] = ()
    """Attempts with open claims of the agent, which counted their capacity as taken."""
    learnt: tuple["NodeRow", ...] = ()
    """Nodes that it took to be other than the log shows them: an answer taught it so, or it had offered them itself."""
    seed: str = ""
    """From which its chance was drawn."""
    stripe: int = 0
    stripes: int = 1
    """Pods with a number that is `stripe` modulo `stripes` came first."""
    best: int = 1
    """It drew among so many of the best nodes (Protean's N0); 1: among equals."""
    is_whole: bool = True
    """Whether all such nodes, and all `owners`, are named; of very many, only the first."""
    settings_revision: int = 0
    """Of the region's pool settings, by which it was chosen: rule sets, reserves and limits."""
    search: int = 0
    """By which way of searching it chose (`SEARCH`); 0: an earlier build's."""
    owners: tuple[tuple[int, int], ...] = ()
    """Nodes of the agent's open bids and claims, each with the tenant's code (core/placing/index/owners.py); empty if owners do not
    matter."""
    prices_revision: int = 0
    """Of the region's prices, by which it was chosen where rules go by them; 0: there were none."""
    at: int = 0
    """The agent's time, by which attempts before their minimum run time were no victims."""
    barred: tuple[int, ...] = ()
    """Reservations that barred the workload from their nodes, each by the sequence of its fact."""
    is_as_reserved: bool = False
    """Whether no search found it: it claims the nodes on which its start is reserved."""
    spared: tuple[AttemptKey, ...] = ()
    """Attempts that were not considered, because they were victims of other bids or claims of the agent already."""
    placing: str = ""
    """Of an agent that knows node rows alone, why the partition came first (`PlacedBy`); empty: the agent folded every fact."""
    partition: int = -1
    """The partition in which it searched, whose rows are as at `sequence`; -1: it searched the whole region."""


class Shortage(Struct, frozen=True):
    """The capacity for the first job that found no place: free, and neither offered nor claimed by the searching agent."""

    job: str
    tasks: int
    """That it has."""
    tasks_fit: int
    """That there was room for."""
    nodes: int
    """Of its type, lost ones too."""
    free: Amount
    """On all of those together."""
    largest: Amount
    """The most of each resource that one of them had free."""
    changes: tuple[str, ...] = ()
    """What would help, each by itself, the smallest first: now, or with nothing running if it could never be held as it is."""


SCORE_PARTS = (
    "victims' highest priority + 1",
    "victims",
    "GPU-seconds destroyed",
    "racks",
    "nodes",
    "GPU permille held",
)
"""What each part of a bid's score counts (core/placing/answers/bids.py, `score`): compared from the left, lower is better."""
PAPER_PART = "victims as the paper weighs them"
"""What the first counts instead where bids are compared as the paper has it: then the others of the victims count nothing."""
VICTIM_PARTS = 3
"""The number of parts about victims: after these and before the others, the queue compares the location of data."""


class NodeRow(Struct, frozen=True):
    """One node as the store sees it now: what a conflict is answered with."""

    node: int
    free: Amount
    """Free and not promised."""
    is_open: bool
    """Whether new tasks may be placed there."""
    parts: tuple[int, ...] = ()
    """Of what is free, the milli on each device of which parts are held, ascending; the rest is whole devices."""
    is_kept: bool = False
    """Whether only agents that fold every fact may place tasks there (core/placing/index/kept.py)."""


class Claim(Struct, frozen=True):
    """A proposal to hold exact capacity for one attempt."""

    claim: ClaimId
    region: RegionName
    agent: AgentName
    workload: WorkloadId
    epoch: int
    award_sequence: int
    """Of the global log: the store reads up to it before it judges."""
    priority: int
    """Its level, `OVER_LEVEL` if it is over quota."""
    kind: str
    jobs: tuple[JobSpec, ...]
    spreads: tuple[Spread, ...]
    """One for each job."""
    view: View
    victims: tuple[tuple[WorkloadId, int], ...] = ()
    """Attempts that must end first, because their capacity is claimed too."""
    revision: int = 0
    """Grows when a granted attempt is given other capacity."""
    resume_epoch: int = 0
    """Epoch of the checkpoint to start from; 0: start from the beginning."""
    resume_step: int = 0
    grace: int = 0
    max_duration: int = 0
    """Nanoseconds from the start of the gang; 0: no limit."""
    tenant: TenantName = TenantName("")
    control: ControlSpec = ControlSpec()
    spec_revision: int = 0
    """Of the workload's spec, that `jobs` is from."""
    failures_max: int = -1
    """Of a task that stands alone, in a row, before the attempt fails as a whole; -1: it is started again for ever."""
    is_healing: bool = False
    """A failure of nodes ended its attempt before: it may take what pools keep in reserve."""
    is_incremental: bool = False
    """Whether some of its tasks may be granted without the others, which others came before."""
    standing_revision: int = 0
    """Of the workload's standing to its tenant's quota, that `priority` is from."""
    run_min: int = 0
    """Nanoseconds that it runs at least before it may be a victim."""
    beside: AttemptKey | None = None
    """The host of a guest: the attempt of which the guest shares spreads and devices, so that it holds only CPUs and memory of its own. In
    an image it is None from the host's end on, when the device passes to the guest."""
    forerunners: tuple[Forerunner, ...] = ()
    """The completed stages of its pipeline that came before it."""


def runs_of(nodes: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Numbers as runs, each by its first and its last, ascending."""
    runs: list[tuple[int, int]] = []
    for node in sorted(nodes):
        if runs and node <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], node)
        else:
            runs.append((node, node))
    return tuple(runs)


def numbers_in(runs: Iterable[tuple[int, int]]) -> list[int]:
    """The numbers that `runs_of` made runs of."""
    return [number for first, last in runs for number in range(first, last + 1)]


def nodes_of_ranks(spread: Spread) -> list[int]:
    """The node of each rank: ranks are numbered node by node."""
    return [node for node, tasks in zip(spread.nodes, spread.tasks, strict=True) for _ in range(tasks)]


def moved(claim: Claim, moves: Sequence[TaskMove], revision: int) -> Claim:
    """The same claim once these tasks have moved, came or went. Which rank is where, its spreads no longer tell."""
    spreads = moved_spreads(claim.spreads, moves)
    jobs = tuple(
        replace(job, tasks=sum(spread.tasks)) for job, spread in zip(claim.jobs, spreads, strict=True)
    )
    return replace(claim, spreads=spreads, jobs=jobs, revision=revision)


def moved_spreads(spreads: tuple[Spread, ...], moves: Sequence[TaskMove]) -> tuple[Spread, ...]:
    """How many tasks of each job each node has once these have moved."""
    counts = [dict(zip(spread.nodes, spread.tasks, strict=True)) for spread in spreads]
    for move in moves:
        if move.node_from == move.node_to:
            continue
        count = counts[job_and_rank(move.task)[0]]
        if move.node_from >= 0:
            count[move.node_from] -= 1
        if move.node_to >= 0:
            count[move.node_to] = count.get(move.node_to, 0) + 1
    return tuple(_spread_of(count) for count in counts)


def _spread_of(count: dict[int, int]) -> Spread:
    nodes = sorted(node for node, tasks in count.items() if tasks)
    return Spread(tuple(nodes), tuple(count[node] for node in nodes))


def jobs_wanted(jobs: tuple[JobSpec, ...], unplaced: Sequence[int]) -> tuple[JobSpec, ...]:
    """The jobs of a grant with the tasks that found no room."""
    if not unplaced:
        return jobs
    return tuple(
        replace(job, tasks=job.tasks + more) if more else job
        for job, more in zip(jobs, unplaced, strict=True)
    )


def gpu_milli_of(jobs: tuple[JobSpec, ...]) -> int:
    """GPU milli that all tasks of these jobs hold."""
    return sum(job.need.gpu_milli * job.tasks for job in jobs)


def nodes_of(claim: Claim) -> tuple[int, ...]:
    """The nodes of all its jobs, ascending, each once."""
    if len(claim.spreads) == 1:
        return claim.spreads[0].nodes
    return tuple(sorted({node for spread in claim.spreads for node in spread.nodes}))


def need_of(claim: Claim, job: JobSpec) -> Amount:
    """Return what each task of a claim's job holds for itself: a guest's holds no GPU, for the device is its host's."""
    return job.need if claim.beside is None else replace(job.need, gpu_milli=0)


def needs_of(claim: Claim) -> dict[int, Amount]:
    """What a claim needs on each of its nodes, all its jobs together."""
    total: dict[int, Amount] = {}
    for job, spread in zip(claim.jobs, claim.spreads, strict=True):
        need = need_of(claim, job)
        for node, tasks in zip(spread.nodes, spread.tasks, strict=True):
            amount = need.times(tasks)
            total[node] = total[node].plus(amount) if node in total else amount
    return total


def parts_of(claim: Claim) -> dict[int, list[int]]:
    """By node, the parts of one device each that a claim needs there: one for each task that needs one."""
    found: dict[int, list[int]] = {}
    for job, spread in zip(claim.jobs, claim.spreads, strict=True):
        part = need_of(claim, job).gpu_milli % MILLI
        if part:
            for node, tasks in zip(spread.nodes, spread.tasks, strict=True):
                found.setdefault(node, []).extend([part] * tasks)
    return found


def takings_of(
    jobs: Sequence[JobSpec], spreads: Sequence[Spread], beside: AttemptKey | None = None
) -> list[tuple[int, Amount]]:
    """What tasks take of nodes, as an agent counts it: all of a job on a node at once, but each part of a device by itself.

    beside   the host of a guest, which takes no GPU
    """
    if beside is not None:
        jobs = [replace(job, need=replace(job.need, gpu_milli=0)) for job in jobs]
    found: list[tuple[int, Amount]] = []
    for job, spread in zip(jobs, spreads, strict=True):
        for node, tasks in zip(spread.nodes, spread.tasks, strict=True):
            is_whole = job.need.gpu_milli % MILLI == 0
            found.extend([(node, job.need.times(tasks))] if is_whole else [(node, job.need)] * tasks)
    return found

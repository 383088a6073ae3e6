"""A claim's choice made again, from the region's image at the claim's view: whether the result is the same, and why.

A choice depends only on the image and the view. The rules' scores of each node are read from the same keys as in the search
(core/placing/index/request_classes.py), so that the explanation shows the effect that each rule really had.

source    Protean §3: engineers must be able to name the rule that decided
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import chain

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from core.images import RegionImage
from core.images.capacity import Capacity
from core.images.pairs import place_beside
from core.nouns.ids import AttemptKey
from core.nouns.placement import SEARCH, Claim, Spread
from core.nouns.reasons import Reason
from core.placing.believed import reduced
from core.placing.index.layout import NO_NODE, RACKS_PER_POD
from core.placing.index.overlay import Overlay
from core.placing.index.owners import Owners, wants_alone
from core.placing.index.request_classes import INVALID, RequestClass
from core.placing.index.rows import TableRows
from core.placing.pick.extents import Extents
from core.placing.pick.nodes import SURVIVORS_MAX, Choice, best_of, best_of_type, some_of
from core.placing.placer import Placer
from core.placing.pool import PoolIndex, whole_of
from core.placing.pool_set import JobFound, asker_of
from core.rules.placement.plan import Plan
from core.rules.placement.rule import Flags, Level, Numbers

IN_POOL, ROOM, KEPT_FREE, LARGE_ENOUGH, PARTITION, STRIPE, BEST, SOME, TIGHTEST, DRAW = (
    "in_pool",
    "room",
    "kept_free",
    "large_enough",
    "partition",
    "stripe",
    "best",
    "some",
    "tightest",
    "draw",
)
"""Steps of a choice beside the rules: all nodes of the pool, nodes with capacity for a task, the part of them that the pool's
reserve and limit leave, units with capacity for all tasks, the partition that alone was searched, the agent's own pods, the best
nodes (N0), as many as a refinement reads, the smallest unit that is large enough, and chance."""
BEYOND_RACKS = (Level.POD, Level.DOMAIN)
"""Levels of preferences that a search of one partition leaves out."""


SPREAD, PACK = "spread", "pack"
"""The deciding step of a gang that its topology spreads or packs."""


_NOWHERE = np.iinfo(np.int32).max


class Unit(StrEnum):
    """Sorts of units that hold all tasks of a job."""

    NODE = "node"
    RACK = "rack"
    POD = "pod"
    ZONE = "zone"
    CLUSTER = "cluster"
    POOL = "pool"


class Step(Struct, frozen=True):
    """The number of nodes, or of units for a whole gang, that are left after one rule."""

    rule: str
    left: int


class JobChoice(Struct, frozen=True):
    """The choice of one job's place, step by step."""

    job: str
    pool: str
    unit: Unit
    """The tightest sort of unit that holds all tasks; for a gang that its topology spreads or packs, the topology's extent."""
    steps: tuple[Step, ...]
    """Steps over nodes; for a gang that no node holds, up to the nodes with capacity for a task."""
    units: tuple[Step, ...] = ()
    """Steps over units of the sort `unit`; empty if one node holds all tasks, or the topology decided."""
    decided_by: str = ""
    """The last step before the draw that left fewer than before; empty if there was only one from the beginning."""
    drawn_among: int = 1
    """The number of nodes or units that were still equal at the draw."""
    chosen: str = ""
    """Name of the chosen unit."""
    runner_up: str = ""
    """Name of the best unit that was not chosen; empty if no other could have been chosen."""
    lost_by: str = ""
    """The step by which the runner-up lost."""


class Outcome(StrEnum):
    """The result of choosing again."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNKNOWN = "unknown"
    """The claim does not name all data that the choice was made from."""


class Retraced(Struct, frozen=True):
    """A choice made again."""

    outcome: Outcome
    sequence: int
    """The view's sequence of the region's log."""
    why: str = ""
    """The reason in one sentence, unless the outcome is equal."""
    choices: tuple[JobChoice, ...] = ()
    """The choice of each job, in the order of jobs; empty if no search was made."""
    beside: AttemptKey | None = None
    """The host whose place a guest was given, without a search."""
    placing: str = ""
    """Of an agent that takes in rows alone, the strategy that chose the partition; empty: the agent folds every fact."""
    partition: int = -1
    """The partition that was searched; -1: the whole region was."""


def what_is_missing(claim: Claim) -> str:
    """Return the reason why a claim's choice cannot be made again, in one sentence; empty if it can."""
    view = claim.view
    if not view.seed or view.search != SEARCH:
        return "it was chosen by another build, which searched in another way"
    if not view.is_whole:
        named = max(len(view.learnt), len(view.owners), len(view.spared))
        return f"the agent knew more nodes, or attempts, to be other than the log shows them than the {named} it named"
    return ""


def retraced(
    image: RegionImage,
    claim: Claim,
    victims: Sequence[AttemptKey] | None = None,
    plan_of: Callable[[str], Plan] | None = None,
) -> Retraced:
    """Return a claim's choice made again, compared with the claim.

    image     the region's image at the claim's `view.sequence`, with the sections that an agent folds
    plan_of   plan of a pool, by name; None: as set in the image
    claim     the claim with its jobs as in the search, even if only a part of the tasks was granted
    victims   victims of the claim's promise, if known: the store leaves out attempts that have ended meanwhile
    """
    view = claim.view
    missing = what_is_missing(claim)
    if missing:
        return Retraced(Outcome.UNKNOWN, view.sequence, missing)
    if view.is_as_reserved:
        kept = image.starts.rows.get(claim.workload)
        if kept is not None and kept.spreads == claim.spreads:
            return Retraced(Outcome.EQUAL, view.sequence)
        return Retraced(Outcome.DIFFERENT, view.sequence, "its start is reserved elsewhere")
    if claim.beside is not None:
        if place_beside(image.capacity, claim.beside, claim.kind, claim.jobs) == claim.spreads:
            return Retraced(Outcome.EQUAL, view.sequence, beside=claim.beside)
        why = "its host takes no guest there"
        return Retraced(Outcome.DIFFERENT, view.sequence, why, beside=claim.beside)
    if view.placing:
        image = reduced(image)
    overlay = Overlay()
    overlay.learnt = {row.node: (row, view.sequence) for row in view.learnt}
    overlay.put("view", (), view.spared)
    placer = Placer.of(image, overlay, plan_of, _owners_at(image.capacity, claim))
    asker = replace(asker_of(claim, view.at), barred=view.barred, spares_all=bool(view.placing))
    told: dict[int, JobChoice] = {}

    def watch(found: JobFound) -> None:
        told[found.position] = _explained(claim.jobs[found.position].name, found)

    choice = Choice(view.seed, view.stripe, view.stripes, view.best, view.partition)
    found = placer.find(claim.jobs, asker, choice, watch=watch)
    if isinstance(found, Reason):
        return Retraced(Outcome.DIFFERENT, view.sequence, f"no place is found: {found}")
    choices = tuple(told[position] for position in sorted(told))
    why = ""
    if not _is_where_it_was_granted(claim, found.spreads):
        why = "other nodes are found"
    elif not set(victims or ()) <= set(found.victim_keys):
        why = "others are found to be pushed out"
    outcome = Outcome.DIFFERENT if why else Outcome.EQUAL
    return Retraced(outcome, view.sequence, why, choices, placing=view.placing, partition=view.partition)


def _is_where_it_was_granted(claim: Claim, found: Sequence[Spread]) -> bool:
    """Return whether the found nodes are the claim's; for a claim granted in part, whether the granted part is within them."""
    if all(sum(spread.tasks) == job.tasks for job, spread in zip(claim.jobs, claim.spreads, strict=True)):
        return tuple(found) == claim.spreads
    for granted, chosen in zip(claim.spreads, found, strict=True):
        there = dict(zip(chosen.nodes, chosen.tasks, strict=True))
        if any(tasks > there.get(node, 0) for node, tasks in zip(granted.nodes, granted.tasks, strict=True)):
            return False
    return True


def _owners_at(capacity: Capacity, claim: Claim) -> Owners:
    """Return the owners of nodes at the claim's view; empty, and faster, if no work is or wants to be alone on a node."""
    held = (one.claim for epochs in capacity.holdings.values() for one in epochs.values())
    waiting = (one for epochs in capacity.promises.values() for one in epochs.values())
    beside = claim.view.owners
    is_counted = any(code & 1 for _, code in beside)
    if not is_counted and not any(map(wants_alone, chain((claim,), waiting, held))):
        return Owners()
    owners = Owners.of(capacity)
    owners.put("view", beside)
    return owners


# One job.


def _explained(job: str, found: JobFound) -> JobChoice:
    """Return the choice of a job's place. To be called while all rows are as in the job's search."""
    whole = whole_of(found.request, found.tasks)
    if whole is not None and len(found.slots) == 1:
        return _of_node(job, found, found.pool.class_within(whole, 1))
    one = found.pool.class_within(found.request, found.tasks)
    if found.request.spread or found.request.pack:
        return _as_asked(job, found, one)
    return _of_gang(job, found, one)


class _Funnel:
    """Nodes or units, and those of them that are left after each step."""

    def __init__(self, is_there: Flags) -> None:
        self.left = is_there
        self.steps = [Step(IN_POOL, int(np.count_nonzero(is_there)))]
        self.decided_by = ""
        """The last step that left fewer than before."""
        self.lost: Flags = np.zeros_like(is_there)
        """Nodes or units that this step removed."""

    def keep(self, rule: str, mask: Flags) -> None:
        """Record a step that leaves only the nodes or units in `mask`."""
        after = self.left & mask
        count = int(np.count_nonzero(after))
        if count < self.steps[-1].left:
            self.decided_by, self.lost = rule, self.left & ~mask
        self.left = after
        self.steps.append(Step(rule, count))


class _Sieve(_Funnel):
    """A funnel over a pool's nodes, by the rules and keys of one class."""

    def __init__(self, pool: PoolIndex, one: RequestClass) -> None:
        super().__init__(pool.layout.node != NO_NODE)
        self.pool, self.one = pool, one

    def keep_least(self, rule: str, scores: Numbers) -> None:
        """Record a step that leaves only the nodes with the lowest score of those left."""
        self.keep(rule, scores == scores[self.left].min())

    def slots(self) -> Numbers:
        """Return the slots of the nodes that are left."""
        return np.flatnonzero(self.left)

    def runner_up(self, chosen: int) -> int:
        """Return the best slot but `chosen`: of those equal by all rules, else of those removed by the last step, else NO_NODE."""
        others = self.slots()
        others = others[others != chosen]
        if not len(others):
            others = np.flatnonzero(self.lost & (self.one.key != INVALID))
        if not len(others):
            return NO_NODE
        return int(others[np.argmin(self.one.key[others])])

    def validators(self) -> None:
        """Record the steps of the hard rules, of capacity for a task, and of the pool's reserve and limit."""
        pool, request = self.pool, self.one.request
        layout, plan = pool.layout, pool.plan
        for rule in plan.cluster_validators:
            admitted = np.asarray([rule.admits(cluster, request) for cluster in layout.clusters])
            self.keep(rule.name, np.repeat(admitted[layout.cluster_of_pod], layout.pod_slots))
        rows = TableRows(pool.table, slice(0, layout.slots))
        for node_rule in plan.node_validators:
            self.keep(node_rule.name, node_rule.allows(rows, request))
        self.keep(ROOM, pool.class_of(request).key != INVALID)
        if pool.bounds.concern(request):
            self.keep(KEPT_FREE, self.one.key != INVALID)

    def preferences(self, choice: Choice) -> None:
        """Record the steps of the preferences, as core/placing/pick/nodes.py picks one task's node."""
        pool, one, layout = self.pool, self.one, self.pool.layout
        pod_of = np.repeat(np.arange(layout.pods), layout.pod_slots)
        is_alone = choice.partition >= 0
        if is_alone:
            partitions = pool.picker.partitions
            assert partitions is not None, pool.name
            self.keep(PARTITION, np.repeat(partitions.of_row, layout.rack_slots) == choice.partition)
        elif choice.stripes > 1:
            own = pod_of % choice.stripes == choice.stripe
            self.keep(STRIPE, own if self._is_of_best_tier(own) else np.ones_like(own))
        clusters = pool.table.clusters
        if clusters.rules and len(layout.clusters) > 1 and not is_alone:
            code = clusters.code[layout.cluster_of_pod][pod_of]
            for shift, cluster_rule in clusters.rules:
                is_best = best_of_type(code >> np.uint32(shift), layout.node_type, self.left)
                self.keep(cluster_rule.name, is_best)
        candidates = self.left if is_alone else one.cap
        wanted = best_of(choice.best, int(np.count_nonzero(candidates)))
        key = one.key & pool.plan.mask_in_partition if is_alone else one.key
        if wanted > 1:
            keys = np.sort(key[self.left])
            self.keep(BEST, key <= keys[min(wanted, len(keys)) - 1])
            return
        for shift, rule in pool.plan.in_order:
            if not is_alone or rule.level not in BEYOND_RACKS:
                self.keep_least(rule.name, key >> np.uint32(shift))
        self._refine(choice)

    def _is_of_best_tier(self, own: Flags) -> bool:
        """Return whether some of these nodes are of the best tier of all that are left, each in the best clusters of its type."""
        pool, layout = self.pool, self.pool.layout
        clusters = pool.table.clusters
        tiers: list[int] = []
        for some in (self.left & own, self.left):
            if not some.any():
                return False
            if self.one.has_rivals and not clusters.is_level:
                rank = clusters.code[layout.cluster_of_pod].repeat(layout.pod_slots)
                some = best_of_type(rank, layout.node_type, some)  # noqa: PLW2901  # in the best clusters
            tiers.append(int(self.one.key[some].min()) >> pool.plan.tier_shift)
        return tiers[0] == tiers[1]

    def _refine(self, choice: Choice) -> None:
        rules = self.pool.plan.refinements
        if rules and self.steps[-1].left > SURVIVORS_MAX:
            looked_at = np.zeros_like(self.left)
            by_name = self.pool.plan.is_by_name
            looked_at[some_of(self.slots(), choice.seed, is_by_name=by_name)] = True
            self.keep(SOME, looked_at)
        for rule in rules:
            slots = self.slots()
            cost = rule.cost(TableRows(self.pool.table, slots), self.one.request)
            cheapest = np.zeros_like(self.left)
            cheapest[slots[cost == cost.min()]] = True
            self.keep(rule.name, cheapest)
        for tie_break in self.pool.plan.tie_breaks:
            number = np.where(self.left, self.pool.layout.node, _NOWHERE)
            self.keep(tie_break.name, number == number.min())


def _of_node(job: str, found: JobFound, one: RequestClass) -> JobChoice:
    sieve = _Sieve(found.pool, one)
    sieve.validators()
    sieve.preferences(found.choice)
    ((chosen, _),) = found.slots
    count = sieve.steps[-1].left
    runner_up = sieve.runner_up(chosen)
    lost_by = DRAW if count > 1 else sieve.decided_by
    nodes = found.pool.layout.node
    return JobChoice(
        job=job,
        pool=found.pool.name,
        unit=Unit.NODE,
        steps=(*sieve.steps, Step(DRAW, 1)),
        decided_by=sieve.decided_by,
        drawn_among=count,
        chosen=str(nodes[chosen]),
        runner_up="" if runner_up == NO_NODE else str(nodes[runner_up]),
        lost_by="" if runner_up == NO_NODE else lost_by,
    )


# A gang.


def _as_asked(job: str, found: JobFound, one: RequestClass) -> JobChoice:
    """Return the choice of a gang that its topology spreads over units, or packs into one."""
    pool, layout, request = found.pool, found.pool.layout, found.request
    sieve = _Sieve(pool, one)
    sieve.validators()
    extent = request.spread or request.pack
    of_row = Extents(layout).of_row[extent]
    units = {int(of_row[slot // layout.rack_slots]) for slot, _ in found.slots}
    return JobChoice(
        job=job,
        pool=pool.name,
        unit=Unit(extent),
        steps=tuple(sieve.steps),
        decided_by=SPREAD if request.spread else PACK,
        chosen=f"{len(units)} {extent}{'s' if len(units) > 1 else ''}",
    )


def _of_gang(job: str, found: JobFound, one: RequestClass) -> JobChoice:
    """Return the choice of another gang: the smallest unit that is large enough, as in core/placing/pick/nodes.py."""
    pool, layout = found.pool, found.pool.layout
    sieve = _Sieve(pool, one)
    sieve.validators()
    unit, caps, per_pod = _unit_of(pool, one, found.tasks)
    slot = found.slots[0][0]
    mine = {
        Unit.RACK: slot // layout.rack_slots,
        Unit.POD: slot // layout.pod_slots,
        Unit.CLUSTER: int(layout.cluster_of_pod[slot // layout.pod_slots]),
        Unit.POOL: 0,
    }[unit]
    funnel = _Funnel(_is_there(pool, unit))
    funnel.keep(LARGE_ENOUGH, caps >= found.tasks)
    choice, numbers = found.choice, np.arange(len(caps))
    partitions = pool.picker.partitions
    if choice.partition >= 0 and partitions is not None:
        funnel.keep(PARTITION, partitions.of_row == choice.partition)
    elif choice.stripes > 1 and per_pod:
        own = numbers // per_pod % choice.stripes == choice.stripe
        funnel.keep(STRIPE, own if bool((own & funnel.left).any()) else np.ones_like(own))
    funnel.keep(TIGHTEST, caps == caps[funnel.left].min())
    for tie_break in pool.plan.tie_breaks:
        funnel.keep(tie_break.name, numbers == numbers[funnel.left].min())
    count = funnel.steps[-1].left
    others = (
        numbers[funnel.left & (numbers != mine)]
        if count > 1
        else numbers[funnel.lost & (caps >= found.tasks)]
    )
    runner_up = _named(pool, unit, int(others[np.argmin(caps[others])])) if len(others) else ""
    return JobChoice(
        job=job,
        pool=pool.name,
        unit=unit,
        steps=tuple(sieve.steps),
        units=(*funnel.steps, Step(DRAW, 1)),
        decided_by=funnel.decided_by or sieve.decided_by,
        drawn_among=count,
        chosen=_named(pool, unit, mine),
        runner_up=runner_up,
        lost_by="" if not runner_up else DRAW if count > 1 else funnel.decided_by,
    )


def _unit_of(pool: PoolIndex, one: RequestClass, tasks: int) -> tuple[Unit, Numbers, int]:
    """Return the tightest sort of unit of which one holds all tasks, the tasks that each unit holds, and the units in a pod."""
    per_cluster = np.asarray([int(one.pod_cap[first:last].sum()) for first, last in pool.layout.pods_of])
    for unit, caps, per_pod in (
        (Unit.RACK, one.rack_cap, RACKS_PER_POD),
        (Unit.POD, one.pod_cap, 1),
        (Unit.CLUSTER, per_cluster, 0),
    ):
        if len(caps) and int(caps.max()) >= tasks:
            return unit, caps, per_pod
    return Unit.POOL, np.asarray([int(one.pod_cap.sum())]), 0


def _is_there(pool: PoolIndex, unit: Unit) -> Flags:
    """Return (units,) whether each unit has nodes; some racks of a pod that is not full have no nodes."""
    layout = pool.layout
    if unit in (Unit.CLUSTER, Unit.POOL):
        return np.ones(len(layout.clusters) if unit is Unit.CLUSTER else 1, dtype=np.bool_)
    size = layout.rack_slots if unit is Unit.RACK else layout.pod_slots
    there: Flags = (layout.node.reshape(-1, size) != NO_NODE).any(axis=1)
    return there


def _named(pool: PoolIndex, unit: Unit, number: int) -> str:
    """Return the name of a unit for people: racks are numbered through the region, a pod's racks consecutively."""
    layout = pool.layout
    if unit is Unit.POOL:
        return pool.name
    if unit is Unit.CLUSTER:
        cluster = layout.clusters[number]
        return f"{cluster.node_type} in {cluster.zone}"
    size = layout.rack_slots if unit is Unit.RACK else layout.pod_slots
    rack = int(layout.rack[number * size : (number + 1) * size].max())
    return str(rack if unit is Unit.RACK else rack // RACKS_PER_POD)

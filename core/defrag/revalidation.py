"""The check of whether a plan's moves are still allowed on a region that has changed: by the store's rules, without a search.

Moves that free nodes together are accepted or refused together: if one is refused, the others would stop work in vain. A node
that becomes empty only through a gang's move for another node is refused with that move.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from core.claims.checks import (
    check_nodes,
    check_now,
    has_capacity,
    is_well_formed,
    may_move_to,
    nodes_without_capacity,
)
from core.defrag.what_if import Mover, MoverId, Sketch, movers_of
from core.images import RegionImage
from core.nouns.defragmentation import Freed, PlannedMove
from core.nouns.ids import AttemptKey
from core.nouns.instant import Instant
from core.nouns.operation import WHOLE, job_and_rank
from core.nouns.placement import Claim, Spread
from core.nouns.quantities import MILLI
from core.placing.index.owners import Now
from core.rules.headroom import Headroom


class Revalidation:
    """A check of one plan. Accepted moves are made in a sketch, and later moves must fit beside them."""

    def __init__(self, image: RegionImage, now: Instant) -> None:
        """image   the region's, not changed; must have `core.defrag.plan.SECTIONS`"""
        self.sketch, self.movers = Sketch(image), movers_of(image, now)
        self._on: dict[int, set[MoverId]] = {}
        for mover in self.movers.values():
            for node in mover.nodes():
                self._on.setdefault(node, set()).add(mover.id)
        self._closed: dict[str, tuple[int, ...]] = {}

    def take(self, freed: Freed) -> str:
        """Return why the moves are refused; empty if they are accepted, and then made in the sketch."""
        why = self._nodes_differ(freed) or next(filter(None, map(self._differs, freed.moves)), "")
        if why:
            return why
        source = f"freed-{len(self._closed)}"
        self.sketch.close(source, freed.nodes)
        made: list[PlannedMove] = []
        for move in freed.moves:
            mover = self.movers[move.key, move.task]
            self.sketch.take_out(mover, mover.spreads)
            why = refusal_of(self.sketch, mover, move.spreads_to)
            if why:
                self.sketch.put(mover, mover.spreads)
                break
            self.sketch.put(mover, move.spreads_to)
            made.append(move)
        if not why:
            self._closed[source] = freed.nodes
            self._settle(made)
            return ""
        for move in reversed(made):
            mover = self.movers[move.key, move.task]
            self.sketch.take_out(mover, move.spreads_to)
            self.sketch.put(mover, mover.spreads)
        self.sketch.open(source, freed.nodes)
        return why

    def opened(self) -> Sketch:
        """Return the sketch with all accepted moves made and the freed nodes open again."""
        for source, nodes in self._closed.items():
            self.sketch.open(source, nodes)
        self._closed.clear()
        self.sketch.let_go()
        return self.sketch

    def _settle(self, made: list[PlannedMove]) -> None:
        for move in made:
            for node in move.nodes():
                self._on[node].discard((move.key, move.task))
            for node in sorted({node for spread in move.spreads_to for node in spread.nodes}):
                self._on.setdefault(node, set()).add((move.key, move.task))

    def _nodes_differ(self, freed: Freed) -> str:
        capacity, known = self.sketch.capacity, {(move.key, move.task) for move in freed.moves}
        for node in freed.nodes:
            if not capacity.has_node(node) or not capacity.is_open(node):
                return f"node {node} is not open any more"
            for key, task in sorted(self._on.get(node, ())):
                if (key, task) not in known:
                    return f"{key[0]} is on node {node} now"
        return ""

    def _differs(self, move: PlannedMove) -> str:
        mover = self.movers.get((move.key, move.task))
        name = called(move.key, move.task)
        if mover is None:
            return f"{name} is not there any more"
        if mover.spreads != move.spreads_from or mover.run != move.run:
            return f"{name} was started anew since"
        if move.task == WHOLE and mover.claim.revision != move.revision:
            return f"{name} was started anew since"
        return f"{name} stays: {mover.why_not}" if mover.why_not is not None else ""


def called(key: AttemptKey, task: int) -> str:
    """Return the name for people: a gang by its workload, a task with its rank."""
    job, rank = job_and_rank(task)
    where = f" of job {job}" if job > 0 else ""
    return str(key[0]) if task == WHOLE else f"task {rank}{where} of {key[0]}"


def refusal_of(sketch: Sketch, mover: Mover, spreads: Sequence[Spread]) -> str:
    """Return why a store would refuse these spreads for a mover on no node; empty if accepted."""
    capacity = sketch.capacity
    now = Now(capacity, sketch.placer.owners)
    name = called(mover.key, mover.task)
    if mover.task != WHOLE:
        node = spreads[0].nodes[0] if spreads and spreads[0].nodes else -1
        job = mover.claim.jobs[job_and_rank(mover.task)[0]]
        part = job.need.gpu_milli % MILLI
        fits = may_move_to(node, mover.claim, job, now) and has_capacity(
            capacity, node, job.need, (part,) if part else ()
        )
        if not fits:
            return f"{name} has no room on node {node} any more"
        return (
            ""
            if sketch.keeps_together(mover, node)
            else f"{name} would lie on node {node} as its job does not want it"
        )
    claim = replace(mover.claim, spreads=tuple(spreads), victims=())
    if not is_well_formed(claim) or check_nodes(claim, capacity) is not None:
        return f"{name} may not lie as the plan says"
    if check_now(claim, now):
        return f"{name} may not be on node {min(check_now(claim, now))} now"
    short = nodes_without_capacity(claim, capacity)
    if short:
        return f"{name} has no room on node {short[0]} any more"
    return f"{name} would take what its pool keeps free" if _breaks_pool(sketch, claim) else ""


def _breaks_pool(sketch: Sketch, claim: Claim) -> bool:
    """Return whether the claim breaks a reserve or limit. All nodes are counted, so this is skipped if no pool has either."""
    pools = sketch.image.pools
    if not any(settings.keeps_something_free for settings in pools.settings.values()):
        return False
    return Headroom(sketch.capacity).broken_by(claim, pools) is not None

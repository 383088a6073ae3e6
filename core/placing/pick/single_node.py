"""A node for one task without a class: rule after rule, each evaluated only for nodes that are equal by all rules before.

The search ends as soon as no further rule can matter, and so costs less than a class; no result is kept for the next search.
Equals `Picker.pick` on a class made from scratch: the same nodes are left, and the same one of them is drawn.

source    spec/protean-parsync.md §5.3 (1): the lazy filter chain for classes that are not cached
"""

import numpy as np

from core.placing.index.node_classes import samples_among
from core.placing.index.request_classes import ALIKE_MIN, tasks_that_fit
from core.placing.index.rows import TableRows
from core.placing.index.table import NodeTable
from core.placing.pick.nodes import Choice, best_of, best_of_type, one_of, refined, some_of
from core.rules.placement.plan import Plan, bits_of
from core.rules.placement.rule import (
    ClusterPreference,
    Level,
    NodePreference,
    Numbers,
    Request,
    UnitPreference,
)


def pick_lazily(table: NodeTable, plan: Plan, request: Request, choice: Choice) -> int | None:
    """Return a slot for one task, or None. Raises RuleFailed."""
    if table.failed is not None:
        raise table.failed
    slots = allowed(table, plan, request)
    if not len(slots):
        return None
    wanted = best_of(choice.best, len(slots)) if choice.best > 1 else 1
    own = slots if choice.stripes == 1 else _owned(table, slots, choice)
    slots, own = _of_best_cluster(table, slots), _of_best_cluster(table, own)
    if len(own) and _tier(table, plan, request, own) == _tier(table, plan, request, slots):
        slots = own
    best = _best(table, plan, request, slots, wanted)
    if wanted == 1 and plan.refinements:
        some = some_of(best, choice.seed, is_by_name=plan.is_by_name)
        return refined(table, plan, request, some, choice.seed)
    return one_of(table, best, choice.seed, is_by_name=plan.is_by_name and wanted == 1)


def allowed(table: NodeTable, plan: Plan, request: Request) -> Numbers:
    """Return the slots where one task may run now, ascending."""
    layout, need = table.layout, request.need
    found: list[Numbers] = []
    for cluster, (first, last) in zip(layout.clusters, layout.pods_of, strict=True):
        if all(rule.admits(cluster, request) for rule in plan.cluster_validators):
            span = slice(first * layout.pod_slots, last * layout.pod_slots)
            has_capacity = table.is_open[span] > 0
            if request.part:
                rows = TableRows(table, span)
                has_capacity &= tasks_that_fit(rows, need, request.part, request.together) > 0
            for column, amount in (
                (table.whole, 0 if request.part else need.gpu_milli),
                (table.cpu, need.cpu_milli),
                (table.memory, need.memory_bytes),
            ):
                if amount:
                    has_capacity &= column[span] >= amount
            found.append(np.flatnonzero(has_capacity) + span.start)
    slots = np.concatenate(found) if found else np.zeros(0, dtype=np.int64)
    for rule in plan.node_validators:
        slots = slots[rule.allows(TableRows(table, slots), request)]
    return slots


def _owned(table: NodeTable, slots: Numbers, choice: Choice) -> Numbers:
    """Return the slots in the own pods."""
    own: Numbers = slots[(slots >> _bits_within(table.layout.pod_slots)) % choice.stripes == choice.stripe]
    return own


def _tier(table: NodeTable, plan: Plan, request: Request, slots: Numbers) -> tuple[int, ...]:
    """Return the best scores by the first preferences, as long as they are about the task itself."""
    tier: list[int] = []
    for shift, rule in plan.in_order:
        if not rule.is_about_task or len(slots) == 0:
            break
        score = _scores(table, request, slots, shift, rule)
        tier.append(int(score.min()))
        slots = slots[score == score.min()]
    return tuple(tier)


def _of_best_cluster(table: NodeTable, slots: Numbers) -> Numbers:
    if not table.clusters.rules or not len(slots):
        return slots
    layout = table.layout
    rank = table.clusters.code[layout.cluster_of_pod[(slots >> _bits_within(layout.pod_slots))]]
    best: Numbers = slots[best_of_type(rank, layout.node_type[slots], np.ones(len(slots), dtype=np.bool_))]
    return best


def _best(table: NodeTable, plan: Plan, request: Request, slots: Numbers, wanted: int) -> Numbers:
    """Return the `wanted` best slots, and those that equal the last of them, ascending."""
    better: list[Numbers] = []
    for shift, rule in plan.in_order:
        if len(slots) <= wanted:
            break
        score = _scores(table, request, slots, shift, rule)
        least = score.min()
        bound = least if wanted == 1 else np.partition(score, wanted - 1)[wanted - 1]
        if bound != least:
            better.append(slots[score < bound])
            wanted -= len(better[-1])
        equal = np.flatnonzero(score == bound)
        if len(equal) < len(slots):
            slots = slots[equal]
    return np.sort(np.concatenate([*better, slots])) if better else slots


def _scores(
    table: NodeTable,
    request: Request,
    slots: Numbers,
    shift: int,
    rule: NodePreference | ClusterPreference | UnitPreference,
) -> Numbers:
    layout = table.layout
    if isinstance(rule, NodePreference) and rule.is_dear and len(slots) >= ALIKE_MIN:
        columns = (layout.node_type, table.gpu, table.cpu, table.memory)
        sample, place = samples_among([column[slots] for column in columns], table.shared[slots])
        return rule.score(TableRows(table, slots[sample]), request)[place]
    if isinstance(rule, NodePreference):
        return rule.score(TableRows(table, slots), request)
    if isinstance(rule, ClusterPreference):
        scores = [min(rule.score(cluster, request), rule.steps - 1) for cluster in layout.clusters]
        pods = slots >> _bits_within(layout.pod_slots)
        judged: Numbers = np.asarray(scores)[layout.cluster_of_pod[pods]]
        return judged
    if rule.level is Level.RACK:
        code = table.racks.code[slots >> _bits_within(layout.rack_slots)]
    elif rule.level is Level.POD:
        code = table.pods.code[slots >> _bits_within(layout.pod_slots)]
    else:
        code = table.domains.code[layout.domain[slots]]
    score: Numbers = (code >> np.uint32(shift)) & np.uint32((1 << bits_of(rule)) - 1)
    return score


def _bits_within(size: int) -> int:
    """Return the shift that divides by `size`, a power of two, at an eighth of the cost of a division."""
    return size.bit_length() - 1

"""Sets of tables that are read together: small ones joined to larger ones, level by level.

A job gains nothing before its last table moves, so tables are also offered to the search by the set. On the first level each table joins the
table of its home with which it shares the most demand, and on each further level each set joins another set by the same rule; the largest
sets are about as large as a team's tables.

Source: Boruvka's algorithm for spanning trees, whose rounds these are.
"""

import numpy as np
from msgspec import Struct

from core.data_places.placement import Placement
from core.data_places.problem import Floats, Ints

LEVELS_MAX = 5
"""A level has at most half as many sets as the one before; teams of 200 tables are whole after three or four."""


class Sets(Struct, frozen=True):
    """Disjoint sets of tables that have a home in common."""

    members: Ints
    """Tables, set after set."""
    starts: Ints
    """(sets + 1,) positions in `members`."""

    def of_member(self) -> Ints:
        """Return (members,) the set of each."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))


def sets_of(placement: Placement) -> list[Sets]:
    """Return the sets of each level, each set once; the first level has every table that may move by itself."""
    problem = placement.problem
    tables = np.flatnonzero(placement.may_move)
    label = np.arange(len(problem.sizes))
    found = [Sets(tables, np.arange(len(tables) + 1))]
    first, second, weight = _edges(placement)
    for _ in range(LEVELS_MAX):
        lower = np.minimum(label[first], label[second])
        upper = np.maximum(label[first], label[second])
        apart = lower != upper
        first, second, weight = first[apart], second[apart], weight[apart]
        if not len(first):
            break
        joined = _joined(lower[apart], upper[apart], weight, len(label))
        is_new = np.zeros(len(label), dtype=np.bool_)
        is_new[joined[joined != np.arange(len(joined))]] = True
        label = joined[label]
        members = tables[is_new[label[tables]]]
        members = members[np.argsort(label[members], kind="stable")]
        found.append(Sets(members, _starts(label[members])))
    return found


def _edges(placement: Placement) -> tuple[Ints, Ints, Floats]:
    """Return pairs of neighbours in a job that may move and share a home, with the demand that each read has."""
    problem, prices = placement.problem, placement.prices
    tables, jobs = problem.job_tables, problem.job_of
    home, may_move = placement.home, placement.may_move
    first, second = tables[:-1], tables[1:]
    pairs = np.flatnonzero(
        (jobs[1:] == jobs[:-1]) & (home[first] == home[second]) & may_move[first] & may_move[second]
    )
    weight = (prices.job_weight / problem.lengths)[jobs[pairs]]
    return first[pairs], second[pairs], weight


def _joined(lower: Ints, upper: Ints, weight: Floats, count: int) -> Ints:
    """Return (count,) the name of the set that each set joins: the lowest name among those that joined."""
    keys, inverse = np.unique(lower * count + upper, return_inverse=True)
    total = np.bincount(inverse, weight, len(keys))
    lower, upper = keys // count, keys % count
    mine, other, both = np.concatenate([lower, upper]), np.concatenate([upper, lower]), np.tile(total, 2)
    order = np.lexsort((other, -both, mine))
    mine, other = mine[order], other[order]
    is_first = np.concatenate([[True], mine[1:] != mine[:-1]])
    parent = np.arange(count)
    parent[mine[is_first]] = other[is_first]
    # Two sets that choose each other would be a circle: the lower name is the root.
    roots = np.flatnonzero((parent[parent] == np.arange(count)) & (parent > np.arange(count)))
    parent[roots] = roots
    while not np.array_equal(parent, parent[parent]):
        parent = parent[parent]
    return parent


def _starts(labels: Ints) -> Ints:
    """Return where each run of equal labels begins, and the end."""
    begins = (
        np.flatnonzero(np.concatenate([[True], labels[1:] != labels[:-1]])) if len(labels) else np.zeros(0)
    )
    return np.append(begins, len(labels)).astype(np.int64)

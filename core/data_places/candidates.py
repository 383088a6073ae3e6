"""Which steps are worth a try: all of one look at a placement, each with an estimate of its gain.

Estimates are computed for all tables at once; the search computes the exact gain of a step before it is applied. A move's estimate leaves out
the prices of copies and, of a job's tables at home in several regions, what other jobs they share; others are exact for one step.
"""

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from core.data_places.actions import ADD_COPY, DROP_COPY, MOVE_HOME
from core.data_places.placement import Placement
from core.data_places.price import FILLED, OVERFILLED, STORAGE_FROM, UNCOLLOCATED
from core.data_places.problem import Flags, Floats, Ints
from core.data_places.sets import Sets, sets_of

GAIN_LEAST = 1e-12
"""Of all demand: less is rounding."""
ANY_REGION = -1
"""The region is chosen when the step is tried: whichever has the most storage left of those that protect the table."""
TIE = 1e-6
"""Of a gain: by so much copies for jobs seem to gain more where the supply of their GPU type is all there is."""
_NEVER = np.iinfo(np.int64).max
"""Bytes of what a region cannot hold."""


class Candidates(Struct, frozen=True):
    """Steps, a place in each array."""

    kinds: Ints
    """(steps,) of actions."""
    members: Ints
    """Tables, step after step."""
    starts: Ints
    """(steps + 1,) positions in `members`."""
    regions: Ints
    """(steps,) or `ANY_REGION`."""
    gains: Floats
    """(steps,) estimates."""
    bytes: Ints
    """(steps,) copied."""


def candidates_of(placement: Placement) -> Candidates:
    """Return the steps that seem to gain, of every kind."""
    found = list(_found(placement))
    ends = np.concatenate([one.starts[1:] for one in found])
    shifts = np.cumsum([0, *[len(one.members) for one in found]])
    return Candidates(
        np.concatenate([one.kinds for one in found]),
        np.concatenate([one.members for one in found]),
        np.append(0, ends + np.repeat(shifts[:-1], [len(one.kinds) for one in found])),
        np.concatenate([one.regions for one in found]),
        np.concatenate([one.gains for one in found]),
        np.concatenate([one.bytes for one in found]),
    )


def _found(placement: Placement) -> Iterator[Candidates]:
    """Yield the candidates of each kind and region."""
    pull = _pull(placement)
    for sets in sets_of(placement):
        yield from _moves(placement, sets, pull)
    yield from _moves_of_jobs(placement, pull)
    yield from _copies(placement)
    yield _protections(placement)
    yield from _copies_for_jobs(placement)
    yield from _drops(placement)


def _pull(placement: Placement) -> Floats:
    """Return (tables, regions) by how much split falls if the table alone were at home there, less a part that is the same everywhere."""
    problem, tables = placement.problem, len(placement.home)
    weight = 2 * placement.pair_weight
    found = np.empty((tables, placement.prices.regions))
    for region in range(placement.prices.regions):
        by_job = weight * placement.counts[:, region]
        found[:, region] = np.bincount(problem.job_tables, by_job[problem.job_of], tables)
    own = np.bincount(problem.job_tables, weight[problem.job_of], tables)
    somewhere = np.flatnonzero(placement.home < placement.prices.regions)
    found[somewhere, placement.home[somewhere]] -= own[somewhere]
    return found


def _moves(placement: Placement, sets: Sets, pull: Floats) -> Iterator[Candidates]:
    """Yield the moves of each set to each region."""
    prices, members = placement.prices, sets.members
    count = len(sets.starts) - 1
    if not count:
        return
    home = placement.home[members[sets.starts[:-1]]]
    pulls, loads = pull[members], prices.loads[members]
    saved = _saved(placement, members)
    if len(members) > count:
        of = sets.of_member()
        pulls, loads = np.add.reduceat(pulls, sets.starts[:-1]), np.add.reduceat(loads, sets.starts[:-1])
        pulls[np.arange(count), home] -= _within(placement, members, of, count)
    bases = prices.balance(placement.demand, prices.supply)
    left = bases[home] - prices.balance(placement.demand[home] - loads, prices.supply[home])
    for region in range(prices.regions):
        if not prices.stated[region]:
            continue
        supply = np.broadcast_to(prices.supply[region], (count, prices.supply.shape[1]))
        come = prices.balance(placement.demand[region] + loads, supply) - bases[region]
        gains = pulls[:, region] - pulls[np.arange(count), home] + left - come
        lacking = _lacking(placement, members, region) - saved
        copied = lacking if len(members) == count else np.add.reduceat(lacking, sets.starts[:-1])
        worth = (gains > GAIN_LEAST) & (home != region) & (copied <= placement.bytes_left)
        yield _chosen(MOVE_HOME, members, sets.starts, np.flatnonzero(worth), region, gains, copied)


def _within(placement: Placement, members: Ints, of: Ints, count: int) -> Floats:
    """Return (sets,) the pull of each set's own tables on each other."""
    problem = placement.problem
    set_of = np.full(len(placement.home), -1)
    set_of[members] = of
    sets = set_of[problem.job_tables]
    reads = np.flatnonzero(sets >= 0)
    keys, tables = np.unique(problem.job_of[reads] * count + sets[reads], return_counts=True)
    weight = 2 * placement.pair_weight[keys // count] * tables * (tables - 1)
    return np.bincount(keys % count, weight, count).astype(np.float64)


def _moves_of_jobs(placement: Placement, pull: Floats) -> Iterator[Candidates]:
    """Yield, for each job whose tables are at home in several regions, the move of its other tables to each region."""
    problem, prices = placement.problem, placement.prices
    tables, jobs = problem.job_tables, problem.job_of
    width = prices.regions
    split = placement.counts[:, :width].max(axis=1) < problem.lengths
    stays = np.bincount(jobs, ~placement.may_move[tables], len(split)) > 0
    reads = np.flatnonzero((split & ~stays)[jobs])
    if not len(reads):
        return
    mine, members = jobs[reads], tables[reads]
    home = placement.home[members]
    bases = prices.balance(placement.demand, prices.supply)
    loads = prices.loads[members]
    left = bases[home] - prices.balance(placement.demand[home] - loads, prices.supply[home])
    by_home = pull[members, home]
    saved = _saved(placement, members)
    together = placement.counts[:, :width] * (placement.counts[:, :width] - 1) // 2
    for region in range(width):
        if not prices.stated[region]:
            continue
        supply = np.broadcast_to(prices.supply[region], (len(members), prices.supply.shape[1]))
        come = prices.balance(placement.demand[region] + loads, supply) - bases[region]
        away = home != region
        gained = (pull[members, region] - by_home + left - come) * away
        gains = np.bincount(mine, gained, len(split)).astype(np.float64)
        moved = problem.lengths - placement.counts[:, region]
        pairs = moved * (moved - 1) // 2 + together.sum(axis=1) - together[:, region]
        gains += 2 * placement.pair_weight * pairs
        lacking = (_lacking(placement, members, region) - saved) * away
        copied = np.bincount(mine, lacking, len(split)).astype(np.int64)
        worth = (gains > GAIN_LEAST) & (moved > 1) & split & ~stays & (copied <= placement.bytes_left)
        yield _chosen(MOVE_HOME, tables, problem.job_starts, np.flatnonzero(worth), region, gains, copied)


def _copies(placement: Placement) -> Iterator[Candidates]:
    """Yield copies of single tables: hot ones, and the last that a job lacks in a region with its GPUs."""
    problem, prices = placement.problem, placement.prices
    waits, protected = placement.waits, placement.protected
    preferred = _preferred(placement)
    for region in range(prices.regions):
        if not prices.stated[region]:
            continue
        lacks = ~placement.held[:, region] & placement.may_copy
        last = waits & (placement.missing[:, region] == 1) & prices.job_runs[:, region]
        worth = UNCOLLOCATED * np.where(last, prices.job_weight * preferred[problem.job_type, region], 0.0)
        completes = np.bincount(problem.job_tables, worth[problem.job_of], len(lacks))
        gains: Floats = np.where(lacks, completes + prices.cold[:, region], 0.0)
        copied = np.where(placement.was_held[:, region], 0, problem.sizes)
        found = np.flatnonzero((gains > GAIN_LEAST) & (copied <= placement.bytes_left))
        protects = prices.partners[prices.kinds[found], placement.home[found], region] & ~protected[found]
        gains[found] += prices.unprotected[found] * protects
        starts = np.arange(len(lacks) + 1)
        yield _chosen(ADD_COPY, starts[:-1], starts, found, region, gains, copied)


def _protections(placement: Placement) -> Candidates:
    """Return a copy of each table that has no protecting copy."""
    problem, prices = placement.problem, placement.prices
    wanted = placement.may_copy & (prices.unprotected > GAIN_LEAST) & (problem.sizes <= placement.bytes_left)
    wanted &= ~placement.protected
    starts = np.arange(len(wanted) + 1)
    return _chosen(
        ADD_COPY, starts[:-1], starts, np.flatnonzero(wanted), ANY_REGION, prices.unprotected, problem.sizes
    )


def _copies_for_jobs(placement: Placement) -> Iterator[Candidates]:
    """Yield, for each job without a region to run in, copies of all tables that a region with its GPUs lacks, where these are several.

    Of the regions with storage for them only the two that lack the fewest bytes, and of equals those with the largest supply.
    """
    problem, prices = placement.problem, placement.prices
    tables, jobs = problem.job_tables, problem.job_of
    waits = placement.waits & (prices.job_weight > GAIN_LEAST)
    reads = np.flatnonzero(waits[jobs])
    copied = np.full((len(waits), prices.regions), _NEVER)
    for region in range(prices.regions):
        lacking = np.bincount(jobs[reads], _lacking(placement, tables[reads], region), len(waits))
        room = min(prices.capacities[region] - placement.used[region], placement.bytes_left)
        stuck = ~placement.held[tables[reads], region] & ~placement.may_copy[tables[reads]]
        fits = waits & prices.job_runs[:, region] & (lacking <= room) & prices.stated[region]
        fits &= np.bincount(jobs[reads], stuck, len(waits)) == 0
        copied[fits, region] = lacking[fits].astype(np.int64)
    preferred = _preferred(placement)[problem.job_type]
    nearest = np.lexsort((-preferred, copied), axis=1)[:, :2]
    for region in range(prices.regions):
        wanted = (nearest == region).any(axis=1) & (copied[:, region] < _NEVER)
        found = np.flatnonzero(wanted & (placement.missing[:, region] > 1))
        gains = UNCOLLOCATED * prices.job_weight * preferred[:, region]
        yield _chosen(ADD_COPY, tables, problem.job_starts, found, region, gains, copied[:, region])


def _preferred(placement: Placement) -> Floats:
    """Return (types, regions) factors a little above 1: of equal copies for jobs those where the supply is largest come first."""
    supply = placement.problem.supply
    found: Floats = 1.0 + TIE * (supply / np.maximum(supply.sum(axis=0), 1e-300)).T
    return found


def _drops(placement: Placement) -> Iterator[Candidates]:
    """Yield the copies whose storage costs more than they are worth, and those that the plan would make for nothing."""
    problem, prices = placement.problem, placement.prices
    extra = FILLED * (placement.extra > STORAGE_FROM * prices.extra_max)
    starts = np.arange(len(placement.home) + 1)
    for region in np.flatnonzero(prices.stated).tolist():
        used, capacity = placement.used[region], prices.capacity[region]
        slope = extra + FILLED * (used > STORAGE_FROM * capacity) + OVERFILLED * (used > capacity)
        spare = placement.held[:, region] & (placement.home != region) & placement.may_drop
        is_new = spare & ~placement.was_held[:, region]
        gains = slope * problem.sizes / prices.bytes - prices.cold[:, region]
        worth = spare & ((gains > GAIN_LEAST) | (is_new & (gains >= 0.0) & ~_is_needed(placement, region)))
        copied = np.where(is_new, -problem.sizes, 0)
        yield _chosen(DROP_COPY, starts[:-1], starts, np.flatnonzero(worth), region, gains, copied)


def _is_needed(placement: Placement, region: int) -> Flags:
    """Return (tables,) whether the region's copy is the only one that protects its table."""
    prices, tables = placement.prices, np.arange(len(placement.home))
    somewhere = np.flatnonzero(placement.home < prices.regions)
    held = placement.held[somewhere]
    held[:, region] = False
    needed = np.zeros(len(tables), dtype=np.bool_)
    needed[somewhere] = placement.protected[somewhere] & ~prices.is_protected(
        somewhere, placement.home[somewhere], held
    )
    return needed & (prices.unprotected > 0)


def _lacking(placement: Placement, tables: Ints, region: int) -> Ints:
    """Return the bytes of each table that the region would have to copy."""
    has = placement.held[tables, region] | placement.was_held[tables, region]
    return np.where(has, 0, placement.problem.sizes[tables])


def _saved(placement: Placement, tables: Ints) -> Ints:
    """Return the bytes of each table that the plan has copied to its home, and need not if the home moves again."""
    return np.where(placement.was_held[tables, placement.home[tables]], 0, placement.problem.sizes[tables])


def _chosen(
    kind: int, members: Ints, starts: Ints, chosen: Ints, region: int, gains: Floats, copied: Ints
) -> Candidates:
    """Return some of the sets as candidates of one region."""
    lengths = np.diff(starts)[chosen]
    ends = lengths.cumsum()
    places = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)
    taken = members[np.repeat(starts[:-1][chosen], lengths) + places]
    kinds, regions = np.full(len(chosen), kind), np.full(len(chosen), region)
    return Candidates(kinds, taken, np.append(0, ends), regions, gains[chosen], copied[chosen])

"""The search for a better placement: one queue of steps by gain per byte, each computed anew before it is applied.

    1. Look: estimate the gain of every step that seems worth a try, homes and copies alike.
    2. Put all into one queue by estimated gain per byte copied.
    3. Take the first and compute its gain exactly. If that puts it behind the next, it goes back into the queue by its gain; else it is
       applied, if the objective falls and storage, bytes and actions allow it.
    4. Look again until a look adds less than `LOOK_GAIN_LEAST` of all that was gained, or `LOOKS_MAX` times.
    5. Search again from the start where the problem is small, each time with another first step, whatever it gains; keep the best.

A step costs the queue the bytes that it copies and, for each action, an equal part of all bytes that a plan may copy: so actions are as scarce
as bytes. Bytes that were copied and are needed no more count as never copied; ordering.py makes a plan of what is left. Equal problems
have equal plans: ties go to the earlier candidate.
"""

from collections.abc import Iterator
from heapq import heappop, heappush

import numpy as np
from msgspec import Struct

from core.data_places.actions import ADD_COPY, DROP_COPY, MOVE_HOME, Plan
from core.data_places.candidates import ANY_REGION, GAIN_LEAST, Candidates, candidates_of
from core.data_places.ordering import plan_of
from core.data_places.placement import Placement, Tried
from core.data_places.price import Prices
from core.data_places.problem import DataProblem, Floats, Ints

LOOKS_MAX = 12
LOOK_GAIN_LEAST = 1e-2
TRIES_MAX = 4
"""How often a candidate of one look may go back into the queue."""
WORSE = 1e-5
"""A gain per byte that is lower by less than this part is the same."""
EFFORT_MAX = 20_000
"""Tables and reads times searches with another first step."""
OTHERS_MIN = 8
"""Fewer other searches would find little: a problem that is too large for them has one."""
BETTER = 1e-9
"""Of all demand: a search that gains less than this more is no better."""


class Search(Struct):
    """A placement that was searched, with its steps in order."""

    placement: Placement
    steps: list[Tried]


def planned(problem: DataProblem) -> Plan:
    """Return the plan for a problem that `checked` lets pass."""
    start = Placement(Prices(problem))
    best = _searched(start, None)
    others = EFFORT_MAX // (len(problem.sizes) + len(problem.job_tables) + 1)
    if others >= OTHERS_MIN:
        for first in _first_steps(start)[:others]:
            other = _searched(start, first)
            if _price(other) < _price(best) - BETTER:
                best = other
    return plan_of(start, best.placement, best.steps)


def _searched(start: Placement, first: Tried | None) -> Search:
    """Return the search from a start. A first step stays until a look finds nothing else."""
    found = Search(start.snapshot(), [])
    if first is not None:
        found.placement.hold_fast(first)
        found.placement.apply(first)
        found.steps.append(first)
        _descend(found)
        found.placement.free_as(start)
    _descend(found)
    return found


def _price(search: Search) -> float:
    """Return the objective and the price of the bytes copied."""
    placement = search.placement
    copied = placement.problem.bytes_max - placement.bytes_left
    return placement.objective + placement.problem.copy_price * copied / placement.prices.bytes


def _descend(search: Search) -> None:
    """Improve a placement until a look adds too little."""
    placement, actions = search.placement, search.placement.problem.actions_max
    begun = placement.objective
    for _ in range(LOOKS_MAX):
        before = placement.objective
        left = actions - sum(len(step.tables) for step in search.steps)
        for step in _steps(placement, candidates_of(placement), left):
            placement.apply(step)
            search.steps.append(step)
        if before - placement.objective <= LOOK_GAIN_LEAST * (begun - placement.objective):
            break


def _steps(placement: Placement, found: Candidates, actions: int) -> Iterator[Tried]:
    """Yield the steps of one look, each tried on what the steps before it left.

    actions   how many there may be
    """
    by_action = placement.problem.bytes_max / max(1, placement.problem.actions_max)
    by_byte = placement.problem.copy_price / placement.prices.bytes
    cost = np.maximum(found.bytes + by_action * np.diff(found.starts), 1.0)
    queue = _Queue(found.gains / cost)
    while actions > 0 and (index := queue.pop()) is not None:
        if found.bytes[index] > placement.bytes_left:
            continue
        tables = found.members[found.starts[index] : found.starts[index + 1]]
        step = _tried(placement, int(found.kinds[index]), tables, int(found.regions[index]))
        if step is None or len(step.tables) > actions or not _is_worth_it(step, by_byte):
            continue
        value = step.gain / max(1.0, step.bytes + by_action * len(step.tables))
        if value < queue.first * (1.0 - WORSE) and queue.put_back(index, value):
            continue
        yield step
        actions -= len(step.tables)


class _Queue:
    """Candidates by value, highest first; those that were put back by their new value."""

    def __init__(self, values: Floats) -> None:
        self._order: list[int] = np.argsort(-values, kind="stable")[::-1].tolist()
        self._values = values
        self._back: list[tuple[float, int]] = []
        self._tries: dict[int, int] = {}

    @property
    def first(self) -> float:
        """Return the highest value; 0: the queue is empty."""
        ahead = float(self._values[self._order[-1]]) if self._order else 0.0
        return max(ahead, -self._back[0][0]) if self._back else ahead

    def pop(self) -> int | None:
        """Return the first candidate and take it out; None: there is none."""
        if self._back and (not self._order or -self._back[0][0] > self._values[self._order[-1]]):
            return heappop(self._back)[1]
        return self._order.pop() if self._order else None

    def put_back(self, index: int, value: float) -> bool:
        """Return whether the candidate may come again, and put it back if so."""
        tries = self._tries.get(index, 0)
        if tries < TRIES_MAX:
            self._tries[index] = tries + 1
            heappush(self._back, (-value, index))
        return tries < TRIES_MAX


def _is_worth_it(step: Tried, by_byte: float) -> bool:
    """Return whether the objective falls by more than the price of the bytes, or stays while bytes are saved."""
    if step.bytes < 0:
        return step.gain > -GAIN_LEAST
    return step.gain > GAIN_LEAST + by_byte * step.bytes


def _tried(placement: Placement, kind: int, tables: Ints, region: int) -> Tried | None:
    """Try a candidate; where it names no region, in the protecting region with storage for it that holds most of what is read with the table.

    Of equals the one with the most storage left counts: so sets of tables have their copies in one region, too.
    """
    if region != ANY_REGION:
        return placement.tried(kind, tables, region)
    prices, table = placement.prices, tables[0]
    if placement.protected[table]:
        return None
    partners = np.flatnonzero(prices.partners[prices.kinds[table], placement.home[table]] & prices.stated)
    size = int(placement.problem.sizes[table])
    together = placement.held_together(int(table))
    ranked = [
        (-together[partner], placement.used[partner] - prices.capacities[partner], partner)
        for partner in partners.tolist()
        if placement.used[partner] + size <= prices.capacities[partner]
    ]
    return placement.tried(kind, tables, min(ranked)[2]) if ranked else None


def _first_steps(start: Placement) -> list[Tried]:
    """Return every step on one table or on the tables of one job, those that gain most first."""
    problem = start.problem
    tables = np.arange(len(problem.sizes))
    sets = [tables[place : place + 1] for place in range(len(tables))]
    sets += [
        problem.job_tables[begin:end]
        for begin, end in zip(problem.job_starts[:-1].tolist(), problem.job_starts[1:].tolist(), strict=True)
        if 1 < end - begin <= problem.actions_max
    ]
    found = []
    for region in range(len(problem.regions)):
        for one in sets:
            kinds = [MOVE_HOME] * bool(start.may_move[one].all())
            kinds += [ADD_COPY, DROP_COPY] * bool(start.may_copy[one].all())
            found += [step for kind in kinds if (step := start.tried(kind, one, region)) is not None]
    return sorted(found, key=lambda step: -step.gain)

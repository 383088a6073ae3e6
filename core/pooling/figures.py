"""Figures of an answer: GPUs by pool, type and domain, what is short of the needs, and each part of the objective.

All are computed from counts of nodes, so that a solver's answer is judged by whole numbers and not by the solver.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from core.pooling.problem import SHORT_NOW, SPREAD, WANT, Moved, PoolingProblem

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def gpus_of(problem: PoolingProblem, moves: Iterable[Moved] = ()) -> Ints:
    """Return the GPUs by pool, type and domain once the moves are made. Without moves, each node counts where it is now.

    returns   (pools, types, domains)
    """
    found = np.zeros((len(problem.pools), len(problem.node_types), len(problem.domains)), dtype=np.int64)
    for one in problem.classes:
        found[one.pool, one.node_type, one.domain] += one.gpus * one.count
    for move in moves:
        one = problem.classes[move.node_class]
        found[one.pool, one.node_type, one.domain] -= one.gpus * move.count
        found[move.pool, one.node_type, one.domain] += one.gpus * move.count
    return found


def left_of(gpus: Ints) -> Ints:
    """Return what each pool has after the loss of its worst domain. A pool in only one domain has nothing left.

    gpus      (pools, types, domains)
    returns   (pools, types)
    """
    left: Ints = gpus.sum(axis=2) - gpus.max(axis=2, initial=0)
    return left


def short_now_of(problem: PoolingProblem, gpus: Ints) -> Ints:
    """Return the GPUs that each pool lacks with all its domains.

    gpus      (pools, types, domains)
    returns   (pools, types)
    """
    short: Ints = np.maximum(_needs(problem) - gpus.sum(axis=2), 0)
    return short


def short_of(problem: PoolingProblem, gpus: Ints) -> Ints:
    """Return the GPUs that each pool lacks: after the loss of its worst domain if it is to survive that, else with all domains.

    gpus      (pools, types, domains)
    returns   (pools, types)
    """
    survives = np.array(problem.survives, dtype=bool).reshape(-1, 1)
    return np.maximum(_needs(problem) - np.where(survives, left_of(gpus), gpus.sum(axis=2)), 0)


def shortage_of(problem: PoolingProblem, gpus: Ints) -> int:
    """Return the weighted shortage, which is the first objective."""
    return int(SHORT_NOW * short_now_of(problem, gpus).sum() + short_of(problem, gpus).sum())


def cost_of(problem: PoolingProblem, moves: Iterable[Moved]) -> int:
    """Return the cost of the moves."""
    return sum(move.count * problem.cost(problem.classes[move.node_class], move.pool) for move in moves)


def gained_of(problem: PoolingProblem, gpus: Ints) -> Ints:
    """Return the GPUs that each pool with work that waits has gained, at most as many as it wants; negative if it has lost some.

    gpus      (pools, types, domains) once the moves are made
    returns   (pools, types); 0 where nothing is wanted
    """
    wants = np.array(problem.wants, dtype=np.int64).reshape(gpus.shape[:2])
    gained = gpus.sum(axis=2) - gpus_of(problem).sum(axis=2)
    return np.where(wants > 0, np.minimum(gained, wants), 0)


def objective_of(problem: PoolingProblem, moves: Iterable[Moved]) -> float:
    """Return the second objective: cost of the moves, less worth of the GPUs gained, plus the cost of what is in the largest domains."""
    moves = tuple(moves)
    gpus = gpus_of(problem, moves)
    worth = worth_by_type(problem) @ gained_of(problem, gpus).sum(axis=0)
    largest = gpus.max(axis=2, initial=0)[np.array(problem.spreads, dtype=bool)].sum(axis=0)
    return float(cost_of(problem, moves) - worth + spread_by_type(problem) @ largest)


def worth_by_type(problem: PoolingProblem) -> Floats:
    """Return the worth of one GPU gained: a node with the mean number of GPUs of its type is worth `WANT`.

    returns   (types,)
    """
    nodes = np.zeros(len(problem.node_types))
    for one in problem.classes:
        nodes[one.node_type] += one.count if one.gpus else 0
    return WANT * nodes / _gpus_by_type(problem)


def spread_by_type(problem: PoolingProblem) -> Floats:
    """Return the cost of one GPU in the largest domain of a pool that spreads. Over all pools and types it is at most `SPREAD`.

    returns   (types,)
    """
    return SPREAD / (max(1, len(problem.node_types)) * _gpus_by_type(problem))


def _gpus_by_type(problem: PoolingProblem) -> Ints:
    """Return all GPUs by type, at least 1 so that it can divide."""
    gpus: Ints = np.maximum(gpus_of(problem).sum(axis=(0, 2)), 1)
    return gpus


def _needs(problem: PoolingProblem) -> Ints:
    return np.array(problem.needs, dtype=np.int64).reshape(len(problem.pools), len(problem.node_types))

"""A policy of one's own: a file with `objective(shares)`, which returns an expression of cvxpy that is made as large as it can be.

The file is code, so it is loaded in a worker process alone (runtime/planning/sharing_worker.py). Whatever is wrong with it is one
sentence: `BadOwnPolicy`. `examples/my_policy.py` is such a file.

The variables are those of all policies, by class and with like pools merged; the expressions of `OwnShares` have one row a job, all
jobs of a class alike. That is exact for an objective that does not tell like jobs apart, and a concave one cannot gain by doing so.
"""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import cvxpy
import numpy as np
from msgspec import Struct
from scipy import sparse

from core.nouns.limits import REASON_LENGTH_MAX
from core.sharing.bounds import within_bounds
from core.sharing.cones import fitted, limits_of
from core.sharing.problem import Column, Floats, Ints, Shares, SharingProblem, checked, merged, split_again
from core.sharing.times import Times, times_of
from runtime.errors import BadOwnPolicy

OBJECTIVE = "objective"
ENDINGS = {
    cvxpy.INFEASIBLE: "no shares fulfil the conditions of its objective",
    cvxpy.UNBOUNDED: "its objective has no largest value",
    cvxpy.INFEASIBLE_INACCURATE: "no shares seem to fulfil the conditions of its objective",
    cvxpy.UNBOUNDED_INACCURATE: "its objective seems to have no largest value",
}
OVER_MAX = 1e-4
"""The most, relative, by which a bound of time or GPUs may be missed before the shares are scaled down: solvers keep to a hundredth."""


class OwnShares(Struct, frozen=True):
    """The material of an objective. Expressions and arrays have one row a job, in the order of the classes.

    Shares keep to the time of each job and the GPUs of each pool whatever the objective says. A condition of one's own is subtracted:
    `cvxpy.transforms.indicator([shares.time >= 0.1])` is 0 where it holds, and infinite elsewhere.
    """

    names: list[str]
    """(jobs,) the class of each job."""
    entities: list[str]
    """(jobs,) the group of each job."""
    speeds: cvxpy.Expression
    """(jobs,) steps a second."""
    normalised: cvxpy.Expression
    """(jobs,) speed relative to the speed on all pools with the time divided by their GPUs: so jobs of different models compare."""
    time: cvxpy.Expression
    """(jobs,) the part of its time that each job runs, 0 to 1."""
    time_in: cvxpy.Expression
    """(jobs, columns) the same by column. GPUs in use are `shares.gpus @ shares.time_in`, where two jobs that share one count twice."""
    gpus: Floats
    """(jobs,) GPUs of each job."""
    weights: Floats
    """(jobs,)."""
    steps: Floats
    """(jobs,) steps that are left; 0: unknown."""
    ages: Floats
    """(jobs,) seconds since the submission."""
    isolated_ages: Floats
    """(jobs,) seconds that the steps so far would have taken on an equal part of the fleet."""
    isolated_speeds: Floats
    """(jobs,) steps a second on an equal part of every pool."""
    columns: list[Column]
    """(columns,) region, GPU type and placement of each; pools that no job tells apart are one."""
    capacities: Floats
    """(columns,) GPUs of the pool that the column is of."""
    prices: Floats
    """(columns,) dollars of one GPU for an hour."""


Objective = Callable[[OwnShares], cvxpy.Expression]


def load_objective(folder: Path, name: str) -> Objective:
    """Run the file of this name in the folder, and return its objective. Raises BadOwnPolicy."""
    if not name.isidentifier():
        raise BadOwnPolicy(f"{name!r}: the name of a file with a policy is letters, digits and underscores")
    path = folder / f"{name}.py"
    if not path.is_file():
        raise BadOwnPolicy(f"{path.name}: there is no such file in {folder}")
    spec = importlib.util.spec_from_file_location(f"own_policy_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # Whatever a file of somebody's does when it is run.
        raise BadOwnPolicy(f"{path.name}: it does not load: {_said(error)}") from error
    objective = getattr(module, OBJECTIVE, None)
    if not callable(objective):
        raise BadOwnPolicy(f"{path.name}: it has no function {OBJECTIVE}(shares)")
    found: Objective = objective
    return found


def solve_own(name: str, objective: Objective, problem: SharingProblem) -> Shares:
    """Return the shares with the largest objective. Raises BadProblem, and BadOwnPolicy with the name of the policy's file."""
    smaller, split = merged(checked(problem))
    times = times_of(smaller)
    # Parts of what each can be at most, as in all conic programmes here.
    parts = cvxpy.Variable(times.count, nonneg=True)
    wanted = _wanted(name, objective, own_shares(times, parts))
    if parts.id not in {one.id for one in wanted.variables()}:
        raise BadOwnPolicy(f"{name}.py: no share is in its objective")
    used = _used(times)
    programme = cvxpy.Problem(cvxpy.Maximize(wanted), [used @ parts <= 1.0])
    try:
        programme.solve()
    except Exception as error:  # Of cvxpy, of any of its solvers, or of an atom of the file's own.
        raise BadOwnPolicy(f"{name}.py: no solver has an answer: {_said(error)}") from error
    if programme.status not in {cvxpy.OPTIMAL, cvxpy.OPTIMAL_INACCURATE}:
        raise BadOwnPolicy(f"{name}.py: {ENDINGS.get(programme.status, programme.status)}")
    values, best = np.asarray(parts.value, dtype=np.float64), float(programme.value)
    if not np.isfinite(values).all() or not np.isfinite(best):
        raise BadOwnPolicy(f"{name}.py: its shares are no numbers")
    if (used @ values).max(initial=0.0) > 1.0 + OVER_MAX or values.min(initial=0.0) < -OVER_MAX:
        raise BadOwnPolicy(f"{name}.py: it gives more than there is")
    notes = () if programme.status == cvxpy.OPTIMAL else ("the solver calls its answer inexact",)
    by = f"{programme.solver_stats.solver_name.lower()} by cvxpy"
    shares = within_bounds(smaller, times.shares(fitted(times, values), best, by, notes))
    return split_again(shares, split)


def own_shares(times: Times, parts: cvxpy.Variable) -> OwnShares:
    """Return what an objective is made of, given the variables: parts of `times.most`."""
    problem = times.problem
    classes, columns = problem.speeds.shape
    jobs = np.repeat(np.arange(classes), [one.count for one in problem.classes])

    def by_job(entries: tuple[Ints, Ints, Floats], places: Ints, width: int) -> cvxpy.Expression:
        of_class, variable, value = entries
        scaled = value * times.most[variable] / problem.counts[of_class]
        rows = sparse.csr_array((scaled, (places, variable)), shape=(classes * width, times.count))
        mine = (jobs[:, None] * width + np.arange(width)[None, :]).ravel()
        return rows[mine] @ parts

    of_class, variable, _ = times.members
    speeds = by_job(times.speeds, times.speeds[0], 1)
    time_in = by_job(times.members, of_class * columns + times.columns[variable], columns)
    mine = [problem.classes[job] for job in jobs]
    return OwnShares(
        names=[one.name for one in mine],
        entities=[one.entity for one in mine],
        speeds=speeds,
        normalised=cvxpy.multiply(1.0 / problem.proportional_speeds[jobs], speeds),
        time=by_job(times.members, of_class, 1),
        time_in=cvxpy.reshape(time_in, (len(jobs), columns), order="C"),
        gpus=problem.widths[jobs],
        weights=problem.weights[jobs],
        steps=problem.steps[jobs],
        ages=np.array([one.age for one in mine]),
        isolated_ages=np.array([one.isolated_age for one in mine]),
        isolated_speeds=problem.isolated_speeds[jobs],
        columns=list(problem.columns),
        capacities=problem.pool_gpus[problem.pool_of],
        prices=np.array([one.price for one in problem.columns]),
    )


def _wanted(name: str, objective: Objective, shares: OwnShares) -> cvxpy.Expression:
    """Return the objective, checked: one number, and concave by the rules of cvxpy."""
    try:
        wanted = objective(shares)
    except (Exception, SystemExit) as error:  # Whatever a function of somebody's raises.
        raise BadOwnPolicy(f"{name}.py: its objective fails: {_said(error)}") from error
    if not isinstance(wanted, cvxpy.Expression):
        raise BadOwnPolicy(
            f"{name}.py: its objective returns {type(wanted).__name__}, and no expression of cvxpy"
        )
    if wanted.size != 1:
        raise BadOwnPolicy(f"{name}.py: its objective returns {wanted.size} numbers, and one is made large")
    if not wanted.is_concave():
        raise BadOwnPolicy(
            f"{name}.py: its objective is {wanted.curvature.lower()} by cvxpy's rules (DCP), and what is made large must be concave"
        )
    return cvxpy.sum(wanted)


def _used(times: Times) -> sparse.csr_array:
    """Return the rows of time and capacity: parts of their bounds that the parts of the variables take."""
    limits = limits_of(times)
    matrix = limits.matrix
    taken = matrix.values * times.most[matrix.columns] / limits.row_most[matrix.rows]
    return sparse.csr_array((taken, (matrix.rows, matrix.columns)), shape=matrix.shape)


def _said(error: BaseException) -> str:
    """Return the kind of an exception and the first line of its text, at a length for people."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}"[:REASON_LENGTH_MAX] if lines else type(error).__name__

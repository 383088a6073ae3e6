"""Strategy-proof sharing: no job gains by telling speeds that are not its own.

First the weighted geometric mean of the speeds is as large as it can be (proportional fairness). Then each job keeps a part of its
time: the product, over all others, of their speed with the job there relative to their speed without it, to the powers of their
weights by its own. So a job pays with its own time for the loss that it causes to the others, and what it pays is lost.

A job's final speed is the product of all speeds by a number on which its own words have no influence, and the first step makes that
product as large as it can be, for the speeds that were told. So the true ones are the best to tell. Speeds of others that hang on the
job's own, as pairs have, do not fit into that proof: pairs are left out. GPUs that are idle then must stay so: filling them by need
gives back what was taken.

Classes: jobs of a class have equal speeds at the optimum, which is unique in speeds. So there is one programme for all jobs, and one
for each class with one of its jobs left out.

Source: OSDI 2020, section 4.4, after Cole, Gkatzelis and Goel, Mechanism design for fair division (the partial allocation mechanism),
EC 2013: a job keeps at least 1/e of its proportionally fair speed.
"""

from collections.abc import Generator

import numpy as np
from msgspec.structs import replace

from core.sharing.cones import EXPONENTIAL, TRIPLE, ConeRows, fitted
from core.sharing.problem import Floats, SharingProblem
from core.sharing.programmes import Cone, ConicProgramme, Programme, Solution, Steps
from core.sharing.times import Times, times_of


def strategy_proof(problem: SharingProblem) -> Steps:
    """Return the proportionally fair shares, less what each job costs the others.

    The objective is the geometric mean of the normalised speeds by weight, before any job pays.
    """
    problem = replace(problem, pairs=())
    values, logs, by = yield from proportionally_fair(problem)
    powers = problem.counts * problem.weights
    kept = np.ones(len(problem.classes))
    for index, one in enumerate(problem.classes):
        staying = np.ones(len(problem.classes), dtype=np.bool_)
        staying[index] = one.count > 1
        if not staying.any():
            break
        _, without, _ = yield from proportionally_fair(_with_one_less(problem, index))
        others = powers.copy()
        others[index] -= one.weight
        loss = float(others[staying] @ (logs[staying] - without)) / one.weight
        # Others never lose by a job that leaves; what says so is the solver's last digit.
        kept[index] = np.exp(min(0.0, loss))
    times = times_of(problem)
    mean = float(np.exp(powers @ logs / powers.sum()))
    return times.shares(values * kept[times.classes], mean, by)


def proportionally_fair(
    problem: SharingProblem,
) -> Generator[Programme, Solution, tuple[Floats, Floats, str]]:
    """Find the shares with the largest product of speeds, to the powers of the weights.

    returns   (variables,) the values of the variables of time; (classes,) the logarithms of the normalised speeds; and who solved
    """
    times = times_of(problem)
    solution = yield _programme(times)
    values = fitted(times, solution.values)
    logs: Floats = np.log(times.speeds_of(values) / problem.proportional_speeds)
    return values, logs, solution.by


def _programme(times: Times) -> ConicProgramme:
    """Maximise the weighted mean of logarithms, each a variable with (logarithm, 1, normalised speed) in the exponential cone."""
    problem = times.problem
    classes = len(problem.classes)
    of_class, variable, speed = times.speeds
    relative = speed * times.most[variable] / (problem.proportional_speeds * problem.counts)[of_class]
    every = np.arange(classes, dtype=np.int64)
    rows = ConeRows(times.count + classes)
    rows.bound(times)
    rows.add(
        [Cone(EXPONENTIAL, TRIPLE)] * classes,
        np.concatenate([TRIPLE * every, TRIPLE * of_class + 2]),
        np.concatenate([times.count + every, variable]),
        np.concatenate([np.ones(classes), relative]),
        np.tile([0.0, 1.0, 0.0], classes),
    )
    powers = problem.counts * problem.weights
    return rows.programme(np.concatenate([np.zeros(times.count), -powers / powers.sum()]))


def _with_one_less(problem: SharingProblem, index: int) -> SharingProblem:
    """Return the problem with one job of a class less; without the class, if it has no other."""
    classes, one = problem.classes, problem.classes[index]
    before, after = classes[:index], classes[index + 1 :]
    if one.count > 1:
        return replace(problem, classes=(*before, replace(one, count=one.count - 1), *after), last=None)
    speeds = np.delete(problem.speeds, index, axis=0)
    return replace(problem, classes=before + after, speeds=speeds, last=None)

"""A policy of one's own: proportional fairness that minds what the GPUs cost.

It is named by its file: `mizzen policy compare TRACE --gpus V100=8,K80=24 --policies examples/my_policy.py,max_min`.
"""

import cvxpy

from runtime.solvers.own import OwnShares

DOLLARS = 0.02
"""The logarithm of speed that a dollar an hour is worth."""


def objective(shares: OwnShares) -> cvxpy.Expression:
    """Return the sum of the logarithms of speeds by weight (proportional fairness), less what the GPUs cost."""
    fair = shares.weights @ cvxpy.log(shares.normalised)
    dollars = (shares.gpus @ shares.time_in) @ shares.prices
    return fair - DOLLARS * dollars

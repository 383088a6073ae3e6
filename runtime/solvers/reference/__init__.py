"""The oracles of the solvers: each programme as its paper states it, in cvxpy, with a row for each job. Tests alone import them."""

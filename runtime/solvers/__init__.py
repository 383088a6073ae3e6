"""Solvers of the slow path's problems: loaded in the planner's worker process and nowhere else."""

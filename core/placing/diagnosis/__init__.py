"""Explanations of placement for people: they decide nothing that a log records.

fragmentation   which shapes of free capacity a region's nodes have
infeasible      whether a workload can never fit in a region, and the smallest changes with which it would
replay_choice   a claim's choice made again from the log, with the rule that decided
"""

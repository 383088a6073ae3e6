"""The search of a region by an allocation agent: the nodes and the victims that a workload gets, or the reason for no place.

index            a pool's nodes as arrays, classes of requests, owners of nodes, and rows that differ from the log
pick             nodes for tasks and gangs from a class, within a pool's reserve and limit
pool             the index of one pool: layout, table, rule set and classes
pool_set         all pools of a region, searched for all jobs of a workload
preemption       victims for a workload that does not fit, in their order
earliest_start   the earliest start that a region can promise to a workload that does not fit now
placer           the agent's index of its region, kept up to date, and the searches that an agent makes
answers          costs of bids, and reasons of refusals with the shortage
diagnosis        explanations for people: fragmentation, workloads that never fit, choices made again from the log
"""

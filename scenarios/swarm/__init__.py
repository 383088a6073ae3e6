"""The swarm: many short scenarios, each drawn whole from its seed, to find failures that no written scenario has.

draw        the scenario of a seed: a fleet, a load and a mix of faults; for some seeds tenants, datasets or a shared pool too
data        data that moves between regions, for a quarter of the seeds, whatever else they have
pipelines   pipelines under deadlines beside other work, for one seed in eight
pool        plays many seeds on several cores, some of them twice, and names a command that repeats each failure
shrink      makes a failing scenario smaller while it still fails
"""

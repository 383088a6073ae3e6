"""The simulated world: a whole plane over virtual time, a simulated network and logs in memory.

A run is repeatable to the byte from scenario, seed and commit.

world          the plane, its network, disks and time, and the digest of a run
unit           one process of the plane, which can be killed or frozen at any await; its disk survives
disks          one disk a log, with slow writes, full disks, failed batches and damaged rows
strike_times   the moment at which a fault strikes a process, drawn among the process's own callbacks
faults         the fault actions of this world
physics        looks for tasks that run twice or on missing devices, which no log can show
solver         the planner's solver with a drawn duration in virtual time
"""

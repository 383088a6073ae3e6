"""ParSync's simulation in arrays, with the partitions, rotations and strategies of the agents.

model    schedulers that take slots by views of their own, in steps of 25 ms
phases   loads over time, and the figures of each phase
"""

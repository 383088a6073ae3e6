"""Accounting of a run from its facts alone, as an observer outside the plane sees them.

witness        sees each fact as it becomes durable, checks the invariants, and passes it to the accounts below
attempts       GPU-seconds of each attempt, the part of them that counts, and waits from submission to start
shared_pools   rounds of shared pools, and measured speeds
reservations   promised starts that were shown, and whether each was kept, replaced or broken
quotas         time that nominal work waited for borrowed capacity, and preemptions of borrowed work
consent        operations on tasks with their controller's acknowledgement, at a deadline, or without either
preemption     negotiated preemptions of a run in real processes, read from its log files after the run
"""

"""Plays one scenario in one world: starts the plane, applies load and faults, waits for calm, and checks.

run               the five steps of every run, in either world
simulated         a run in the simulated world, from a seed
processes         a run in real processes, in a directory of its own that keeps the logs
operators         the operators of a run: drains, maintenance, quotas, regions; requests repeat until answered
probes            small workloads that test, once all is calm, whether the plane still serves its users
live              a run in real processes with the job files it names, and snapshots of the plane for people who watch
live_gangs        what the training programs of such a run tell of themselves
live_turns        turns that its gangs took in a shared pool: what each received of what it was owed
live_summary      the figures of such a run, and as lines of text
topology          for faults of racks and zones: the workers that serve each, and a power loss of several workers
keeper_crashes    for faults of logs: a crash of a keeper between a write and its fsync
forged_messages   for faults of messages: messages of a real type with arbitrary field values
"""

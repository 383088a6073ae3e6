"""Views: the state of a plane as text, tables and JSON, read from a running plane or from log files.

plane_reads   reads from a running plane: current state from the queue, past facts from the readers
phrases       durations, amounts, quota classes and reservations as phrases within a sentence
fleet         tables of regions, tenants, pools, prices, datasets and preemption
workloads     `mizzen queue`, `mizzen show` and `mizzen explain`
tasks         `mizzen tasks`, `mizzen logs` and `mizzen controllers`
nodes         `mizzen nodes`, and the progress of drains and maintenance
logs          `mizzen log`, `mizzen state` and `mizzen replay`
live_table    a scenario in real processes as people watch it
"""

"""Settings by operators: of a region its agents, its pools, how nodes follow the needs of pools, and preemption there; of all processes
the order in which they decide messages.
"""

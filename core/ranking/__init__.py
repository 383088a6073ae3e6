"""Ranking: the order of all pending workloads, from waiting time, tenants' use and lag, and tenants' quotas.

The quota class that results decides which work is nominal, which may borrow, and which is blocked. Pure: time is handed in.

decay        powers of one half in whole numbers, by which use decays
credit       the credit of a workload: waiting time, and the tenant's share of use or lag
fair_lag     the fair share of each tenant in the GPUs in use, and the lag behind that share
scan         the order computed from scratch: the reference, with quota classes and quota holds
lane         one tenant's workloads in blocks, of which only the changed ones are walked again
incremental  the order kept from event to event; equals `scan` at every step
passes       the order as in MAST's paper, which changes at passes only
"""

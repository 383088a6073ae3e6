"""Quotas: which work is nominal, which borrows, and which region is drained for borrowing work.

classification   the quota class of awards: at the award, and when quotas, priorities or budgets change
fair_share       each tenant's fair share of the GPUs in use, recorded once a minute
drain            the region that is drained for one workload, and the work that is excluded from it
"""

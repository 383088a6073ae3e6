"""Decides which work is nominal and which borrows, and in which regions tenants may borrow while others wait.

classification   the quota class of each active award: at the award, and after a change of quota, level or budget
fair_share       the fair share of each tenant, and the region in which tenants with less lag may not borrow
drain            the region that lends GPUs to the oldest borrowing workload alone
"""

"""Requests of users and operators to the job queue: which are accepted and recorded, and the answers to queries.

workloads       submit, change, cancel, hold, release, requeue and reprioritise workloads
tenants         levels, entitlements and budgets of tenants, and the ranking settings
datasets        the regions that hold each dataset
queries         where a workload is, lists of workloads, and why a workload does not run
start_queries   estimated starts of waiting workloads and of tested submissions
blockers        the workloads that hold, or are kept, the capacity that a waiting workload lacks
"""

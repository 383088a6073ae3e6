"""The planner's solver: processes of their own, for what takes seconds and whole libraries.

concerns.py         how the problems of each concern are solved
solving.py          the planner's doer: concerns side by side, a process for each problem
worker.py           that process
own_policies.py     the caller of sharing policies that are somebody's file
sharing_worker.py   the process in which such a file runs
"""

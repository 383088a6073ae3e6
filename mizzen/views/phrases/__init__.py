"""Phrases that all views share: numbers, times, places and states in the words that users read.

text               spans as `squeue` prints them, GPUs, node lists, causes of an end, plain tables
durations          spans and times of day within a sentence, such as `3m12s` and `04:30Z`
quota_text         priority, quota class and credit of a workload
prediction_text    the runs from which a run time is predicted
pool_text          settings and needs of a pool, the policy for plans of pools, and the reasons of plans
reservation_text   the promised start of a pending workload, and why a promise ended
"""

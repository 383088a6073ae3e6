"""Parts of the benchmark `crash`.

load    single GPUs and gangs at a steady rate, enough to keep most of a region busy
check   capacity granted twice, lost workloads and logs that fold to another state, counted from logs alone
"""

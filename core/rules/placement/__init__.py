"""Placement rules: on which nodes of a region a job's tasks may run, and which of these nodes are better. One file a rule.

rule                the kinds of rules, and the parts of a request and of nodes that rules read
rule_sets           which rules apply, in which order, and with how many steps
plan                a rule set prepared for use: the place of each score in a node's key
errors              a rule that raised; a rule set that cannot be used
gpu_type            hard: GPU types that the job accepts
gpu_memory          hard: memory of each GPU
capacity            hard: one task fits on an empty node
pool                hard: kinds of work that a pool takes; the order in which pools are tried
residency           hard: zones that the job names; preference: zones that have the job's data
open_node           hard: nodes that are neither lost nor cordoned
tenant_isolation    hard: work that shares no node with other tenants
reserved_start      hard: nodes that are kept for a reservation
planned_work        preference: nodes without planned work
priced_value        preference: least loss of value to expected tasks
avoid_empty         preference: nodes in use before empty ones
shared_devices      preference: parts of devices on devices that are shared already
best_fit            preference: fewest GPUs left over
islands             preference: whole NVLink islands stay whole
fullest             preference: full racks, pods and zones first
power_headroom      preference: power domains with little in use
best_fit_published  preference: best fit as published beside FGD
fgd                 preference: fragmentation gradient descent as published
fragmentation       refinement: least growth of fragmentation
by_name             tie-break: the first by name instead of a drawn one
eviction_cost       the order of victims, and the work that their end loses
"""

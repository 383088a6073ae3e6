"""The invariants of DESIGN §11, as plain functions over images and facts, which the auditor calls online and in every scenario.

docs/decisions/0045-who-checks-each-invariant.md says which rules no log can decide, and where these are checked.

consistency    violations; rules 1, 2, 3 and 7 at facts of the queue and of a region, and at consistent cuts
abandonment    rule 3 for attempts of abandoned regions
forgetting     rule 3 for workloads and attempts that leave the images
moves          rules 2 and 3 for a workload that moves between regions
data           rule 2 for data: awards only to regions that have the workload's data
quota          rule 4: nominal use within entitlements
sharing        rules 2, 4 and 5 for shared pools: the border, shares, picks and received time
preemption     rule 5: promises, their victims and the caps on lost work
control        rule 6: operations on tasks, and the capacity that they get
nodes          rule 6: cordoned nodes, maintenance, and orders to stop
pools          nodes are in one pool each, and change pools with nothing on them
harvest        rule 1: harvested capacity is free or lent, and recalls end in time
reservations   rules 1 and 2 for node reservations
"""

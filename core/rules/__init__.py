"""Rules: which requests, claims, stops and settings are allowed. Agents search by the same rules that stores repeat at the grant.

Each rule is a pure function of images and time, so that every component, and an audit of the logs, gets the same answer.

submission         whether a submitted workload is well formed, and whether a region's nodes could ever hold one
never_fits         the reasons, in numbers, of a workload that the fleet could never hold
datasets           whether a dataset is well formed, and whether a region has the data that a workload needs
tenancy            whether a tenant's settings are well formed; GPUs held, borrowed and lent by tenant
ownership          the requests that a tenant's credentials allow, and the work that they may see
quota              quota that workloads need, and the awards that are within quota
inventory          whether a worker's nodes can join a region
pool_settings      whether a pool's rules, reserve and limit can be set
repricing          the pools that are searched by prices, and when prices are solved again
scopes             the nodes that a scope names; drains and closures of a node
placement          on which nodes a job's tasks may run, and which of these nodes are better
headroom           a pool's reserve and limit in each zone, and whether a claim would break them
guaranteed_ends    the time by which an attempt certainly holds no capacity
preemption         victims that are asked first, lost work, and substitutes
operations         operations on tasks and gangs: which are allowed, which answers count, which may begin
disruption_budget  the stops that each requester may cause per minute
attempt_ends       whether a broker's report may end an attempt
moving             the cost of a move between regions
health             nodes that fail every task, and how many may be quarantined
"""

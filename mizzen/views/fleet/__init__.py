"""Tables of things that belong to a whole region or fleet rather than to one workload or node.

region_table       regions: state, nodes, awards, and attempts left behind after a region was abandoned
tenant_table       tenants: level, entitlements, GPUs held, borrowed and lent, lag, budget
pool_table         pools: free capacity by zone, reserve, limit and rules, and needs
pool_needs         needs of pools beside the GPUs they have, and the rest after the loss of each power domain
pool_plans         the newest plan of each region's pools: the nodes that move, and how far that is
preemption_table   preemption settings by region, caps on lost work, and lost work of the last hour
price_table        prices by region: the value of capacity to expected tasks, and the age of the prices
function_table     functions by router: rate, run time, servers, warm executors, and calls that were cold, wait or are lost
dispatch_table     mailboxes by process and class: messages that wait, waits, and messages late, moved or lost
dataset_table      datasets: their regions, and pending workloads that read them
"""

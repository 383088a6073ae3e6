"""The arrays of a pool that a search reads: where nodes fit a request, how good they are, and which changes matter.

layout           the slot of each node, in the order of the topology
table            available capacity by slot, sums by rack, pod, power domain and cluster, and a journal of changes
rows             some rows of a table, as rules read them
node_classes     nodes that are alike, so that expensive rules score one node of each sort
request_classes  for requests of equal traits: each node's key and the number of tasks that fit, kept up to date
overlay          rows that differ from the log: learnt from answers, or offered or claimed by the agent
owners           tenants on each node, for work that shares no node with other tenants
"""

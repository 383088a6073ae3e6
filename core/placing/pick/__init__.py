"""The choice of nodes in one pool: for one task among the best nodes, for a gang in the tightest unit that holds all tasks.

draw              chance drawn from an id
extents           racks, pods and zones as users name them; even spreads over units
nodes             a node for one task, or nodes for a gang, from an up-to-date class
single_node       a node for one task without a class
gang_types        the GPU type of a gang that accepts several
pool_limits       the part of a class that a pool's reserve and limit leave to a request
conflict_window   the number of best nodes among which an agent draws, by its recent conflicts
"""

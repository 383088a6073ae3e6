"""Role of the placement store: which claims get a region's capacity, and which reports and requests become facts of its log.

component        the store itself: claims granted, promised or refused; everything due; facts folded
state            the store's memory: the region's image, the queue's awards, waiting claims
attempts         awards declined; attempts started, saved, ranked, stopped and ended
abandoned        attempts that the queue superseded while the region was silent
preemption       preemption settings, promises within the caps on lost work, substitutes for victims
reservations     nodes kept for a promised start; stops by which an attempt ends within its longest duration
tasks            operations on tasks: requests, consent of controllers, beginning and end
task_runs        runs of tasks that fail, are gone or are up; nodes for new runs
nodes            losses and returns, drains, maintenance, quarantine, suspicion
node_joins       nodes that join, and the closures that cover them
disputed_nodes   nodes on which agents and the store disagree, closed for a while
pools            settings of pools, and the capacity that each pool keeps free
prices           the value of capacity to expected tasks
functions        counts of calls of functions
harvest          offers, recalls and releases of harvested capacity
"""

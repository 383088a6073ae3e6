"""Role of the allocation agent: on which nodes of a region a workload could start, and which attempts to preempt for it.

component            the agent itself: bids on requests, claims for awards, retries after conflicts
reservation_search   the search beside reservations, and the earliest start of a workload that does not fit now
relocations          new nodes for independent tasks of running attempts
state                the agent's memory: image and index of the region, open bids and claims, rows learnt from answers
"""

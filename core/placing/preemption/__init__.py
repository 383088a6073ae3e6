"""Preemption in a search: the cheapest attempts of lower levels that must end so that a workload fits, and the workload's place.

victim_index      all possible victims of a region, by level and clusters, in preemption order
capacity_bound    an upper bound on the tasks that fit once some attempts have ended
without_victims   a region's pools as they would be without some attempts
victims           the search: candidates in order, the smallest enough prefix, and the victims that are needed
"""

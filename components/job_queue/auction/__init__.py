"""Scheduling cycles: requests for bids, and awards by rank.

cycle         the loop: begin a cycle, close it, expire refusals
selection     the workloads of a cycle, and the regions of each
bids          answers of regions: bids and abstentions
noting        facts of refusals that last
"""

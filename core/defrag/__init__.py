"""Defragmentation: which moves free whole nodes or racks of a region for the least lost work.

what_if        a copy of a region's image in which moves are tried
plan           the search for the moves, and the plan that results
revalidation   whether the moves of a plan are still allowed on the region as it is now
"""

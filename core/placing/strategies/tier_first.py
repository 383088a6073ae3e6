"""tier-first: the best tier for the request that the agent knows, and in it the freshest partition.

A tier is what the preferences say that are about the task itself (core/rules/placement/plan.py): work that will be disturbed by
planned work, or that reads its data from afar, is worse placed wherever that is, and freshness does not make up for it. The order
of equally good partitions costs the task nothing.

source    spec/protean-parsync.md §5.3 (2): quality as a function of the task, and no conflicts
"""

from core.placing.strategies.strategy import Candidates, Flags, least


def tier_first(candidates: Candidates) -> Flags:
    """Return the freshest partitions of those with the best tier."""
    return least(least(candidates.has_capacity, candidates.tier), -candidates.fresh)

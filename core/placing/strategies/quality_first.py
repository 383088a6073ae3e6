"""quality-first: the partition with the best mean score for the request, however old the agent's rows of it are.

source    ParSync (ATC'21): the highest average score
"""

from core.placing.strategies.strategy import Candidates, Flags, least


def quality_first(candidates: Candidates) -> Flags:
    """Return the partitions with the least mean cost."""
    return least(candidates.has_capacity, candidates.mean_cost)

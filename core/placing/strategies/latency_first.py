"""latency-first: the freshest partition, where an agent's rows are least likely to be wrong.

source    ParSync (ATC'21)
"""

from core.placing.strategies.strategy import Candidates, Flags, least


def latency_first(candidates: Candidates) -> Flags:
    """Return the partitions that were taken in last."""
    return least(candidates.has_capacity, -candidates.fresh)

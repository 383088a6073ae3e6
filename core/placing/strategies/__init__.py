"""In which order an agent looks at partitions for a request. Inside a partition, the pool's own rules decide.

A strategy is one file, and one line in `STRATEGIES`. strategy.py has the promise that they keep.
"""

from core.nouns.agents import Placing
from core.placing.strategies.adaptive import adaptive
from core.placing.strategies.latency_first import latency_first
from core.placing.strategies.quality_first import quality_first
from core.placing.strategies.strategy import Strategy
from core.placing.strategies.tier_first import tier_first

STRATEGIES: dict[str, Strategy] = {
    Placing.TIER_FIRST: tier_first,
    Placing.LATENCY_FIRST: latency_first,
    Placing.QUALITY_FIRST: quality_first,
    Placing.ADAPTIVE: adaptive,
}
"""By the name that operators set."""

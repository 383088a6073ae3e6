"""The concerns of a planner. A new one is one file and one line here, and one entry in runtime/planning/concerns.py.

data.py     homes and copies of datasets
pools.py    which nodes belong to which pool of a region
prices.py   the value of each region's capacity to expected tasks
shares.py   the shares of jobs of shared pools
"""

from components.planner.concerns.data import DataPlanning
from components.planner.concerns.pools import Pooling
from components.planner.concerns.prices import Pricing
from components.planner.concerns.shares import Sharing
from components.planner.loop import Concern

CONCERNS: tuple[Concern, ...] = (Pricing(), Sharing(), DataPlanning(), Pooling())
"""In the order in which those that are due at once are looked at."""

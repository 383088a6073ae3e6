"""Rules of harvested capacity.

zones   how much of each zone of a pool may be harvested, by the pool's settings
cost    the price of a useful second of calls on held and on harvested capacity
odds    how often harvested capacity is recalled, and how often a call is lost by that
"""

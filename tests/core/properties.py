"""How properties are tried: the same examples in every run, and no clock."""

from hypothesis import settings

PROPERTY = settings(derandomize=True, deadline=None, database=None, max_examples=100)
"""A failing example is found again by running the test again."""
SEEDS = range(12)
"""Of random histories."""

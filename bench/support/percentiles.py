"""Percentiles of measured spans."""

import statistics
from collections.abc import Sequence


def percentile(values: Sequence[float], share: int) -> float:
    """Return the value below which so many hundredths of all values lie."""
    return statistics.quantiles(values, n=100, method="inclusive")[share - 1]

"""Datasets: well-formed entries, with every problem at once and its field, and a workload's data in a region."""

import re
from collections.abc import Sequence

from core.images.datasets import Datasets
from core.nouns.ids import RegionName
from core.nouns.limits import NAME_LENGTH_MAX
from core.nouns.reasons import Reason
from core.nouns.tenant import FRESH_LEVEL
from core.nouns.workload import WorkloadSpec

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def is_dataset_name(name: str) -> bool:
    """Return whether a job file may use this name for a dataset."""
    return bool(_NAME.fullmatch(name)) and len(name) <= NAME_LENGTH_MAX


def against_data(datasets: Datasets, spec: WorkloadSpec, region: RegionName, level: int) -> Reason | None:
    """Return the reason why a region's data rules out this work at this level, if any.

    source    MAST §3.1: training-at-home-region is a must for high priority, and preferred for low
    """
    if datasets.missing_in(region, spec.data):
        return Reason.NO_DATA
    is_strict = spec.needs_fresh_data and level >= FRESH_LEVEL
    return Reason.DATA_NOT_FRESH if is_strict and datasets.away_from(region, spec.data) else None


def problems_of_dataset(
    name: str, regions: Sequence[RegionName], home: RegionName | None, by: str
) -> list[str]:
    """Return every problem of a dataset's name, regions, home and requester, each with its field."""
    found = []
    if not is_dataset_name(name):
        found.append(f"dataset: use 1 to {NAME_LENGTH_MAX} letters, digits, '.', '_' and '-'")
    if len(set(regions)) != len(regions):
        found.append("regions: one is named twice")
    if home is not None and home not in regions:
        found.append("home: it is none of the regions that hold it")
    if len(by) > NAME_LENGTH_MAX:
        found.append(f"by: {NAME_LENGTH_MAX} characters are the most")
    return found

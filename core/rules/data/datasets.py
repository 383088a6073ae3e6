"""Datasets: well-formed entries, with every problem at once and its field, and a workload's data in a region."""

import re

from core.images.datasets import Datasets
from core.messages.data import SetDataset
from core.nouns.data import DataPolicy
from core.nouns.ids import RegionName
from core.nouns.instant import SECOND
from core.nouns.limits import DATA_BYTES_MAX, DATA_LOOK, DATA_LOOK_MAX, EXTRA_PERMILLE_MAX, NAME_LENGTH_MAX
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


def problems_of_dataset(said: SetDataset) -> list[str]:
    """Return every problem of an operator's word about a dataset, each with its field."""
    found = []
    if not is_dataset_name(said.dataset):
        found.append(
            f"dataset: use 1 to {NAME_LENGTH_MAX} letters, digits, '.', '_' and '-', a letter or digit first"
        )
    if len(set(said.regions)) != len(said.regions):
        found.append("regions: one is named twice")
    if said.home is not None and said.home not in said.regions:
        found.append("home: it is none of the regions that hold it")
    if len(said.hash) > NAME_LENGTH_MAX or (said.hash and not said.hash.isalnum()):
        found.append("hash: letters and digits, as a data service tells it")
    return found + problems_of_amount("size", said.size, 0, said.by)


def problems_of_amount(field: str, amount: int, least: int, by: str) -> list[str]:
    """Return every problem of an amount of bytes, and of the requester's name."""
    found = []
    if not least <= amount <= DATA_BYTES_MAX:
        found.append(f"{field}: from {least} to {DATA_BYTES_MAX}")
    if len(by) > NAME_LENGTH_MAX:
        found.append(f"by: {NAME_LENGTH_MAX} characters are the most")
    return found


def problems_of_policy(policy: DataPolicy, by: str) -> list[str]:
    """Return every problem of a policy for data, each with its field."""
    found = []
    if not 0 <= policy.day_permille <= 1000:
        found.append("day_permille: from 0 to 1000")
    if not 0 <= policy.day_bytes_min <= DATA_BYTES_MAX:
        found.append(f"day_bytes_min: from 0 to {DATA_BYTES_MAX}")
    if not 0 <= policy.extra_permille <= EXTRA_PERMILLE_MAX:
        found.append(f"extra_permille: from 0 to {EXTRA_PERMILLE_MAX}")
    if not DATA_LOOK <= policy.replan_seconds * SECOND <= DATA_LOOK_MAX:
        found.append(f"replan_seconds: from {DATA_LOOK // SECOND} to {DATA_LOOK_MAX // SECOND}")
    return found + problems_of_amount("by", 0, 0, by)

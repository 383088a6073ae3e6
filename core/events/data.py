"""Events of the log `global` about data: which regions hold which datasets, what storage and links there are, and what waits for data."""

from msgspec import Struct

from core.fact import Event
from core.nouns.data import DataPolicy
from core.nouns.ids import DatasetName, RegionName


class DatasetSet(Event, frozen=True, tag="dataset-set"):
    """An operator said which regions hold a dataset from now on."""

    about_field = "dataset"
    dataset: DatasetName
    revision: int
    """Of the dataset: it grows with each event that changes where the dataset is."""
    regions: tuple[RegionName, ...]
    """That hold all of it; none: it is nowhere."""
    home: RegionName | None = None
    """Of these the one in which it is newest, where new data comes first; None: in all alike."""
    by: str = ""
    size: int = 0
    """Bytes; 0: nobody has said."""
    is_pinned: bool = False
    """Whether plans leave its home and its copies where they are; they may add copies."""
    hash: str = ""
    """Of its content, as a data service computes it; empty: nobody has said."""


class StorageSet(Event, frozen=True, tag="storage-set"):
    """An operator said how many bytes of datasets a region may hold."""

    about_field = "region"
    region: RegionName
    revision: int
    bytes: int
    """`UNSTATED`: nothing is copied there or dropped there by a plan."""
    by: str = ""


class LinkSet(Event, frozen=True, tag="link-set"):
    """An operator said how fast copies may go from one region to another, in all."""

    about_field = "source"
    source: RegionName
    target: RegionName
    revision: int
    rate: int
    """Bytes a second; 0: nothing may be copied there from here."""
    by: str = ""


class DataPolicySet(Event, frozen=True, tag="data-policy-set"):
    """An operator said what the plane may do by itself with data."""

    revision: int
    policy: DataPolicy
    by: str = ""


class WaitingReads(Struct, frozen=True):
    """Pending workloads that read the same datasets on the same GPU types at the same level band, for one reason."""

    data: tuple[DatasetName, ...]
    """By name."""
    types: tuple[str, ...]
    """GPU types of which each will do, by name."""
    band: int
    reason: str
    """`no_data` or `data_not_fresh`: no region has them that has the hardware; else why the regions that have them refuse."""
    workloads: int
    gpu_milli: int
    """Of all of them."""


class DataWaited(Event, frozen=True, tag="data-waited"):
    """Pending work that reads data, once a minute while there is some; the last one, empty, says that none waits any more."""

    rows: tuple[WaitingReads, ...]
    is_cut: bool = False
    """Whether there are more rows than are told: those with the most GPUs are."""


EVENTS: tuple[type[Event], ...] = (DatasetSet, StorageSet, LinkSet, DataPolicySet, DataWaited)

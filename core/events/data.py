"""Events of the log `global` about data: which regions hold which datasets."""

from core.fact import Event
from core.nouns.ids import DatasetName, RegionName


class DatasetSet(Event, frozen=True, tag="dataset-set"):
    """An operator said which regions hold a dataset from now on."""

    about_field = "dataset"
    dataset: DatasetName
    revision: int
    """Of what is said of the dataset: it grows with each of these events."""
    regions: tuple[RegionName, ...]
    """That hold all of it; none: it is nowhere."""
    home: RegionName | None = None
    """Of these the one in which it is newest, where new data comes first; None: in all alike."""
    by: str = ""


EVENTS: tuple[type[Event], ...] = (DatasetSet,)

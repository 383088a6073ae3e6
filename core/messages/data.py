"""What operators ask the job queue about data, and its answers."""

from msgspec import Struct

from core.messages.base import Answer, Message
from core.nouns.ids import DatasetName, RegionName
from core.nouns.limits import LISTED_MAX


class SetDataset(Message, frozen=True, tag="set-dataset", forbid_unknown_fields=True):
    """These regions hold a dataset from now on. What runs stays where it is."""

    dataset: DatasetName
    regions: tuple[RegionName, ...]
    home: RegionName | None
    revision: int
    """Of the dataset, as the operator saw it, 0 when nobody had said anything; another one is refused as superseded."""
    by: str = ""


class DatasetAnswered(Answer, frozen=True, tag="dataset-answered"):
    """It is so, from this revision on."""

    dataset: DatasetName
    revision: int


class ListDatasets(Message, frozen=True, tag="list-datasets", forbid_unknown_fields=True):
    """Tell which regions hold which datasets."""

    after: DatasetName = DatasetName("")
    """The name behind which to go on: `next` of the answer before."""
    count_max: int = LISTED_MAX


class ListedDataset(Struct, frozen=True):
    """One dataset in a list."""

    dataset: DatasetName
    regions: tuple[RegionName, ...]
    home: RegionName | None
    revision: int
    waiting: int
    """Workloads that wait and read it."""


class DatasetsListed(Answer, frozen=True, tag="datasets-listed"):
    """Some of them, or all."""

    rows: tuple[ListedDataset, ...]
    next: DatasetName
    """What to ask `after` for more; empty: there are none."""


MESSAGES: tuple[type[Message], ...] = (SetDataset, DatasetAnswered, ListDatasets, DatasetsListed)

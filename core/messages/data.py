"""What operators ask the job queue about data: where it is, what storage and links there are, what plans may do."""

from msgspec import Struct

from core.messages.base import Answer, Message
from core.nouns.data import DataPolicy
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
    size: int = 0
    """Bytes; 0: as it was."""
    is_pinned: bool = False
    hash: str = ""
    """Of its content; empty: the data service of the region from which it is copied first computes it."""


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
    size: int = 0
    is_pinned: bool = False
    readers: int = 0
    """Workloads that run and read it."""
    gpu_milli: int = 0
    """Demand of what reads it: held on average in the last weeks, or wanted in the last hours."""
    copying: tuple[RegionName, ...] = ()
    """Regions that are getting a copy."""
    leaving: tuple[RegionName, ...] = ()
    """Regions whose copies are being deleted."""


class DatasetsListed(Answer, frozen=True, tag="datasets-listed"):
    """Some of them, or all."""

    rows: tuple[ListedDataset, ...]
    next: DatasetName
    """What to ask `after` for more; empty: there are none."""


class SetStorage(Message, frozen=True, tag="set-storage", forbid_unknown_fields=True):
    """A region may hold so many bytes of datasets from now on."""

    region: RegionName
    bytes: int
    """`UNSTATED`: plans copy nothing there, and drop nothing there."""
    revision: int
    """Of the region's storage, as the operator saw it; another one is refused as superseded."""
    by: str = ""


class SetLink(Message, frozen=True, tag="set-link", forbid_unknown_fields=True):
    """Copies from one region to another may go so fast in all, from the next order on."""

    source: RegionName
    target: RegionName
    rate: int
    """Bytes a second; 0: none may go."""
    revision: int
    """Of the link, as the operator saw it; another one is refused as superseded."""
    by: str = ""


class SetDataPolicy(Message, frozen=True, tag="set-data-policy", forbid_unknown_fields=True):
    """The plane may do so much by itself with data from now on."""

    policy: DataPolicy
    revision: int
    """Of the policy, as the operator saw it; another one is refused as superseded."""
    by: str = ""


class DataSettingAnswered(Answer, frozen=True, tag="data-setting-answered"):
    """It is so, from this revision on."""

    revision: int


class ShowDataSettings(Message, frozen=True, tag="show-data-settings", forbid_unknown_fields=True):
    """Tell the storage of regions, the links between them, and the policy."""


class ShownStorage(Struct, frozen=True):
    """One region's."""

    region: RegionName
    bytes: int
    """`UNSTATED`: nobody has said."""
    revision: int
    used: int
    """Bytes of datasets there, what is to be deleted included."""
    expected: int
    """Bytes of copies under way to it."""
    has_service: bool


class ShownLink(Struct, frozen=True):
    """Between two regions."""

    source: RegionName
    target: RegionName
    rate: int
    revision: int
    """0: nobody has said, and the rate is the default."""
    copies: int
    """Under way."""


class DataSettingsShown(Answer, frozen=True, tag="data-settings-shown"):
    """All that operators set of data."""

    storage: tuple[ShownStorage, ...]
    links: tuple[ShownLink, ...]
    policy: DataPolicy
    policy_revision: int
    bytes: int
    """Of all datasets, one copy of each."""
    day_limit: int
    """Bytes that copies may have in a day."""
    day_bytes: int
    """Of today's orders."""


MESSAGES: tuple[type[Message], ...] = (
    SetDataset,
    DatasetAnswered,
    ListDatasets,
    DatasetsListed,
    SetStorage,
    SetLink,
    SetDataPolicy,
    DataSettingAnswered,
    ShowDataSettings,
    DataSettingsShown,
)

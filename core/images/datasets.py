"""A section of the queue's image: which regions hold which datasets."""

from collections.abc import Iterable

from msgspec import Struct, field

from core.events.copies import CopyMade, DatasetHashed, DropOrdered, HomeMoved
from core.events.data import DatasetSet
from core.fact import Fact
from core.images.base import Section
from core.nouns.ids import DatasetName, RegionName


class DatasetRow(Struct):
    """One dataset."""

    regions: tuple[RegionName, ...] = ()
    """That hold all of it, by name."""
    home: RegionName | None = None
    revision: int = 0
    size: int = 0
    """Bytes; 0: unknown."""
    is_pinned: bool = False
    hash: str = ""
    """Empty: unknown."""
    said: int = 0
    """The revision of what an operator said of it last."""
    is_measured: bool = False
    """Whether a data service has counted its bytes."""


class Datasets(Section):
    """Every dataset that is known. One that was dropped is still known, to be nowhere: so an old word cannot bring it back."""

    FOLDS = {
        DatasetSet: "_set",
        DatasetHashed: "_hashed",
        CopyMade: "_copy_made",
        HomeMoved: "_home_moved",
        DropOrdered: "_drop_ordered",
    }

    rows: dict[DatasetName, DatasetRow] = field(default_factory=dict)

    def revision_of(self, dataset: DatasetName) -> int:
        """Of what is said of it; 0: nothing is."""
        row = self.rows.get(dataset)
        return row.revision if row is not None else 0

    def missing_in(self, region: RegionName, data: Iterable[DatasetName]) -> tuple[DatasetName, ...]:
        """Which of these a region does not hold."""
        return tuple(name for name in data if not self._is_in(name, region))

    def away_from(self, region: RegionName, data: Iterable[DatasetName]) -> int:
        """How many of these have their home elsewhere."""
        homes = (row.home for name in data if (row := self.rows.get(name)) is not None)
        return sum(home not in (None, region) for home in homes)

    def _is_in(self, dataset: DatasetName, region: RegionName) -> bool:
        row = self.rows.get(dataset)
        return row is not None and region in row.regions

    def _set(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, DatasetSet)
        known = self.rows.get(event.dataset, DatasetRow())
        self.rows[event.dataset] = DatasetRow(
            tuple(sorted(event.regions)),
            event.home,
            event.revision,
            event.size,
            event.is_pinned,
            event.hash,
            event.revision,
            known.is_measured and (event.hash, event.size) == (known.hash, known.size),
        )

    def _hashed(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, DatasetHashed)
        row = self.rows[event.dataset]
        row.hash, row.size, row.is_measured = event.hash, event.bytes, True

    def _copy_made(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, CopyMade)
        row = self.rows[event.dataset]
        row.revision = event.revision
        row.regions = tuple(sorted({*row.regions, event.target}))
        if event.is_move:
            row.home = event.target

    def _home_moved(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, HomeMoved)
        row = self.rows[event.dataset]
        row.revision, row.home = event.revision, event.target

    def _drop_ordered(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, DropOrdered)
        row = self.rows[event.dataset]
        row.revision = event.revision
        row.regions = tuple(region for region in row.regions if region != event.region)

"""A section of the queue's image: which regions hold which datasets."""

from collections.abc import Iterable

from msgspec import Struct, field

from core.events.data import DatasetSet
from core.fact import Fact
from core.images.base import Section
from core.nouns.ids import DatasetName, RegionName


class DatasetRow(Struct):
    """The regions and the home of one dataset, as last set."""

    regions: tuple[RegionName, ...] = ()
    """By name."""
    home: RegionName | None = None
    revision: int = 0


class Datasets(Section):
    """Every dataset that is known. One that was dropped is still known, to be nowhere: so an old word cannot bring it back."""

    FOLDS = {DatasetSet: "_set"}

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
        self.rows[event.dataset] = DatasetRow(tuple(sorted(event.regions)), event.home, event.revision)

"""Where data is: told by the queue, and set there."""

from msgspec import Struct

from bus.port import Bus
from core.messages.data import DatasetAnswered, DatasetsListed, ListDatasets, ListedDataset, SetDataset
from core.nouns.ids import DatasetName, RegionName
from mizzen.actions.settings.data import size_of
from mizzen.actions.workloads import TRIES_MAX, before_try
from mizzen.connect.plane import ask, ask_on_revision, submitter
from mizzen.terminal.output import CommandError


class Word(Struct, frozen=True):
    """What an operator says of a dataset."""

    regions: tuple[str, ...]
    home: str = ""
    size: str = ""
    """Empty: as it was."""
    hash: str = ""
    is_pinned: bool = False


async def datasets_of(bus: Bus) -> list[ListedDataset]:
    """All of them, by name. Raises CommandError."""
    rows: list[ListedDataset] = []
    after = DatasetName("")
    while True:
        page = await ask(bus, ListDatasets(after), DatasetsListed)
        rows += page.rows
        if not page.next:
            return rows
        after = page.next


async def place_dataset(bus: Bus, name: DatasetName, word: Word) -> ListedDataset:
    """It is so from now on; once more when somebody else was quicker. Raises CommandError."""
    regions = tuple(RegionName(region) for region in word.regions)
    home = RegionName(word.home) if word.home else None
    size = size_of(word.size, "size") if word.size else 0
    for number in range(TRIES_MAX):
        await before_try(number)
        known = {row.dataset: row.revision for row in await datasets_of(bus)}
        if not regions and name not in known:
            raise CommandError(f"no operator placed {name}, and no pending work reads it")
        revision = known.get(name, 0)
        asked = SetDataset(name, regions, home, revision, submitter(), size, word.is_pinned, word.hash)
        if await ask_on_revision(bus, asked, DatasetAnswered) is not None:
            (row,) = [row for row in await datasets_of(bus) if row.dataset == name]
            return row
    raise CommandError("others set this dataset all the time; try again in a moment")

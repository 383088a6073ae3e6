"""Where data is: told by the queue, and set there."""

from collections.abc import Sequence

from bus.port import Bus
from core.messages.data import DatasetAnswered, DatasetsListed, ListDatasets, ListedDataset, SetDataset
from core.nouns.ids import DatasetName, RegionName
from mizzen.actions.workloads import TRIES_MAX, before_try
from mizzen.connect.plane import ask, ask_on_revision, submitter
from mizzen.terminal.output import CommandError


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


async def place_dataset(
    bus: Bus, name: DatasetName, regions: Sequence[RegionName], home: RegionName | None
) -> ListedDataset:
    """These regions hold it from now on, and no others; once more when somebody else was quicker. Raises CommandError."""
    for number in range(TRIES_MAX):
        await before_try(number)
        known = {row.dataset: row for row in await datasets_of(bus)}
        revision = known[name].revision if name in known else 0
        asked = SetDataset(name, tuple(regions), home, revision, submitter())
        done = await ask_on_revision(bus, asked, DatasetAnswered)
        if done is not None:
            return ListedDataset(
                name, tuple(sorted(regions)), home, done.revision, known[name].waiting if name in known else 0
            )
    raise CommandError("others set this dataset all the time; try again in a moment")

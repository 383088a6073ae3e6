"""`mizzen data`: which regions hold which datasets. Work that reads one runs only where all of it is."""

import shutil
import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from mizzen.terminal.options import Json
from mizzen.terminal.output import MISUSED, CommandError, tell_json, tell_lines

if TYPE_CHECKING:
    from core.messages.data import ListedDataset

data = App(name="data", version_flags=[], default_parameter=Parameter(show_default=False))

Dataset = Annotated[str, Parameter(name="DATASET", help="As `data` of job files has it.")]


@data.default
def list_all(*, json: Json = False) -> None:
    """List datasets: where each is at home, which regions hold it, and how many workloads wait that read it."""
    from mizzen.actions.datasets import datasets_of
    from mizzen.views.plane_reads import on_plane

    _tell(on_plane(lambda bus, _: datasets_of(bus)), is_json=json)


@data.command(name="place")
def place(
    dataset: Dataset,
    /,
    *regions: Annotated[str, Parameter(name="REGION", help="That hold all of it from now on.")],
    home: Annotated[
        str, Parameter(help="Of these the one in which it is newest: it is preferred to the others.")
    ] = "",
    json: Json = False,
) -> None:
    """Say which regions hold a dataset from now on, and no others. Running work stays where it is."""
    if not regions:
        text = (
            f"name the regions that hold {dataset}, or say that none does with `mizzen data drop {dataset}`"
        )
        raise CommandError(text, MISUSED)
    _place(dataset, regions, home, is_json=json)


@data.command(name="drop")
def drop(dataset: Dataset, /, *, json: Json = False) -> None:
    """Say that no region holds a dataset any more. Workloads that wait for it go on waiting."""
    _place(dataset, (), "", is_json=json)


def _place(dataset: str, regions: tuple[str, ...], home: str, *, is_json: bool) -> None:
    from core.nouns.ids import DatasetName, RegionName
    from mizzen.actions.datasets import place_dataset
    from mizzen.views.plane_reads import on_plane

    name, named = DatasetName(dataset), [RegionName(region) for region in regions]
    at_home = RegionName(home) if home else None
    _tell([on_plane(lambda bus, _: place_dataset(bus, name, named, at_home))], is_json=is_json)


def _tell(rows: "list[ListedDataset]", *, is_json: bool) -> None:
    import msgspec

    from mizzen.views.fleet.dataset_table import table_of

    if is_json:
        tell_json(msgspec.to_builtins(rows))
    else:
        tell_lines(table_of(rows, shutil.get_terminal_size().columns if sys.stdout.isatty() else None))

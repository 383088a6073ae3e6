"""`mizzen data`: where datasets are, how they get there, and what plans may do. Work that reads some runs only where all of it is."""

import shutil
import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from mizzen.terminal.options import Json
from mizzen.terminal.output import MISUSED, CommandError, tell_json, tell_json_line, tell_lines

if TYPE_CHECKING:
    from bus.port import Bus
    from core.messages.copies import CopiesListed
    from core.messages.data import DataSettingsShown, ListedDataset
    from mizzen.actions.datasets import Word

data = App(name="data", version_flags=[], default_parameter=Parameter(show_default=False))

Dataset = Annotated[str, Parameter(name="DATASET", help="As `data` of job files has it.")]


@data.default
def list_all(*, json: Json = False) -> None:
    """List datasets: size, home, the regions that hold each, what runs and waits that reads it, and the GPUs wanted for that."""
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
    size: Annotated[str, Parameter(help="Bytes, as in 565MB; those known stay.")] = "",
    pin: Annotated[
        bool, Parameter(name="--pin", negative=(), help="Plans leave its home and its copies where they are.")
    ] = False,
    hash: Annotated[  # noqa: A002  # the option's name
        str, Parameter(help="Of its content, as `python -m runtime.data.hasher` tells it.")
    ] = "",
    json: Json = False,
) -> None:
    """Say which regions hold a dataset from now on, and no others. Running work stays where it is."""
    from mizzen.actions.datasets import Word

    if not regions:
        text = (
            f"name the regions that hold {dataset}, or say that none does with `mizzen data drop {dataset}`"
        )
        raise CommandError(text, MISUSED)
    _place(dataset, Word(regions, home, size, hash, is_pinned=pin), is_json=json)


@data.command(name="drop")
def drop(dataset: Dataset, /, *, json: Json = False) -> None:
    """Say that no region holds a dataset any more. Workloads that wait for it go on waiting."""
    from mizzen.actions.datasets import Word

    _place(dataset, Word(()), is_json=json)


@data.command(name="storage")
def storage(
    region: Annotated[str, Parameter(name="REGION", help="Whose storage is stated.")] = "",
    size: Annotated[str, Parameter(name="SIZE", help="Bytes of datasets, as in 40TB; none: unstated.")] = "",
    /,
    *,
    json: Json = False,
) -> None:
    """Show how many bytes of datasets regions may hold, or state it. Nothing is copied to a region of unstated storage."""
    from mizzen.actions.settings.data import set_storage, settings_of
    from mizzen.views.fleet.dataset_table import storage_lines
    from mizzen.views.plane_reads import on_plane

    if region and not size:
        raise CommandError(
            f"say how much {region} may hold, as in `mizzen data storage {region} 40TB`", MISUSED
        )
    shown = on_plane(lambda bus, _: set_storage(bus, region, size) if region else settings_of(bus))
    _tell_settings(shown, storage_lines(shown, _width()), is_json=json)


@data.command(name="links")
def links(
    source: Annotated[str, Parameter(name="FROM", help="The region that is copied from.")] = "",
    target: Annotated[str, Parameter(name="TO", help="The region that is copied to.")] = "",
    rate: Annotated[str, Parameter(name="RATE", help="Bytes a second, as in 1GB; 0: none.")] = "",
    /,
    *,
    json: Json = False,
) -> None:
    """Show how fast copies may go from region to region, or state it for one pair."""
    from mizzen.actions.settings.data import set_link, settings_of
    from mizzen.views.fleet.dataset_table import link_lines
    from mizzen.views.plane_reads import on_plane

    if source and not (target and rate):
        raise CommandError(
            "say from where, to where and how fast, as in `mizzen data links eu us 1GB`", MISUSED
        )
    shown = on_plane(lambda bus, _: set_link(bus, source, target, rate) if source else settings_of(bus))
    _tell_settings(shown, link_lines(shown, _width()), is_json=json)


@data.command(name="policy")
def policy(
    *,
    automatic: Annotated[str, Parameter(help="on or off: plan data, and copy it.")] = "",
    per_day: Annotated[str, Parameter(help="Bytes to copy a day, in percent of all bytes, as in 2.")] = "",
    at_least: Annotated[
        str, Parameter(help="Bytes to copy a day however few there are in all, as in 1TB.")
    ] = "",
    extra: Annotated[
        str, Parameter(help="Bytes of further copies, in percent of all bytes, as in 125.")
    ] = "",
    disaster: Annotated[str, Parameter(help="on or off: a copy of each dataset outside its home.")] = "",
    replan: Annotated[
        str, Parameter(help="Time between two plans at least, as in 5m, whatever moved; 1d at most.")
    ] = "",
    json: Json = False,
) -> None:
    """Show what the plane may do by itself with data, or set it; what is not named stays."""
    from mizzen.actions.settings.data import set_policy, settings_of, wish_of
    from mizzen.views.fleet.dataset_table import policy_lines
    from mizzen.views.plane_reads import on_plane

    wish = wish_of(
        automatic=automatic, per_day=per_day, at_least=at_least, extra=extra, disaster=disaster, replan=replan
    )
    shown = on_plane(lambda bus, _: settings_of(bus) if wish is None else set_policy(bus, wish))
    _tell_settings(shown, policy_lines(shown), is_json=json)


@data.command(name="plan")
def plan(*, json: Json = False) -> None:
    """Show the newest plan for data: how data lies before and after, and the next steps."""
    import msgspec

    from mizzen.actions.settings.data import newest_plan
    from mizzen.views.fleet.dataset_table import plan_lines
    from mizzen.views.plane_reads import on_plane
    from runtime.clock import wall_now

    shown, planner = on_plane(lambda bus, _: newest_plan(bus))
    if json:
        tell_json({**msgspec.to_builtins(shown), "planner": msgspec.to_builtins(planner)})
    else:
        tell_lines(plan_lines(shown, planner, wall_now(), _width()))


@data.command(name="copies")
def copies(
    dataset: Annotated[str, Parameter(name="DATASET", help="Of this one alone.")] = "",
    /,
    *,
    watch: Annotated[
        bool, Parameter(name=("--watch", "-w"), negative=(), help="Go on until no copy is under way.")
    ] = False,
    json: Json = False,
) -> None:
    """Show the copies under way, those that failed, and those that are being deleted."""
    from mizzen.views.plane_reads import on_plane

    on_plane(lambda bus, _: _copies(bus, dataset, is_watched=watch, is_json=json))


async def _copies(bus: "Bus", dataset: str, *, is_watched: bool, is_json: bool) -> None:
    import msgspec

    from core.messages.copies import CopiesListed, ListCopies
    from core.nouns.ids import DatasetName
    from mizzen.connect.plane import ask
    from mizzen.views.fleet.dataset_table import copy_lines
    from mizzen.views.plane_reads import LOOK_AGAIN, pause

    said: CopiesListed | None = None
    while True:
        listed = await ask(bus, ListCopies(DatasetName(dataset)), CopiesListed)
        if said is None or _what(said) != _what(listed):
            said = listed
            if is_json:
                (tell_json_line if is_watched else tell_json)(msgspec.to_builtins(listed))
            else:
                tell_lines(copy_lines(listed, _width()))
        if not is_watched or not (listed.orders or listed.leaving):
            return
        await pause(LOOK_AGAIN)


def _what(listed: "CopiesListed") -> tuple[object, ...]:
    """Return all of it but ages."""
    orders = [(one.copy, one.moved, one.is_hashed) for one in listed.orders]
    failed = [(one.dataset, one.target, one.times) for one in listed.failed]
    return orders, failed, listed.leaving, listed.left


def _place(dataset: str, word: "Word", *, is_json: bool) -> None:
    from core.nouns.ids import DatasetName
    from mizzen.actions.datasets import place_dataset
    from mizzen.views.plane_reads import on_plane

    name = DatasetName(dataset)
    _tell([on_plane(lambda bus, _: place_dataset(bus, name, word))], is_json=is_json)


def _tell(rows: "list[ListedDataset]", *, is_json: bool) -> None:
    import msgspec

    from mizzen.views.fleet.dataset_table import table_of

    if is_json:
        tell_json(msgspec.to_builtins(rows))
    else:
        tell_lines(table_of(rows, _width()))


def _tell_settings(shown: "DataSettingsShown", lines: list[str], *, is_json: bool) -> None:
    import msgspec

    if is_json:
        tell_json(msgspec.to_builtins(shown))
    else:
        tell_lines(lines)


def _width() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None

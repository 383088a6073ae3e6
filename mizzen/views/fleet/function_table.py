"""Functions as the routers of each region know them: how often they are called, where they are warm, and what became of calls."""

import asyncio
from collections.abc import Iterable

from msgspec import Struct

from bus.catalogue import FUNCTIONS
from bus.port import Address, Bus
from core.codec import Parcel
from core.messages.functions import FunctionsShown, RouterHere, RoutersWanted, ShowFunctions, ShownFunction
from core.nouns.function_limits import ROUTER_INTERVAL
from core.nouns.ids import RegionName, TenantName
from core.nouns.instant import MILLISECOND, SECOND, Nanoseconds
from core.nouns.quantities import Amount
from core.nouns.workload import UNNAMED
from core.routing.rates import WINDOW_SECONDS
from mizzen.connect.plane import ask
from mizzen.terminal.output import CommandError
from mizzen.views.phrases.text import amount_text, columns_text

LISTEN: Nanoseconds = Nanoseconds(ROUTER_INTERVAL // 2)
"""A router that is asked whether it lives answers in a thousandth of that, unless it has just said so."""
QUESTIONS = 4
"""In that time."""
COLUMNS = ("FUNCTION", "RATE", "RUN", "SET", "WARM", "COLD", "WAIT", "RUNS", "LOST")
FIGURES = ("RATE", "RUN", "SET", "WARM", "COLD", "WAIT", "RUNS", "LOST")
DIGITS = 8
"""Of a digest, in a table."""


class RouterShown(Struct, frozen=True):
    """One router, and all functions that it knows."""

    region: RegionName
    router: str
    servers: int
    size: Amount
    load: int
    """Millionths of the size that calls need, those that wait included."""
    functions: tuple[ShownFunction, ...]


async def heard_routers(bus: Bus, region: str) -> dict[tuple[RegionName, str], RouterHere]:
    """Return the routers that live, of the region that is named or of all, by region and name. Raises CommandError without any."""
    heard: dict[tuple[RegionName, str], RouterHere] = {}

    def hear(parcel: Parcel, _: str) -> None:
        match parcel.message:
            case RouterHere() as here if region in ("", here.region):
                heard[here.region, here.router] = here

    subscription = await bus.listen(Address(FUNCTIONS.noun), hear)
    for _ in range(QUESTIONS):
        bus.say(RoutersWanted(TenantName(bus.tenant) if bus.tenant else UNNAMED))
        await asyncio.sleep(LISTEN / QUESTIONS / SECOND)
    await subscription.close()
    if not heard:
        raise _no_router((region,) if region else ())
    return heard


async def regions_with_routers(bus: Bus, regions: tuple[str, ...]) -> set[RegionName]:
    """Return those of these regions, or of all if none is named, of which a router lives. Raises CommandError without any."""
    found = {region for region, _ in await heard_routers(bus, regions[0] if len(regions) == 1 else "")}
    if regions and not found & {*regions}:
        raise _no_router(regions)
    return found & {*regions} if regions else found


def _no_router(regions: tuple[str, ...]) -> CommandError:
    where = f"of {' or '.join(f'region {region}' for region in regions)} " if regions else ""
    return CommandError(
        f"no router {where}was heard; a region runs functions if its section of the fleet file says `functions: true`"
    )


async def routers_of_plane(bus: Bus, region: str) -> tuple[list[RouterShown], list[tuple[str, str]]]:
    """Return the routers of the region that is named, or of all; and those without an answer, each with the reason."""
    heard = await heard_routers(bus, region)
    found: list[RouterShown] = []
    silent = [
        (f"{name}/{router}", "it was not heard")
        for name, router in sorted({(here.region, one) for here in heard.values() for one in here.routers})
        if (name, router) not in heard
    ]
    for (name, router), here in sorted(heard.items()):
        try:
            told = await ask(bus, ShowFunctions(name, router), FunctionsShown)
        except CommandError as error:
            silent.append((f"{name}/{router}", str(error)))
        else:
            found.append(RouterShown(name, router, told.servers, told.size, here.load, told.functions))
    return found, silent


def lines_of(routers: Iterable[RouterShown], width: int | None) -> list[str]:
    """Return a line for each router, and a table of its functions."""
    lines = []
    for one in routers:
        servers = f"{one.servers} server{'' if one.servers == 1 else 's'}"
        lines.append(
            f"{one.region}/{one.router}: {servers}, {amount_text(one.size)} for functions, load {one.load / 10_000:.0f}%"
        )
        if one.functions:
            rows = [_row_of(function) for function in one.functions]
            lines += [f"  {line}" for line in columns_text(COLUMNS, rows, width and width - 2, FIGURES)]
    return lines


def _row_of(one: ShownFunction) -> tuple[str, ...]:
    tenant_and_name, _, digest = one.function.rpartition("/")
    # Cold calls are counted over a time that may be longer.
    cold = f"{min(100, 100 * one.cold / one.calls):.0f}%" if one.calls else "-"
    return (
        f"{tenant_and_name}/{digest[:DIGITS]}",
        f"{one.calls / WINDOW_SECONDS:.3g}/s",
        _run_time_text(one.run_time) if one.run_time else "-",
        str(len(one.servers)),
        str(one.warm),
        cold,
        str(one.waiting),
        str(one.running),
        str(one.lost),
    )


def _run_time_text(span: Nanoseconds) -> str:
    """Three digits, in the unit that suits."""
    for unit, length in (("s", SECOND), ("ms", MILLISECOND)):
        if span >= length:
            return f"{span / length:.3g}{unit}"
    return f"{span / 1000:.3g}us"

"""`mizzen maintain`: plan work on nodes, see how far it is, and take it back."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from mizzen.terminal.node_options import ANYWHERE, NODES_HELP, PlaceOptions
from mizzen.terminal.options import Json, Sure
from mizzen.terminal.output import MISUSED, CommandError, tell_json

if TYPE_CHECKING:
    from bus.port import Bus
    from mizzen.actions.nodes import Window
    from mizzen.connect.plane import Plane

NOTICE = "30m"
"""Our choice: long enough for a checkpoint and a move of nearly everything; who has less time says so."""


def maintain(
    *nodes: Annotated[str, Parameter(name="NODE", help=f"{NODES_HELP} Or a maintenance, as in m-3.")],
    place: PlaceOptions = ANYWHERE,
    kind: Annotated[str, Parameter(help="Kind of work: network, reboot, hardware or power.")] = "",
    start: Annotated[
        str, Parameter(help="When the window opens: now, 'in 2h', or 2026-11-22T03:00 (UTC unless it says).")
    ] = "",
    for_: Annotated[str, Parameter(name="--for", help="How long the window is, as in 90m.")] = "",
    notice: Annotated[
        str, Parameter(help=f"How long before the window controllers are told; {NOTICE} if not said.")
    ] = "",
    reason: Annotated[str, Parameter(help="Why, for operators that find the nodes closed.")] = "",
    yes: Sure = False,
    cancel: Annotated[
        bool, Parameter(name="--cancel", negative=(), help="It does not take place, or is over now.")
    ] = False,
    watch: Annotated[
        bool, Parameter(name=("--watch", "-w"), negative=(), help="Go on until it is over.")
    ] = False,
    json: Json = False,
) -> int:
    """Plan work on nodes in a window; tasks there are told before and have left, or stopped, when the window opens.

    With nodes and --kind, --start and --for it plans; with a maintenance's name it tells how far that is, or cancels it; with
    neither, of every maintenance.
    """
    from core.nouns.operation import MAINTENANCE
    from mizzen.actions.nodes import is_name

    said = {
        "--kind": kind,
        "--start": start,
        "--for": for_,
        "--notice": notice,
        "--yes": "yes" if yes else "",
    }
    options = [option for option, value in said.items() if value] + list(place.named)
    are_names = all(is_name(word, MAINTENANCE) for word in nodes)
    if cancel:
        if len(nodes) != 1 or not are_names or options or watch:
            raise CommandError(
                "--cancel takes the name of one maintenance, as in m-3, and a --reason", MISUSED
            )
        return _cancel(nodes[0], place, reason.strip(), is_json=json)
    if are_names and nodes and reason and not options:
        raise CommandError(f"{nodes[0]} has its reason; say --cancel to take it back", MISUSED)
    if are_names and not options and not reason:
        return _show(nodes, place, is_watched=watch, is_json=json)
    return _plan(nodes, place, said, reason.strip(), is_watched=watch, is_json=json)


def _show(names: Sequence[str], place: PlaceOptions, *, is_watched: bool, is_json: bool) -> int:
    from core.nouns.maintenance import ClosureKind
    from mizzen.actions.node_progress import show
    from mizzen.views.plane_reads import on_plane

    kind = ClosureKind.MAINTENANCE
    return on_plane(lambda bus, _: show(bus, names, place, kind, is_watched=is_watched, is_json=is_json))


def _cancel(name: str, place: PlaceOptions, reason: str, *, is_json: bool) -> int:
    from mizzen.actions import nodes as upkeep
    from mizzen.views.plane_reads import on_plane

    region, was_open = on_plane(lambda bus, _: upkeep.cancel(bus, name, place, reason))
    if is_json:
        tell_json({"region": region, "name": name, "was_open": was_open})
    else:
        print(f"{name} of {region} {'is over before its time' if was_open else 'is cancelled'}")
    return 0


def _plan(
    nodes: Sequence[str],
    place: PlaceOptions,
    said: dict[str, str],
    reason: str,
    *,
    is_watched: bool,
    is_json: bool,
) -> int:
    import msgspec

    from mizzen.actions import nodes as upkeep
    from mizzen.actions.node_progress import follow
    from mizzen.actions.node_text import planned_text
    from mizzen.views.plane_reads import on_plane
    from runtime.clock import wall_now

    kind, is_sure = said["--kind"], bool(said["--yes"])
    window, problems = _window(said, reason)

    async def work(bus: "Bus", _: "Plane") -> int:
        done = await upkeep.plan(bus, nodes, place, kind, window, reason, is_sure=is_sure, problems=problems)
        if not is_json:
            print(planned_text(done, wall_now(), window.lasts), flush=True)
        elif not is_watched:
            tell_json(msgspec.to_builtins(done))
        return await follow(bus, [(done.region, done.name)], is_json=is_json) if is_watched else 0

    return on_plane(work)


def _window(said: dict[str, str], reason: str) -> "tuple[Window, list[str]]":
    """The window that is meant, and all that is wrong with it and what belongs to it."""
    from core.nouns.limits import MAINTENANCE_LEAD_MAX, MAINTENANCE_SPAN_MAX
    from core.nouns.maintenance import MaintenanceKind
    from mizzen.actions.nodes import Window
    from mizzen.actions.time_windows import any_span, some_span, starts_in
    from mizzen.jobs.values import Unreadable
    from runtime.clock import wall_now
    from runtime.yaml_tree import shown

    problems = []
    kinds = ", ".join(MaintenanceKind)
    if said["--kind"] not in set(MaintenanceKind):
        known = f"{shown(said['--kind'])} is no kind of work; " if said["--kind"] else "say what is done; "
        problems.append(f"--kind: {known}there are {kinds}")
    readers: dict[str, Callable[[str], int]] = {
        "--start": lambda text: starts_in(text, wall_now()),
        "--for": lambda text: some_span(text, MAINTENANCE_SPAN_MAX),
        "--notice": lambda text: any_span(text or NOTICE, MAINTENANCE_LEAD_MAX),
    }
    hints = {
        "--start": "say when the window opens: now, 'in 2h' or 2026-11-22T03:00",
        "--for": "say how long the window is, as in 90m",
    }
    spans = {}
    for option, read in readers.items():
        if not said[option] and option in hints:
            problems.append(f"{option}: {hints[option]}")
            continue
        try:
            spans[option] = read(said[option])
        except Unreadable as error:
            problems.append(f"{option}: {error}")
    if not reason:
        problems.append("--reason: say why; operators that find the nodes closed will ask")
    window = Window(spans.get("--start", 0), spans.get("--for", 0), spans.get("--notice", 0))
    return window, problems

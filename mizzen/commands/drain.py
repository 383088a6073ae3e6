"""`mizzen drain`: empty nodes with the consent of what runs there, and see how far that is."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from mizzen.terminal.node_options import ANYWHERE, NODES_HELP, PlaceOptions
from mizzen.terminal.options import Json, Sure
from mizzen.terminal.output import MISUSED, CommandError, tell_json

if TYPE_CHECKING:
    from bus.port import Bus
    from mizzen.connect.plane import Plane


def drain(
    *nodes: Annotated[str, Parameter(name="NODE", help=f"{NODES_HELP} Or a drain there is, as in d-1.")],
    place: PlaceOptions = ANYWHERE,
    reason: Annotated[str, Parameter(help="Why, for operators that find the nodes drained.")] = "",
    deadline: Annotated[
        str,
        Parameter(help="After so long, as in 10m, remaining work is stopped unasked; never, if not said."),
    ] = "",
    yes: Sure = False,
    watch: Annotated[
        bool, Parameter(name=("--watch", "-w"), negative=(), help="Go on until the nodes are empty.")
    ] = False,
    json: Json = False,
) -> int:
    """Place nothing more on nodes, and let the work there leave once its controller agrees.

    With nodes and a --reason it drains them; with a drain's name it tells how far that is, or sets its --deadline; with neither,
    it tells of every drain.
    """
    from core.nouns.operation import DRAIN
    from mizzen.actions.nodes import is_name

    is_asked = bool(reason or deadline or yes or place.named)
    if not is_asked and all(is_name(word, DRAIN) for word in nodes):
        return _show(nodes, place, is_watched=watch, is_json=json)
    return _drain(nodes, place, reason.strip(), deadline, is_sure=yes, is_watched=watch, is_json=json)


def _show(names: Sequence[str], place: PlaceOptions, *, is_watched: bool, is_json: bool) -> int:
    from core.nouns.maintenance import ClosureKind
    from mizzen.actions.node_progress import show
    from mizzen.views.plane_reads import on_plane

    kind = ClosureKind.DRAIN
    return on_plane(lambda bus, _: show(bus, names, place, kind, is_watched=is_watched, is_json=is_json))


def _drain(
    nodes: Sequence[str],
    place: PlaceOptions,
    reason: str,
    deadline: str,
    *,
    is_sure: bool,
    is_watched: bool,
    is_json: bool,
) -> int:
    import msgspec

    from core.nouns.operation import DRAIN
    from mizzen.actions import nodes as upkeep
    from mizzen.actions.node_progress import follow
    from mizzen.actions.node_text import drained_text
    from mizzen.actions.nodes import is_name
    from mizzen.actions.time_windows import some_span
    from mizzen.jobs.values import Unreadable
    from mizzen.views.plane_reads import on_plane

    is_known = len(nodes) == 1 and is_name(nodes[0], DRAIN) and bool(deadline) and not place.named
    problems = (
        [] if reason or is_known else ["--reason: say why; operators that find the nodes drained will ask"]
    )
    span = 0
    try:
        span = some_span(deadline) if deadline else 0
    except Unreadable as error:
        problems.append(f"--deadline: {error}")
    if is_known and problems:
        raise CommandError(problems[0], MISUSED)

    async def work(bus: "Bus", _: "Plane") -> int:
        if is_known:
            done = await upkeep.set_deadline(bus, nodes[0], place, reason, span)
        else:
            done = await upkeep.drain(bus, nodes, place, reason, span, is_sure=is_sure, problems=problems)
        if not is_json:
            print(drained_text(done, span), flush=True)
        elif not is_watched:
            tell_json(msgspec.to_builtins(done))
        return await follow(bus, [(done.region, done.name)], is_json=is_json) if is_watched else 0

    return on_plane(work)

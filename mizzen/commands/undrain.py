"""`mizzen undrain`: let nodes take work again."""

from typing import Annotated

from cyclopts import Parameter

from mizzen.terminal.node_options import ANYWHERE, NODES_HELP, PlaceOptions
from mizzen.terminal.options import Json
from mizzen.terminal.output import tell_json


def undrain(
    *nodes: Annotated[
        str, Parameter(name="NODE", help=f"{NODES_HELP} Or one drain, as in d-1, which lifts that one alone.")
    ],
    place: PlaceOptions = ANYWHERE,
    json: Json = False,
) -> None:
    """Lift every drain of nodes. Tasks that were asked to leave stay unless they have begun to stop; tasks that have left do not come back."""
    import msgspec

    from mizzen.actions import nodes as upkeep
    from mizzen.actions.node_text import undrained_text
    from mizzen.views.plane_reads import on_plane

    done = on_plane(lambda bus, _: upkeep.undrain(bus, nodes, place))
    if json:
        tell_json(msgspec.to_builtins(done))
    else:
        print(undrained_text(done))

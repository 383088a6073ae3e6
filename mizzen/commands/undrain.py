"""`mizzen undrain`: let nodes take work again."""

from typing import Annotated

from cyclopts import Parameter

from mizzen.answers import tell_json
from mizzen.options import Json
from mizzen.place_options import ANYWHERE, NODES_HELP, PlaceOptions


def undrain(
    *nodes: Annotated[
        str, Parameter(name="NODE", help=f"{NODES_HELP} Or one drain, as in d-1, which lifts that one alone.")
    ],
    place: PlaceOptions = ANYWHERE,
    json: Json = False,
) -> None:
    """Lift every drain of nodes. What was asked to leave and has not begun to stays; what has left does not come back."""
    import msgspec

    from mizzen import upkeep
    from mizzen.views.reading import on_plane
    from mizzen.views.upkeep_text import undrained_text

    done = on_plane(lambda bus, _: upkeep.undrain(bus, nodes, place))
    if json:
        tell_json(msgspec.to_builtins(done))
    else:
        print(undrained_text(done))

"""The options by which `mizzen pools set` says how free capacity of a pool is harvested, and what capacity costs."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter


@Parameter(name="*")
@dataclass(frozen=True)
class HarvestOptions:
    """What an operator says; an empty text says nothing."""

    harvest: Annotated[
        str, Parameter(help="Whether functions may use free capacity of the pool: on or off.")
    ] = ""
    grace: Annotated[
        str, Parameter(help="How long calls may run on when harvested capacity is recalled, as in 30s.")
    ] = ""
    keep: Annotated[
        str, Parameter(help="GPUs of each zone that are not harvested; cores where nodes have no GPUs.")
    ] = ""
    after: Annotated[
        str, Parameter(help="How long capacity is available before it is harvested, as in 10s.")
    ] = ""
    harvest_reserve: Annotated[
        str, Parameter(help="Whether the nodes of --reserve are harvested too: yes or no.")
    ] = ""
    harvest_price: Annotated[
        str, Parameter(help="Price of a harvested GPU-hour, as in 0.50; of a core-hour without GPUs.")
    ] = ""
    price: Annotated[
        str, Parameter(help="Price of a GPU-hour that is held, as in 2; of a core-hour without GPUs.")
    ] = ""


UNSAID = HarvestOptions()

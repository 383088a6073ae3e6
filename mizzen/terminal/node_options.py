"""The options by which commands are told which nodes are meant."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

NODES_HELP = "Nodes, as `mizzen nodes` shows them: eu-7, eu-[0-3,7]; of one region."


@Parameter(name="*")
@dataclass(frozen=True)
class PlaceOptions:
    """Which nodes of which region, in one way of naming them."""

    region: Annotated[str, Parameter(help="The region; need not be said if there is only one.")] = ""
    rack: Annotated[str, Parameter(help="All nodes of these racks, as in 3 or 3,5-7.")] = ""
    power_domain: Annotated[str, Parameter(help="All that these power domains feed, as in power-0.")] = ""
    zone: Annotated[str, Parameter(help="All nodes of these zones, as in zone-0,zone-1.")] = ""
    pool: Annotated[str, Parameter(help="All nodes of these pools, as in training.")] = ""
    worker: Annotated[str, Parameter(help="All that these workers serve, as in w0.")] = ""
    all_: Annotated[bool, Parameter(name="--all", negative=(), help="Every node of the region.")] = False

    @property
    def named(self) -> dict[str, str]:
        """What was said, by option; but for the region."""
        said = {
            "--rack": self.rack,
            "--power-domain": self.power_domain,
            "--zone": self.zone,
            "--pool": self.pool,
            "--worker": self.worker,
            "--all": "all" if self.all_ else "",
        }
        return {option: value for option, value in said.items() if value}


ANYWHERE = PlaceOptions()

"""The options by which `mizzen start worker --join` is told where its machine stands."""

import re
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from core.nouns.fleet import NodeGroup
from core.nouns.limits import NAME_LENGTH_MAX, NODE_NUMBERS_MAX
from mizzen.terminal.output import MISUSED, CommandError
from runtime.fleet_file import POOL, ZONE

_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{NAME_LENGTH_MAX}}}")


@Parameter(name="*")
@dataclass(frozen=True)
class SpotOptions:
    """Where a machine stands, as whoever starts its worker says."""

    zone: Annotated[str, Parameter(help=f"Of a machine that joins: its zone; {ZONE} if not named.")] = ""
    power_domain: Annotated[
        str, Parameter(help="Of a machine that joins: what feeds it, as in power-0; unknown if not named.")
    ] = ""
    pool: Annotated[
        str, Parameter(help=f"Of a machine that joins: what it is used for; {POOL} if not named.")
    ] = ""
    rack: Annotated[
        int | None, Parameter(help="Of a machine that joins: its rack, as in 3; one of its own if not named.")
    ] = None

    @property
    def said(self) -> dict[str, str]:
        """What was said, by option."""
        options = {
            "--zone": self.zone,
            "--power-domain": self.power_domain,
            "--pool": self.pool,
            "--rack": "" if self.rack is None else str(self.rack),
        }
        return {option: value for option, value in options.items() if value}

    def check(self) -> None:
        """Raises CommandError."""
        for option, value in self.said.items():
            if option != "--rack" and not _NAME.fullmatch(value):
                text = f"{option}: {value!r} is no name; use letters, digits, '-' and '_', {NAME_LENGTH_MAX} at most"
                raise CommandError(text, MISUSED)
        if self.rack is not None and not 0 <= self.rack <= NODE_NUMBERS_MAX:
            raise CommandError(f"--rack: a rack's number is 0 to {NODE_NUMBERS_MAX}", MISUSED)

    def differs(self, known: NodeGroup) -> list[str]:
        """What is said and known to be otherwise, as it is known; but for the pool, which plans change.

        known   the first of the worker's groups
        """
        there = {
            "--zone": known.zone,
            "--power-domain": known.power_domain,
            "--rack": str(known.rack_first),
        }
        return [
            f"{option} {there[option] or 'unknown'}"
            for option, value in self.said.items()
            if option in there and value != there[option]
        ]


UNSAID = SpotOptions()

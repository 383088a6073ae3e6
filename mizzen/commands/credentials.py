"""`mizzen credentials`: a user of the NATS server for each process of a plane, with the least that it must say and hear."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from mizzen.terminal.options import Json
from mizzen.terminal.output import explained, tell_json, tell_lines


def credentials(
    directory: Annotated[Path, Parameter(help="Where to write; it is made, for your eyes alone.")],
    /,
    *,
    fleet: Annotated[Path | None, Parameter(help="The fleet file; none: this machine alone.")] = None,
    server: Annotated[
        str,
        Parameter(
            help="Host and port under which the plane's processes reach the server, which listens there."
        ),
    ] = "nats:4222",
    reach: Annotated[
        str, Parameter(help="Host and port under which operators reach the server.")
    ] = "127.0.0.1:4222",
    json: Json = False,
) -> None:
    """Write the credentials of each process of a plane, those of its operators, and the configuration of its NATS server.

    Run again, for a fleet that has grown: passwords stay, and credentials of processes that are gone end at the server's next start.
    """
    from mizzen.connect.unit_credentials import OPERATOR_FILE, SERVER_FILE, write_credentials
    from runtime.fleet_file import FleetFileError, load_plan, plan_of_this_machine

    with explained(FleetFileError, OSError):
        plan = plan_of_this_machine() if fleet is None else load_plan(fleet)
    written = write_credentials(directory, plan, server, reach)
    if json:
        tell_json({"directory": str(directory), "units": written.units, "removed": written.removed})
        return
    removed = f", {len(written.removed)} removed" if written.removed else ""
    tell_lines(
        [
            f"{directory} has the credentials of {len(written.units)} users{removed}, and {SERVER_FILE} for nats-server",
            f"  MIZZEN_CREDENTIALS={directory / OPERATOR_FILE} lets commands in",
        ]
    )

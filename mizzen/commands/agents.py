"""`mizzen agents`: how the agents of each region see it, what they do, and how both are set."""

import shutil
import sys
from typing import Annotated

from cyclopts import App, Parameter

from mizzen.terminal.options import Json
from mizzen.terminal.output import FAILED, tell_json, tell_lines, tell_problem

agents = App(name="agents", version_flags=[], default_parameter=Parameter(show_default=False))


@agents.default
def list_agents(
    *, region: Annotated[str, Parameter(help="Only of this region.")] = "", json: Json = False
) -> int:
    """List agents: their views, requests, conflicts, tries, waits, quality, and the ages of their partitions."""
    import msgspec

    from mizzen.views.fleet import agent_table
    from mizzen.views.plane_reads import on_plane

    found, silent = on_plane(lambda bus, _: agent_table.agents_of_plane(bus, region))
    if json:
        tell_json(msgspec.to_builtins(found))
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        tell_lines(agent_table.lines_of(found, width))
    for name, why in silent:
        tell_problem(f"region {name} is missing: {why}", is_json=json)
    return FAILED if silent else 0


@agents.command(name="set")
def set_(
    region: Annotated[str, Parameter(name="REGION", help="The region whose agents are set.")],
    *,
    view: Annotated[str, Parameter(help="stream, parsync or statesync (docs/agents.md).")] = "",
    placing: Annotated[str, Parameter(help="tier-first, latency-first, quality-first or adaptive.")] = "",
    partitions: Annotated[str, Parameter(help="Partitions of the region's racks, as in 64.")] = "",
    sync_every: Annotated[
        str, Parameter(help="Span in which each agent owns each partition once, as in 4s.")
    ] = "",
    rotation: Annotated[str, Parameter(help="different; same is for experiments.")] = "",
    full: Annotated[str, Parameter(help="Agents that fold every fact, as in 2.")] = "",
    tries: Annotated[str, Parameter(help="Claims for one award, as in 10.")] = "",
    json: Json = False,
) -> None:
    """Set how a region's agents see it; settings that are not named stay. Requests under way are not lost."""
    import msgspec

    from mizzen.actions.settings.agents import set_agents, wish_of
    from mizzen.views.fleet.agent_table import settings_text
    from mizzen.views.plane_reads import on_plane

    wish, problems = wish_of(
        view=view,
        placing=placing,
        partitions=partitions,
        sync_every=sync_every,
        rotation=rotation,
        full=full,
        tries=tries,
    )
    done = on_plane(lambda bus, _: set_agents(bus, region, wish, problems))
    if json:
        tell_json(msgspec.to_builtins(done))
    else:
        print(settings_text(done.region, done.settings))

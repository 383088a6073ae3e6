"""`mizzen start`: one part of a plane in the foreground, until a signal ends it."""

import asyncio
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from cyclopts import Parameter

from bus.errors import BusError
from bus.server import URL_VARIABLE
from core.nouns.ids import GLOBAL_LOG, RegionName, region_log
from mizzen.answers import MISUSED, CommandError, explained
from runtime.fleet_file import FleetFileError, load_plan, plan_of_this_machine
from mizzen.nodes import NodesFileError, NodesOnDisk
from mizzen.options import Json
from runtime.clock import Clock, wall_now
from runtime.errors import HostError
from runtime.logs import UnknownLevel, set_up_logs
from runtime.process import run_process, run_until_signalled
from runtime.wiring import ROLES, Plan, Unit, log_kept_by
from store.errors import LogError

OF_A_REGION = frozenset({"allocation_agent", "placement_store", "region_broker", "worker"})
OF_A_CREW = frozenset({"allocation_agent", "worker"})
"""Roles that several members of a region have."""
OF_ALL = frozenset({"auditor", "job_queue"})


def start(
    role: Annotated[str, Parameter(help=f"One of {', '.join(ROLES)}.")],
    /,
    *,
    region: Annotated[str, Parameter(help="Whose part it is, for a role of a region.")] = "",
    member: Annotated[str, Parameter(help="Which agent or worker of the region it is.")] = "",
    directory: Annotated[Path, Parameter(help="Where a keeper has its log; .mizzen if not named.")] = Path(
        ".mizzen"
    ),
    fleet: Annotated[Path | None, Parameter(help="The fleet file; none: this machine alone.")] = None,
    nats: Annotated[str, Parameter(help=f"The NATS server; without it, what {URL_VARIABLE} says.")] = "",
    reader: Annotated[
        bool,
        Parameter(
            help="Whether the process of a keeper also serves those who read its log; it does if not told."
        ),
    ] = True,
    json: Json = False,
) -> None:
    """Run one part of a plane until SIGTERM or SIGINT ends it."""
    with explained(FleetFileError, UnknownLevel):
        set_up_logs(os.environ, default="info", is_json=True if json else None)
        plan = plan_of_this_machine() if fleet is None else load_plan(fleet)
    unit = _unit(plan, role, region, member)
    url = _url(nats or os.environ.get(URL_VARIABLE, ""))
    kept = log_kept_by(unit)
    units = [unit] if kept is None or not reader else [unit, Unit("reader", unit.region, kept)]
    with explained(BusError, HostError, LogError, NodesFileError):
        run_until_signalled(lambda: _serve(plan, units, url, directory))


async def _serve(plan: Plan, units: Sequence[Unit], url: str, directory: Path) -> None:
    """Emulated nodes lie under each worker; nothing else has any."""
    clock = Clock(asyncio.get_running_loop(), wall_now())
    nodes = {
        unit.name: NodesOnDisk(unit.name, clock, directory / f"{unit.name}.nodes")
        for unit in units
        if unit.role == "worker"
    }
    await run_process(plan, units, url, directory, nodes)


def _unit(plan: Plan, role: str, region: str, member: str) -> Unit:
    """Which part of the plane is meant. Raises CommandError."""
    if role not in ROLES:
        raise CommandError(f"{role} is no role; start one of {', '.join(ROLES)}", MISUSED)
    regions = plan.region_names()
    if region and role in OF_ALL:
        raise CommandError(f"{role} is of no region; leave --region out", MISUSED)
    if region and region not in regions:
        text = f"region {region} is not in the fleet {plan.fleet}; it has {', '.join(regions)}"
        raise CommandError(f"{text}, and another fleet is named by --fleet", MISUSED)
    if not region and role in OF_A_REGION:
        raise CommandError(f"{role} is of a region; name it with --region {' or '.join(regions)}", MISUSED)
    if member and role not in OF_A_CREW:
        raise CommandError(f"{role} has no members; leave --member out", MISUSED)
    name = RegionName(region)
    if role == "reader":
        return Unit(role, name, region_log(name) if region else GLOBAL_LOG)
    if role == "worker":
        return Unit(role, name, _worker(plan, name, member))
    if role == "allocation_agent":
        return Unit(role, name, member or _name_of_this_process())
    return Unit(role, name)


def _worker(plan: Plan, region: RegionName, member: str) -> str:
    """The only worker of its region needs no name. Raises CommandError."""
    workers = [one.worker for own in plan.regions if own.region == region for one in own.inventories]
    if not member and len(workers) == 1:
        return workers[0]
    if member not in workers:
        text = (
            f"there is no worker {member} in region {region}"
            if member
            else f"which worker of region {region}?"
        )
        raise CommandError(f"{text}; name one with --member {' or '.join(workers)}", MISUSED)
    return member


def _name_of_this_process() -> str:
    """An agent may have any name that no other has: agents are added by starting more, on whatever machine."""
    host = "".join(
        letter if letter.isascii() and letter.isalnum() else "-" for letter in socket.gethostname()
    )
    return f"{host[:100]}-{os.getpid()}"


def _url(url: str) -> str:
    """The server's address. Raises CommandError."""
    example = "nats://127.0.0.1:4222"
    if not url:
        text = (
            f"there is no NATS server to connect to; set {URL_VARIABLE} or give --nats, for example {example}"
        )
        raise CommandError(text, MISUSED)
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("nats", "tls") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good:  # What it is stays unsaid: there may be a password in it.
        raise CommandError(f"the address of the NATS server cannot be used; give one like {example}", MISUSED)
    return url

"""`mizzen start`: one part of a plane in the foreground, until a signal ends it."""

import asyncio
import os
import re
import socket
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from cyclopts import Parameter
from msgspec import Struct
from msgspec.structs import replace

from bus.errors import BusError
from bus.server import LOOPBACK, URL_VARIABLE, address_of_this_machine
from core.nouns.ids import GLOBAL_LOG, RegionName, WorkerName, region_log
from core.nouns.instant import SECOND, Nanoseconds
from mizzen.actions.log_archive import keep_from
from mizzen.connect.join import name_of_this_machine, plan_of_joining, plane_to_join, region_to_join
from mizzen.connect.plane import (
    CREDENTIALS_VARIABLE,
    FLEET,
    FLEET_VARIABLE,
    URL_EXAMPLE,
    read_plane,
    usable_url,
)
from mizzen.terminal.options import HUNG_AFTER, Json, check_hung_after
from mizzen.terminal.output import MISUSED, CommandError, explained
from mizzen.terminal.worker_options import UNSAID, SpotOptions
from runtime.clock import Clock, wall_now
from runtime.data.doers import data_doer_of
from runtime.errors import HostError
from runtime.fleet_file import FleetFileError, load_plan, plan_of_this_machine
from runtime.functions.doers import function_doer_of
from runtime.health.check import HEALTH_VARIABLE
from runtime.logs import UnknownLevel, set_up_logs
from runtime.loop import run
from runtime.plane import CHECKPOINTS, spool_of
from runtime.planning.solving import SolverProcess
from runtime.process import Nodes, connected, run_process, run_together, run_until_signalled
from runtime.status.unit_status import Losses
from runtime.status.violation_file import ViolationFile
from runtime.supervision.life_line import LIFE_LINE
from runtime.tasks.errors import SpoolError
from runtime.tasks.output import OutputServer
from runtime.tasks.slots import CPU_SLOTS
from runtime.tasks.spool import TaskSpool
from runtime.wiring import ROLES, Plan, Unit, bus_name_of, log_kept_by
from store.errors import LogError

OF_A_REGION = frozenset(
    {
        "allocation_agent",
        "data_service",
        "function_router",
        "function_server",
        "harvester",
        "placement_store",
        "region_broker",
        "task_control",
        "worker",
    }
)
DATA_VARIABLE = "MIZZEN_DATA_DIR"
"""Under which tasks find the directory of their region's datasets."""
OF_A_CREW = frozenset({"allocation_agent", "function_router", "function_server", "worker"})
"""Roles that several members of a region have."""
_MEMBER = re.compile(r"[A-Za-z0-9_-]{1,100}")
OF_ALL = frozenset({"auditor", "job_queue", "planner"})
_HungAfter = Annotated[
    int,
    Parameter(
        help="Seconds for which the event loop may stand still before the process ends, with all stacks on stderr; 0: for ever."
    ),
]


def start(
    role: Annotated[str, Parameter(help=f"One of {', '.join(ROLES)}.")],
    /,
    *,
    region: Annotated[str, Parameter(help="Whose part it is, for a role of a region.")] = "",
    member: Annotated[str, Parameter(help="Which agent, worker or router, or whose server.")] = "",
    directory: Annotated[Path, Parameter(help="Where a keeper has its log; .mizzen if not named.")] = Path(
        ".mizzen"
    ),
    fleet: Annotated[Path | None, Parameter(help="The fleet file; none: this machine alone.")] = None,
    nats: Annotated[
        str,
        Parameter(
            help=f"The NATS server; without it, what {URL_VARIABLE} says, or the file named by {CREDENTIALS_VARIABLE}."
        ),
    ] = "",
    reader: Annotated[
        bool,
        Parameter(
            help="Whether the process of a keeper also serves readers of its log; it does if not told."
        ),
    ] = True,
    join: Annotated[
        str,
        Parameter(help="For a worker: the plane that this machine joins, by its address or its plane.json."),
    ] = "",
    slots: Annotated[
        int, Parameter(help="CPU slots of a machine that joins, if it has no GPUs.")
    ] = CPU_SLOTS,
    spot: SpotOptions = UNSAID,
    host: Annotated[
        str, Parameter(help="Under which address other nodes reach this machine's tasks; found if not named.")
    ] = "",
    supervised: Annotated[
        bool,
        Parameter(show=False, help="Whether a supervisor reports its death and starts it again."),
    ] = False,
    hung_after: _HungAfter = HUNG_AFTER,
    json: Json = False,
) -> None:
    """Run one part of a plane until SIGTERM or SIGINT ends it."""
    with explained(UnknownLevel):
        set_up_logs(os.environ, default="info", is_json=True if json else None)
    check_hung_after(hung_after)
    if join:
        _join(role, join, region, member or name_of_this_machine(), directory, slots, host, spot, hung_after)
        return
    if spot.said:
        text = f"{next(iter(spot.said))} is for a worker that joins a plane; give --join, or say it in the fleet file"
        raise CommandError(text, MISUSED)
    with explained(FleetFileError):
        plan = plan_of_this_machine() if fleet is None else load_plan(fleet)
    plan = replace(plan, keep=keep_from(os.environ))
    unit = _unit(plan, role, region, member)
    url = _url(nats or os.environ.get(URL_VARIABLE, "") or _granted_url(plan.fleet))
    kept = log_kept_by(unit)
    units = [unit] if kept is None or not reader else [unit, Unit("reader", unit.region, kept)]
    place = _Place(url, directory, host or LOOPBACK, directory / CHECKPOINTS, hung_after, supervised)
    _run(plan, units, place)


def _join(
    role: str,
    where: str,
    region: str,
    member: str,
    directory: Path,
    slots: int,
    host: str,
    spot: SpotOptions,
    hung_after: int,
) -> None:
    """Add this machine to a plane that others keep up. Raises CommandError."""
    if role != "worker":
        raise CommandError(f"only a worker joins; leave --join out to start a {role}", MISUSED)
    if slots < 1:
        raise CommandError("--slots: a machine has one at least", MISUSED)
    if not _MEMBER.fullmatch(member):
        raise CommandError(f"--member: {member!r} is no name; use letters, digits, '-' and '_'", MISUSED)
    spot.check()
    plane = plane_to_join(where, os.environ.get(FLEET_VARIABLE, "") or FLEET)
    url = _url(plane.url)
    joined = run(region_to_join(plane, region, member, directory, spot))
    plan = plan_of_joining(plane, joined, WorkerName(member), slots, spot)
    print(f"{member} joins region {joined} of {plane.fleet}; Ctrl-C takes it away again", flush=True)
    server = urlsplit(url).hostname or LOOPBACK
    reached = host or (LOOPBACK if server == LOOPBACK else address_of_this_machine(server))
    is_here = bool(plane.directory) and Path(plane.directory).is_dir()
    checkpoints = Path(plane.directory) / CHECKPOINTS if is_here else None
    _run(plan, [Unit("worker", joined, member)], _Place(url, directory, reached, checkpoints, hung_after))


class _Place(Struct, frozen=True):
    """Where units live."""

    url: str
    directory: Path
    host: str
    """Under which other nodes reach tasks."""
    checkpoints: Path | None
    """Of programs that name no place; None: in the worker's spool."""
    hung_after: int
    """Seconds that the event loop may stand still, where no supervisor looks for that; 0: for ever."""
    is_supervised: bool = False


def _run(plan: Plan, units: Sequence[Unit], place: _Place) -> None:
    if not place.is_supervised:
        LIFE_LINE.end_when_hung(Nanoseconds(place.hung_after * SECOND))
    with explained(BusError, HostError, LogError, SpoolError):
        run_until_signalled(lambda: _serve(plan, units, place))


async def _serve(plan: Plan, units: Sequence[Unit], place: _Place) -> None:
    """Tasks lie under a worker, in a spool that outlives it; what they wrote is served beside it. A planner has its solver, and a data service its region's directory."""
    clock = Clock(asyncio.get_running_loop(), wall_now())
    nodes: dict[str, Nodes] = {}
    outputs: list[tuple[str, Coroutine[Any, Any, None]]] = []
    servers: dict[str, OutputServer] = {}
    beside: dict[str, Losses] = {}
    for unit in units:
        if unit.role == "worker":
            path = spool_of(place.directory, unit.region, unit.member)
            inherited = _with_data(plan, unit.region)
            spool = TaskSpool(
                unit.name, clock, path, host=place.host, checkpoints=place.checkpoints, inherited=inherited
            )
            nodes[unit.name] = spool
            outputs.append((f"output/{unit.name}", _serve_output(plan, unit, place.url, spool, servers)))
            beside[unit.name] = partial(_losses, servers, unit.name)
        elif unit.role == "data_service":
            nodes[unit.name] = data_doer_of(plan, unit.region, clock)
        elif unit.role == "function_server":
            spool_path = spool_of(place.directory, unit.region, unit.member)
            groups = plan.inventory(unit.region, unit.member).groups
            is_emulated = not any(group.runs_programs for group in groups)
            nodes[unit.name] = function_doer_of(spool_path, clock, os.environ, is_emulated=is_emulated)
        elif unit.role == "planner":
            nodes[unit.name] = SolverProcess()
        elif unit.role == "auditor":
            nodes[unit.name] = ViolationFile(place.directory)
    lives = run_process(
        plan,
        units,
        place.url,
        place.directory,
        nodes,
        is_supervised=place.is_supervised,
        health=Path(named) if (named := os.environ.get(HEALTH_VARIABLE, "")) else None,
        beside=beside,
    )
    try:
        await run_together([("units", lives), *outputs])
    except ExceptionGroup as deaths:
        raise deaths.exceptions[0] from deaths


def _with_data(plan: Plan, region: RegionName) -> dict[str, str]:
    """Return the environment, with the directory of the region's datasets and not another one's, if it has one."""
    seen = {name: text for name, text in os.environ.items() if name != DATA_VARIABLE}
    directory = next((one.data.directory for one in plan.regions if one.region == region and one.data), "")
    return {**seen, DATA_VARIABLE: directory} if directory else seen


def _losses(servers: Mapping[str, OutputServer], worker: str) -> Mapping[str, int]:
    """Return the losses of a worker's server of output; none before that is connected."""
    return servers[worker].losses() if worker in servers else {}


async def _serve_output(
    plan: Plan, unit: Unit, url: str, spool: TaskSpool, servers: dict[str, OutputServer]
) -> None:
    """Over a connection of its own: a task's output is no reason for the worker to be late. The worker's status tells the losses."""
    name = f"output.{bus_name_of(unit)}"
    connection = await connected(url, plan.fleet, name)
    server = OutputServer(
        unit.region,
        WorkerName(unit.member),
        spool.layout.outputs,
        connection.endpoint(name),
        Clock(asyncio.get_running_loop(), wall_now()),
    )
    servers[unit.name] = server
    try:
        await server.run()
    finally:
        server.close()
        await connection.close()


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
    if role in ("worker", "function_server"):
        return Unit(role, name, _worker(plan, name, member))
    if role == "function_router":
        return Unit(role, name, _router(plan, name, member))
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


def _router(plan: Plan, region: RegionName, member: str) -> str:
    """The first router of its region needs no name. Raises CommandError."""
    names = next(
        (one.functions.router_names() for one in plan.regions if one.region == region and one.functions), ()
    )
    if not names:
        raise CommandError(
            f"region {region} runs no functions; its fleet file says so by `functions: true`", MISUSED
        )
    if member and member not in names:
        raise CommandError(
            f"there is no router {member} in region {region}; name one with --member {' or '.join(names)}",
            MISUSED,
        )
    return member or names[0]


def _name_of_this_process() -> str:
    """An agent may have any name that no other has: agents are added by starting more, on whatever machine."""
    host = "".join(
        letter if letter.isascii() and letter.isalnum() else "-" for letter in socket.gethostname()
    )
    return f"{host[:100]}-{os.getpid()}"


def _granted_url(fleet: str) -> str:
    """Return the server's address from the file of credentials, if there is one for this fleet. Raises CommandError."""
    path = os.environ.get(CREDENTIALS_VARIABLE, "")
    if not path:
        return ""
    plane = read_plane(Path(path), "name a file that `mizzen credentials` wrote")
    if plane.fleet != fleet:
        text = f"{path} is for the fleet {plane.fleet}, and this is the fleet {fleet}"
        raise CommandError(f"{text}; write credentials with the same --fleet", MISUSED)
    return plane.url


def _url(url: str) -> str:
    """The server's address. Raises CommandError."""
    if not url:
        text = f"there is no NATS server to connect to; set {URL_VARIABLE} or {CREDENTIALS_VARIABLE}, or give --nats, for example {URL_EXAMPLE}"
        raise CommandError(text, MISUSED)
    return usable_url(url, "the address of the NATS server")

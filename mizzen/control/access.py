"""How a controller reaches its plane, and by what right: credentials with which it is the one of its name, and no other."""

import os
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from bus.catalogue import inbox_of_controller, subjects_of_controller
from bus.errors import BadSubject
from bus.server_users import Allowed, Permissions, ServerUser
from core.nouns.workload import WorkloadSpec
from mizzen.connect.credentials import Stranger, let_in, let_out
from mizzen.connect.plane import FILE, FLEET, FLEET_VARIABLE, Plane, find_plane
from mizzen.terminal.output import MISUSED, CommandError

DEFAULT_TENANT = WorkloadSpec("", ()).tenant
"""Of jobs that name none."""


class ControllerAccess(Struct, frozen=True):
    """What a controller's process needs to know: what a file with credentials holds."""

    url: str
    """With a password in it."""
    fleet: str = FLEET
    tenant: str = ""
    controller: str = ""


def access_to(plane: str | Path | None, tenant: str = "", name: str = "") -> ControllerAccess:
    """How a controller of this name reaches a plane: an address, a file, or what commands would find. Raises CommandError."""
    found = _found(plane)
    for given, known, what in ((tenant, found.tenant, "tenant"), (name, found.controller, "name")):
        if given and known and given != known:
            raise CommandError(f"these credentials are for the {what} {known}, not for {given}", MISUSED)
    controller = name or found.controller
    if not controller:
        raise CommandError("which controller is it? name it as its jobs do", MISUSED)
    access = replace(found, tenant=tenant or found.tenant or DEFAULT_TENANT, controller=controller)
    check_names(access)
    return access


def check_names(access: ControllerAccess) -> None:
    """Whether there can be such a controller. Raises CommandError."""
    try:
        subjects_of_controller(access.fleet, access.tenant, access.controller)
    except BadSubject as error:
        raise CommandError(str(error), MISUSED) from error


def _found(plane: str | Path | None) -> ControllerAccess:
    if plane is None:
        there = find_plane()
        return ControllerAccess(there.url, there.fleet)
    if "://" in str(plane):
        return ControllerAccess(str(plane), os.environ.get(FLEET_VARIABLE, "") or FLEET)
    path = Path(plane) / FILE if Path(plane).is_dir() else Path(plane)
    try:
        return msgspec.json.decode(path.read_bytes(), type=ControllerAccess)
    except (OSError, msgspec.MsgspecError) as error:
        raise CommandError(
            f"{path} cannot be read ({error}); name a file that `mizzen controller credentials` wrote, or a plane"
        ) from error


# Granting.


def stranger_of(access: ControllerAccess) -> Stranger:
    """Who may hear what this controller is asked, say what it answers, and nothing else."""
    heard, said = subjects_of_controller(access.fleet, access.tenant, access.controller)
    inbox = inbox_of_controller(access.tenant, access.controller)
    echo = f"{inbox}.>"
    may = Permissions(publish=Allowed((said, echo)), subscribe=Allowed((heard, echo)))
    return Stranger(ServerUser(f"controller.{access.tenant}.{access.controller}", "", may), inbox)


async def grant(directory: Path, access: ControllerAccess) -> ControllerAccess:
    """Let a controller in, at once and from now on; granted again, it has the password that it had. Raises CommandError.

    `access` has the plane's address; the answer has the controller's.
    """
    return replace(access, url=await let_in(directory, _plane(access), stranger_of(access)))


async def revoke(directory: Path, access: ControllerAccess) -> bool:
    """Let a controller in no longer, and cut it off; False when nobody had let it in. Raises CommandError."""
    return await let_out(directory, _plane(access), stranger_of(access))


def _plane(access: ControllerAccess) -> Plane:
    return Plane(access.url, access.fleet)

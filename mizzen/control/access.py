"""How a controller reaches its plane, and by what right: credentials with which it is the one of its name, and no other.

Of a plane that `mizzen up` keeps, the server's users lie in the plane's directory, so whoever may write there grants them. Of
any other server the permissions are told to whoever keeps that.
"""

import asyncio
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from bus.catalogue import inbox_of_controller, subjects_of_controller
from bus.errors import BadSubject, BusError
from bus.nats import NatsConnection
from bus.server import USER, Access
from bus.server_users import (
    Allowed,
    Permissions,
    ServerUser,
    config_of,
    put_user,
    reload_users,
    remove_user,
    user_called,
)
from core.nouns.ids import LogName
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.workload import WorkloadSpec
from mizzen.answers import MISUSED, CommandError
from mizzen.plane import FILE, FLEET, FLEET_VARIABLE, Plane, find_plane
from runtime.plane import NATS
from store.errors import LogInUse
from store.files import FileLock

DEFAULT_TENANT = WorkloadSpec("", ()).tenant
"""Of jobs that name none."""
KNOWN_SPAN: Nanoseconds = seconds(5)
"""A server has read its users again in a hundredth of that."""
_TRY_SPAN: Nanoseconds = seconds(2)
_LOOK_AGAIN_SECONDS = 0.05
_PASSWORD_BYTES = 32


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


def user_of(access: ControllerAccess, password: str) -> ServerUser:
    """Who may hear what this controller is asked, say what it answers, and nothing else."""
    heard, said = subjects_of_controller(access.fleet, access.tenant, access.controller)
    inbox = f"{inbox_of_controller(access.tenant, access.controller)}.>"
    may = Permissions(publish=Allowed((said, inbox)), subscribe=Allowed((heard, inbox)))
    return ServerUser(f"controller.{access.tenant}.{access.controller}", password, may)


def users_directory(plane: Plane) -> Path | None:
    """Where the users of a plane's server are; None when that server is somebody else's."""
    if not plane.directory:
        return None
    directory = Path(plane.directory) / NATS
    try:
        ours = user_called(directory, USER)
    except (BusError, OSError) as error:
        raise CommandError(str(error)) from error
    return directory if ours is not None and ours.password == urlsplit(plane.url).password else None


async def grant(directory: Path, access: ControllerAccess) -> ControllerAccess:
    """Let a controller in, at once and from now on; granted again, it has the password that it had. Raises CommandError.

    `access` has the plane's address; the answer has the controller's.
    """
    name = user_of(access, "").user
    with _alone(directory):
        known = user_called(directory, name)
        password = known.password if known else secrets.token_urlsafe(_PASSWORD_BYTES)
        put_user(directory, user_of(access, password))
    granted = replace(access, url=f"nats://{name}:{password}@{Access(access.url).address}")
    await _known(directory, granted, is_let_in=True)
    return granted


async def revoke(directory: Path, access: ControllerAccess) -> bool:
    """Let a controller in no longer, and cut it off; False when nobody had let it in. Raises CommandError."""
    name = user_of(access, "").user
    with _alone(directory):
        known = user_called(directory, name)
        if known is None:
            return False
        remove_user(directory, name)
    gone = replace(access, url=f"nats://{name}:{known.password}@{Access(access.url).address}")
    await _known(directory, gone, is_let_in=False)
    return True


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """One at a time changes who may connect, or one change would undo the other."""
    try:
        lock = FileLock(LogName("users"), directory / "users.lock")
    except LogInUse as error:
        raise CommandError("somebody else is granting credentials at this moment; try again") from error
    try:
        yield
    finally:
        lock.release()


async def _known(directory: Path, access: ControllerAccess, *, is_let_in: bool) -> None:
    """Have the server read its users, and see that it did. A server that is down reads them when it starts."""
    if not reload_users(directory):
        return
    loop = asyncio.get_running_loop()
    deadline = loop.time() + KNOWN_SPAN / SECOND
    while await _is_let_in(access) != is_let_in:
        if loop.time() > deadline:
            text = f"the NATS server has not taken its new users; {directory / 'server.log'} tells why"
            raise CommandError(text)
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)


async def _is_let_in(access: ControllerAccess) -> bool:
    inbox = inbox_of_controller(access.tenant, access.controller)
    try:
        connection = await NatsConnection.connect(
            access.url, access.fleet, "credentials", inbox=inbox, timeout=_TRY_SPAN
        )
    except BusError:
        return False
    await connection.close()
    return True


def permissions_text(access: ControllerAccess) -> str:
    """For the configuration of a server that somebody else keeps."""
    return config_of((user_of(access, "CHOOSE A PASSWORD"),))

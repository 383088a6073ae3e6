"""Letting others than the plane itself into its NATS server, each under a name and with what it may say and hear.

Of a plane that `mizzen up` keeps, the server's users lie in the plane's directory, so whoever may write there grants them. Of
any other server the permissions are told to whoever keeps that.
"""

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from bus.errors import BusError
from bus.nats import NatsConnection
from bus.server import USER, Access
from bus.server_users import ServerUser, config_of, put_user, reload_users, remove_user, user_called
from core.nouns.ids import LogName
from core.nouns.instant import SECOND, Nanoseconds, seconds
from mizzen.connect.plane import Plane, find_plane
from mizzen.terminal.output import CommandError
from runtime.plane import NATS
from store.errors import LogInUse
from store.files import FileLock

KNOWN_SPAN: Nanoseconds = seconds(5)
"""A server has read its users again in a hundredth of that."""
_TRY_SPAN: Nanoseconds = seconds(2)
_LOOK_AGAIN_SECONDS = 0.05
_PASSWORD_BYTES = 32
_TO_CHOOSE = "CHOOSE A PASSWORD"


class Stranger(Struct, frozen=True):
    """Somebody who is to be let in, or no longer."""

    user: ServerUser
    """Without a password."""
    inbox: str
    """Under which alone it may have one."""


def plane_of_operators() -> Plane:
    """The plane that is found from here, if whoever is here may let others in. Raises CommandError."""
    plane = find_plane()
    if plane.tenant:
        text = f"only the plane's operators grant and revoke, and these are the credentials of tenant {plane.tenant}"
        raise CommandError(text)
    return plane


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


async def let_in(directory: Path, plane: Plane, stranger: Stranger) -> str:
    """Let one in, at once and from now on; granted again, it has the password that it had. Raises CommandError.

    returns  its address, with the password in it
    """
    name = stranger.user.user
    with _alone(directory):
        known = user_called(directory, name)
        password = known.password if known else secrets.token_urlsafe(_PASSWORD_BYTES)
        put_user(directory, replace(stranger.user, password=password))
    url = _url(plane, name, password)
    await _known(directory, replace(plane, url=url), stranger.inbox, is_let_in=True)
    return url


async def let_out(directory: Path, plane: Plane, stranger: Stranger) -> bool:
    """Let one in no longer, and cut it off; False when nobody had let it in. Raises CommandError."""
    name = stranger.user.user
    with _alone(directory):
        known = user_called(directory, name)
        if known is None:
            return False
        remove_user(directory, name)
    gone = replace(plane, url=_url(plane, name, known.password))
    await _known(directory, gone, stranger.inbox, is_let_in=False)
    return True


def permissions_text(stranger: Stranger) -> str:
    """For the configuration of a server that somebody else keeps."""
    return config_of((replace(stranger.user, password=_TO_CHOOSE),))


def _url(plane: Plane, name: str, password: str) -> str:
    return f"nats://{name}:{password}@{Access(plane.url).address}"


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """One at a time changes who may connect, or one change would undo the other."""
    try:
        lock = FileLock(LogName("users"), directory / "users.lock")
    except LogInUse as error:
        raise CommandError("another command is changing credentials at this moment; try again") from error
    try:
        yield
    finally:
        lock.release()


async def _known(directory: Path, plane: Plane, inbox: str, *, is_let_in: bool) -> None:
    """Have the server read its users, and see that it did. A server that is down reads them when it starts."""
    if not reload_users(directory):
        return
    loop = asyncio.get_running_loop()
    deadline = loop.time() + KNOWN_SPAN / SECOND
    while await _is_let_in(plane, inbox) != is_let_in:
        if loop.time() > deadline:
            text = f"the NATS server has not taken its new users; {directory / 'server.log'} tells why"
            raise CommandError(text)
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)


async def _is_let_in(plane: Plane, inbox: str) -> bool:
    try:
        connection = await NatsConnection.connect(
            plane.url, plane.fleet, "credentials", inbox=inbox, timeout=_TRY_SPAN
        )
    except BusError:
        return False
    await connection.close()
    return True

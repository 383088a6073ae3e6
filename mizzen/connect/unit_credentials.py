"""A user of the NATS server for each unit of a plane, where the plane's processes are started by others than `mizzen up`.

One directory has the server's configuration and a file of credentials for each unit, all made in one step. The directory is readable by its
user alone. The files in it are readable by all, because each is handed into a container whose user is another one: whoever hands a file on
decides who reads it.
"""

import secrets
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from bus.catalogue import UNIT_USER
from bus.errors import BusError
from bus.server import EVERYWHERE, server_config
from bus.server_users import USERS_FILE, Permissions, ServerUser, put_users, users_in
from mizzen.connect.plane import Plane
from mizzen.connect.unit_permissions import OPERATOR, permissions_of, permissions_of_operator, user_of
from mizzen.terminal.output import MISUSED, CommandError
from runtime.plane import write_for_me_alone
from runtime.wiring import Plan, units_of

SERVER_FILE = "server.conf"
OPERATOR_FILE = "operator.json"
_PASSWORD_BYTES = 32


class Written(Struct, frozen=True):
    """What was written."""

    units: tuple[str, ...]
    removed: tuple[str, ...]
    """Users of units that the fleet no longer has."""


def file_of(name: str) -> str:
    """Return the name of a unit's file."""
    return f"{name}.json"


def write_credentials(directory: Path, plan: Plan, server: str, reach: str) -> Written:
    """Write credentials for every unit of a plan and for operators, and the server's configuration. Raises CommandError.

    server  host and port under which the units reach the server, which listens on that port
    reach   host and port under which operators reach it

    A user keeps the password that it has; users of tenants and controllers are kept as they are.
    """
    (_, port), _ = _address(server), _address(reach)
    wanted: dict[str, Permissions] = {user_of(unit): permissions_of(plan, unit) for unit in units_of(plan)}
    wanted[OPERATOR] = permissions_of_operator(plan)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.chmod(0o700)
        known = {user.user: user for user in users_in(directory)}
        ours = {name: _user(name, may, known.get(name)) for name, may in wanted.items()}
        gone = sorted(name for name in known if name.startswith(UNIT_USER) and name not in ours)
        others = [user for name, user in known.items() if name not in ours and name not in gone]
        put_users(directory, (*ours.values(), *others))
        _write(directory / SERVER_FILE, server_config(EVERYWHERE, port, {}).encode())
        (directory / USERS_FILE).chmod(0o444)
        for name, user in ours.items():
            address = reach if name == OPERATOR else server
            plane = Plane(f"nats://{name}:{user.password}@{address}", plan.fleet)
            _write(directory / file_of(name.removeprefix(UNIT_USER)), msgspec.json.encode(plane))
        for name in gone:
            (directory / file_of(name.removeprefix(UNIT_USER))).unlink(missing_ok=True)
    except (BusError, OSError) as error:
        raise CommandError(f"credentials cannot be written: {error}") from error
    short = [name.removeprefix(UNIT_USER) for name in ours]
    return Written(tuple(short), tuple(name.removeprefix(UNIT_USER) for name in gone))


def _user(name: str, may: Permissions, known: ServerUser | None) -> ServerUser:
    return ServerUser(name, known.password if known else secrets.token_urlsafe(_PASSWORD_BYTES), may)


def _write(path: Path, data: bytes) -> None:
    write_for_me_alone(path, data)
    path.chmod(0o444)


def _address(text: str) -> tuple[str, int]:
    """Return host and port. Raises CommandError."""
    try:
        parts = urlsplit(f"nats://{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port or parts.username is not None or parts.path:
        raise CommandError(f"{text!r} is no address of a server; give one like nats:4222", MISUSED)
    return host, port

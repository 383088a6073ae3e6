"""Who may connect to a server that we keep: the plane itself, which may say and hear all, and others, by what is granted.

They stand in one file beside the server's configuration, which includes it. The server reads it again when it is told to,
without losing anybody who is connected and still in it; whoever is no longer in it is cut off.
"""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from bus.errors import BusError

USERS_FILE = "users.conf"
"""In the server's directory. What follows `_KEY` is JSON, which the server's own language contains."""
_HEAD = "# Written by Mizzen; nobody else may read it, for it holds passwords.\n"
_KEY = "users: "
_SERVER = "nats-server"


class Allowed(Struct, frozen=True):
    """Subjects, as patterns; nothing else."""

    allow: tuple[str, ...]


class Permissions(Struct, frozen=True, omit_defaults=True):
    """What a user may say and hear."""

    publish: Allowed
    subscribe: Allowed
    allow_responses: bool = False
    """Whether the user may also answer: once, within two minutes, to the inbox that came with a request which the user heard."""


class ServerUser(Struct, frozen=True, omit_defaults=True):
    """One who may connect."""

    user: str
    password: str
    permissions: Permissions | None = None
    """None: all."""


def users_in(directory: Path) -> tuple[ServerUser, ...]:
    """All who may connect to the server of a directory; nobody, where there is none. Raises BusError."""
    path = directory / USERS_FILE
    try:
        text = path.read_text()
    except FileNotFoundError:
        return ()
    try:
        return msgspec.json.decode(text.partition(_KEY)[2], type=tuple[ServerUser, ...])
    except msgspec.MsgspecError as error:
        raise BusError(
            f"{path} cannot be read ({error}); remove it, and grant anew what was in it"
        ) from error


def user_called(directory: Path, name: str) -> ServerUser | None:
    """One of them."""
    return next((user for user in users_in(directory) if user.user == name), None)


def put_users(directory: Path, users: tuple[ServerUser, ...]) -> None:
    """Make these the users of a directory's server, in the place of all others."""
    _write(directory, users)


def put_user(directory: Path, user: ServerUser) -> None:
    """Let one in, in the place of any other of that name. Nothing is written that is there already."""
    known = users_in(directory)
    if user not in known:
        _write(directory, (*(one for one in known if one.user != user.user), user))


def remove_user(directory: Path, name: str) -> bool:
    """Let one in no longer. False when there is none of that name."""
    known = users_in(directory)
    left = tuple(user for user in known if user.user != name)
    if left != known:
        _write(directory, left)
    return left != known


def config_of(users: tuple[ServerUser, ...]) -> str:
    """The same in the server's own language, for the configuration of a server that somebody else keeps."""
    return _KEY + msgspec.json.format(msgspec.json.encode(users), indent=2).decode()


def reload_users(directory: Path) -> bool:
    """Have the running server of a directory read its users again. False when none runs that can be told."""
    hangup = getattr(signal, "SIGHUP", None)
    if hangup is None:
        return False  # On Windows it finds them at its next start.
    for path in directory.glob(f"{_SERVER}*.ports"):
        pid = path.stem.rpartition("_")[2]
        # Its number may be another's by now, who would die of the signal; to any server of ours it does no harm.
        if pid.isdecimal() and _SERVER in _command_of(pid):
            with suppress(ProcessLookupError):
                os.kill(int(pid), hangup)
                return True
    return False


def _command_of(pid: str) -> str:
    """What a process runs; nothing, where there is none."""
    if Path("/proc/self").exists():
        try:
            return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0])
        except OSError:
            return ""
    found = subprocess.run(["ps", "-o", "comm=", "-p", pid], capture_output=True, text=True, check=False)
    return found.stdout.strip()


def _write(directory: Path, users: tuple[ServerUser, ...]) -> None:
    """Whole or not at all: the server may read it at any time."""
    draft = directory / f".{USERS_FILE}"
    draft.unlink(missing_ok=True)
    draft.touch(mode=0o600)  # before there is a password in it
    draft.write_text(_HEAD + _KEY + msgspec.json.encode(users).decode())
    draft.replace(directory / USERS_FILE)

"""Finding a plane and asking it: the way from a command to whoever knows.

A plane is the one that `MIZZEN_CREDENTIALS` or `MIZZEN_NATS_URL` names, or the one whose `.mizzen/plane.json` lies here or in
a folder above, as git finds its own. That file is written by `mizzen up`, readable by its user alone: the address in it holds
a password. So does one with a tenant's credentials, with which whoever asks is that tenant (core/rules/ownership.py).
"""

import contextlib
import getpass
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from bus.errors import AskTimedOut, BusError, NobodyListens
from bus.nats import NatsConnection
from bus.port import Bus
from bus.server import URL_VARIABLE, Access
from core.codec import CodecError
from core.images import Image
from core.images.fetch import ImageFetch
from core.messages.base import Message, Refused
from core.messages.logs import FetchImage, ImagePage, LogPage
from core.nouns.ids import LogName
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.reasons import Reason
from core.rules.ownership import sender_of
from mizzen.terminal.output import FAILED, MISUSED, CommandError

DIRECTORY = ".mizzen"
FILE = "plane.json"
FLEET_VARIABLE = "MIZZEN_FLEET"
CREDENTIALS_VARIABLE = "MIZZEN_CREDENTIALS"
"""A file that `mizzen tenants grant` wrote."""
TENANT_USER = "tenant."
"""Before a tenant's name, what its user of the NATS server is called."""
FLEET = "mizzen"
"""The fleet's name unless somebody gives it another."""
URL_EXAMPLE = "nats://127.0.0.1:4222"

CONNECT_SPAN: Nanoseconds = seconds(3)
ASK_SPAN: Nanoseconds = seconds(5)
"""A plane answers in milliseconds; one that just starts anew after it was killed, in a second or two."""
FETCH_TRIES_MAX = 10
"""Answers that do not belong to an image before a command gives up fetching it."""

Answered = TypeVar("Answered", bound=Message)


class RequestRefused(CommandError):
    """The plane answered, and the answer is no."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refusal_text(refused), MISUSED if refused.reason == Reason.INVALID else FAILED)
        self.reason = refused.reason
        self.sentence = refused.sentence
        self.problems_told = refused.problems
        """Each alone; the text has them all."""


class Plane(Struct, frozen=True):
    """Where a plane can be reached."""

    url: str
    fleet: str = FLEET
    directory: str = ""
    """What `mizzen up` runs in; empty when all that is known is the address."""
    pid: int = 0
    """Of `mizzen up`."""

    @property
    def tenant(self) -> str:
        """Whose credentials these are; empty: the plane's own."""
        user = urlsplit(self.url).username or ""
        return user.removeprefix(TENANT_USER) if user.startswith(TENANT_USER) else ""


def find_plane(environment: Mapping[str, str] | None = None, start: Path | None = None) -> Plane:
    """The plane meant by whoever is here. Raises CommandError."""
    variables = os.environ if environment is None else environment
    credentials = variables.get(CREDENTIALS_VARIABLE, "")
    if credentials:
        return read_plane(Path(credentials), "name a file that `mizzen tenants grant` wrote")
    url = variables.get(URL_VARIABLE, "")
    if url:
        return Plane(
            usable_url(url, f"the address in {URL_VARIABLE}"), variables.get(FLEET_VARIABLE, "") or FLEET
        )
    here = (start or Path.cwd()).absolute()
    for folder in (here, *here.parents):
        path = folder / DIRECTORY / FILE
        if path.is_file():
            return read_plane(path)
    text = f"there is no plane here; start one with `mizzen up`, or let {URL_VARIABLE} name one's NATS server"
    raise CommandError(text)


def usable_url(url: str, what: str) -> str:
    """The URL of a NATS server, as it is given. Raises CommandError, which says `what` cannot be used."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("nats", "tls") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good:  # What it is stays unsaid: there may be a password in it.
        raise CommandError(f"{what} cannot be used; give one like {URL_EXAMPLE}", MISUSED)
    return url


def read_plane(path: Path, remedy: str = "run `mizzen up` again to rewrite it") -> Plane:
    """What `mizzen up` or `mizzen tenants grant` wrote. Raises CommandError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Plane)
    except (OSError, msgspec.MsgspecError) as error:
        raise CommandError(f"{path} cannot be read ({error}); {remedy}") from error


def submitter() -> str:
    """Who asks: `user@host`."""
    user = str(os.getuid())
    with contextlib.suppress(KeyError, OSError):  # Of a user that no file knows there is only the number.
        user = getpass.getuser()
    return f"{user}@{socket.gethostname()}"


@asynccontextmanager
async def client_of(plane: Plane, name: str = "client") -> AsyncIterator[Bus]:
    """An endpoint on the plane's bus, for as long as it is needed. Raises CommandError."""
    tenant = plane.tenant
    name = sender_of(tenant, name) if tenant else name
    try:
        connection = await NatsConnection.connect(
            plane.url, plane.fleet, name, tenant=tenant, timeout=CONNECT_SPAN
        )
    except BusError as error:
        text = f"the plane at {Access(plane.url).address} does not answer; is `mizzen up` running?"
        if tenant:
            text = f"the plane at {Access(plane.url).address} does not let tenant {tenant} in, or does not run; ask for credentials"
        raise CommandError(text) from error
    try:
        yield connection.endpoint(name)
    finally:
        await connection.close()


async def ask(
    bus: Bus, message: Message, expected: type[Answered], timeout: Nanoseconds = ASK_SPAN
) -> Answered:
    """One question, and an answer of the sort that belongs to it. Raises CommandError, also for a refusal."""
    try:
        answer = await bus.ask(message, timeout)
    except NobodyListens as error:
        raise CommandError(
            "no process answers; that part of the plane is down, try again in a moment"
        ) from error
    except AskTimedOut as error:
        raise CommandError("no answer came in time; try again, or look at the logs of `mizzen up`") from error
    except BusError as error:
        raise CommandError(str(error)) from error
    if isinstance(answer, Refused):
        raise RequestRefused(answer)
    assert isinstance(answer, expected), answer
    return answer


async def ask_on_revision(bus: Bus, message: Message, expected: type[Answered]) -> Answered | None:
    """As `ask`; None when somebody was quicker, so that what it was asked on is not so any more. Raises CommandError."""
    try:
        return await ask(bus, message, expected)
    except RequestRefused as refused:
        if refused.reason != Reason.SUPERSEDED:
            raise
        return None


def refusal_text(refused: Refused) -> str:
    """A refusal for people: its sentence, and every problem."""
    if not refused.problems:
        return refused.sentence
    return f"{refused.sentence.rstrip('.')}: {'; '.join(refused.problems)}"


async def fetch_image(
    bus: Bus, log: LogName, sections: tuple[str, ...] = (), timeout: Nanoseconds = ASK_SPAN
) -> tuple[Image, int]:
    """Return a log's newest image and the sequence that it is folded to. Raises CommandError."""
    fetch = ImageFetch(log, sections)
    in_vain = 0
    try:
        while (wanted := fetch.wanted()) is not None:
            expected = ImagePage if isinstance(wanted, FetchImage) else LogPage
            in_vain += not fetch.take(await ask(bus, wanted, expected, timeout))
            if in_vain >= FETCH_TRIES_MAX:
                raise CommandError(f"the log {log} is being replaced; try again in a moment")
            if fetch.is_whole:
                fetch.decode()
    except CodecError as error:
        raise CommandError(f"the log {log} is served by another build than this one: {error}") from error
    assert fetch.image is not None, log
    assert fetch.head is not None, log
    return fetch.image, fetch.head.sequence

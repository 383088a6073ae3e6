"""One connection to a NATS server, and the only file that knows nats-py.

To keep the promise of bus/port.py on top of that client is to answer for each of its traps:

- *Its `publish` swallows a cancellation while it waits.* So it is given nothing to wait for: while its buffer has room the
  coroutine runs to its end in one step, at once and without a task; while it has none, messages wait in our own outbox.
- *A pong that comes after its waiter gave up kills the read loop*, which nobody notices; and with a dead read loop `flush`
  still reports success. So its pings are left to itself, and health is an echo through our own inbox, which proves the
  whole way: out, the server, the subscription, and in.
- *It may close for good* (an expired credential, any `-ERR`), or stop reconnecting without a word. A watcher builds a new
  client and subscribes again when the client has closed or nothing has come back for `REBUILD_AFTER`.
- *An exception in a callback kills the read loop.* None of ours raises.
- *A subscription with a callback has a queue and a task.* `subscribe(future=…)` has neither: a message goes into the
  future as it is parsed. Ours is a future that hears and is never done. That saves a task switch for each message, and
  there is no slow consumer inside the client: who is too slow is cut by the server, which is a break, and counted.
- *What a break loses nobody can know.* It counts as one lost message of each endpoint; the log heals the rest.
"""

import asyncio
import secrets
import zlib
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription as NatsSubscription
from nats.errors import BadSubjectError, MaxPayloadError, StaleConnectionError
from nats.errors import Error as NatsError

from bus.catalogue import inbox_of, inbox_of_tenant, inbox_of_user
from bus.errors import BadSubject, BusError, ServerTooOld
from bus.nats_endpoint import Answered, Arrived, NatsBus
from bus.port import BusCounts
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.limits import INBOX_MAX, MESSAGE_BYTES_MAX

Result = TypeVar("Result")

logger = structlog.get_logger()

SERVER_VERSION_MIN = (2, 12)
"""Older servers silently ignore options that later parts rely on."""
CONNECT_SPAN: Nanoseconds = seconds(10)
"""How long the first connection may take; then `connect` says why it failed."""
LISTEN_SPAN: Nanoseconds = seconds(60)
"""How long `open_ear` waits for a server that is away."""
PING_SECONDS = 1
"""nats-py's own pings. Two unanswered ones break the connection: a half-open peer is found in 3 s, within a log's silence."""
WATCH_SPAN: Nanoseconds = seconds(2)
"""Between the watcher's echoes."""
REBUILD_AFTER: Nanoseconds = seconds(15)
"""Without an echo for so long the client is thought to be beyond help. Longer than any reconnection to a server that is there."""
CLOSE_SECONDS = 1.0
OUTBOX_BYTES_MAX = 64 * 1024 * 1024
"""What may wait in the outbox, besides INBOX_MAX messages."""
CLIENT_BYTES_MAX = 1024 * 1024
"""What may wait in the client's own buffer before the outbox is used: some milliseconds of a fast loopback."""
CLIENT_BUFFER = 64 * 1024 * 1024
"""Beyond this the client's `publish` would wait. It is never reached: CLIENT_BYTES_MAX and a message are far below."""
FORBIDDEN = "permissions violation"
"""In the error with which the server drops what its permissions do not allow."""
YIELD_EVERY = 64
"""Messages that the outbox hands over before others may run."""

assert CLIENT_BYTES_MAX + 2 * MESSAGE_BYTES_MAX < CLIENT_BUFFER


class NatsConnection:
    """A connection that stays, whatever the server does, and carries bytes for any number of endpoints."""

    def __init__(self, url: str, fleet: str, name: str, inbox: str, tenant: str) -> None:
        """Only `connect` calls this."""
        self.fleet = fleet
        self.name = name
        self.tenant = tenant
        self._url = url
        self._client = Client()
        self._inbox = f"{inbox}.{secrets.token_hex(8)}" if inbox else inbox_of(secrets.token_hex(8))
        self._expected: dict[str, Answered] = {}
        self._expected_count = 0
        self._ears: list[_Ear] = []
        self._endpoints: list[BusCounts] = []
        self._outbox: deque[_Waiting] = deque()
        self._outbox_bytes = 0
        self._to_send = asyncio.Event()
        """Set while the outbox has something in it."""
        self._is_beyond_help = asyncio.Event()
        """Set when the client has closed for good."""
        self._is_closing = False
        self._pause = (100 + zlib.crc32(name.encode()) % 400) / 1000
        """Seconds between tries to connect: 0.1 to 0.5, so that a thousand workers do not come back at one moment."""
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def connect(
        cls,
        url: str,
        fleet: str,
        name: str,
        *,
        inbox: str = "",
        tenant: str = "",
        timeout: Nanoseconds = CONNECT_SPAN,
    ) -> "NatsConnection":
        """Connect, for good. Credentials stand in the url. `inbox` is the only prefix of inboxes that the credentials allow (found by
        the name, for a unit's user); `tenant` is whose they are, if they are not the plane's own.

        Raises ServerTooOld, and BusError when no server lets us in in time.
        """
        inbox = inbox or (inbox_of_tenant(tenant) if tenant else inbox_of_user(urlsplit(url).username or ""))
        line = cls(url, fleet, name, inbox, tenant)
        line._ears.append(_Ear(line, f"{line._inbox}.*", "", line._inbox_arrived))
        line._client = await line._new_client(timeout)
        # These two belong to the connection, not to a supervisor: whoever has it ends them by `close`.
        loop = asyncio.get_running_loop()
        line._tasks = [
            loop.create_task(line._empty_outbox(), name=f"{name}.outbox"),
            loop.create_task(line._watch(), name=f"{name}.watch"),
        ]
        return line

    def endpoint(self, name: str) -> NatsBus:
        """Another endpoint on this connection."""
        counts = BusCounts()
        self._endpoints.append(counts)
        return NatsBus(self, name, counts)

    async def close(self) -> None:
        """Send what is waiting, within a second, and be gone."""
        if self._is_closing:
            return
        await self.settle(seconds(CLOSE_SECONDS))
        self._is_closing = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await _dispose(self._client)

    # For endpoints: the Line of bus/nats_endpoint.py.

    def send(self, subject: str, data: bytes, reply_to: str, counts: BusCounts) -> None:
        """Hand bytes to the client, in order: now, unless others wait already. Raises BadSubject."""
        if not self._outbox and self._hand_over(subject, data, reply_to, counts):
            return
        is_full = len(self._outbox) >= INBOX_MAX or self._outbox_bytes + len(data) > OUTBOX_BYTES_MAX
        if is_full or self._is_closing:
            counts.lost += 1
            return
        self._outbox.append(_Waiting(subject, data, reply_to, counts))
        self._outbox_bytes += len(data)
        self._to_send.set()

    def expect(self, answered: Answered) -> str:
        """A subject of our inbox that nobody else uses."""
        self._expected_count += 1
        subject = f"{self._inbox}.{self._expected_count}"
        self._expected[subject] = answered
        return subject

    def expect_no_more(self, subject: str) -> None:
        """Forget it; what still comes is dropped."""
        del self._expected[subject]

    async def open_ear(self, pattern: str, group: str, arrived: Arrived) -> "_Ear":
        """Hand over what arrives; returns when the server knows of it. Raises BusError after LISTEN_SPAN without one."""
        ear = _Ear(
            self, pattern, group, lambda message: arrived(message.subject, message.data, message.reply)
        )
        self._ears.append(ear)
        if not self._client.is_closed:  # Otherwise the watcher is about to subscribe for a new one.
            ear.open_on(self._client)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LISTEN_SPAN / SECOND
        # The server takes our commands in order, so it knew of the subscription when it sent the echo back.
        while not await self.echo(WATCH_SPAN):
            if loop.time() > deadline:
                await ear.close()
                raise BusError(f"the NATS server at {self._address()} cannot be reached; is it running?")
        return ear

    async def echo(self, timeout: Nanoseconds) -> bool:
        """Whether the server carries something from us to us in time. It does not wait behind the outbox."""
        loop = asyncio.get_running_loop()
        is_back: asyncio.Future[bool] = loop.create_future()

        def answered(data: bytes | None) -> None:
            if not is_back.done():
                is_back.set_result(data is not None)

        subject = self.expect(answered)
        timer = loop.call_later(timeout / SECOND, answered, None)
        try:
            while not self._hand_over(subject, b"", "", _NO_COUNTS) and not is_back.done():
                await asyncio.sleep(0.005)
            return await is_back
        finally:
            timer.cancel()
            self.expect_no_more(subject)

    async def settle(self, timeout: Nanoseconds) -> None:
        """Wait until the outbox is empty and what was handed over has reached the server, or the time is over."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout / SECOND
        while self._outbox and loop.time() < deadline:
            await asyncio.sleep(0.001)
        await self.echo(Nanoseconds(max(0, round((deadline - loop.time()) * SECOND))))

    def forget(self, counts: BusCounts) -> None:
        """An endpoint is gone."""
        self._endpoints = [one for one in self._endpoints if one is not counts]

    def deliver_raw(self, subject: str, data: bytes) -> None:
        """Send bytes, whatever they are, for tests."""
        self.send(subject, data, "", _NO_COUNTS)

    def close_ear(self, ear: "_Ear") -> None:
        """Hear nothing more through it."""
        self._ears = [one for one in self._ears if one is not ear]
        if ear.client is self._client:
            ear.shut()

    # The way out.

    def _hand_over(self, subject: str, data: bytes, reply_to: str, counts: BusCounts) -> bool:
        """Give bytes to the client now; False when it cannot take them. Raises BadSubject."""
        client = self._client
        if not client.is_connected or client.pending_data_size > CLIENT_BYTES_MAX:
            return False
        try:
            _step(client.publish(subject, data, reply_to))
        except MaxPayloadError:
            counts.lost += 1
            logger.warning(
                "message_larger_than_server_takes", connection=self.name, subject=subject, size=len(data)
            )
        except BadSubjectError as error:
            raise BadSubject(f"{subject!r} cannot be said to") from error
        except NatsError:
            return False
        return True

    async def _empty_outbox(self) -> None:
        while True:
            # 1. Nothing waits, mostly: `send` hands over by itself.
            await self._to_send.wait()
            # 2. Hand over in order. While the client takes nothing, look again soon; what it lacks is a socket with room.
            handed = 0
            while self._outbox:
                waiting = self._outbox[0]
                if not self._hand_over(*waiting):
                    await asyncio.sleep(0.001 if self._client.is_connected else 0.02)
                    continue
                self._outbox.popleft()
                self._outbox_bytes -= len(waiting.data)
                handed += 1
                if handed % YIELD_EVERY == 0:
                    await asyncio.sleep(0)
            self._to_send.clear()

    # The way in.

    def _inbox_arrived(self, message: Msg) -> None:
        answered = self._expected.get(message.subject)
        if answered is None:
            return  # Whoever asked has given up.
        is_nobody_there = bool(message.headers) and not message.data
        answered(None if is_nobody_there else message.data)

    # The client's life.

    async def _new_client(self, timeout: Nanoseconds) -> Client:
        """A connected client. Raises BusError."""
        client = Client()

        async def on_error(error: Exception) -> None:
            is_ordinary = isinstance(error, (OSError, StaleConnectionError))  # a server that is away or left
            tell = logger.debug if is_ordinary else logger.warning
            tell("nats_error", connection=self.name, problem=repr(error))
            if FORBIDDEN in str(error).lower():
                for counts in self._endpoints:
                    counts.forbidden += 1
            socket = client._transport  # noqa: SLF001  # the only way to it
            if not client.is_connected and socket is not None:
                # A server that lets us in no longer answers each try with this; its socket would stay open.
                socket.close()  # type: ignore[no-untyped-call]  # nats-py's

        async def on_break() -> None:
            self._on_break(client)

        async def on_return() -> None:
            self._on_return(client)

        async def on_end() -> None:
            if client is self._client:
                self._is_beyond_help.set()

        try:
            await asyncio.wait_for(
                client.connect(
                    self._url,
                    name=self.name,
                    error_cb=on_error,
                    disconnected_cb=on_break,
                    reconnected_cb=on_return,
                    closed_cb=on_end,
                    # A refusal is then raised, rather than tried again for ever.
                    allow_reconnect=False,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=self._pause,  # type: ignore[arg-type]  # it is slept, and a part of a second will do
                    ping_interval=PING_SECONDS,
                    max_outstanding_pings=2,
                    pending_size=CLIENT_BUFFER,
                ),
                timeout / SECOND,
            )
            self._check(client)
            for ear in self._ears:
                ear.open_on(client)
        except (NatsError, OSError, TimeoutError) as error:
            await _dispose(client)
            raise BusError(f"cannot connect to the NATS server at {self._address()}: {error!r}") from error
        except (BusError, asyncio.CancelledError):
            await _dispose(client)
            raise
        client.options["allow_reconnect"] = True
        return client

    def _check(self, client: Client) -> None:
        """Raises ServerTooOld, and BusError when the server takes less than our messages may have."""
        version = client.connected_server_version
        if (version.major, version.minor) < SERVER_VERSION_MIN:
            raise ServerTooOld(
                f"the NATS server at {self._address()} is version {version.major}.{version.minor}.{version.patch}; "
                f"Mizzen needs {SERVER_VERSION_MIN[0]}.{SERVER_VERSION_MIN[1]} or newer"
            )
        if client.max_payload < MESSAGE_BYTES_MAX:
            raise BusError(
                f"the NATS server at {self._address()} takes messages of {client.max_payload} bytes; "
                f"set its max_payload to {MESSAGE_BYTES_MAX} or more"
            )

    def _on_break(self, client: Client) -> None:
        if client is not self._client or self._is_closing:
            return
        logger.warning("bus_broken", connection=self.name)
        for counts in self._endpoints:
            counts.lost += 1

    def _on_return(self, client: Client) -> None:
        if client is not self._client:
            return
        logger.info("bus_back", connection=self.name)
        for counts in self._endpoints:
            counts.reconnects += 1

    async def _watch(self) -> None:
        """Replace the client when it has closed for good, or when nothing has come back for too long."""
        loop = asyncio.get_running_loop()
        echoed_at = loop.time()
        while True:
            await _first(self._is_beyond_help.wait(), WATCH_SPAN / SECOND)
            if not self._is_beyond_help.is_set():
                if await self.echo(WATCH_SPAN):
                    echoed_at = loop.time()
                    continue
                if loop.time() - echoed_at < REBUILD_AFTER / SECOND:
                    continue
            await self._rebuild()
            echoed_at = loop.time()

    async def _rebuild(self) -> None:
        """A new client in the place of the old one, with every ear; on failure the watcher comes again."""
        logger.warning("bus_rebuilt", connection=self.name)
        await _dispose(self._client)
        try:
            client = await self._new_client(CONNECT_SPAN)
        except BusError as error:
            logger.warning("bus_unreachable", connection=self.name, problem=str(error))
            await asyncio.sleep(self._pause)
            return
        self._client = client
        self._is_beyond_help.clear()
        self._on_return(client)

    def _address(self) -> str:
        """The url without what is secret in it."""
        return self._url.rpartition("@")[2].removeprefix("nats://")


async def bare_client(url: str) -> Client:
    """nats-py as it comes, for bench/bus.py to measure ourselves against."""
    client = Client()
    await client.connect(url)
    return client


class _Waiting(NamedTuple):
    """A message in the outbox."""

    subject: str
    data: bytes
    reply_to: str
    counts: BusCounts


class _Ear:
    """A subscription that outlives clients."""

    def __init__(self, line: NatsConnection, pattern: str, group: str, heard: Callable[[Msg], None]) -> None:
        self.pattern = pattern
        self.client: Client | None = None
        self._line = line
        self._group = group
        self._sink = _Sink(heard)
        self._subscription: NatsSubscription | None = None

    def open_on(self, client: Client) -> None:
        """Subscribe; a client that reconnects does so again by itself."""
        self.client = client
        self._subscription = _step(client.subscribe(self.pattern, self._group, future=self._sink))

    def shut(self) -> None:
        """Unsubscribe."""
        if self._subscription is None:
            return
        try:
            _step(self._subscription.unsubscribe())
        except NatsError:
            logger.debug("ear_shut_without_server", pattern=self.pattern)

    async def close(self) -> None:
        """Hear nothing more through it."""
        self._sink.is_open = False
        self._line.close_ear(self)


class _Sink(asyncio.Future[Msg]):
    """What nats-py puts each message of a subscription into. It hears, and is never done."""

    def __init__(self, heard: Callable[[Msg], None]) -> None:
        super().__init__()
        self.is_open = True
        self._heard = heard

    def set_result(self, result: Msg) -> None:
        """Hear. Whoever hears must not raise; if it does, that is told to the loop, and nobody's read loop dies of it."""
        if not self.is_open:
            return
        try:
            self._heard(result)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  # whatever a hearer did
            self.get_loop().call_exception_handler(
                {
                    "message": f"a hearer of {result.subject} raised",
                    "exception": error,
                }
            )


def _step(command: Coroutine[Any, Any, Result]) -> Result | None:
    """Run a coroutine of nats-py that has nothing to wait for: `publish`, `subscribe` or `unsubscribe` with room in the buffer.

    It cannot be cancelled in between, costs no task, and what it does is done on return. Its only reasons to wait are a full
    buffer, which CLIENT_BYTES_MAX keeps from happening, and a flusher task that has died. Then its bytes are in the socket's
    buffer already and it would wait for nothing but room, so it is let go, and returns None.
    """
    try:
        command.send(None)
    except StopIteration as end:
        result: Result = end.value
        return result
    command.close()
    return None


async def _first(waiting: Coroutine[Any, Any, object], timeout: float) -> None:
    """Wait for one thing, but not longer than this."""
    try:
        await asyncio.wait_for(waiting, timeout)
    except TimeoutError:
        return


async def _dispose(client: Client) -> None:
    """Close a client, in whatever state it is; nothing depends on how well that goes."""
    try:
        await asyncio.wait_for(client.close(), CLOSE_SECONDS)
    except Exception as error:  # noqa: BLE001  # its close raises whatever its socket does
        logger.debug("client_closed_badly", problem=repr(error))


_NO_COUNTS = BusCounts()
"""Where the connection's own echoes are counted: nowhere that is read."""

"""A way to the bus that can be cut: a small TCP proxy on loopback, one for each process, between it and the NATS server.

What is cut waits, as it would in a network that lets nothing through: nobody is told, and whoever waits long enough for an
answer gives up by itself. What TCP promises stays so: bytes are late, and neither lost, repeated nor out of order, while their
sender lives.
"""

import asyncio
import random
from collections import deque
from typing import cast

from msgspec import Struct

from bus.server import LOOPBACK

PENDING_BYTES_MAX = 1 << 20
"""Late bytes of one way of one connection; then the sender waits."""


class Delay(Struct, frozen=True):
    """What makes bytes late."""

    share: float
    seconds_max: float


class Way:
    """One direction of everything that goes through one proxy."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.cuts = 0
        """How many cut it."""
        self.delays: list[Delay] = []
        self.ends: list[_End] = []
        """Who sends this way, one for each connection."""

    def cut(self) -> None:
        """Let nothing pass any more."""
        self.cuts += 1
        self._tell()

    def heal(self) -> None:
        """Once nobody else cuts it, everything goes on, and what waited comes first."""
        self.cuts = max(0, self.cuts - 1)
        self._tell()

    def lose(self) -> None:
        """Whoever sends is gone with its machine, and so is what waits: the only bytes that TCP does not bring."""
        for end in list(self.ends):
            end.drop()

    def lateness(self) -> float:
        """Seconds by which the next bytes are late."""
        late = (delay for delay in self.delays if self.dice.random() < delay.share)
        return max((self.dice.uniform(0.0, delay.seconds_max) for delay in late), default=0.0)

    def _tell(self) -> None:
        for end in list(self.ends):
            end.go_on()


class _End(asyncio.Protocol):
    """One end of a connection: takes what is sent to us there, and hands it to the other end, now or later."""

    def __init__(self, way: Way) -> None:
        self.other: _End | None = None
        self._way = way
        self._loop = asyncio.get_running_loop()
        self.transport: asyncio.Transport | None = None
        self._waiting: deque[tuple[float, bytes]] = deque()
        """When it may go on, and what."""
        self._waiting_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self.is_full = False
        """Whether the other end takes nothing just now."""
        self._has_ended = False
        self._is_reading = True

    # As asyncio calls it.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's are, and do not say so.
        self._way.ends.append(self)
        self.go_on()

    def data_received(self, data: bytes) -> None:
        due = self._loop.time() + self._way.lateness()
        if self._waiting:
            due = max(due, self._waiting[-1][0])
        self._waiting.append((due, data))
        self._waiting_bytes += len(data)
        self.go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        self._has_ended = True
        self.go_on()

    def pause_writing(self) -> None:
        self._other_is_full(is_full=True)

    def resume_writing(self) -> None:
        self._other_is_full(is_full=False)

    # Ours.

    def go_on(self) -> None:
        """Hand over what may go on, and read more if there is room for it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        to = self.other.transport if self.other is not None else None
        if to is not None and not self._way.cuts:
            now = self._loop.time()
            while self._waiting and self._waiting[0][0] <= now:
                _, data = self._waiting.popleft()
                self._waiting_bytes -= len(data)
                if not to.is_closing():
                    to.write(data)
            if self._waiting:
                self._timer = self._loop.call_at(self._waiting[0][0], self.go_on)
            elif self._has_ended:
                to.close()  # After what it was handed.
        if self._has_ended:
            if not self._waiting and self in self._way.ends and not self._way.cuts:
                self._way.ends.remove(self)
        else:
            has_capacity = not self.is_full and self._waiting_bytes <= PENDING_BYTES_MAX
            self._read(is_to_read=to is not None and has_capacity and not self._way.cuts)

    def drop(self) -> None:
        """Be gone at once."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
        if self.transport is not None:
            self.transport.abort()

    def _read(self, *, is_to_read: bool) -> None:
        """Take more, or let it wait where it is."""
        transport = self.transport
        if transport is None or transport.is_closing() or is_to_read == self._is_reading:
            return
        self._is_reading = is_to_read
        if is_to_read:
            transport.resume_reading()
        else:
            transport.pause_reading()

    def _other_is_full(self, *, is_full: bool) -> None:
        """What the other end sends to this one has to wait."""
        if self.other is not None:
            self.other.is_full = is_full
            self.other.go_on()


class BusProxy:
    """Between one process and the bus."""

    def __init__(self, dice: random.Random) -> None:
        """`dice` draw delays."""
        self.said = Way(dice)
        """From the process to the bus."""
        self.heard = Way(dice)
        """From the bus to the process."""
        self.port = 0
        self._target = ("", 0)
        self._server: asyncio.Server | None = None
        self._dialling: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen on a port that the kernel chooses."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._arrived, LOOPBACK, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def lead_to(self, host: str, port: int) -> None:
        """Where the bus is, for whoever connects from now on."""
        self._target = (host, port)

    async def stop(self) -> None:
        """Let go of everything."""
        if self._server is not None:
            self._server.close()
        for task in list(self._dialling):
            task.cancel()
        for end in [*self.said.ends, *self.heard.ends]:
            end.drop()
        if self._server is not None:
            await self._server.wait_closed()

    def _arrived(self) -> _End:
        """The process connects: connect it through."""
        near, far = _End(self.said), _End(self.heard)
        task = asyncio.get_running_loop().create_task(self._connect_through(near, far), name="proxy/dial")
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)
        return near

    async def _connect_through(self, near: _End, far: _End) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: far, *self._target)
        except OSError:
            near.drop()  # There is no server: the process meets what it would meet without us.
            return
        near.other, far.other = far, near
        near.go_on()
        far.go_on()

"""An endpoint that is there before its connection is: users are named before the plane is up."""

from bus.errors import BusError
from bus.nats import NatsConnection
from bus.port import Address, Bus, BusCounts, Hear, Subscription
from core.codec import Parcel
from core.dispatch.context import NO_CONTEXT, Context
from core.messages.base import Message
from core.nouns.instant import Nanoseconds


class LateBus:
    """As bus/port.py promises, once it leads somewhere; before that there is no bus."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.counts = BusCounts()
        self.tenant = ""
        self._bus: Bus | None = None

    def lead_to(self, connection: NatsConnection) -> None:
        """From now on it is an endpoint of this connection."""
        self._bus = connection.endpoint(self.name)
        self.counts = self._bus.counts

    def say(self, message: Message, reply_to: str = "", context: Context = NO_CONTEXT) -> str:
        """As bus/port.py promises."""
        return self._there().say(message, reply_to, context)

    def pass_on_dead(self, parcel: Parcel) -> None:
        """As bus/port.py promises."""
        self._there().pass_on_dead(parcel)

    async def ask(self, message: Message, timeout: Nanoseconds) -> Message:
        """As bus/port.py promises."""
        return await self._there().ask(message, timeout)

    async def listen(self, address: Address, hear: Hear, group: str = "") -> Subscription:
        """As bus/port.py promises."""
        return await self._there().listen(address, hear, group)

    async def round_trip(self, timeout: Nanoseconds) -> bool:
        """As bus/port.py promises."""
        return await self._there().round_trip(timeout)

    async def close(self) -> None:
        """As bus/port.py promises."""
        if self._bus is not None:
            await self._bus.close()

    def _there(self) -> Bus:
        """Raises BusError."""
        if self._bus is None:
            raise BusError(f"{self.name} has no bus yet: its plane is not up")
        return self._bus

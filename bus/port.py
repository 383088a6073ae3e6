"""The bus as the rest of Mizzen knows it.

The promise of every implementation, held by tests/contracts/test_bus.py:

- **At least once for what is said again.** One message may be lost or repeated; nothing tells its sender.
- **In order per sender and subject key.** What one endpoint says to one subject arrives in the order in which it was said,
  except for what is lost; a repeat may come late. Nothing is promised between senders, or between subjects.
- **Never truncated.** A message over `MESSAGE_BYTES_MAX` raises `MessageTooLarge` in its sender and is not sent.
- **Never blocking.** `say` returns at once. What does not fit the bounded outbox is lost and counted.
- **Nothing dies of a message.** Bytes that no message of ours has go to the dead-letter subject and are counted.
"""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from core.codec import Parcel
from core.dispatch.context import NO_CONTEXT, Context
from core.messages.base import Message
from core.nouns.instant import Nanoseconds

Hear = Callable[[Parcel, str], None]
"""Called with a message and where its answer goes (empty: no answer is expected). Must not raise, must not wait."""


class Address(Struct, frozen=True):
    """What an endpoint listens to: all verbs of a noun within a scope."""

    noun: str
    scope: tuple[str, ...] = ()


class BusCounts(Struct):
    """What an endpoint can tell of itself, since its start."""

    said: int = 0
    heard: int = 0
    lost: int = 0
    """Known to be lost: the outbox was full, a slow hearer was dropped, a connection broke with bytes in flight. The log
    heals each; the count is a lower bound."""
    dead_letters: int = 0
    reconnects: int = 0
    forbidden: int = 0
    """Messages, and ears, that the server refused by its permissions. It names no endpoint: each of the connection counts them."""

    def losses(self) -> dict[str, int]:
        """Return what a unit's status tells of them, by the names in runtime/status/unit_status.py."""
        return {
            "lost": self.lost,
            "dead_letters": self.dead_letters,
            "reconnects": self.reconnects,
            "forbidden": self.forbidden,
        }


class Subscription(Protocol):
    """An ear that is open."""

    async def close(self) -> None:
        """Hear nothing more through it."""


class Bus(Protocol):
    """One endpoint: what one host, or one client, says and hears through."""

    name: str
    """The sender of all that it says."""
    counts: BusCounts
    tenant: str
    """With whose credentials it says it; empty: with the plane's own."""

    def say(self, message: Message, reply_to: str = "", context: Context = NO_CONTEXT) -> str:
        """Say one message, to its own subject, or to `reply_to` if it is an answer; returns its id. The context travels with it.

        Raises MessageTooLarge, BadSubject and NotForTenants, before anything is sent.
        """

    def pass_on_dead(self, parcel: Parcel) -> None:
        """Say a message that was heard and cannot be handled to the dead-letter subject, counted as a dead letter."""

    async def ask(self, message: Message, timeout: Nanoseconds) -> Message:
        """Say one message and wait for one answer.

        Raises NobodyListens at once when nobody is there, AskTimedOut, MessageTooLarge, BadSubject and NotForTenants.
        """

    async def listen(self, address: Address, hear: Hear, group: str = "") -> Subscription:
        """Hear all that is said to an address. Of the members of one group each message reaches one.

        Returns when whatever is said from now on will be heard.
        """

    async def round_trip(self, timeout: Nanoseconds) -> bool:
        """Whether the bus carries a message there and back in time."""

    async def close(self) -> None:
        """Send what is waiting, within a second, and be gone."""

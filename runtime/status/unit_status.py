"""The status of a unit, told every `STATUS_INTERVAL` and when an operator asks for it.

A count that has grown since the status before is a line at warning, so that no loss is silent.
"""

import os
import secrets
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Protocol

import structlog
from msgspec import Struct

from bus.catalogue import UNIT
from bus.port import Address, Bus
from core.codec import Parcel
from core.messages.units import AsideMessage, StatusWanted, UnitStatus
from core.nouns.instant import Instant, Nanoseconds, after
from core.nouns.limits import STATUS_INTERVAL, WORKER_STATUS_FACTOR
from runtime.clock import Clock
from runtime.wake import Wake

logger = structlog.get_logger()

GROWN_INTERVALS = 2
"""Of statuses, for which a count that grew is told as such."""
LIFE_VARIABLE = "MIZZEN_RESTARTS"
"""In a supervised process's environment: the number of its lives before this one."""
LAST_END_VARIABLE = "MIZZEN_LAST_END"
"""The same: how the life before this one ended."""

COUNTS = {
    "inbox_lost": "messages that did not fit the inbox",
    "unexpected": "messages of a type that the component does not hear",
    "put_aside": "messages not handled, because their like made the component fail",
    "not_said": "messages too large, or to a name that no subject can have",
    "lost": "messages lost with a broken connection or a full outbox",
    "dead_letters": "bytes that are no message",
    "forbidden": "messages that the NATS server refused by its permissions",
    "reconnects": "connections to the bus that broke and came back",
    "gaps": "reads of facts that were announced and not heard",
    "refused": "images and announcements of a wrong keeper",
    "asks_lost": "reads of the log, or of tasks' output, that did not fit an inbox",
    "unanswered": "reads of the log that could not be answered",
    "log_full": "batches that did not fit the disk",
    "units_not_kept": "statuses of units beyond those that the auditor keeps",
    "not_archived": "failed tries to archive old facts, or to delete those that are archived",
}
"""Every count of losses that a unit can tell, with its meaning."""


Losses = Callable[[], Mapping[str, int]]
"""Returns what was lost, dropped, refused or read again since the start, by the names in `COUNTS`."""


class Told(Protocol):
    """A part of a unit, as far as its status is concerned."""

    def losses(self) -> Mapping[str, int]:
        """Return what was lost, dropped, refused or read again since the start, by the names in `COUNTS`."""

    def behind(self) -> int:
        """Return the number of announced facts that are not folded yet."""

    def waiting(self) -> int:
        """Return the number of messages in the inbox."""

    def put_aside(self) -> tuple[AsideMessage, ...]:
        """Return the sorts of messages that are not handled."""

    def waits_for(self) -> str:
        """Return the operator's word for which the part waits, as a sentence; empty: none."""


class Beats(Protocol):
    """The life line of the process (runtime/supervision/life_line.py), as far as lateness is concerned."""

    beats: int
    """Since its start."""

    def worst_late(self, count: int) -> Nanoseconds:
        """Return by how much the loop was late for one of the newest beats, so many of them, at worst."""


class Identity(Struct, frozen=True):
    """What a unit tells of itself in each status."""

    unit: str
    build: str
    host: str
    life: str
    restarts: int = 0
    last_end: str = ""


def identity_of(unit: str, build: str, environment: Mapping[str, str] | None = None) -> Identity:
    """Return the identity of a unit that starts now, in this process and under this supervisor."""
    variables = os.environ if environment is None else environment
    restarts = variables.get(LIFE_VARIABLE, "")
    return Identity(
        unit,
        build,
        socket.gethostname(),
        secrets.token_hex(4),
        int(restarts) if restarts.isdecimal() else 0,
        variables.get(LAST_END_VARIABLE, ""),
    )


class StatusReporter:
    """Tells the status of one life of one unit."""

    def __init__(
        self,
        identity: Identity,
        part: Told,
        bus: Bus,
        clock: Clock,
        *,
        is_worker: bool = False,
        interval: Nanoseconds = STATUS_INTERVAL,
        beside: Losses | None = None,
        life_line: Beats | None = None,
    ) -> None:
        """`interval` is the time between two statuses that are told unasked; a worker's is six times as long. `beside` gives the losses
        of what serves beside the part over a connection of its own. `life_line` beats in the same event loop; without one, the loop is known
        to be late only when a status is.
        """
        self._identity = identity
        self._part = part
        self._bus = bus
        self._clock = clock
        self._wake = Wake(clock)
        self._interval = Nanoseconds(interval * WORKER_STATUS_FACTOR) if is_worker else interval
        self._is_worker = is_worker
        self._beside = beside
        self._began = clock.now()
        self._told: dict[str, int] = {}
        self._grew_at: dict[str, Instant] = {}
        self._late = 0
        self._life_line = life_line
        self._beats = 0
        """Of the life line, those whose lateness was told."""

    async def run(self) -> None:
        """Tell the status at once, and then for ever. A worker tells unasked only: there may be 100,000 of them."""
        if not self._is_worker:
            await self._bus.listen(Address(UNIT.noun), self._hear)
        next_at = self._clock.now()
        while True:
            now = self._clock.now()
            if now >= next_at:
                self._late = max(self._late, now - next_at)
                next_at = after(now, self._interval)
            self._tell(now)
            await self._wake.wait(next_at)

    def close(self) -> None:
        """Let go of the timer."""
        self._wake.close()

    def _hear(self, parcel: Parcel, reply_to: str) -> None:
        if isinstance(parcel.message, StatusWanted):
            self._wake.ring()

    def _tell(self, now: Instant) -> None:
        identity, part = self._identity, self._part
        counts = {name: count for name, count in self._losses().items() if count}
        for name, count in counts.items():
            if grown := count - self._told.get(name, 0):
                logger.warning("count_grew", unit=identity.unit, count=name, by=grown, now=count)
                self._grew_at[name] = now
        self._told = counts
        of_late = tuple(
            name
            for name, at in sorted(self._grew_at.items())
            if now <= after(at, Nanoseconds(GROWN_INTERVALS * self._interval))
        )
        self._bus.say(
            UnitStatus(
                unit=identity.unit,
                host=identity.host,
                build=identity.build,
                life=identity.life,
                up_for=now - self._began,
                again_in=self._interval,
                restarts=identity.restarts,
                last_end=identity.last_end,
                behind=part.behind(),
                waiting=part.waiting(),
                late=max(self._late, self._worst_beat()),
                counts=counts,
                grown=of_late,
                aside=part.put_aside(),
                waits_for=part.waits_for(),
            )
        )
        self._late = 0

    def _worst_beat(self) -> Nanoseconds:
        """Return by how much a beat was late, at worst, since the status before."""
        if self._life_line is None:
            return Nanoseconds(0)
        told, self._beats = self._beats, self._life_line.beats
        return self._life_line.worst_late(self._beats - told)

    def _losses(self) -> dict[str, int]:
        losses = Counter({**self._part.losses(), **self._bus.counts.losses()})
        if self._beside is not None:
            losses.update(self._beside())
        return losses

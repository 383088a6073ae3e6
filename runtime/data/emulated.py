"""The doer of a region's data service in an emulated world: bytes over rate, on the clock that is handed in.

A copy's bytes are a function of its start, its rate, and of the times at which faults came and went. The region's disk, and how far each
copy is, outlive the doer (runtime/data/emulated_world.py); copies move only while a life of the service is attached, as the child
processes of a real service die with it.
"""

from msgspec import Struct

from core.component import Effect
from core.effects import CopyData, DropData, ForgetCopy, HashData
from core.messages.base import Message
from core.messages.copies import CopyChanged, DataDropped, DataHashed
from core.nouns.data import CopyFailure
from core.nouns.ids import RegionName
from core.nouns.instant import SECOND, Instant, Nanoseconds, after, earliest
from core.nouns.limits import COPY_REPORT_INTERVAL
from runtime.clock import Clock
from runtime.data.emulated_world import Content, DataWorld, Partial
from runtime.effects import Done
from runtime.wake import Wake


class Moving(Struct):
    """A copy under way."""

    order: CopyData
    partial: Partial
    last: int
    """Bytes after which the copy arrives, or is refused as too large."""
    since: Instant
    """When `partial` was written."""
    reports_at: Instant
    rate: int = 0
    """Bytes a second since then."""

    def moved(self, now: Instant) -> int:
        """Return the bytes that are there."""
        return min(self.last, self.partial.moved + self.rate * (now - self.since) // SECOND)

    @property
    def ends_at(self) -> Instant | None:
        """Return when the last byte is there; None while nothing moves."""
        left = self.last - self.partial.moved
        if left <= 0:
            return self.since
        return after(self.since, Nanoseconds(-(-left * SECOND // self.rate))) if self.rate else None


class EmulatedData:
    """The datasets of one region, emulated."""

    def __init__(
        self,
        region: RegionName,
        world: DataWorld,
        clock: Clock,
        report_interval: Nanoseconds = COPY_REPORT_INTERVAL,
    ) -> None:
        self.region = region
        self._world = world
        self._disk = world.disk(region)
        self._clock = clock
        self._wake = Wake(clock)
        self._report_interval = report_interval
        self._done: Done | None = None
        self._moving: dict[int, Moving] = {}
        """By the order's number."""
        world.serve(region, self)

    # Doer.

    def attach(self, done: Done) -> None:
        """A service has just started, and will ask for all that the log orders."""
        self._done = done
        self._world.serve(self.region, self)

    def detach(self) -> None:
        """The service was killed, and its copies stop; the disk keeps how far they were."""
        self.stop()
        self._done = None

    def begin(self, effect: Effect) -> None:
        """Hash and delete at once; let a copy move from now on."""
        now = self._clock.now()
        match effect:
            case CopyData():
                self._copy(effect, now)
            case ForgetCopy(copy):
                self._moving.pop(copy, None)
                self._disk.incoming.pop(copy, None)
            case HashData(copy, dataset, size):
                found = self._world.content(self.region, dataset, size or None)
                if found is None:
                    self._tell(DataHashed(copy, dataset, "", 0, CopyFailure.SOURCE_MISSING))
                else:
                    self._tell(DataHashed(copy, dataset, found.hash, found.bytes))
            case DropData(dataset):
                self._world.take_away(self.region, dataset)
                self._tell(DataDropped(dataset))
            case _:
                raise AssertionError(effect)
        self._wake.ring()

    async def run(self) -> None:
        """Let copies move, arrive and be told of, for ever."""
        while True:
            await self._wake.wait(self.catch_up(self._clock.now()))

    def close(self) -> None:
        """Stop all copies, and let go of the timer."""
        self.stop()
        self._wake.close()

    # Mover.

    def stop(self) -> None:
        """Move nothing any more; the disk keeps how far copies are."""
        self.settle()
        self._moving.clear()

    def settle(self) -> None:
        """Write down how far copies are."""
        now = self._clock.now()
        for moving in self._moving.values():
            moving.partial.moved, moving.since = moving.moved(now), now

    def look_again(self) -> None:
        """Let copies go on at the rates that they have now, or fail if the disk is full."""
        for moving in list(self._moving.values()):
            if self._disk.is_full:
                self._end(moving.order, moving.partial.moved, CopyFailure.DISK_FULL)
            else:
                moving.rate = self._rate_of(moving.order)
        self._wake.ring()

    # Copies.

    def catch_up(self, now: Instant) -> Instant | None:
        """Let all arrive and be told of that is due, and return when the next is."""
        arrived = [
            (end, copy)
            for copy, moving in self._moving.items()
            if (end := moving.ends_at) is not None and end <= now
        ]
        for _, copy in sorted(arrived):
            self._arrive(self._moving[copy])
        due: Instant | None = None
        for copy, moving in sorted(self._moving.items()):
            if moving.reports_at <= now:
                moving.reports_at = after(now, self._report_interval)
                self._tell(CopyChanged(copy, moving.moved(now)))
            due = earliest(due, moving.ends_at, moving.reports_at)
        return due

    def _copy(self, order: CopyData, now: Instant) -> None:
        if order.copy in self._moving:
            return
        here = self._disk.contents.get(order.dataset)
        if here is not None and here.hash != order.hash and self._disk.made.get(order.dataset) == here.hash:
            # Made for an order that was ended: the log says that no copy is here.
            self._world.take_away(self.region, order.dataset)
            here = None
        source = self._world.content(order.source, order.dataset, order.bytes)
        if here is not None:
            self._end(order, here.bytes, self._against(order, here))
        elif source is None:
            self._end(order, 0, CopyFailure.SOURCE_MISSING)
        elif self._disk.is_full:
            self._end(order, 0, CopyFailure.DISK_FULL)
        else:
            partial = self._disk.incoming.setdefault(order.copy, Partial(order.dataset))
            self._moving[order.copy] = Moving(
                order,
                partial,
                min(source.bytes, order.bytes),
                now,
                after(now, self._report_interval),
                self._rate_of(order),
            )

    def _arrive(self, moving: Moving) -> None:
        """Verify a copy whose last byte is there, and have the disk hold it."""
        order = moving.order
        source = self._world.content(order.source, order.dataset, order.bytes)
        here = self._disk.contents.get(order.dataset)
        if here is not None:
            failure = self._against(order, here)  # An operator put it there meanwhile.
        elif source is None:
            failure = CopyFailure.SOURCE_MISSING
        elif source.bytes > order.bytes:
            failure = CopyFailure.SIZE_DIFFERS
        elif self._world.arrives_corrupt(order.source, self.region, order.dataset):
            failure = CopyFailure.HASH_DIFFERS
        else:
            failure = self._against(order, source)
            if failure is None:
                self._disk.contents[order.dataset] = source
                self._disk.made[order.dataset] = source.hash
        self._end(order, moving.last, failure)

    def _end(self, order: CopyData, moved: int, failure: CopyFailure | None) -> None:
        self._moving.pop(order.copy, None)
        self._disk.incoming.pop(order.copy, None)
        self._tell(CopyChanged(order.copy, moved, is_over=True, reason=failure or ""))

    def _against(self, order: CopyData, content: Content) -> CopyFailure | None:
        return CopyFailure.HASH_DIFFERS if content.hash != order.hash else None

    def _rate_of(self, order: CopyData) -> int:
        return self._world.rate_over(order.source, self.region, order.rate)

    def _tell(self, message: Message) -> None:
        if self._done is not None:
            self._done(message)

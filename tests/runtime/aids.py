"""The smallest keeper and the smallest follower, and a place in virtual time to run their hosts in."""

import asyncio
import base64
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from msgspec import Struct

from bus.errors import BusError
from bus.port import Bus
from bus.simulated import SimulatedNetwork
from bus.simulated_endpoint import SimulatedBus
from core.component import NOTHING, Component, Decision, Effect, Follow, ImageAdopted, Images
from core.effects import KeepFence
from core.events.queue import RegionAdded
from core.fact import NO_LOG, Fact, Note
from core.images import GlobalImage, Image
from core.messages.auditor import ShowAudit
from core.messages.base import Envelope, LogHeard, LogSilent, Message, Woken
from core.messages.broker import StopAttempt
from core.messages.queue import (
    Acknowledged,
    CancelWorkload,
    HoldWorkload,
    ReleaseWorkload,
    RequeueWorkload,
    ShowWorkload,
    WorkloadShown,
)
from core.messages.workers import TasksFound
from core.nouns.dispatch import DEFAULT_POLICY, DispatchSettings
from core.nouns.ids import GLOBAL_LOG, LogName, RegionName, WorkloadId
from core.nouns.instant import MILLISECOND, SECOND, Instant, Nanoseconds, after, seconds
from core.nouns.workload import EndCause
from runtime.clock import EPOCH, Clock
from runtime.effects import Doer
from runtime.host import Host
from runtime.images import load_image
from runtime.keeping.kept import Kept
from runtime.reader import Reader
from runtime.status.put_aside import Suspects
from runtime.virtual_loop import VirtualLoop, run_virtual
from store.memory import MemoryStore
from store.memory_disk import DiskFile, Fate, MemoryDisk
from store.port import Log, LogStore

FLEET = "fleet"
START = Instant(1_767_225_600 * SECOND)
MOMENT = Nanoseconds(20 * MILLISECOND)
"""Longer than any message is on its way."""
SYNC = Nanoseconds(MILLISECOND)
ASK = seconds(2)


# What is said to the counter, in words that the bus knows already.


def count(name: str) -> Message:
    """Count this name, once: one fact, an answer with its number, a report, and an effect."""
    return CancelWorkload(WorkloadId(name))


def how_many(name: str = "") -> Message:
    """How many are counted? An answer without a fact."""
    return ShowWorkload(WorkloadId(name))


def count_many(name: str, many: int) -> Message:
    """Count so many names in one decision."""
    return HoldWorkload(WorkloadId(name), many)


def large_fact(size: int) -> Message:
    """Count a name of so many bytes, which nothing makes shorter."""
    return ReleaseWorkload(WorkloadId("large"), size)


def large_answer(size: int) -> Message:
    """Answer with so many bytes."""
    return RequeueWorkload(WorkloadId("large"), size)


class DueSet(Note, frozen=True):
    """The counter is to be woken then."""

    at: Instant | None


class WokenAt(Note, frozen=True):
    """The counter was woken."""


class CounterState:
    """The names, and when it was woken."""

    def __init__(self, image: GlobalImage) -> None:
        self.image = image
        self.sequence = 0
        self.due_at: Instant | None = None
        self.woken: list[Instant] = []
        self.outcomes: list[int] = []

    @property
    def names(self) -> list[str]:
        """In the order counted."""
        return list(self.image.regions.sequences)


class Counter:
    """Keeps the log `global` and counts names in it."""

    name = "queue"
    noun = "queue"
    scope: tuple[str, ...] = ()
    keeps: LogName | None = GLOBAL_LOG
    hears: tuple[type[Message], ...] = (
        CancelWorkload,
        ShowWorkload,
        HoldWorkload,
        ReleaseWorkload,
        RequeueWorkload,
    )

    def __init__(self, has_effects: bool = False, follows: tuple[Follow, ...] = ()) -> None:
        self.has_effects = has_effects
        self.follows = follows
        self.stays_due = 0
        """How often it is still due after it was woken."""

    def initial(self, images: Images) -> CounterState:
        own = images.own
        assert isinstance(own, GlobalImage)
        return CounterState(own)

    def decide(self, state: CounterState, envelope: Envelope) -> Decision:
        match envelope.message:
            case CancelWorkload(workload):
                return self._count(state, workload)
            case ShowWorkload(workload):
                return Decision(messages=(Acknowledged(workload, len(state.names)),))
            case HoldWorkload(workload, many):
                events = tuple(RegionAdded(RegionName(f"{workload}-{index}")) for index in range(many))
                return Decision(events, (Acknowledged(workload, many),))
            case ReleaseWorkload(workload, size):
                return Decision((RegionAdded(RegionName(_noise(size))),), (Acknowledged(workload),))
            case RequeueWorkload(workload, size):
                return Decision(messages=(_shown(workload, size),))
            case Woken():
                still = None if len(state.woken) >= self.stays_due else state.due_at
                return Decision(events=(WokenAt(), DueSet(still)))
            case TasksFound(sequence=sequence):
                return Decision(events=(DeedDone(sequence),))
        return NOTHING

    def _count(self, state: CounterState, workload: WorkloadId) -> Decision:
        names = state.names
        if workload in names:
            return Decision(messages=(Acknowledged(workload, names.index(workload) + 1),))
        number = len(names) + 1
        report = StopAttempt(RegionName("r"), workload, number, EndCause.CANCELLED)
        effects = (KeepFence(number),) if self.has_effects else ()
        return Decision(
            (RegionAdded(RegionName(workload)),), (Acknowledged(workload, number), report), effects
        )

    def evolve(self, state: CounterState, fact: Fact) -> CounterState:
        match fact.event:
            case DueSet(at):
                state.due_at = at
            case WokenAt():
                state.woken.append(fact.at)
            case DeedDone(number):
                state.outcomes.append(number)
            case _ if fact.log == GLOBAL_LOG:
                state.image.fold(fact)
                state.sequence = fact.sequence
        return state

    def due(self, state: CounterState) -> Instant | None:
        return state.due_at


class DeedDone(Note, frozen=True):
    """An effect came back."""

    number: int


def _noise(size: int) -> str:
    """Text of so many bytes that cannot be compressed by more than a quarter, the same for the same size."""
    data = Random(size).randbytes(size)
    return base64.b64encode(data).decode()[:size]


def _shown(workload: WorkloadId, size: int) -> WorkloadShown:
    return WorkloadShown(workload, "x" * size, "", "", "", epoch=0, region="", hold_revision=0, is_held=False)


class WatcherState:
    """What was followed, and how it came."""

    def __init__(self, at: Instant) -> None:
        self.began_at = at
        self.images: dict[LogName, Image] = {}
        self.sequences: dict[LogName, int] = {}
        self.taken: list[int] = []
        """Sequences of facts, in the order in which they came."""
        self.adopted: list[tuple[LogName, int]] = []
        """Images that came after the start."""
        self.notices: list[tuple[LogName, str]] = []

    @property
    def names(self) -> list[str]:
        """As the counter's."""
        image = self.images[GLOBAL_LOG]
        assert isinstance(image, GlobalImage)
        return list(image.regions.sequences)


class NoticeHeard(Note, frozen=True):
    """A followed log fell silent, or is heard."""

    log: LogName
    word: str


class Watcher:
    """Follows logs and decides nothing."""

    name = "auditor"
    noun = "auditor"
    scope: tuple[str, ...] = ()
    keeps: LogName | None = None
    hears: tuple[type[Message], ...] = (ShowAudit,)

    def __init__(self, *follows: Follow) -> None:
        self.follows = follows or (Follow(GLOBAL_LOG, ("regions",)),)

    def initial(self, images: Images) -> WatcherState:
        state = WatcherState(images.at)
        for log, (image, sequence) in images.followed.items():
            state.images[log], state.sequences[log] = image, sequence
        return state

    def decide(self, state: WatcherState, envelope: Envelope) -> Decision:
        match envelope.message:
            case LogSilent(log):
                return Decision(events=(NoticeHeard(log, "silent"),))
            case LogHeard(log):
                return Decision(events=(NoticeHeard(log, "heard"),))
        return NOTHING

    def evolve(self, state: WatcherState, fact: Fact) -> WatcherState:
        if fact.log != NO_LOG:
            state.images[fact.log].fold(fact)
            state.sequences[fact.log] = fact.sequence
            state.taken.append(fact.sequence)
            return state
        match fact.event:
            case NoticeHeard(log, word):
                state.notices.append((log, word))
            case ImageAdopted(log, image, sequence):
                state.images[log], state.sequences[log] = image, sequence
                state.adopted.append((log, sequence))
        return state

    def due(self, state: WatcherState) -> Instant | None:
        return None


class Running:
    """A host, its tasks, and its place on the bus."""

    def __init__(self, loop: VirtualLoop, host: Host[Any], bus: SimulatedBus) -> None:
        self.host = host
        self.bus = bus
        self.failure: BaseException | None = None
        self._tasks = [loop.create_task(task, name=name) for name, task in host.tasks()]
        for task in self._tasks:
            task.add_done_callback(self._ended)

    @property
    def counter(self) -> CounterState:
        """The state of a counter."""
        assert isinstance(self.host.state, CounterState)
        return self.host.state

    @property
    def watcher(self) -> WatcherState:
        """The state of a watcher."""
        assert isinstance(self.host.state, WatcherState)
        return self.host.state

    def kill(self) -> None:
        """As kill -9 does: nothing more is said, nothing more is done."""
        self.bus.crash()
        for task in self._tasks:
            task.cancel()
        self.host.close()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """The first failure takes the whole process along."""
        if not task.cancelled() and task.exception() is not None and self.failure is None:
            self.failure = task.exception()
            self.kill()


class Place:
    """A network, a disk, and time."""

    policy = DEFAULT_POLICY
    """By which mailboxes of keepers go."""

    def __init__(self, sync: Nanoseconds = SYNC) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        self.sync = sync
        """How long the disk takes to make a batch durable."""
        self.network = SimulatedNetwork(Random(7), loop, FLEET)
        self.disk = MemoryDisk()
        self.store: LogStore = MemoryStore(self.disk, self._sync)
        self.client = self.network.endpoint("client")
        self.log_ids = 0
        self.wall_offset = Nanoseconds(0)
        """By how much the wall clock is wrong."""
        self.during_sync: Callable[[], None] = lambda: None
        """Called when a batch is written and not yet durable."""

    async def _sync(self) -> None:
        await self.loop.sleep_ns(Nanoseconds(self.sync // 2))
        self.during_sync()
        await self.loop.sleep_ns(Nanoseconds(self.sync - self.sync // 2))

    def clock(self, not_before: Instant = EPOCH) -> Clock:
        """One for a host or a reader."""
        return Clock(self.loop, after(self.loop.now_ns(), self.wall_offset), not_before)

    async def keep(
        self,
        component: Component[Any] | None = None,
        doer: Doer | None = None,
        suspects: Suspects | None = None,
    ) -> Running:
        """Start a keeper of the log `global`, a counter if nothing else is named, and give it a moment."""
        host, bus = await self.host(component or Counter(), doer, suspects=suspects)
        running = Running(self.loop, host, bus)
        await self.moment()
        return running

    async def host(
        self,
        component: Component[Any],
        doer: Doer | None = None,
        around_log: Callable[[Log], Log] = lambda log: log,
        around_bus: Callable[[Bus], Bus] = lambda bus: bus,
        suspects: Suspects | None = None,
    ) -> tuple[Host[Any], SimulatedBus]:
        """Make a keeper's host, with whatever is to be put around its log and its endpoint."""
        bus = self.network.endpoint(component.name)
        self.log_ids += 1
        log = await self.store.open(GLOBAL_LOG, f"log-{self.log_ids}")
        reader = await self.store.reader(GLOBAL_LOG)
        image, head, _ = await load_image(reader, GLOBAL_LOG)
        last = await reader.read(head.sequence, 1, 1) if head.sequence else None
        clock = self.clock(Instant(last.rows[0].at) if last else EPOCH)
        kept = Kept(around_log(log), image, FLEET, "test")
        host = Host(component, around_bus(bus), clock, kept, doer, suspects=suspects)
        host.mailbox.use(DispatchSettings(self.policy), 1)
        await host.prepare()
        return host, bus

    def follow(self, component: Component[Any] | None = None) -> Running:
        """Start a follower."""
        component = component or Watcher()
        bus = self.network.endpoint(component.name)
        return Running(self.loop, Host(component, bus, self.clock()), bus)

    async def serve(self, store: LogStore | None = None, name: str = "reader.global") -> "Serving":
        """Start the log's reader."""
        bus = self.network.endpoint(name)
        reader = Reader(GLOBAL_LOG, await (store or self.store).reader(GLOBAL_LOG), bus, self.clock())
        serving = Serving(self.loop, reader, bus)
        await self.moment()
        return serving

    def crash(self, keeper: Running, fate: Fate = Fate.LOST) -> None:
        """The keeper's machine stops: the process is gone, and what was not synced has its fate."""
        keeper.kill()
        self.disk.crash(fate)

    async def ask(self, message: Message, timeout: Nanoseconds = ASK) -> Message:
        """One question, one answer."""
        return await self.client.ask(message, timeout)

    async def insist(self, message: Message) -> Message:
        """Ask until there is an answer, as any client does."""
        for _ in range(100):
            try:
                return await self.client.ask(message, ASK)
            except BusError:
                await self.sleep(0.1)
        raise AssertionError(f"nobody answers {message}")

    async def sleep(self, span: float) -> None:
        """Let so many seconds pass."""
        await self.loop.sleep_ns(seconds(span))

    async def moment(self) -> None:
        """Let everything arrive that was said."""
        await self.loop.sleep_ns(MOMENT)

    async def until(self, holds: Callable[[], bool], patience: float = 60) -> None:
        """Wait until something holds; fail when it does not in time."""
        late = after(self.loop.now_ns(), seconds(patience))
        while not holds():
            assert self.loop.now_ns() < late, "it does not come to hold"
            await self.loop.sleep_ns(Nanoseconds(MILLISECOND))

    @property
    def file(self) -> DiskFile:
        """The log's bytes."""
        file = self.disk.file(GLOBAL_LOG)
        assert file is not None
        return file

    @property
    def durable(self) -> int:
        """Facts that are durable."""
        file = self.disk.file(GLOBAL_LOG)
        return file.durable if file else 0

    async def folded(self) -> GlobalImage:
        """What the log says."""
        reader = await self.store.reader(GLOBAL_LOG)
        image, _, _ = await load_image(reader, GLOBAL_LOG)
        assert isinstance(image, GlobalImage)
        return image


class Serving:
    """A reader that runs."""

    def __init__(self, loop: VirtualLoop, reader: Reader, bus: SimulatedBus) -> None:
        self.reader, self.bus = reader, bus
        self._tasks = [loop.create_task(task, name=name) for name, task in reader.tasks()]

    def kill(self) -> None:
        """As kill -9 does."""
        self.bus.crash()
        for task in self._tasks:
            task.cancel()
        self.reader.close()


class Deed(Struct, frozen=True):
    """One effect, as it was begun."""

    effect: Effect
    durable: int
    """Facts that were durable then."""


class Deeds:
    """A doer: remembers what was begun and says it is done a moment later."""

    def __init__(self, place: Place) -> None:
        self.begun: list[Deed] = []
        self._place = place
        self._done: Callable[[Message], None] | None = None

    def attach(self, done: Callable[[Message], None]) -> None:
        self._done = done

    def begin(self, effect: Effect) -> None:
        assert isinstance(effect, KeepFence)
        self.begun.append(Deed(effect, self._place.durable))
        assert self._done is not None
        self._place.loop.call_later(0.01, self._done, TasksFound((), effect.sequence, 0))


def virtual(body: Callable[[Place], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """A test whose body runs in virtual time."""

    def test() -> None:
        in_virtual_time(body)

    test.__name__ = test.__qualname__ = getattr(body, "__name__", "test")
    test.__doc__ = body.__doc__
    test.__module__ = body.__module__
    return test


def in_virtual_time(body: Callable[[Place], Coroutine[Any, Any, None]]) -> None:
    """Run a body in a place of its own."""

    async def main() -> None:
        await body(Place())

    run_virtual(main(), START)


def number_of(answer: Message) -> int:
    """What an acknowledgement says."""
    assert isinstance(answer, Acknowledged), answer
    return answer.revision

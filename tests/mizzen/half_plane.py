"""All of a plane that answers users, and nothing that runs tasks: queue, one region's store and task control, and their readers.

What happened before is written into the logs by hand; what is asked of it then is judged by the real components.
"""

from collections.abc import Sequence
from typing import Any

from components.allocation_agent.component import AllocationAgent
from components.job_queue.component import JobQueue
from components.placement_store.component import PlacementStore
from components.region_broker.component import RegionBroker
from components.task_control.component import TaskControl
from core.component import Component
from core.events.queue import RegionAdded, WorkloadAwarded, WorkloadBound
from core.fact import Event, Fact
from core.images import GlobalImage, RegionImage
from core.nouns.ids import GLOBAL_LOG, AgentName, LogName
from core.nouns.instant import Instant
from core.nouns.workload import WorkloadSpec
from runtime.host import Host
from runtime.images import load_image
from runtime.keeping.kept import Kept
from runtime.reader import Reader
from store.rows import facts_of, row_of
from tests.builders import EU, EU_LOG, attempt, opened, submitted
from tests.runtime.aids import FLEET, Place, Running, Serving


class HalfPlane:
    """It, and what its logs have come to."""

    def __init__(self, place: Place, readers: dict[LogName, Serving], control: Running) -> None:
        self.place = place
        self.bus = place.client
        self.readers = readers
        self.control = control

    def now(self) -> Instant:
        """The wall clock of whoever asks."""
        return Instant(self.place.loop.now_ns())

    async def image(self, log: LogName) -> Any:  # Any: a GlobalImage or a RegionImage
        """Folded from its log."""
        image, _, _ = await load_image(await self.place.store.reader(log), log)
        assert isinstance(image, GlobalImage | RegionImage)
        return image

    async def events(self, log: LogName, kind: type[Event]) -> list[Any]:  # Any: events of that sort
        """Those of one sort."""
        reader = await self.place.store.reader(log)
        page = await reader.read(1, 10_000, 1 << 30)
        return [fact.event for fact in facts_of(log, page.rows) if isinstance(fact.event, kind)]


async def half_plane(
    place: Place,
    region: Sequence[Event] = (),
    *queue: Event,
    spec: WorkloadSpec | None = None,
    agents: int = 0,
) -> HalfPlane:
    """Workload w-1 was submitted so, and these things happened in the queue's log and in the region's.

    agents   so many, and a broker, are there too
    """
    readers: dict[LogName, Serving] = {}
    begun = (opened(), RegionAdded(EU), submitted(1, spec), *queue)
    for log, events in ((GLOBAL_LOG, begun), (EU_LOG, (opened(), *region))):
        keeper = await place.store.open(log, "log")
        at = Instant(place.loop.now_ns())
        facts = [Fact(log, number, at, "cause", "actor", event, at) for number, event in enumerate(events, 1)]
        await keeper.append([row_of(fact) for fact in facts], 1)
        await keeper.close()
        bus = place.network.endpoint(f"reader.{log}")
        reader = Reader(log, await place.store.reader(log), bus, place.clock())
        readers[log] = Serving(place.loop, reader, bus)
    for component, log in ((JobQueue((EU,)), GLOBAL_LOG), (PlacementStore(EU), EU_LOG)):
        await _keep(place, component, log)
    control = place.follow(TaskControl(EU))
    if agents:
        place.follow(RegionBroker(EU))
        for number in range(agents):
            place.follow(AllocationAgent(EU, AgentName(f"a{number}")))
    await place.sleep(1)
    return HalfPlane(place, readers, control)


def awarded(epoch: int = 1) -> tuple[Event, ...]:
    """The region has it, and its gang is up."""
    award = WorkloadAwarded(attempt()[0], epoch, EU, 0, ())
    return award, WorkloadBound(attempt()[0], epoch, EU, 2)


async def _keep(place: Place, component: Component[Any], log: LogName) -> None:  # Any: its state
    bus = place.network.endpoint(component.name)
    kept_log = await place.store.open(log, "log")
    image, _, _ = await load_image(await place.store.reader(log), log)
    clock = place.clock(Instant(place.loop.now_ns()))
    host = Host(component, bus, clock, Kept(kept_log, image, FLEET, "test"))
    await host.prepare()
    Running(place.loop, host, bus)
    await place.moment()

"""What the training programs of a live run tell of themselves: loss by step, the data read, the step at which each
attempt resumed, and where it left off.
"""

import re
from collections.abc import Sequence

from msgspec import Struct, field

from bus.errors import BusError
from core.messages.output import OutputPage, ReadOutput
from core.messages.queue import ListedWorkload
from core.nouns.ids import RegionName, WorkerName, WorkloadId
from core.nouns.instant import Nanoseconds, seconds
from runtime.wiring import Plan
from scenarios.users import Users

ASK: Nanoseconds = seconds(2)
OUTPUT_BYTES = 256 * 1024
LOSS = re.compile(rb"^step (\d+) loss ([0-9.]+)", re.MULTILINE)
RESUMED = re.compile(rb"^resumed at step (\d+)", re.MULTILINE)
READ = re.compile(rb"^data (\S+): (\d+) bytes", re.MULTILINE)
LEFT = re.compile(rb"^leaving at step (\d+)", re.MULTILINE)


class Point(Struct, frozen=True):
    """What a training program said of itself."""

    epoch: int
    step: int
    loss: float


class GangLook(Struct):
    """One job at one moment, and all that its rank 0 wrote so far."""

    name: str
    row: ListedWorkload | None = None
    """As it was last seen among what has not ended; None: it was not seen yet."""
    has_ended: bool = False
    curve: list[Point] = field(default_factory=list)
    resumed: dict[int, int] = field(default_factory=dict)
    """The step at which the program said that it resumes, by attempt."""
    reached: dict[int, int] = field(default_factory=dict)
    """The highest step that the program told, by attempt."""

    read: dict[str, int] = field(default_factory=dict)
    """Bytes of each dataset that the program told it has read."""

    @property
    def resumed_step(self) -> int:
        """Return the step at which the first attempt that resumed did so; 0: none has."""
        return next(iter(self.resumed.values()), 0)

    def take(self, epoch: int, text: bytes) -> None:
        """Take whole lines of an attempt's output."""
        found = [Point(epoch, int(step), float(loss)) for step, loss in LOSS.findall(text)]
        self.curve += found
        self.read |= {name.decode(): int(count) for name, count in READ.findall(text)}
        resumed = RESUMED.search(text)
        if resumed is not None:
            self.resumed.setdefault(epoch, int(resumed[1]))
        steps = [point.step for point in found] + [int(step) for step in LEFT.findall(text)]
        if steps:
            self.reached[epoch] = max(self.reached.get(epoch, 0), *steps)

    @property
    def steps_lost(self) -> int:
        """Return the steps that were made and were not in the checkpoint from which a later attempt went on."""
        lost = at = 0
        for epoch in range(1, max([*self.reached, *self.resumed], default=0) + 1):
            begins = self.resumed.get(epoch, 0)
            if epoch in self.resumed or epoch in self.reached:
                lost += max(0, at - begins)
                at = max(begins, self.reached.get(epoch, 0))
        return lost


class GangReader:
    """Reads the output of one job, attempt by attempt, as `mizzen logs` does."""

    def __init__(self, users: Users, plan: Plan, job: str, look: GangLook) -> None:
        """`job`: the name of the workload's first job."""
        self._users, self._plan, self._job, self.look = users, plan, job, look
        self._at: tuple[RegionName, WorkerName] | None = None
        """Where the workload was last seen."""
        self._offsets: dict[int, int] = {}
        """By attempt, how far its output was read."""

    async def read(self, workload: WorkloadId, rows: Sequence[ListedWorkload]) -> None:
        """Look at the workload among those that have not ended, and read what it wrote since the last look."""
        look = self.look
        row = next((row for row in rows if row.workload == workload), None)
        look.row = row or look.row
        look.has_ended = row is None and look.row is not None
        for region in self._plan.regions:
            if row is not None and region.region == row.region:
                self._at = (region.region, region.inventories[0].worker)
        if look.row is None or self._at is None:
            return
        for epoch in range(max(1, look.row.epoch - 1), look.row.epoch + 1):
            await self._read(workload, *self._at, epoch)

    async def _read(self, workload: WorkloadId, region: RegionName, worker: WorkerName, epoch: int) -> None:
        while True:
            offset = self._offsets.get(epoch, 0)
            asked = ReadOutput(region, worker, workload, epoch, self._job, 0, offset, OUTPUT_BYTES)
            try:
                page = await self._users.bus.ask(asked, ASK)
            except BusError:
                return
            if not isinstance(page, OutputPage):
                return
            whole = page.data.rfind(b"\n") + 1
            self.look.take(epoch, page.data[:whole])
            self._offsets[epoch] = page.offset + whole
            if not whole:
                return

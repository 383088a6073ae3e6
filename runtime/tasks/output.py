"""What tasks wrote, page by page, for whoever asks over the bus. It reads the spool's files, whether or not a task runs.

It is no component: it decides nothing.
"""

from collections import deque
from pathlib import Path

import structlog

from bus.catalogue import OUTPUT, OUTPUTS
from bus.errors import BusError
from bus.port import Address, Bus
from core.codec import Parcel
from core.messages.base import Answer, Refused
from core.messages.output import FindOutput, OutputFound, OutputPage, ReadOutput
from core.nouns.ids import RegionName, WorkerName
from core.nouns.instant import after
from core.nouns.limits import FOLLOW_RETRY, INBOX_MAX, READ_BYTES_MAX
from core.nouns.reasons import Reason, sentence
from core.rules.ownership import against
from runtime.clock import Clock
from runtime.tasks.layout import TENANT, attempt_name, task_name
from runtime.wake import Wake

logger = structlog.get_logger()

TRIES_MAX = 5
"""A file may be dropped between the look and the reading; then what is there is looked at again."""


def output_name(region: RegionName, worker: WorkerName) -> str:
    """What the server of a worker's output is called on the bus."""
    return f"output.{region}.{worker}"


class OutputServer:
    """Answers for the tasks of one worker."""

    def __init__(self, region: RegionName, worker: WorkerName, outputs: Path, bus: Bus, clock: Clock) -> None:
        """`outputs` is the directory of that name in the worker's spool."""
        self.name = output_name(region, worker)
        self._scope = (region, worker)
        self._outputs = outputs
        self._bus = bus
        self._clock = clock
        self._wake = Wake(clock)
        self._asked: deque[tuple[Parcel, str]] = deque()
        self._asks_lost = 0

    async def run(self) -> None:
        """Answer, for ever."""
        await self._listen(self._scope)
        await self._listen(self._scope[: len(OUTPUTS.scope)])
        while True:
            while self._asked:
                parcel, reply_to = self._asked.popleft()
                answer = self._answer(parcel)
                if answer is not None:
                    self._bus.say(answer, reply_to)
            await self._wake.wait()

    def close(self) -> None:
        """Let go of its timer."""
        self._wake.close()

    def losses(self) -> dict[str, int]:
        """Return what was lost or refused since the start, as the worker's status tells it beside the worker's own."""
        return {"asks_lost": self._asks_lost, **self._bus.counts.losses()}

    async def _listen(self, scope: tuple[str, ...]) -> None:
        while True:
            try:
                await self._bus.listen(Address(OUTPUT.noun, scope), self._hear)
                return
            except BusError as error:
                logger.warning("output_not_served", server=self.name, problem=str(error))
            await self._wake.wait(after(self._clock.now(), FOLLOW_RETRY))

    def _hear(self, parcel: Parcel, reply_to: str) -> None:
        if isinstance(parcel.message, ReadOutput | FindOutput) and reply_to:
            if len(self._asked) >= INBOX_MAX:
                self._asks_lost += 1
                return
            self._asked.append((parcel, reply_to))
            self._wake.ring()

    def _answer(self, parcel: Parcel) -> Answer | None:
        """None: another worker may have it."""
        asked = parcel.message
        assert isinstance(asked, ReadOutput | FindOutput), asked
        tenant = tenant_of(self._outputs, asked)
        no = against(parcel.tenant, parcel.sender, asked, lambda _: tenant)
        if no is not None:
            return Refused(no[0], sentence(no[0]), no[1])
        if isinstance(asked, ReadOutput):
            return page_of(self._outputs, asked)
        _, worker = self._scope
        ranks = () if worker in asked.known else ranks_of(self._outputs, asked)
        return OutputFound(worker, ranks) if ranks else None


def tenant_of(outputs: Path, asked: ReadOutput | FindOutput) -> str | None:
    """The tenant that wrote an attempt's output; the empty one if nobody kept whose it is, None if there is none."""
    directory = outputs / attempt_name((asked.workload, asked.epoch))
    try:
        return (directory / TENANT).read_text()
    except OSError:
        return "" if directory.is_dir() else None


def ranks_of(outputs: Path, asked: FindOutput) -> tuple[tuple[int, bool], ...]:
    """What is here of a job: ranks, each with whether its task has ended here."""
    directory = outputs / attempt_name((asked.workload, asked.epoch))
    prefix = task_name(asked.job, 0)[:-1]
    found = {}
    for path in directory.glob("*.*"):
        rank = path.name.removeprefix(prefix)
        if path.name.startswith(prefix) and rank.isdecimal() and asked.rank in (-1, int(rank)):
            found[int(rank)] = (path / "ended").exists()
    return tuple(sorted(found.items()))


def page_of(outputs: Path, asked: ReadOutput) -> OutputPage | Refused:
    """What a task wrote from some offset on, as much as fits."""
    key = (asked.workload, asked.epoch)
    directory = outputs / attempt_name(key) / task_name(asked.job, asked.rank)
    for _ in range(TRIES_MAX):
        if not directory.is_dir():
            break
        try:
            return _page(directory, asked)
        except FileNotFoundError:
            continue
    return Refused(Reason.UNKNOWN_TASK, sentence(Reason.UNKNOWN_TASK))


def _page(directory: Path, asked: ReadOutput) -> OutputPage:
    """Raises FileNotFoundError when a file goes meanwhile."""
    has_ended = (directory / "ended").exists()  # Before the files are looked at: they are whole then.
    paths = {int(path.name): path for path in directory.iterdir() if path.name.isdigit()}
    sizes = {first: path.stat().st_size for first, path in sorted(paths.items())}
    first = min(sizes, default=0)
    end = max((begin + size for begin, size in sizes.items()), default=0)
    wanted = min(max(first, asked.offset if asked.offset >= 0 else end + asked.offset), end)
    data = b""
    begin = next((begin for begin, size in sizes.items() if begin + size > wanted), None)
    if begin is not None:
        wanted = max(wanted, begin)
        with paths[begin].open("rb") as file:
            file.seek(wanted - begin)
            data = file.read(max(0, min(asked.bytes_max, READ_BYTES_MAX)))
    after_it = wanted + len(data)
    return OutputPage(
        asked.workload,
        asked.epoch,
        asked.job,
        asked.rank,
        data,
        wanted,
        after_it,
        is_ended=has_ended and after_it >= end,
    )

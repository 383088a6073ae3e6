"""What tasks of a tenant wrote: the logs that say where they ran are not for tenants, so each region's workers are asked.

Only those that have some of it answer, and only to whom it belongs. Where a task that was moved ran first nobody tells, so
what has ended comes before what has not.
"""

import asyncio

from bus.port import Bus
from core.messages.output import FindOutput, OutputFound
from core.messages.queue import ListWorkloads, ShowWorkload, WorkloadShown, WorkloadsListed
from core.nouns.ids import RegionName
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.reasons import Reason
from core.nouns.workload import Phase
from mizzen.connect.plane import RequestRefused, ask
from mizzen.terminal.output import CommandError, tell_note
from mizzen.views.plane_reads import PATIENCE, ask_patiently, pause
from mizzen.views.tasks.output import ALL_RANKS, LOOKS, Asked, Stream, begin, drain, job_of, ranks_meant

FIND_SPAN: Nanoseconds = seconds(2)
"""Workers that have something say so in milliseconds, unless they are very busy; those that have nothing never do."""
MORE_SPAN: Nanoseconds = seconds(0.5)
"""The same, when one has said so: they heard the question together."""
WORKERS_MAX = 64
"""So many are asked for what they have of one job; each answers alone."""


async def tell_own_output(bus: Bus, asked: Asked) -> None:
    """Tell it. Raises CommandError."""
    telling = _Telling(bus, asked)
    await telling.begin()
    if asked.is_followed:
        await telling.follow()


class _Telling:
    """The streams of one attempt, and then of the next."""

    def __init__(self, bus: Bus, asked: Asked) -> None:
        self._bus = bus
        self._asked = asked
        self._epoch = asked.epoch
        self._job, self._tasks = "", 0
        self._streams: dict[int, Stream] = {}

    async def begin(self) -> None:
        """What is there, or its last lines. Raises CommandError."""
        asked = self._asked
        shown = await ask(self._bus, ShowWorkload(asked.workload, wants_spec=True), WorkloadShown)
        assert shown.spec is not None, shown
        self._job = job_of(shown.spec, asked)
        self._tasks = next(job.tasks for job in shown.spec.jobs if job.name == self._job)
        self._epoch = asked.epoch or shown.epoch
        await self._find(shown)
        if not self._streams and not asked.is_followed:
            raise CommandError(_nothing(shown, self._epoch))
        for stream in self._streams.values():
            await begin(self._bus, stream, asked.tail, asked)

    async def follow(self) -> None:
        """All that comes, until it has ended and every rank has, or nothing came for long. Raises CommandError."""
        loop = asyncio.get_running_loop()
        heard_at, looks = loop.time(), 0
        while True:
            await pause()
            looks += 1
            # 1. Whether it is over comes first: who is found after that is all there is.
            shown = await self._shown()
            is_last = shown is None or Phase(shown.phase).is_terminal
            is_over = is_last or shown is None or shown.epoch > self._epoch
            before = self._came()
            if is_over or not self._streams or looks % LOOKS == 0:
                await self._find(shown)
            # 2. What came.
            problem: CommandError | None = None
            try:
                for stream in self._streams.values():
                    await drain(self._bus, stream, self._asked)
            except CommandError as error:
                problem = error
            if self._came() != before:
                heard_at = loop.time()
            # 3. The next attempt, or the end.
            is_late = loop.time() - heard_at > PATIENCE / SECOND
            if problem is not None and is_late:
                raise problem
            has_ended = problem is None and all(stream.is_ended for stream in self._streams.values())
            if not is_over or not (has_ended or is_late):
                continue
            if is_last or shown is None or self._asked.epoch:
                return
            self._epoch, self._streams = shown.epoch, {}
            tell_note(f"attempt {shown.epoch} in {shown.region}", is_json=self._asked.is_json)

    def _came(self) -> list[tuple[int, int]]:
        """How far each stream is."""
        return [(len(stream.workers), stream.offset) for stream in self._streams.values()]

    async def _shown(self) -> WorkloadShown | None:
        """None: it has ended, and is forgotten. Raises CommandError."""
        try:
            return await ask_patiently(self._bus, ShowWorkload(self._asked.workload), WorkloadShown)
        except RequestRefused as refused:
            if refused.reason != Reason.UNKNOWN_WORKLOAD:
                raise
            return None

    async def _find(self, shown: WorkloadShown | None) -> None:
        """Who has something of the ranks that are meant. Raises CommandError when there is no such rank."""
        asked = self._asked
        ranks = ranks_meant(asked.rank, range(self._tasks), self._job)
        rank = -1 if asked.rank == ALL_RANKS else ranks[0]
        for region in await self._regions(shown) if self._epoch else ():
            found = await self._found(region, self._job, rank)
            ended_first = sorted((not ended, one.worker, at) for one in found for at, ended in one.ranks)
            for _, worker, at in ended_first:
                stream = self._streams.setdefault(at, Stream(asked, region, self._epoch, self._job, at))
                if worker not in stream.workers:
                    stream.workers.append(worker)
            if found:
                break  # An attempt is in one region.
        self._streams = dict(sorted(self._streams.items()))

    async def _regions(self, shown: WorkloadShown | None) -> tuple[RegionName, ...]:
        """Where the attempt may have been: of one that has ended the queue does not tell."""
        if shown is not None and shown.region and shown.epoch == self._epoch:
            return (RegionName(shown.region),)
        return (await ask(self._bus, ListWorkloads(count_max=1), WorkloadsListed)).regions

    async def _found(self, region: RegionName, job: str, rank: int) -> list[OutputFound]:
        """One answer after the other, until nobody else answers."""
        found: list[OutputFound] = []
        while len(found) < WORKERS_MAX:
            known = tuple(one.worker for one in found)
            question = FindOutput(region, self._asked.workload, self._epoch, job, rank, known)
            try:
                span = MORE_SPAN if found else FIND_SPAN
                found.append(await ask(self._bus, question, OutputFound, span))
            except RequestRefused:
                raise
            except CommandError:
                break
        return found


def _nothing(shown: WorkloadShown, epoch: int) -> str:
    if not epoch:
        text = f"{shown.workload} is {shown.phase} and has not been placed, so it has written nothing"
        return f"{text}; `mizzen explain {shown.workload}` tells why"
    text = (
        f"no worker tells of output of attempt {epoch} of {shown.workload}; it wrote none, or it was dropped"
    )
    return f"{text}, or its workers do not answer" + ("; --attempt names an earlier one" if epoch > 1 else "")

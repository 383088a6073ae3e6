"""What tasks wrote, over the bus from the workers that have it: some of it, or all that comes, over every restart.

A task that was started again within its attempt goes on behind what it wrote there before; one that was moved has left
that behind, on the worker where it was, and is read from one worker after the other.
"""

import asyncio
import codecs
import sys
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from bus.port import Bus
from core.images import RegionImage
from core.messages.output import OutputPage, ReadOutput
from core.messages.queue import ShowWorkload, WorkloadShown
from core.nouns.ids import RegionName, WorkerName, WorkloadId, region_log
from core.nouns.instant import SECOND
from core.nouns.limits import READ_BYTES_MAX
from core.nouns.workload import Phase, WorkloadSpec
from mizzen.connect.plane import RequestRefused, ask, fetch_image
from mizzen.terminal.output import MISUSED, CommandError, tell_json_line, tell_note
from mizzen.views.plane_reads import PATIENCE, ask_patiently, pause
from mizzen.views.workloads.rank_nodes import nodes_by_rank
from mizzen.views.workloads.story import Attempt, Story, Telling, told

TAIL_BYTES = 64 * 1024
"""Looked through first for the last lines; four times as much each time that they are not all in it."""
TAIL_BYTES_MAX = 64 * 1024 * 1024
ALL_RANKS = "all"
LOOKS = 20
LOOKS_IN_SILENCE = 4
"""Looks at what comes, for one at where it comes from, which asks the logs; more often while nothing comes."""


class Asked(Struct, frozen=True):
    """What is to be told."""

    workload: WorkloadId
    rank: str = "0"
    """A number, or `all`."""
    job: str = ""
    """Empty: the first one."""
    epoch: int = 0
    """0: the newest that was placed, and those after it."""
    is_followed: bool = False
    tail: int = -1
    """So many lines from the end; less than zero: all."""
    is_json: bool = False


class Stream:
    """The output of one rank in one attempt, as far as it was told."""

    def __init__(self, asked: Asked, region: RegionName, epoch: int, job: str, rank: int) -> None:
        self.epoch, self.job, self.rank = epoch, job, rank
        self.region = region
        self.workers: list[WorkerName] = []
        """Where it ran, in order; never empty once it is known."""
        self.is_ended = False
        """Nothing more is there, nor will be, unless it is started again."""
        self._at = 0
        self._offsets: dict[WorkerName, int] = {}
        self._asked = asked
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        self._dropped = 0
        """Bytes that were gone before they were told of, and that nobody was told of yet."""
        self._line = ""
        """The beginning of a line whose end has not come, where lines have prefixes."""

    @property
    def worker(self) -> WorkerName:
        """Which it is read from now."""
        return self.workers[self._at]

    @property
    def is_at_last(self) -> bool:
        """Whether that is where it is now, or was last."""
        return self._at == len(self.workers) - 1

    @property
    def offset(self) -> int:
        """What to read next."""
        return self._offsets.get(self.worker, 0)

    def go_on(self) -> None:
        """To where it ran next."""
        self._at += 1
        self.is_ended = False

    def skip_to(self, offset: int) -> None:
        """Begin there."""
        self._offsets[self.worker] = offset

    def question(self, offset: int, bytes_max: int = READ_BYTES_MAX) -> ReadOutput:
        """What to ask its worker."""
        return ReadOutput(
            self.region, self.worker, self._asked.workload, self.epoch, self.job, self.rank, offset, bytes_max
        )

    def tell(self, page: OutputPage) -> None:
        """Tell a page, and go on behind it."""
        if page.offset > self.offset >= 0:
            self._dropped += page.offset - self.offset
        if self._dropped and (page.offset <= self.offset or page.is_ended):
            # Once for a flood of it, and not for every page.
            text = f"{self._dropped} bytes of rank {self.rank} were dropped to free space"
            tell_note(text, is_json=self._asked.is_json)
            self._dropped = 0
        self._offsets[self.worker], self.is_ended = page.next_offset, page.is_ended
        text = self._text.decode(page.data, final=page.is_ended)
        if self._asked.is_json:
            if text:
                at = {
                    "workload": self._asked.workload,
                    "epoch": self.epoch,
                    "job": self.job,
                    "rank": self.rank,
                }
                tell_json_line({**at, "offset": page.offset, "text": text})
        elif self._asked.rank == ALL_RANKS:
            self._tell_lines(text)
        else:
            sys.stdout.write(text)
            sys.stdout.flush()

    def _tell_lines(self, text: str) -> None:
        *lines, self._line = (self._line + text).split("\n")
        if self.is_ended and self._line:
            lines.append(self._line)
            self._line = ""
        sys.stdout.write("".join(f"[{self.rank}] {line}\n" for line in lines))
        sys.stdout.flush()


async def tell_output(bus: Bus, asked: Asked) -> None:
    """Tell it, from where the logs say that it is. Raises CommandError."""
    telling = await told(bus, asked.workload)
    telling, attempt = await _placed(bus, telling, asked)
    lines = asked.tail
    while True:
        ranks = Ranks(asked, attempt)
        await ranks.find(bus, telling)
        for stream in ranks.streams:
            try:
                await begin(bus, stream, lines, asked)
            except CommandError:
                if not asked.is_followed:
                    raise
                # It is not up yet, or its worker is not: what comes is waited for.
        if not asked.is_followed:
            return
        lines = -1
        await _follow(bus, ranks, asked)
        if asked.epoch:
            return
        after = await _next(bus, asked, attempt)
        if after is None:
            return
        telling, attempt = after
        tell_note(f"attempt {attempt.epoch} in {attempt.region}", is_json=asked.is_json)


# Attempts.


async def _placed(bus: Bus, telling: Telling, asked: Asked) -> tuple[Telling, Attempt]:
    """The attempt that is meant; waited for if whatever comes is wanted. Raises CommandError."""
    story = telling.story
    if story.untold:
        missing = "; ".join(f"{region}: {why}" for region, why in sorted(story.untold.items()))
        if not asked.is_followed:
            raise CommandError(f"where {story.workload} was placed is not known without {missing}")
        tell_note(f"something is missing of {missing}", is_json=asked.is_json)
    if asked.epoch:
        attempt = story.attempt(asked.epoch)
        if attempt is None or attempt.placement is None:
            epochs = [str(one.epoch) for one in story.attempts if one.placement is not None]
            text = f"{story.workload} has no attempt {asked.epoch} that was placed; "
            raise CommandError(
                text + (f"there are {', '.join(epochs)}" if epochs else "none was yet"), MISUSED
            )
        return telling, attempt
    attempt = _newest_granted(story)
    if attempt is not None:
        return telling, attempt
    if not asked.is_followed or story.phase.is_terminal:
        text = f"{story.workload} is {story.phase} and has not been placed, so it has written nothing"
        raise CommandError(f"{text}; `mizzen explain {story.workload}` tells why")
    found = await _next(bus, asked, None)
    if found is None:
        raise CommandError(f"{story.workload} ended before it was placed, so it has written nothing")
    return found


def _newest_granted(story: Story) -> Attempt | None:
    return next((one for one in reversed(story.attempts) if one.granted_at), None)


async def _next(bus: Bus, asked: Asked, before: Attempt | None) -> tuple[Telling, Attempt] | None:
    """The next attempt once it is placed; None when the workload has ended. Raises CommandError."""
    last = before.epoch if before is not None else 0
    while True:
        try:
            shown = await ask_patiently(bus, ShowWorkload(asked.workload), WorkloadShown)
        except RequestRefused:
            return None  # It has ended, and is forgotten already.
        if shown.epoch > last:
            telling = await told(bus, asked.workload)
            attempt = _newest_granted(telling.story)
            if attempt is not None and attempt.epoch > last:
                return telling, attempt
        if Phase(shown.phase).is_terminal:
            return None
        await pause()


# Ranks.


class Ranks:
    """The ranks of one attempt that are meant, each with its stream."""

    def __init__(self, asked: Asked, attempt: Attempt) -> None:
        self.epoch = attempt.epoch
        self.is_over = False
        self._asked = asked
        self._streams: dict[int, Stream] = {}
        self._workers: dict[int, WorkerName] = {}
        """By node, as far as they are known."""

    @property
    def streams(self) -> list[Stream]:
        """Of each rank."""
        return list(self._streams.values())

    @property
    def have_ended(self) -> bool:
        """Whether nothing comes, unless one of them is started again."""
        return all(stream.is_ended for stream in self.streams)

    async def find(self, bus: Bus, telling: Telling) -> None:
        """Where each has run up to now. Raises CommandError."""
        story = telling.story
        attempt = story.attempt(self.epoch)
        if attempt is None or attempt.placement is None:
            return  # Its region's part is missing now.
        self.is_over = bool(attempt.end_cause)
        name = job_of(story.spec, self._asked)
        nodes = nodes_by_rank(attempt, telling.facts, name)
        ranks = ranks_meant(self._asked.rank, list(nodes), name)
        wanted = {node for rank in ranks for node in nodes[rank]}
        if not wanted <= self._workers.keys():
            self._workers = await _workers(bus, attempt.region, wanted)
        for rank in ranks:
            stream = self._streams.setdefault(
                rank, Stream(self._asked, attempt.region, attempt.epoch, name, rank)
            )
            stream.workers = [self._workers[node] for node in nodes[rank]]


def job_of(spec: WorkloadSpec, asked: Asked) -> str:
    """The name of the job that is meant. Raises CommandError."""
    jobs = {job.name: job for job in spec.jobs}
    name = asked.job or spec.jobs[0].name
    if name not in jobs:
        raise CommandError(f"{asked.workload} has no job {name}; it has {', '.join(jobs)}", MISUSED)
    if jobs[name].emulation is not None:
        raise CommandError(f"job {name} of {asked.workload} is emulated, and emulated tasks write nothing")
    return name


def ranks_meant(text: str, known: Sequence[int], job: str) -> Sequence[int]:
    """Those of a job that `--rank` names. Raises CommandError."""
    if text == ALL_RANKS:
        return list(known)
    if not known:
        raise CommandError(f"job {job} has no tasks now, so nothing is written")
    if not (text.isascii() and text.isdigit()) or int(text) not in known:
        raise CommandError(
            f"job {job} has no rank {text}; it has 0 to {max(known)}, and `all` are all", MISUSED
        )
    return (int(text),)


async def _workers(bus: Bus, region: RegionName, nodes: set[int]) -> dict[int, WorkerName]:
    """Who serves these nodes. Raises CommandError."""
    image, _ = await fetch_image(bus, region_log(region), ("capacity",))
    assert isinstance(image, RegionImage)
    return {node: WorkerName(image.capacity.worker_of[node]) for node in sorted(nodes)}


# Reading.


async def begin(bus: Bus, stream: Stream, lines: int, asked: Asked) -> None:
    """All that is there, or the last lines of where it is now. Raises CommandError."""
    if lines < 0:
        await drain(bus, stream, asked)
        return
    while not stream.is_at_last:
        stream.go_on()
    page = await _tail(bus, stream, lines, asked)
    stream.skip_to(page.offset)
    stream.tell(page)


async def drain(bus: Bus, stream: Stream, asked: Asked) -> None:
    """Until there is nothing more for now, from one worker after the other. Raises CommandError if the last is silent."""
    while True:
        try:
            page = await _read(bus, stream, stream.offset, asked)
        except CommandError as error:
            if stream.is_at_last:
                raise
            tell_note(f"something may be missing: {error}", is_json=asked.is_json)
            stream.go_on()
            continue
        stream.tell(page)
        if page.data and not page.is_ended:
            continue
        if stream.is_at_last:
            return
        stream.go_on()


async def _tail(bus: Bus, stream: Stream, lines: int, asked: Asked) -> OutputPage:
    """The last lines of what is there, as one page."""
    size = TAIL_BYTES
    while True:
        pages = [await _read(bus, stream, -size, asked)]
        while pages[-1].data and not pages[-1].is_ended:
            pages.append(await _read(bus, stream, pages[-1].next_offset, asked))
        data = b"".join(page.data for page in pages)
        if len(data) < size or size >= TAIL_BYTES_MAX or data.count(b"\n", 0, -1) >= lines:
            kept = b"".join(data.splitlines(keepends=True)[-lines:]) if lines else b""
            return replace(pages[-1], data=kept, offset=pages[-1].next_offset - len(kept))
        size *= 4


async def _read(bus: Bus, stream: Stream, offset: int, asked: Asked) -> OutputPage:
    try:
        return await ask(bus, stream.question(offset), OutputPage)
    except RequestRefused as refused:
        text = f"rank {stream.rank} of {asked.workload}, attempt {stream.epoch}: {refused}"
        raise CommandError(text) from refused
    except CommandError as error:
        text = f"worker {stream.worker} of region {stream.region}, which has the output of rank {stream.rank}"
        raise CommandError(f"{text}, does not answer; it may be down, or emulated") from error


async def _follow(bus: Bus, ranks: Ranks, asked: Asked) -> None:
    """Until the attempt has ended, and every rank, or a worker does not answer any more. Raises CommandError."""
    loop = asyncio.get_running_loop()
    heard_at, looks, was_silent = loop.time(), 0, False
    while True:
        problem: CommandError | None = None
        try:
            for stream in ranks.streams:
                await drain(bus, stream, asked)
        except CommandError as error:
            problem = error
        is_silent = problem is not None or ranks.have_ended
        if is_silent and ranks.is_over:
            return
        await pause()
        looks += 1
        if (is_silent and not was_silent) or looks % (LOOKS_IN_SILENCE if is_silent else LOOKS) == 0:
            try:
                await ranks.find(bus, await told(bus, asked.workload))
            except CommandError as error:
                problem = problem or error
        was_silent = is_silent
        if problem is None or not is_silent:
            heard_at = loop.time()
        elif loop.time() - heard_at > PATIENCE / SECOND:
            raise problem

"""What tasks wrote: kept within limits, told page by page, over the bus too."""

import asyncio
import os
import shlex
import sys
from pathlib import Path

import pytest

from core.codec import Parcel
from core.effects import StartShare
from core.messages.base import Refused
from core.messages.output import OutputPage, ReadOutput
from core.messages.workers import TasksPhase
from core.nouns.ids import RegionName, ShareKey, WorkerName
from core.nouns.instant import SECOND, Instant, Nanoseconds, seconds
from core.nouns.reasons import Reason
from runtime.tasks.cleanup import Rubbish
from runtime.tasks.output import OutputServer, page_of
from runtime.tasks.retention import Retention
from runtime.tasks.segments import Output
from runtime.tasks.share import TaskLimits
from tests.runtime.aids import Place, virtual
from tests.runtime.tasks.aids import JOB, asked, nodes, prepare, read

SEGMENT = 1_000_000
SMALL = TaskLimits(output_segment_bytes=SEGMENT, output_segments_max=3)


def page(outputs: Path, offset: int = 0, rank: int = 0) -> OutputPage:
    """An answer that is no refusal."""
    answer = page_of(outputs, asked(offset, rank))
    assert isinstance(answer, OutputPage)
    return answer


@pytest.mark.processes
async def test_much_output_leaves_bounded_files(spool_path: Path) -> None:
    """The newest stays, what was dropped is told by the offsets, and the task never waits for anybody."""
    code = "import sys; [sys.stdout.write(f'{n:099d}\\n') for n in range(500_000)]"
    async with nodes(spool_path, limits=SMALL) as made:
        outputs = made.spool.layout.outputs
        await made.prepare(prepare(f"{shlex.quote(sys.executable)} -I -S -c {shlex.quote(code)}"))
        made.begin(StartShare(ShareKey(JOB, 1), 11))
        ended = await made.until(TasksPhase.ENDED)
        assert 0 == ended.exit_code
        sizes = [path.stat().st_size for path in (outputs / "w-1.1" / "job-0.0").iterdir()]
        assert sum(sizes) <= 3 * SEGMENT + 100
        first = page(outputs)
        assert 50_000_000 - 3 * SEGMENT <= first.offset
        assert (first.offset % 100, first.is_ended) == (0, False)
        data = read(outputs)
        assert first.offset + len(data) == 50_000_000
        assert f"{499_999:099d}\n".encode() == data[-100:]
        assert f"{first.offset // 100:099d}\n".encode() == data[:100]


@pytest.mark.processes
async def test_pages_follow_a_task(spool_path: Path) -> None:
    """Both of its outputs in order, as they come; the last page says that it is the last."""
    async with nodes(spool_path) as made:
        outputs = made.spool.layout.outputs
        await made.prepare(prepare("echo one; echo two >&2; sleep 600"))
        assert (b"", 0, False) == (page(outputs).data, page(outputs).next_offset, page(outputs).is_ended)
        made.begin(StartShare(ShareKey(JOB, 1), 11))
        await made.until_said("two\n")
        first = page(outputs)
        assert (b"one\ntwo\n", 0, 8, False) == (first.data, first.offset, first.next_offset, first.is_ended)
        await made.stop()
        last = page(outputs, 8)
        assert (b"", 8, 8, True) == (last.data, last.offset, last.next_offset, last.is_ended)
        assert b"two\n" == page(outputs, -4).data
        assert b"one\ntwo\n" == page(outputs, -400).data
        assert 8 == page(outputs, 400).offset
        made.forget()
        assert b"one\ntwo\n" == page(outputs).data, "it stays when the share is forgotten"


def test_runs_of_a_task_take_no_more_space_than_one(tmp_path: Path) -> None:
    """Each writes on where the one before it left off, also within a file; the oldest files are dropped over all of them."""
    written = b""
    for run in range(40):
        output = Output(str(tmp_path), 100, 3)
        for part in range(run % 4):
            data = f"run {run} part {part}\n".encode() * (1 + run % 3)
            output.write(data)
            written += data
    paths = sorted(tmp_path.iterdir())
    assert 3 == len(paths)
    first = int(paths[0].name)
    kept = b"".join(path.read_bytes() for path in paths)
    assert (len(written) - len(kept), written[first:]) == (first, kept)
    Output(str(tmp_path), 100, 3)
    assert paths == sorted(tmp_path.iterdir())
    assert [100, 100] == [path.stat().st_size for path in paths[:2]], "no room was left unused"


def test_run_under_lower_limits(tmp_path: Path) -> None:
    """What is too much by them goes as soon as there is more."""
    Output(str(tmp_path), 10, 8).write(b"x" * 80)
    Output(str(tmp_path), 10, 2).write(b"y")
    assert [70, 80] == sorted(int(path.name) for path in tmp_path.iterdir())


def test_pages_over_gaps(tmp_path: Path) -> None:
    """What could not be kept is passed over, and the offsets say so."""
    directory = tmp_path / "w-1.1" / "job-0.0"
    directory.mkdir(parents=True)
    (directory / f"{100:020d}").write_bytes(b"a" * 10)
    (directory / f"{200:020d}").write_bytes(b"b" * 10)
    assert (100, 110, False) == (page(tmp_path).offset, page(tmp_path).next_offset, page(tmp_path).is_ended)
    (directory / "ended").write_text("0\n")
    assert (200, 210, True) == (
        page(tmp_path, 110).offset,
        page(tmp_path, 110).next_offset,
        page(tmp_path, 110).is_ended,
    )
    assert (b"bbb", 207) == (page(tmp_path, 207).data, page(tmp_path, 207).offset)


@pytest.mark.parametrize("job", ["job-1", "..", ".", "", "a/b", "job-0.0/.."])
def test_unknown_task_is_refused(tmp_path: Path, job: str) -> None:
    """Whatever its name holds."""
    (tmp_path / "w-1.1" / "job-0.0").mkdir(parents=True)
    refused = page_of(tmp_path, ReadOutput(RegionName("here"), WorkerName("w0"), JOB, 1, job, 0, 0, 10))
    assert isinstance(refused, Refused)
    assert Reason.UNKNOWN_TASK == refused.reason


def test_old_output_goes(tmp_path: Path) -> None:
    """What is too old, and the oldest while there is too much; never that of a share that is still here."""
    rubbish = Rubbish(tmp_path / "rubbish")
    (tmp_path / "rubbish").mkdir()
    outputs = tmp_path / "outputs"
    for number in range(6):
        directory = outputs / f"w-{number}.1" / "job-0.0"
        directory.mkdir(parents=True)
        (directory / f"{0:020d}").write_bytes(b"x" * 100)
        (directory / "ended").write_text("0\n")
        for path in directory.iterdir():
            _set_time(path, number * SECOND)
    retention = Retention(outputs, rubbish, 250, Nanoseconds(100 * SECOND))
    retention.sweep({"w-0.1"}, Instant(101 * SECOND))
    assert ["w-0.1", "w-4.1", "w-5.1"] == sorted(path.name for path in outputs.iterdir())
    retention.sweep({"w-0.1"}, Instant(105 * SECOND))
    assert ["w-0.1", "w-5.1"] == sorted(path.name for path in outputs.iterdir())
    while rubbish.is_removing:
        rubbish.reap()
    assert [] == list((tmp_path / "rubbish").iterdir())


@virtual
async def test_output_is_answered_over_the_bus(place: Place) -> None:
    """By the worker's own server: a page, or a refusal for what is not there."""
    outputs = Path("/nonexistent")
    bus = place.network.endpoint("output.here.w0")
    server = OutputServer(RegionName("here"), WorkerName("w0"), outputs, bus, place.clock())
    running = place.loop.create_task(server.run(), name="server")
    await place.moment()
    answer = await place.client.ask(asked(0), seconds(1))
    assert isinstance(answer, Refused)
    assert Reason.UNKNOWN_TASK == answer.reason
    running.cancel()
    await asyncio.wait([running])
    server.close()


@virtual
async def test_requests_for_output_are_bounded(place: Place) -> None:
    """What does not fit is lost and counted."""
    bus = place.network.endpoint("output.here.w0")
    server = OutputServer(RegionName("here"), WorkerName("w0"), Path("/nonexistent"), bus, place.clock())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("runtime.tasks.output.INBOX_MAX", 2)
        for number in range(5):
            server._hear(Parcel(f"client.{number}", "client", asked(0)), "inbox")
    bus.counts.lost = 1
    assert {"asks_lost": 3, "lost": 1} == {name: lost for name, lost in server.losses().items() if lost}
    server.close()


def _set_time(path: Path, at: int) -> None:
    os.utime(path, ns=(at, at))

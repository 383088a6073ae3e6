"""`mizzen start` for real: processes over a NATS server, with logs on disk, ended by signals."""

import asyncio
import signal
import subprocess
from pathlib import Path

import pytest

from bus.catalogue import STATUS, subject_of
from bus.errors import BusError
from bus.port import Address
from core.codec import Parcel
from core.messages.base import Message
from core.messages.logs import AskHead, FetchImage, HeadAnswer, ImagePage
from core.messages.output import ReadOutput
from core.messages.queue import CancelWorkload, ShowWorkload, Submitted, SubmitWorkload, WorkloadShown
from core.messages.units import UnitStatus
from core.nouns.ids import GLOBAL_LOG, RegionName, WorkerName, WorkloadId, region_log
from core.nouns.instant import seconds
from core.nouns.quantities import Amount
from core.nouns.workload import JobSpec, Phase, Program, WorkloadSpec
from mizzen.cli import main
from runtime.tasks.processes import marked_under
from scenarios.worlds.processes.unit_main import HANGS
from tests.mizzen.processes import END_SECONDS, PATIENCE_SECONDS, Plane, plane, until, until_true

pytestmark = pytest.mark.processes

HERE = RegionName("here")
LOG = region_log(HERE)
STORE = ("placement_store", "--region", "here")
ALL_ROLES = (
    ("job_queue",),
    STORE,
    ("region_broker", "--region", "here"),
    ("task_control", "--region", "here"),
    ("allocation_agent", "--region", "here"),
    ("worker", "--region", "here"),
    ("planner",),
    ("auditor",),
)
ASK = seconds(2)


async def test_keeper_starts_answers_and_ends_in_order(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It keeps its log and serves who reads it; a second one is refused; SIGTERM ends it with 0 and its log is whole."""
    async with plane(tmp_path) as made:
        process = made.start(*STORE)
        head = await _answer(made, AskHead(LOG))
        assert isinstance(head, HeadAnswer)
        assert 1 == head.term
        assert isinstance(await _answer(made, FetchImage(LOG, ())), ImagePage)
        second = made.start(*STORE)
        assert 1 == await made.ended(second)
        assert "mizzen: log region.here: another process keeps it" in made.said(second)
        process.send_signal(signal.SIGTERM)
        assert 0 == await made.ended(process)
        assert "Traceback" not in made.said(process) + made.said(second)
        assert '"event": "process_ended"' in made.said(process)
        third = made.start(*STORE, "--no-reader")
        head = await _answer(made, AskHead(LOG))
        assert isinstance(head, HeadAnswer)
        assert 2 == head.term
        with pytest.raises(BusError):
            await made.user.ask(FetchImage(LOG, ()), ASK)
        third.send_signal(signal.SIGINT)
        assert 0 == await made.ended(third)
    assert 0 == await asyncio.to_thread(main, ["verify", str(tmp_path / "logs")])
    assert "whole" in capfd.readouterr().out


async def test_plane_of_processes_runs_workloads(tmp_path: Path) -> None:
    """Eight processes run a workload; one whose worker is killed by -9 runs on, and ends as the next worker is told."""
    async with plane(tmp_path) as made:
        processes = {words[0]: made.start(*words) for words in ALL_ROLES}
        short = await _submit(made, "echo done")
        await _until(made, short, Phase.COMPLETED, epoch=1)
        again = await _submit(made, "[ $MIZZEN_ATTEMPT = 1 ] && exit 85; exit 0")
        await _until(made, again, Phase.COMPLETED, epoch=2)
        endless = await _submit(made, "sleep 600")
        await _until(made, endless, Phase.RUNNING, epoch=1)
        processes["worker"].kill()
        assert -signal.SIGKILL == await made.ended(processes["worker"])
        processes["worker"] = made.start("worker", "--region", "here", "--member", "w0")
        await _answer(made, CancelWorkload(endless))
        await _until(made, endless, Phase.CANCELLED, epoch=1)
        await until(lambda: not marked_under(str(tmp_path)), END_SECONDS, lambda: "something of it is left")
        for process in processes.values():
            process.send_signal(signal.SIGTERM)
        assert [0] * len(ALL_ROLES) == [await made.ended(process) for process in processes.values()]
    assert 0 == await asyncio.to_thread(main, ["verify", str(tmp_path / "logs")])


async def test_process_waits_for_a_server(tmp_path: Path) -> None:
    """Whoever finds no server says so, without the password, and asks again until it is told to end."""
    async with plane(tmp_path) as made:
        made.url = "nats://mizzen:secret@127.0.0.1:1"
        process = made.start("auditor")
        await _until_said(made, process, "bus_unreachable")
        process.send_signal(signal.SIGTERM)
        assert 0 == await made.ended(process)
        assert "secret" not in made.said(process)
        assert "Traceback" not in made.said(process)


HANGING = "import sys; from scenarios.worlds.processes.unit_main import main; sys.exit(main(sys.argv[1:]))"
"""A unit which a signal gives a decision without end."""


async def test_process_that_hangs_ends_by_itself(tmp_path: Path) -> None:
    """With its stacks on stderr and exit code 1, so that a container is started again; one that answers lives on, and so does one that may hang."""
    async with plane(tmp_path) as made:
        hanging = made.start("job_queue", "--hung-after", "3", program=("-c", HANGING))
        assert isinstance(await _answer(made, AskHead(GLOBAL_LOG)), HeadAnswer)
        may_hang = made.start(*STORE, "--hung-after", "0", program=("-c", HANGING))
        assert isinstance(await _answer(made, AskHead(LOG)), HeadAnswer)
        may_hang.send_signal(HANGS)
        await asyncio.sleep(3.5)
        assert isinstance(await _answer(made, AskHead(GLOBAL_LOG)), HeadAnswer)
        hanging.send_signal(HANGS)
        assert 1 == await made.ended(hanging)
        assert "Timeout (0:00:03)!" in made.said(hanging)
        assert "in _decide_without_end" in made.said(hanging)
        assert may_hang.poll() is None
    assert 2 == await asyncio.to_thread(main, ["start", "job_queue", "--hung-after", "-1"])


TELLING = """
import sys
from core.nouns import limits
limits.STATUS_INTERVAL, limits.WORKER_STATUS_FACTOR = 100_000_000, 1
from mizzen.cli import main
sys.exit(main(sys.argv[1:]))
"""
"""A unit that tells its status ten times a second."""


async def test_worker_tells_what_its_server_of_output_loses(tmp_path: Path) -> None:
    """The server has a connection of its own, and no status."""
    async with plane(tmp_path) as made:
        told: list[UnitStatus] = []

        def hear(parcel: Parcel, _: str) -> None:
            assert isinstance(parcel.message, UnitStatus)
            told.append(parcel.message)

        await made.user.listen(Address(STATUS.noun), hear)
        process = made.start("worker", "--region", "here", program=("-c", TELLING))

        async def is_told() -> bool:
            asked = ReadOutput(HERE, WorkerName("w0"), WorkloadId("w-1"), 1, "main", 0, 0, 1)
            made.connection.deliver_raw(subject_of("mizzen", asked), b"no message")
            return bool(told) and told[-1].counts.get("dead_letters", 0) > 0

        await until_true(is_told, PATIENCE_SECONDS, lambda: made.said(process))
        assert "worker.here.w0" == told[-1].unit


async def _answer(made: Plane, message: Message) -> Message:
    """Ask until there is somebody."""
    answers: list[Message] = []

    async def is_answered() -> bool:
        try:
            answers.append(await made.user.ask(message, ASK))
        except BusError:
            return False
        return True

    await until_true(is_answered, PATIENCE_SECONDS, lambda: "\n".join(map(made.said, made.processes)))
    return answers[0]


async def _submit(made: Plane, run: str) -> WorkloadId:
    job = JobSpec("main", 2, Amount(gpu_milli=4000), "cpu", program=Program(run))
    answer = await _answer(made, SubmitWorkload(WorkloadSpec("test", (job,)), "user"))
    assert isinstance(answer, Submitted), answer
    return answer.workload


async def _until(made: Plane, workload: WorkloadId, phase: Phase, epoch: int) -> None:
    seen: list[WorkloadShown] = []

    async def is_there() -> bool:
        answer = await _answer(made, ShowWorkload(workload))
        assert isinstance(answer, WorkloadShown), answer
        seen.append(answer)
        return (phase, epoch) == (answer.phase, answer.epoch)

    await until_true(is_there, PATIENCE_SECONDS, lambda: str(seen[-1]))


async def _until_said(made: Plane, process: subprocess.Popen[str], text: str) -> None:
    async def is_said() -> bool:
        return text in made.said(process)

    await until_true(is_said, PATIENCE_SECONDS, lambda: made.said(process))

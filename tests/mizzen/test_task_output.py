"""Which workers have what a task wrote, and reading it from one after the other."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from core.events.control import ClaimRevised
from core.fact import Fact
from core.nouns.ids import GLOBAL_LOG, WorkerName, WorkloadId
from core.nouns.operation import WHOLE, TaskMove, task_number
from core.nouns.placement import Spread
from mizzen.terminal.output import CommandError
from mizzen.views.tasks.output import Asked, Stream, begin, drain
from mizzen.views.workloads.rank_nodes import nodes_by_rank
from mizzen.views.workloads.story import Attempt, Placement
from runtime.tasks.output import OutputServer
from tests.builders import EU, EU_LOG, a_claim, a_fact, granted
from tests.runtime.aids import Place, in_virtual_time

JOB = WorkloadId("w-1")


def placed(*spreads: Spread, epoch: int = 1) -> Attempt:
    """An attempt whose jobs, `job-0` and so on, were granted these nodes."""
    jobs = tuple(f"job-{number}" for number in range(len(spreads)))
    placement = Placement("c", "a0", 0, 1, False, (), jobs, spreads)
    return Attempt(epoch, EU, 1, 1, 0, (), placement=placement, granted_at=1)


def revised(*moves: TaskMove, epoch: int = 1) -> Fact:
    """Tasks of the attempt have new runs."""
    return a_fact(ClaimRevised(JOB, epoch, 1, moves), log=EU_LOG)


def test_ranks_are_where_they_were_granted_and_went() -> None:
    """In the order of their runs, each place once in a row; another attempt's and another job's have nothing to do with it."""
    attempt = placed(Spread((4, 7), (2, 1)), Spread((9,), (1,)))
    facts = [
        a_fact(granted(a_claim())),
        revised(TaskMove(task_number(0, 1), 4, 8), TaskMove(task_number(1, 0), 9, 3)),
        revised(TaskMove(task_number(0, 1), 8, 8)),
        revised(TaskMove(task_number(0, 0), 4, 5), epoch=2),
        replace(revised(TaskMove(task_number(0, 0), 4, 6)), log=GLOBAL_LOG),
        revised(TaskMove(task_number(0, 1), 8, 4)),
        revised(TaskMove(task_number(0, 3), -1, 7)),
        revised(TaskMove(task_number(0, 2), 7, -1)),
        revised(TaskMove(WHOLE, -1, -1)),
    ]
    assert {0: [4], 1: [4, 8, 4], 2: [7], 3: [7]} == nodes_by_rank(attempt, facts, "job-0")
    assert {0: [9, 3]} == nodes_by_rank(attempt, facts, "job-1")


class Workers:
    """Workers of one region that have what rank 0 wrote, and serve it."""

    def __init__(self, place: Place, directory: Path, *names: str) -> None:
        self.place = place
        self.directory = directory
        self.bus = place.network.endpoint("client.user")
        self.serving = {}
        for name in names:
            endpoint = place.network.endpoint(f"output.eu.{name}")
            server = OutputServer(EU, WorkerName(name), directory / name, endpoint, place.clock())
            self.serving[name] = place.loop.create_task(server.run(), name=name)

    def write(self, worker: str, text: str, *, is_ended: bool) -> None:
        """What its task has written in all, and whether it is between two runs."""
        output = self.directory / worker / "w-1.1" / "job-0.0"
        output.mkdir(parents=True, exist_ok=True)
        (output / f"{0:020d}").write_text(text)
        (output / "ended").unlink(missing_ok=True)
        if is_ended:
            (output / "ended").write_text("0\n")

    def stream(self, asked: Asked, *workers: str) -> Stream:
        """Of rank 0, which ran there in turn."""
        stream = Stream(asked, EU, 1, "job-0", 0)
        stream.workers = [WorkerName(name) for name in workers]
        return stream


def test_output_is_read_where_the_task_ran(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From one worker after the other, and on from where it was left when the task comes back; an end is none if more comes."""

    async def body(place: Place) -> None:
        workers = Workers(place, tmp_path, "w0", "w1")
        await place.moment()
        asked = Asked(JOB)
        workers.write("w0", "one\n", is_ended=True)
        stream = workers.stream(asked, "w0")
        await drain(workers.bus, stream, asked)
        ends = [stream.is_ended]
        workers.write("w1", "two\n", is_ended=False)
        stream.workers.append(WorkerName("w1"))
        await drain(workers.bus, stream, asked)
        ends.append(stream.is_ended)
        workers.write("w1", "two\nthree\n", is_ended=True)
        workers.write("w0", "one\nfour\n", is_ended=False)
        stream.workers.append(WorkerName("w0"))
        await drain(workers.bus, stream, asked)
        workers.write("w0", "one\nfour\nfive\n", is_ended=True)
        await drain(workers.bus, stream, asked)
        assert [True, False, True] == [*ends, stream.is_ended]
        assert "one\ntwo\nthree\nfour\nfive\n" == capsys.readouterr().out
        last = workers.stream(asked, "w1", "w0")
        await begin(workers.bus, last, 2, asked)
        assert "four\nfive\n" == capsys.readouterr().out

    in_virtual_time(body)


def test_output_of_a_worker_that_is_gone_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The later output of the task elsewhere is told all the same; the last worker must answer."""

    async def body(place: Place) -> None:
        workers = Workers(place, tmp_path, "w1")
        await place.moment()
        asked = Asked(JOB)
        workers.write("w1", "two\n", is_ended=True)
        await drain(workers.bus, workers.stream(asked, "w0", "w1"), asked)
        out, err = capsys.readouterr()
        assert "two\n" == out
        assert "something may be missing: worker w0 of region eu" in err
        with pytest.raises(CommandError, match="worker w0 of region eu"):
            await drain(workers.bus, workers.stream(asked, "w1", "w0"), asked)

    in_virtual_time(body)

"""Whose output it is: kept beside it, and told to nobody else; and where it is, for whoever may read it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from bus.errors import AskTimedOut
from core.messages.base import Message, Refused
from core.messages.output import FindOutput, OutputFound, OutputPage
from core.nouns.ids import RegionName, TenantName, WorkerName, WorkloadId
from core.nouns.instant import SECOND, Instant, Nanoseconds, seconds
from core.nouns.reasons import Reason
from runtime.tasks.cleanup import Rubbish
from runtime.tasks.layout import TENANT
from runtime.tasks.output import OutputServer, ranks_of
from runtime.tasks.retention import Retention
from tests.runtime.aids import Place, in_virtual_time
from tests.runtime.tasks.aids import JOB, asked, nodes, prepare, read

HERE = RegionName("here")
FIND = FindOutput(HERE, JOB, 1, "job-0")


def write(outputs: Path, rank: int, text: str, *, tenant: str | None = "ml", is_ended: bool = True) -> None:
    """A task of attempt 1 wrote this there."""
    directory = outputs / "w-1.1" / f"job-0.{rank}"
    directory.mkdir(parents=True)
    (directory / f"{0:020d}").write_text(text)
    if is_ended:
        (directory / "ended").write_text("0\n")
    if tenant is not None:
        (outputs / "w-1.1" / TENANT).write_text(tenant)


@asynccontextmanager
async def served(place: Place, *outputs: Path) -> AsyncIterator[None]:
    """By workers w0, w1 and so on, each with a directory."""
    servers, running = [], []
    for number, directory in enumerate(outputs):
        bus = place.network.endpoint(f"output.here.w{number}")
        servers.append(OutputServer(HERE, WorkerName(f"w{number}"), directory, bus, place.clock()))
        running.append(place.loop.create_task(servers[-1].run(), name=f"server {number}"))
    await place.moment()
    yield
    for task in running:
        task.cancel()
    await asyncio.wait(running)
    for server in servers:
        server.close()


async def answer(place: Place, message: Message, tenant: str) -> Message | None:
    """What this tenant is told; an operator, for none."""
    client = place.network.endpoint(f"{tenant}/ada" if tenant else "olga", tenant)
    try:
        return await client.ask(message, seconds(1))
    except AskTimedOut:
        return None
    finally:
        await client.close()


def test_output_is_its_tenants_and_operators(tmp_path: Path) -> None:
    """Another tenant is refused whether it guesses where it is or asks; of what is not there all are told alike."""

    async def body(place: Place) -> None:
        write(tmp_path, 0, "mine\n")
        async with served(place, tmp_path):
            for tenant in ("ml", ""):
                page = await answer(place, asked(0), tenant)
                assert isinstance(page, OutputPage)
                assert b"mine\n" == page.data
                assert OutputFound(WorkerName("w0"), ((0, True),)) == await answer(place, FIND, tenant)
            for message in (asked(0), asked(0, rank=7), FIND, replace(FIND, rank=7)):
                refused = await answer(place, message, "bio")
                assert isinstance(refused, Refused)
                assert (Reason.NOT_YOURS, ()) == (refused.reason, refused.problems)
            for tenant in ("ml", "bio", ""):
                unknown = await answer(place, replace(asked(0), workload=WorkloadId("w-2")), tenant)
                assert isinstance(unknown, Refused)
                assert Reason.UNKNOWN_TASK == unknown.reason
                assert await answer(place, replace(FIND, workload=WorkloadId("w-2")), tenant) is None

    in_virtual_time(body)


def test_output_without_a_known_tenant_is_operators(tmp_path: Path) -> None:
    """An older build did not keep its tenant."""

    async def body(place: Place) -> None:
        write(tmp_path, 0, "somebody's\n", tenant=None)
        async with served(place, tmp_path):
            assert isinstance(await answer(place, asked(0), ""), OutputPage)
            refused = await answer(place, asked(0), "ml")
            assert isinstance(refused, Refused)
            assert Reason.NOT_YOURS == refused.reason

    in_virtual_time(body)


def test_each_worker_that_has_some_answers(tmp_path: Path) -> None:
    """One for each question, those that answered before staying silent; in the end nobody does."""

    async def body(place: Place) -> None:
        write(tmp_path / "a", 0, "one\n")
        write(tmp_path / "b", 0, "two\n", is_ended=False)
        write(tmp_path / "b", 12, "twelve\n", is_ended=False)
        (tmp_path / "c").mkdir()
        found: dict[str, tuple[tuple[int, bool], ...]] = {}
        async with served(place, tmp_path / "a", tmp_path / "b", tmp_path / "c"):
            while True:
                told = await answer(place, replace(FIND, known=tuple(map(WorkerName, found))), "ml")
                if not isinstance(told, OutputFound):
                    break
                assert told.worker not in found
                found[told.worker] = told.ranks
            assert {"w0": ((0, True),), "w1": ((0, False), (12, False))} == found
            one = await answer(place, replace(FIND, rank=12), "ml")
            assert OutputFound(WorkerName("w1"), ((12, False),)) == one

    in_virtual_time(body)


@pytest.mark.parametrize("job", ["job", "job-0.0", "..", ".", "", "a/b", "*", "job-?", "job-0.0/.."])
def test_names_find_nothing_else(tmp_path: Path, job: str) -> None:
    """Whatever is in them, nor what lies beside the output of tasks."""
    write(tmp_path, 0, "one\n")
    (tmp_path / "w-1.1" / "work").mkdir()
    assert () == ranks_of(tmp_path, replace(FIND, job=job))
    assert ((0, True),) == ranks_of(tmp_path, FIND)


def test_tenant_is_dropped_with_its_output(tmp_path: Path) -> None:
    """The file that names the tenant is no output, and is dropped when that is."""
    outputs = tmp_path / "outputs"
    (tmp_path / "rubbish").mkdir()
    rubbish = Rubbish(tmp_path / "rubbish")
    write(outputs, 0, "x" * 100)
    Retention(outputs, rubbish, 10, Nanoseconds(100 * SECOND)).sweep((), Instant(101 * SECOND))
    assert [] == list(outputs.iterdir())
    while rubbish.is_removing:
        rubbish.reap()


@pytest.mark.processes
async def test_tenant_is_kept_before_anything_is_written(spool_path: Path) -> None:
    """By the command that a share is prepared for."""
    async with nodes(spool_path) as made:
        outputs = made.spool.layout.outputs
        await made.prepare(prepare("sleep 600", tenant=TenantName("ml")))
        assert "ml" == (outputs / "w-1.1" / TENANT).read_text()
        assert b"" == read(outputs)
        await made.stop()

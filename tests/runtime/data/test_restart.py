"""A data service is killed by -9 at each stage of a copy, and the next one finds what there is and finishes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest

from core.effects import CopyData, ForgetCopy
from core.messages.copies import CopyChanged
from core.nouns.data import CopyFailure
from core.nouns.instant import seconds
from runtime.data.children import marked
from tests.mizzen.processes import HOUSE
from tests.runtime.data.aids import FAST, WORDS, Regions, hash_of, serving, until, write_tree
from tests.runtime.data.conftest import VARIABLE
from tests.runtime.data.killed_service import Life

pytestmark = pytest.mark.processes

SIZE = 150_000
RATE = 600_000
"""Bytes a second: a copy under way is met a third of the way."""


class Killed:
    """Services that are killed."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def serve(self, regions: Regions, order: CopyData, stage: str, command: str = "") -> None:
        """Have a service begin an order, and be killed at a stage."""
        variables = {VARIABLE: os.environ[VARIABLE]}
        life = Life(str(regions.eu), str(regions.us), order, stage, command, variables)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(life) + b"\n")
        self._process.stdin.flush()
        assert -signal.SIGKILL == int(self._process.stdout.readline())


@pytest.fixture(scope="module")
def killed() -> Iterator[Killed]:
    """Services that are killed, each a process of its own."""
    words = [sys.executable, "-m", "tests.runtime.data.killed_service"]
    with subprocess.Popen(words, cwd=HOUSE, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Killed(process)
        assert process.stdin is not None
        process.stdin.close()


async def made(regions: Regions, order: CopyData, command: str = "") -> None:
    """Serve again; the order is carried out, and nothing else is there."""
    async with serving(regions, command) as service:
        assert CopyChanged(order.copy, order.bytes, is_over=True) == await service.copied(order)
    assert (order.hash, order.bytes) == hash_of(regions.target())
    assert [".incoming", WORDS] == sorted(path.name for path in regions.us.iterdir())


@pytest.mark.parametrize(
    ("stage", "finds"),
    [
        ("begun", "partial"),
        ("half_way", "partial"),
        ("copied", "partial"),
        ("hashing", "partial"),
        ("verified", "partial"),
        ("renamed", "dataset"),
        ("settled", "dataset"),
        ("over", "dataset"),
    ],
)
async def test_copy_is_finished_by_the_next_service(
    killed: Killed, regions: Regions, stage: str, finds: str
) -> None:
    """The dataset is under its name whole or not at all; no child writes on; what was copied is not copied again."""
    write_tree(regions.source(), SIZE)
    order = regions.order(rate=RATE if stage == "half_way" else FAST)
    killed.serve(regions, order, stage)
    assert (finds == "partial") == regions.partial().joinpath(WORDS).exists() or stage == "begun"
    assert (finds == "dataset") == regions.target().exists()
    if finds == "dataset":
        assert (order.hash, order.bytes) == hash_of(regions.target())
    found = inode_of(regions, finds)
    await made(regions, order)
    assert found in (None, inode_of(regions, "dataset"))


def inode_of(regions: Regions, finds: str) -> int | None:
    """Return which file the large one of the dataset is; None if it is not there."""
    place = regions.target() if finds == "dataset" else regions.partial() / WORDS
    try:
        return (place / "data").stat().st_ino
    except FileNotFoundError:
        return None


@pytest.mark.parametrize("stage", ["failed", "thrown"])
async def test_failed_copy_is_deleted_by_the_next_service(
    killed: Killed, regions: Regions, stage: str
) -> None:
    """A copy that failed leaves nothing, whenever its service was killed."""
    write_tree(regions.source(), 1_000)
    order = regions.order(hash="0" * 64)
    killed.serve(regions, order, stage)
    assert ["1" if stage == "failed" else "drop-0"] == regions.left()
    async with serving(regions) as service:
        end = await service.copied(order)
    assert (CopyFailure.HASH_DIFFERS, True) == (end.reason, end.is_over)
    assert not regions.target().exists()


async def test_damaged_partial_is_made_anew(killed: Killed, regions: Regions) -> None:
    """What an earlier process left is not believed: a file of the right length with other content costs a second copy."""
    write_tree(regions.source(), SIZE)
    order = regions.order()
    killed.serve(regions, order, "copied")
    with (regions.partial() / WORDS / "data").open("r+b") as file:
        file.write(bytes(1_000))
    await made(regions, order)


CP = "cp -a {source} {target}"


@pytest.mark.parametrize("stage", ["copied", "verified"])
async def test_command_that_cannot_go_on_begins_anew(killed: Killed, regions: Regions, stage: str) -> None:
    """`cp` puts a directory into the one that it finds: such a copy fails, is deleted, and made once more."""
    write_tree(regions.source(), 1_000)
    order = regions.order()
    killed.serve(regions, order, stage, CP)
    await made(regions, order, CP)


STAYS = (
    "import subprocess, sys; subprocess.run(['setsid', 'sh', '-c', f'echo x > {sys.argv[1]}; sleep 1000'])"
)


async def test_children_of_a_foreign_command_are_ended(killed: Killed, regions: Regions) -> None:
    """A descendant that outlives the service's death, in a session of its own, is ended before anything is written, or deleted."""
    regions.source().write_bytes(b"x\n" + os.urandom(1_000))  # So a copy goes on with what the command wrote.
    command = f'{sys.executable} -c "{STAYS}" {{target}}'
    for order in (regions.order(), regions.order(2)):
        killed.serve(regions, order, "foreign", command)
        assert [] != marked(str(regions.partial(order.copy)))
    async with serving(regions) as service:
        assert "" == (await service.copied(regions.order())).reason
        await service.forgotten(2)
        assert [] == marked(str(regions.partial())) + marked(str(regions.partial(2)))


async def test_copy_that_no_order_wants_is_deleted_by_the_next_service(
    killed: Killed, regions: Regions
) -> None:
    """Forgotten by its number, or a span after the start."""
    write_tree(regions.source(), SIZE)
    for copy in (1, 2):
        killed.serve(regions, regions.order(copy, rate=RATE), "half_way")
    assert ["1", "2"] == regions.left()
    async with serving(regions, report_interval=seconds(0.05), partial_kept=seconds(0.1)) as service:
        service.begin(ForgetCopy(1))
        await until(lambda: [] == regions.left())
    assert not regions.target().exists()

"""Real datasets, copied, hashed and deleted by real child processes; what cannot be done; and nothing left behind."""

import asyncio
import os
import resource
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import structlog

from core.effects import DropData, ForgetCopy, HashData
from core.messages.copies import CopyChanged, DataDropped, DataHashed
from core.nouns.data import CopyFailure
from core.nouns.ids import DatasetName, RegionName
from core.nouns.instant import seconds
from runtime.data import file_copy
from runtime.data.children import marked
from runtime.data.directory import DataDirectory
from runtime.data.file_copy import FileCopy
from runtime.data.files import DataFiles
from runtime.loop import run
from runtime.tasks.machine import NICENESS
from tests.runtime.data.aids import (
    US,
    WORDS,
    Regions,
    hash_of,
    python,
    serving,
    until,
    write_tree,
)

pytestmark = pytest.mark.processes

OFTEN = seconds(0.05)
SILENT = seconds(0.6)
"""For tests in which a silent child is to be ended."""
LONGER_SILENT = seconds(0.9)
"""For one in which a child is not, however slowly it starts."""
SLOW = 200_000
"""Bytes a second of copies that a test ends or watches."""
COPY = "import shutil, sys; source, target = sys.argv[1:3]; "
"""How a foreign command begins."""


def failed(message: CopyChanged, reason: CopyFailure) -> bool:
    """Return whether a copy ended for this reason."""
    assert message.is_over
    assert reason == message.reason
    return True


# Copies.


async def test_tree_is_copied_whole(regions: Regions) -> None:
    """Every file, link and directory, with odd names and modes, arrives; only then is it under its name."""
    write_tree(regions.source(), 100_000)
    order = regions.order()
    async with serving(regions) as service:
        assert CopyChanged(1, order.bytes, is_over=True) == await service.copied(order)
    target = regions.target()
    assert (order.hash, order.bytes) == hash_of(target)
    assert (target / "nothing in here").is_dir()
    assert "../deep-er" == os.readlink(target / "deep" / "link")  # noqa: PTH115  # as text
    assert 0o755 == stat.S_IMODE((target / "run.sh").stat().st_mode)
    assert [] == regions.left()


async def test_several_are_copied_at_a_time(regions: Regions) -> None:
    """A dataset that is one file, an empty file or an empty directory is as good as a tree; each has a child of its own."""
    names = [DatasetName(name) for name in ("file", "empty-file", "empty-tree", "v1.2_b")]
    regions.source("file").write_bytes(os.urandom(5_000))
    regions.source("empty-file").write_bytes(b"")
    regions.source("empty-tree").mkdir()
    write_tree(regions.source("v1.2_b"))
    orders = [regions.order(number, name) for number, name in enumerate(names)]
    assert len(names) == len({order.hash for order in orders})
    async with serving(regions) as service:
        service.begin(*orders)
        ends = [await service.end() for _ in orders]
    expected = [CopyChanged(order.copy, order.bytes, is_over=True) for order in orders]
    assert expected == sorted(ends, key=lambda end: end.copy)  # type: ignore[attr-defined]  # of each
    assert [hash_of(regions.source(name)) for name in names] == [
        hash_of(regions.target(name)) for name in names
    ]
    assert [] == list(regions.target("empty-tree").iterdir())


async def test_rate_is_held_and_progress_told(regions: Regions) -> None:
    """A megabyte at two megabytes a second takes half a second, and is told of meanwhile."""
    regions.source().write_bytes(os.urandom(1_000_000))
    order = regions.order(rate=2_000_000)
    async with serving(regions, report_interval=OFTEN) as service:
        begun = time.monotonic()
        service.begin(order)
        while not (await service.progress()).moved:
            pass
        service.begin(order)
        await service.end()
        assert time.monotonic() - begun >= 0.4
    moved = [message.moved for message in service.heard if isinstance(message, CopyChanged)]
    assert sorted(moved) == moved
    assert any(0 < each < 1_000_000 for each in moved)
    assert 1_000_000 == moved[-1]


async def test_asked_again_is_left_alone_then_found(regions: Regions) -> None:
    """An order asked twice is one copy; asked again when made, by a life that did not hear so, it is verified and told again."""
    regions.source().write_bytes(os.urandom(50_000))
    order = regions.order()
    made = CopyChanged(1, 50_000, is_over=True)
    async with serving(regions) as service:
        service.begin(order, order)
        assert made == await service.end()
        inode = regions.target().stat().st_ino
        service.data.detach()
        service.attach()
        regions.source().unlink()
        assert made == await service.copied(order)
        assert inode == regions.target().stat().st_ino
    assert [made, made] == service.heard


async def test_end_is_for_the_life_that_is_attached(regions: Regions) -> None:
    """A copy goes on when its service dies in this process; the next life hears the end."""
    regions.source().write_bytes(os.urandom(50_000))
    async with serving(regions, report_interval=OFTEN) as service:
        service.begin(regions.order(rate=SLOW))
        await service.progress()
        service.data.detach()
        told = len(service.heard)
        await until(lambda: regions.target().exists())
        assert told == len(service.heard)
        service.attach()
        assert CopyChanged(1, 50_000, is_over=True) == await service.copied(regions.order())


@pytest.mark.parametrize(
    "template", ["cp -a {source} {target}", ["cp", "-a", "--", "{source}", "{target}"]], ids=["text", "list"]
)
async def test_foreign_command_copies(regions: Regions, template: str | list[str]) -> None:
    """A command of the operator's copies as well, and its program is found on the path."""
    write_tree(regions.source(), 10_000)
    async with serving(regions, template) as service:
        assert "" == (await service.copied(regions.order())).reason
    assert hash_of(regions.source()) == hash_of(regions.target())


async def test_placeholders_are_replaced_in_words(tmp_path: Path, regions: Regions) -> None:
    """After the command is split: no path becomes two words, and none is looked through for placeholders."""
    odd = Regions(tmp_path / "a {target} b", regions.us)
    odd.eu.mkdir()
    odd.source().write_bytes(b"abc")
    text = f"{COPY} assert sys.argv[3] == 'rate=77', sys.argv; shutil.copy(source, target)"
    template = [*python(text)[:-1], "rate={rate}"]
    async with serving(odd, template) as service:
        assert "" == (await service.copied(odd.order(rate=77))).reason


def test_command_with_an_open_quote_is_refused(regions: Regions) -> None:
    """Before anything is begun."""
    with pytest.raises(ValueError, match="quotation"):
        DataFiles(US, regions.us, {}, "cp '{source} {target}")


# Failures.


async def test_source_is_missing(regions: Regions) -> None:
    """So it is where the dataset, its region or its region's directory is unknown, and for a name that is none."""
    regions.source("there").write_bytes(b"abc")
    async with serving(regions) as service:
        assert failed(await service.copied(regions.order()), CopyFailure.SOURCE_MISSING)
        elsewhere = regions.order(2, "there", source=RegionName("mars"))
        assert failed(await service.copied(elsewhere), CopyFailure.SOURCE_MISSING)
        for number, name in enumerate((".incoming", "..", "a/b", "", "-rf"), 3):
            order = regions.order(number, name)
            assert failed(await service.copied(order), CopyFailure.SOURCE_MISSING)
    async with serving(regions, "cp -a {source} {target}") as service:
        assert failed(await service.copied(regions.order()), CopyFailure.SOURCE_MISSING)
    assert [] == list(regions.us.glob("[!.]*"))


async def test_directory_is_missing(tmp_path: Path, regions: Regions) -> None:
    """No directory is made for the operator; copies and hashes fail until there is one."""
    regions.source().write_bytes(b"abc")
    nowhere = Regions(regions.eu, tmp_path / "nowhere")
    async with serving(nowhere) as service:
        assert failed(await service.copied(regions.order()), CopyFailure.NO_DIRECTORY)
        assert CopyFailure.NO_DIRECTORY == (await service.hashed(2)).reason
        assert not nowhere.us.exists()
        nowhere.us.write_bytes(b"a file")
        assert failed(await service.copied(regions.order(3)), CopyFailure.NO_DIRECTORY)
        nowhere.us.unlink()
        nowhere.us.mkdir()
        assert "" == (await service.copied(regions.order(4))).reason


async def test_directory_of_another_process_is_left_alone(regions: Regions) -> None:
    """Two services never write into one directory; when one lets go, the other goes on."""
    regions.source().write_bytes(b"abc")
    async with serving(regions, lock_span=seconds(0.2)) as first:
        assert "" == (await first.copied(regions.order())).reason
        async with serving(regions, lock_span=seconds(0.2)) as second:
            assert failed(await second.copied(regions.order(2)), CopyFailure.NO_DIRECTORY)
            first.data.close()
            assert "" == (await second.copied(regions.order(3))).reason
            regions.us.rename(regions.us.with_name("another-disk"))
            regions.us.mkdir()
            assert "" == (await second.copied(regions.order(4))).reason
            assert failed(await first.copied(regions.order(5)), CopyFailure.NO_DIRECTORY)


async def test_disk_is_too_full_to_begin(regions: Regions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written where the free bytes do not cover the order."""
    regions.source().write_bytes(os.urandom(1_000))
    monkeypatch.setattr(file_copy, "free_bytes", lambda _: 999)
    async with serving(regions) as service:
        assert failed(await service.copied(regions.order()), CopyFailure.DISK_FULL)
        monkeypatch.setattr(file_copy, "free_bytes", lambda _: 1_000)
        assert "" == (await service.copied(regions.order(2))).reason


async def test_disk_becomes_full(regions: Regions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own program says so; of a foreign one that failed it is concluded from what is free."""
    regions.source().write_bytes(os.urandom(200_000))
    with largest_file(100_000):
        async with serving(regions) as service:
            assert failed(await service.copied(regions.order()), CopyFailure.DISK_FULL)
            assert not regions.partial().exists()
    frees = iter([200_000, 0])
    monkeypatch.setattr(file_copy, "free_bytes", lambda _: next(frees))
    async with serving(regions, python("raise SystemExit(1)")) as service:
        assert failed(await service.copied(regions.order(2)), CopyFailure.DISK_FULL)


async def test_command_is_missing(regions: Regions) -> None:
    """Whether it is itself not installed, or a shell does not find what it is to run."""
    regions.source().write_bytes(b"abc")
    for number, template in enumerate(("no-such-command {source} {target}", "sh -c no-such-command")):
        async with serving(regions, template) as service:
            assert failed(await service.copied(regions.order(number)), CopyFailure.COMMAND_MISSING)


async def test_command_fails(regions: Regions) -> None:
    """Its last line of stderr is in the process log, and in no notice; what it wrote is deleted."""
    regions.source().write_bytes(b"abc")
    text = (
        f"{COPY} shutil.copy(source, target); print('one\\nno route to host', file=sys.stderr); sys.exit(23)"
    )
    with structlog.testing.capture_logs() as logs:
        async with serving(regions, python(text)) as service:
            assert failed(await service.copied(regions.order()), CopyFailure.COMMAND_FAILED)
    (line,) = [line for line in logs if line["event"] == "copy_command_failed"]
    assert ("no route to host", 23) == (line["said"], line["code"])
    assert "route" not in repr(service.heard)
    assert not regions.target().exists()


async def test_silent_command_is_killed_with_all_its_children(regions: Regions) -> None:
    """Also a child that left the command's session; a command that works on goes on for longer than that."""
    regions.source().write_bytes(b"abc")
    hangs = f"{COPY} import subprocess, time; shutil.copy(source, target)\n"
    hangs += "for words in (['sleep', '1000'], ['setsid', 'sleep', '1000']): subprocess.Popen(words)\n"
    hangs += "time.sleep(1000)"
    async with serving(regions, python(hangs), silence_max=SILENT) as service:
        assert failed(await service.copied(regions.order()), CopyFailure.COMMAND_SILENT)
        assert [] == marked(str(regions.partial()))
    regions.source("more").write_bytes(b"x" * 9)
    works = ["sh", "-c", 'for i in $(seq 9); do printf x >> "$0"; sleep 0.12; done', "{target}"]
    async with serving(regions, works, silence_max=LONGER_SILENT) as service:
        assert "" == (await service.copied(regions.order(2, "more"))).reason


async def test_children_that_outlive_their_command_are_ended(regions: Regions) -> None:
    """A command that ends before its children does not have them write into a copy that is verified."""
    regions.source().write_bytes(b"abc")
    text = f"{COPY} import subprocess; shutil.copy(source, target)\n"
    text += "subprocess.Popen(['setsid', 'sh', '-c', f'sleep 1000; echo x >> {target}'])"
    async with serving(regions, python(text)) as service:
        assert "" == (await service.copied(regions.order())).reason
        assert [] == marked(str(regions.partial()))


@pytest.mark.parametrize(
    "text",
    ["open(target, 'w').write('abd')", "0", "import os; os.mkdir(target)"],
    ids=["garbage", "nothing", "no file"],
)
async def test_command_lies(regions: Regions, text: str) -> None:
    """What arrives is believed by its hash alone."""
    regions.source().write_bytes(b"abc")
    async with serving(regions, python(COPY + text)) as service:
        assert failed(await service.copied(regions.order()), CopyFailure.HASH_DIFFERS)
    assert not regions.target().exists()


@pytest.mark.parametrize("template", ["", "cp -a {source} {target}"], ids=["own", "foreign"])
async def test_more_arrives_than_was_ordered(regions: Regions, template: str) -> None:
    """A dataset that is larger than its order is no copy, though its hash is right."""
    regions.source().write_bytes(os.urandom(3_000))
    async with serving(regions, template) as service:
        end = await service.copied(regions.order(bytes=2_999))
        assert failed(end, CopyFailure.SIZE_DIFFERS)
        assert 3_000 == end.moved
    assert not regions.target().exists()


async def test_copy_that_grows_beyond_its_order_is_ended(regions: Regions) -> None:
    """Long before all of the dataset is there."""
    regions.source().write_bytes(os.urandom(5_000_000))
    async with serving(regions) as service:
        end = await service.copied(regions.order(bytes=1_000, rate=1_000_000))
        assert failed(end, CopyFailure.SIZE_DIFFERS)
        assert end.moved < 2_500_000


@pytest.mark.parametrize("leads_to", ["../eu/words/../../secret", "/etc/passwd", "..", "pipe"])
async def test_entries_that_lead_outside_are_refused(regions: Regions, leads_to: str) -> None:
    """A link out of the dataset is neither hashed nor copied, nor is a pipe; what it leads to is not read."""
    regions.source().mkdir()
    (regions.source() / "fine").write_bytes(b"abc")
    order = regions.order()
    if leads_to == "pipe":
        os.mkfifo(regions.source() / "x")
    else:
        (regions.source() / "x").symlink_to(leads_to)
    async with serving(regions) as service:
        assert failed(await service.copied(order), CopyFailure.COMMAND_FAILED)
    async with serving(Regions(regions.us, regions.eu)) as service:
        assert DataHashed(2, WORDS, "", 0, CopyFailure.COMMAND_FAILED) == await service.hashed(2)


async def test_files_of_an_operator_are_never_touched(regions: Regions) -> None:
    """Neither by a copy that finds them, nor by one whose place is taken while it is under way."""
    regions.source().write_bytes(os.urandom(20_000))
    regions.target().write_bytes(b"mine")
    async with serving(regions, report_interval=OFTEN) as service:
        assert failed(await service.copied(regions.order()), CopyFailure.HASH_DIFFERS)
        assert b"mine" == regions.target().read_bytes()
        regions.target().unlink()
        service.begin(regions.order(2, rate=50_000))
        while not (await service.progress()).moved:
            pass
        regions.target().write_bytes(b"mine")
        end = await service.end()
        assert isinstance(end, CopyChanged)
        assert failed(end, CopyFailure.HASH_DIFFERS)
    assert b"mine" == regions.target().read_bytes()


async def test_copy_of_an_ended_order_makes_room_for_other_content(regions: Regions) -> None:
    """A copy that was made, and whose order an operator ended in that moment, is no file of an operator: other content replaces it."""
    regions.source().write_bytes(b"old")
    old = regions.order()
    async with serving(regions) as service:
        assert "" == (await service.copied(old)).reason
        service.begin(ForgetCopy(1))
    write_tree(regions.source("new"), 20_000)
    regions.source().unlink()
    regions.source("new").rename(regions.source())
    async with serving(regions) as service:
        new = regions.order(2)
        assert CopyChanged(2, new.bytes, is_over=True) == await service.copied(new)
        assert new.hash == hash_of(regions.target())[0]
        # What an operator puts in its place is the operator's, and so is what comes after a deletion.
        service.begin(DropData(WORDS))
        assert DataDropped(WORDS) == await service.end()
        regions.target().write_bytes(b"old")
        assert failed(await service.copied(regions.order(3)), CopyFailure.HASH_DIFFERS)
        assert b"old" == regions.target().read_bytes()


async def test_links_in_the_place_of_our_directories_are_refused(tmp_path: Path, regions: Regions) -> None:
    """Nothing is written, renamed or deleted where they lead."""
    regions.source().write_bytes(b"abc")
    (tmp_path / "elsewhere").mkdir()
    (regions.us / ".incoming").symlink_to(tmp_path / "elsewhere")
    async with serving(regions) as service:
        assert failed(await service.copied(regions.order()), CopyFailure.NO_DIRECTORY)
        (regions.us / ".incoming").unlink()
        regions.partial(2).parent.mkdir()
        regions.partial(2).symlink_to(tmp_path / "elsewhere")
        assert "" == (await service.copied(regions.order(2))).reason
    assert [] == list((tmp_path / "elsewhere").iterdir())


def test_process_loop_serves_as_well(regions: Regions) -> None:
    """A process runs another loop than tests do, where it is installed."""
    write_tree(regions.source(), 10_000)

    async def main() -> None:
        async with serving(regions) as service:
            assert "" == (await service.copied(regions.order())).reason
            assert hash_of(regions.source())[0] == (await service.hashed(2)).hash
            await service.dropped()
        async with serving(regions, python("import time; time.sleep(1000)"), silence_max=SILENT) as service:
            assert failed(await service.copied(regions.order(3)), CopyFailure.COMMAND_SILENT)

    run(main())


# Forgetting.


async def test_copy_under_way_is_forgotten(regions: Regions) -> None:
    """Its child ends, all of it is deleted, and no end is told; the same number may be asked for again."""
    regions.source().write_bytes(os.urandom(100_000))
    async with serving(regions, report_interval=OFTEN) as service:
        service.begin(regions.order(rate=20_000))
        while not (await service.progress()).moved:
            pass
        (copier,) = marked(str(regions.partial()))
        assert os.getpriority(os.PRIO_PROCESS, copier) >= NICENESS
        await service.forgotten(1)
        assert ([], []) == (marked(str(regions.partial())), regions.left())
        assert not any(message.is_over for message in service.heard if isinstance(message, CopyChanged))
        assert not regions.target().exists()
        service.begin(regions.order(rate=20_000), ForgetCopy(1), regions.order(rate=20_000))
        while not (await service.progress()).moved:
            pass
        service.begin(ForgetCopy(1), regions.order())
        assert CopyChanged(1, 100_000, is_over=True) == await service.end()


async def test_words_about_one_order_are_taken_in_turn(
    regions: Regions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that is asked for right after it is forgotten begins when the deletion is over."""
    regions.source().write_bytes(b"abc")
    regions.partial().mkdir(parents=True)
    (regions.partial() / WORDS).write_bytes(b"abc")
    discard, carry_out = DataDirectory.discard, FileCopy.carry_out
    journal = []

    async def journaled_discard(directory: DataDirectory, copy: int) -> None:
        await asyncio.sleep(0)
        await discard(directory, copy)
        journal.append("discarded")

    async def journaled_copy(copy: FileCopy) -> CopyFailure | None:
        journal.append("begun")
        return await carry_out(copy)

    monkeypatch.setattr(DataDirectory, "discard", journaled_discard)
    monkeypatch.setattr(FileCopy, "carry_out", journaled_copy)
    async with serving(regions) as service:
        service.begin(ForgetCopy(1), regions.order())
        assert CopyChanged(1, 3, is_over=True) == await service.end()
    assert ["discarded", "begun", "discarded"] == journal


async def test_copy_of_an_earlier_process_is_forgotten(regions: Regions) -> None:
    """Also one that this doer was never asked for; a number of which there is nothing is no matter."""
    regions.partial(7).mkdir(parents=True)
    (regions.partial(7) / WORDS).write_bytes(b"abc")
    async with serving(regions) as service:
        await service.forgotten(7)
        await service.forgotten(8)
    assert [] == service.heard


async def test_copies_that_no_life_asks_for_are_forgotten(regions: Regions) -> None:
    """A span after its start a service has asked for all that the log orders: the rest goes, and also what is being deleted."""
    regions.source().write_bytes(os.urandom(100_000))
    for left in ("7", "8", "drop-0"):
        (regions.us / ".incoming" / left).mkdir(parents=True)
    async with serving(regions, report_interval=OFTEN, partial_kept=seconds(0.2)) as service:
        service.begin(regions.order(8, rate=SLOW), regions.order(9, "gone"))
        await until(lambda: ["8"] == regions.left())
        assert regions.partial(8).exists()
        while (end := await service.end()).copy != 8:  # type: ignore[attr-defined]  # of a copy
            pass
        assert CopyChanged(8, 100_000, is_over=True) == end


# Hashes and deletions.


async def test_dataset_is_hashed(regions: Regions) -> None:
    """Whole, with its true bytes; one that is not there is missing, and a name that is none is, too."""
    write_tree(regions.target(), 70_000)
    async with serving(regions) as service:
        assert DataHashed(1, WORDS, *hash_of(regions.target())) == await service.hashed(1)
        for number, name in enumerate(("gone", "..", ".incoming", "a/b"), 2):
            missing = DataHashed(number, DatasetName(name), "", 0, CopyFailure.SOURCE_MISSING)
            assert missing == await service.hashed(number, DatasetName(name))


async def test_one_dataset_is_hashed_at_a_time(tmp_path: Path, regions: Regions) -> None:
    """However many are asked for, and the same one only once; a hasher that says nothing or nonsense has failed."""
    for name in ("a", "b", "c"):
        regions.target(name).write_bytes(b"abc")
    journal = tmp_path / "journal"
    text = "import sys, time; journal = open(sys.argv.pop(1), 'a', 1)\n"
    text += "journal.write('begun\\n'); time.sleep(0.05); journal.write('ended\\n'); print(f'{sys.argv[-1][-1]}0 3')"
    async with serving(regions, hasher=("-c", text, str(journal))) as service:
        for number, name in enumerate(("a", "b", "c", "c")):
            service.begin(HashData(min(number, 2), DatasetName(name)))
        heard = [await service.end() for _ in range(3)]
    assert [
        DataHashed(number, DatasetName(name), f"{name}0", 3) for number, name in enumerate("abc")
    ] == heard
    assert ["begun", "ended"] * 3 == journal.read_text().split()
    async with serving(regions, hasher=("-c", "print('nonsense')")) as service:
        assert CopyFailure.COMMAND_FAILED == (await service.hashed(1, DatasetName("a"))).reason
    async with serving(
        regions, hasher=("-c", "import time; time.sleep(1000)"), silence_max=SILENT
    ) as service:
        assert CopyFailure.COMMAND_SILENT == (await service.hashed(1, DatasetName("a"))).reason


async def test_dataset_is_deleted(tmp_path: Path, regions: Regions) -> None:
    """All of it, links themselves and never where they lead; one that is not there is told to be deleted as well."""
    (tmp_path / "kept").write_bytes(b"abc")
    write_tree(regions.target(), 1_000)
    (regions.target() / "out").symlink_to(tmp_path)
    regions.target("other").write_bytes(b"abc")
    (regions.target() / "deep").chmod(0o500)
    async with serving(regions) as service:
        await service.dropped()
        await service.dropped()
        for name in ("..", ".incoming", "/"):
            await service.dropped(DatasetName(name))
    assert [".incoming", "other"] == sorted(path.name for path in regions.us.iterdir())
    assert (tmp_path / "kept").exists()


async def test_deletion_waits_for_its_directory(regions: Regions) -> None:
    """The order to delete stands until it is told: a disk that is away for a while keeps nothing for good."""
    regions.target().write_bytes(b"abc")
    away = regions.us.rename(regions.us.with_name("away"))
    with structlog.testing.capture_logs() as logs:
        async with serving(regions, drop_retry=OFTEN) as service:
            service.begin(DropData(WORDS), DropData(WORDS))
            await until(lambda: len(logs) > 1)
            away.rename(regions.us)
            assert DataDropped(WORDS) == await service.end()
    assert {"no_data_directory"} == {line["event"] for line in logs}
    assert [DataDropped(WORDS)] == service.heard
    assert not regions.target().exists()


async def test_all_ends_with_the_doer(regions: Regions) -> None:
    """A service that is stopped leaves its unfinished copy, and no child; the next one goes on with the copy."""
    regions.source().write_bytes(os.urandom(60_000))
    async with serving(regions, report_interval=OFTEN) as service:
        service.begin(regions.order(rate=40_000))
        while not (await service.progress()).moved:
            pass
    assert [] == marked(str(regions.partial()))
    begun = (regions.partial() / WORDS).stat()
    async with serving(regions) as service:
        assert service.data._group is None, "asked before it runs, as after"
        assert "" == (await service.copied(regions.order())).reason
    assert begun.st_ino == regions.target().stat().st_ino


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Have children of this process fail to write longer files."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

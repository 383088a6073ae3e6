"""Snapshots that the build before left are started from, and no image changes without a new version."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from core.codec import encode
from core.images import GlobalImage, RegionImage, empty_image
from core.images.versions import UNSAID, VERSIONS, OldSections, Step, Versions
from core.nouns.ids import GLOBAL_LOG, LogName
from core.nouns.instant import Instant
from runtime.images import load_image
from store.chain import GENESIS, chain
from store.errors import LogBroken
from store.images import unsealed
from store.memory import MemoryStore
from store.memory_disk import MemoryDisk
from store.port import Row, Snapshot
from store.rows import facts_of, row_of
from store.sqlite import SqliteStore
from tests.builders import EU_LOG
from tests.core.histories import QueueHistory, RegionHistory
from tests.golden.images import (
    FOLDER,
    LOG_ID,
    SUFFIX,
    GoldenLog,
    golden_of_this_build,
    read_golden,
    shape_of_this_build,
)

NEWEST = len(VERSIONS.shapes)
UNVERSIONED = "unversioned"
"""What the builds before version 1 kept."""
FOLDED_ANEW: frozenset[tuple[str, str]] = frozenset({("7", GLOBAL_LOG)})
"""Logs whose images of a version do not tell all that this build's have: their facts are folded once more."""
READ = [str(NEWEST), *([str(NEWEST - 1)] if NEWEST > 1 else []), *([UNVERSIONED] if NEWEST <= 2 else [])]
"""Versions of which this build reads snapshots."""
HOW = "core/images/versions.py says what a change of the images needs"


def digest_of(log: LogName, rows: list[Row]) -> str:
    """Of what these facts fold to."""
    image = empty_image(log)
    for fact in facts_of(log, rows):
        image.fold(fact)
    return image.digest()


def disk_of(golden: GoldenLog, snapshot: bytes) -> MemoryDisk:
    """The log with one of its snapshots beside it."""
    disk = MemoryDisk()
    file = disk.make_file(golden.log, LOG_ID)
    file.write(golden.rows, chain(GENESIS, golden.rows), 1)
    file.sync(len(golden.rows))
    kept = unsealed(snapshot)
    assert kept is not None
    file.images[kept.head.sequence] = snapshot
    return disk


# What changes is noticed.


def test_shape_of_images_has_its_version() -> None:
    """A struct of an image that changes, be it deep within, makes another shape, and that needs a new version."""
    assert VERSIONS.shapes[-1] == shape_of_this_build(), HOW
    assert len(set(VERSIONS.shapes)) == NEWEST
    assert NEWEST == 1 or VERSIONS.step is not None, HOW


def test_change_of_a_struct_is_another_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """A section more, and a section with a field more, of another type or with another default."""
    shapes = {shape_of_this_build()}
    kinds: list[list[Any]] = [[("a", int)], [("a", str)], [("a", int, 1)], [("a", int, 2)], [("b", int, 2)]]
    for fields in kinds:
        section = msgspec.defstruct("Section", fields)
        monkeypatch.setattr(RegionImage, "SECTIONS", {**RegionImage.SECTIONS, "more": section})
        shapes.add(shape_of_this_build())
    assert 1 + len(kinds) == len(shapes)


def test_every_version_is_recorded() -> None:
    """So that the next build has snapshots of this one to open; and those are as this build would keep them."""
    names = {path.name.removesuffix(SUFFIX) for path in FOLDER.iterdir()}
    assert names == {UNVERSIONED, *(str(number) for number in range(1, NEWEST + 1))}, HOW
    for golden in read_golden(str(NEWEST)):
        assert golden.snapshots
        for snapshot in golden.snapshots:
            kept = unsealed(snapshot)
            assert kept is not None
            assert VERSIONS.made_of == kept.made_of
    assert {GLOBAL_LOG, EU_LOG} == {golden.log for golden in golden_of_this_build()}


# What the build before kept is read.


@pytest.mark.parametrize("version", READ)
async def test_snapshot_of_the_build_before_is_started_from(version: str) -> None:
    """At every sequence that one was kept at: no fact before it is folded, and what comes out is what all facts come to.

    Where the step cannot be made, all facts are folded, and a line says so.
    """
    count = 0
    for golden in read_golden(version):
        expected = digest_of(golden.log, golden.rows)
        for snapshot in golden.snapshots:
            disk = disk_of(golden, snapshot)
            (sequence,) = disk.file(golden.log).images  # type: ignore[union-attr]
            with capture_logs() as lines:
                reader = await MemoryStore(disk).reader(golden.log)
                image, head, begun = await load_image(reader, golden.log)
            is_anew = (version, golden.log) in FOLDED_ANEW
            assert (0 if is_anew else sequence, len(golden.rows)) == (begun, head.sequence)
            assert ["snapshot_of_another_build"] * is_anew == [line["event"] for line in lines]
            assert expected == image.digest()
            count += 1
    assert count >= 18


async def test_unknown_snapshot_is_left_aside_and_archived_facts_are_folded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a build that is two versions older, or newer: a line says so. Where facts are missing the error names their file."""
    monkeypatch.setattr("store.archiving.FACTS_MAX", 50)
    rows = [row_of(fact) for fact in QueueHistory(1).draw(200)]
    store = SqliteStore(tmp_path)
    log = await store.open(GLOBAL_LOG, "id")
    reader = await store.reader(GLOBAL_LOG)
    await log.append(rows[:150], 1)
    image = empty_image(GLOBAL_LOG)
    for fact in facts_of(GLOBAL_LOG, rows[:150]):
        image.fold(fact)
    await reader.keep_snapshot(Snapshot(log.head, image.encode(), "7-ffffffffffffffff"))
    await log.append(rows[150:], 1)
    (done, *_) = [await reader.archive(Instant(1 << 62)) for _ in range(3)]
    await log.shed()
    with capture_logs() as lines:
        loaded, head, begun = await load_image(reader, GLOBAL_LOG)
    assert (0, len(rows)) == (begun, head.sequence)
    assert digest_of(GLOBAL_LOG, rows) == loaded.digest()
    (line,) = lines
    assert ("snapshot_of_another_build", 150) == (line["event"], line["sequence"])
    assert ("7-ffffffffffffffff", VERSIONS.made_of) == (line["made_of"], line["wanted"])
    assert done is not None
    Path(done.path).unlink()
    again = await store.reader(GLOBAL_LOG)
    with pytest.raises(LogBroken, match=r"1-50.* is missing, and facts 1 to 50 are in it"):
        await load_image(again, GLOBAL_LOG)
    for one in (reader, again, log):
        await one.close()


# Steps, between versions of a test.


def older(image: bytes, *gone: tuple[str, str]) -> bytes:
    """An image as a build had it that did not know these fields of sections, or sections."""
    sections = msgspec.msgpack.decode(image)
    for section, field in gone:
        if field:
            del sections[section][field]
        else:
            del sections[section]
    return msgspec.msgpack.encode(sections)


def two_versions(step: Step) -> Versions:
    """This build's, and one before it."""
    return Versions(("a" * 16, VERSIONS.shapes[-1]), step)


def add_count(_: LogName, old: OldSections) -> dict[str, Any] | None:
    """`submitted` is new, and follows from the rows; `datasets` is new, and empty."""
    workloads = old.read("workloads")
    numbers = [row["number"] for row in workloads["rows"].values()]
    return {"workloads": {**workloads, "submitted": max(numbers)}, "datasets": {"rows": {}}}


def queue_image() -> GlobalImage:
    """Some of a drawn one, its newest workload among them, and what no row tells."""
    image = empty_image(GLOBAL_LOG)
    for fact in QueueHistory(3).draw(200):
        image.fold(fact)
    assert isinstance(image, GlobalImage)
    assert image.workloads.rows
    image.workloads.submitted = max(row.number for row in image.workloads.rows.values())
    return image


def test_step_computes_what_is_new() -> None:
    """From the older sections; the others stay as they are."""
    image = queue_image()
    versions = two_versions(Step(add_count, frozenset({"submitted"})))
    data = older(image.encode(), ("workloads", "submitted"), ("datasets", ""))
    for made_of in (f"1-{'a' * 16}", UNSAID):
        stepped = versions.image_of(GLOBAL_LOG, data, made_of)
        assert stepped is not None
        assert image.digest() == stepped.digest()
    assert f"2-{VERSIONS.shapes[-1]}" == versions.made_of
    current = versions.image_of(GLOBAL_LOG, image.encode(), versions.made_of)
    assert current is not None
    assert image.digest() == current.digest()


def test_step_that_cannot_tell_leaves_it_to_the_facts() -> None:
    """It says so itself, or does not state a section that is new, or what it states is no section."""
    data = older(queue_image().encode(), ("datasets", ""))
    for change in (
        lambda _, __: None,
        lambda _, __: {},
        lambda _, __: {"datasets": {"rows": 7}},
        lambda _, old: {"datasets": old.read("unheard")},
    ):
        assert two_versions(Step(change)).image_of(GLOBAL_LOG, data, f"1-{'a' * 16}") is None
    assert two_versions(Step(lambda _, __: {"datasets": {"rows": {}}})).image_of(
        GLOBAL_LOG, data, f"1-{'a' * 16}"
    )


def test_snapshot_that_says_nothing_may_be_older_still() -> None:
    """What it lacks beside the new fields was never folded, so its default would be wrong: all facts are folded instead."""
    image = queue_image().encode()
    step = Step(lambda _, __: {"datasets": {"rows": {}}})
    data = older(image, ("datasets", ""), ("workloads", "submitted"))
    assert two_versions(step).image_of(GLOBAL_LOG, data, UNSAID) is None
    assert two_versions(step).image_of(GLOBAL_LOG, older(image, ("datasets", "")), UNSAID) is not None
    more = msgspec.msgpack.encode({**msgspec.msgpack.decode(image), "unheard": {}})
    first = Versions((VERSIONS.shapes[-1],))
    assert first.image_of(GLOBAL_LOG, image, UNSAID) is not None
    for other in (older(image, ("workloads", "submitted")), more):
        assert first.image_of(GLOBAL_LOG, other, UNSAID) is None


def test_two_versions_back_is_not_read() -> None:
    """One step is kept, from the version before."""
    image = empty_image(EU_LOG)
    for fact in RegionHistory(1).draw(50):
        image.fold(fact)
    versions = Versions(("a" * 16, "b" * 16, VERSIONS.shapes[-1]), Step(lambda _, __: {}))
    read = {
        said: versions.image_of(EU_LOG, image.encode(), said) is not None
        for said in (f"1-{'a' * 16}", f"2-{'b' * 16}", versions.made_of, UNSAID, "2-" + "c" * 16, "x")
    }
    assert [False, True, True, False, False, False] == list(read.values())


def test_image_that_cannot_be_decoded_is_left_aside() -> None:
    """Whatever it says of itself."""
    for data in (b"", b"\x01", encode({"workloads": 1}), queue_image().encode()[:-5]):
        assert VERSIONS.image_of(GLOBAL_LOG, data, VERSIONS.made_of) is None
    for data in (b"", b"\x01", queue_image().encode()[:-5]):
        assert two_versions(Step(add_count)).image_of(GLOBAL_LOG, data, f"1-{'a' * 16}") is None

"""The archive of one log: the archive files that the log's SQLite file names, read as if their rows were still in it.

The files lie in the directory `<log>.archive` beside the log. Only files that the SQLite file names count (table
`archived`, docs/decisions/0039-logs-that-end.md): a file that belongs to another past of the log, because an older copy of
the SQLite file was put back, is never read. Everything here blocks, and may be asked in several threads at once.
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path

from core.nouns.ids import LogName
from store.archive_file import ArchiveFile, Index, Reading, Rows
from store.chain import GENESIS
from store.errors import LogBroken
from store.port import Page, Row
from store.rows import fitting

FILES_KNOWN_MAX = 64
"""Files whose contents are remembered: 60 KB each, 4 MB in all. Pages that follow one another are in few files."""
INDEXES_KNOWN_MAX = 10_000
"""Files of which it is remembered where the parts of their indexes are, which a look for all facts about a thing asks of each:
2.3 KB each, 23 MB in all, for 10⁹ facts. What is behind these is read again at each look, 0.1 ms a file."""
BLOCKS_KNOWN_MAX = 4
"""Blocks that are remembered: pages of one reader follow one another, and a block is read for several of them."""


def directory_of(directory: Path, log: LogName) -> Path:
    """Where a log's archive files are."""
    return directory / f"{log}.archive"


class Archive:
    """The archive files of one log, in order."""

    def __init__(self, directory: Path, log: LogName, files: Sequence[ArchiveFile] = ()) -> None:
        self._directory = directory_of(directory, log)
        self._log = log
        self._files = list(files)
        self._readings: OrderedDict[int, Reading] = OrderedDict()
        self._indexes: dict[int, Index] = {}
        self._blocks: OrderedDict[tuple[int, int], Rows] = OrderedDict()

    @property
    def last(self) -> int:
        """The newest sequence that is archived; 0 when none is. What follows is in the SQLite file."""
        return self._files[-1].last if self._files else 0

    @property
    def hash_after(self) -> bytes:
        """The hash of the newest row that is archived."""
        return self._files[-1].hash_after if self._files else GENESIS

    @property
    def files(self) -> list[ArchiveFile]:
        """All files, oldest first."""
        return list(self._files)

    def add(self, files: Sequence[ArchiveFile]) -> None:
        """Files that were archived after those known so far."""
        for file in files:
            if file.first == self.last + 1:
                self._files.append(file)

    def hash_of(self, sequence: int) -> bytes | None:
        """The hash of the last row of a file; None of any other row."""
        place = bisect_left(self._files, sequence, key=lambda file: file.last)
        found = self._files[place : place + 1]
        return found[0].hash_after if found and found[0].last == sequence else None

    def read(self, first: int, count_max: int, bytes_max: int) -> Page:
        """As `LogReader.read`, up to the newest row that is archived. Raises LogBroken."""
        block = self._block_with(first)
        begin = first - block.rows[0].sequence
        before = block.hashes[begin - 1] if begin else block.hash_before
        rows: list[Row] = []
        after = before
        while len(rows) < count_max and (bytes_max > 0 or not rows):
            wanted = block.rows[begin : begin + count_max - len(rows)]
            count, bytes_used = fitting(wanted, bytes_max, at_least=0 if rows else 1)
            bytes_max -= bytes_used
            rows += wanted[:count]
            after = block.hashes[begin + count - 1] if count else after
            has_all = len(rows) == count_max or not rows or rows[-1].sequence == self.last
            if has_all or rows[-1] is not block.rows[-1]:
                break
            block, begin = self._block_with(rows[-1].sequence + 1), 0
        return Page(rows, before, after)

    def pages(self, first: int) -> Iterator[tuple[list[Row], bytes]]:
        """All rows from `first` on, each page with the hash of its last row. Raises LogBroken."""
        while first <= self.last:
            block = self._block_with(first)
            yield block.rows[first - block.rows[0].sequence :], block.hashes[-1]
            first = block.rows[-1].sequence + 1

    def about(self, about: str, after: int, count_max: int, bytes_max: int) -> list[Row]:
        """Rows about a thing behind a sequence, oldest first, none left out: all that there are, or enough for a page with
        such limits and perhaps some more. Raises LogBroken.
        """
        rows: list[Row] = []
        bytes_found = 0
        for place in range(self._place_of(after + 1), len(self._files)):
            for number in self._blocks_about(place, about):
                if self._reading(place).last_of(number) <= after:
                    continue
                block = self._block(place, number).rows
                found = [row for row in block if row.about == about and row.sequence > after]
                rows += found
                bytes_found += sum(len(row.event) for row in found)
                if len(rows) >= count_max or bytes_found >= bytes_max:
                    return rows
        return rows

    def check(self, sequence: int, hash_before: bytes) -> ArchiveFile:
        """Check the file that has a row, its index too, and that the row follows the one that is hashed to `hash_before`.

        Raises LogBroken.
        """
        file = self._files[self._place_of(sequence)]
        Reading(self._log, self._directory / file.name, file).check()
        if self.read(sequence, 1, 1).hash_before != hash_before:
            raise LogBroken(self._log, sequence, "what is archived does not follow the row before it")
        return file

    def _place_of(self, sequence: int) -> int:
        return bisect_left(self._files, sequence, key=lambda file: file.last)

    def _block_with(self, sequence: int) -> Rows:
        place = self._place_of(sequence)
        if not 1 <= sequence <= self.last:
            raise LogBroken(self._log, sequence, "the row is not archived")
        return self._block(place, self._reading(place).number_of(sequence))

    def _block(self, place: int, number: int) -> Rows:
        known = self._blocks.get((place, number))
        if known is None:
            known = self._blocks[place, number] = self._reading(place).rows(number)
            while len(self._blocks) > BLOCKS_KNOWN_MAX:
                self._blocks.popitem(last=False)
        return known

    def _blocks_about(self, place: int, about: str) -> list[int]:
        index, file = self._indexes.get(place), self._files[place]
        if index is None:
            index = self._opened(place).index
            if len(self._indexes) < INDEXES_KNOWN_MAX:
                self._indexes[place] = index
        return index.blocks_about(self._log, self._directory / file.name, file, about)

    def _opened(self, place: int) -> Reading:
        file = self._files[place]
        return Reading(self._log, self._directory / file.name, file)

    def _reading(self, place: int) -> Reading:
        known = self._readings.get(place)
        if known is None:
            known = self._readings[place] = self._opened(place)
            while len(self._readings) > FILES_KNOWN_MAX:
                self._readings.popitem(last=False)
        return known

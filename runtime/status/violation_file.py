"""The file that keeps the auditor's violations until an operator acknowledges them: one JSON object a line.

violations.jsonl              first the counts, then the violations that are not acknowledged, the oldest first
violations.<time>.jsonl       violations that were acknowledged then

The line of counts has a fixed width and is written in place, so violations beyond those that are kept count too.
"""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog
from msgspec import Struct
from msgspec.structs import asdict, replace

from core.component import Effect
from core.effects import KeepViolations, PutViolationsAside
from core.messages.auditor import FoundViolation, ViolationsKept
from core.violation_book import ViolationBook
from runtime.effects import Done

logger = structlog.get_logger()

Line = TypeVar("Line", bound=Struct)

FILE = "violations.jsonl"
COUNTS_WIDTH = 79
"""Characters of the line of counts: two numbers of 20 digits fit."""


class Counts(Struct, frozen=True):
    """The first line of the file."""

    found: int
    """Number of the newest violation."""
    acknowledged: int


class ViolationFile:
    """The auditor's doer. Outlives the auditor's lives in its process."""

    def __init__(self, directory: Path | None) -> None:
        """`directory` has the file; None: violations are kept in memory alone, for simulations."""
        self._path = None if directory is None else directory / FILE
        self._book: ViolationBook[FoundViolation] = ViolationBook()
        if self._path is not None:
            self._book = read_violations(self._path)
        self._is_current = False
        """Whether the file is known to have all that the book had before the present change."""

    def attach(self, done: Done) -> None:
        """An auditor has just started: the violations that earlier ones found are told to it, and their numbers."""
        if self._book.newest:
            kept = tuple(self._book.kept.values())
            done(ViolationsKept(kept, self._book.count, self._book.acknowledged))

    def detach(self) -> None:
        """The auditor is gone."""

    def begin(self, effect: Effect) -> None:
        """Append violations, or put those aside that are acknowledged."""
        if isinstance(effect, PutViolationsAside):
            self._put_aside(list(self._book.acknowledge(effect.up_to).values()))
            return
        assert isinstance(effect, KeepViolations), effect
        for one in effect.violations:
            logger.error(
                "invariant_violated", rule=one.rule, log=one.log, sequence=one.sequence, text=one.text
            )
        self._append([one for one in effect.violations if self._book.add(one)])

    async def run(self) -> None:
        """Nothing runs beside the auditor."""

    def close(self) -> None:
        """No timer is to be let go of."""

    def _append(self, violations: Iterable[FoundViolation]) -> None:
        """Write what the book has just got. Violations come before the counts: after a cut the lines tell how many there are."""
        if self._path is None:
            return
        try:
            if not self._is_current:
                self._write_anew(self._path)
                return
            self._is_current = False
            with self._path.open("r+b") as file:
                file.seek(0, 2)
                file.write(_lines(violations))
                file.flush()
                file.seek(0)
                file.write(self._counts())
            self._is_current = True
        except OSError as error:
            logger.error("violations_not_kept", path=str(self._path), problem=str(error))

    def _put_aside(self, gone: list[FoundViolation]) -> None:
        if self._path is None:
            return
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
        self._is_current = False
        try:
            if gone:  # None if there was no room to keep those that are acknowledged.
                self._path.with_name(f"violations.{stamp}.jsonl").write_bytes(_lines(gone))
            self._write_anew(self._path)
        except OSError as error:
            logger.error("violations_not_put_aside", path=str(self._path), problem=str(error))

    def _write_anew(self, path: Path) -> None:
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_bytes(self._counts() + _lines(self._book.kept.values()))
        unfinished.replace(path)
        self._is_current = True

    def _counts(self) -> bytes:
        counts = Counts(self._book.newest, self._book.acknowledged)
        return json.dumps(asdict(counts)).ljust(COUNTS_WIDTH).encode() + b"\n"


def read_violations(path: Path) -> ViolationBook[FoundViolation]:
    """Return the violations that a file keeps, and their numbers. A line that was cut counts and is not kept.

    A file of an older build has no counts; its lines are numbered from 1.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return ViolationBook()
    counts = _read(lines[0], Counts) if lines else None
    if counts is not None:
        del lines[0]
    acknowledged = counts.acknowledged if counts is not None else 0
    kept: dict[int, FoundViolation] = {}
    for number, line in enumerate(lines, acknowledged + 1):
        one = _read(line, FoundViolation)
        if one is not None:
            one = replace(one, number=one.number or number)
            kept[one.number] = one
    newest = max(counts.found if counts is not None else 0, acknowledged + len(lines), *kept)
    return ViolationBook(kept, newest - acknowledged, acknowledged)


def _read(line: bytes, kind: type[Line]) -> Line | None:
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.MsgspecError:
        return None


def _lines(violations: Iterable[FoundViolation]) -> bytes:
    return "".join(f"{json.dumps(asdict(one))}\n" for one in violations).encode()

"""The file that keeps the auditor's violations: one JSON object a line, oldest first, until an operator acknowledges them.

violations.jsonl              those that are not acknowledged
violations.<time>.jsonl       those that were acknowledged then
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import structlog
from msgspec.structs import asdict

from core.component import Effect
from core.effects import KeepViolations, PutViolationsAside
from core.messages.auditor import FoundViolation, ViolationsKept
from core.nouns.limits import VIOLATIONS_KEPT_MAX
from runtime.effects import Done

logger = structlog.get_logger()

FILE = "violations.jsonl"


class ViolationFile:
    """The auditor's doer. Outlives the auditor's lives in its process."""

    def __init__(self, directory: Path | None) -> None:
        """`directory` has the file; None: violations are kept in memory alone, for simulations."""
        self._path = None if directory is None else directory / FILE
        self._kept: list[FoundViolation] = []
        self._count = 0
        if self._path is not None:
            self._kept, self._count = read_violations(self._path)

    def attach(self, done: Done) -> None:
        """An auditor has just started: what earlier ones found is told to it."""
        if self._count:
            done(ViolationsKept(tuple(self._kept), self._count))

    def detach(self) -> None:
        """The auditor is gone."""

    def begin(self, effect: Effect) -> None:
        """Append violations, or put those aside that are acknowledged."""
        if isinstance(effect, PutViolationsAside):
            self._put_aside(effect)
            return
        assert isinstance(effect, KeepViolations), effect
        for one in effect.violations:
            logger.error(
                "invariant_violated", rule=one.rule, log=one.log, sequence=one.sequence, text=one.text
            )
        room = max(0, VIOLATIONS_KEPT_MAX - self._count)
        self._kept += effect.violations[:room]
        self._count += len(effect.violations)
        self._append(effect.violations[:room])

    async def run(self) -> None:
        """Nothing runs beside the auditor."""

    def close(self) -> None:
        """No timer is to be let go of."""

    def _append(self, violations: Sequence[FoundViolation]) -> None:
        if self._path is None or not violations:
            return
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.writelines(f"{json.dumps(asdict(one))}\n" for one in violations)
        except OSError as error:
            logger.error("violations_not_kept", path=str(self._path), problem=str(error))

    def _put_aside(self, effect: PutViolationsAside) -> None:
        self._kept, self._count = list(effect.violations), effect.count
        if self._path is None:
            return
        try:
            if self._path.exists():
                stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
                self._path.rename(self._path.with_name(f"violations.{stamp}.jsonl"))
        except OSError as error:
            logger.error("violations_not_put_aside", path=str(self._path), problem=str(error))
            return
        self._append(effect.violations)


def read_violations(path: Path) -> tuple[list[FoundViolation], int]:
    """Return the violations that a file keeps, and their number. A line that was cut counts and is not returned."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return [], 0
    found = []
    for line in lines:
        try:
            found.append(msgspec.json.decode(line, type=FoundViolation))
        except msgspec.MsgspecError:
            continue
    return found, len(lines)

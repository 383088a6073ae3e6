"""The auditor's violations outlive it, in a file that an operator can read and put away."""

import json
from pathlib import Path

from msgspec.structs import asdict
from structlog.testing import capture_logs

from core.effects import KeepViolations, PutViolationsAside
from core.messages.auditor import FoundViolation, ViolationsKept
from core.messages.base import Message
from core.nouns.ids import GLOBAL_LOG
from core.nouns.limits import VIOLATIONS_KEPT_MAX
from runtime.status.violation_file import FILE, ViolationFile, read_violations


def found(number: int) -> FoundViolation:
    """One of several."""
    return FoundViolation(1, GLOBAL_LOG, number, f"w-{number}: held twice")


def told(file: ViolationFile) -> list[Message]:
    """What an auditor hears that starts over this file."""
    heard: list[Message] = []
    file.attach(heard.append)
    return heard


def test_violations_are_lines_of_a_file_and_errors_in_the_log(tmp_path: Path) -> None:
    """Where the next auditor finds them."""
    file = ViolationFile(tmp_path)
    assert [] == told(file)
    with capture_logs() as lines:
        file.begin(KeepViolations((found(1), found(2))))
    file.begin(KeepViolations((found(3),)))
    kept = [json.loads(line) for line in (tmp_path / FILE).read_text().splitlines()]
    assert [asdict(found(number)) for number in (1, 2, 3)] == kept
    assert [("invariant_violated", "error", 1), ("invariant_violated", "error", 2)] == [
        (line["event"], line["log_level"], line["sequence"]) for line in lines
    ]
    assert [ViolationsKept((found(1), found(2), found(3)), 3)] == told(ViolationFile(tmp_path))


def test_acknowledged_ones_are_in_a_file_of_their_own(tmp_path: Path) -> None:
    """Those that are left stay."""
    file = ViolationFile(tmp_path)
    file.begin(KeepViolations((found(1), found(2))))
    file.begin(PutViolationsAside((found(2),), 1))
    [aside] = [path for path in tmp_path.iterdir() if path.name != FILE]
    assert ([found(1), found(2)], 2) == read_violations(aside)
    assert [ViolationsKept((found(2),), 1)] == told(ViolationFile(tmp_path))
    file.begin(PutViolationsAside((), 0))
    assert [] == told(ViolationFile(tmp_path))


def test_file_is_bounded(tmp_path: Path) -> None:
    """A plane in which everything is wrong does not fill its disk with saying so; the oldest say where it began."""
    file = ViolationFile(tmp_path)
    file.begin(KeepViolations(tuple(map(found, range(VIOLATIONS_KEPT_MAX - 1)))))
    file.begin(KeepViolations(tuple(map(found, range(100)))))
    kept, count = read_violations(tmp_path / FILE)
    assert (VIOLATIONS_KEPT_MAX, VIOLATIONS_KEPT_MAX) == (len(kept), count)


def test_line_that_was_cut_counts(tmp_path: Path) -> None:
    """The disk was full in the middle of it: that there was one more is known."""
    (tmp_path / FILE).write_text(json.dumps(asdict(found(1))) + '\n{"rule": 1, "lo')
    assert ([found(1)], 2) == read_violations(tmp_path / FILE)


def test_disk_that_takes_nothing_stops_nothing(tmp_path: Path) -> None:
    """It is an error in the log beside the violation."""
    (tmp_path / FILE).mkdir()
    file = ViolationFile(tmp_path)
    with capture_logs() as lines:
        file.begin(KeepViolations((found(1),)))
    assert ["invariant_violated", "violations_not_kept"] == [line["event"] for line in lines]
    assert [ViolationsKept((found(1),), 1)] == told(file)


def test_simulation_keeps_them_in_memory(tmp_path: Path) -> None:
    """A run writes no file."""
    file = ViolationFile(None)
    file.begin(KeepViolations((found(1),)))
    assert [ViolationsKept((found(1),), 1)] == told(file)
    file.begin(PutViolationsAside((), 0))
    assert [] == told(file)
    assert [] == list(tmp_path.iterdir())

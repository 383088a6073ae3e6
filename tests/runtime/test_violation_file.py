"""The auditor's violations outlive it, in a file that an operator can read and put away."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import asdict
from structlog.testing import capture_logs

from components.auditor.component import Audited, Auditor
from core.component import Decision, Images
from core.effects import KeepViolations, PutViolationsAside
from core.fact import NO_LOG, Fact
from core.invariants.consistency import Violation
from core.messages.auditor import (
    AcknowledgeViolations,
    AuditShown,
    FoundViolation,
    ShowAudit,
    ViolationsAcknowledged,
    ViolationsKept,
)
from core.messages.base import Message, Woken
from core.nouns.ids import GLOBAL_LOG
from core.nouns.limits import VIOLATIONS_KEPT_MAX
from runtime.status.violation_file import FILE, ViolationFile
from tests.builders import EU, START, an_envelope
from tests.matching import said_once


def found(number: int) -> FoundViolation:
    """One of several."""
    return FoundViolation(1, GLOBAL_LOG, number, f"w-{number}: held twice", number)


def some(first: int, last: int) -> KeepViolations:
    """These of several."""
    return KeepViolations(tuple(map(found, range(first, last + 1))))


def told(file: ViolationFile) -> list[Message]:
    """What an auditor hears that starts over this file."""
    heard: list[Message] = []
    file.attach(heard.append)
    return heard


def told_by(file: ViolationFile) -> tuple[list[int], int, int]:
    """The same as numbers: of those that are kept, how many are not acknowledged, and how many are."""
    [kept] = told(file)
    assert isinstance(kept, ViolationsKept)
    return [one.number for one in kept.violations], kept.count, kept.acknowledged


def test_violations_are_lines_of_a_file_and_errors_in_the_log(tmp_path: Path) -> None:
    """Where the next auditor finds them."""
    file = ViolationFile(tmp_path)
    assert [] == told(file)
    with capture_logs() as lines:
        file.begin(some(1, 2))
    file.begin(some(3, 3))
    kept = [json.loads(line) for line in (tmp_path / FILE).read_text().splitlines()]
    assert [{"found": 3, "acknowledged": 0}, *(asdict(found(number)) for number in (1, 2, 3))] == kept
    assert [("invariant_violated", "error", 1), ("invariant_violated", "error", 2)] == [
        (line["event"], line["log_level"], line["sequence"]) for line in lines
    ]
    assert [ViolationsKept((found(1), found(2), found(3)), 3)] == told(ViolationFile(tmp_path))


def test_acknowledged_ones_are_in_a_file_of_their_own(tmp_path: Path) -> None:
    """Those that are left stay."""
    file = ViolationFile(tmp_path)
    file.begin(some(1, 2))
    file.begin(PutViolationsAside(1))
    [aside] = [path for path in tmp_path.iterdir() if path.name != FILE]
    assert [asdict(found(1))] == [json.loads(line) for line in aside.read_text().splitlines()]
    assert [ViolationsKept((found(2),), 1, 1)] == told(ViolationFile(tmp_path))
    file.begin(PutViolationsAside(2))
    assert [ViolationsKept((), 0, 2)] == told(ViolationFile(tmp_path))


def test_file_is_bounded(tmp_path: Path) -> None:
    """A plane in which everything is wrong does not fill its disk with saying so; the oldest say where it began, and all are counted."""
    file = ViolationFile(tmp_path)
    most = VIOLATIONS_KEPT_MAX
    for first in range(1, most + 500, 100):
        file.begin(some(first, first + 99))
    assert 1 + most == len((tmp_path / FILE).read_bytes().splitlines())
    assert ([*range(1, most + 1)], most + 500, 0) == told_by(file) == told_by(ViolationFile(tmp_path))


def test_acknowledging_more_than_are_kept_leaves_the_others(tmp_path: Path) -> None:
    """As many in the file as in memory; and later ones are kept, for there is room again."""
    file = ViolationFile(tmp_path)
    for first in range(1, VIOLATIONS_KEPT_MAX + 500, 100):
        file.begin(some(first, first + 99))
    file.begin(some(1501, 1510))
    file.begin(PutViolationsAside(1500))
    assert ([], 10, 1500) == told_by(file) == told_by(ViolationFile(tmp_path))
    file.begin(some(1511, 1512))
    assert ([1511, 1512], 12, 1500) == told_by(file) == told_by(ViolationFile(tmp_path))
    file.begin(PutViolationsAside(1511))
    file.begin(PutViolationsAside(1500))
    assert ([1512], 1, 1511) == told_by(file) == told_by(ViolationFile(tmp_path))


def test_line_that_was_cut_counts(tmp_path: Path) -> None:
    """The disk was full in the middle of it: that there was one more is known. Neither it nor what follows it is lost."""
    file = ViolationFile(tmp_path)
    file.begin(some(1, 1))
    with (tmp_path / FILE).open("a") as lines:
        lines.write('{"rule": 1, "lo')
    again = ViolationFile(tmp_path)
    assert ([1], 2, 0) == told_by(again)
    again.begin(some(3, 3))
    assert ([1, 3], 3, 0) == told_by(again) == told_by(ViolationFile(tmp_path))


def test_file_of_an_older_build(tmp_path: Path) -> None:
    """It has neither counts nor numbers: its lines are the first ones."""
    old = [{**asdict(found(number))} for number in (1, 2)]
    for line in old:
        del line["number"]
    (tmp_path / FILE).write_text("".join(f"{json.dumps(line)}\n" for line in old))
    file = ViolationFile(tmp_path)
    assert ([1, 2], 2, 0) == told_by(file)
    file.begin(some(3, 3))
    assert ([1, 2, 3], 3, 0) == told_by(ViolationFile(tmp_path))


def test_disk_that_takes_nothing_stops_nothing(tmp_path: Path) -> None:
    """It is an error in the log beside the violation; when the disk takes something again, the file gets all."""
    (tmp_path / FILE).mkdir()
    file = ViolationFile(tmp_path)
    with capture_logs() as lines:
        file.begin(some(1, 1))
        file.begin(PutViolationsAside(1))
    events = ["invariant_violated", "violations_not_kept", "violations_not_put_aside"]
    assert events == [line["event"] for line in lines]
    file.begin(some(2, 2))
    (tmp_path / FILE).rmdir()
    file.begin(some(3, 3))
    assert ([2, 3], 2, 1) == told_by(file) == told_by(ViolationFile(tmp_path))


def test_simulation_keeps_them_in_memory(tmp_path: Path) -> None:
    """A run writes no file."""
    file = ViolationFile(None)
    file.begin(some(1, 1))
    assert [ViolationsKept((found(1),), 1)] == told(file)
    file.begin(PutViolationsAside(1))
    assert [ViolationsKept((), 0, 1)] == told(file)
    assert [] == list(tmp_path.iterdir())


class Lives:
    """An auditor over a file, one life after another; its host does nothing but what is asked for."""

    def __init__(self, file: Callable[[], ViolationFile]) -> None:
        self._open = file
        self.auditor = Auditor((EU,))
        self.found = 0
        self.begin()

    def begin(self) -> None:
        """A life begins; the one before has left nothing but the file."""
        self.file = self._open()
        self.state = self.auditor.initial(Images(START, None, {}))
        self.file.attach(self.notice)

    def notice(self, message: Message) -> None:
        """As the file's words come in."""
        self.hear(message)

    def hear(self, message: Message) -> Decision:
        """Decide, evolve, and do what is asked for."""
        decision = self.auditor.decide(self.state, an_envelope(message))
        for event in decision.events:
            self.auditor.evolve(self.state, Fact(NO_LOG, 0, START, "", "auditor", event))
        for effect in decision.effects:
            self.file.begin(effect)
        return decision

    def find(self, count: int) -> None:
        """Something is wrong, so many times; and it is told."""
        numbers = range(self.found, self.found + count)
        self.found += count
        found = Audited(tuple(Violation(3, GLOBAL_LOG, number, f"w-{number}") for number in numbers))
        self.auditor.evolve(self.state, Fact(NO_LOG, 0, START, "", "auditor", found))
        while self.state.untold:
            self.hear(Woken())

    def shown(self) -> AuditShown:
        """What is asked for first by the command that acknowledges."""
        return said_once(self.hear(ShowAudit()), AuditShown)

    def acknowledge(self, up_to: int) -> int:
        """How many were acknowledged."""
        return said_once(self.hear(AcknowledgeViolations(up_to)), ViolationsAcknowledged).count


@pytest.mark.parametrize("where", ["file", "memory"])
def test_auditor_and_file_agree_over_lives(where: str, tmp_path: Path) -> None:
    """After each acknowledgement, and a late one among them, the next life shows what this one showed."""
    memory = ViolationFile(None)
    lives = Lives(lambda: ViolationFile(tmp_path) if where == "file" else memory)
    lives.find(3)
    seen = lives.shown().newest
    assert (3, 0, 0) == (seen, lives.acknowledge(seen + 1), lives.acknowledge(0))
    for more, wanted in ((0, 3), (5, 5), (VIOLATIONS_KEPT_MAX + 500, VIOLATIONS_KEPT_MAX + 500)):
        lives.find(more)
        before = lives.shown()
        lives.begin()
        assert before == lives.shown()
        late, seen = seen, before.newest
        lives.find(2)
        assert wanted == lives.acknowledge(seen)
        assert (0, 0) == (lives.acknowledge(seen), lives.acknowledge(late))
        assert 2 == lives.shown().count
        before = lives.shown()
        lives.begin()
        assert before == lives.shown()
        assert 0 == lives.acknowledge(seen)
        seen = before.newest
        assert 2 == lives.acknowledge(seen)

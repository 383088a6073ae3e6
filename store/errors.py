"""What can go wrong with a log. Each names the log, and the sequence where it matters."""

from pathlib import Path

from core.nouns.ids import LogName


class LogError(Exception):
    """Something about one log; the text says what to do."""

    def __init__(self, log: LogName, text: str) -> None:
        super().__init__(f"log {log}: {text}")
        self.log = log


class LogInUse(LogError):
    """Another keeper holds the file, or answers for the log on the bus."""


class LogBroken(LogError):
    """A row's hash does not follow from the row before it. `sequence` is the first such row.

    `archive` is the archive file that has the row, if one has.
    """

    def __init__(self, log: LogName, sequence: int, text: str, archive: Path | None = None) -> None:
        super().__init__(log, f"at sequence {sequence}: {text}")
        self.sequence = sequence
        self.archive = archive


class ArchiveInUse(LogError):
    """Another process is writing an archive file of the log."""


class LogFromNewerBuild(LogError):
    """An event of a type that this build does not know: a newer build wrote it."""


class LogOfAnotherFleet(LogError):
    """The log belongs to another fleet."""


class LogFull(LogError):
    """The disk is full: the batch is absent, the log is whole and can still be read."""


class AppendFailed(LogError):
    """A batch could not be made durable. Whether it is there is known only after reopening."""


class NotNext(LogError):
    """A batch that does not follow the head, in sequence or in term. It is absent; the log goes on."""

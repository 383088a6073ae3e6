"""What should not happen to a host. Each stops it; starting again from the log is the remedy, where there is one."""

from core.nouns.ids import LogName


class HostError(Exception):
    """Something about one host; the text says what to do."""


class KeeperExists(HostError):
    """Another keeper answers for this log: two would write two histories."""

    def __init__(self, log: LogName, sequence: int) -> None:
        super().__init__(f"log {log} is kept already, up to {sequence}; stop that keeper first")
        self.log = log


class KeeperSilent(HostError):
    """Somebody listens for this log's keeper and does not answer, or the bus is not well: another may be there."""

    def __init__(self, log: LogName) -> None:
        super().__init__(
            f"log {log} may be kept already: whoever listens for its keeper does not answer; it is tried again"
        )
        self.log = log


class BrokenInvariant(HostError):
    """A component did what it must never do."""

    def __init__(self, component: str, text: str) -> None:
        super().__init__(f"{component}: {text}")
        self.component = component


class OlderCopy(HostError):
    """Another log rests on facts that ours does not have: our file was restored from an older copy."""

    def __init__(self, log: LogName, sequence: int, other: LogName) -> None:
        super().__init__(
            f"log {log} ends at {sequence}, and log {other} rests on later facts of it: this file is an older copy; "
            "put the newer one back"
        )
        self.log = log


class NotSolved(Exception):
    """A solver ended without an answer; the text says how."""


class BadOwnPolicy(NotSolved):
    """A policy of one's own gave no shares; the text is one sentence for people, and names the file."""

"""What can go wrong with a spool. The text says what to do."""

from pathlib import Path

from runtime.errors import HostError


class SpoolError(HostError):
    """Something about one worker's spool, named by a file of it."""

    def __init__(self, path: Path, text: str) -> None:
        super().__init__(f"{path} {text}")
        self.path = path


class SpoolDamaged(SpoolError):
    """A file holds what nobody wrote: to start from nothing would be to obey what is older than what was obeyed."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            path, f"is damaged ({problem}); put back a copy, or start this worker under another name"
        )


class SpoolInUse(SpoolError):
    """Another process serves it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "is in use: another process serves these nodes; stop that one first")

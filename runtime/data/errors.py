"""Why a program of a data service gives up; each text names the path."""

from pathlib import Path


class DatasetMissing(Exception):
    """There is no such file or directory."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} does not exist")
        self.path = path


class UnsafeEntry(Exception):
    """A dataset holds an entry that is no part of it: a link that leads outside, a device, a socket or a pipe."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path} {problem}")
        self.path = path

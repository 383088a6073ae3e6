"""Pickled code of functions, where executors load it: one file a function, for one life of a function server."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from core.nouns.ids import FunctionId


class CodeFiles:
    """The files of one server."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def path_of(self, function: FunctionId) -> Path:
        """Return the file of a function; tenant and digest are in its name, whatever letters they are made of."""
        return self._directory / hashlib.sha256(function.encode()).hexdigest()

    def keep(self, function: FunctionId, code: bytes) -> str:
        """Write a file whole, or not at all. Return the problem, if there is one."""
        path = self.path_of(function)
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            part = path.with_suffix(".part")
            part.write_bytes(code)
            part.replace(path)
        except OSError as error:
            return str(error)
        return ""

    def forget(self, functions: Iterable[FunctionId]) -> None:
        """Delete files that are there."""
        _delete(self.path_of(function) for function in functions)

    def forget_all(self) -> None:
        """Delete all files, those of lives before included."""
        if self._directory.is_dir():
            _delete(self._directory.iterdir())


def _delete(paths: Iterable[Path]) -> None:
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError:
            continue  # What cannot be deleted takes place on the disk, and nothing else.

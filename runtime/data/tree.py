"""The walk through a dataset: every entry once, in the order of the whole relative paths, byte by byte.

A dataset is a file or a directory. It may hold directories, files, and symbolic links that lead to a place inside it and would still do
so elsewhere: absolute links are refused, and so are devices, sockets and pipes.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from runtime.data.errors import DatasetMissing, UnsafeEntry


class Entry(NamedTuple):
    """One entry of a dataset."""

    path: Path
    relative: bytes
    """From the dataset's root, with slashes; empty: the root itself."""
    mode: int
    size: int
    """Bytes of a file."""
    link: str
    """Text of a symbolic link; empty: the entry is none."""

    @property
    def is_directory(self) -> bool:
        """Return whether the entry is a directory."""
        return stat.S_ISDIR(self.mode)


def entries(root: Path) -> Iterator[Entry]:
    """Yield the root and all that is in it. Raises DatasetMissing, UnsafeEntry and OSError."""
    try:
        status = root.lstat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DatasetMissing(root) from error
    if stat.S_ISLNK(status.st_mode):
        raise UnsafeEntry(root, "is a symbolic link")
    waiting = [_entry(root, b"", status, root)]
    inside = root.resolve()
    while waiting:
        entry = waiting.pop()
        yield entry
        if entry.is_directory:
            waiting.extend(_children(entry, inside))


def _children(parent: Entry, inside: Path) -> list[Entry]:
    """Return the entries of a directory, the first one last. A directory comes where its path with a slash would."""
    found = []
    with os.scandir(parent.path) as listing:
        for one in listing:
            name = os.fsencode(one.name)
            relative = parent.relative + b"/" + name if parent.relative else name
            path = parent.path / one.name
            found.append(_entry(path, relative, one.stat(follow_symlinks=False), inside))
    found.sort(key=lambda entry: entry.relative + b"/" * entry.is_directory, reverse=True)
    return found


def _entry(path: Path, relative: bytes, status: os.stat_result, inside: Path) -> Entry:
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        return Entry(path, relative, mode, 0, _safe_link(path, inside))
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise UnsafeEntry(path, "is neither a file nor a directory")
    return Entry(path, relative, mode, status.st_size if stat.S_ISREG(mode) else 0, "")


def _safe_link(path: Path, inside: Path) -> str:
    text = str(path.readlink())
    try:
        target = path.resolve()
    except RuntimeError as error:
        raise UnsafeEntry(path, "is a symbolic link to itself") from error
    if Path(text).is_absolute() or not target.is_relative_to(inside):
        raise UnsafeEntry(path, f"is a symbolic link that leads out of the dataset, to {text}")
    return text

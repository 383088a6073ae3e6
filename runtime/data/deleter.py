"""`python -m runtime.data.deleter PATH`: delete a file or a whole tree, links themselves and never where they lead.

An entry that is gone already is no error, nor is a directory that its owner may not write.
"""

import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

from runtime.data.child import EXIT_USAGE, Progress, end_without_parent, run_program


def delete(root: Path, progress: Progress) -> None:
    """Delete a tree, the root last. Raises OSError."""
    waiting, emptied = [root], []
    while waiting:
        path = waiting.pop()
        end_without_parent()
        if _is_directory(path):
            emptied.append(path)
            waiting.extend(_unlinked(path, progress))
        else:
            path.unlink(missing_ok=True)
    for directory in reversed(emptied):
        with suppress(FileNotFoundError):
            directory.rmdir()
        progress.add(1)


def main(arguments: list[str]) -> int:
    """Delete the path that is named."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m runtime.data.deleter PATH\n")
        return EXIT_USAGE
    return run_program(lambda: delete(Path(arguments[0]), Progress("deleted")))


def _unlinked(directory: Path, progress: Progress) -> list[Path]:
    """Delete all in a directory but its directories, and return those."""
    left = []
    with suppress(FileNotFoundError):
        if directory.lstat().st_mode & stat.S_IRWXU != stat.S_IRWXU:
            directory.chmod(stat.S_IRWXU)
        with os.scandir(directory) as listing:
            for one in listing:
                path = directory / one.name
                if one.is_dir(follow_symlinks=False):
                    left.append(path)
                else:
                    path.unlink(missing_ok=True)
                    progress.add(1)
    return left


def _is_directory(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except FileNotFoundError:
        return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

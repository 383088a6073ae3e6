"""`python -m runtime.data.hasher PATH`: print a dataset's hash and its bytes.

A dataset's hash is the BLAKE2b digest, of 32 bytes, of a list with one item for each file and symbolic link, in the order of their paths
relative to the dataset, byte by byte. The item of a file is

    DIGEST SIZE PATH, and a zero byte

with the digest of the file's content (BLAKE2b, 32 bytes, hexadecimal), its bytes in decimal, and its path; the path of a dataset that is
one file is empty. The item of a link has the digest of the link's text, and `link` in place of the size. Modes, times and directories do
not count. So an operator computes the hash of a directory without links as follows.

    cd DATASET
    find . -type f -printf '%P\\0' | LC_ALL=C sort -z | while IFS= read -r -d '' path; do
        printf '%s %s %s\\0' "$(b2sum -l 256 < "$path" | cut -d ' ' -f 1)" "$(stat -c %s -- "$path")" "$path"
    done | b2sum -l 256

With `--sync` all that was read is also made durable, directories included. With `--progress` lines `read BYTES` come first.
"""

import os
import sys
from hashlib import blake2b
from pathlib import Path

from runtime.data.child import EXIT_USAGE, Progress, end_without_parent, run_program
from runtime.data.tree import entries

DIGEST_BYTES = 32
BLOCK = 1 << 20


def read_dataset(root: Path, progress: Progress, *, is_synced: bool) -> tuple[str, int]:
    """Return the hash and the bytes of a dataset. Raises DatasetMissing, UnsafeEntry and OSError."""
    listed = blake2b(digest_size=DIGEST_BYTES)
    total = 0
    directories = []
    for entry in entries(root):
        if entry.is_directory:
            directories.append(entry.path)
        elif entry.link:
            digest = blake2b(os.fsencode(entry.link), digest_size=DIGEST_BYTES).hexdigest()
            listed.update(digest.encode() + b" link " + entry.relative + b"\0")
        else:
            digest, size = _read_file(entry.path, progress, is_synced=is_synced)
            listed.update(f"{digest} {size} ".encode() + entry.relative + b"\0")
            total += size
    if is_synced:
        for directory in directories:
            _sync(directory)
            progress.add(0)
    return listed.hexdigest(), total


def main(arguments: list[str]) -> int:
    """Hash the dataset that is named."""
    flags = [word for word in arguments if word in ("--sync", "--progress")]
    paths = [word for word in arguments if word not in flags]
    if len(paths) != 1:
        sys.stderr.write("usage: python -m runtime.data.hasher [--sync] [--progress] PATH\n")
        return EXIT_USAGE

    def work() -> None:
        progress = Progress("read" if "--progress" in flags else "")
        digest, size = read_dataset(Path(paths[0]), progress, is_synced="--sync" in flags)
        sys.stdout.write(f"{digest} {size}\n")

    return run_program(work)


def _read_file(path: Path, progress: Progress, *, is_synced: bool) -> tuple[str, int]:
    digest = blake2b(digest_size=DIGEST_BYTES)
    size = 0
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123  # a descriptor
        while block := file.read(BLOCK):
            digest.update(block)
            size += len(block)
            progress.add(len(block))
            end_without_parent()
        if is_synced:
            os.fsync(descriptor)
        progress.add(0)
    return digest.hexdigest(), size


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

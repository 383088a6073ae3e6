"""Where everything of one worker's spool lies.

    lock                                    held by the process that serves it
    kept.json                               the fence, and how often a worker has looked
    emulated.jsonl                          the journal of emulated shares
    told                                    a pipe with a name: runners say that a state has changed
    heard                                   its time says when the region was heard last: strict tasks end without it
    book/                                   who uses what for functions: see runtime/tasks/book.py
    secrets/NAME                            put there by whoever runs the machine
    shares/WORKLOAD.EPOCH.MADE/             of one preparation of a share: no two have the same
    shares/WORKLOAD.EPOCH.TASK.RUN.MADE/    the same, of one run of one task, or of a later run of a gang
        share.json                          what was commanded
        JOB.RANK/                           of one task, for its runner: see running.py
        JOB.RANK/files/                     the same task's own, which it may fill
    outputs/WORKLOAD.EPOCH/JOB.RANK/OFFSET  what it wrote in all its runs here, from this byte on; `ended` between them
    outputs/WORKLOAD.EPOCH/tenant           on whose account it is: who may read it too
    outputs/WORKLOAD.EPOCH/work/            where tasks run that name no directory
    checkpoints/WORKLOAD/EPOCH/             where tasks keep checkpoints that name no directory
    rubbish/                                on its way out

All of it is for the eyes of the worker's user alone.
"""

import time
from pathlib import Path
from urllib.parse import quote

from core.nouns.ids import AttemptKey, ShareKey

TENANT = "tenant"
"""Beside the output of an attempt's tasks, whose account it is on. No task is called so: its name ends with its rank."""
WORK = "work"
"""The same, where they run."""
EMULATED = "emulated.json"
"""In the device book: what emulated tasks hold for functions."""


class Layout:
    """The paths of one spool."""

    def __init__(self, directory: Path, checkpoints: Path | None = None) -> None:
        """`checkpoints` is where attempts keep them unless their program names a place: not in the spool, if it is given."""
        self.directory = directory.absolute()
        self.lock = self.directory / "lock"
        self.kept = self.directory / "kept.json"
        self.emulated = self.directory / "emulated.jsonl"
        self.told = self.directory / "told"
        self.heard = self.directory / "heard"
        self.book = self.directory / "book"
        self.emulated_holdings = self.book / EMULATED
        self.secrets = self.directory / "secrets"
        self.shares = self.directory / "shares"
        self.outputs = self.directory / "outputs"
        self.checkpoints = (checkpoints or self.directory / "checkpoints").absolute()
        self.rubbish = self.directory / "rubbish"

    def make(self) -> None:
        """Every directory, for nobody else's eyes."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for directory in (self.secrets, self.shares, self.outputs, self.checkpoints, self.rubbish):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def new_share(self, key: ShareKey) -> Path:
        """Of a share that is about to be prepared: a runner left over from another try finds its own directory gone."""
        return self.shares / f"{share_name(key)}.{time.monotonic_ns():x}"

    def output(self, key: AttemptKey) -> Path:
        """What the tasks of one attempt wrote."""
        return self.outputs / attempt_name(key)


def attempt_name(key: AttemptKey) -> str:
    """One attempt, as a file may be called."""
    return f"{file_name(key[0])}.{key[1]}"


def share_name(key: ShareKey) -> str:
    """What a worker runs of an attempt at once, as a file may be called."""
    name = attempt_name(key.attempt)
    return name if key == ShareKey(*key.attempt) else f"{name}.{key.task}.{key.run}"


def task_name(job: str, rank: int) -> str:
    """One task of an attempt, as a file may be called."""
    return f"{file_name(job)}.{rank}"


def file_name(name: str) -> str:
    """A name as part of a path, whatever is in it."""
    return quote(name, safe="").replace(".", "%2E") if name.startswith(".") else quote(name, safe="")

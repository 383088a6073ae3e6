"""Deeds that components ask of their hosts. Each is done by runtime/, and comes back as a message."""

from core.component import Effect
from core.messages.workers import PrepareTasks
from core.nouns.ids import WorkloadId


class FindTasks(Effect, frozen=True):
    """Look into the spool: what runs on these nodes? Comes back as `TasksFound`."""


class PrepareShare(Effect, frozen=True):
    """Get a share of an attempt ready. Comes back as `TasksChanged`."""

    command: PrepareTasks


class StartShare(Effect, frozen=True):
    """Run a prepared share. Comes back as `TasksChanged`, then and whenever it changes by itself."""

    workload: WorkloadId
    epoch: int
    sequence: int
    masters: tuple[str, ...] = ()
    """As in `StartTasks`."""
    hosts: tuple[tuple[str, ...], ...] = ()


class StopShare(Effect, frozen=True):
    """End a share, with grace. Comes back as `TasksChanged` once nothing of it runs."""

    workload: WorkloadId
    epoch: int
    sequence: int
    grace: int


class ForgetShare(Effect, frozen=True):
    """Drop an ended share from the spool."""

    workload: WorkloadId
    epoch: int
    sequence: int


class KeepFence(Effect, frozen=True):
    """Remember the highest sequence obeyed, on disk, though nothing else is to be done."""

    sequence: int

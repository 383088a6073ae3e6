"""Deeds that components ask of their hosts. Each is done by runtime/, and comes back as a message."""

from msgspec import Struct

from core.component import Effect
from core.messages.auditor import FoundViolation
from core.messages.harvest import NodeSize
from core.messages.workers import PrepareTasks
from core.nouns.function import FunctionSpec, Place
from core.nouns.ids import DatasetName, FunctionId, RegionName, ShareKey


class Solve(Effect, frozen=True):
    """Solve one of the planner's problems in a process of its own. Comes back as `Solved` or `Unsolved`.

    Of one key of a concern the newest problem counts. No concern waits for another.
    """

    concern: str
    """Name of one of the planner's concerns (components/planner/concerns/)."""
    key: str
    """Part of the concern that is solved by itself, for example a region."""
    revision: int
    """Revision of the recorded answer that is to be replaced."""
    problem: Struct
    """Equal problems are the same problem, so a problem holds no arrays: a decision that asks for one is compared."""


class FindTasks(Effect, frozen=True):
    """Look into the spool: what runs on these nodes? Comes back as `TasksFound`."""


class PrepareShare(Effect, frozen=True):
    """Get a share of an attempt ready. Comes back as `TasksChanged`."""

    command: PrepareTasks


class StartShare(Effect, frozen=True):
    """Run a prepared share. Comes back as `TasksChanged`, then and whenever it changes by itself."""

    key: ShareKey
    sequence: int
    masters: tuple[str, ...] = ()
    """As in `StartTasks`."""
    hosts: tuple[tuple[str, ...], ...] = ()


class StopShare(Effect, frozen=True):
    """End a share, with grace. Comes back as `TasksChanged` once nothing of it runs."""

    key: ShareKey
    sequence: int
    grace: int


class ForgetShare(Effect, frozen=True):
    """Drop an ended share from the spool."""

    key: ShareKey
    sequence: int


class KeepFence(Effect, frozen=True):
    """Remember the highest sequence obeyed, on disk, though nothing else is to be done."""

    sequence: int


class KeepHeard(Effect, frozen=True):
    """The region was heard: its newest acknowledged beat was said so long ago. What is strict runs on from then.

    Whoever runs the tasks counts, and not the worker: one that is dead, or stands still, would stop nothing.
    """

    age: int
    """Nanoseconds."""


class TellRefused(Effect, frozen=True):
    """Say to whoever looks after these nodes why their region does not take them. Nothing comes back."""

    problems: tuple[str, ...]


class LookAtNodes(Effect, frozen=True):
    """Check these nodes. Comes back as `NodesLooked`."""

    nodes: tuple[int, ...]


class KeepViolations(Effect, frozen=True):
    """Keep violations where they outlive the auditor, and write each to the process's log as an error. Nothing comes back."""

    violations: tuple[FoundViolation, ...]


class PutViolationsAside(Effect, frozen=True):
    """An operator has acknowledged the violations up to a number: from now on only the others are kept."""

    up_to: int


class CopyData(Effect, frozen=True):
    """Copy a dataset from another region into this one, and verify it. Comes back as `CopyChanged`, now and then and at the end.

    Asked again it goes on with what is there: a copy under way is left alone, one that was made is verified and told again.
    """

    copy: int
    """Number of the order."""
    dataset: DatasetName
    source: RegionName
    bytes: int
    rate: int
    """Bytes a second."""
    hash: str


class ForgetCopy(Effect, frozen=True):
    """The order does not stand any more: end the copy if it is under way, and delete what there is of it. Nothing comes back."""

    copy: int


class HashData(Effect, frozen=True):
    """Read all of a dataset in this region. Comes back as `DataHashed`."""

    copy: int
    """The order that needs the hash."""
    dataset: DatasetName
    bytes: int = 0
    """As the order has them: where data is emulated, nothing else tells."""


class DropData(Effect, frozen=True):
    """Delete a dataset in this region. Comes back as `DataDropped`, also if there is none."""

    dataset: DatasetName


class ReadBook(Effect, frozen=True):
    """Look at what functions may use on this machine. Comes back as `BookRead`, now and whenever that changes."""


class StartExecutor(Effect, frozen=True):
    """Start an executor, and bring it to the top level. Comes back as `ExecutorChanged` at each level."""

    executor: int
    """Counts the executors of one life of the server, from 1 on."""
    function: FunctionSpec
    place: Place = Place()


class GiveCalls(Effect, frozen=True):
    """Have an executor run calls, one after the other, after those that it has. Comes back as `CallsEnded`."""

    executor: int
    calls: tuple[tuple[int, bytes], ...]
    """Ticket and arguments of each; tickets count the calls of one life of the server."""


class EndExecutor(Effect, frozen=True):
    """End an executor at once. Comes back as `ExecutorChanged`: of its calls of which no end was told before, the first may have begun."""

    executor: int


class KeepHarvest(Effect, frozen=True):
    """Remember what functions may use of nodes beside what tasks hold for them. What that changes comes back as `BookRead`."""

    revision: int
    sizes: tuple[NodeSize, ...]


class KeepCode(Effect, frozen=True):
    """Keep the pickled code of a function where executors load it. Comes back as `CodeKept`."""

    function: FunctionId
    code: bytes


class ForgetCode(Effect, frozen=True):
    """Delete the pickled code of functions, where there is some. Nothing comes back."""

    functions: tuple[FunctionId, ...]

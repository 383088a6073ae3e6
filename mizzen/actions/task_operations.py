"""Having something done to a workload's tasks: restart and move. Who decides when, is told."""

from collections import Counter

from msgspec import Struct

from bus.port import Bus
from core.images.control import AttemptControl
from core.messages.control import OperateTasks, OperationsAccepted
from core.messages.queue import ShowWorkload, WorkloadShown
from core.nouns.ids import AttemptKey, RegionName, WorkloadId
from core.nouns.instant import MILLISECOND, Nanoseconds
from core.nouns.limits import OPERATIONS_AT_ONCE_MAX
from core.nouns.operation import WHOLE, OperationKind, job_and_rank, task_number
from core.nouns.workload import Phase
from core.rules.disruption_budget import USER
from mizzen.actions.workloads import TRIES_MAX, before_try
from mizzen.connect.plane import ask, ask_on_revision, submitter
from mizzen.terminal.output import MISUSED, CommandError
from mizzen.views.plane_reads import pause
from mizzen.views.tasks.task_list import WallClock, look_at
from mizzen.views.tasks.task_table import TaskShown, ranks_text
from runtime.clock import wall_now

OPERATOR = "operator:"
"""What the name of a requester begins with who is one."""
LOOKS_MAX = 20
"""Times that it is looked whether the log's image shows what was accepted. It is durable by then: a look or two will do."""
LOOK: Nanoseconds = Nanoseconds(50 * MILLISECOND)
RANKS_MAX = 1_000_000
"""Above every rank: a span of them is no way to fill the memory."""


class Wish(Struct, frozen=True):
    """What is to be done, and to which tasks."""

    kind: OperationKind
    ranks: tuple[int, ...] = ()
    """Of one job; none: all."""
    job: str = ""
    """Empty: the only one, or all if no ranks are named."""
    reason: str = ""
    deadline: Nanoseconds = Nanoseconds(0)
    """After which it is done unasked; 0: never."""


class Operated(Struct, frozen=True):
    """What was recorded, and how it stands."""

    workload: WorkloadId
    region: RegionName
    epoch: int
    kind: OperationKind
    operations: tuple[int, ...]
    """All of them, those among them that were asked for before."""
    known: tuple[int, ...]
    """Those that were."""
    tasks: tuple[TaskShown, ...]
    """On which they are still to be done."""


async def operate(bus: Bus, workload: WorkloadId, wish: Wish, clock: WallClock = wall_now) -> Operated:
    """Ask the workload's region for it. Raises CommandError."""
    region, epoch = await _place(bus, workload)
    key = (workload, epoch)
    look = await look_at(bus, region, key)
    if look.row is None:
        raise CommandError(
            f"{workload} was awarded to {region} and nothing of it is there yet; try again in a moment"
        )
    tasks = tasks_meant(look.row, wish)
    first = look.row.next_operation
    accepted: list[int] = []
    known: list[int] = []
    for at in range(0, len(tasks), OPERATIONS_AT_ONCE_MAX):
        part = tasks[at : at + OPERATIONS_AT_ONCE_MAX]
        numbers, first = await _accepted(bus, region, key, wish, part, first)
        accepted += numbers
        known += [number for number in numbers if number < first]
        first = max(first, *(number + 1 for number in numbers), 0)
    for _ in range(LOOKS_MAX):
        look = await look_at(bus, region, key, clock)
        if look.row is None or look.row.next_operation >= first:
            break
        await pause(LOOK)
    mine = set(accepted)
    left = [row for row in look.tasks if row.operation is not None and row.operation.number in mine]
    return Operated(workload, region, epoch, wish.kind, tuple(accepted), tuple(known), tuple(left))


async def _accepted(
    bus: Bus, region: RegionName, key: AttemptKey, wish: Wish, tasks: tuple[int, ...], first: int
) -> tuple[tuple[int, ...], int]:
    """The numbers under which it is recorded, and the number that was the next one before. Raises CommandError."""
    # What a user asks for is paced by the work's own limits; whoever takes its room away has a budget.
    is_preempted = wish.kind is OperationKind.PREEMPT
    reason = wish.reason or ("an operator wants its capacity" if is_preempted else "its user asked for it")
    by = f"{OPERATOR if is_preempted else USER}{submitter()}"
    for number in range(TRIES_MAX):
        await before_try(number)
        asked = OperateTasks(region, *key, wish.kind, tasks, reason, "", wish.deadline, by, first)
        accepted = await ask_on_revision(bus, asked, OperationsAccepted)
        if accepted is not None:
            return accepted.operations, first
        # Somebody else asked for something: what this is asked for on, is not so any more.
        row = (await look_at(bus, region, key)).row
        if row is None:
            raise CommandError(f"it ended meanwhile; `mizzen show {key[0]}` tells why")
        first = row.next_operation
    raise CommandError("others ask for its operations all the time; try again when they have come to an end")


async def _place(bus: Bus, workload: WorkloadId) -> tuple[RegionName, int]:
    """The region that has its newest attempt, and that attempt's epoch. Raises CommandError when it is nowhere."""
    shown = await ask(bus, ShowWorkload(workload), WorkloadShown)
    phase = Phase(shown.phase)
    if phase.is_terminal:
        raise CommandError(f"{workload} has ended {phase}, so there is nothing to touch")
    if phase == Phase.PENDING:
        text = f"{workload} is PENDING, so nothing of it runs; `mizzen explain {workload}` tells why it waits"
        raise CommandError(text)
    return RegionName(shown.region), shown.epoch


def ranks_of(text: str) -> tuple[int, ...]:
    """The ranks of `3,5-7`, each once and ascending. Raises CommandError."""
    found: dict[int, None] = {}
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        ends = (first, last if dash else first)
        if not all(end.isascii() and end.isdigit() and int(end) < RANKS_MAX for end in ends):
            raise CommandError(f"{part.strip() or repr(text)} is no rank; write --tasks 3,5-7", MISUSED)
        if int(ends[0]) > int(ends[1]):
            raise CommandError(f"{part.strip()} ends before it begins; write {ends[1]}-{ends[0]}", MISUSED)
        found.update(dict.fromkeys(range(int(ends[0]), int(ends[1]) + 1)))
    return tuple(sorted(found))


def tasks_meant(row: AttemptControl, wish: Wish) -> tuple[int, ...]:
    """The numbers of the tasks that are meant. Raises CommandError when there is one that the workload does not have."""
    if wish.kind is OperationKind.PREEMPT:
        return (WHOLE,)
    if not row.stands_alone:
        if wish.ranks or wish.job:
            raise CommandError(
                "its tasks are a gang, and are touched together; leave --tasks and --job out", MISUSED
            )
        return (WHOLE,)
    names = [job.name for job in row.jobs]
    if wish.job and wish.job not in names:
        raise CommandError(f"it has no job {wish.job}; it has {', '.join(names)}", MISUSED)
    if wish.ranks and not wish.job and len(names) > 1:
        raise CommandError(f"it has several jobs, {', '.join(names)}; name one of them with --job", MISUSED)
    job = names.index(wish.job) if wish.job else 0 if wish.ranks else -1
    mine = sorted(task for task in row.tasks if job in (-1, job_and_rank(task)[0]))
    if not wish.ranks:
        return tuple(mine)
    wanted = [task_number(job, rank) for rank in wish.ranks]
    missing = [job_and_rank(task)[1] for task in wanted if task not in row.tasks]
    if missing:
        last = job_and_rank(mine[-1])[1] if mine else -1
        has = f"its last is {last}" if last >= 0 else "it has none now"
        raise CommandError(f"job {names[job]} has no task {missing[0]}; {has}", MISUSED)
    return tuple(wanted)


# For people.


def lines_of(done: Operated) -> list[str]:
    """What was asked for, and what keeps it waiting: a line for each sort of waiting."""
    count = len(done.operations)
    if not count:
        return [f"{done.workload} has no tasks now, so nothing was asked for"]
    lines = [f"{done.workload}: {done.kind} of {_called(done)} is asked for"]
    counts: Counter[tuple[str, str, bool]] = Counter()
    example: dict[tuple[str, str, bool], str] = {}
    known = set(done.known)
    for row in {row.operation.number: row for row in done.tasks if row.operation is not None}.values():
        assert row.operation is not None, row
        group = (row.operation.kind, row.operation.waits_for, row.operation.number in known)
        counts[group] += 1
        example.setdefault(group, ranks_text(row))
    for (kind, waits_for, is_known), number in counts.items():
        lines.append(
            f"  {_of(done, kind, number, example[kind, waits_for, is_known], is_known=is_known)} {waits_for}"
        )
    over = count - sum(counts.values())
    if over:
        lines.append(f"  {over if count > 1 else 'it'} {'is' if over == 1 else 'are'} done already")
    if counts:
        lines.append(f"`mizzen tasks {done.workload} -w` follows {'it' if count == 1 else 'them'}")
    return lines


def _called(done: Operated) -> str:
    if any(row.task == WHOLE for row in done.tasks):
        return "its gang"
    if done.kind is OperationKind.PREEMPT:
        return "all of it"
    if len(done.operations) > 1:
        return f"{len(done.operations)} tasks"
    return f"task {ranks_text(done.tasks[0])}" if done.tasks else "a task"


def _of(done: Operated, kind: str, number: int, example: str, *, is_known: bool) -> str:
    """Whose waiting it is, and that of something else if something else comes first."""
    alone = number == len(done.operations)
    who = (
        "it" if alone and number == 1 else "they" if alone else f"{number} of them" if number > 1 else example
    )
    verb = "waits" if number == 1 else "wait"
    if kind != done.kind:
        has = "has" if number == 1 else "have"
        article = "an" if kind[0] in "aeiou" else "a"
        return f"{who} {has} {article} {kind} already, which comes first and {verb} for"
    return f"{who} {verb}{', asked for before,' if is_known else ''} for"

"""Tests a controller without a server and without a plane: a region in memory asks it, and does what it allows.

    harness = ControllerHarness(Careful(), tasks=10)
    await harness.operate(OperationKind.UPDATE)
    assert len(harness.unavailable()) == 1
    await harness.pass_seconds(60)

The region is the real one's own placement store and task control, in a time that only the test moves: it makes the same
requests, counts the same answers, paces by the same limits and follows the same deadlines. What is played is around them: a
stop takes no time, a start `takes_seconds`, each node has room for one task, and nothing fails but what the test lets fail.
What a controller raises is raised in the test; a real region would take it for silence, as this one does if told to.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from core.events.control import ControlAnswered, OperationsDone
from core.fact import Event
from core.images.control import AttemptControl, OperationRow, TaskPhase
from core.messages.base import Message, Refused
from core.messages.control import (
    ChangeAttempt,
    JobHandle,
    OperateTasks,
    OperationsAccepted,
    RecordTasksDown,
    TaskControlRequest,
    TaskControlResponse,
)
from core.messages.nodes import CancelMaintenance, DrainNodes, NodesAnswered, PlanMaintenance, UndrainNodes
from core.messages.store import RecordCheckpoint
from core.nouns.ids import TenantName
from core.nouns.instant import SECOND, Instant, after, earliest, seconds
from core.nouns.limits import CONTROLLER_SPAN, MAINTENANCE_LEAD_MAX, OPERATIONS_AT_ONCE_MAX
from core.nouns.maintenance import MaintenanceKind, Scope, ScopeKind
from core.nouns.operation import (
    WHOLE,
    Ack,
    ControlSpec,
    OperationKind,
    OperationPhase,
    job_and_rank,
    task_number,
)
from core.nouns.workload import EndCause, JobSpec, Program
from mizzen.control.crew_in_memory import GPU_TYPE, NODE, CrewInMemory, Shape
from mizzen.control.region_in_memory import REGION, START, STEPS_MAX, WORKLOAD, RegionInMemory
from runtime.control.controller import TaskController
from runtime.control.pending_requests import Docket, Unusable, acks_in

TENANT = "tests"
CONTROLLER = "controller"
REST = "rest"
"""The power domain of tasks that are in none that is named."""
SPARES = "spares"
"""The power domain of nodes on which nothing runs yet."""


Expected = TypeVar("Expected", bound=Message)


class RegionRefused(Exception):
    """What the test asked for is nothing that a region does; the text says why."""


class Moment(Struct, frozen=True):
    """How things stand from an instant on."""

    at_seconds: float
    waiting: int
    """Operations that wait for the controller's word."""
    acked: int
    """How many it has acknowledged so far."""
    begun: int
    """Operations under way."""
    done: int
    """How many are over so far."""
    unavailable: tuple[int, ...]
    """Tasks that are not up, whatever the cause."""


class ControllerHarness:
    """One workload in one region, whose controller is tested."""

    def __init__(
        self,
        controller: TaskController,
        *,
        tasks: int | Mapping[str, int] = 1,
        is_gang: bool = False,
        domains: Mapping[str, Iterable[int]] | None = None,
        spares: int = 0,
        takes_seconds: float = 60.0,
        unavailable_max: int = 0,
        is_forgiving: bool = False,
    ) -> None:
        """A service of so many tasks, or so many by job; or a gang.

        `domains` names tasks that lose power together, `spares` are nodes without a task, `unavailable_max` is what the job
        file has under `control`. `is_forgiving`: what the controller raises is silence, and counted.
        """
        self.is_reachable = True
        """Cleared, the controller hears nothing, as if its process were away."""
        self.requests: list[TaskControlRequest] = []
        """All that the controller was shown."""
        self.answers: list[TaskControlResponse] = []
        """All that it answered."""
        self.silences = 0
        """How often it raised, took too long, or returned what is no answer."""
        self.timeline: list[Moment] = []
        """A moment for each change."""
        self._controller = controller
        self._is_forgiving = is_forgiving
        self._dockets: dict[JobHandle, Docket] = {}
        self._dropped = self._acked = self._done = 0
        sizes = {"main": tasks} if isinstance(tasks, int) else dict(tasks)
        jobs = tuple(
            JobSpec(name, count, NODE, GPU_TYPE, program=Program("true")) for name, count in sizes.items()
        )
        control = ControlSpec(CONTROLLER, unavailable_max)
        self._region = RegionInMemory(self._seen)
        shape = Shape(TENANT, control, jobs, is_gang)
        nodes = _nodes_by_domain(jobs, domains or {}, spares)
        self._crew = CrewInMemory(self._region, shape, nodes, seconds(takes_seconds))
        controller.attach(self._want)
        self._note()

    # What happens.

    async def operate(
        self,
        kind: OperationKind,
        tasks: Iterable[int] = (),
        *,
        reason: str = "a test",
        deadline_seconds: float = 0.0,
        requester: str = "user:test",
    ) -> tuple[int, ...]:
        """Somebody wants something done to these tasks, or to all; the operations' numbers. Raises RegionRefused.

        Who is no `user:` has a budget of stops a minute, as in a real region.
        """
        wanted = tuple(tasks)
        numbers: list[int] = []
        row = self._row()
        is_whole = kind is OperationKind.PREEMPT or not row.stands_alone
        known = wanted or ((WHOLE,) if is_whole else tuple(sorted(row.tasks)))
        for first in range(0, len(known), OPERATIONS_AT_ONCE_MAX):
            answer = self._region.command(
                OperateTasks(
                    REGION,
                    WORKLOAD,
                    self._crew.epoch,
                    kind,
                    known[first : first + OPERATIONS_AT_ONCE_MAX],
                    reason,
                    deadline=seconds(deadline_seconds),
                    requester=requester,
                    first=self._row().next_operation,
                ),
                requester,
            )
            numbers += _accepted(answer, OperationsAccepted).operations
        await self._settle()
        return tuple(numbers)

    async def change(self, *, tasks: int | None = None, job: int = 0) -> None:
        """The user changed what the workload runs: every task is to be updated; or how many tasks one of its jobs has."""
        row = self._row()
        jobs = [
            JobSpec(
                spec.name,
                tasks if tasks is not None and number == job else spec.tasks,
                spec.need,
                spec.gpu_type,
                program=spec.program if tasks is not None else Program(f"true {row.revision + 1}"),
                or_types=spec.or_types,
            )
            for number, spec in enumerate(row.jobs)
        ]
        self._region.command(ChangeAttempt(REGION, WORKLOAD, self._crew.epoch, row.revision + 1, tuple(jobs)))
        await self._settle()

    async def fail(self, *tasks: int, exit_code: int = 1) -> None:
        """These tasks that stand alone end by themselves. Each is started again once the controller agrees, or at its deadline."""
        known = self._row().tasks
        runs = tuple((task, known[task].run) for task in tasks)
        about = (REGION, WORKLOAD, self._crew.epoch)
        self._region.command(RecordTasksDown(*about, runs, EndCause.TASK_FAILED, exit_code, is_gone=True))
        await self._settle()

    async def lose(self, domain: str) -> None:
        """A power domain is silent: its tasks are unavailable, and are to move. A gang ends, and comes back elsewhere."""
        self._crew.lose(domain)
        await self._settle()

    async def restore(self, domain: str) -> None:
        """It is back, and its nodes are empty."""
        self._crew.restore(domain)
        await self._settle()

    async def drain(self, *tasks: int, deadline_seconds: float = 0.0, reason: str = "a drain") -> str:
        """The nodes of these tasks are to be empty; without a deadline, once the controller agrees. The drain's name."""
        revision = self._region.image.maintenance.revision
        scope = self._scope_of(tasks)
        deadline = seconds(deadline_seconds)
        return await self._about_nodes(DrainNodes(REGION, scope, reason, revision, deadline, "test"))

    async def undrain(self, *tasks: int) -> None:
        """They need not be any more. Name the tasks that were there."""
        revision = self._region.image.maintenance.revision
        await self._about_nodes(UndrainNodes(REGION, self._scope_of(tasks), revision, "test"))

    async def notice(
        self,
        *tasks: int,
        kind: MaintenanceKind | str = MaintenanceKind.REBOOT,
        starts_in_seconds: float,
        lasts_seconds: float,
    ) -> str:
        """Notice is given of work on the nodes of these tasks, in that window: `network`, `reboot`, `hardware` or `power`.

        Returns the maintenance's name.
        """
        starts_in = seconds(starts_in_seconds)
        lead = min(starts_in, MAINTENANCE_LEAD_MAX)
        scope = self._scope_of(tasks)
        window = (starts_in, seconds(lasts_seconds), lead)
        planned = self._region.image.maintenance.planned
        return await self._about_nodes(
            PlanMaintenance(REGION, scope, MaintenanceKind(kind), *window, planned, "a test", "test")
        )

    async def cancel(self, maintenance: str) -> None:
        """It does not take place, or is over early."""
        await self._about_nodes(CancelMaintenance(REGION, maintenance, "cancelled", "test"))

    async def checkpoint(self, step: int) -> None:
        """The gang has saved this step."""
        self._region.command(RecordCheckpoint(REGION, WORKLOAD, self._crew.epoch, step))
        await self._settle()

    async def reconsider(self) -> None:
        """Ask the controller again about what still waits."""
        self._controller.reconsider()
        await self._settle()

    async def say(self, acks: Iterable[Ack], *, sequence: int | None = None) -> None:
        """Say something in the controller's name, whatever it thinks: on the newest request, or on another."""
        newest = self._row().changed if sequence is None else sequence
        about = (WORKLOAD, self._crew.epoch, newest, tuple(acks))
        self._region.hear(TaskControlResponse(REGION, TenantName(TENANT), CONTROLLER, *about))
        await self._settle()

    # Time.

    async def pass_seconds(self, span_seconds: float) -> None:
        """So much time passes; what falls due meanwhile happens in its turn."""
        end = after(self._region.now, seconds(span_seconds))
        await self._settle()
        while (due := self._due()) is not None and due <= end:
            self._region.now = due
            await self._settle()
        self._region.now = end
        await self._settle()

    async def until(self, holds: Callable[[], bool], *, at_most_seconds: float = 3600.0) -> None:
        """Time passes until something holds. Raises AssertionError when it does not in time."""
        end = after(self._region.now, seconds(at_most_seconds))
        await self._settle()
        while not holds():
            due = self._due()
            assert due is not None, "nothing more happens by itself"
            assert due <= end, f"it does not hold after {at_most_seconds} s"
            self._region.now = due
            await self._settle()

    # What is so.

    @property
    def now_seconds(self) -> float:
        """Since the beginning."""
        return (self._region.now - START) / SECOND

    @property
    def epoch(self) -> int:
        """How often the workload was placed: a gang that moves, or lost a node, is placed anew."""
        return self._crew.epoch

    @property
    def ignored(self) -> int:
        """Acknowledgements, and whole answers, that counted for nothing: stale, repeated, unknown, or not asked for."""
        return self._dropped + self._region.ignored

    @property
    def operations(self) -> dict[int, OperationRow]:
        """By number, those of the newest attempt that are not over, or of whose end the controller has not been told."""
        row = self._crew.row()
        return dict(row.operations) if row is not None else {}

    def waiting(self) -> list[int]:
        """Tasks on which an operation waits for the controller's word."""
        return self._tasks_in(OperationPhase.ASKED)

    def acked(self) -> list[int]:
        """Tasks on which an operation was acknowledged and has not begun."""
        return self._tasks_in(OperationPhase.ACKED)

    def begun(self) -> list[int]:
        """Tasks on which an operation is under way."""
        return self._tasks_in(OperationPhase.BEGUN)

    def unavailable(self) -> list[int]:
        """Tasks that are not up, whatever the cause; of a gang that is not up, the whole (-1)."""
        return self._crew.unavailable()

    def phase_of(self, task: int) -> TaskPhase:
        """Where one task that stands alone is in its life. Raises KeyError when it is no more."""
        return self._row().tasks[task].phase

    def node_of(self, task: int) -> int:
        """The node that one task has."""
        row = self._row().tasks.get(task)
        return row.node if row is not None else self._node_of_rank(task)

    def run_of(self, task: int) -> int:
        """How often it was started again."""
        return self._row().tasks[task].run

    # How.

    def _due(self) -> Instant | None:
        """When something happens by itself: later than now, once all is settled."""
        due = earliest(self._region.due(), self._crew.due())
        assert due is None or due > self._region.now, "it never comes to rest"
        return due

    def _row(self) -> AttemptControl:
        row = self._crew.row()
        assert row is not None, "the workload waits for capacity: it has no attempt"
        return row

    def _tasks_in(self, phase: OperationPhase) -> list[int]:
        return sorted(operation.task for operation in self._all_operations() if operation.phase is phase)

    def _all_operations(self) -> list[OperationRow]:
        """Of every attempt: what ended a gang is over once its next attempt is up."""
        epochs = self._region.image.control.rows.get(WORKLOAD, {})
        return [operation for row in epochs.values() for operation in row.operations.values()]

    def _scope_of(self, tasks: Sequence[int]) -> Scope:
        return Scope(ScopeKind.NODE, tuple(str(self.node_of(task)) for task in tasks))

    def _node_of_rank(self, task: int) -> int:
        """Of a gang's rank, which has no row of its own."""
        held = self._region.capacity.holding(WORKLOAD, self._crew.epoch)
        assert held is not None, "it has an attempt"
        job, rank = job_and_rank(task)
        return held.claim.spreads[job].nodes[rank]

    async def _about_nodes(self, message: Message) -> str:
        answer = _accepted(self._region.command(message, "operator"), NodesAnswered)
        await self._settle()
        return answer.source

    def _seen(self, event: Event) -> None:
        match event:
            case ControlAnswered(acks=acks):
                self._acked += len(acks)
            case OperationsDone(operations=operations):
                self._done += len(operations)

    def _want(self, job: JobHandle | None) -> None:
        for handle, docket in self._dockets.items():
            if job in (None, handle) and docket.newest.requests:
                docket.answer = None
                self._region.requests[handle] = docket.newest

    async def _settle(self) -> None:
        """Let happen whatever happens at this instant."""
        for _ in range(STEPS_MAX):
            self._region.wake()
            request = self._region.take_request()
            if request is not None:
                await self._ask(request)
            elif not self._crew.look():
                self._note()
                return
        raise AssertionError(
            "it never comes to rest: the region asks, and the controller answers, without end"
        )

    async def _ask(self, request: TaskControlRequest) -> None:
        if not self.is_reachable:
            return
        docket = self._dockets.setdefault(request.job, Docket(request))
        if not docket.take(request):
            return  # It was said before what is known.
        answer = docket.standing or await self._decided(docket)
        if answer is not None:
            self.answers.append(answer)
            self._region.hear(answer)

    async def _decided(self, docket: Docket) -> TaskControlResponse | None:
        request = docket.shown()
        self.requests.append(request)
        try:
            async with asyncio.timeout(CONTROLLER_SPAN / SECOND):
                given = await self._controller.process(request)
            acks, strange = acks_in(request, given)
        except (Unusable, Exception):
            self.silences += 1
            if self._is_forgiving:
                return None
            raise
        self._dropped += len(strange)
        return docket.answered(request, acks)

    def _note(self) -> None:
        """A moment, if it differs from the one before."""
        phases = [operation.phase for operation in self._all_operations()]
        moment = Moment(
            self.now_seconds,
            phases.count(OperationPhase.ASKED),
            self._acked,
            phases.count(OperationPhase.BEGUN),
            self._done,
            tuple(self.unavailable()),
        )
        before = self.timeline[-1] if self.timeline else None
        if before is None or _differs(before, moment):
            self.timeline.append(moment)


def _differs(before: Moment, now: Moment) -> bool:
    return any(
        getattr(before, field) != getattr(now, field)
        for field in Moment.__struct_fields__
        if field != "at_seconds"
    )


def _accepted(answer: Message | None, expected: type[Expected]) -> Expected:
    if isinstance(answer, Refused):
        raise RegionRefused("; ".join((answer.sentence, *answer.problems)))
    assert isinstance(answer, expected), answer
    return answer


def _nodes_by_domain(
    jobs: Sequence[JobSpec], domains: Mapping[str, Iterable[int]], spares: int
) -> dict[str, list[int]]:
    """Each task has the node of its place among all tasks; spare nodes come after those. Raises ValueError."""
    tasks = [task_number(job, rank) for job, spec in enumerate(jobs) for rank in range(spec.tasks)]
    node_of = {task: node for node, task in enumerate(tasks)}
    found: dict[str, list[int]] = {name: [] for name in (*domains, REST, SPARES)}
    for name, members in domains.items():
        for task in members:
            if task not in node_of:
                raise ValueError(f"{name}: there is no task {task}, or it is in two domains")
            found[name].append(node_of.pop(task))
    found[REST] += node_of.values()
    found[SPARES] += range(len(tasks), len(tasks) + spares)
    return {name: sorted(nodes) for name, nodes in found.items() if nodes}

"""The users of a scenario: they submit workloads and pipelines, cancel, hold, release and requeue, and insist until they are answered.

They remember what they were told, because what was told must stay true.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from bus.errors import BusError
from bus.port import Bus
from core.messages.base import Message, Refused
from core.messages.moves import MoveAnswered, MoveWorkload
from core.messages.pipelines import CancelPipeline, PipelineAccepted, PipelineCancelled, SubmitPipeline
from core.messages.queue import (
    Acknowledged,
    CancelWorkload,
    HoldWorkload,
    ReleaseWorkload,
    RequeueWorkload,
    ShowWorkload,
    Submitted,
    SubmitWorkload,
    WorkloadShown,
)
from core.nouns.ids import PipelineId, RegionName, WorkloadId
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.pipeline import PipelineSpec
from core.nouns.reasons import PASSING, Reason
from core.nouns.workload import Phase, WorkloadSpec
from core.rules.pipelines.deadlines import ordered
from core.rules.pipelines.submission import after_of
from scenarios.variant import Binder
from scenarios.workload import Arrival
from scenarios.worlds.interface import PlaneFailed, World

ASK: Nanoseconds = seconds(2)
PATIENCE_SECONDS = 30.0
"""For an answer from a plane of which a process has died of a mistake: where somebody starts it again, it may come yet."""
AGAIN_SECONDS = 0.5
"""Before a request that nobody answered is made again, as any client does."""
MOVE_ASKS_MAX = 20
"""Times that somebody asks whether a move is planned by now."""
SERVES_LOOK_SECONDS = 30.0
"""Between looks whether a service for functions is there still."""
NO_ROOM_SECONDS = 1.0
"""The same, when the log had no room for it."""

Heard = Callable[[Message, Message], None]
"""Told what was asked, and what was answered."""


class Users:
    """All users of one run."""

    def __init__(self, world: World, bus: Bus, submitter: str, binder: Binder | None = None) -> None:
        """`binder`: who says where work may go, as it is submitted; nobody, if there is none."""
        self.world = world
        self.binder = binder or Binder()
        self.submitter = submitter
        self.bus = bus
        self.wanted = 0
        """Workloads that somebody wants to submit, or has."""
        self.accepted: dict[str, WorkloadId] = {}
        """By idempotency key; stages of pipelines by `key/stage`."""
        self.refused: dict[str, Refused] = {}
        """The same, of those that were refused for good."""
        self.pipelines: dict[str, PipelineId] = {}
        """Accepted pipelines, by idempotency key."""
        self.refused_pipelines: dict[str, Refused] = {}
        """The same, of those that were refused for good."""
        self.problems: list[str] = []
        self.calls_ended = asyncio.Event()
        """Set once nobody waits for a call of a function any more."""
        self.heard: list[Heard] = []
        """Who else is told of each answer."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._unanswered: dict[int, tuple[Message, float]] = {}
        """Requests under way, and since when."""
        self._requests = 0
        self._dropped = False

    @property
    def has_submitted_all(self) -> bool:
        """Whether every submission was answered."""
        return len(self.accepted) + len(self.refused) == self.wanted

    def unanswered(self, seconds: float) -> list[Message]:
        """Requests that nobody has answered for at least so long, the oldest first."""
        now = self.world.now()
        return [message for message, since in self._unanswered.values() if now - since >= seconds]

    def workloads(self) -> list[WorkloadId]:
        """Of everything that was accepted, in the order in which the answers came."""
        return list(self.accepted.values())

    def begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Let somebody do something meanwhile."""
        task = asyncio.get_running_loop().create_task(work, name=f"user/{name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def stop(self) -> None:
        """Nobody does anything more."""
        self._dropped = True
        for task in sorted(self._tasks, key=lambda task: task.get_name()):
            task.cancel()

    def play(self, arrivals: Sequence[Arrival], prefix: str) -> None:
        """Submit each at its time from now on, under the key `prefix-number`, and do with it what its user does."""
        self.wanted += sum(arrival.workloads for arrival in arrivals)
        self.begin(self._play(arrivals, prefix), prefix)

    async def _play(self, arrivals: Sequence[Arrival], prefix: str) -> None:
        begun = self.world.now()
        for number, arrival in enumerate(arrivals):
            await self.world.sleep(max(0.0, begun + arrival.at / SECOND - self.world.now()))
            key = f"{prefix}-{number}"
            self.begin(self._follow(key, arrival), key)

    async def _follow(self, key: str, arrival: Arrival) -> None:
        cancel: Callable[[], Coroutine[Any, Any, None]]
        if arrival.pipeline is None:
            workload = await self.submit(key, arrival.spec)
            if workload is None:
                return
            cancel = partial(self.cancel, workload)
        else:
            pipeline = await self.submit_pipeline(key, arrival.pipeline)
            if pipeline is None:
                return
            workload = self.accepted[f"{key}/{arrival.pipeline.stages[arrival.stage].name}"]
            cancel = partial(self.cancel_pipeline, pipeline)
        if arrival.hold_after is not None and arrival.release_after is not None:
            self.begin(self._hold_for_a_while(workload, arrival), f"{key}/hold")
        if arrival.requeue_after is not None:
            self.begin(self._later(arrival.requeue_after, self.requeue(workload)), f"{key}/requeue")
        if arrival.cancel_after is not None:
            self.begin(self._later(arrival.cancel_after, cancel()), f"{key}/cancel")
        if arrival.until_calls_end:
            self.begin(self._serve_until_calls_end(key, arrival.spec, workload), f"{key}/serve")

    async def _serve_until_calls_end(self, key: str, spec: WorkloadSpec, workload: WorkloadId) -> None:
        """Cancel a service once nobody waits for a call, and submit another one if somebody else ended it before."""
        turn = 0
        while not self.calls_ended.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(SERVES_LOOK_SECONDS):
                    await self.calls_ended.wait()
            shown = await self.show(workload)
            is_over = shown is None or Phase(shown.phase).is_terminal
            if is_over and not self.calls_ended.is_set():
                turn += 1
                self.wanted += 1
                again = await self.submit(f"{key}/{turn}", spec)
                if again is None:
                    return
                workload = again
        await self.cancel(workload)

    async def _later(self, span: Nanoseconds, work: Coroutine[Any, Any, None]) -> None:
        try:
            await self.world.sleep(span / SECOND)
        except asyncio.CancelledError:
            work.close()
            raise
        await work

    async def _hold_for_a_while(self, workload: WorkloadId, arrival: Arrival) -> None:
        assert arrival.hold_after is not None
        assert arrival.release_after is not None
        await self.world.sleep(arrival.hold_after / SECOND)
        await self.set_hold(workload, is_held=True)
        await self.world.sleep((arrival.release_after - arrival.hold_after) / SECOND)
        await self.set_hold(workload, is_held=False)

    # What users do.

    async def submit(self, key: str, spec: WorkloadSpec) -> WorkloadId | None:
        """Submit until it is accepted, or refused for good."""
        answer = await self.insist(SubmitWorkload(self.binder.bound(spec), self.submitter, key=key))
        if isinstance(answer, Submitted):
            self.accepted[key] = answer.workload
            return answer.workload
        assert isinstance(answer, Refused), answer
        self.refused[key] = answer
        return None

    async def submit_pipeline(self, key: str, spec: PipelineSpec) -> PipelineId | None:
        """Submit a pipeline until it is accepted, or refused for good."""
        request = SubmitPipeline(self.binder.bound_pipeline(spec), self.submitter, key=key)
        answer = await self.insist(request)
        keys = [f"{key}/{stage.name}" for stage in spec.stages]
        if isinstance(answer, PipelineAccepted):
            places = ordered(after_of(spec.stages))
            assert places is not None, key
            # The answer has the stages in the order of the fact, in which each comes after its forerunners.
            workloads = dict(zip(places, answer.workloads, strict=True))
            self.accepted |= {name: workloads[place] for place, name in enumerate(keys)}
            self.pipelines[key] = answer.pipeline
            return answer.pipeline
        assert isinstance(answer, Refused), answer
        self.refused |= dict.fromkeys(keys, answer)
        self.refused_pipelines[key] = answer
        return None

    async def cancel_pipeline(self, pipeline: PipelineId) -> None:
        """End every stage for good."""
        await self._ask_for(CancelPipeline(pipeline))

    async def cancel(self, workload: WorkloadId) -> None:
        """End it for good."""
        await self._ask_for(CancelWorkload(workload))

    async def requeue(self, workload: WorkloadId) -> None:
        """Stop whatever attempt it is in."""
        shown = await self.show(workload)
        if shown is not None and shown.epoch:
            await self._ask_for(RequeueWorkload(workload, shown.epoch))

    async def move(self, workload: WorkloadId, region: RegionName) -> None:
        """Have whatever attempt it is in go on in another region, if that has room."""
        shown = await self.show(workload)
        if shown is None or not shown.epoch:
            return
        for _ in range(MOVE_ASKS_MAX):
            answer = await self.insist(
                MoveWorkload(workload, shown.epoch, region, shown.move_revision, is_forced=True)
            )
            if not isinstance(answer, MoveAnswered | Refused):
                self.problems.append(f"MoveWorkload was answered with {answer}")
            if not isinstance(answer, MoveAnswered) or answer.revision:
                return
            await self.world.sleep(AGAIN_SECONDS)

    async def set_hold(self, workload: WorkloadId, *, is_held: bool) -> None:
        """Hold or release it, and try again as long as somebody else was faster."""
        while True:
            shown = await self.show(workload)
            if shown is None or Phase(shown.phase).is_terminal:
                return
            kind = HoldWorkload if is_held else ReleaseWorkload
            answer = await self.insist(kind(workload, shown.hold_revision))
            if not isinstance(answer, Refused) or answer.reason != Reason.SUPERSEDED:
                return

    async def show(self, workload: WorkloadId) -> WorkloadShown | None:
        """Where it is; None if nobody knows it any more."""
        answer = await self.insist(ShowWorkload(workload))
        return answer if isinstance(answer, WorkloadShown) else None

    async def insist(self, message: Message) -> Message:
        """Ask until there is an answer, and again where there was no room for it, as any client does.

        Raises PlaneFailed when nobody answers for long and a process has died of a mistake, for then nobody may ever.
        """
        self._requests += 1
        request = self._requests
        self._unanswered[request] = (message, self.world.now())
        try:
            return await self._answer_to(message)
        finally:
            del self._unanswered[request]

    async def _answer_to(self, message: Message) -> Message:
        asked_at = self.world.now()
        while True:
            try:
                answer = await self.bus.ask(message, ASK)
            except BusError:
                if self.world.failures and self.world.now() >= asked_at + PATIENCE_SECONDS:
                    raise PlaneFailed("; ".join(self.world.mistakes())) from None
                await self.world.sleep(AGAIN_SECONDS)
                continue
            for heard in self.heard:
                heard(message, answer)
            if not isinstance(answer, Refused) or answer.reason not in PASSING:
                return answer
            await self.world.sleep(NO_ROOM_SECONDS)

    async def _ask_for(self, message: Message) -> None:
        answer = await self.insist(message)
        if not isinstance(answer, Acknowledged | PipelineCancelled | Refused):
            self.problems.append(f"{type(message).__name__} was answered with {answer}")

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        failure = None if task.cancelled() else task.exception()
        if failure is not None and not self._dropped and not isinstance(failure, PlaneFailed):
            self.problems.append(f"{task.get_name()} failed: {failure!r}")

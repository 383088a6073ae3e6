"""Serves a controller on an endpoint of the bus: hears what regions ask, has the controller decide, says what it decided.

Nothing is kept: whoever starts it anew is asked anew. While it is away nothing optional happens to its tasks, and what
cannot wait happens at its deadline.
"""

import asyncio
import traceback

import structlog
from msgspec import Struct

from bus.catalogue import CONTROLLER
from bus.errors import BusError
from bus.port import Address, Bus, Subscription
from core.codec import Parcel
from core.messages.control import JobHandle, TaskControlRequest, TaskControlResponse
from core.nouns.instant import SECOND, Nanoseconds
from core.nouns.limits import ACK_LEASE, CONTROL_RETENTION, CONTROLLER_SPAN, DOCKETS_MAX
from runtime.control.controller import TaskController
from runtime.control.pending_requests import Docket, Unusable, acks_in

logger = structlog.get_logger()


class ServedCounts(Struct):
    """What a server can tell of itself."""

    asked: int = 0
    """Calls of `process`."""
    answered: int = 0
    silent: int = 0
    """Calls that raised, took too long, or returned what is no answer."""
    dropped: int = 0
    """Acknowledgements of what was not asked for."""
    stale: int = 0
    """Requests older than one that had come before."""


class _Attempt(Docket):
    """One attempt, and whether it is being dealt with."""

    def __init__(self, request: TaskControlRequest) -> None:
        super().__init__(request)
        self.heard_at = 0.0
        self.is_wanted = False
        """Whether the controller is to be asked (again)."""
        self.is_busy = False
        """Whether it is being asked."""


class ControllerServer:
    """Serves one controller on one endpoint. Of one attempt it asks one thing at a time; of several, all at once."""

    def __init__(
        self,
        controller: TaskController,
        bus: Bus,
        tenant: str,
        name: str,
        *,
        span: Nanoseconds = CONTROLLER_SPAN,
    ) -> None:
        self.counts = ServedCounts()
        self._controller = controller
        self._bus = bus
        self._tenant = tenant
        self._name = name
        self._span = span
        self._attempts: dict[JobHandle, _Attempt] = {}
        """The one that was heard last is last."""
        self._wanted: dict[JobHandle, None] = {}
        self._wake = asyncio.Event()
        self._ear: Subscription | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to hear; returns when whatever is asked from now on is heard. Raises BusError."""
        assert self._task is None, "it is served already"
        # It belongs to whoever called this, who ends it by `close`; the group within it has whatever it does at a time.
        self._task = asyncio.get_running_loop().create_task(self._serve(), name=f"controller/{self._name}")
        self._controller.attach(self.reconsider)
        address = Address(CONTROLLER.noun, (self._tenant, self._name))
        self._ear = await self._bus.listen(address, self._hear)
        logger.info("controller_serves", tenant=self._tenant, controller=self._name)

    async def close(self) -> None:
        """Hear nothing more. A `process` that is at work is cancelled."""
        if self._task is None:
            return
        self._controller.attach(None)
        if self._ear is not None:
            await self._ear.close()
        self._task.cancel()
        await asyncio.wait([self._task])
        self._task = None

    async def wait(self) -> None:
        """Until it is closed, or something is wrong with us, which is raised."""
        assert self._task is not None, "it is not served"
        task = self._task
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()

    def reconsider(self, job: JobHandle | None = None) -> None:
        """Ask the controller again about what still waits for its word, of one attempt or of all."""
        for handle in list(self._attempts) if job is None else [job]:
            attempt = self._attempts.get(handle)
            if attempt is not None and attempt.newest.requests:
                self._want(handle, attempt)

    def _hear(self, parcel: Parcel, _: str) -> None:
        request = parcel.message
        if not isinstance(request, TaskControlRequest):
            return  # Nothing else is said to controllers.
        now = asyncio.get_running_loop().time()
        attempt = self._attempts.pop(request.job, None)
        if attempt is None:
            self._forget(now)
            attempt = _Attempt(request)
        elif request.sequence < attempt.newest.sequence and self._is_forsaken(attempt, now):
            attempt = _Attempt(request)
        self._attempts[request.job] = attempt
        if not attempt.take(request):
            self.counts.stale += 1
            logger.warning("request_older_than_known", **_about(request), known=attempt.newest.sequence)
            return
        attempt.heard_at = now
        if attempt.standing is not None:
            self._say(attempt.standing)
        else:
            self._want(request.job, attempt)

    def _is_forsaken(self, attempt: _Attempt, now: float) -> bool:
        """Whether nothing was heard of an attempt for longer than anything is on its way.

        Who asks about it with an older request then has another log, in which the numbers began anew.
        """
        return not attempt.is_busy and attempt.heard_at + ACK_LEASE / SECOND < now

    def _forget(self, now: float) -> None:
        """What was not heard of for long, so that whoever serves for years keeps little."""
        for handle, attempt in list(self._attempts.items()):
            is_old = attempt.heard_at + CONTROL_RETENTION / SECOND < now
            if len(self._attempts) < DOCKETS_MAX and not is_old:
                break
            if not attempt.is_busy:
                del self._attempts[handle]

    def _want(self, handle: JobHandle, attempt: _Attempt) -> None:
        attempt.is_wanted = True
        self._wanted[handle] = None
        self._wake.set()

    async def _serve(self) -> None:
        """Not in whoever said it: what a controller does is its own, also to be frozen or killed with it."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._wake.wait()
                self._wake.clear()
                wanted, self._wanted = self._wanted, {}
                for handle in wanted:
                    attempt = self._attempts.get(handle)
                    if attempt is not None and not attempt.is_busy:
                        attempt.is_busy = True
                        group.create_task(self._attend(attempt), name=f"controller/{handle.workload}")

    async def _attend(self, attempt: _Attempt) -> None:
        """Ask until nothing new was said meanwhile."""
        try:
            while attempt.is_wanted:
                attempt.is_wanted = False
                answer = await self._ask(attempt)
                if answer is not None:
                    self._say(answer)
        finally:
            attempt.is_busy = False

    async def _ask(self, attempt: _Attempt) -> TaskControlResponse | None:
        """The controller's answer to the newest request; None is silence, which the region understands as `not yet`."""
        request = attempt.shown()
        self.counts.asked += 1
        limit = asyncio.timeout(self._span / SECOND)
        try:
            async with limit:
                given = await self._controller.process(request)
            acks, strange = acks_in(request, given)
        except Unusable as error:
            logger.error("controller_answer_unusable", **_about(request), problem=str(error))
        except Exception as error:  # noqa: BLE001  # whatever a user's code raises
            problem = {"error": f"{type(error).__name__}: {error}", "place": _place(error)}
            if limit.expired():
                problem = {"seconds": str(self._span / SECOND)}
            event = "controller_too_slow" if limit.expired() else "controller_failed"
            logger.error(event, **_about(request), **problem)
        else:
            if strange:
                self.counts.dropped += len(strange)
                logger.warning("acks_not_asked_for", **_about(request), operations=strange[:10])
            self.counts.answered += 1
            return attempt.answered(request, acks)
        self.counts.silent += 1
        return None

    def _say(self, answer: TaskControlResponse) -> None:
        try:
            self._bus.say(answer)
        except BusError as error:  # Of a region that has no subject; its next request says the same.
            logger.error("answer_cannot_be_said", workload=answer.workload, problem=str(error))


def _about(request: TaskControlRequest) -> dict[str, object]:
    return {
        "controller": request.controller,
        "region": request.job.region,
        "workload": request.job.workload,
        "epoch": request.job.epoch,
        "sequence": request.sequence,
    }


def _place(error: BaseException) -> str:
    """Where it was raised, innermost last."""
    return " ".join(
        f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)[-3:]
    )

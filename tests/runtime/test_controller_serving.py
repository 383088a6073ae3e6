"""What serves a controller: everything new is asked once, everything answered is answered again, and failure is silence."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import pytest

from bus.port import Address, Bus
from core.codec import Parcel, encode
from core.messages.base import Message
from core.messages.control import (
    JobHandle,
    OperationAsked,
    OperationCompleted,
    TaskControlRequest,
    TaskControlResponse,
)
from core.messages.queue import CancelWorkload
from core.nouns.ids import RegionName, TenantName, WorkloadId
from core.nouns.instant import MILLISECOND, Nanoseconds, seconds
from core.nouns.limits import ACK_LEASE, CONTROL_RETENTION
from core.nouns.operation import Ack, Answer, OperationKind, Outcome
from runtime.control.controller import TaskController
from runtime.control.pending_requests import Unusable, acks_in
from runtime.control.serving import ControllerServer
from tests.bus.worlds import FLEET, SimulatedWorld, World, in_both_worlds, in_simulated_world

EU = RegionName("eu")
Decide = Callable[[TaskControlRequest], Awaitable[Iterable[Ack]]]


def asked(
    sequence: int, *operations: int, done: Iterable[int] = (), workload: str = "w-1"
) -> TaskControlRequest:
    """A request of `eu` about these operations."""
    return TaskControlRequest(
        TenantName("ml"),
        "web",
        JobHandle(EU, WorkloadId(workload), 1),
        tuple(OperationAsked(number, OperationKind.UPDATE, number, "") for number in operations),
        tuple(OperationCompleted(number, OperationKind.UPDATE, number, Outcome.HEALTHY) for number in done),
        (),
        (),
        sequence,
    )


def answer(sequence: int, *operations: int, workload: str = "w-1") -> TaskControlResponse:
    """An answer that lets these proceed."""
    acks = tuple(Ack(number) for number in operations)
    return TaskControlResponse(EU, TenantName("ml"), "web", WorkloadId(workload), 1, sequence, acks)


class Controller(TaskController):
    """Remembers what it was shown; lets all proceed unless told otherwise."""

    def __init__(self, decide: Decide | None = None) -> None:
        self.shown: list[TaskControlRequest] = []
        self._decide = decide

    async def process(self, request: TaskControlRequest) -> Iterable[Ack]:
        self.shown.append(request)
        if self._decide is not None:
            return await self._decide(request)
        return [Ack(operation.operation) for operation in request.requests]


class Scene:
    """A controller that is served, and a region that asks it."""

    def __init__(self, world: World, controller: Controller, server: ControllerServer, region: Bus) -> None:
        self.world = world
        self.controller = controller
        self.server = server
        self.answers: list[Message] = []
        self._region = region

    def ask(self, request: TaskControlRequest) -> None:
        """Say it, as a region does."""
        self._region.say(request)

    async def answered(self, *expected: TaskControlResponse) -> None:
        """So far, exactly these answers came."""
        await self.world.until(lambda: len(self.answers) >= len(expected))
        await self.world.settle()
        assert list(expected) == self.answers

    async def shown(self, count: int) -> None:
        """So far, the controller was asked so often."""
        await self.world.until(lambda: len(self.controller.shown) >= count)
        await self.world.settle()
        assert count == len(self.controller.shown)


async def a_scene(world: World, decide: Decide | None = None) -> Scene:
    """All is heard from here on."""
    controller = Controller(decide)
    region = await world.endpoint("control.eu")
    server = ControllerServer(controller, await world.endpoint("controller"), "ml", "web")
    await server.start()
    scene = Scene(world, controller, server, region)
    await region.listen(Address("control", (EU,)), lambda parcel, _: scene.answers.append(parcel.message))
    return scene


@in_both_worlds
async def test_asked_once_answered_as_often_as_asked(world: World) -> None:
    """A repeat of an answered request is answered again from the answer; a newer one is another question."""
    scene = await a_scene(world)
    scene.ask(asked(7, 1, 2))
    await scene.answered(answer(7, 1, 2))
    scene.ask(asked(7, 1, 2))
    await scene.answered(answer(7, 1, 2), answer(7, 1, 2))
    assert [asked(7, 1, 2)] == scene.controller.shown
    scene.ask(asked(9, 3))
    await scene.answered(answer(7, 1, 2), answer(7, 1, 2), answer(9, 3))
    assert [asked(7, 1, 2), asked(9, 3)] == scene.controller.shown
    await scene.server.close()


@in_both_worlds
async def test_older_requests_are_dropped(world: World) -> None:
    """One that was overtaken on its way says what is no longer so; it is counted, and the answer to the newest stands."""
    scene = await a_scene(world)
    scene.ask(asked(9, 3))
    await scene.answered(answer(9, 3))
    scene.ask(asked(7, 1, 2))
    await world.until(lambda: scene.server.counts.stale == 1)
    scene.ask(asked(9, 3))
    await scene.answered(answer(9, 3), answer(9, 3))
    assert [asked(9, 3)] == scene.controller.shown
    await scene.server.close()


@in_both_worlds
async def test_answer_to_nothing_is_an_answer(world: World) -> None:
    """`not yet` to all of it tells the region that its controller lives, and that it was told what is completed."""

    async def wait(_: TaskControlRequest) -> list[Ack]:
        return []

    scene = await a_scene(world, wait)
    scene.ask(asked(7, 1, done=[5]))
    await scene.answered(answer(7))
    await scene.server.close()


@in_both_worlds
async def test_completed_is_told_once(world: World) -> None:
    """However often the region says it, and however many requests it stands in; what is completed later is told too."""
    scene = await a_scene(world)
    for request in (
        asked(7, 1, done=[5]),
        asked(8, 1, 2, done=[5, 6]),
        asked(9, done=[5, 6]),
        asked(10, done=[7]),
    ):
        scene.ask(request)
        await scene.shown(len(scene.controller.shown) + 1)
    told = [[done.operation for done in request.completed] for request in scene.controller.shown]
    assert [[5], [6], [], [7]] == told
    await scene.server.close()


@in_both_worlds
async def test_failed_request_is_asked_again(world: World) -> None:
    """An exception is silence, for which the region asks again; a completed operation counts as told once it was taken."""
    failures = [RuntimeError("no"), asyncio.CancelledError()]

    async def fail_twice(request: TaskControlRequest) -> list[Ack]:
        if failures:
            raise failures.pop(0)
        return [Ack(operation.operation) for operation in request.requests]

    scene = await a_scene(world, fail_twice)
    for count in (1, 2, 3):
        scene.ask(asked(7, 1, done=[5]))
        await scene.shown(count)
    await scene.answered(answer(7, 1))
    assert [asked(7, 1, done=[5])] * 3 == scene.controller.shown
    assert 1 == scene.server.counts.answered
    await scene.server.close()


@in_both_worlds
async def test_garbage_is_silence(world: World) -> None:
    """What is no list of acknowledgements is answered with nothing, and the next request is another chance."""
    strange: object = None

    async def say(_: TaskControlRequest) -> Iterable[Ack]:
        return strange  # type: ignore[return-value]  # as a user may

    scene = await a_scene(world, say)
    for count, given in enumerate((None, 7, ["x"], [Ack("1")], [Ack(1, "perhaps")]), 1):  # type: ignore[arg-type]
        strange = given
        scene.ask(asked(6 + count, 1))
        await scene.shown(count)
    assert 5 == scene.server.counts.silent
    strange = [Ack(1), Ack(2), Ack(3)]
    scene.ask(asked(12, 1, 3))
    await scene.answered(answer(12, 1, 3))
    assert 1 == scene.server.counts.dropped, "nobody asked for the second"
    await scene.server.close()


@in_both_worlds
async def test_one_thing_at_a_time_for_each_attempt(world: World) -> None:
    """While it thinks about one attempt it is asked about others; of what came meanwhile it is asked the newest alone."""
    may_go = {name: asyncio.Event() for name in ("w-1", "w-2")}
    at_work: list[str] = []
    twice: list[str] = []
    most = 0

    async def think(request: TaskControlRequest) -> list[Ack]:
        nonlocal most
        at_work.append(request.job.workload)
        most = max(most, len(at_work))
        doubled = [name for name in at_work if at_work.count(name) > 1]
        twice.extend(doubled)
        await may_go[request.job.workload].wait()
        at_work.remove(request.job.workload)
        return [Ack(operation.operation) for operation in request.requests]

    scene = await a_scene(world, think)
    scene.ask(asked(7, 1))
    scene.ask(asked(7, 1, workload="w-2"))
    await scene.shown(2)
    for sequence in (7, 8, 9):
        scene.ask(asked(sequence, 1, sequence))
    may_go["w-2"].set()
    await scene.answered(answer(7, 1, workload="w-2"))
    assert (2, 2) == (most, len(scene.controller.shown))
    may_go["w-1"].set()
    await scene.answered(answer(7, 1, workload="w-2"), answer(7, 1), answer(9, 1, 9))
    assert [] == twice
    await scene.server.close()


@in_both_worlds
async def test_reconsidered_at_its_own_wish(world: World) -> None:
    """Asked again on the newest request, of one attempt or all; not about what nobody waits for, and not once it is closed."""
    is_ready = False

    async def when_ready(request: TaskControlRequest) -> list[Ack]:
        return [Ack(operation.operation) for operation in request.requests if is_ready]

    scene = await a_scene(world, when_ready)
    scene.ask(asked(7, 1))
    scene.ask(asked(8, 2, workload="w-2"))
    scene.ask(asked(9, workload="w-3", done=[1]))
    await scene.shown(3)
    is_ready = True
    scene.controller.reconsider(JobHandle(EU, WorkloadId("w-2"), 1))
    await world.until(lambda: answer(8, 2, workload="w-2") in scene.answers)
    assert answer(7, 1) not in scene.answers
    scene.controller.reconsider()
    await world.until(lambda: answer(7, 1) in scene.answers)
    await scene.shown(6)
    scene.controller.reconsider(JobHandle(EU, WorkloadId("w-9"), 1))
    await scene.server.close()
    scene.controller.reconsider()
    await scene.shown(6)
    assert scene.controller._reconsider is None, "nobody serves it"


@in_both_worlds
async def test_returned_server_asks_on(world: World) -> None:
    """While the bus is away nothing is heard; when it is back whatever is said again is answered, without a new start."""
    scene = await a_scene(world)
    await world.server_down()
    scene.ask(asked(7, 1))
    await world.server_up()

    async def is_answered() -> bool:
        scene.ask(asked(7, 1))
        await world.breathe()
        return answer(7, 1) in scene.answers

    for _ in range(100_000):
        if await is_answered():
            break
    assert answer(7, 1) in scene.answers
    assert [asked(7, 1)] == scene.controller.shown
    await scene.server.close()


@in_both_worlds
async def test_closed_server_answers_nothing(world: World) -> None:
    """What it was at is cancelled, so that whoever waits for it can let go of what it has."""
    let_go: list[bool] = []

    async def think(_: TaskControlRequest) -> list[Ack]:
        try:
            await asyncio.Event().wait()
        finally:
            let_go.append(True)
        return []

    scene = await a_scene(world, think)
    scene.ask(asked(7, 1))
    await scene.shown(1)
    await scene.server.close()
    assert [True] == let_go
    scene.ask(asked(8, 1))
    await scene.answered()
    await scene.server.close()


@in_simulated_world
async def test_too_long_is_silence(world: SimulatedWorld) -> None:
    """After its span the controller's thought is cancelled; the next request is another chance."""
    spans = [31, 29]

    async def think(request: TaskControlRequest) -> list[Ack]:
        await world.loop.sleep_ns(seconds(spans.pop(0)))
        return [Ack(operation.operation) for operation in request.requests]

    scene = await a_scene(world, think)
    for _ in range(2):
        scene.ask(asked(7, 1))
        await world.loop.sleep_ns(seconds(40))
    await scene.answered(answer(7, 1))
    assert (1, 2) == (scene.server.counts.silent, scene.server.counts.asked)
    await scene.server.close()


@in_simulated_world
async def test_log_that_began_again_is_heard(world: SimulatedWorld) -> None:
    """Older requests long after the newest come from a region with another history; at once they are late ones."""
    scene = await a_scene(world)
    scene.ask(asked(900, 1))
    await scene.shown(1)
    scene.ask(asked(7, 2))
    await scene.answered(answer(900, 1))
    await world.loop.sleep_ns(Nanoseconds(ACK_LEASE + MILLISECOND))
    scene.ask(asked(7, 2))
    await scene.answered(answer(900, 1), answer(7, 2))
    await scene.server.close()


@in_simulated_world
async def test_attempts_long_unheard_of_are_forgotten(world: SimulatedWorld) -> None:
    """Whoever serves for years keeps little; of what is forgotten only the last answer is lost."""
    scene = await a_scene(world)
    for number in range(5):
        scene.ask(asked(7, 1, workload=f"w-{number}"))
    await scene.shown(5)
    await world.loop.sleep_ns(Nanoseconds(CONTROL_RETENTION + MILLISECOND))
    scene.ask(asked(7, 1, workload="w-9"))
    await scene.shown(6)
    assert ["w-9"] == [job.workload for job in scene.server._attempts]
    await scene.server.close()


def test_attempts_have_a_ceiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more than that the one heard of longest ago is forgotten, unless it is being thought about."""
    monkeypatch.setattr("runtime.control.serving.DOCKETS_MAX", 3)

    async def think_of_first(request: TaskControlRequest) -> list[Ack]:
        if request.job.workload == "w-0":
            await asyncio.Event().wait()
        return []

    async def body(world: SimulatedWorld) -> None:
        scene = await a_scene(world, think_of_first)
        for number in (0, 1, 2, 1, 3):
            scene.ask(asked(7, 1, workload=f"w-{number}"))
            await world.settle()
        assert ["w-0", "w-1", "w-3"] == sorted(job.workload for job in scene.server._attempts)
        await scene.server.close()

    in_simulated_world(body)()


@in_both_worlds
async def test_other_messages_are_nothing_to_it(world: World) -> None:
    """Whatever else finds its way to a controller's address does not stop it."""
    scene = await a_scene(world)
    stray = encode(Parcel("x.1", "stranger", CancelWorkload(WorkloadId("w-1"))))
    await world.deliver_raw(f"{FLEET}.controller.ml.web.cancel_workload", stray)
    scene.ask(asked(7, 1))
    await scene.answered(answer(7, 1))
    await scene.server.close()


@in_simulated_world
async def test_waited_for_until_it_is_closed(world: SimulatedWorld) -> None:
    """However much it has answered until then."""
    scene = await a_scene(world)
    waiting = world.loop.create_task(scene.server.wait())
    scene.ask(asked(7, 1))
    await scene.answered(answer(7, 1))
    assert not waiting.done()
    await scene.server.close()
    await waiting


def test_acknowledgements_are_read_as_they_would_be_said() -> None:
    """Any iterable, an answer also by its word, the last word on each operation; nothing without end."""
    request = asked(7, 1, 2)
    given = (Ack(number, "move") for number in (1, 9, 1))  # type: ignore[arg-type]
    assert ((Ack(1, Answer.MOVE),), (9,)) == acks_in(request, given)
    with pytest.raises(Unusable, match="more than"):
        acks_in(request, (Ack(number) for number in iter(lambda: 1, 2)))

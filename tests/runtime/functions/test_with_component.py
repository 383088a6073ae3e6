"""The function server and its real executors together: each call is answered once, whatever other calls do to their executor."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from components.function_server.component import FunctionServer
from core.component import Images
from core.fact import NO_LOG, Fact
from core.messages.base import Envelope, Message, Woken
from core.messages.functions import CallsAnswered, Run, RunCalls
from core.nouns.function import Call, CallAnswer, CallOutcome, FunctionSpec, GpuPart, WarmLevel
from core.nouns.ids import RegionName
from core.nouns.instant import SECOND, Instant, seconds
from core.nouns.quantities import Amount
from runtime.clock import Clock
from runtime.functions.doer import PLACE_SPAN, FunctionDoer
from runtime.functions.packing import pack_arguments, pack_value
from tests.runtime.functions.aids import ANNA, PATIENCE_SECONDS, WrittenBook, environ, holding, spec

pytestmark = pytest.mark.processes

REGION = RegionName("eu")


class Plane:
    """The server's component in a host of a few lines, and the router and caller of its calls."""

    def __init__(self, directory: Path, cores: int) -> None:
        self.book = WrittenBook(holding(cores=cores))
        self.answers: dict[int, CallAnswer] = {}
        self._clock = Clock(asyncio.get_running_loop(), Instant(1))
        self.doer = FunctionDoer(self._clock, self.book, directory / "code", environ())
        self._inbox: asyncio.Queue[Message] = asyncio.Queue()
        self._component = FunctionServer(REGION, "s1", ("r1",))
        self._state = self._component.initial(Images(self._clock.now(), None, {}))
        self.doer.attach(self._inbox.put_nowait)

    def run(
        self, function: FunctionSpec, arguments: Iterable[object], *, is_once: bool = False, first: int = 1
    ) -> None:
        """Send calls, numbered from the first on."""
        runs = tuple(
            Run(number, "c1", ANNA, Call(number, pack_arguments((one,), {}), is_once=is_once))
            for number, one in enumerate(arguments, first)
        )
        message = RunCalls(REGION, "s1", self._state.life, "r1", "l1", 1, function, runs)
        self._inbox.put_nowait(message)

    async def until_answered(self, count: int) -> None:
        """Hear and decide until so many calls have answers."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.answers) < count:
                due = self._component.due(self._state)
                now = self._clock.now()
                if due is not None and due <= now:
                    self._decide(Woken())
                    continue
                try:
                    span = None if due is None else (due - now) / 1e9
                    self._decide(await asyncio.wait_for(self._inbox.get(), span))
                except TimeoutError:
                    continue

    def _decide(self, message: Message) -> None:
        now = self._clock.now()
        decision = self._component.decide(self._state, Envelope(message, "test", "m", now))
        for event in decision.events:
            self._state = self._component.evolve(self._state, Fact(NO_LOG, 0, now, "", "s1", event))
        for said in decision.messages:
            if isinstance(said, CallsAnswered):
                for answer in said.answers:
                    assert answer.number not in self.answers, answer
                    self.answers[answer.number] = answer
        for effect in decision.effects:
            self.doer.begin(effect)


async def test_map_of_many_calls_is_answered(tmp_path: Path) -> None:
    """Two executors, as many as there is room for, share the calls."""
    plane = Plane(tmp_path, cores=2)
    try:
        plane.run(spec(), range(1, 2001))
        await plane.until_answered(2000)
        assert [pack_value(2 * number) for number in range(1, 2001)] == [
            plane.answers[number].value for number in range(1, 2001)
        ]
        assert 2 == plane.book.most_executors
        assert Amount(cpu_milli=2000).covers(plane.book.most)
    finally:
        plane.doer.close()


async def test_calls_that_end_their_executors_fail_alone(tmp_path: Path) -> None:
    """Calls that were behind one of them in its executor run in another: they were not begun, and may be begun once."""
    plane = Plane(tmp_path, cores=1)
    bad = dict(enumerate(("os", "sys", "segfault", "os"), 301)) | {500: "os"}
    try:
        plane.run(spec("plain:end"), (bad.get(number, "stays") for number in range(1, 601)), is_once=True)
        await plane.until_answered(600)
        failed = {number: one for number, one in plane.answers.items() if one.outcome is not CallOutcome.DONE}
        assert sorted(bad) == sorted(failed), failed
        assert all("its executor died of it" in one.problem for one in failed.values())
    finally:
        plane.doer.close()


async def test_executor_without_a_call_leaves_its_core_to_another_function(tmp_path: Path) -> None:
    """Both stay, on one core: each is warm when its function is called again."""
    plane = Plane(tmp_path, cores=1)
    try:
        for count, target in enumerate(("plain:double", "plain:double_later", "plain:double"), 1):
            plane.run(spec(target), [count], first=count)
            async with asyncio.timeout(PLACE_SPAN / SECOND / 2):
                await plane.until_answered(count)
        assert 2 == len(plane.book.uses)
        assert WarmLevel.HOST is plane.answers[3].level
    finally:
        plane.doer.close()


async def test_function_that_fits_no_piece_fails_all_its_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Services hold two halves of GPUs, and it needs a whole one: every call has the sentence. One that needs a half runs."""
    monkeypatch.setattr("runtime.functions.doer.PLACE_SPAN", seconds(0.1))
    plane = Plane(tmp_path, cores=0)
    halves = (GpuPart(0, 500), GpuPart(1, 500))
    plane.book.write(holding(gpus=halves, amount=Amount(gpu_milli=1000, cpu_milli=4000)))
    try:
        plane.run(spec(need=Amount(gpu_milli=1000)), range(10))
        await plane.until_answered(10)
        assert {CallOutcome.FAILED} == {one.outcome for one in plane.answers.values()}
        assert all("in pieces" in one.problem for one in plane.answers.values())
        plane.run(spec("plain:double_later", need=Amount(gpu_milli=500)), [4], first=11)
        await plane.until_answered(11)
        assert CallOutcome.DONE is plane.answers[11].outcome
    finally:
        plane.doer.close()


async def test_function_that_is_not_there_fails_all_its_calls(tmp_path: Path) -> None:
    """Two starts fail, then every call has the sentence; another function runs."""
    plane = Plane(tmp_path, cores=1)
    try:
        plane.run(spec("nowhere:f"), range(10))
        await plane.until_answered(10)
        assert {CallOutcome.FAILED} == {one.outcome for one in plane.answers.values()}
        assert all("No module named 'nowhere'" in one.problem for one in plane.answers.values())
    finally:
        plane.doer.close()

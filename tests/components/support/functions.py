"""A router and a server of functions, joined by hand, and callers who call."""

import itertools
from typing import Any

from components.function_router.component import FunctionRouter
from components.function_server.component import FunctionServer
from core.component import Decision
from core.effects import EndExecutor, GiveCalls, StartExecutor
from core.messages.executors import BookRead, CallsEnded, EndedCall, ExecutorChanged, PlaceRead
from core.messages.functions import CallFunction, CallsAnswered, RunCalls, ServerReport
from core.nouns.function import Call, CallAnswer, CallOutcome, FunctionCode, FunctionSpec, Place
from core.nouns.ids import TenantName
from core.nouns.instant import MILLISECOND, Nanoseconds
from core.nouns.quantities import NOTHING, Amount
from core.nouns.workload import NEVER
from tests.builders import EU
from tests.components.support.machine import Machine
from tests.matching import said

ML = TenantName("ml")
CORE = Amount(0, 1_000, 1 << 30)
ROUTERS = ("r0",)
HELD = Place()
"""The one place of a server, unless others are named."""
WORDS = itertools.count(1)
"""Of all callers: each word is newer than all before."""


def sized(size: Amount, lent: tuple[tuple[TenantName, Amount], ...] = (), place: Place = HELD) -> BookRead:
    """What a machine tells that holds so much for functions on one place."""
    return BookRead((PlaceRead(place, size, lent),) if size != NOTHING else ())


def a_function(
    name: str = "score", *, tenant: TenantName = ML, need: Amount = CORE, is_pickled: bool = False
) -> FunctionSpec:
    """One that needs a core and a GiB."""
    code = FunctionCode() if is_pickled else FunctionCode(f"work:{name}", "/code")
    return FunctionSpec(tenant, name, "0123abcd", need, code)


def calls(*numbers: int, once: bool = False, within: int = 0) -> tuple[Call, ...]:
    """Calls of these numbers."""
    return tuple(Call(number, b"", Nanoseconds(within), once) for number in numbers)


def a_server(start: Any, name: str = "w0", cores: int = 2, *, gib: int = 64) -> Machine[Any]:
    """A server of so many cores that has read its book."""
    machine: Machine[Any] = start(FunctionServer(EU, name, ROUTERS))
    machine.wake()
    machine.hear(sized(Amount(0, 1_000 * cores, gib << 30)))
    return machine


def a_router(start: Any) -> Machine[Any]:
    """A router that has heard nobody."""
    machine: Machine[Any] = start(FunctionRouter(EU, "r0", ROUTERS))
    machine.wake()
    return machine


def call(
    router: Machine[Any],
    said_calls: tuple[Call, ...],
    *,
    function: FunctionSpec | None = None,
    caller: str = "c1",
    floor: int = 1,
    life: str | None = None,
    since: Nanoseconds = NEVER,
) -> Decision:
    """A caller calls."""
    life = router.state.life if life is None else life
    message = CallFunction(
        EU, "r0", life, ML, caller, next(WORDS), floor, function or a_function(), said_calls, since=since
    )
    return router.hear(message, tenant=ML)


def reports(server: Machine[Any]) -> list[ServerReport]:
    """What the server tells its routers now."""
    return said(server.wake(), ServerReport)


def carry_reports(server: Machine[Any], router: Machine[Any]) -> None:
    """Whatever the server tells now reaches the router."""
    router.now = max(router.now, server.now)
    for report in reports(server):
        router.hear(report)


def carry_runs(router: Machine[Any], server: Machine[Any]) -> list[RunCalls]:
    """Whatever the router sends now reaches the server."""
    sent = said(router.wake(), RunCalls)
    for message in sent:
        server.hear(message)
    return sent


def comes_up(server: Machine[Any], *executors: int) -> None:
    """Executors are ready."""
    for number in executors:
        server.hear(ExecutorChanged(number, server.state.executors[number].top))


def started(decision: Decision) -> list[int]:
    """Executors that are started."""
    return [effect.executor for effect in decision.effects if isinstance(effect, StartExecutor)]


def stopped(decision: Decision) -> list[int]:
    """Executors that are ended."""
    return [effect.executor for effect in decision.effects if isinstance(effect, EndExecutor)]


def given(decision: Decision) -> dict[int, list[int]]:
    """Tickets by executor."""
    found: dict[int, list[int]] = {}
    for effect in decision.effects:
        if isinstance(effect, GiveCalls):
            found.setdefault(effect.executor, []).extend(ticket for ticket, _ in effect.calls)
    return found


def ends(
    server: Machine[Any],
    executor: int,
    *tickets: int,
    outcome: CallOutcome = CallOutcome.DONE,
    ran: int = MILLISECOND,
) -> Decision:
    """Calls end in an executor."""
    answer = CallAnswer(0, outcome, b"value", ran=Nanoseconds(ran))
    return server.hear(CallsEnded(tuple(EndedCall(executor, ticket, answer) for ticket in tickets)))


def answers(decision: Decision) -> dict[int, str]:
    """Outcomes by number."""
    return {
        one.number: str(one.outcome) for message in said(decision, CallsAnswered) for one in message.answers
    }

"""One little life of a function server, and one of a function router (see tests/components/support/scenes.py)."""

from collections.abc import Callable
from typing import Any

from core.messages.executors import CodeKept, ExecutorChanged
from core.messages.functions import (
    AskCalls,
    CodeSent,
    FunctionsRemembered,
    RoutersWanted,
    Run,
    RunCalls,
    ServerReport,
    ShowFunctions,
)
from core.messages.harvest import HarvestOdds, NodeSize, SizeServer
from core.nouns.function import CallOutcome, EndedRun, Executors, FunctionEstimate, FunctionSpec, WarmLevel
from core.nouns.function_limits import CALLER_SILENCE_MAX, CODE_SPAN, KEEP_ALIVE_MAX, SERVER_GONE
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.quantities import NOTHING, Amount
from tests.builders import EU
from tests.components.support.functions import (
    ML,
    a_function,
    a_router,
    a_server,
    call,
    calls,
    comes_up,
    ends,
    sized,
    started,
)
from tests.components.support.machine import Machine

Start = Callable[..., Machine[Any]]
PICKLED = a_function("pickled", is_pickled=True)
TWO_CORES = Amount(0, 2_000, 64 << 30)


def of_the_function_server(start: Start) -> Machine[Any]:
    """Calls that run, an executor that is ended when idle, harvested capacity, code that comes, and code that never does."""
    server = a_server(start)
    server.hear(_runs(server, a_function(), 1))
    comes_up(server, *started(server.wake()))
    server.wake()
    server.hear(AskCalls(EU, ML, "c1", (1, 2)), tenant=ML)
    ends(server, 1, 1)
    server.wait(seconds(1))
    server.hear(_runs(server, PICKLED, 2))
    server.wake()
    server.hear(CodeSent(EU, "w0", ML, PICKLED.id, b"code"), tenant=ML)
    server.hear(CodeKept(PICKLED.id))
    comes_up(server, *started(server.wake()))
    server.wake()
    ends(server, 2, 2)
    server.hear(_runs(server, a_function("missing", is_pickled=True), 3))
    server.wait(CODE_SPAN)
    server.wait(KEEP_ALIVE_MAX)
    server.hear(ExecutorChanged(1, WarmLevel.COLD, is_gone=True))
    server.hear(SizeServer(EU, "w0", 1, (NodeSize(0, TWO_CORES, TWO_CORES, seconds(30)),)))
    server.hear(sized(NOTHING))
    server.wake()
    return server


def _runs(server: Machine[Any], function: FunctionSpec, number: int) -> RunCalls:
    run = Run(number, "c1", ML, calls(number)[0])
    return RunCalls(EU, "w0", server.state.life, "r0", "router-1", number, function, (run,))


def of_the_function_router(start: Start) -> Machine[Any]:
    """Calls that are sent, that end, are said again, lost, late and given back; a caller, the odds of harvested capacity, a server and functions that are gone."""
    router = a_router(start)
    report = _reports(router)
    report()
    estimates = (FunctionEstimate(a_function().id, 60, Nanoseconds(SECOND)),)
    router.hear(FunctionsRemembered(EU, "r0", router.state.life, 0, estimates))
    call(router, calls(1))
    router.wake()
    report(ended=(EndedRun(1, CallOutcome.DONE, Nanoseconds(SECOND), WarmLevel.COLD),), taken=1)
    call(router, calls(1))
    call(router, calls(2, once=True))
    for _ in range(3):
        router.wait(seconds(0.5))
        report(taken=1)
    call(router, calls(3, 4, within=SECOND), function=a_function("other"), caller="c2")
    router.wait(seconds(1.5))
    router.hear(ShowFunctions(EU, "r0"))
    router.hear(HarvestOdds(EU, "r0", 100_000, seconds(30), ()))
    router.hear(RoutersWanted(ML), tenant=ML)
    report(life="server-2", size=Amount(0, 1_000, 64 << 30))
    call(router, calls(5), caller="c3")
    call(router, calls(6), caller="c3")
    router.wake()
    report(life="server-2", size=NOTHING)
    router.wait(seconds(1))
    router.wait(SERVER_GONE)
    for _ in range(KEEP_ALIVE_MAX // CALLER_SILENCE_MAX + 1):
        router.wait(CALLER_SILENCE_MAX)
        if router.state.told is not None:
            number = router.state.told.number
            router.hear(FunctionsRemembered(EU, "r0", router.state.life, number))
        report(life="server-2")
    router.wait(seconds(1))
    return router


def _reports(router: Machine[Any]) -> Callable[..., object]:
    """Return what lets a server of two cores report to the router."""
    count = 0

    def report(
        *,
        life: str = "server-1",
        size: Amount = TWO_CORES,
        ended: tuple[EndedRun, ...] = (),
        taken: int = 0,
    ) -> None:
        nonlocal count
        count += 1
        mine = router.state.life
        executors = (Executors(a_function().id, 1, 0, 0),)
        router.hear(
            ServerReport(EU, "r0", "w0", life, count, 0, size, (), (), executors, True, ended, mine, taken)
        )

    return report

"""Calls on harvested capacity, joined by hand: a server of which GPUs are harvested, and a router that knows the odds."""

from typing import Any

from components.function_router.component import FunctionRouter
from core.messages.executors import BookRead, ExecutorChanged, PlaceRead
from core.messages.harvest import HarvestOdds, NodeSize, SizeServer, TenantHarvest
from core.nouns.function import FunctionSpec, Place, WarmLevel
from core.nouns.harvest import HarvestUse
from core.nouns.instant import SECOND, Instant, Nanoseconds, after, seconds
from core.nouns.quantities import NOTHING, Amount
from core.nouns.workload import NEVER
from tests.builders import EU
from tests.components.support.functions import (
    HELD,
    ML,
    ROUTERS,
    a_function,
    a_server,
    answers,
    call,
    calls,
    carry_reports,
    carry_runs,
    comes_up,
    started,
    stopped,
)
from tests.components.support.machine import Machine

HARVESTED = Place(0, is_harvested=True)
GPU = Amount(1_000, 1_000, 1 << 30)
GRACE = seconds(30)
HOUR = 3_600 * SECOND


def on_gpu(name: str = "score") -> FunctionSpec:
    """A function that needs a GPU and a core."""
    return a_function(name, need=GPU)


def read(
    machine: Machine[Any],
    gpus: int,
    *,
    leaves_in: Nanoseconds = NEVER,
    held: int = 0,
    cores: int = 8,
) -> None:
    """So many GPUs are harvested, and held, of the machine now."""
    leaves_by = after(machine.now, leaves_in) if leaves_in else Instant(0)
    places = [PlaceRead(HARVESTED, Amount(1_000 * gpus, 1_000 * cores, 64 << 30), (), leaves_by, slows=True)]
    if not gpus:
        places = []
    if held:
        places.append(PlaceRead(HELD, Amount(1_000 * held, 8_000, 64 << 30)))
    machine.hear(BookRead(tuple(places)))


def a_harvested_server(start: Any, name: str = "w0", gpus: int = 4, *, held: int = 0) -> Machine[Any]:
    """A server of which so many GPUs are harvested."""
    machine = a_server(start, name, cores=0, gib=0)
    machine.hear(SizeServer(EU, name, 1, (size_of(gpus),)))
    read(machine, gpus, held=held)
    return machine


def size_of(gpus: int) -> NodeSize:
    """What the harvester says of a node with so many harvested GPUs."""
    return NodeSize(0, Amount(8_000, 64_000, 512 << 30), Amount(1_000 * gpus, 8_000, 64 << 30), GRACE)


def a_knowing_router(start: Any, *, recalls: int = 100_000, use: HarvestUse | None = None) -> Machine[Any]:
    """A router that knows how often nodes are recalled."""
    router: Machine[Any] = start(FunctionRouter(EU, "r0", ROUTERS))
    router.wake()
    tell_odds(router, recalls=recalls, use=use)
    return router


def tell_odds(router: Machine[Any], *, recalls: int = 100_000, use: HarvestUse | None = None) -> None:
    """The harvester tells a router the odds, and a tenant's setting."""
    tenants = (TenantHarvest(ML, use),) if use is not None else ()
    router.hear(HarvestOdds(EU, "r0", recalls, GRACE, tenants))


def busy(
    server: Machine[Any], router: Machine[Any], count: int, *, once: bool = False, first: int = 1
) -> None:
    """So many calls run on harvested GPUs, each on an executor of its own."""
    carry_reports(server, router)
    call(router, calls(*range(first, first + count), once=once), function=on_gpu())
    carry_runs(router, server)
    comes_up(server, *started(server.wake()))
    server.wake()


def gone(server: Machine[Any], number: int) -> Any:
    """An executor is gone."""
    return server.hear(ExecutorChanged(number, WarmLevel.COLD, is_gone=True))


def lose(server: Machine[Any], *, held: int) -> Place:
    """The harvested GPU is taken back from the call that runs there. Return the place."""
    number = next(number for number, one in server.state.executors.items() if one.tickets)
    recalled = PlaceRead(HARVESTED, NOTHING, (), after(server.now, GRACE), slows=True)
    more = (PlaceRead(HELD, Amount(1_000 * held, 8_000, 64 << 30)),) if held else ()
    server.hear(BookRead((recalled, *more)))
    place: Place = server.state.executors[number].place
    assert [number] == stopped(server.wait(GRACE))
    assert {} == answers(gone(server, number)), "its caller hears of nothing"
    return place

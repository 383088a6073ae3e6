"""Calls on harvested capacity: who may use it, what leaves when it is recalled, and what becomes of calls that are lost."""

from typing import Any

from components.function_router.component import FunctionRouter
from components.function_server.state import ServerState
from core.effects import KeepHarvest
from core.messages.executors import BookRead, PlaceRead
from core.messages.functions import RunCalls, ServerReport
from core.messages.harvest import NodeSize, NodeUse, ServerSized, SizeServer
from core.nouns.function_limits import ODDS_STALE
from core.nouns.harvest import HarvestUse
from core.nouns.instant import SECOND, Instant, Nanoseconds, after, seconds
from core.nouns.quantities import NOTHING, Amount
from tests.builders import EU
from tests.components.support.functions import (
    HELD,
    ROUTERS,
    a_function,
    call,
    calls,
    carry_reports,
    carry_runs,
    comes_up,
    ends,
    reports,
    started,
    stopped,
)
from tests.components.support.harvested import (
    GPU,
    GRACE,
    HARVESTED,
    a_harvested_server,
    a_knowing_router,
    busy,
    gone,
    lose,
    on_gpu,
    read,
    size_of,
    tell_odds,
)
from tests.components.support.machine import Machine
from tests.matching import begun, said, said_once

# The server.


def test_recalled_place_says_so_and_gets_nothing_new(start: Any) -> None:
    """H-2: routers hear at once that the place shrinks, and send nothing there until it is as small as was said."""
    server, router = a_harvested_server(start, gpus=2), a_knowing_router(start)
    busy(server, router, 2)
    read(server, 1, leaves_in=GRACE)
    told = [report for report in reports(server) if report.place == HARVESTED]
    assert told[-1].leaves_in == GRACE
    for report in told:
        router.hear(report)
    call(router, calls(3), function=on_gpu())
    assert [] == said(router.wake(), RunCalls)
    leaving = next(number for number, one in server.state.executors.items() if one.leaves_by)
    ends(server, leaving, next(iter(server.state.executors[leaving].tickets)))
    assert [leaving] == stopped(server.wake())
    gone(server, leaving)
    told = reports(server)
    assert 0 == told[-1].leaves_in
    assert 1_000 == told[-1].size.gpu_milli


def test_victims_are_idle_then_in_time_then_those_that_ran_least(start: Any) -> None:
    """H-10: a recall of one device after the other."""
    server, router = a_harvested_server(start, gpus=4), a_knowing_router(start)
    for number, name in enumerate(("quick", "slow", "slow2", "idle"), 1):
        carry_reports(server, router)
        call(router, calls(number), function=on_gpu(name))
        carry_runs(router, server)
        comes_up(server, *started(server.wake()))
        server.wake()
        server.now = router.now = after(server.now, seconds(1))
    state: ServerState = server.state
    quick, slow, slow2, idle = (
        next(number for number, one in state.executors.items() if f"/{name}/" in one.function)
        for name in ("quick", "slow", "slow2", "idle")
    )
    ends(server, idle, next(iter(state.executors[idle].tickets)))
    state.functions[state.executors[quick].function].run_times.add(seconds(10))
    for number in (slow, slow2):
        state.functions[state.executors[number].function].run_times.add(seconds(600))
    read(server, 3, leaves_in=GRACE)
    assert [idle] == stopped(server.wake()), "it loses nothing"
    assert not [number for number, one in state.executors.items() if one.leaves_by]
    gone(server, idle)
    read(server, 2, leaves_in=GRACE)
    assert [] == stopped(server.wake())
    assert [quick] == [number for number, one in state.executors.items() if one.leaves_by], (
        "its call ends in time"
    )
    read(server, 1, leaves_in=GRACE)
    server.wake()
    leaving = [number for number, one in state.executors.items() if one.leaves_by]
    assert [quick, slow2] == leaving, "of two that are late, the one that has run for less"


def test_call_that_runs_for_long_is_not_about_to_end(start: Any) -> None:
    """H-10: of a heavy tail, what is left grows with what has run; of a call that runs for longer than any before nothing is known."""
    for known in ((10,), (10, 10, 10, 3_600)):
        server, router = a_harvested_server(start, gpus=2), a_knowing_router(start)
        busy(server, router, 1)
        server.now = router.now = after(server.now, seconds(600))
        tell_odds(router)
        busy(server, router, 1, first=2)
        long, new = (number for number, one in server.state.executors.items() if one.tickets)
        for run_seconds in known:
            server.state.functions[on_gpu().id].run_times.add(seconds(run_seconds))
        server.now = after(server.now, seconds(2))
        read(server, 1, leaves_in=GRACE)
        server.wake()
        leaving = [number for number, one in server.state.executors.items() if one.leaves_by]
        assert [new] == leaving, (known, long)


def test_executor_that_was_lost_was_seen_to_run_so_long(start: Any) -> None:
    """H-10: a function whose calls are always lost learns from that."""
    server, router = a_harvested_server(start, gpus=1), a_knowing_router(start)
    busy(server, router, 1)
    lose(server, held=0)
    times = server.state.functions[on_gpu().id].run_times
    assert (times.expected_rest(seconds(1)) or 0) > GRACE - seconds(2)


def test_recall_within_a_recall_leaves_the_first_deadline(start: Any) -> None:
    """Of what the first recall takes, though the second one takes more than the rest has."""
    server, router = a_harvested_server(start, gpus=4), a_knowing_router(start)
    large = a_function("large", need=Amount(3_000, 1_000, 1 << 30))
    for number, spec in enumerate((large, on_gpu("small")), 1):
        carry_reports(server, router)
        call(router, calls(number), function=spec)
        carry_runs(router, server)
        comes_up(server, *started(server.wake()))
        server.wake()
    begin = server.now
    read(server, 3, leaves_in=GRACE)
    server.wake()
    assert {2: after(begin, GRACE)} == _times(server)
    server.wait(seconds(20))
    read(server, 2, leaves_in=GRACE)
    server.wake()
    assert {1: after(server.now, GRACE), 2: after(begin, GRACE)} == _times(server)
    assert [2] == stopped(server.wait(seconds(10)))
    assert [1] == stopped(server.wait(seconds(20)))


def test_earlier_of_two_deadlines_holds(start: Any) -> None:
    """Whichever recall came first."""
    server, router = a_harvested_server(start, gpus=2), a_knowing_router(start)
    busy(server, router, 2)
    begin = server.now
    read(server, 1, leaves_in=GRACE)
    server.wake()
    server.wait(seconds(5))
    server.hear(
        BookRead((PlaceRead(HARVESTED, NOTHING, (), after(begin, seconds(20)), slows=True),)),
    )
    server.wake()
    assert {1: after(begin, seconds(20)), 2: after(begin, seconds(20))} == _times(server)


def _times(server: Machine[Any]) -> dict[int, Instant]:
    """When executors have to be gone, of those that leave."""
    return {number: one.leaves_by for number, one in server.state.executors.items() if one.leaves_by}


def test_fewer_cores_end_no_executor(start: Any) -> None:
    """H-10: calls go on more slowly, until the node is harvested no more."""
    server, router = a_harvested_server(start, gpus=2), a_knowing_router(start)
    busy(server, router, 2)
    read(server, 2, cores=1, leaves_in=GRACE)
    assert [] == stopped(server.wake())
    assert not any(one.leaves_by for one in server.state.executors.values())
    call(router, calls(3), function=on_gpu())
    carry_reports(server, router)
    assert [] == said(router.wake(), RunCalls)
    read(server, 0)
    assert [1, 2] == sorted(stopped(server.wake()))


def test_executor_that_stays_is_ended_in_time(start: Any) -> None:
    """Not before: its call has the grace, less a moment in which the device gets free."""
    server, router = a_harvested_server(start, gpus=1), a_knowing_router(start)
    busy(server, router, 1)
    read(server, 1, leaves_in=Nanoseconds(0))
    server.hear(BookRead((PlaceRead(HARVESTED, NOTHING, (), after(server.now, GRACE), slows=True),)))
    assert [] == stopped(server.wake())
    assert [] == stopped(server.wait(Nanoseconds(GRACE - seconds(1))))
    assert [1] == stopped(server.wait(seconds(0.9)))


def test_size_that_grows_again_lets_executors_stay(start: Any) -> None:
    """What was to leave may stay, if it is still there."""
    server, router = a_harvested_server(start, gpus=2), a_knowing_router(start)
    busy(server, router, 2)
    read(server, 1, leaves_in=GRACE)
    server.wake()
    read(server, 2)
    server.wake()
    assert not any(one.leaves_by for one in server.state.executors.values())
    assert [] == stopped(server.wait(GRACE))


def test_server_keeps_sizes_and_tells_its_use(start: Any) -> None:
    """Said again they change nothing; an older word is not heard; what is left is told once it is."""
    server, router = a_harvested_server(start, gpus=2), a_knowing_router(start)
    busy(server, router, 2)
    decision = server.hear(SizeServer(EU, "w0", 2, (size_of(1),)))
    assert [KeepHarvest(2, (size_of(1),))] == begun(decision, KeepHarvest)
    told = said_once(decision, ServerSized)
    assert (2, (NodeUse(0, GPU.times(2)),)) == (told.revision, told.uses)
    again = server.hear(SizeServer(EU, "w0", 2, (size_of(1),)))
    assert ([], 1) == (begun(again, KeepHarvest), len(said(again, ServerSized)))
    assert not server.hear(SizeServer(EU, "w0", 1, (size_of(2),))).messages
    read(server, 1, leaves_in=GRACE)
    ended = stopped(server.wait(GRACE))
    assert 1 == len(ended)
    gone(server, ended[0])
    told = said_once(server.wake(), ServerSized)
    assert ((0, GPU, 1),) == tuple((one.node, one.used, one.lost) for one in told.uses)
    assert told.uses[0].lost_span >= GRACE - seconds(1)


def test_sizes_that_cannot_be_are_not_kept(start: Any) -> None:
    """Two of one node, a grace above the ceiling, a size below nothing."""
    server = a_harvested_server(start)
    bad = size_of(1)
    for sizes in (
        (bad, bad),
        (NodeSize(0, bad.total, bad.size, seconds(46)),),
        (NodeSize(0, bad.total, Amount(-1, 0, 0), GRACE),),
    ):
        assert not server.hear(SizeServer(EU, "w0", 9, sizes)).effects


# Who may.


def _goes(start: Any, router: Machine[Any]) -> bool:
    """Whether a call goes to harvested capacity."""
    server = a_harvested_server(start)
    server.now = router.now
    carry_reports(server, router)
    call(router, calls(99), function=on_gpu())
    return bool(said(router.wake(), RunCalls))


def test_nothing_goes_there_before_the_odds_are_known(start: Any) -> None:
    """Nor when they are old: nobody can tell then how sure it is, and who may use it."""
    router: Machine[Any] = start(FunctionRouter(EU, "r0", ROUTERS))
    router.wake()
    assert not _goes(start, router)
    router = a_knowing_router(start)
    router.wait(Nanoseconds(ODDS_STALE + SECOND))
    assert not _goes(start, router)


def test_tenant_that_wants_no_risk_uses_none(start: Any) -> None:
    """H-9: strategy `none`; `all` is the default."""
    assert not _goes(start, a_knowing_router(start, use=HarvestUse(is_on=False)))
    assert _goes(start, a_knowing_router(start))


def test_bounded_risk_depends_on_run_times_and_recalls(start: Any) -> None:
    """H-9: p_fail = λ · E[max(0, run time − grace)], learned from the calls that have ended."""
    for run_seconds, recalls, may in (
        (20, 60_000_000, True),  # It ends within the grace.
        (90, 10_000, True),  # 60 s beyond the grace, and a recall in a hundred hours: 0.00017.
        (90, 1_000_000, False),  # A recall an hour: 0.017.
    ):
        router = a_knowing_router(start, recalls=recalls, use=HarvestUse(risk_max=1_000))
        server = a_harvested_server(start, "w9")
        busy(server, router, 1)
        ends(server, 1, 1, ran=run_seconds * SECOND)
        carry_reports(server, router)
        call(router, calls(2), function=on_gpu())
        assert may == bool(said(router.wake(), RunCalls)), (run_seconds, recalls)


def test_call_that_no_place_may_run_goes_back_to_its_caller(start: Any) -> None:
    """A tenant that uses none, in a region that holds none for it."""
    router = a_knowing_router(start, use=HarvestUse(is_on=False))
    server = a_harvested_server(start)
    carry_reports(server, router)
    call(router, calls(1), function=on_gpu())
    router.wait(seconds(4))
    for report in reports(server):
        router.hear(report)
    assert 0 == router.state.held


def test_places_of_a_server_that_has_restarted_are_lost_together(start: Any) -> None:
    """The first report of the new life says so, whichever place it is about."""
    server, router = a_harvested_server(start, gpus=1, held=1), a_knowing_router(start)
    carry_reports(server, router)
    assert {"w0/0", "w0/0.harvest"} == {*router.state.servers}
    report = ServerReport(EU, "r0", "w0", "f" * 16, 1, 0, NOTHING, (), place=HELD)
    router.hear(report)
    assert ["w0/0"] == [*router.state.servers]

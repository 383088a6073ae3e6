"""Workers that fall silent, alone, together or all at once, and workers that flap."""

import random

import pytest

from core.component import NOTHING
from core.events.control import DomainLost, NodesClosed, NodesOpened
from core.events.region import AttemptEnded, NodesLost, NodesReturned
from core.messages.base import BusBack, BusLost
from core.messages.nodes import CloseNodes, OpenNodes, RecordDomainLoss
from core.messages.store import RecordLoss, RecordReturn
from core.messages.workers import TasksPhase, WorkerReport
from core.nouns.ids import WorkloadId
from core.nouns.instant import SECOND, Nanoseconds
from core.nouns.limits import (
    COMMAND_SAY_AGAIN,
    DOMAIN_PATIENCE,
    FLAP_HOLD,
    FLAP_HOLD_MAX,
    FLAP_SPAN,
    FLAPS_KEPT_MAX,
    FLAPS_MAX,
    PRESENCE_SILENCE_MAX,
    REGION_PATIENCE,
    SUSPECT_SILENCE,
)
from core.nouns.maintenance import ClosureKind
from core.nouns.workload import EndCause
from tests.builders import EU, a_claim, granted
from tests.components.support.node_health import (
    BEAT,
    Region,
    Start,
    a_region,
    a_worker,
    named,
    nodes_of,
)
from tests.components.support.region_broker import share

SUSPECT_AFTER = SUSPECT_SILENCE // SECOND
LOST_AFTER = PRESENCE_SILENCE_MAX // SECOND
TOGETHER = DOMAIN_PATIENCE // SECOND
AGAIN = COMMAND_SAY_AGAIN // SECOND


def losses(region: Region) -> list[tuple[int, tuple[str, ...]]]:
    """Who was said to be lost, and when it was first said."""
    found: dict[tuple[str, ...], int] = {}
    for at, message in region.said:
        if isinstance(message, RecordLoss):
            found.setdefault((message.worker,), at)
        elif isinstance(message, RecordDomainLoss):
            found.setdefault(message.workers, at)
    return [(at, workers) for workers, at in found.items()]


# Suspected.


def test_worker_that_missed_beats_is_suspected(start: Start) -> None:
    """T24: within a bound after its last beat nothing new is placed on its nodes, and on no others."""
    region = a_region(start, 3)
    region.beat(0)
    region.run(SUSPECT_AFTER - 1, (1, 2))
    assert [] == region.recorded(NodesClosed)
    region.run(1, (1, 2))
    assert [(ClosureKind.SUSPECT, "missed beats")] == [
        (one.kind, one.reason) for one in region.recorded(NodesClosed)
    ]
    assert [0, 1] == region.closed("suspicion")
    assert not region.capacity.is_open(0)
    assert region.capacity.is_open(2)


def test_suspicion_is_said_until_the_log_shows_it(start: Start) -> None:
    """The store may not have heard it; once the log shows it, it is said no more."""
    region = a_region(start, 3)
    region.beat(0)
    region.is_store_deaf = True
    region.run(SUSPECT_AFTER + 2 * AGAIN, (1, 2))
    assert [SUSPECT_AFTER + BEAT + late for late in (0, AGAIN, 2 * AGAIN)] == [
        at for at, _ in region.told(CloseNodes)
    ]
    region.is_store_deaf = False
    region.run(AGAIN, (1, 2))
    count = len(region.told(CloseNodes))
    region.run(3 * AGAIN, (1, 2))
    assert 1 == len(region.recorded(NodesClosed))
    assert count == len(region.told(CloseNodes))


@pytest.mark.parametrize("sign", ["beat", "report"])
def test_suspicion_is_lifted_by_a_sign_of_life(start: Start, sign: str) -> None:
    """At once, and again until the log shows it."""
    region = a_region(start, 3)
    region.run(SUSPECT_AFTER, (1, 2))
    assert [0, 1] == region.closed("suspicion")
    region.is_store_deaf = True
    if sign == "beat":
        region.beat(0)
    else:
        report = share(TasksPhase.RUNNING)
        region.hear(WorkerReport(EU, named(0), report, (1, 10**6), region.broker.life))
    assert [(0, 1)] == [one.nodes for _, one in region.told(OpenNodes)]
    region.is_store_deaf = False
    region.run(AGAIN, (0, 1, 2))
    assert [] == region.closed("suspicion")
    assert 1 == len(region.recorded(NodesOpened))
    count = len(region.told(OpenNodes))
    region.run(30, (0, 1, 2))
    assert count == len(region.told(OpenNodes))


def test_suspicion_that_arrives_late_is_lifted_again(start: Start) -> None:
    """The bus may hold the word back until its worker was long heard again."""
    region = a_region(start, 3)
    region.run(7, (0, 1, 2))
    region.ask(CloseNodes(EU, ClosureKind.SUSPECT, (0, 1), "missed beats"))
    region.run(1)
    assert [] == region.closed("suspicion")
    region.restart_broker()
    region.ask(CloseNodes(EU, ClosureKind.SUSPECT, (0, 1), "missed beats"))
    region.run(1, (1, 2))
    assert [0, 1] == region.closed("suspicion"), "this broker has not heard it yet"


def test_words_about_suspicion_that_are_repeated_late(start: Start) -> None:
    """Whatever of them is heard again, in whatever order, changes nothing: the nodes have changed since they were said."""
    region = a_region(start, 3)
    for _ in range(2):
        region.run(SUSPECT_AFTER, (1, 2))
        region.beat(0)
    closes, opens = region.told(CloseNodes), region.told(OpenNodes)
    assert (2, 2) == (len(closes), len(opens))
    for _, word in (*closes, *opens, *closes):
        assert NOTHING == region.ask(word)
    assert [] == region.closed("suspicion")
    region.run(SUSPECT_AFTER, (1, 2))
    for _, word in (*opens, *closes):
        assert NOTHING == region.ask(word)
    assert [0, 1] == region.closed("suspicion")


def test_suspicion_of_a_node_that_changed_meanwhile(start: Start) -> None:
    """Only the other nodes of its worker are closed by the word, and it by the next; so when they are opened again."""
    region = a_region(start, 3)
    region.is_store_deaf = True
    region.run(SUSPECT_AFTER, (1, 2))
    _, close = region.told(CloseNodes)[0]
    region.fact(granted(a_claim("w-1", placed={0: 1})))
    region.ask(close)
    assert [1] == region.closed("suspicion")
    region.is_store_deaf = False
    region.run(AGAIN, (1, 2))
    assert [0, 1] == region.closed("suspicion")
    region.is_store_deaf = True
    region.beat(0)
    _, opens = region.told(OpenNodes)[-1]
    region.fact(AttemptEnded(WorkloadId("w-1"), 1, EndCause.CANCELLED))
    region.ask(opens)
    assert [0] == region.closed("suspicion")
    region.is_store_deaf = False
    region.run(AGAIN, (0, 1, 2))
    assert [] == region.closed("suspicion")


def test_suspicion_of_the_brokers_life_before(start: Start) -> None:
    """It stands until the worker is heard by this one: that it counts from zero does not clear anybody."""
    region = a_region(start, 3)
    region.run(SUSPECT_AFTER, (1, 2))
    region.restart_broker()
    region.run(SUSPECT_AFTER - 2, (1, 2))
    assert [0, 1] == region.closed("suspicion")
    region.run(BEAT, (0, 1, 2))
    assert [] == region.closed("suspicion")


def test_no_worker_is_suspected_while_the_bus_is_lost(start: Start) -> None:
    """Neither the time counted before nor that of the outage counts: all workers count from zero when the bus is back."""
    region = a_region(start, 3)
    region.beat(0, 1, 2)
    region.run(SUSPECT_AFTER - 1)
    region.hear(BusLost())
    region.run(10 * LOST_AFTER)
    assert [] == region.told(CloseNodes)
    region.hear(BusBack())
    region.run(SUSPECT_AFTER - 1)
    assert [] == region.told(CloseNodes)
    region.run(1)
    assert nodes_of(0, 1, 2) == region.closed("suspicion")


def test_suspected_together_are_closed_by_one_word(start: Start) -> None:
    """Thousands of workers behind one switch do not make thousands of facts."""
    region = Region(start, [a_worker(number) for number in range(40)])
    region.beat(*range(40))
    region.run(SUSPECT_AFTER)
    assert 1 == len(region.recorded(NodesClosed))
    assert nodes_of(*range(40)) == region.closed("suspicion")


# Lost together.


def test_power_domain_that_is_lost_is_one_event(start: Start) -> None:
    """T23: its workers beat one after the other, so the last falls due some seconds after the first; one fact names all."""
    region = a_region(start, 12, domains=2)
    fed_by_it = range(1, 12, 2)
    region.run(LOST_AFTER + TOGETHER, range(0, 12, 2))
    assert [] == region.recorded(NodesLost)
    [lost] = region.recorded(DomainLost)
    assert ("power-1", tuple(sorted(named(number) for number in fed_by_it))) == (lost.domain, lost.workers)
    assert {named(number) for number in fed_by_it} == {
        worker for worker, row in region.capacity.workers.items() if row.is_lost
    }
    assert [lost.nodes] == [tuple((first, first + 1) for first in range(2, 24, 4))]
    assert LOST_AFTER + TOGETHER >= losses(region)[0][0]


def test_zone_stands_in_where_no_power_domain_is_known(start: Start) -> None:
    """T23: its name is in the fact."""
    region = Region(start, [a_worker(n, zone=f"zone-{n // 3}") for n in range(6)])
    region.run(BEAT, range(6))
    region.run(LOST_AFTER + TOGETHER, (0, 1, 2))
    assert [("zone-1", ("w3", "w4", "w5"))] == [
        (one.domain, one.workers) for one in region.recorded(DomainLost)
    ]


def test_worker_that_is_silent_alone_waits_for_no_other(start: Start) -> None:
    """T24: lost at its time, to the second, while the others of its domain beat."""
    region = a_region(start, 6, domains=1)
    region.beat(3)
    region.run(LOST_AFTER, (0, 1, 2, 4, 5))
    assert [(BEAT + LOST_AFTER, ("w3",))] == losses(region)
    assert [named(3)] == [one.worker for one in region.recorded(NodesLost)]


def test_worker_with_nodes_in_two_domains_is_lost_alone(start: Start) -> None:
    """It belongs to neither."""
    region = Region(
        start, [a_worker(0, "a", other="b"), *(a_worker(n, "a") for n in (1, 2)), a_worker(3, "c")]
    )
    region.run(BEAT, range(4))
    region.run(LOST_AFTER + TOGETHER, (3,))
    assert {("w0",), ("w1", "w2")} == {workers for _, workers in losses(region)}


def test_worker_that_beats_while_the_first_waits_is_not_lost_with_it(start: Start) -> None:
    """A beat in the last moment saves a worker; a worker that is left alone is lost alone, after the patience at most."""
    region = a_region(start, 4, domains=1)
    region.beat(0)
    region.run(4, (2, 3))
    region.beat(1)
    region.run(LOST_AFTER - 3, (2, 3))
    assert [] == losses(region), "the second is awaited"
    region.beat(1)
    region.run(TOGETHER, (1, 2, 3))
    assert [("w0",)] == [workers for _, workers in losses(region)]
    assert BEAT + LOST_AFTER + TOGETHER >= losses(region)[0][0]


def test_worker_that_falls_silent_later_is_not_awaited(start: Start) -> None:
    """A worker that cannot be due within the patience is another loss."""
    region = a_region(start, 4, domains=1)
    region.beat(0)
    region.run(TOGETHER + 1, (2, 3))
    region.beat(1)
    region.run(LOST_AFTER, (2, 3))
    assert [(BEAT + LOST_AFTER, ("w0",)), (BEAT + LOST_AFTER + TOGETHER + 1, ("w1",))] == losses(region)


def test_loss_together_is_said_until_the_log_shows_it(start: Start) -> None:
    """And whoever fell due meanwhile is in it. Heard twice, it is recorded once."""
    region = a_region(start, 5, domains=1)
    region.beat(0, 1)
    region.run(10, (2, 3, 4))
    region.beat(2)
    region.is_store_deaf = True
    region.run(LOST_AFTER, (3, 4))
    words = [one.workers for _, one in region.told(RecordDomainLoss)]
    assert ("w0", "w1") == words[0]
    assert ("w0", "w1", "w2") == words[-1]
    region.is_store_deaf = False
    region.run(3 * AGAIN, (3, 4))
    assert [("w0", "w1", "w2")] == [one.workers for one in region.recorded(DomainLost)]


@pytest.mark.parametrize("seed", range(5))
def test_losses_do_not_depend_on_the_order_of_things(start: Start, seed: int) -> None:
    """In whatever order workers joined, and whoever of those that beat in one second was heard first: the same words."""
    dice = random.Random(seed)
    joining = list(range(9))
    dice.shuffle(joining)
    region = Region(start, [a_worker(number, f"power-{number % 2}") for number in joining])
    beating = list(range(9))
    dice.shuffle(beating)
    region.beat(*beating)
    region.run(LOST_AFTER, (8,))
    assert {(LOST_AFTER, ("w0", "w2", "w4", "w6")), (LOST_AFTER, ("w1", "w3", "w5", "w7"))} == set(
        losses(region)
    )


# A region that is silent.


def test_region_in_which_all_workers_are_silent_loses_none(start: Start) -> None:
    """A cut between the broker and all workers looks like this, and their tasks run on. Nothing new is placed there."""
    region = a_region(start, 5, domains=2)
    region.run(REGION_PATIENCE // SECOND - 2 * BEAT)
    assert [] == losses(region)
    assert nodes_of(*range(5)) == region.closed("suspicion")
    region.run(BEAT, range(5))
    region.run(LOST_AFTER, range(5))
    assert [] == losses(region)
    assert [] == region.closed("suspicion")


def test_region_that_stays_silent(start: Start) -> None:
    """Somebody has to take the work over in the end: after its patience its workers are lost, domain by domain."""
    region = a_region(start, 5, domains=2)
    region.beat(*range(5))
    region.run(REGION_PATIENCE // SECOND - 1)
    assert [] == losses(region)
    region.run(1)
    assert [("w0", "w2", "w4"), ("w1", "w3")] == sorted(workers for _, workers in losses(region))


def test_silent_region_when_one_is_heard(start: Start) -> None:
    """The others count from then: they had no more of a chance to be heard than it had."""
    region = a_region(start, 5, domains=2)
    region.run(200)
    region.beat(3)
    heard = region.second
    region.run(LOST_AFTER - 1, (3,))
    assert [] == losses(region)
    region.run(TOGETHER, (3,))
    assert [(heard + LOST_AFTER, ("w0", "w2", "w4")), (heard + LOST_AFTER, ("w1",))] == losses(region)


def test_beats_that_were_lost_before_a_region_fell_silent(start: Start) -> None:
    """A cut of all is recognised also when the bus lost somebody's last beat."""
    region = a_region(start, 5)
    region.run(BEAT, (1, 2, 3, 4))
    region.run(120)
    assert [] == losses(region)


@pytest.mark.parametrize("workers", [1, 2])
def test_small_region_that_is_silent(start: Start, workers: int) -> None:
    """So few may well have died together: they are lost at their time."""
    region = a_region(start, workers)
    region.run(LOST_AFTER + TOGETHER)
    assert {named(number) for number in range(workers)} == {
        name for _, names in losses(region) for name in names
    }


def test_lost_workers_do_not_make_a_region_large(start: Start) -> None:
    """Of two that are left, that both are silent says no more than in a region of two."""
    region = a_region(start, 3, domains=3)
    region.run(LOST_AFTER, (1, 2))
    region.run(LOST_AFTER)
    assert {("w0",), ("w1",), ("w2",)} == {workers for _, workers in losses(region)}


def test_lost_worker_that_is_heard_shows_that_the_bus_works(start: Start) -> None:
    """It is held back because it flaps, but it is heard: who is silent meanwhile is lost."""
    region = a_region(start, 4, domains=4)
    flap(region, FLAPS_MAX + 1, (1, 2, 3))
    region.run(LOST_AFTER + 1, (0,))
    assert region.capacity.workers[named(0)].is_lost
    assert {("w1",), ("w2",), ("w3",)} <= {workers for _, workers in losses(region)}


def test_silent_region_and_a_restarted_broker(start: Start) -> None:
    """The broker has heard no worker and knows nothing: it waits as its forerunner did, from its own start."""
    region = a_region(start, 3)
    region.run(LOST_AFTER)
    region.restart_broker()
    region.run(REGION_PATIENCE // SECOND - 1)
    assert [] == losses(region)
    region.run(2)
    assert 3 == sum(row.is_lost for row in region.capacity.workers.values())


# Flapping.


def flap(region: Region, times: int, others: tuple[int, ...]) -> None:
    """Worker 0 is lost so many times, and was taken back each time but the last; now it is silent and lost."""
    for turn in range(times):
        if turn:
            region.run(2 * BEAT, (0, *others))
            assert not region.capacity.workers[named(0)].is_lost
        region.run(LOST_AFTER + BEAT, others)
        assert region.capacity.workers[named(0)].is_lost


def lost_at_once(region: Region, times: int) -> None:
    """Worker 0 was lost so many times within seconds, as the log has it, and is lost now."""
    for turn in range(times):
        if turn:
            region.fact(NodesReturned(named(0), (0, 1)))
        region.fact(NodesLost(named(0), (0, 1)))


def seconds_until_taken_back(region: Region, others: tuple[int, ...] = (1, 2)) -> int:
    """Worker 0 beats again from now on."""
    began = region.second
    while region.capacity.workers[named(0)].is_lost:
        region.run(1, (0, *others))
        assert region.second < began + 2 * FLAP_HOLD_MAX // SECOND
    return region.second - began


def test_first_losses_are_not_damped(start: Start) -> None:
    """T24: a worker that was lost once or twice is taken back at its first beat."""
    region = a_region(start, 3)
    for times in range(1, FLAPS_MAX + 1):
        lost_at_once(region, 1)
        assert BEAT >= seconds_until_taken_back(region), times


@pytest.mark.parametrize("more", [1, 2, 3])
def test_flapping_is_damped(start: Start, more: int) -> None:
    """T24: each loss too many doubles the time for which it must beat first."""
    region = a_region(start, 3)
    lost_at_once(region, FLAPS_MAX + more)
    hold = FLAP_HOLD * 2 ** (more - 1) // SECOND
    assert hold <= seconds_until_taken_back(region) <= hold + 2 * BEAT


def test_damping_has_an_end(start: Start) -> None:
    """However often it was lost; and what is remembered of it is bounded."""
    region = a_region(start, 3)
    lost_at_once(region, 40)
    assert FLAPS_KEPT_MAX == len(region.capacity.workers[named(0)].losses)
    hold = FLAP_HOLD_MAX // SECOND
    assert hold <= seconds_until_taken_back(region) <= hold + 2 * BEAT


def test_damped_worker_that_misses_beats(start: Start) -> None:
    """T24: a gap after which it would be suspected begins its time anew; a single beat that was lost does not."""
    region = a_region(start, 3)
    lost_at_once(region, FLAPS_MAX + 1)
    hold = FLAP_HOLD // SECOND
    region.run(hold - BEAT, (0, 1, 2))
    region.run(SUSPECT_AFTER, (1, 2))
    assert hold <= seconds_until_taken_back(region) <= hold + 2 * BEAT
    again = a_region(start, 3)
    lost_at_once(again, FLAPS_MAX + 1)
    again.run(hold - 3 * BEAT, (0, 1, 2))
    again.run(BEAT, (1, 2))
    assert 4 * BEAT >= seconds_until_taken_back(again)


def test_losses_of_long_ago_do_not_count(start: Start) -> None:
    """Twice an hour is no flapping."""
    region = a_region(start, 3)
    for _ in range(2 * FLAPS_MAX):
        lost_at_once(region, 1)
        assert BEAT >= seconds_until_taken_back(region)
        region.broker.machine.hear(BusLost())  # Time passes, and nobody's silence counts.
        region.broker.machine.wait(Nanoseconds(FLAP_SPAN // FLAPS_MAX))
        region.broker.machine.hear(BusBack())


def test_damping_survives_the_broker(start: Start) -> None:
    """T24: who starts anew reads the losses in the log; it did not hear the beats before, so they do not count for it."""
    region = a_region(start, 3)
    lost_at_once(region, FLAPS_MAX + 2)
    hold = 2 * FLAP_HOLD // SECOND
    region.run(hold - BEAT, (0, 1, 2))
    region.restart_broker()
    assert hold <= seconds_until_taken_back(region) <= hold + 2 * BEAT


def test_time_without_the_bus_is_no_time_of_beats(start: Start) -> None:
    """Nobody knows whether it beat."""
    region = a_region(start, 3)
    lost_at_once(region, FLAPS_MAX + 1)
    region.run(3 * BEAT, (0, 1, 2))
    region.hear(BusLost())
    region.run(FLAP_HOLD // SECOND)
    region.hear(BusBack())
    region.run(2 * BEAT, (0, 1, 2))
    assert [] == region.told(RecordReturn)


def test_losses_together_count_as_losses(start: Start) -> None:
    """A domain that comes and goes flaps as much as a worker does."""
    region = a_region(start, 4, domains=2)
    for turn in range(FLAPS_MAX + 1):
        if turn:
            region.fact(*(NodesReturned(named(n), tuple(nodes_of(n))) for n in (0, 2)))
        region.fact(DomainLost("power-0", (named(0), named(2)), ((0, 1), (4, 5))))
    assert FLAP_HOLD // SECOND <= seconds_until_taken_back(region, (1, 2, 3))


# A bus that loses messages.


@pytest.mark.parametrize("seed", range(3))
def test_bus_that_loses_one_beat_in_ten(start: Start, seed: int) -> None:
    """T24: in an hour of eight workers' beats few are suspected, each is cleared at its next beat, and none is lost."""
    region = a_region(start, 8, domains=2)
    region.dice = random.Random(seed)
    region.run(3600, range(8))
    suspected = region.recorded(NodesClosed)
    beats = 8 * 3600 // BEAT
    assert len(suspected) <= 4 * beats // 1000, "three beats in a row are lost about once in a thousand"
    region.dice = None
    region.run(2 * BEAT, range(8))
    assert [] == region.closed("suspicion")
    assert [] == losses(region)

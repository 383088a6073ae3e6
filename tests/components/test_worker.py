"""The worker: obeys while it is joined and nothing older than what it obeyed; reports until it is heard."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from components.worker import Worker
from core.component import NOTHING, Decision
from core.effects import FindTasks, ForgetShare, KeepFence, PrepareShare, StartShare, StopShare
from core.messages.agents import PresenceWanted
from core.messages.base import Message
from core.messages.workers import (
    BeatHeard,
    EndRecorded,
    InventoryWanted,
    PrepareTasks,
    StartTasks,
    StopTasks,
    TasksChanged,
    TasksFound,
    TasksPhase,
    TasksState,
    WorkerBeat,
    WorkerInventory,
    WorkerReport,
)
from core.nouns.ids import WorkerName
from core.nouns.instant import Nanoseconds
from core.nouns.limits import PRESENCE_INTERVAL, PRESENCE_SILENCE_MAX
from tests.builders import EU, a_job, a_spread, an_inventory, attempt
from tests.components.machine import Machine
from tests.matching import begun, said, said_once

Start = Callable[..., Machine[Any]]
W0 = WorkerName("w0")
LIFE = 5
"""The broker's."""
SERVED = an_inventory("w0", 0, 2)
PREPARE = PrepareTasks(EU, W0, 10, *attempt(), (a_job(),), (a_spread({0: 1}),))
START = StartTasks(EU, W0, 10, *attempt())
STOP = StopTasks(EU, W0, 10, *attempt(), grace=30)
RECORDED = EndRecorded(EU, W0, 10, *attempt())


def share(phase: TasksPhase, *, epoch: int = 1, exit_code: int = 0) -> TasksState:
    """Its share of an attempt."""
    return TasksState(*attempt("w-1", epoch), phase, 0, exit_code)


PREPARED, RUNNING = share(TasksPhase.PREPARED), share(TasksPhase.RUNNING)
STOPPING, ENDED = share(TasksPhase.STOPPING), share(TasksPhase.ENDED)


def a_worker(start: Start, *tasks: TasksState, sequence: int = 0) -> Machine[Any]:
    """One whose spool has told what runs, and which has said its first beat to the broker that asked for it."""
    machine = start(Worker(EU, SERVED))
    machine.wake()
    machine.hear(PresenceWanted(EU, LIFE))
    machine.hear(TasksFound(tasks, sequence, 1))
    machine.wake()
    return machine


def joined(start: Start, *tasks: TasksState, sequence: int = 0) -> Machine[Any]:
    """One whose beat was acknowledged."""
    machine = a_worker(start, *tasks, sequence=sequence)
    heard(machine)
    return machine


def heard(machine: Machine[Any], *, sequence: int = 0, life: int = LIFE) -> Decision:
    """The broker acknowledges the newest beat."""
    return machine.hear(BeatHeard(EU, W0, sequence, machine.state.beat_order, life))


def reported(decision: Decision) -> TasksState:
    """The one share that is reported."""
    return said_once(decision, WorkerReport).tasks


# Starting.


def test_worker_asks_its_spool_first(start: Start) -> None:
    """What runs is found beside the tasks, not in the worker's memory. Nothing is said before it is known."""
    machine = start(Worker(EU, SERVED))
    decision = machine.wake()
    assert ((FindTasks(),), ()) == (decision.effects, decision.messages)
    assert NOTHING == machine.wait(Nanoseconds(5 * PRESENCE_INTERVAL))
    assert () == machine.hear(PresenceWanted(EU, LIFE)).messages
    assert NOTHING == machine.wake()


@pytest.mark.parametrize(
    "command", [PREPARE, START, STOP, RECORDED], ids=lambda message: type(message).__name__
)
def test_worker_obeys_nobody_before_its_spool_has_told(start: Start, command: Message) -> None:
    """It does not know what it obeyed before."""
    machine = start(Worker(EU, SERVED))
    machine.wake()
    assert NOTHING == machine.hear(command)


def test_worker_goes_on_from_its_spool(start: Start) -> None:
    """The shares that ran, and the fence: a new worker obeys nothing that the one before it would not have."""
    machine = joined(start, RUNNING, sequence=50)
    assert NOTHING == machine.hear(STOP)
    assert [StopShare(*attempt(), 50, 30)] == begun(machine.hear(replace(STOP, sequence=50)), StopShare)


# Beats.


def test_beat_says_all_that_runs(start: Start) -> None:
    """At once, at every interval, and when the broker asks; each later than the one before it."""
    machine = start(Worker(EU, SERVED))
    machine.wake()
    machine.hear(TasksFound((RUNNING,), 0, 7))
    beats = [said_once(machine.wake(), WorkerBeat)]
    beats += said(machine.wait(Nanoseconds(2 * PRESENCE_INTERVAL)), WorkerBeat)
    machine.hear(PresenceWanted(EU, LIFE))
    beats.append(said_once(machine.wake(), WorkerBeat))
    assert [(7, 0), (7, 1), (7, 2), (7, 3)] == [beat.order for beat in beats]
    assert {(EU, W0, (RUNNING,))} == {(beat.region, beat.worker, beat.tasks) for beat in beats}


def test_inventory_is_told_when_it_is_wanted(start: Start) -> None:
    """The broker's region does not have its nodes yet."""
    assert (WorkerInventory(EU, W0, SERVED),) == a_worker(start).hear(InventoryWanted(EU, W0)).messages


def test_change_in_the_spool_is_reported(start: Start) -> None:
    """As it is now, later than every word before."""
    machine = joined(start)
    first = said_once(machine.hear(TasksChanged(PREPARED)), WorkerReport)
    second = said_once(machine.hear(TasksChanged(RUNNING)), WorkerReport)
    assert (PREPARED, RUNNING) == (first.tasks, second.tasks)
    assert (1, 0) < first.order < second.order
    assert second.order < said_once(machine.wait(PRESENCE_INTERVAL), WorkerBeat).order


def test_end_is_in_every_beat_until_it_is_recorded(start: Start) -> None:
    """Whoever did not hear the report hears the beat."""
    machine = joined(start, RUNNING)
    machine.hear(TasksChanged(ENDED))
    assert [(ENDED,)] * 3 == [
        beat.tasks for beat in said(machine.wait(Nanoseconds(3 * PRESENCE_INTERVAL)), WorkerBeat)
    ]
    heard(machine)
    decision = machine.hear(RECORDED)
    assert (ForgetShare(*attempt(), 10),) == decision.effects
    assert () == said_once(machine.wait(PRESENCE_INTERVAL), WorkerBeat).tasks


@pytest.mark.parametrize("one", [PREPARED, RUNNING, STOPPING])
def test_share_that_has_not_ended_is_not_forgotten(start: Start, one: TasksState) -> None:
    """Whoever says that its end is recorded."""
    assert NOTHING == joined(start, one).hear(RECORDED)


# Joining.


@pytest.mark.parametrize(
    "command", [PREPARE, START, STOP, RECORDED], ids=lambda message: type(message).__name__
)
def test_worker_obeys_nobody_before_it_is_joined(start: Start, command: Message) -> None:
    """Until the broker has acknowledged a beat."""
    machine = a_worker(start, PREPARED)
    assert NOTHING == machine.hear(command)


@pytest.mark.parametrize("age", [-1, 0])
def test_worker_is_joined_for_as_long_as_the_broker_waits(start: Start, age: int) -> None:
    """Counted from when it said the beat: it stops obeying before it is taken for lost."""
    machine = joined(start, RUNNING)
    machine.wait(Nanoseconds(PRESENCE_SILENCE_MAX + age))
    assert (age < 0) == bool(begun(machine.hear(STOP), StopShare))


def test_acknowledgement_of_an_older_beat_counts_for_nothing(start: Start) -> None:
    """It was long on its way."""
    machine = a_worker(start, RUNNING)
    first = machine.state.beat_order
    machine.wait(PRESENCE_INTERVAL)
    assert NOTHING == machine.hear(BeatHeard(EU, W0, 0, first, LIFE))
    assert NOTHING == machine.hear(STOP)


def test_worker_that_joins_obeys_nothing_decided_before(start: Start) -> None:
    """Whatever the log ended in its absence cannot be started by an old word. The fence is kept on disk."""
    machine = a_worker(start, PREPARED)
    decision = heard(machine, sequence=20)
    assert (KeepFence(20),) == decision.effects
    assert NOTHING == machine.hear(replace(START, sequence=19))
    assert [StartShare(*attempt(), 20)] == begun(machine.hear(replace(START, sequence=20)), StartShare)


def test_worker_that_is_joined_raises_no_fence_at_a_beat(start: Start) -> None:
    """A command that was decided just before the acknowledgement is still good."""
    machine = joined(start, PREPARED)
    machine.wait(PRESENCE_INTERVAL)
    assert () == heard(machine, sequence=20).effects
    assert [StartShare] == [type(effect) for effect in machine.hear(START).effects]


def test_worker_echoes_the_brokers_life(start: Start) -> None:
    """So that what was said to one broker is not believed by the next; told of a new one, it beats again at once."""
    machine = joined(start, RUNNING)
    assert {LIFE} == {beat.life for beat in said(machine.wait(PRESENCE_INTERVAL), WorkerBeat)}
    heard(machine, life=6)
    assert 6 == said_once(machine.wake(), WorkerBeat).life
    assert 6 == said_once(machine.hear(TasksChanged(ENDED)), WorkerReport).life


# Commands.


def test_prepare(start: Start) -> None:
    """Done in the spool; reported when it is done; said again, it is reported as it stands."""
    machine = joined(start)
    decision = machine.hear(PREPARE)
    assert ((PrepareShare(PREPARE),), ()) == (decision.effects, decision.messages)
    machine.hear(TasksChanged(PREPARED))
    again = machine.hear(PREPARE)
    assert () == again.effects
    assert PREPARED == reported(again)


def test_prepare_that_takes_its_time(start: Start) -> None:
    """Said again meanwhile, it is not begun again; to stop what is being prepared waits until it is, and is no end."""
    machine = joined(start)
    machine.hear(PREPARE)
    assert NOTHING == machine.hear(PREPARE)
    early = machine.hear(STOP)
    assert ((KeepFence(10),), ()) == (early.effects, early.messages)
    machine.hear(TasksChanged(PREPARED))
    assert (StopShare(*attempt(), 10, 30),) == machine.hear(STOP).effects


def test_start_names_the_masters(start: Start) -> None:
    """They reach the spool as the broker told them."""
    machine = joined(start, PREPARED)
    command = replace(START, masters=("10.0.0.1:4000",), hosts=(("10.0.0.1",),))
    assert (StartShare(*attempt(), 10, command.masters, command.hosts),) == machine.hear(command).effects


def test_prepare_of_an_older_attempt(start: Start) -> None:
    """A newer one of the same workload is here: the older is over."""
    machine = joined(start, share(TasksPhase.RUNNING, epoch=2))
    assert NOTHING == machine.hear(PREPARE)


def test_start(start: Start) -> None:
    """What is prepared runs; what runs already is reported; what is not here is nobody's to start."""
    machine = joined(start, PREPARED)
    assert (StartShare(*attempt(), 10),) == machine.hear(START).effects
    machine.hear(TasksChanged(RUNNING))
    again = machine.hear(START)
    assert ((), RUNNING) == (again.effects, reported(again))
    assert NOTHING == machine.hear(replace(START, epoch=9))


@pytest.mark.parametrize("one", [PREPARED, RUNNING])
def test_stop(start: Start, one: TasksState) -> None:
    """With the command's grace."""
    decision = joined(start, one).hear(STOP)
    assert ((StopShare(*attempt(), 10, 30),), ()) == (decision.effects, decision.messages)


@pytest.mark.parametrize("one", [STOPPING, ENDED])
def test_stop_of_what_is_stopping_or_has_ended(start: Start, one: TasksState) -> None:
    """It is reported as it stands; the fence is kept."""
    decision = joined(start, one).hear(STOP)
    assert ((KeepFence(10),), one) == (decision.effects, reported(decision))


def test_stop_of_what_is_not_here(start: Start) -> None:
    """It has ended, and the fence keeps whatever would prepare it from doing so, also past a restart."""
    machine = joined(start)
    decision = machine.hear(replace(STOP, sequence=11))
    assert ((KeepFence(11),), ENDED) == (decision.effects, reported(decision))
    assert NOTHING == machine.hear(PREPARE)


@pytest.mark.parametrize(
    "command", [PREPARE, START, STOP, RECORDED], ids=lambda message: type(message).__name__
)
def test_command_that_is_older_than_what_was_obeyed(
    start: Start, command: Any
) -> None:  # Any: four kinds of command
    """It comes from a broker that no longer knows what is so."""
    machine = joined(start, ENDED if command is RECORDED else PREPARED, sequence=11)
    assert NOTHING == machine.hear(command)
    assert NOTHING != machine.hear(replace(command, sequence=11))


def test_fence_only_grows(start: Start) -> None:
    """Each obeyed command raises it, whatever it was about."""
    machine = joined(start, RUNNING)
    machine.hear(replace(STOP, sequence=15))
    assert NOTHING == machine.hear(replace(PREPARE, sequence=14, epoch=2))
    assert [PrepareShare] == [
        type(one) for one in machine.hear(replace(PREPARE, sequence=15, epoch=2)).effects
    ]

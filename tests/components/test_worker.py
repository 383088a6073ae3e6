"""The worker: obeys while it is joined and nothing older than what it obeyed; reports until it is heard."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from components.worker import Worker
from core.codec import encode
from core.component import NOTHING, Decision
from core.effects import (
    FindTasks,
    ForgetShare,
    KeepFence,
    KeepHeard,
    LookAtNodes,
    PrepareShare,
    StartShare,
    StopShare,
    TellRefused,
)
from core.messages.agents import PresenceWanted
from core.messages.base import Message
from core.messages.workers import (
    BeatHeard,
    CheckNodes,
    EndRecorded,
    InventoryWanted,
    JoinRefused,
    NodesChecked,
    NodesLooked,
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
from core.nouns.fleet import UNNUMBERED, Inventory
from core.nouns.harvest import LentPart
from core.nouns.ids import ShareKey, WorkerName
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import PRESENCE_INTERVAL, PRESENCE_SILENCE_MAX
from core.nouns.operation import WHOLE
from core.nouns.quantities import Amount
from tests.builders import EU, a_job, a_spread, an_inventory, attempt
from tests.components.support.machine import Machine
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


def share(
    phase: TasksPhase, *, epoch: int = 1, exit_code: int = 0, task: int = WHOLE, run: int = 0
) -> TasksState:
    """Its share of an attempt, or a run of one of its tasks."""
    return TasksState(*attempt("w-1", epoch), phase, 0, exit_code, task=task, run=run)


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
def test_worker_obeys_no_command_before_its_spool_has_told(start: Start, command: Message) -> None:
    """It does not know which commands it obeyed before."""
    machine = start(Worker(EU, SERVED))
    machine.wake()
    assert NOTHING == machine.hear(command)


def test_worker_goes_on_from_its_spool(start: Start) -> None:
    """The shares that ran, and the fence: a new worker obeys nothing that the one before it would not have."""
    machine = joined(start, RUNNING, sequence=50)
    assert NOTHING == machine.hear(STOP)
    assert [StopShare(ShareKey(*attempt()), 50, 30)] == begun(
        machine.hear(replace(STOP, sequence=50)), StopShare
    )


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


def test_refused_nodes_are_told_once(start: Start) -> None:
    """At each beat the region says the same; whoever started the worker hears of it when it is new."""
    machine = joined(start)
    many = ("it serves too many nodes",)
    assert (TellRefused(many),) == machine.hear(JoinRefused(EU, W0, many)).effects
    assert NOTHING == machine.hear(JoinRefused(EU, W0, many))
    drained = ("d-1: its nodes would be too scattered",)
    assert (TellRefused(drained),) == machine.hear(JoinRefused(EU, W0, drained)).effects


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
    assert (ForgetShare(ShareKey(*attempt()), 10),) == decision.effects
    assert () == said_once(machine.wait(PRESENCE_INTERVAL), WorkerBeat).tasks


@pytest.mark.parametrize("one", [PREPARED, RUNNING, STOPPING])
def test_share_that_has_not_ended_is_not_forgotten(start: Start, one: TasksState) -> None:
    """Whoever says that its end is recorded."""
    assert NOTHING == joined(start, one).hear(RECORDED)


# Joining.


@pytest.mark.parametrize(
    "command", [PREPARE, START, STOP, RECORDED], ids=lambda message: type(message).__name__
)
def test_worker_obeys_no_command_before_it_is_joined(start: Start, command: Message) -> None:
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
    assert [KeepFence(20)] == begun(decision, KeepFence)
    assert NOTHING == machine.hear(replace(START, sequence=19))
    assert [StartShare(ShareKey(*attempt()), 20)] == begun(
        machine.hear(replace(START, sequence=20)), StartShare
    )


def test_worker_that_is_joined_raises_no_fence_at_a_beat(start: Start) -> None:
    """A command that was decided just before the acknowledgement is still good."""
    machine = joined(start, PREPARED)
    machine.wait(PRESENCE_INTERVAL)
    assert [] == begun(heard(machine, sequence=20), KeepFence)
    assert [StartShare] == [type(effect) for effect in machine.hear(START).effects]


def test_worker_echoes_the_brokers_life(start: Start) -> None:
    """So that what was said to one broker is not believed by the next; told of a new one, it beats again at once."""
    machine = joined(start, RUNNING)
    assert {LIFE} == {beat.life for beat in said(machine.wait(PRESENCE_INTERVAL), WorkerBeat)}
    heard(machine, life=6)
    assert 6 == said_once(machine.wake(), WorkerBeat).life
    assert 6 == said_once(machine.hear(TasksChanged(ENDED)), WorkerReport).life


def test_what_tasks_lend_is_reported(start: Start) -> None:
    """As any change, and with each beat; it takes no byte while they lend nothing."""
    machine = joined(start, RUNNING)
    lending = replace(RUNNING, lends=(LentPart(0, Amount(1_000)),))
    assert lending == reported(machine.hear(TasksChanged(lending)))
    assert (lending,) == said_once(machine.wait(PRESENCE_INTERVAL), WorkerBeat).tasks
    assert b"lends" in encode(lending)
    assert b"lends" not in encode(RUNNING)


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
    """Said again meanwhile, it is not begun again; the spool is told to stop it, in case that it waits, and so it is once it is prepared."""
    machine = joined(start)
    machine.hear(PREPARE)
    assert NOTHING == machine.hear(PREPARE)
    early = machine.hear(STOP)
    assert ((StopShare(ShareKey(*attempt()), 10, 30),), ()) == (early.effects, early.messages)
    machine.hear(TasksChanged(PREPARED))
    assert (StopShare(ShareKey(*attempt()), 10, 30),) == machine.hear(STOP).effects


def test_start_names_the_masters(start: Start) -> None:
    """They reach the spool as the broker told them."""
    machine = joined(start, PREPARED)
    command = replace(START, masters=("10.0.0.1:4000",), hosts=(("10.0.0.1",),))
    assert (StartShare(ShareKey(*attempt()), 10, command.masters, command.hosts),) == machine.hear(
        command
    ).effects


def test_prepare_of_an_older_attempt(start: Start) -> None:
    """A newer one of the same workload is here: the older is over."""
    machine = joined(start, share(TasksPhase.RUNNING, epoch=2))
    assert NOTHING == machine.hear(PREPARE)


def test_start(start: Start) -> None:
    """What is prepared runs; what runs already is reported; what is not here is nobody's to start."""
    machine = joined(start, PREPARED)
    assert (StartShare(ShareKey(*attempt()), 10),) == machine.hear(START).effects
    machine.hear(TasksChanged(RUNNING))
    again = machine.hear(START)
    assert ((), RUNNING) == (again.effects, reported(again))
    assert NOTHING == machine.hear(replace(START, epoch=9))


@pytest.mark.parametrize("one", [PREPARED, RUNNING])
def test_stop(start: Start, one: TasksState) -> None:
    """With the command's grace."""
    decision = joined(start, one).hear(STOP)
    assert ((StopShare(ShareKey(*attempt()), 10, 30),), ()) == (decision.effects, decision.messages)


@pytest.mark.parametrize("one", [STOPPING, ENDED])
def test_stop_of_a_stopping_or_ended_share(start: Start, one: TasksState) -> None:
    """It is reported as it is; the fence is kept."""
    decision = joined(start, one).hear(STOP)
    assert ((KeepFence(10),), one) == (decision.effects, reported(decision))


def test_stop_of_an_unknown_share(start: Start) -> None:
    """It has ended, and the fence keeps any later command from preparing it, also past a restart."""
    machine = joined(start)
    decision = machine.hear(replace(STOP, sequence=11))
    assert ((KeepFence(11),), ENDED) == (decision.effects, reported(decision))
    assert NOTHING == machine.hear(PREPARE)


@pytest.mark.parametrize(
    "command", [PREPARE, START, STOP, RECORDED], ids=lambda message: type(message).__name__
)
def test_command_that_is_older_than_the_one_obeyed(
    start: Start, command: Any
) -> None:  # Any: four kinds of command
    """It comes from a broker with an outdated view."""
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


# Tasks that stand alone.


def test_task_that_stands_alone_is_commanded_alone(start: Start) -> None:
    """Whatever is said of one run of one task is done to no other task, to no other run and to no gang."""
    machine = joined(
        start,
        share(TasksPhase.PREPARED, task=3, run=1),
        share(TasksPhase.PREPARED, task=4),
        share(TasksPhase.ENDED, task=3),
    )
    key = ShareKey(*attempt(), 3, 1)
    start_it, stop_it = replace(START, task=3, run=1), replace(STOP, task=3, run=1)
    assert (StartShare(key, 10),) == machine.hear(start_it).effects
    machine.hear(TasksChanged(share(TasksPhase.RUNNING, task=3, run=1)))
    assert share(TasksPhase.PREPARED, task=4) == reported(machine.hear(replace(PREPARE, task=4)))
    assert (StopShare(key, 10, 30),) == machine.hear(stop_it).effects
    assert NOTHING == machine.hear(replace(RECORDED, task=3, run=1)), "it has not ended"
    recorded = machine.hear(replace(RECORDED, task=3))
    assert (ForgetShare(ShareKey(*attempt(), 3), 10),) == recorded.effects
    beat = said_once(machine.wait(PRESENCE_INTERVAL), WorkerBeat)
    assert [(3, 1), (4, 0)] == [(one.task, one.run) for one in beat.tasks]


def test_task_that_is_not_here_has_ended(start: Start) -> None:
    """T26: and whatever would prepare that run, decided before, is refused from then on."""
    machine = joined(start)
    decision = machine.hear(replace(STOP, sequence=11, task=7, run=2))
    assert share(TasksPhase.ENDED, task=7, run=2) == reported(decision)
    assert NOTHING == machine.hear(replace(PREPARE, task=7, run=2))


def test_older_run_is_not_prepared_beside_a_newer_one(start: Start) -> None:
    """T26: a late word starts nothing twice; another task's runs have nothing to do with it."""
    machine = joined(start, share(TasksPhase.RUNNING, task=3, run=2), share(TasksPhase.RUNNING, task=5))
    assert NOTHING == machine.hear(replace(PREPARE, task=3, run=1))
    other = replace(PREPARE, task=4, run=1)
    assert (PrepareShare(other),) == machine.hear(other).effects


@pytest.mark.parametrize("task", [WHOLE, 3])
def test_newer_run_waits_for_the_end_of_the_older(start: Start, task: int) -> None:
    """T26: until nothing of it runs here the older one is what is told; then the newer one is prepared."""
    machine = joined(start, share(TasksPhase.STOPPING, task=task, run=1))
    command = replace(PREPARE, task=task, run=2, sequence=12)
    decision = machine.hear(command)
    assert ([], share(TasksPhase.STOPPING, task=task, run=1)) == (
        begun(decision, PrepareShare),
        reported(decision),
    )
    machine.hear(TasksChanged(share(TasksPhase.ENDED, task=task, run=1)))
    assert [PrepareShare(command)] == begun(machine.hear(command), PrepareShare)


# Without a control plane.


def test_worker_that_hears_no_broker_stops_nothing(start: Start) -> None:
    """T25: running tasks go on for as long as they like, and are in every beat."""
    machine = joined(start, RUNNING, share(TasksPhase.RUNNING, task=3))
    decision = machine.wait(seconds(3600))
    assert () == decision.effects
    assert {2} == {len(beat.tasks) for beat in said(decision, WorkerBeat)}


def test_spool_is_told_how_old_the_acknowledged_beat_is(start: Start) -> None:
    """Strict tasks count from when the beat was said: the region may have heard nothing since."""
    machine = a_worker(start)
    assert [KeepHeard(0)] == begun(heard(machine), KeepHeard)
    machine.wait(PRESENCE_INTERVAL)
    machine.wait(seconds(2))
    assert [KeepHeard(seconds(2))] == begun(heard(machine), KeepHeard)
    late = BeatHeard(EU, W0, 0, (1, 0), LIFE)
    assert () == machine.hear(late).effects, "an old acknowledgement counts for nothing"


# Health.


def test_ill_node_is_told_at_once(start: Start) -> None:
    """And in every beat until it is well, which is told at once too; what is known already is not told again."""
    machine = joined(start)
    machine.wake()
    ill = ((1, "it is on fire"),)
    assert () == machine.hear(NodesLooked(ill)).messages
    assert ill == said_once(machine.wake(), WorkerBeat).ill
    assert NOTHING == machine.hear(NodesLooked(ill))
    assert NOTHING == machine.wake()
    assert ill == said_once(machine.wait(PRESENCE_INTERVAL), WorkerBeat).ill
    machine.hear(NodesLooked(()))
    assert () == said_once(machine.wake(), WorkerBeat).ill


def test_nodes_are_checked(start: Start) -> None:
    """By a look; the answer tells of each that was asked for, and of no other."""
    machine = joined(start)
    assert (LookAtNodes((0, 1)),) == machine.hear(CheckNodes(EU, W0, (0, 1))).effects
    answer = said_once(machine.hear(NodesLooked(((1, "hot"), (2, "cold")), (0, 1))), NodesChecked)
    assert ((0,), ((1, "hot"),)) == (answer.well, answer.ill)


def test_nodes_are_not_checked_before_the_spool_has_told(start: Start) -> None:
    """Nobody would hear of it."""
    machine = start(Worker(EU, SERVED))
    machine.wake()
    assert NOTHING == machine.hear(CheckNodes(EU, W0, (0,)))


def test_machine_that_is_ill(start: Start) -> None:
    """All its nodes that run programs are, by number where it is known; emulated ones have no hardware."""
    (group,) = SERVED.groups
    emulated, machine_node = replace(group, count=1), replace(group, first=7, count=1, runs_programs=True)
    cases = [
        ((emulated, machine_node), 7, (7,)),
        ((replace(machine_node, first=UNNUMBERED),), UNNUMBERED, (12,)),
        ((emulated,), None, ()),
    ]
    for groups, told, checked in cases:
        machine = start(Worker(EU, Inventory(W0, groups)))
        machine.wake()
        machine.hear(TasksFound((), 0, 1))
        machine.wake()
        answers = machine.hear(NodesLooked(((UNNUMBERED, "no driver"),), checked))
        ill = said(machine.wake(), WorkerBeat)
        expected = [((told, "no driver"),)] if told is not None else []
        assert expected == [beat.ill for beat in ill]
        for answer in said(answers, NodesChecked):
            assert ((), tuple((node, "no driver") for node in checked)) == (answer.well, answer.ill)

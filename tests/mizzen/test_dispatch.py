"""`mizzen dispatch`: read from options, asked of real mailboxes, set by a real queue, and told."""

import asyncio
import json
from typing import Any

import pytest

from components.auditor.component import Auditor
from core.events.dispatch import DispatchSet
from core.messages.dispatch import ClassWaits, DispatchShown, SetDispatch, ShowDispatch
from core.messages.queue import ListWorkloads
from core.nouns.dispatch import TARGETS, DispatchSettings, Target, UrgencyClass
from core.nouns.ids import GLOBAL_LOG
from core.nouns.instant import MILLISECOND, Nanoseconds, seconds
from mizzen.actions.settings.dispatch import DispatchWish, dispatch_wish_of, set_dispatch
from mizzen.actions.workloads import TRIES_MAX
from mizzen.cli import main
from mizzen.connect.plane import submitter
from mizzen.terminal.output import MISUSED, CommandError
from mizzen.views.fleet.dispatch_table import (
    ASKED_AT_ONCE_MAX,
    NEAREST_OF_MAX,
    PlaneDispatch,
    ProcessDispatch,
    chosen_units,
    dispatch_of_plane,
    lines_of,
    settings_text,
    wait_text,
)
from tests.builders import EU
from tests.mizzen.asking import Captured, ask, ask_json, refused
from tests.mizzen.half_plane import HalfPlane, half_plane
from tests.mizzen.running import RunningPlane
from tests.mizzen.test_rankings import Quicker
from tests.runtime.aids import Place, virtual

UNITS = ("job_queue", "reader.global", "placement_store.eu", "reader.eu.region.eu", "task_control.eu")
HOSTS = ["auditor", "job_queue", "placement_store.eu", "task_control.eu"]
DEFAULT = DispatchSettings()


def wish(policy: str = "", *classes: str, quantum: str = "", rate: str = "") -> DispatchWish:
    """As typed."""
    return dispatch_wish_of(policy, classes, quantum, rate)


def span(milliseconds: float) -> Nanoseconds:
    """As in settings."""
    return Nanoseconds(int(milliseconds * MILLISECOND))


async def plane_of(place: Place, *more: str) -> HalfPlane:
    """A queue, a region's store and task control, and an auditor that knows them, their readers, and units that are not there."""
    plane = await half_plane(place)
    place.follow(Auditor((EU,), ("auditor", *UNITS, *more)))
    await place.sleep(1)
    return plane


# Options.


def test_each_setting_is_set_alone() -> None:
    """The settings that are not named stay, whatever they are."""
    was = DispatchSettings("edf", {"query": Target(seconds(2), seconds(9))}, span(1), 50)
    assert was == DispatchWish().on(was)
    assert DispatchSettings("token", was.targets, span(1), 50) == wish("token").on(was)
    assert DispatchSettings("edf", was.targets, Nanoseconds(0), 50) == wish(quantum="0").on(was)
    assert DispatchSettings("edf", was.targets, span(0.25), 50) == wish(quantum="0.25ms").on(was)
    assert DispatchSettings("edf", was.targets, span(1), 7) == wish(rate="7").on(was)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("query=3s", Target(seconds(3), seconds(9))),
        ("query=12s", Target(seconds(12), seconds(12))),
        ("query=1s/30s", Target(seconds(1), seconds(30))),
        ("query = 500ms / 1s", Target(span(500), seconds(1))),
        ("query=default", None),
        ("query=1s/5s", None),
    ],
)
def test_target_of_a_class_is_set(said: str, expected: Target | None) -> None:
    """Without a longest wait that of before counts, but at least the target; the default target is in no settings."""
    was = DispatchSettings(
        targets={"bulk": Target(seconds(1), seconds(2)), "query": Target(seconds(2), seconds(9))}
    )
    targets = wish("", said).on(was).targets
    assert expected == targets.get("query")
    assert Target(seconds(1), seconds(2)) == targets["bulk"]
    assert TARGETS[UrgencyClass.QUERY] == Target(seconds(1), seconds(5))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", "say what is to be set: --policy, --class, --quantum or --rate"),
        ("--policy lifo", "policy: there is no 'lifo'; there are llf, edf, sjf, token, rr, fifo"),
        (
            "--class queries=1s",
            "class: there is no queries; there are system, interactive, query, placement, gang, report, bulk",
        ),
        ("--class urgent=default", "class: there is no urgent; there are system"),
        ("--class query", "class: query sets nothing; write --class query=2s, query=2s/10s or query=default"),
        ("--class query=1s --class query=2s", "class: query is named twice"),
        ("--class query=0.9ms", "query: a target is 1 ms at least"),
        ("--class query=2s/1s", "query: the longest wait cannot be shorter than the target"),
        ("--class query=soon", "query: soon is no span"),
        ("--class query=1s/late", "query: late is no span"),
        ("--class query=1s/40000d", "query: 40000d is more than a hundred years"),
        ("--quantum 2s", "quantum: it is from 0 to 1 s"),
        ("--quantum -1ms", "quantum: -1ms is no span"),
        ("--rate 0", "rate: it is from 1 to 1000000 requests of a tenant in a second"),
        ("--rate many", "rate: many is no whole number; write --rate 20"),
    ],
)
def test_mistake_is_told_without_a_plane(words: str, told: str, capsys: Captured) -> None:
    """Each in one sentence that names the setting, and with what there is."""
    assert refused(capsys, f"dispatch set {words}".strip(), MISUSED).startswith(told)


def test_all_mistakes_are_told_at_once(capsys: Captured) -> None:
    """Each on a line of its own, or in a list of JSON."""
    words = "dispatch set --policy lifo --class x=1s --class gang=1s/1ms --quantum 1h --rate -3 --json"
    assert MISUSED == main(words.split())
    told = json.loads(capsys.readouterr().err)
    assert "5 things are wrong; nothing was set" == told["error"]
    assert ["class", "policy", "gang", "quantum", "rate"] == [
        one.partition(":")[0] for one in told["problems"]
    ]


# Setting.


@virtual
async def test_settings_are_set_and_reach_every_process(place: Place) -> None:
    """As a fact with the operator's name, at once and by every mailbox."""
    plane = await plane_of(place)
    done = await set_dispatch(plane.bus, wish("edf", "query=2s/9s", quantum="1ms"))
    settings = DispatchSettings("edf", {"query": Target(seconds(2), seconds(9))}, span(1))
    assert (settings, 1) == (done.settings, done.revision)
    assert [DispatchSet(settings, 1, submitter())] == await plane.events(GLOBAL_LOG, DispatchSet)
    await place.moment()
    found, silent = await dispatch_of_plane(plane.bus)
    assert [] == silent
    assert (settings, 1) == (found.settings, found.revision)
    assert [(settings, 1)] * len(HOSTS) == [(one.settings, one.revision) for one in found.processes]
    done = await set_dispatch(plane.bus, wish("", "query=default"))
    assert (DispatchSettings("edf", quantum=span(1)), 2) == (done.settings, done.revision)
    assert 2 == (await set_dispatch(plane.bus, wish("edf"))).revision, "the same settings are no new fact"


@virtual
async def test_settings_are_set_after_another_operators_change(place: Place) -> None:
    """On the settings of the other operator; an operator that always comes too late is told."""
    plane = await plane_of(place)

    def other(message: SetDispatch) -> SetDispatch:
        return SetDispatch(DispatchSettings(rate=100 + message.revision), message.revision)

    quicker: Any = Quicker(plane.bus, SetDispatch, other, 1)  # Any: a bus that can only be asked
    done = await set_dispatch(quicker, wish("rr"))
    assert (DispatchSettings("rr", rate=100), 2) == (done.settings, done.revision)
    always: Any = Quicker(plane.bus, SetDispatch, other, TRIES_MAX)  # Any: as above
    with pytest.raises(CommandError, match="all the time"):
        await set_dispatch(always, wish("fifo"))


# Showing.


@virtual
async def test_every_process_but_workers_is_asked(place: Place) -> None:
    """Readers have no mailbox; a process that does not answer is named with the reason."""
    plane = await plane_of(place, "worker.eu.w0", "planner")
    await plane.bus.ask(ListWorkloads(), seconds(1))
    found, silent = await dispatch_of_plane(plane.bus)
    assert HOSTS == [one.unit for one in found.processes]
    assert ["auditor", "queue", "store.eu", "control.eu"] == [one.process for one in found.processes]
    assert (DEFAULT, 0) == (found.settings, found.revision)
    (queue,) = [one for one in found.processes if one.unit == "job_queue"]
    assert {waits.sort: waits.taken for waits in queue.classes}["query"] >= 1
    ((unit, why),) = silent
    assert "planner" == unit
    assert why.startswith("no process answers")
    found, silent = await dispatch_of_plane(plane.bus, with_workers=True)
    assert ["planner", "worker.eu.w0"] == [unit for unit, _ in silent]


@virtual
async def test_process_is_named_as_a_unit_or_as_on_the_bus(place: Place) -> None:
    """Both name the same one, and no other is asked."""
    plane = await plane_of(place, "planner")
    for name in ("placement_store.eu", "store.eu"):
        found, silent = await dispatch_of_plane(plane.bus, name)
        assert (["placement_store.eu"], []) == ([one.unit for one in found.processes], silent)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("placement_stor.eu", "there is no process placement_stor.eu; the nearest are placement_store.eu"),
        ("stroe.eu", "there is no process stroe.eu; the nearest are store.eu"),
        ("worker.eu.w777", "there is no process worker.eu.w777; the nearest are worker.eu.w77"),
        ("store", "there is no process store; the nearest are store.eu"),
        ("eu", "there is no process eu; the nearest are placement_store.eu, store.eu, task_control.eu;"),
        ("zzz", "there is no process zzz; `mizzen plane` lists all"),
        ("reader.global", "reader.global: readers have no mailbox; name another process"),
    ],
)
def test_unknown_process_is_told_with_the_nearest(name: str, told: str) -> None:
    """In one sentence, also beside many workers."""
    workers = [f"worker.eu.w{number}" for number in range(2 * NEAREST_OF_MAX)]
    with pytest.raises(CommandError) as wrong:
        chosen_units([*UNITS, *workers], name, with_workers=False)
    assert str(wrong.value).startswith(told)
    assert MISUSED == wrong.value.exit_code
    assert ["worker.eu.w7"] == chosen_units([*UNITS, *workers], "worker.eu.w7", with_workers=False)


@virtual
async def test_without_the_auditor(place: Place) -> None:
    """The auditor and its list are missing: the queue is asked, or the process that is named."""
    plane = await half_plane(place)
    for name, unit in (
        ("", "job_queue"),
        ("placement_store.eu", "placement_store.eu"),
        ("store.eu", "store.eu"),
    ):
        found, silent = await dispatch_of_plane(plane.bus, name)
        assert [unit] == [one.unit for one in found.processes]
        assert ["auditor"] == [missing for missing, _ in silent]


@virtual
async def test_without_a_plane(place: Place) -> None:
    """Neither settings nor mailboxes are known, and both processes that were asked are missing."""
    found, silent = await dispatch_of_plane(place.client)
    assert PlaneDispatch(None, 0, ()) == found
    assert ["the settings are not known"] == lines_of(found, None)
    assert ["auditor", "job_queue"] == [unit for unit, _ in silent]


@virtual
async def test_without_the_queue(place: Place) -> None:
    """The settings are the newest by which a process goes; the queue is missing, once."""
    place.follow(Auditor((EU,), ("auditor", "job_queue")))
    bus = place.client
    await place.sleep(1)
    found, silent = await dispatch_of_plane(bus)
    assert (["auditor"], DEFAULT, 0) == (
        [one.unit for one in found.processes],
        found.settings,
        found.revision,
    )
    assert ["job_queue"] == [unit for unit, _ in silent]
    found, silent = await dispatch_of_plane(bus, "auditor")
    assert ["the queue's answer about settings"] == [unit for unit, _ in silent]


class Crowd:
    """A bus on which each of many processes answers after a moment."""

    def __init__(self, bus: Any, loop: Any) -> None:  # Any: of a place
        self._bus, self._loop = bus, loop
        self.asked = self.asked_at_once = 0

    async def ask(self, message: Any, timeout: Nanoseconds) -> Any:  # Any: as the bus does
        """As the bus does."""
        if not isinstance(message, ShowDispatch) or not message.process.startswith("worker"):
            return await self._bus.ask(message, timeout)
        self.asked += 1
        self.asked_at_once = max(self.asked, self.asked_at_once)
        await self._loop.sleep_ns(MILLISECOND)
        self.asked -= 1
        return DispatchShown(message.process, DEFAULT, 0, ())


@virtual
async def test_few_of_many_workers_are_asked_at_once(place: Place) -> None:
    """However many there are."""
    workers = [f"worker.eu.w{number:04}" for number in range(4 * ASKED_AT_ONCE_MAX)]
    plane = await plane_of(place, *workers)
    crowd: Any = Crowd(plane.bus, place.loop)  # Any: a bus that can only be asked
    found, silent = await dispatch_of_plane(crowd, with_workers=True)
    assert [] == silent
    assert [*HOSTS, *workers] == [one.unit for one in found.processes]
    assert ASKED_AT_ONCE_MAX == crowd.asked_at_once


# Telling.


def of_class(sort: str, taken: int = 0, **counts: int) -> ClassWaits:
    """What a mailbox tells of a class."""
    names = ("waiting", "late", "handed_over", "moved", "lost", "disbelieved")
    told = {name: counts.get(name, 0) for name in names}
    return ClassWaits(sort=sort, taken=taken, p50=span(0.04), p99=span(1_250), **told)


def a_process(unit: str, *classes: ClassWaits, revision: int = 0) -> ProcessDispatch:
    """One that has answered."""
    return ProcessDispatch(unit, unit, DEFAULT, revision, classes)


def test_table_of_a_quiet_plane() -> None:
    """Classes without messages and counts that are 0 everywhere are left out; a process without messages is there."""
    quiet = [of_class(sort) for sort in UrgencyClass]
    busy = [of_class("system", 7), of_class("query", waiting=2), *quiet]
    found = PlaneDispatch(DEFAULT, 0, (a_process("auditor", *quiet), a_process("job_queue", *busy)))
    assert [
        "messages are decided by llf, the default settings",
        "",
        "PROCESS    CLASS   WAITING  TAKEN    P50   P99  LATE",
        "auditor    -             -      -      -     -     -",
        "job_queue  system        0      7  0.0ms  1.2s     0",
        "job_queue  query         2      0      -     -     0",
    ] == lines_of(found, None)


def test_table_of_a_busy_plane() -> None:
    """Counts that are seldom have a column as soon as one is there."""
    rows = (of_class("gang", 9, late=4, moved=1), of_class("bulk", lost=3))
    found = PlaneDispatch(DEFAULT, 0, (a_process("job_queue", *rows),))
    _, _, head, *lines = lines_of(found, None)
    assert ["PROCESS", "CLASS", "WAITING", "TAKEN", "P50", "P99", "LATE", "MOVED", "LOST"] == head.split()
    assert [
        ["job_queue", "gang", "0", "9", "0.0ms", "1.2s", "4", "1", "0"],
        ["job_queue", "bulk", "0", "0", "-", "-", "0", "0", "3"],
    ] == [line.split() for line in lines]
    every = of_class("gang", 9, handed_over=1, moved=1, lost=1, disbelieved=5)
    head = lines_of(PlaneDispatch(DEFAULT, 0, (a_process("job_queue", every),)), None)[2]
    assert "LATE  HANDED-OVER  MOVED  LOST  DISBELIEVED" in head


def test_process_that_goes_by_older_settings_is_told() -> None:
    """Below the table, with its revision and the newest."""
    processes = (a_process("auditor"), a_process("job_queue", revision=3), a_process("planner", revision=2))
    assert [
        "auditor goes by the default settings; the newest is revision 3",
        "planner goes by revision 2 of the settings; the newest is revision 3",
    ] == lines_of(PlaneDispatch(DEFAULT, 3, processes), None)[-2:]


def test_settings_are_told_where_they_differ_from_the_default() -> None:
    """Policy and revision always, and the rate also beside the policy that goes by it."""
    assert "messages are decided by llf, the default settings" == settings_text(DEFAULT, 0)
    targets = {"query": Target(seconds(2), seconds(9)), "system": Target(span(1.5), seconds(90))}
    assert (
        "messages are decided by edf, revision 4 of the settings: system within 1.5ms (longest wait 1m30s), "
        "query within 2s (longest wait 9s), a quantum of 0.25ms, 50 requests of a tenant in a second"
    ) == settings_text(DispatchSettings("edf", targets, span(0.25), 50), 4)
    assert settings_text(DispatchSettings("token"), 1).endswith(": 20 requests of a tenant in a second")


@pytest.mark.parametrize(
    ("waited", "text"), [(0, "0.0ms"), (0.34, "0.3ms"), (42.4, "42ms"), (999, "999ms"), (12_345, "12.3s")]
)
def test_wait_is_told_with_few_digits(waited: float, text: str) -> None:
    """Milliseconds below a second."""
    assert text == wait_text(span(waited))


# On a plane of processes.


@pytest.mark.processes
def test_dispatch_on_a_plane(plane: RunningPlane, capsys: Captured) -> None:
    """The commands as they are typed, over a server with connections."""
    first, _, head, *rows = ask(capsys, "dispatch").splitlines()
    assert "messages are decided by llf, the default settings" == first
    assert ["PROCESS", "CLASS", "WAITING", "TAKEN"] == head.split()[:4]
    assert {"job_queue", "placement_store.r0", "auditor"} <= {row.split()[0] for row in rows}
    assert not any(row.startswith("worker") for row in rows)
    assert "worker.r0.w0" in ask(capsys, "dispatch --workers")
    assert "worker.r0.w0" in ask(capsys, "dispatch worker.r0.w0")
    told = ask_json(capsys, "dispatch set --policy token --class query=2s --rate 30")
    assert (("token", 30), 1) == ((told["settings"]["policy"], told["settings"]["rate"]), told["revision"])
    told = ask_json(capsys, "dispatch store.r0")
    assert [("placement_store.r0", "store.r0")] == [
        (one["unit"], one["process"]) for one in told["processes"]
    ]
    while any(one["revision"] < 1 for one in ask_json(capsys, "dispatch --workers")["processes"]):
        plane.call(asyncio.sleep(0.05))
    back = ask(capsys, "dispatch set --policy llf --class query=default --rate 20")
    assert "messages are decided by llf, revision 2 of the settings" == back.strip()
    assert "the nearest are store.r0" in refused(capsys, "dispatch stor.r0", MISUSED)
    with plane.without("task_control", "r0"):
        capsys.readouterr()
        assert 1 == main(["dispatch"])
        out, err = capsys.readouterr()
        assert "job_queue" in out
        assert "task_control.r0 is missing: no process answers" in err

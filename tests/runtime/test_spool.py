"""Emulated tasks: they take time, save, fail, stop within their grace or not, and do not care who watches."""

from typing import Any

from msgspec.structs import replace
from structlog.testing import capture_logs

from core.component import Effect
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
from core.messages.base import Message
from core.messages.workers import (
    ISOLATED,
    NodesLooked,
    PrepareTasks,
    TasksChanged,
    TasksFound,
    TasksPhase,
    TasksState,
)
from core.nouns.ids import RegionName, ShareKey, WorkerName, WorkloadId
from core.nouns.instant import SECOND, Nanoseconds, after, seconds
from core.nouns.limits import GRACE
from core.nouns.placement import Spread
from core.nouns.quantities import Amount
from core.nouns.workload import Emulation, JobSpec
from runtime.spool import EXIT_STOPPED, EmulatedSpool
from tests.runtime.aids import Place, virtual

JOB = WorkloadId("w-1")
HERE = Spread((0,), (1,))
NOT_HERE = Spread((), ())


class Nodes:
    """A worker's spool, and what it said, to whoever is there."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.spool = EmulatedSpool("w0", place.clock())
        self.began_at = place.loop.now_ns()
        self.heard: list[tuple[float, Message]] = []
        self.spool.attach(self._hear)
        self.task = place.loop.create_task(self.spool.run(), name="spool")

    def _hear(self, message: Message) -> None:
        self.heard.append(((self.place.loop.now_ns() - self.began_at) / SECOND, message))

    def begin(self, *effects: Effect) -> None:
        for effect in effects:
            self.spool.begin(effect)

    def start(self, *emulations: Emulation, epoch: int = 1, **changed: object) -> None:
        """Prepare and start a share with these jobs, all on this worker unless it is changed."""
        self.begin(
            PrepareShare(prepare(*emulations, epoch=epoch, **changed)),
            StartShare(ShareKey(JOB, epoch), 10 + epoch),
        )

    def words(self) -> list[tuple[float, str, int, int]]:
        """When, which phase, how far saved, which exit code: of all changes since last asked."""
        words = [
            (at, str(message.tasks.phase), message.tasks.saved_step, message.tasks.exit_code)
            for at, message in self.heard
            if isinstance(message, TasksChanged)
        ]
        self.heard.clear()
        return words

    def found_by_next(self) -> TasksFound:
        """What a worker is told that starts now, where there was none."""
        self.spool.attach(self._hear)
        found = self.found()
        self.spool.detach()
        return found

    def found(self) -> TasksFound:
        """What a worker that has just started is told."""
        self.heard.clear()
        self.begin(FindTasks())
        ((_, found),) = self.heard
        assert isinstance(found, TasksFound)
        self.heard.clear()
        return found


def prepare(*emulations: Emulation, epoch: int = 1, **changed: object) -> PrepareTasks:
    """A command to prepare such jobs."""
    jobs = tuple(
        JobSpec(f"job-{index}", 1, Amount(1000), "H100", emulation)
        for index, emulation in enumerate(emulations)
    )
    command = PrepareTasks(
        RegionName("r0"),
        WorkerName("w0"),
        10 + epoch - 1,
        JOB,
        epoch,
        jobs,
        (HERE,) * len(jobs),
        is_leader=True,
    )
    return replace(command, **changed)


def lasting(span: float, **more: float) -> Emulation:
    """A task that runs so many seconds, and whatever else is named, in seconds too."""
    spans: dict[str, Any] = {name: seconds(value) for name, value in more.items()}  # Any: fields by name
    return Emulation(work=seconds(span), **spans)


@virtual
async def test_it_takes_its_time_and_completes(place: Place) -> None:
    """Prepared, running, ended with zero when its work is done; nothing runs before the word."""
    nodes = Nodes(place)
    nodes.begin(PrepareShare(prepare(lasting(30))))
    await place.sleep(10)
    assert [(0, "prepared", 0, 0)] == nodes.words()
    nodes.begin(StartShare(ShareKey(JOB, 1), 11))
    await place.sleep(60)
    assert [(10, "running", 0, 0), (40, "ended", 0, 0)] == nodes.words()


@virtual
async def test_it_saves_as_it_goes(place: Place) -> None:
    """Checkpoints come in their interval, count milliseconds of progress, and are reported by the leader alone."""
    nodes = Nodes(place)
    nodes.start(lasting(30, checkpoint_every=10))
    await place.sleep(60)
    assert [
        (10, "running", 10_000, 0),
        (20, "running", 20_000, 0),
        (30, "ended", 20_000, 0),
    ] == nodes.words()[2:]
    nodes.start(lasting(30, checkpoint_every=10), epoch=2, is_leader=False)
    await place.sleep(60)
    assert [(60, "running", 0, 0), (90, "ended", 0, 0)] == nodes.words()[1:]


@virtual
async def test_it_saves_no_more_often_than_a_worker_can_bear(place: Place) -> None:
    """An earlier build accepted a checkpoint each nanosecond."""
    nodes = Nodes(place)
    nodes.start(Emulation(seconds(1), checkpoint_every=Nanoseconds(1)))
    await place.sleep(1)
    saved = [step for _, phase, step, _ in nodes.words()[2:] if phase == "running"]
    assert list(range(10, 1_000, 10)) == saved


@virtual
async def test_what_was_missed_for_long_is_not_made_up_for_one_by_one(place: Place) -> None:
    """After a pause of a week, or a start of a worker whose task runs for a week, the newest of the checkpoints is told."""
    nodes = Nodes(place)
    nodes.start(lasting(700_000, checkpoint_every=0.05))
    nodes.words()
    now = nodes.spool._clock.now()
    assert after(now, seconds(600_000.05)) == nodes.spool.catch_up(after(now, seconds(600_000)))
    assert [600_000_000] == [step for _, _, step, _ in nodes.words()]


@virtual
async def test_it_resumes(place: Place) -> None:
    """What was saved need not be done again, and steps go on counting from there."""
    nodes = Nodes(place)
    nodes.start(lasting(30, checkpoint_every=10), resume_epoch=1, resume_step=15_000, epoch=2)
    await place.sleep(60)
    assert [(10, "running", 25_000, 0), (15, "ended", 25_000, 0)] == nodes.words()[2:]


@virtual
async def test_it_fails(place: Place) -> None:
    """The first failing job ends the share with its code; a job whose work is done sooner does not fail any more."""
    nodes = Nodes(place)
    nodes.start(
        lasting(30),
        Emulation(work=seconds(30), fails_after=seconds(8), exit_code=3),
        lasting(40, fails_after=9),
    )
    await place.sleep(60)
    assert (8, "ended", 0, 3) == nodes.words()[-1]
    nodes.start(lasting(5), lasting(5, fails_after=8), epoch=2)
    await place.sleep(60)
    assert (65, "ended", 0, 0) == nodes.words()[-1]


@virtual
async def test_only_jobs_placed_on_this_worker_count(place: Place) -> None:
    """Of several jobs only those with tasks on this worker's nodes take time or fail; the longest decides."""
    nodes = Nodes(place)
    nodes.start(lasting(5), lasting(50, fails_after=1), lasting(7), spreads=(HERE, NOT_HERE, HERE))
    await place.sleep(60)
    assert (7, "ended", 0, 0) == nodes.words()[-1]


@virtual
async def test_it_stops_within_its_grace(place: Place) -> None:
    """Told to stop it writes a last checkpoint and leaves, as long as that takes."""
    nodes = Nodes(place)
    nodes.start(lasting(100, checkpoint_every=60, stop_span=4))
    await place.sleep(20)
    nodes.words()
    nodes.begin(StopShare(ShareKey(JOB, 1), 12, seconds(30)), StopShare(ShareKey(JOB, 1), 13, seconds(1)))
    await place.sleep(20)
    assert [(20, "stopping", 20_000, 0), (24, "ended", 20_000, EXIT_STOPPED)] == nodes.words()


@virtual
async def test_it_sets_up_before_it_works(place: Place) -> None:
    """Set-up is no work: it saves, fails and ends later by as much, and an attempt that stops within it got nowhere."""
    nodes = Nodes(place)
    nodes.start(lasting(100, checkpoint_every=60, set_up=20), resume_step=30_000)
    await place.sleep(200)
    assert [(0, "running", 0, 0), (80, "running", 90_000, 0), (90, "ended", 90_000, 0)] == nodes.words()[1:]
    nodes.start(lasting(100, fails_after=5, set_up=20), epoch=2)
    await place.sleep(200)
    assert (225, "ended", 0, 1) == nodes.words()[-1]
    nodes.start(lasting(100, checkpoint_every=60, stop_span=4, set_up=20), epoch=3, resume_step=7_000)
    await place.sleep(10)
    nodes.begin(StopShare(ShareKey(JOB, 3), 14, seconds(30)))
    await place.sleep(10)
    assert (414, "ended", 7_000, EXIT_STOPPED) == nodes.words()[-1]


@virtual
async def test_it_is_killed_past_its_grace(place: Place) -> None:
    """Whoever takes longer than the grace is killed at its end, and has saved nothing by it."""
    nodes = Nodes(place)
    nodes.start(lasting(100, checkpoint_every=15, stop_span=40))
    await place.sleep(20)
    nodes.words()
    nodes.begin(StopShare(ShareKey(JOB, 1), 12, seconds(30)))
    await place.sleep(60)
    assert [(20, "stopping", 15_000, 0), (50, "ended", 15_000, EXIT_STOPPED)] == nodes.words()


@virtual
async def test_prepared_share_stops_at_once(place: Place) -> None:
    """What does not run needs no grace, and cannot be started after it."""
    nodes = Nodes(place)
    nodes.begin(
        PrepareShare(prepare(lasting(30))),
        StopShare(ShareKey(JOB, 1), 11, seconds(30)),
        StartShare(ShareKey(JOB, 1), 12),
    )
    await place.sleep(60)
    assert [(0, "prepared", 0, 0), (0, "ended", 0, EXIT_STOPPED)] == nodes.words()


@virtual
async def test_doing_it_twice_changes_nothing_more(place: Place) -> None:
    """Each effect may be asked for again: the share goes on as it was."""
    nodes = Nodes(place)
    nodes.start(lasting(30))
    await place.sleep(10)
    nodes.start(lasting(30))
    await place.sleep(60)
    nodes.start(lasting(30))
    assert [(0, "prepared"), (0, "running"), (10, "running"), (30, "ended"), (70, "ended")] == [
        word[:2] for word in nodes.words()
    ]


@virtual
async def test_it_outlives_its_worker(place: Place) -> None:
    """Tasks go on while no worker is there; the next one is told what stands, and the highest sequence obeyed."""
    nodes = Nodes(place)
    nodes.start(lasting(30, checkpoint_every=10))
    nodes.begin(KeepFence(7))
    await place.sleep(5)
    nodes.spool.detach()
    await place.sleep(20)
    nodes.spool.attach(nodes._hear)
    found = nodes.found()
    assert (TasksState(JOB, 1, TasksPhase.RUNNING, saved_step=20_000),) == found.tasks
    assert (11, 1) == (found.sequence, found.start)
    nodes.spool.detach()
    await place.sleep(20)
    nodes.spool.attach(nodes._hear)
    found = nodes.found()
    assert (TasksState(JOB, 1, TasksPhase.ENDED, saved_step=20_000),) == found.tasks
    assert (11, 2) == (found.sequence, found.start)


@virtual
async def test_forgotten_share_is_gone(place: Place) -> None:
    """An end that is recorded leaves the spool; the fence stays."""
    nodes = Nodes(place)
    nodes.start(lasting(3))
    await place.sleep(5)
    nodes.begin(ForgetShare(ShareKey(JOB, 1), 40), ForgetShare(ShareKey(JOB, 1), 41))
    found = nodes.found()
    assert () == found.tasks
    assert 41 == found.sequence


@virtual
async def test_many_shares_keep_their_own_time(place: Place) -> None:
    """Each ends when it should, however many there are and in whatever order they were begun."""
    nodes = Nodes(place)
    for number in range(300):
        command = replace(prepare(lasting(1 + (number * 7) % 300)), workload=WorkloadId(f"w-{number}"))
        nodes.begin(PrepareShare(command), StartShare(command.key, 11))
    nodes.words()
    await place.sleep(400)
    ends = [at for at, phase, _, _ in nodes.words() if phase == "ended"]
    assert [float(span) for span in range(1, 301)] == ends
    assert nodes.spool._due.due() is None


# Tasks that stand alone.


@virtual
async def test_tasks_that_stand_alone_do_not_share_their_fate(place: Place) -> None:
    """One fails, one is stopped and runs anew, one goes on: each says which it is, and which run."""
    nodes = Nodes(place)
    failing = Emulation(work=seconds(30), fails_after=seconds(8), exit_code=3)
    first, second = ShareKey(JOB, 1, 5), ShareKey(JOB, 1, 6)
    for key, emulation in ((first, failing), (second, lasting(30))):
        nodes.begin(PrepareShare(prepare(emulation, task=key.task)), StartShare(key, 11))
    again = second._replace(run=1)
    await place.sleep(20)
    nodes.begin(StopShare(second, 12, seconds(30)))
    await place.sleep(1)
    nodes.begin(PrepareShare(prepare(lasting(30), task=6, run=1)), StartShare(again, 13))
    nodes.begin(ForgetShare(second, 14))
    await place.sleep(60)
    ends = [
        (at, message.tasks.key, message.tasks.exit_code)
        for at, message in nodes.heard
        if isinstance(message, TasksChanged) and message.tasks.phase == TasksPhase.ENDED
    ]
    assert [(8, first, 3), (20, second, EXIT_STOPPED), (51, again, 0)] == ends
    assert [first, again] == [state.key for state in nodes.found().tasks]


@virtual
async def test_paused_gang_goes_on_from_its_own_checkpoint(place: Place) -> None:
    """Its next run under the same epoch resumes what the run before has saved."""
    nodes = Nodes(place)
    nodes.start(lasting(30, checkpoint_every=10))
    await place.sleep(25)
    nodes.begin(StopShare(ShareKey(JOB, 1), 12, seconds(0)))
    await place.sleep(100)
    nodes.words()
    again = prepare(lasting(30, checkpoint_every=10), run=1, resume_epoch=1, resume_step=20_000)
    nodes.begin(PrepareShare(again), StartShare(again.key, 13))
    await place.sleep(60)
    assert (135, "ended", 0, 0) == nodes.words()[-1]


@virtual
async def test_where_it_failed(place: Place) -> None:
    """On the first node of the job that fails first; what completes, or is stopped, failed nowhere."""
    nodes = Nodes(place)
    jobs = (
        lasting(60),
        Emulation(seconds(60), fails_after=seconds(9), exit_code=3),
        lasting(60, fails_after=20),
    )
    spreads = (Spread((4,), (1,)), Spread((7, 8), (1, 1)), Spread((9,), (1,)))
    nodes.start(*jobs, spreads=spreads)
    nodes.start(*jobs, spreads=spreads, epoch=2)
    nodes.start(lasting(5), spreads=(Spread((3,), (1,)),), epoch=3)
    await place.sleep(6)
    nodes.begin(StopShare(ShareKey(JOB, 2), 20, seconds(30)))
    await place.sleep(60)
    assert [(1, 3, (7,)), (2, EXIT_STOPPED, ()), (3, 0, ())] == [
        (state.epoch, state.exit_code, state.failed_nodes) for state in nodes.found().tasks
    ]


# Strict tasks.

STRICT = seconds(60)


@virtual
async def test_strict_share_stops_when_its_region_is_not_heard(place: Place) -> None:
    """T26: so long after the beat that was acknowledged last, also without a worker; no fault of its own. Others run on (T25)."""
    nodes = Nodes(place)
    nodes.start(lasting(500, checkpoint_every=400, stop_span=4), isolation=STRICT)
    nodes.start(lasting(500), epoch=2)
    await place.sleep(50)
    nodes.begin(KeepHeard(seconds(10)))
    nodes.spool.detach()
    await place.sleep(49)
    phases = [share.state.phase for share in nodes.spool.shares.values()]
    assert [TasksPhase.RUNNING] * 2 == phases
    await place.sleep(2)
    (strict, other) = nodes.found_by_next().tasks
    assert (TasksPhase.STOPPING, 100_000, TasksPhase.RUNNING) == (
        strict.phase,
        strict.saved_step,
        other.phase,
    )
    await place.sleep(4)
    (strict, other) = nodes.found_by_next().tasks
    assert (TasksPhase.ENDED, ISOLATED, ()) == (strict.phase, strict.exit_code, strict.failed_nodes)
    assert TasksPhase.RUNNING == other.phase


@virtual
async def test_strict_share_runs_on_while_its_region_is_heard(place: Place) -> None:
    """However long: each acknowledged beat counts, and an older one takes nothing back."""
    nodes = Nodes(place)
    nodes.start(lasting(500), isolation=STRICT)
    for _ in range(10):
        await place.sleep(45)
        nodes.begin(KeepHeard(seconds(1)), KeepHeard(seconds(40)))
    await place.sleep(100)
    assert (500, "ended", 0, 0) == nodes.words()[-1]


@virtual
async def test_strict_share_that_is_stopping_is_gone_in_time(place: Place) -> None:
    """A grace that was given before the silence does not outlast what its region waits; nor does its own stubbornness."""
    nodes = Nodes(place)
    nodes.start(lasting(5000, stop_span=3000), isolation=STRICT)
    nodes.start(lasting(5000, stop_span=3000), isolation=STRICT, epoch=2)
    await place.sleep(10)
    nodes.begin(StopShare(ShareKey(JOB, 1), 20, seconds(1000)))
    nodes.words()
    await place.sleep(1000)
    last = (STRICT + GRACE) / SECOND
    assert [(60, "stopping", ISOLATED), (last, "ended", EXIT_STOPPED), (last, "ended", ISOLATED)] == [
        (at, phase, code or ISOLATED) for at, phase, _, code in nodes.words()
    ]


@virtual
async def test_strict_share_is_not_stopped_before_it_runs(place: Place) -> None:
    """Who was prepared long ago is started by a worker that was heard; what is prepared runs nowhere."""
    nodes = Nodes(place)
    nodes.begin(PrepareShare(prepare(lasting(30), isolation=STRICT)))
    await place.sleep(100)
    nodes.begin(KeepHeard(seconds(5)), StartShare(ShareKey(JOB, 1), 11))
    await place.sleep(100)
    assert [(0, "prepared", 0, 0), (100, "running", 0, 0), (130, "ended", 0, 0)] == nodes.words()


@virtual
async def test_strict_share_that_starts_unheard(place: Place) -> None:
    """It stops as it starts, having done nothing, and not before that."""
    nodes = Nodes(place)
    nodes.begin(PrepareShare(prepare(lasting(30, checkpoint_every=7, stop_span=2), isolation=seconds(10))))
    await place.sleep(20)
    nodes.begin(StartShare(ShareKey(JOB, 1), 11))
    await place.sleep(100)
    assert [
        (0, "prepared", 0, 0),
        (20, "running", 0, 0),
        (20, "stopping", 0, 0),
        (22, "ended", 0, ISOLATED),
    ] == nodes.words()


# Health.


@virtual
async def test_emulated_nodes_are_well(place: Place) -> None:
    """Whoever asks hears it, of the nodes that were asked for."""
    nodes = Nodes(place)
    nodes.begin(LookAtNodes((3, 4)))
    assert [NodesLooked((), (3, 4))] == [message for _, message in nodes.heard]


# What a region has against its nodes.


@virtual
async def test_refused_nodes_are_a_line_in_the_log(place: Place) -> None:
    """With every reason, for whoever started the worker."""
    nodes = Nodes(place)
    with capture_logs() as lines:
        nodes.begin(TellRefused(("it serves no node",)))
    [line] = lines
    assert ("join_refused", "warning", ["it serves no node"]) == (
        line["event"],
        line["log_level"],
        line["problems"],
    )

"""Emulated tasks: they take time, save, fail, stop within their grace or not, and do not care who watches."""

from msgspec.structs import replace

from core.component import Effect
from core.effects import FindTasks, ForgetShare, KeepFence, PrepareShare, StartShare, StopShare
from core.messages.base import Message
from core.messages.workers import PrepareTasks, TasksChanged, TasksFound, TasksPhase, TasksState
from core.nouns.ids import RegionName, WorkerName, WorkloadId
from core.nouns.instant import SECOND, seconds
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
            PrepareShare(prepare(*emulations, epoch=epoch, **changed)), StartShare(JOB, epoch, 10 + epoch)
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
    return Emulation(work=seconds(span), **{name: seconds(value) for name, value in more.items()})


@virtual
async def test_it_takes_its_time_and_completes(place: Place) -> None:
    """Prepared, running, ended with zero when its work is done; nothing runs before the word."""
    nodes = Nodes(place)
    nodes.begin(PrepareShare(prepare(lasting(30))))
    await place.sleep(10)
    assert [(0, "prepared", 0, 0)] == nodes.words()
    nodes.begin(StartShare(JOB, 1, 11))
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
async def test_it_does_what_is_placed_here(place: Place) -> None:
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
    nodes.begin(StopShare(JOB, 1, 12, seconds(30)), StopShare(JOB, 1, 13, seconds(1)))
    await place.sleep(20)
    assert [(20, "stopping", 20_000, 0), (24, "ended", 20_000, EXIT_STOPPED)] == nodes.words()


@virtual
async def test_it_is_killed_past_its_grace(place: Place) -> None:
    """Whoever takes longer than the grace is killed at its end, and has saved nothing by it."""
    nodes = Nodes(place)
    nodes.start(lasting(100, checkpoint_every=15, stop_span=40))
    await place.sleep(20)
    nodes.words()
    nodes.begin(StopShare(JOB, 1, 12, seconds(30)))
    await place.sleep(60)
    assert [(20, "stopping", 15_000, 0), (50, "ended", 15_000, EXIT_STOPPED)] == nodes.words()


@virtual
async def test_prepared_share_stops_at_once(place: Place) -> None:
    """What does not run needs no grace, and cannot be started after it."""
    nodes = Nodes(place)
    nodes.begin(
        PrepareShare(prepare(lasting(30))), StopShare(JOB, 1, 11, seconds(30)), StartShare(JOB, 1, 12)
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
async def test_what_is_forgotten_is_gone(place: Place) -> None:
    """An end that is recorded leaves the spool; the fence stays."""
    nodes = Nodes(place)
    nodes.start(lasting(3))
    await place.sleep(5)
    nodes.begin(ForgetShare(JOB, 1, 40), ForgetShare(JOB, 1, 41))
    found = nodes.found()
    assert () == found.tasks
    assert 41 == found.sequence


@virtual
async def test_many_shares_keep_their_own_time(place: Place) -> None:
    """Each ends when it should, however many there are and in whatever order they were begun."""
    nodes = Nodes(place)
    for number in range(300):
        command = replace(prepare(lasting(1 + (number * 7) % 300)), workload=WorkloadId(f"w-{number}"))
        nodes.begin(PrepareShare(command), StartShare(command.workload, 1, 11))
    nodes.words()
    await place.sleep(400)
    ends = [at for at, phase, _, _ in nodes.words() if phase == "ended"]
    assert [float(span) for span in range(1, 301)] == ends
    assert nodes.spool._due.due() is None

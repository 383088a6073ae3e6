"""Emulated nodes that go wrong: what runs there is gone, stands still, is slow, or dies."""

from core.component import Effect
from core.effects import FindTasks, KeepFence, LookAtNodes, PrepareShare, StartShare, StopShare
from core.messages.base import Message
from core.messages.workers import ISOLATED, NodesLooked, PrepareTasks, TasksChanged, TasksFound, TasksPhase
from core.nouns.ids import RegionName, ShareKey, WorkerName, WorkloadId
from core.nouns.instant import SECOND, seconds
from core.nouns.placement import Spread
from core.nouns.quantities import Amount
from core.nouns.workload import Emulation, JobSpec
from runtime.spool import EXIT_STOPPED
from scenarios.worlds.nodes import TroubledNodes
from tests.runtime.aids import Place, virtual

RUNNING, STOPPING, ENDED = TasksPhase.RUNNING, TasksPhase.STOPPING, TasksPhase.ENDED


class Troubled:
    """A worker's nodes, and what they said."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.nodes = TroubledNodes("w0", place.clock(), (0, 1, 2))
        self.began_at = place.loop.now_ns()
        self.heard: list[tuple[float, Message]] = []
        self.nodes.attach(self._hear)
        self.task = place.loop.create_task(self.nodes.run(), name="nodes")

    def _hear(self, message: Message) -> None:
        self.heard.append(((self.place.loop.now_ns() - self.began_at) / SECOND, message))

    def begin(self, *effects: Effect) -> None:
        for effect in effects:
            self.nodes.begin(effect)

    def start(
        self,
        name: str,
        work: float,
        every: float = 0.0,
        *,
        isolation: float = 0.0,
        leaving: float = 0.0,
        nodes: int = 1,
    ) -> None:
        """Prepare and start a share that works so long, saves so often and takes so long to leave, on so many nodes."""
        emulation = Emulation(seconds(work), seconds(every), stop_span=seconds(leaving))
        job = JobSpec("main", 1, Amount(1000), "H100", emulation)
        workload = WorkloadId(name)
        spread = Spread(tuple(range(nodes)), (1,) * nodes)
        command = PrepareTasks(
            RegionName("r0"),
            WorkerName("w0"),
            10,
            workload,
            1,
            (job,),
            (spread,),
            is_leader=True,
            isolation=seconds(isolation),
        )
        self.begin(PrepareShare(command), StartShare(ShareKey(workload, 1), 11))
        self.heard.clear()

    def stop(self, name: str, grace: float) -> None:
        self.begin(StopShare(ShareKey(WorkloadId(name), 1), 12, seconds(grace)))

    def words(self) -> list[tuple[float, str, TasksPhase, int, int]]:
        """When, of whom, which phase, how far saved, which exit code: of all changes since last asked."""
        words = [
            (
                at,
                message.tasks.workload,
                message.tasks.phase,
                message.tasks.saved_step,
                message.tasks.exit_code,
            )
            for at, message in self.heard
            if isinstance(message, TasksChanged)
        ]
        self.heard.clear()
        return [(round(at, 3), *rest) for at, *rest in words]  # type: ignore[misc]  # the rest is as above

    async def sleep(self, span: float) -> None:
        await self.place.loop.sleep_ns(seconds(span))


@virtual
async def test_power_loss_forgets_all_but_the_fence(place: Place) -> None:
    """Tasks never end and never say a word again; a worker that comes back finds nothing, and where it had obeyed to."""
    troubled = Troubled(place)
    troubled.start("w-1", 10.0)
    troubled.start("w-2", 20.0, every=3.0)
    troubled.begin(KeepFence(40))
    troubled.nodes.freeze()
    troubled.nodes.lose_power()
    await troubled.sleep(100)
    assert [] == troubled.words()
    troubled.begin(FindTasks())
    ((_, found),) = troubled.heard
    assert isinstance(found, TasksFound)
    assert ((), 40) == (found.tasks, found.sequence)
    troubled.start("w-3", 5.0)  # They are no longer frozen.
    await troubled.sleep(6)
    assert [(105.0, "w-3", ENDED, 0, 0)] == troubled.words()


@virtual
async def test_freeze_shifts_ends_and_checkpoints(place: Place) -> None:
    """They come later by as long as the nodes stood still, and no step is counted for that time."""
    troubled = Troubled(place)
    troubled.start("w-1", 10.0, every=4.0)
    await troubled.sleep(2)
    thaw = troubled.nodes.freeze()
    await troubled.sleep(30)
    assert [] == troubled.words()
    thaw()
    await troubled.sleep(20)
    assert [
        (34.0, "w-1", RUNNING, 4000, 0),
        (38.0, "w-1", RUNNING, 8000, 0),
        (40.0, "w-1", ENDED, 8000, 0),
    ] == troubled.words()


@virtual
async def test_freezes_add_up(place: Place) -> None:
    """Whoever froze nodes must thaw them; who thaws more often does no harm."""
    troubled = Troubled(place)
    troubled.start("w-1", 10.0)
    await troubled.sleep(1)
    thaw = troubled.nodes.freeze()
    await troubled.sleep(5)
    thaw_too = troubled.nodes.freeze()
    await troubled.sleep(5)
    thaw()
    thaw()
    await troubled.sleep(20)
    assert [] == troubled.words()
    thaw_too()
    thaw()
    await troubled.sleep(9.5)
    assert [(40.0, "w-1", ENDED, 0, 0)] == troubled.words()


@virtual
async def test_task_started_on_frozen_nodes_begins_when_they_thaw(place: Place) -> None:
    """It loses only the time since its own start: told to stop at once, it has done no step, and not less than none."""
    troubled = Troubled(place)
    thaw = troubled.nodes.freeze()
    await troubled.sleep(50)
    troubled.start("w-1", 10.0, every=100.0)
    await troubled.sleep(5)
    thaw()
    troubled.stop("w-1", 30.0)
    await troubled.sleep(1)
    assert [(55.0, "w-1", STOPPING, 0, 0), (55.0, "w-1", ENDED, 0, EXIT_STOPPED)] == troubled.words()


@virtual
async def test_slow_nodes_take_longer_and_save_less(place: Place) -> None:
    """What is started while they are slow, by the slowest that was ordered; what ran before keeps its pace."""
    troubled = Troubled(place)
    troubled.start("w-1", 6.0)
    ends = [troubled.nodes.slow.begin(factor) for factor in (1.5, 3.0, 2.0)]
    troubled.start("w-2", 4.0, every=6.0)
    for end in ends:
        end()
    assert 1.0 == troubled.nodes.factor
    await troubled.sleep(20)
    assert [
        (6.0, "w-1", ENDED, 0, 0),
        (6.0, "w-2", RUNNING, 2000, 0),
        (12.0, "w-2", ENDED, 2000, 0),
    ] == sorted(troubled.words())


@virtual
async def test_broken_nodes_fail_started_tasks(place: Place) -> None:
    """At once, with their exit code; tasks that ran before go on, and those that come after they are mended too."""
    troubled = Troubled(place)
    troubled.start("w-1", 6.0)
    mend = troubled.nodes.broken.begin(9)
    troubled.start("w-2", 6.0)
    await troubled.sleep(1)
    assert [(0.0, "w-2", ENDED, 0, 9)] == troubled.words()
    mend()
    troubled.start("w-3", 6.0)
    await troubled.sleep(10)
    assert [(6.0, "w-1", ENDED, 0, 0), (7.0, "w-3", ENDED, 0, 0)] == troubled.words()


@virtual
async def test_tasks_on_one_node_fail(place: Place) -> None:
    """The node is named; a workload that has no task there goes on."""
    troubled = Troubled(place)
    troubled.start("w-1", 60.0)
    troubled.start("w-2", 60.0, nodes=3)
    await troubled.sleep(2)
    troubled.words()
    assert 1 == troubled.nodes.fail_all(5, 2)
    assert [(2.0, "w-2", ENDED, 0, 5)] == troubled.words()
    failed = {key.workload: share.state.failed_nodes for key, share in troubled.nodes.shares.items()}
    assert {"w-1": (), "w-2": (2,)} == failed


@virtual
async def test_all_that_runs_fails(place: Place) -> None:
    """Once, and not what has ended already; on frozen nodes nothing happens."""
    troubled = Troubled(place)
    troubled.start("w-1", 1.0)
    troubled.start("w-2", 60.0)
    troubled.start("w-3", 60.0)
    await troubled.sleep(2)
    troubled.words()
    thaw = troubled.nodes.freeze()
    assert 0 == troubled.nodes.fail_all(5)
    thaw()
    assert 2 == troubled.nodes.fail_all(5)
    assert 0 == troubled.nodes.fail_all(5)
    assert [(2.0, "w-2", ENDED, 0, 5), (2.0, "w-3", ENDED, 0, 5)] == troubled.words()
    await troubled.sleep(100)
    assert [] == troubled.words()


@virtual
async def test_strict_share_on_nodes_that_stood_still(place: Place) -> None:
    """T26: its region counts on its end meanwhile: no step is counted for that time, and no grace given that is over."""
    for frozen, end in ((60.0, 90.0), (200.0, 210.0)):
        troubled = Troubled(place)
        troubled.start("w-1", 1000.0, every=500.0, isolation=60.0, leaving=25.0)
        await troubled.sleep(10)
        thaw = troubled.nodes.freeze()
        await troubled.sleep(frozen)
        thaw()
        await troubled.sleep(100)
        assert [
            (10 + frozen, "w-1", STOPPING, 0, 0),
            (end, "w-1", ENDED, 0, ISOLATED),
        ] == troubled.words()


@virtual
async def test_failing_nodes_are_named(place: Place) -> None:
    """All on which the share was, for the trouble is on all of them; whoever fails by itself names its first."""
    troubled = Troubled(place)
    troubled.start("w-1", 60.0, nodes=2)
    mend = troubled.nodes.broken.begin(9)
    troubled.start("w-2", 60.0, nodes=3)
    mend()
    await troubled.sleep(1)
    troubled.nodes.fail_all(7)
    assert {("w-2", 9, (0, 1, 2)), ("w-1", 7, (0, 1))} == {
        (message.tasks.workload, message.tasks.exit_code, message.tasks.failed_nodes)
        for _, message in troubled.heard
        if isinstance(message, TasksChanged) and message.tasks.phase == ENDED
    }


@virtual
async def test_ill_nodes_say_so(place: Place) -> None:
    """When it begins and when it ends, to whoever asks, and to a worker that has just started."""
    troubled = Troubled(place)
    cure = troubled.nodes.ills.begin("a GPU is gone")
    ill = tuple((node, "a GPU is gone") for node in (0, 1, 2))
    troubled.begin(FindTasks(), LookAtNodes((1,)))
    cure()
    troubled.begin(FindTasks())
    assert [NodesLooked(ill), NodesLooked(ill), NodesLooked(ill, (1,)), NodesLooked(())] == [
        message for _, message in troubled.heard if isinstance(message, NodesLooked)
    ]

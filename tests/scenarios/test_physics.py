"""What is watched in the spools themselves: nothing runs twice, whatever the logs say."""

from collections.abc import Callable
from typing import Any

import pytest

from core.effects import EndExecutor, PrepareShare, ReadBook, StartExecutor, StartShare, StopShare
from core.events.region import NodesLost
from core.fact import Event
from core.images import RegionImage, empty_image
from core.messages.harvest import NodeSize
from core.messages.workers import PrepareTasks
from core.nouns.function import FunctionSpec, Holding, WarmSpans
from core.nouns.ids import AttemptKey, RegionName, TenantName, WorkerName, WorkloadId
from core.nouns.instant import Instant, seconds
from core.nouns.operation import WHOLE
from core.nouns.quantities import Amount
from core.nouns.workload import Emulation, JobSpec, Serves
from runtime.functions.emulated import EmulatedExecutors
from runtime.tasks.book import ExecutorUse
from scenarios.worlds.nodes import TroubledNodes
from scenarios.worlds.simulated.physics import Physics
from tests.builders import EU, EU_LOG, US, a_claim, a_spread, facts_of, granted, joined
from tests.runtime.aids import Place, in_virtual_time

W0, W1 = WorkerName("w0"), WorkerName("w1")
ML = TenantName("ml")
CORE = Amount(0, 1_000, 1 << 30)
EIGHT = Amount(8_000, 8_000, 8 << 30)


class Watched:
    """Two workers of a region, and one of another, whose starts are watched."""

    def __init__(self, place: Place, *events: Event) -> None:
        image = empty_image(EU_LOG)
        assert isinstance(image, RegionImage)
        attempts = [granted(a_claim(epoch=epoch)) for epoch in (1, 2)]
        for fact in facts_of([joined("w0", 0, 2), joined("w1", 2, 2), *attempts, *events]):
            image.fold(fact)
        self.physics = Physics({EU: image, US: image}.get, self._agreed)
        self.agreed: set[tuple[RegionName, int]] = set()
        self.spools: dict[tuple[RegionName, WorkerName], TroubledNodes] = {}
        for region, worker in ((EU, W0), (EU, W1), (US, W0)):
            spool = TroubledNodes(f"worker.{region}.{worker}", place.clock(), range(4))
            self.spools[region, worker] = spool
            self.physics.watch(region, spool, dict.fromkeys(range(4), EIGHT))

    def _agreed(self, region: RegionName, workload: WorkloadId, epoch: int) -> bool:
        return (region, epoch) in self.agreed

    def start(
        self,
        worker: WorkerName,
        *,
        epoch: int = 1,
        task: int = WHOLE,
        run: int = 0,
        region: RegionName = EU,
        isolation: int = 0,
        gpu_milli: int = 1000,
        nodes: tuple[int, ...] = (0,),
        workload: str = "w-1",
        beside: AttemptKey | None = None,
        serves: Serves = Serves.NO,
    ) -> list[str]:
        """What is wrong with it. What serves functions holds a core besides, and is ml's."""
        need = Amount(gpu_milli).plus(CORE if serves else Amount())
        job = JobSpec("main", len(nodes), need, "H100", Emulation(seconds(1000)), serves=serves)
        command = PrepareTasks(
            region,
            worker,
            1,
            WorkloadId(workload),
            epoch,
            (job,),
            (a_spread(dict.fromkeys(nodes, 1)),),
            task=task,
            run=run,
            isolation=isolation,
            beside=beside,
            tenant=ML if serves else TenantName(""),
        )
        spool = self.spools[region, worker]
        spool.begin(PrepareShare(command))
        spool.begin(StartShare(command.key, 1))
        found, self.physics.problems = self.physics.problems, []
        return found


LOST = NodesLost(W0, (0, 1))


@pytest.mark.parametrize(
    ("first", "second", "is_wrong"),
    [
        ({}, {"worker": W1}, False),
        ({}, {"worker": W1, "epoch": 2}, True),
        ({}, {"worker": W0, "region": US}, True),
        ({}, {"worker": W1, "run": 1}, True),
        ({"task": 3}, {"worker": W1, "task": 4}, False),
        ({"task": 3}, {"worker": W0, "task": 4, "run": 1}, False),
        ({"task": 3}, {"worker": W1, "task": 3, "run": 1}, True),
        ({"task": 3}, {"worker": W0, "task": 3, "run": 1}, True),
        ({"task": 3}, {"worker": W1, "task": 3}, True),
    ],
)
def test_share_that_runs_twice(
    first: dict[str, Any], second: dict[str, Any], is_wrong: bool
) -> None:  # Any: as `start`
    """T26: another attempt, another run of the same gang or task, or the same task twice; tasks of one attempt are many."""

    async def body(place: Place) -> None:
        watched = Watched(place)
        assert [] == watched.start(W0, **first)
        assert is_wrong == bool(watched.start(**second))

    in_virtual_time(body)


@pytest.mark.parametrize("end", ["it failed", "its power was cut"])
def test_ended_share_may_run_again(end: str) -> None:
    """T26: as another attempt, elsewhere; and once two run, a third is told of both."""

    async def body(place: Place) -> None:
        watched = Watched(place)
        watched.start(W0)
        if end == "it failed":
            watched.spools[EU, W0].fail_all(1)
        else:
            watched.spools[EU, W0].lose_power()
        assert [] == watched.start(W1, epoch=2)
        first = f"w-1.1 run 1 starts in {EU} while w-1.2 runs in worker.{EU}.{W1}"
        assert [first] == watched.start(W0, run=1)
        wanted = [
            f"w-1.2 run 1 starts in {EU} while w-1.2 runs in worker.{EU}.{W1}",
            f"w-1.2 run 1 starts in {EU} while w-1.1 run 1 runs in worker.{EU}.{W0}",
        ]
        assert wanted == watched.start(W0, epoch=2, run=1)

    in_virtual_time(body)


def test_many_workloads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that run no more are let go of, and those that run are not."""
    monkeypatch.setattr("scenarios.worlds.simulated.physics.WORKLOADS_MIN", 3)

    async def body(place: Place) -> None:
        watched = Watched(place)
        assert [] == watched.start(W0)
        for number in range(2, 50):
            watched.start(W1, workload=f"w-{number}")
            watched.spools[EU, W1].fail_all(1)
            assert len(watched.physics._running) <= 4
        assert [f"w-1.2 starts in {EU} while w-1.1 runs in worker.{EU}.{W0}"] == watched.start(W1, epoch=2)

    in_virtual_time(body)


@pytest.mark.parametrize(
    ("isolation", "is_frozen", "region", "is_wrong"),
    [(0, False, EU, False), (60, False, EU, True), (60, True, EU, False), (60, False, US, False)],
)
def test_share_that_may_run_where_nodes_were_lost(
    isolation: int, is_frozen: bool, region: RegionName, is_wrong: bool
) -> None:
    """T26: a share that is not strict, or that stands still; another region may have been told to go on without this one."""

    async def body(place: Place) -> None:
        watched = Watched(place, LOST)
        watched.start(W0, isolation=seconds(isolation))
        if is_frozen:
            watched.spools[EU, W0].freeze()
        worker = W1 if region == EU else W0
        assert is_wrong == bool(watched.start(worker, epoch=2, region=region))

    in_virtual_time(body)


def test_devices_that_are_not_there() -> None:
    """T26: each node by itself; a share on one node may start while another is full."""

    async def body(place: Place) -> None:
        watched = Watched(place)
        assert [] == watched.start(W0, task=1, gpu_milli=8000, nodes=(0, 1))
        assert [] == watched.start(W0, task=2, gpu_milli=8000, nodes=(2,))
        name = f"worker.{EU}.{W0}"
        assert [f"node 1 of {name} runs 9000 GPU milli of 8000"] == watched.start(W0, task=3, nodes=(1, 3))
        assert [f"node 1 of {name} runs 10000 GPU milli of 8000"] == watched.start(W0, task=4, nodes=(1,))
        assert [f"node 3 of {name} runs 9000 GPU milli of 8000"] == watched.start(
            W0, task=5, gpu_milli=8000, nodes=(3,)
        )

    in_virtual_time(body)


@pytest.mark.parametrize("end", ["it failed", "it was stopped", "its power was cut"])
def test_devices_of_an_ended_share(end: str) -> None:
    """T26: they are there again, also for the same share once more; a stopping share has its own still."""

    async def body(place: Place) -> None:
        watched = Watched(place)
        spool = watched.spools[EU, W0]
        assert [] == watched.start(W0, task=1, gpu_milli=8000)
        if end == "it failed":
            spool.fail_all(1)
        elif end == "it was stopped":
            key = next(iter(spool.shares))
            spool.begin(StopShare(key, 2, seconds(30)))
            assert 1 == len(watched.start(W0, task=2))
            spool.catch_up(Instant(place.clock().now() + seconds(60)))
        else:
            spool.lose_power()
            assert [] == watched.start(W0, task=1)
        assert [] == watched.start(W0, task=3, gpu_milli=6000)
        assert [] == watched.start(W0, task=4)
        assert 1 == len(watched.start(W0, task=5, gpu_milli=8000))

    in_virtual_time(body)


@pytest.mark.parametrize(("epoch", "region", "is_wrong"), [(1, US, False), (1, EU, False), (2, US, True)])
def test_abandoned_attempt_may_run_twice(epoch: int, region: RegionName, *, is_wrong: bool) -> None:
    """The older attempt alone, whichever of the two starts first; where the abandonment was not read, neither."""

    async def body(place: Place) -> None:
        for order in ((1, 2), (2, 1)):
            watched = Watched(place)
            watched.agreed.add((region, epoch))
            for number, one in enumerate(order):
                found = watched.start(W0, epoch=one, region=EU if one == 1 else US)
                assert bool(found) == (is_wrong and number == 1)

    in_virtual_time(body)


class LyingBook:
    """A device book that says more than tasks hold."""

    def holdings(self) -> tuple[Holding, ...]:
        """Two cores."""
        return (Holding("w-1.1.main.0", ML, Serves.OWN, False, (), (), CORE.times(2)),)

    def keep_harvested(self, revision: int, sizes: tuple[NodeSize, ...]) -> None:
        """Nothing is harvested."""

    def note_executors(self, executors: tuple[ExecutorUse, ...]) -> None:
        """Nobody asks."""

    def watch(self, changed: Callable[[], None]) -> None:
        """Never call back."""


def test_functions_use_what_tasks_hold() -> None:
    """Of their tenant, while these run or stop: looked at when an executor starts, and when any share does."""

    async def body(place: Place) -> None:
        watched = Watched(place, granted(a_claim("w-2")))
        executors = EmulatedExecutors(place.clock(), LyingBook())
        spool = watched.spools[EU, W0]
        watched.physics.watch(EU, spool, dict.fromkeys(range(4), EIGHT), executors)
        executors.begin(ReadBook())
        spec = FunctionSpec(ML, "f", "0123abcd", CORE, warm=WarmSpans(seconds(9)))
        assert [] == watched.start(W0, gpu_milli=0, serves=Serves.OWN)
        executors.begin(StartExecutor(1, spec))
        spool.begin(StopShare(next(iter(spool.shares)), 2, seconds(30)))
        assert [] == watched.start(W0, workload="w-2")
        executors.begin(StartExecutor(2, spec))
        (problem,) = watched.physics.problems
        assert f"functions beside worker.{EU}.{W0} use" in problem
        spool.fail_all(1)
        spool.catch_up(Instant(place.clock().now() + seconds(60)))
        executors.begin(EndExecutor(2))
        watched.physics.problems.clear()
        assert 1 == len(watched.start(W0, workload="w-2", task=1))

    in_virtual_time(body)


def test_device_of_a_pair() -> None:
    """It is counted once while its host runs; a guest without its host, and a third job, need devices of their own."""

    async def body(place: Place) -> None:
        watched = Watched(place, *(granted(a_claim(name)) for name in ("w-2", "w-3", "w-4")))
        assert [] == watched.start(W0, gpu_milli=7000)
        assert [] == watched.start(W0, workload="w-2")
        assert [] == watched.start(W0, workload="w-3", beside=(WorkloadId("w-2"), 1))
        (problem,) = watched.start(W0, workload="w-4", beside=(WorkloadId("w-9"), 1))
        assert "runs 9000 GPU milli of 8000" in problem

    in_virtual_time(body)

"""What faults of nodes, and storms of users, do to a plane."""

import pytest

from core.messages.base import Message
from core.messages.queue import CancelWorkload, HoldWorkload, ReleaseWorkload, RequeueWorkload, SubmitWorkload
from core.messages.workers import TasksPhase
from core.nouns.instant import SECOND
from runtime.wiring import Unit
from scenarios.faults.black_hole import BlackHole
from scenarios.faults.cancel_storm import CancelStorm
from scenarios.faults.gpu_error import GpuError
from scenarios.faults.gpu_gone import GpuGone
from scenarios.faults.hold_storm import HoldStorm
from scenarios.faults.maintenance_announced import MaintenanceAnnounced
from scenarios.faults.maintenance_unannounced import MaintenanceUnannounced
from scenarios.faults.node_crash import NodeCrash
from scenarios.faults.node_flap import NodeFlap
from scenarios.faults.node_freeze import NodeFreeze
from scenarios.faults.rack_loss import RackLoss
from scenarios.faults.requeue_storm import RequeueStorm
from scenarios.faults.slow_gpu import SlowGpu
from scenarios.faults.zone_loss import ZoneLoss
from scenarios.worlds.simulated.world import SimulatedWorld
from tests.scenarios.misfortunes import Struck, storm_of, struck

# Nodes.


class PowerWatched(SimulatedWorld):
    """Notes who loses power when."""

    losses: list[tuple[float, Unit]]

    async def power_off(self, worker: Unit) -> None:
        """As ever, and noted."""
        self.losses = [*getattr(self, "losses", []), (self.now(), worker)]
        await super().power_off(worker)


@pytest.mark.parametrize(
    ("fault", "count"),
    [
        (NodeCrash(down_seconds=50.0), 1),
        (MaintenanceUnannounced(window_seconds=50.0), 1),
        (RackLoss(down_seconds=50.0), 1),
        (ZoneLoss(down_seconds=50.0), 2),
        (ZoneLoss(region="r1", down_seconds=50.0), 2),
    ],
)
def test_power_is_lost_at_one_instant(fault: NodeCrash | RackLoss | ZoneLoss, count: int) -> None:
    """T23: by a machine, a rack, or half of a region that is one zone: what ran there is gone, and all come back."""

    async def body(place: Struck) -> None:
        await place.load()
        task = place.begin(fault)
        await place.sleep(1)
        assert isinstance(place.world, PowerWatched)
        times = {at for at, _ in place.world.losses}
        struck_workers = [worker for _, worker in place.world.losses]
        assert (1, count) == (len(times), len(struck_workers))
        assert 1 == len({worker.region for worker in struck_workers})
        assert getattr(fault, "region", "") in ("", struck_workers[0].region)
        assert [] == [place.running(worker) for worker in struck_workers if place.running(worker)]
        await task
        await place.sleep(10)
        assert [] == await place.world.dead()

    struck(body, world=PowerWatched)


def test_frozen_nodes_go_on_where_they_stood() -> None:
    """A task ends later by as long as it stood still; nothing is heard of its worker meanwhile."""

    async def body(place: Struck) -> None:
        await place.load()
        worker = place.busiest()
        shares = place.nodes(worker).shares
        ends = {key: share.ends_at for key, share in shares.items() if share.ends_at is not None}
        assert ends
        task = place.begin(NodeFreeze(region=worker.region, member=worker.member, for_seconds=5.0))
        await place.sleep(4)
        assert [worker.name] == await place.world.dead()
        await task
        later = {key: (share.ends_at or 0) - ends[key] for key, share in shares.items() if key in ends}
        assert dict.fromkeys(ends, 5 * SECOND) == later

    struck(body)


def test_flapping_node_comes_and_goes() -> None:
    """By its power from one seed, by its link from another: as many times as it says."""
    seen = set()
    for seed in (1, 2, 3, 4):

        async def body(place: Struck) -> None:
            worker = place.unit("worker", "r0", "w0")
            is_gone, turns, begun = False, 0, place.world.kills
            task = place.begin(NodeFlap(region="r0", member="w0", turns=5, down_seconds=2.0, up_seconds=2.0))
            while not task.done():
                was_gone = is_gone
                is_cut = place.world.network.is_cut(worker.bus_name, worker.bus_name)
                is_gone = is_cut or not worker.is_alive
                turns += is_gone and not was_gone
                await place.sleep(0.25)
            assert 5 == turns
            assert place.world.kills - begun in (0, 5)
            seen.add(place.world.kills - begun)

        struck(body, seed)
    assert {0, 5} == seen


def test_gpu_error_fails_running_tasks() -> None:
    """With its exit code, once; tasks that are started next run."""

    async def body(place: Struck) -> None:
        await place.load()
        worker = place.busiest()
        before = place.running(worker)
        assert before
        await place.begin(GpuError(region=worker.region, member=worker.member, exit_code=139))
        shares = place.nodes(worker).shares
        ended = [share for share in shares.values() if share.state.phase == TasksPhase.ENDED]
        assert [139] * len(before) == [share.state.exit_code for share in ended]
        assert 0 == place.nodes(worker).broken_exit_code

    struck(body)


def test_gpu_error_of_one_node_leaves_the_others() -> None:
    """Whatever has a task there dies, wherever else it has some, and that node is named."""

    async def body(place: Struck) -> None:
        await place.load()
        worker = place.busiest()
        shares = place.nodes(worker).shares
        before = {key: share.nodes for key, share in shares.items() if share.is_live}
        await place.begin(GpuError(region=worker.region, member=worker.member, exit_code=139, one_node=True))
        ended = {key: share for key, share in shares.items() if share.state.phase == TasksPhase.ENDED}
        struck_nodes = {node for share in ended.values() for node in share.state.failed_nodes}
        assert len(struck_nodes) <= 1
        assert set(ended) == {key for key, nodes in before.items() if struck_nodes & set(nodes)}

    struck(body)


@pytest.mark.parametrize("is_gone", [True, False], ids=["gpu_gone", "black_hole"])
def test_broken_nodes_fail_started_tasks_at_once(is_gone: bool) -> None:
    """Attempt after attempt dies within the moment; tasks that ran before die too where the GPU is gone, and else go on."""

    async def body(place: Struck) -> None:
        await place.load()
        worker = place.busiest()
        before = place.running(worker)
        region, member = worker.region, worker.member
        gone = GpuGone(region=region, member=member, exit_code=7, for_seconds=60.0)
        task = place.begin(gone if is_gone else BlackHole(region=region, member=member, exit_code=7))
        await place.sleep(0)
        assert ([] if is_gone else before) == place.running(worker)
        # Only the broken nodes obey, so what comes goes there.
        paused = [await place.world.pause(one.unit) for one in place.workers() if one.unit != worker]
        await place.begin(storm_of(20, 1.0))
        failed: dict[object, int] = {}
        lived: list[object] = []
        for _ in range(2000):
            await place.sleep(0.01)
            for key, share in place.nodes(worker).shares.items():
                if share.state.phase == TasksPhase.ENDED and key not in before:
                    failed[key] = share.state.exit_code
            lived += [key for key in place.running(worker) if key not in before]
        if is_gone:
            # The driver tells, so nothing more is sent there; what was on its way died all the same.
            assert place.nodes(worker).ill
            assert {7} >= set(failed.values())
            capacity = place.witness.region(worker.region).capacity
            assert not any(capacity.is_open(node) for node, _ in place.nodes(worker).ill)
        else:
            assert len(failed) > 0
            assert {7} == set(failed.values())
        assert [] == lived
        for handle in paused:
            await place.world.calm(handle)
        await place.cancel(task)
        assert 0 == place.nodes(worker).broken_exit_code

    struck(body, 2)  # In this plane the busiest worker has room left.


def test_slow_gpu_stretches_started_tasks() -> None:
    """By its factor: a task of a minute takes three."""

    async def body(place: Struck) -> None:
        for one in place.workers():
            place.begin(SlowGpu(region=one.unit.region, member=one.unit.member, factor=3.0))
        await place.load()
        spans = [
            (share.ends_at or 0) - share.started_at
            for one in place.workers()
            for share in place.nodes(one.unit).shares.values()
            if share.state.phase == TasksPhase.RUNNING
        ]
        works = [
            job.emulation.work
            for one in place.workers()
            for share in place.nodes(one.unit).shares.values()
            for job in share.command.jobs
            if job.emulation and share.state.phase == TasksPhase.RUNNING
        ]
        assert spans
        assert [3 * work for work in works] == spans

    struck(body)


def test_announced_maintenance_empties_nodes_first() -> None:
    """T22: whoever ran there left before the window, and saved; when the power goes, none of those attempts is there."""

    async def body(place: Struck) -> None:
        await place.load()
        worker = place.busiest("r0")
        before = place.running(worker)
        assert before
        fault = MaintenanceAnnounced(
            region="r0", member=worker.member, notice_seconds=100.0, window_seconds=50.0
        )
        task = place.begin(fault)
        await place.sleep(99)
        assert [] == [key for key in place.running(worker) if key in before]
        await place.sleep(62)
        assert [worker.name] == await place.world.dead()
        await task
        await place.sleep(5)
        assert [] == await place.world.dead()

    struck(body)


# Storms.


def test_submission_storm_is_counted_among_wanted_workloads() -> None:
    """Two of one stage do not get into each other's way."""

    async def body(place: Struck) -> None:
        asked: list[Message] = []
        place.users.heard.append(lambda message, _: asked.append(message))
        begun = place.world.now()
        await place.begin(storm_of(30, 1.0))
        await place.begin(storm_of(10, 1.0))
        assert 40 == place.users.wanted
        while not place.users.has_submitted_all:
            await place.sleep(0.1)
        assert place.world.now() - begun < 10
        submissions = [one for one in asked if isinstance(one, SubmitWorkload)]
        assert 40 == len({one.key for one in submissions}) == len(set(place.users.workloads()))

    struck(body)


def test_storms_of_users_send_their_requests() -> None:
    """All cancel, all requeue, all hold; held workloads are released, also when the storm is cut short."""

    async def body(place: Struck) -> None:
        await place.load()
        asked: list[Message] = []
        place.users.heard.append(lambda message, _: asked.append(message))
        many = len(place.users.workloads())

        def count(kind: type[Message]) -> int:
            return len([one for one in asked if isinstance(one, kind)])

        await place.begin(RequeueStorm(share=1.0))
        await place.sleep(60)
        assert count(RequeueWorkload) > many / 2
        holds = place.begin(HoldStorm(share=1.0, for_seconds=300.0))
        await place.sleep(10)
        assert (many, 0) == (count(HoldWorkload), count(ReleaseWorkload))
        await place.cancel(holds)
        await place.sleep(10)
        assert many == count(ReleaseWorkload)
        await place.begin(CancelStorm(share=1.0))
        await place.sleep(100)
        assert many == count(CancelWorkload)
        assert set(place.users.workloads()) == set(place.witness.ended)
        assert [] == place.users.problems

    struck(body)

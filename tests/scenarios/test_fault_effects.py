"""What faults of processes and of the bus do to a plane: each really happens, and not only by name."""

import pytest

from core.messages.workers import WorkerBeat
from core.nouns.instant import SECOND
from scenarios.controller import Controllers
from scenarios.controllers.consents import Consents
from scenarios.faults.bus_outage import BusOutage
from scenarios.faults.bus_restart import BusRestart
from scenarios.faults.controller_dead import ControllerDead
from scenarios.faults.crash import Crash
from scenarios.faults.message_delay import MessageDelay
from scenarios.faults.message_loss import MessageLoss
from scenarios.faults.message_reorder import MessageReorder
from scenarios.faults.message_repeat import MessageRepeat
from scenarios.faults.partition import Partition
from scenarios.faults.pause import Pause
from scenarios.faults.poison_messages import PoisonMessages
from scenarios.faults.rack_cut import RackCut
from scenarios.faults.region_cut import RegionCut
from scenarios.faults.slow_process import SlowProcess
from tests.scenarios.misfortunes import Struck, struck

# Processes.


@pytest.mark.parametrize("seed", range(4))
def test_controller_that_is_named_dies(seed: int) -> None:
    """And no other; it is back when its time is over."""

    async def body(place: Struck) -> None:
        parts = (Consents(called="one"), Consents(called="two"), Consents(called="three"))
        controllers = place.stage.controllers = Controllers(parts, seed)
        for part in parts:
            await controllers.start(part, place.world.user(f"client.controller.{part.called}"))
        dead = place.begin(ControllerDead(called="two", down_seconds=40.0))
        await place.sleep(20)
        assert [True, False, True] == [await controllers.kill(part) for part in parts]
        await dead
        assert [False, True, False] == [await controllers.kill(part) for part in parts]

    struck(body, seed)


def test_pause_stops_a_process_and_nothing_else() -> None:
    """It says nothing meanwhile, while others do; then it goes on in the life that it had."""

    async def body(place: Struck) -> None:
        said: list[tuple[float, str]] = []
        place.world.overhear((WorkerBeat,), lambda sender, _: said.append((place.world.now(), sender)))
        worker = place.unit("worker", "r0", "w1")
        open_before = worker.open
        begun = place.world.now()
        paused = place.begin(Pause(role="worker", region="r0", member="w1", for_seconds=40.0))
        await place.sleep(100)
        await paused
        mine = [at - begun for at, sender in said if sender == worker.bus_name]
        others = [at - begun for at, sender in said if sender == "worker.r0.w0"]
        assert [] == [at for at in mine if 0 < at < 40]
        assert len([at for at in others if 0 < at < 40]) > 5
        assert len([at for at in mine if at >= 40]) > 5
        assert open_before is worker.open
        assert 0 == place.world.kills

    struck(body)


def test_slow_process_runs_a_share_of_the_time() -> None:
    """Looked at a thousand times, it stands still as often as it should."""

    async def body(place: Struck) -> None:
        broker = place.unit("region_broker", "r1")
        place.begin(SlowProcess(role="region_broker", region="r1", share=0.25, for_seconds=60.0))
        still = 0
        for _ in range(1000):
            await place.sleep(0.05)
            still += bool(broker.pauses)
        assert 0.6 < still / 1000 < 0.9
        await place.sleep(20)
        assert 0 == broker.pauses

    struck(body)


def test_crash_ends_a_life() -> None:
    """What comes up later is another process."""

    async def body(place: Struck) -> None:
        queue = place.unit("job_queue")
        before = queue.open
        crash = place.begin(Crash(role="job_queue", down_seconds=3.0))
        await place.sleep(1)
        assert ["job_queue"] == await place.world.dead()
        await crash
        await place.sleep(5)
        assert [] == await place.world.dead()
        assert queue.open is not before

    struck(body)


# Messages.


@pytest.mark.parametrize("one_way", [False, True])
def test_partition_cuts_the_named_components(one_way: bool) -> None:
    """In one direction, or both, and no others."""

    async def body(place: Struck) -> None:
        cut = place.world.network.is_cut
        fault = Partition(ones=("store.r0",), others=("broker.*",), one_way=one_way, for_seconds=10.0)
        place.begin(fault)
        await place.sleep(5)
        assert cut("store.r0", "broker.r1")
        assert (not one_way) == cut("broker.r1", "store.r0")
        assert not cut("store.r0", "queue")
        await place.sleep(6)
        assert not cut("store.r0", "broker.r1")

    struck(body)


def test_partition_without_names_has_two_sides() -> None:
    """Everybody, users too, is on one of them; who is named alone is cut from all others and not from itself."""

    async def body(place: Struck) -> None:
        cut = place.world.network.is_cut
        names = [*(one.bus_name for one in place.world.all), "client.user"]
        place.begin(Partition(for_seconds=10.0))
        await place.sleep(5)
        sides = {tuple(other for other in names if not cut(name, other)) for name in names}
        assert 2 == len(sides)
        assert sorted(names) == sorted(name for side in sides for name in side)
        await place.sleep(6)
        place.begin(Partition(ones=("agent.r0.*",), for_seconds=10.0))
        await place.sleep(5)
        assert not cut("agent.r0.a0", "agent.r0.a1")
        assert cut("agent.r0.a0", "client.user")
        assert cut("queue", "agent.r0.a0")

    struck(body)


@pytest.mark.parametrize("one_way", [False, True])
def test_region_is_cut_at_its_border(one_way: bool) -> None:
    """Inside all is well, and outside too."""

    async def body(place: Struck) -> None:
        cut = place.world.network.is_cut
        place.begin(RegionCut(region="r0", one_way=one_way, for_seconds=10.0))
        await place.sleep(5)
        both = [cut("store.r0", "queue"), cut("queue", "store.r0")]
        assert [True] * 2 == both if not one_way else [False, True] == sorted(both)
        assert cut("reader.region.r0", "client.user") or cut("client.user", "reader.region.r0")
        assert not cut("store.r0", "broker.r0")
        assert not cut("store.r1", "queue")

    struck(body)


def test_rack_that_is_cut_is_cut_from_the_bus() -> None:
    """Its workers can tell, by their own round trips. A worker's nodes begin a rack, so it is one of the workers."""

    async def body(place: Struck) -> None:
        place.begin(RackCut(region="r1", for_seconds=10.0))
        await place.sleep(5)
        cut_off = [
            one.unit.name for one in place.world.all if place.world.network.is_cut(one.bus_name, one.bus_name)
        ]
        assert 1 == len(cut_off)
        assert cut_off[0].startswith("worker.r1.w")

    struck(body)


def test_messages_are_lost_late_and_repeated() -> None:
    """Each of the four disturbs its link and no other."""

    async def body(place: Struck) -> None:
        faults = (
            MessageLoss(ones=("queue",), share=0.5),
            MessageDelay(ones=("queue",), share=0.25, seconds=7.0),
            MessageRepeat(ones=("queue",), share=0.75, seconds=30.0),
            MessageReorder(ones=("queue",), share=0.25, seconds=3.0),
        )
        tasks = [place.begin(fault) for fault in faults]
        await place.sleep(1)
        between = place.world.network._between
        there = between("queue", "store.r0")
        assert (0.5, 0.75, 30 * SECOND) == (
            there.drop_probability,
            there.repeat_probability,
            there.repeat_delay,
        )
        assert 1 - 0.75 * 0.75 == pytest.approx(there.extra_delay_probability)
        assert 7 * SECOND == there.extra_delay
        assert there.is_reordering
        assert between("store.r0", "broker.r0") is place.world.network.faults
        for task in tasks:
            await place.cancel(task)
        assert between("queue", "store.r0") is place.world.network.faults

    struck(body)


@pytest.mark.parametrize("fault", [BusRestart(down_seconds=3.0), BusOutage(for_seconds=3.0)])
def test_bus_is_gone(fault: BusRestart | BusOutage) -> None:
    """Nobody is heard, and all find it when it is back."""

    async def body(place: Struck) -> None:
        def heard() -> int:
            return sum(place.world.network.delivered.values())

        place.begin(fault)
        await place.sleep(1)
        delivered = heard()
        assert [False] == [place.world.network.is_up]
        await place.sleep(1.9)
        assert delivered == heard()
        await place.sleep(5)
        assert [True] == [place.world.network.is_up]
        assert heard() > delivered

    struck(body)


def test_poison_becomes_dead_letters() -> None:
    """Every one that is spoiled and that somebody hears; nobody dies of one, nor of a question without sense."""

    async def body(place: Struck) -> None:
        await place.load()
        asked = place.users.bus.counts.said
        fault = place.begin(PoisonMessages(messages=400, questions_share=0.5, seconds=20.0))
        await fault
        await place.sleep(10)
        assert place.world.network.dead_letters > 100
        assert place.users.bus.counts.said - asked > 100
        assert [] == [one.unit.name for one in place.world.all if one.deaths]

    struck(body)

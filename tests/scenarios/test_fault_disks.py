"""What faults of disks, clocks and keepers do to a plane."""

import random

import pytest

from core.images.versions import VERSIONS
from core.messages.base import Message, Refused
from core.nouns.ids import GLOBAL_LOG, LogName
from core.nouns.instant import SECOND
from core.nouns.reasons import Reason
from runtime.images import load_image
from scenarios.faults.clock_skew import ClockSkew
from scenarios.faults.clock_step import ClockStep
from scenarios.faults.crash import Crash
from scenarios.faults.disk_full import DiskFull
from scenarios.faults.failed_sync import FailedSync
from scenarios.faults.flipped_byte import FlippedByte
from scenarios.faults.lost_tail import LostTail
from scenarios.faults.old_build import OldBuild
from scenarios.faults.second_keeper import SecondKeeper
from scenarios.faults.slow_disk import SlowDisk
from scenarios.faults.torn_write import TornWrite
from store.memory_disk import Fate, MemoryDisk
from store.port import Snapshot
from tests.scenarios.misfortunes import Struck, storm_of, struck

R0_LOG = LogName("region.r0")


class Low(random.Random):
    """The first of whatever there is."""

    def random(self) -> float:
        """Nothing."""
        return 0.0


# Disks and clocks.


def test_full_disk_refuses_and_reads_on() -> None:
    """A submission is refused for want of room, a question is answered, and there is room again in the end."""

    async def body(place: Struck) -> None:
        await place.load()
        heard: list[tuple[str, str]] = []

        def hear(asked: Message, answer: Message) -> None:
            reason = answer.reason if isinstance(answer, Refused) else ""
            heard.append((type(asked).__name__, reason))

        place.users.heard.append(hear)
        known = place.users.workloads()[0]
        place.begin(DiskFull(role="job_queue", for_seconds=30.0))
        await place.sleep(1)
        await place.begin(storm_of(3, 1.0))
        await place.sleep(10)
        assert {("SubmitWorkload", str(Reason.LOG_FULL))} == set(heard)
        assert await place.users.show(known) is not None
        await place.sleep(40)
        assert 3 == len([word for word in heard if word == ("SubmitWorkload", "")])
        assert place.users.has_submitted_all

    struck(body)


def test_slow_disk_makes_users_wait() -> None:
    """What is asked for is told when it is durable."""

    async def body(place: Struck) -> None:
        place.begin(SlowDisk(role="job_queue", seconds=1.5, for_seconds=30.0))
        await place.sleep(1)
        begun = place.world.now()
        await place.begin(storm_of(1, 0.0))
        while not place.users.has_submitted_all:
            await place.sleep(0.01)
        assert 1.5 < place.world.now() - begun < 4

    struck(body)


def test_failed_sync_kills_its_keeper_once() -> None:
    """It dies of the batch, and comes back from its log."""

    async def body(place: Struck) -> None:
        fault = place.begin(FailedSync(role="job_queue"))
        await place.begin(storm_of(5, 4.0))
        await place.sleep(20)
        await fault
        (death,) = place.unit("job_queue").deaths
        assert death.startswith("AppendFailed")
        assert place.users.has_submitted_all
        assert [] == await place.world.dead()

    struck(body)


@pytest.mark.parametrize("fault", [LostTail, TornWrite])
def test_tail_is_lost_or_torn(
    monkeypatch: pytest.MonkeyPatch, fault: type[LostTail] | type[TornWrite]
) -> None:
    """Every strike finds rows that are written and not durable: they are gone, or torn without a mark; nobody had heard of any."""
    left: list[tuple[Fate, int, int, bool]] = []
    crash = MemoryDisk.crash

    def watched(disk: MemoryDisk, fate: Fate = Fate.LOST, name: LogName | None = None) -> None:
        assert name is not None
        file = disk.file(name)
        assert file is not None
        before = len(file.rows) - file.durable
        crash(disk, fate, name)
        left.append((fate, before, len(file.rows) - file.durable, file.is_under_way))

    monkeypatch.setattr(MemoryDisk, "crash", watched)

    async def body(place: Struck) -> None:
        await place.begin(storm_of(60, 60.0))
        for _ in range(4):
            await place.begin(fault(role="job_queue", down_seconds=1.0))
            assert place.stage.has_struck
            await place.sleep(2)
        await place.sleep(60)
        assert place.users.has_submitted_all
        lost = [
            workload for workload in place.users.workloads() if workload not in place.witness.submitted_at
        ]
        assert [] == lost

    struck(body)
    assert 4 <= len(left), "each of the four, and then whatever the end of the plane crashes"
    for fate, before, after, is_whole in left[:4]:
        assert before > 0
        if fault is LostTail:
            assert (Fate.LOST, 0, False) == (fate, after, is_whole)
        else:
            assert (Fate.TORN, (before + 1) // 2, False) == (fate, after, is_whole)


def test_crash_while_writing_leaves_whatever_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every strike finds rows that are written and of which nobody was told: over a few they are lost, torn and kept."""
    fates: list[Fate] = []
    crash = MemoryDisk.crash

    def watched(disk: MemoryDisk, fate: Fate = Fate.LOST, name: LogName | None = None) -> None:
        file = disk.file(name or GLOBAL_LOG)
        assert file is not None
        if len(fates) < 12:  # Then comes whatever the end of the plane crashes.
            assert file.is_under_way
        fates.append(fate)
        crash(disk, fate, name)

    monkeypatch.setattr(MemoryDisk, "crash", watched)

    async def body(place: Struck) -> None:
        await place.begin(storm_of(60, 60.0))
        for _ in range(12):
            await place.begin(Crash(role="job_queue", down_seconds=0.2, while_writing=True))
            assert place.stage.has_struck
        await place.sleep(60)
        assert place.users.has_submitted_all
        assert [] == [one for one in place.users.workloads() if one not in place.witness.submitted_at]

    struck(body)
    assert set(Fate) == set(fates[:12])


def test_keeper_that_writes_nothing_is_not_struck() -> None:
    """What was to hit its next batch waits three minutes for one, and then says that there was none."""

    async def body(place: Struck) -> None:
        await place.world.kill(place.unit("job_queue").unit)
        waiting = Crash(role="job_queue", while_writing=True)
        for fault in (
            LostTail(role="job_queue"),
            TornWrite(role="job_queue"),
            FailedSync(role="job_queue"),
            waiting,
        ):
            await place.begin(fault)
            assert not place.stage.has_struck
        assert 1 == place.world.kills
        assert 0.0 == place.world.store.slowness(GLOBAL_LOG)
        await place.world.revive(place.unit("job_queue").unit)
        await place.sleep(5)
        assert [] == await place.world.dead()

    struck(body)


def test_flipped_byte_is_found() -> None:
    """A keeper without a snapshot refuses its log for as long as it is broken, and takes it once it is mended."""

    async def body(place: Struck) -> None:
        await place.load()
        queue = place.unit("job_queue")
        fault = place.begin(FlippedByte(role="job_queue", for_seconds=20.0))
        await place.sleep(10)
        assert "LogBroken" in await place.world.last_death(queue.unit)
        assert ["job_queue"] == await place.world.dead()
        assert await place.world.verify(GLOBAL_LOG)
        await fault
        await place.sleep(20)
        assert [] == place.stage.problems
        assert [] == await place.world.dead()
        assert 0 == await place.world.verify(GLOBAL_LOG)

    struck(body)


def test_flipped_byte_below_a_snapshot_is_found_by_verify() -> None:
    """Its keeper starts from the snapshot and does not look below; whoever verifies the log does."""

    async def body(place: Struck) -> None:
        await place.load()
        reader = place.world.reader(GLOBAL_LOG)
        image, head, _ = await load_image(reader, GLOBAL_LOG)
        await reader.keep_snapshot(Snapshot(head, image.encode(), VERSIONS.made_of))
        place.stage.dice = Low()
        fault = place.begin(FlippedByte(role="job_queue", for_seconds=20.0))
        await place.sleep(10)
        assert [] == await place.world.dead()
        assert 1 == await place.world.verify(GLOBAL_LOG)
        await fault
        assert [] == place.stage.problems
        assert 0 == await place.world.verify(GLOBAL_LOG)

    struck(body)


@pytest.mark.parametrize("seed", [1, 2])
def test_clock_that_steps_is_read_at_the_next_start(seed: int) -> None:
    """What the keeper records then is dated so; if it stepped back, no earlier than what it had recorded before."""

    async def body(place: Struck) -> None:
        fault = ClockStep(role="job_queue", seconds=500.0, down_seconds=1.0, for_seconds=30.0)
        task = place.begin(fault)
        await place.sleep(10)
        now, fact = [one for one in place.witness.seen if one[1].log == GLOBAL_LOG][-1]
        off = (fact.at - now) / SECOND
        before = max(one[1].at for one in place.witness.seen[:-1] if one[1].log == GLOBAL_LOG)
        step = place.unit("job_queue").clock_step / SECOND
        assert abs(step) == 500
        assert fact.at >= before
        assert 500 == pytest.approx(off, abs=1) if step > 0 else off < -5
        await place.cancel(task)
        assert 0 == place.unit("job_queue").clock_step

    struck(body, seed)


@pytest.mark.parametrize("seed", [1, 2])
def test_clock_that_gains_or_loses_dates_facts(seed: int) -> None:
    """Ever more off, until it is right again after another start."""

    async def body(place: Struck) -> None:
        await place.load()
        task = place.begin(ClockSkew(role="job_queue", share=0.01, for_seconds=400.0))
        await place.sleep(300)
        skew = place.unit("job_queue").clock_skew
        await place.begin(storm_of(1, 0.0))
        await place.sleep(10)
        now, fact = [one for one in place.witness.seen if one[1].log == GLOBAL_LOG][-1]
        assert abs(skew) == 0.01
        assert 300 * skew == pytest.approx((fact.at - now) / SECOND, abs=0.3)
        await task
        assert 0.0 == place.unit("job_queue").clock_skew

    struck(body, seed)


# Keepers that should not be there.


@pytest.mark.parametrize("seed", range(1, 5))
def test_second_keeper_refuses_to_start(seed: int) -> None:
    """On the same disk, and elsewhere on an empty one; the first goes on as if nothing had been, paused or not."""

    async def body(place: Struck) -> None:
        queue = place.unit("job_queue")
        first = queue.open
        refusals = {(await place.world.start_second(queue.unit)).partition(":")[0] for _ in range(8)}
        assert {"LogInUse", "KeeperExists"} == refusals
        await place.begin(SecondKeeper())
        paused = await place.world.pause(queue.unit)
        await place.world.start_second(queue.unit)
        assert 1 == queue.pauses
        assert "job_queue" in place.loop._frozen
        await place.world.calm(paused)
        await place.sleep(5)
        assert [] == place.stage.problems
        assert queue.open is first

    struck(body, seed)


def test_second_keeper_beside_a_dead_one_leaves_it_its_log() -> None:
    """It may come up, and is gone at once: the first can have its log again."""

    async def body(place: Struck) -> None:
        queue = place.unit("job_queue").unit
        await place.world.kill(queue)
        assert "" in {await place.world.start_second(queue) for _ in range(6)}
        await place.begin(SecondKeeper(role="job_queue"))  # There is none to stand beside.
        await place.world.revive(queue)
        await place.sleep(5)
        assert [] == await place.world.dead()
        assert [] == place.stage.problems

    struck(body)


def test_old_build_leaves_the_log_alone() -> None:
    """It dies of what it does not know, on a copy; the log itself is as it was."""

    async def body(place: Struck) -> None:
        await place.load()
        store = place.unit("placement_store", "r0").unit
        assert (await place.world.start_old_build(store)).startswith("LogFromNewerBuild")
        await place.begin(OldBuild(role="placement_store", region="r0", down_seconds=1.0))
        await place.sleep(10)
        assert [] == place.stage.problems
        assert 0 == await place.world.verify(R0_LOG)

    struck(body)

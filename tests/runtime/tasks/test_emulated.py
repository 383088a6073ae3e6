"""Emulated shares on disk: whoever reads the journal finds what would have been, had nobody died."""

import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from core.component import Effect
from core.effects import ForgetShare, KeepHeard, PrepareShare, StartShare, StopShare
from core.messages.base import Message
from core.messages.harvest import NodeSize
from core.messages.workers import ISOLATED, TasksPhase
from core.nouns.function import Place as NodePlace
from core.nouns.ids import ShareKey, TenantName, WorkloadId
from core.nouns.instant import seconds
from core.nouns.quantities import NOTHING, Amount
from core.nouns.workload import Emulation, Serves
from runtime.spool import EmulatedSpool
from runtime.tasks.book import BookFiles, ExecutorUse, Harvested, HarvestNode
from runtime.tasks.emulated import EmulatedLender, EmulatedOnDisk
from runtime.tasks.errors import SpoolDamaged
from runtime.tasks.layout import EMULATED
from runtime.tasks.tasks_first import Clearing, TaskBook
from tests.runtime.aids import Place, in_virtual_time
from tests.runtime.tasks.aids import JOB, emulated

ML = TenantName("ml")
Body = Callable[[Place, Path], Coroutine[Any, Any, None]]  # Any: as typeshed


def on_disk(body: Body) -> Callable[[Path], None]:
    """A test whose body runs in virtual time, with a journal that is not there yet."""

    def test(tmp_path: Path) -> None:
        in_virtual_time(lambda place: body(place, tmp_path / "emulated.jsonl"))

    test.__name__ = test.__qualname__ = getattr(body, "__name__", "test")
    test.__doc__ = body.__doc__
    test.__module__ = body.__module__
    return test


class Served:
    """A process that serves the shares of one journal."""

    def __init__(self, place: Place, path: Path) -> None:
        self.heard: list[Message] = []
        clock, book = place.clock(), path.parent / "book"
        self.book = BookFiles(book)
        self.began = place.loop.time()
        self.clearing = Clearing(TaskBook(self.book, clock.now, lambda _: None))
        self.shares = EmulatedOnDisk(
            "w0", clock, path, self.heard.append, book / EMULATED, EmulatedLender(self.clearing)
        )

    def keep_harvested(self) -> None:
        """The region has all of the node harvested."""
        size = NodeSize(0, Amount(1_000), Amount(1_000), seconds(30))
        self.book.keep_harvested(Harvested(1, (HarvestNode(size),)))

    def lent(self) -> list[Amount]:
        """What it reports, which is what the book says."""
        (state,) = self.shares.states()
        lent = [one.lent for one in self.clearing.had_by(state.key) if one.lent != NOTHING]
        assert lent == [one.size for one in state.lends]
        return lent

    def begin(self, *effects: Effect) -> None:
        for effect in effects:
            self.shares.begin(effect)


@on_disk
async def test_progress_is_a_function_of_the_start(place: Place, path: Path) -> None:
    """After a pause of any length a share has saved and ended as if it had been watched."""
    command = emulated(30, checkpoint_every=8)
    Served(place, path).begin(PrepareShare(command), StartShare(ShareKey(JOB, 1), 11))
    await place.sleep(20)
    (state,) = Served(place, path).shares.states()
    assert (TasksPhase.RUNNING, 16_000) == (state.phase, state.saved_step)
    await place.sleep(20)
    (state,) = Served(place, path).shares.states()
    assert (TasksPhase.ENDED, 24_000, 0) == (state.phase, state.saved_step, state.exit_code)
    served = Served(place, path)
    served.begin(ForgetShare(ShareKey(JOB, 1), 30))
    assert () == Served(place, path).shares.states()


@on_disk
async def test_stop_is_remembered(place: Place, path: Path) -> None:
    """A share that was stopping ends when it would have, with what it saved in its grace."""
    command = emulated(100, checkpoint_every=60, stop_span=4)
    served = Served(place, path)
    served.begin(PrepareShare(command), StartShare(ShareKey(JOB, 1), 11))
    await place.sleep(20)
    served.begin(StopShare(ShareKey(JOB, 1), 12, seconds(30)))
    await place.sleep(2)
    (state,) = Served(place, path).shares.states()
    assert (TasksPhase.STOPPING, 20_000) == (state.phase, state.saved_step)
    await place.sleep(2)
    (state,) = Served(place, path).shares.states()
    assert (TasksPhase.ENDED, 143) == (state.phase, state.exit_code)


@on_disk
async def test_it_equals_a_spool_that_was_never_killed(place: Place, path: Path) -> None:
    """Whatever is done, and whenever its process dies: the same as the spool in memory, which never does."""
    dice = Random(5)
    unkilled = EmulatedSpool("w0", place.clock())
    served = Served(place, path)
    for number in range(300):
        key = ShareKey(WorkloadId(f"w-{dice.randrange(4)}"), 1, dice.randrange(-1, 2), dice.randrange(2))
        command = replace(
            emulated(dice.randrange(1, 60), checkpoint_every=7, stop_span=3), workload=key.workload
        )
        effect: Effect = dice.choice(
            [
                PrepareShare(command),
                StartShare(key, number),
                StartShare(key, number),
                StopShare(key, number, seconds(dice.randrange(5))),
                ForgetShare(key, number),
            ]
        )
        unkilled.catch_up(place.clock().now())
        unkilled.begin(effect)
        served.begin(effect)
        await place.sleep(dice.random() * 10)
        if dice.random() < 0.2:
            served = Served(place, path)
        unkilled.catch_up(place.clock().now())
        assert [share.state for share in unkilled.shares.values()] == sorted(
            served.shares.states(),
            key=lambda state: list(unkilled.shares).index(state.key),
        )


@on_disk
async def test_journal_stays_small(place: Place, path: Path) -> None:
    """What is forgotten leaves it, also while the process lives."""
    served = Served(place, path)
    for number in range(1000):
        key = ShareKey(WorkloadId(f"w-{number}"), 1)
        served.begin(
            PrepareShare(replace(emulated(1), workload=key.workload)),
            StopShare(key, 1, 0),
            ForgetShare(key, 2),
        )
    assert path.read_bytes().count(b"\n") < 300
    assert () == Served(place, path).shares.states()
    assert b"" == path.read_bytes()


@on_disk
async def test_line_that_was_cut_off(place: Place, path: Path) -> None:
    """Nobody heard of it, so it never happened."""
    Served(place, path).begin(PrepareShare(emulated(30)), StartShare(ShareKey(JOB, 1), 11))
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    (state,) = Served(place, path).shares.states()
    assert TasksPhase.PREPARED == state.phase
    Served(place, path).begin(StartShare(ShareKey(JOB, 1), 12))
    assert whole == path.read_bytes()


@on_disk
async def test_damaged_journal_is_explained(place: Place, path: Path) -> None:
    """By the line in it."""
    Served(place, path).begin(PrepareShare(emulated(30)), StartShare(ShareKey(JOB, 1), 11))
    for damage in (b'{"at":1', b'{"at":1,"deed":"sing","workload":"w","epoch":1}', b"\xff"):
        path.write_bytes(path.read_bytes().split(b"\n")[0] + b"\n" + damage + b"\n")
        with pytest.raises(SpoolDamaged, match=r"is damaged .line 2: "):
            Served(place, path)


@on_disk
async def test_journal_of_an_older_build(place: Place, path: Path) -> None:
    """Its lines name neither a task nor a run: they are of gangs."""
    Served(place, path).begin(
        PrepareShare(emulated(30)), StartShare(ShareKey(JOB, 1), 11), StopShare(ShareKey(JOB, 1), 12, 0)
    )
    deeds = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    for deed in deeds:
        assert not {"task", "run"} & set(deed)
        for name in ("task", "run", "isolation"):
            deed.get("command", {}).pop(name, None)
    path.write_bytes(b"".join(msgspec.json.encode(deed) + b"\n" for deed in deeds))
    (state,) = Served(place, path).shares.states()
    assert (ShareKey(JOB, 1), TasksPhase.ENDED, 143) == (state.key, state.phase, state.exit_code)


@on_disk
async def test_strict_share_that_stopped_by_itself(place: Place, path: Path) -> None:
    """T26: whoever reads the journal finds that, though its region was heard since; a new process counts from its own start."""
    served = Served(place, path)
    command = replace(emulated(500, stop_span=4), isolation=seconds(60))
    served.begin(PrepareShare(command), StartShare(command.key, 11))
    await place.sleep(50)
    served = Served(place, path)
    await place.sleep(50)
    (state,) = served.shares.states()
    assert TasksPhase.RUNNING == state.phase
    await place.sleep(12)
    served.shares.states()
    served.begin(KeepHeard(0))
    for _ in range(2):
        (state,) = Served(place, path).shares.states()
        assert TasksPhase.STOPPING == state.phase
    await place.sleep(3)
    (state,) = Served(place, path).shares.states()
    assert (TasksPhase.ENDED, ISOLATED) == (state.phase, state.exit_code)


@on_disk
async def test_pairs_equal_those_of_a_spool_that_was_never_killed(place: Place, path: Path) -> None:
    """Whoever came beside whom, and was forgotten: a new process finds every share where it would have been."""
    dice = Random(7)
    unkilled, served = EmulatedSpool("w0", place.clock()), Served(place, path)
    paces: set[int] = set()
    for number in range(600):
        key = ShareKey(WorkloadId(f"w-{dice.randrange(6)}"), 1)
        beside = (WorkloadId(f"w-{dice.randrange(6)}"), 1) if dice.random() < 0.7 else None
        emulation = Emulation(
            seconds(dice.randrange(1, 90)),
            checkpoint_every=seconds(7),
            stop_span=seconds(3),
            set_up=seconds(dice.randrange(3)),
            model=dice.choice("ab"),
            beside=tuple((model, dice.randrange(300_000, 1_000_000)) for model in "ab"),
        )
        command = emulated(1)
        command = replace(
            command,
            workload=key.workload,
            jobs=(replace(command.jobs[0], emulation=emulation),),
            beside=beside if beside != key.attempt else None,
        )
        ended = [one for one, share in unkilled.shares.items() if share.state.phase == TasksPhase.ENDED]
        effects: list[Effect] = [PrepareShare(command), StartShare(key, number), StartShare(key, number)]
        effects += [ForgetShare(dice.choice(ended), number)] * 2 if ended else []
        effects += [StopShare(key, number, seconds(dice.randrange(5)))] if dice.random() < 0.3 else []
        effect = dice.choice(effects)
        unkilled.catch_up(place.clock().now())
        unkilled.begin(effect)
        served.begin(effect)
        await place.sleep(dice.random() * 10)
        if dice.random() < 0.3:
            served = Served(place, path)
        unkilled.catch_up(place.clock().now())
        paces.update(share.part for share in unkilled.shares.values() if share.is_live)
        assert {share.state.key: share.state for share in unkilled.shares.values()} == {
            state.key: state for state in served.shares.states()
        }
    assert len(paces) > 20


@on_disk
async def test_journal_of_pairs_stays_small(place: Place, path: Path) -> None:
    """Each job is guest of the one before, for ever: what is forgotten leaves the journal all the same."""
    served = Served(place, path)
    for number in range(400):
        key, host = ShareKey(WorkloadId(f"w-{number + 1}"), 1), ShareKey(WorkloadId(f"w-{number}"), 1)
        command = replace(emulated(1_000), workload=key.workload, beside=host.attempt)
        served.begin(PrepareShare(command), StartShare(key, 1), StopShare(host, 1, 0))
        await place.sleep(1)
        served.begin(ForgetShare(host, 2))
    assert path.read_bytes().count(b"\n") < 300
    (state,) = Served(place, path).shares.states()
    assert ("w-400", TasksPhase.RUNNING) == (state.workload, state.phase)
    assert 1 == path.read_bytes().count(b"\n")


@on_disk
async def test_holdings_for_functions_are_in_the_device_book(place: Place, path: Path) -> None:
    """While tasks that serve run or stop, also before a worker that starts again has said a word."""
    command = emulated(1_000)
    (job,) = command.jobs
    command = replace(command, jobs=(replace(job, serves=Serves.OWN),), tenant=ML)
    files = BookFiles(path.parent / "book")

    def held() -> list[tuple[TenantName, bool, int]]:
        return [(one.tenant, one.is_ending, one.amount.gpu_milli) for one in files.holdings()]

    served = Served(place, path)
    served.begin(PrepareShare(command))
    assert [] == held()
    served.begin(StartShare(command.key, 11))
    assert [(ML, False, 1_000)] == held()
    (path.parent / "book" / EMULATED).unlink()
    served = Served(place, path)
    assert [(ML, False, 1_000)] == held()
    served.begin(StopShare(command.key, 12, seconds(30)))
    assert [(ML, True, 1_000)] == held()
    await place.sleep(0.3)
    served.shares.catch_up(place.clock().now())
    assert [(ML, True, 1_000)] == held()  # Executors leave it meanwhile.
    await place.sleep(0.3)
    served.shares.catch_up(place.clock().now())
    assert [] == held()


@on_disk
async def test_lending_goes_on_after_a_restart(place: Place, path: Path) -> None:
    """H-1: by its cycle, whenever the worker died. What the book says is lent stays lent until executors have left."""
    command = emulated(100)
    (job,) = command.jobs
    cycle = ((seconds(10), 0), (seconds(10), 1))
    command = replace(command, jobs=(replace(job, emulation=Emulation(seconds(100), idle=cycle)),))
    first = Served(place, path)
    first.keep_harvested()
    first.clearing.have(command)
    first.begin(PrepareShare(command), StartShare(command.key, 11))
    await place.sleep(15)
    first.shares.catch_up(place.clock().now())
    assert [Amount(1_000)] == first.lent()
    first.shares.close()
    executor = ExecutorUse(
        os.getpid(), os.getpid(), ML, (), (), Amount(1_000), NodePlace(0, is_harvested=True)
    )
    first.book.use([executor])
    await place.sleep(7)
    second = Served(place, path)
    second.clearing.adopt([command.key])
    for at in (22, 24, 26.5):
        await place.sleep(at - place.loop.time() + first.began)
        second.shares.catch_up(place.clock().now())
        expected = [Amount(1_000)] if at < 26 else []
        assert expected == second.lent(), at
        if at == 22:
            second.shares.close()
            second = Served(place, path)
            second.clearing.adopt([command.key])
        if at == 24:
            second.book.use([])

"""Emulated jobs that share a device: each keeps a part of its speed while the other runs there, and all of it before and after."""

from typing import Any

from msgspec.structs import replace

from core.effects import ForgetShare, PrepareShare, StartShare, StopShare
from core.messages.workers import PrepareTasks, TasksChanged, TasksPhase
from core.nouns.ids import AttemptKey, ShareKey, WorkloadId
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.sharing import WHOLE
from core.nouns.workload import Emulation
from runtime.emulated.pairs import Pairs
from scenarios.worlds.nodes import TroubledNodes
from tests.runtime.aids import Place, virtual
from tests.runtime.test_spool import JOB, Nodes, prepare

HOST: AttemptKey = (JOB, 1)
GUEST: AttemptKey = (WorkloadId("w-2"), 1)


def job(model: str, span: float, *beside: tuple[str, float], **more: Any) -> Emulation:  # Any: other fields
    """An emulated job of a model that takes so many seconds alone, and the part of its speed beside others."""
    kept = tuple((other, round(part * WHOLE)) for other, part in beside)
    return Emulation(work=seconds(span), model=model, beside=kept, **more)


def command(
    key: AttemptKey, emulation: Emulation, beside: AttemptKey | None = None, **more: Any
) -> PrepareTasks:  # Any: fields
    """Prepare one task of it, as a guest if a host is named."""
    return replace(prepare(emulation, epoch=key[1], **more), workload=key[0], beside=beside)


def run(nodes: Nodes, made: PrepareTasks) -> None:
    """Prepare and start it."""
    nodes.begin(PrepareShare(made), StartShare(made.key, 11))


def ends(nodes: Nodes) -> dict[str, float]:
    """When each workload ended, in seconds, or is to end."""
    words = {
        str(message.tasks.workload): at
        for at, message in nodes.heard
        if isinstance(message, TasksChanged) and message.tasks.phase == TasksPhase.ENDED
    }
    due = {
        str(key.workload): (
            share.ends_at - nodes.place.clock().now() + nodes.place.loop.now_ns() - nodes.began_at
        )
        / SECOND
        for key, share in nodes.spool.shares.items()
        if share.ends_at is not None
    }
    return words | due


@virtual
async def test_partner_that_comes_and_goes(place: Place) -> None:
    """The host is slowed from the guest's start to its end, and the guest beside the host: each by its own figures."""
    nodes = Nodes(place)
    run(nodes, command(HOST, job("a", 100, ("b", 0.5))))
    assert {"w-1": 100} == ends(nodes)
    await place.sleep(20)
    run(nodes, command(GUEST, job("b", 30, ("a", 0.75)), HOST))
    # The guest needs 40 s at three quarters. Meanwhile the host does 20 s of work, and then the 60 s that are left.
    assert {"w-1": 20 + 160, "w-2": 60} == ends(nodes)
    await place.sleep(50)
    assert {"w-1": 120, "w-2": 60} == ends(nodes)
    await place.sleep(100)
    assert {"w-1": 120, "w-2": 60} == ends(nodes)


@virtual
async def test_guest_that_outlives_its_host(place: Place) -> None:
    """It goes on at full speed, and may be slowed by a guest of its own."""
    nodes = Nodes(place)
    run(nodes, command(HOST, job("a", 10)))
    run(nodes, command(GUEST, job("b", 40, ("a", 0.5), ("c", 0.25)), HOST))
    await place.sleep(11)
    assert {"w-1": 10, "w-2": 45} == ends(nodes)
    nodes.begin(ForgetShare(ShareKey(*HOST), 12))
    run(nodes, command((WorkloadId("w-3"), 1), job("c", 20), GUEST))
    assert {"w-1": 10, "w-2": 147, "w-3": 31} == ends(nodes)
    await place.sleep(200)
    assert {"w-1": 10, "w-2": 60, "w-3": 31} == ends(nodes)


@virtual
async def test_partner_of_which_nothing_is_said(place: Place) -> None:
    """It costs nothing; nor does a job of that model which runs on another device."""
    nodes = Nodes(place)
    run(nodes, command(HOST, job("a", 100, ("b", 0.5))))
    run(nodes, command(GUEST, job("c", 50), HOST))
    run(nodes, command((WorkloadId("w-3"), 1), job("b", 50)))
    run(nodes, command((WorkloadId("w-4"), 1), job("b", 50), (WorkloadId("w-9"), 1)))
    assert {"w-1": 100, "w-2": 50, "w-3": 50, "w-4": 50} == ends(nodes)


@virtual
async def test_partner_that_is_only_prepared_or_is_stopping(place: Place) -> None:
    """A job slows the other from its start until none of it runs: also while it writes its last checkpoint."""
    nodes = Nodes(place)
    run(nodes, command(HOST, job("a", 100, ("b", 0.5))))
    nodes.begin(PrepareShare(command(GUEST, job("b", 500, stop_span=seconds(20)), HOST)))
    await place.sleep(10)
    assert {"w-1": 100} == ends(nodes)
    nodes.begin(StartShare(ShareKey(*GUEST), 12))
    await place.sleep(20)
    nodes.begin(StopShare(ShareKey(*GUEST), 13, seconds(60)))
    assert {"w-1": 190, "w-2": 50} == ends(nodes)
    await place.sleep(30)
    assert {"w-1": 120, "w-2": 50} == ends(nodes)


@virtual
async def test_checkpoints_tell_the_pace(place: Place) -> None:
    """They come at the same times, with fewer steps in between; a stop saves the step that was reached."""
    nodes = Nodes(place)
    steps = {"steps": 1_000, "speeds": (("H100", 10_000_000),)}
    run(nodes, command(HOST, job("a", 100, ("b", 0.5), checkpoint_every=seconds(10), **steps)))
    await place.sleep(20)
    run(nodes, command(GUEST, job("b", 20), HOST))
    await place.sleep(35)
    saved = [step for _, phase, step, _ in nodes.words() if phase == "running" and step]
    assert [100, 200, 250, 300, 400] == saved
    nodes.begin(StopShare(ShareKey(*HOST), 12, seconds(5)))
    assert 450 == nodes.spool.shares[ShareKey(*HOST)].state.saved_step


@virtual
async def test_set_up_is_not_slowed(place: Place) -> None:
    """Containers and imports need no GPU: a partner costs work alone, and so is a failure that comes after so much of it."""
    nodes = Nodes(place)
    run(nodes, command(HOST, job("a", 100)))
    run(nodes, command(GUEST, job("b", 30, ("a", 0.5), set_up=seconds(10)), HOST))
    run(nodes, command((WorkloadId("w-3"), 1), job("b", 30, ("a", 0.5), fails_after=seconds(10)), HOST))
    assert {"w-1": 100, "w-2": 70, "w-3": 20} == ends(nodes)


@virtual
async def test_pair_on_nodes_that_stand_still(place: Place) -> None:
    """Nothing goes on meanwhile, whenever the partner was told to come: everything ends later by that."""
    nodes = Nodes(place)
    nodes.spool = TroubledNodes("w0", place.clock(), (0,))
    run(nodes, command(HOST, job("a", 100, ("b", 0.5))))
    await place.sleep(10)
    thaw = nodes.spool.freeze()
    await place.sleep(20)
    run(nodes, command(GUEST, job("b", 20), HOST))
    await place.sleep(30)
    thaw()
    nodes.spool.catch_up(place.clock().now())
    assert {"w-1": 60 + 180, "w-2": 80} == ends(nodes)
    await place.sleep(20)
    nodes.spool.catch_up(place.clock().now())
    assert 60 + 20 + 80 == ends(nodes)["w-1"]


def test_shares_that_are_dropped_leave_nothing() -> None:
    """The index forgets whom it is told to forget, and names the mates of the others."""
    pairs = Pairs()
    host, guest = command(HOST, job("a", 1)), command(GUEST, job("b", 1), HOST)
    pairs.add(guest)
    assert [] == pairs.mates(guest)
    assert [guest.key] == pairs.mates(host)
    pairs.add(host)
    assert ([host.key], [guest.key]) == (pairs.mates(guest), pairs.mates(host))
    pairs.drop(host)
    pairs.drop(host)
    assert [] == pairs.mates(guest)
    pairs.drop(guest)
    assert ({}, {}) == (pairs._of, pairs._beside)


@virtual
async def test_part_that_does_not_divide(place: Place) -> None:
    """Whatever the part, all work is done at the end, and not long before it."""
    for part in (1, 333_333, 999_999):
        nodes = Nodes(place)
        emulation = replace(job("a", 1), beside=(("b", part),), work=Nanoseconds(1_000_001))
        run(nodes, command(HOST, emulation))
        run(nodes, command(GUEST, job("b", 10_000), HOST))
        share = nodes.spool.shares[ShareKey(*HOST)]
        assert share.ends_at is not None
        done = (share.ends_at - share.started_at) * part // WHOLE
        assert 1_000_001 <= done <= 1_000_001 + 1

"""Which device of its node a part of a GPU is on: in the rule, in the region's image, and in an agent's arrays."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.claims.checks import fits_promised, has_capacity, nodes_without_capacity
from core.device_shares import FreeDevices, Leaving, device_for, fits, left_of, promise
from core.events.region import AttemptEnded, ClaimGranted
from core.fact import Event
from core.images import RegionImage
from core.images.capacity import Capacity
from core.images.devices import SharedDevices
from core.invariants.consistency import check_devices, check_grant, check_ledger
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import EndCause
from core.placing.pool_set import Asker
from tests.builders import a_claim, a_job, a_region, a_spread, amount, attempt, granted, joined, promised
from tests.core.histories import RegionHistory
from tests.core.placing.searching import placer_of

PARTS = st.integers(1, MILLI - 1)
DEVICES = 4


@given(st.lists(st.tuples(st.booleans(), PARTS), max_size=40))
def test_devices_are_never_overcommitted_and_are_whole_in_the_end(steps: list[tuple[bool, int]]) -> None:
    """Whatever comes and goes, each device holds at most itself, a part is where it was put, and in the end none is left."""
    devices = SharedDevices()
    held: list[tuple[int, int]] = []
    for comes, part in steps:
        if comes or not held:
            before = devices.free(0)
            device = devices.put(0, part)
            fitting = [room for room in before.values() if room >= part]
            assert before.get(device, MILLI) == min(fitting, default=MILLI)
            assert device in before or device <= len(before)
            held.append((device, part))
        else:
            devices.remove(0, *held.pop(part % len(held)))
        counted: dict[int, int] = {}
        for device, milli in held:
            counted[device] = counted.get(device, 0) + milli
        assert max(counted.values(), default=0) <= MILLI
        assert counted == (devices.by_node[0].used if held else {})
    for device, part in held:
        devices.remove(0, device, part)
    assert SharedDevices() == devices


def packs(free: list[int], parts: list[int]) -> bool:
    """By brute force: whether these parts go on devices of which so much is free."""
    if not parts:
        return True
    return any(
        room >= parts[0] and packs([*free[:at], room - parts[0], *free[at + 1 :]], parts[1:])
        for at, room in enumerate(free)
    )


@given(
    st.integers(0, 3),
    st.lists(PARTS, max_size=3),
    st.integers(0, 3),
    st.integers(0, 4),
    PARTS,
    st.booleans(),
)
def test_like_parts_fit_when_anything_does(
    whole: int, shared: list[int], wanted: int, tasks: int, part: int, is_row: bool
) -> None:
    """Of parts of one size as many fit as there is any way to place them; and nothing fits that no way would hold."""
    parts = [part] * tasks
    possible = wanted <= whole and packs([MILLI] * (whole - wanted) + shared, parts)
    if is_row:
        free, need = whole * MILLI + sum(shared), wanted * MILLI + sum(parts)
        assert possible == fits(free, shared, need, parts)
    else:
        assert possible == FreeDevices(whole, dict(enumerate(shared))).take(wanted, parts)


@given(st.integers(0, 3), st.lists(PARTS, max_size=3), st.lists(PARTS, max_size=5))
def test_unlike_parts_never_fit_where_nothing_would_hold_them(
    whole: int, shared: list[int], parts: list[int]
) -> None:
    """The rule may miss a way to place parts of several sizes; it never finds one that is none."""
    if FreeDevices(whole, dict(enumerate(shared))).take(0, parts):
        assert packs([MILLI] * whole + shared, parts)


@given(
    st.integers(0, 2),
    st.lists(st.tuples(st.integers(1, 500), st.integers(0, 499)), max_size=3),
    st.integers(0, 2),
    st.integers(0, 2),
    st.integers(0, 3),
    PARTS,
)
def test_promise_fits_once_victims_have_left(
    whole: int, holders: list[tuple[int, int]], victims_whole: int, wanted: int, tasks: int, part: int
) -> None:
    """Whatever others take of the rest, the promise fits when the last victim has left."""
    shared = {device: MILLI - mine - theirs for device, (mine, theirs) in enumerate(holders)}
    leaving = Leaving(victims_whole, {d: mine for d, (mine, _) in enumerate(holders)})
    parts = [part] * tasks
    if not FreeDevices(whole, dict(shared)).after(leaving).take(wanted, parts):
        return
    left = FreeDevices(whole, dict(shared))
    kept, opened = promise(left, leaving, wanted, parts)
    assert left.whole == whole - opened >= 0
    assert {d: room - kept.get(d, 0) for d, room in shared.items()} == left.shared
    assert min(left.shared.values(), default=0) >= 0
    # Others take all that is left.
    then = FreeDevices(whole - left.whole, {device: kept.get(device, 0) for device in shared})
    assert then.after(leaving).take(wanted, parts)


def test_a_part_goes_to_the_fullest_device_that_holds_it() -> None:
    """Ties go to the lowest number; where none holds it, to the lowest number that is not in use."""
    assert 1 == device_for({0: 700, 1: 400, 2: 400}, 300)
    assert 0 == device_for({0: 700, 1: 400, 3: 400}, 500)
    assert 2 == device_for({0: 700, 1: 400, 3: 400}, 800)
    assert (100, 700) == left_of((400, 700), [300])


# The image and the store.


def parts_on(name: str, tasks: int, gpus: float, node: int = 0) -> ClaimGranted:
    """An attempt with so many tasks on one node."""
    job = a_job(tasks, gpus)
    return granted(a_claim(name, jobs=(job,), spreads=(a_spread({node: tasks}),)), is_merged=False)


def a_small_region(*events: Event) -> RegionImage:
    """One node of two devices, and what happened there."""
    return a_region(joined("w0", 0, 1, total=amount(2, 64, 512)), *events)


def test_two_parts_fit_two_devices_and_the_third_does_not() -> None:
    """600 + 600 milli leave 800 of 2,000 and no room for 600 more, nor for a whole device, but for 400."""
    image = a_small_region(parts_on("w-1", 2, 0.6))
    capacity = image.capacity
    assert {0: 600, 1: 600} == capacity.devices.by_node[0].used
    assert (400, 400) == capacity.node_row(0).parts
    for gpus, short in ((0.6, (0,)), (1, (0,)), (0.4, ())):
        claim = a_claim("w-2", jobs=(a_job(1, gpus),), spreads=(a_spread({0: 1}),))
        assert short == nodes_without_capacity(claim, capacity)
        assert bool(short) == bool(check_grant(claim, image))
    assert [] == check_ledger(capacity)


def test_device_without_parts_is_whole_again() -> None:
    """The next part of another size has capacity there."""
    image = a_small_region(
        parts_on("w-1", 1, 0.6),
        parts_on("w-2", 1, 0.6),
        AttemptEnded(*attempt("w-1"), EndCause.COMPLETED, 0, 600),
    )
    assert {1: 600} == image.capacity.devices.by_node[0].used
    assert image.capacity.room(0) == FreeDevices(1, {1: 400})
    assert () == nodes_without_capacity(
        a_claim("w-3", jobs=(a_job(1, 1),), spreads=(a_spread({0: 1}),)), image.capacity
    )


def test_overcommitted_devices_are_found() -> None:
    """Rule 1: by device, whatever the sums say."""
    image = a_small_region(parts_on("w-1", 2, 0.6))
    capacity = image.capacity
    assert [] == check_devices(capacity, [0])
    capacity.devices.by_node[0].used = {0: 1200}
    assert 1 == len(check_devices(capacity, [0]))
    capacity.devices.by_node[0].used = {0: 400, 1: 400, 2: 400}
    assert 1 == len(check_devices(capacity, [0]))
    capacity.devices.by_node[0].used = {0: 600}
    assert 1 == len(check_devices(capacity, [0]))
    assert check_ledger(capacity)


def test_devices_of_a_lost_node_and_devices_promised_twice_are_found() -> None:
    """Rule 1: nothing is held on a lost node's devices, and a part that is promised fits beside what is held."""
    image = a_small_region(parts_on("w-1", 2, 0.6))
    capacity = image.capacity
    shared = capacity.devices.by_node[0]
    shared.promised = {0: 400}
    assert [] == check_devices(capacity, [0])
    shared.promised = {0: 401}
    assert ["node 0: 401 milli of shared device 0 are promised twice"] == check_devices(capacity, [0])
    shared.promised = {}
    capacity.is_lost[0] = True
    assert ["node 0: {0: 600, 1: 600} milli are held on its shared devices"] == check_devices(capacity, [0])


def test_devices_that_differ_from_what_attempts_hold_are_found() -> None:
    """Rule 1, over the whole image: each part of an attempt is on a device, and on the device that counts it."""
    capacity = a_small_region(parts_on("w-1", 2, 0.6)).capacity
    assert [] == check_ledger(capacity)
    capacity.devices.by_node[0].used = {0: 600, 2: 600}
    wanted = "shared devices hold {0: {0: 600, 2: 600}}, and attempts hold"
    assert [True] == [text.startswith(wanted) for text in check_ledger(capacity)]
    capacity = a_small_region(parts_on("w-1", 2, 0.6)).capacity
    held = capacity.holding(*attempt("w-1"))
    assert held is not None
    held.parts.clear()
    assert "w-1.1: not each of its parts of a device has one" in check_ledger(capacity)
    capacity = a_small_region(parts_on("w-1", 2, 0.6)).capacity
    capacity.devices.by_node[0].promised = {0: 401}
    assert ["node 0: 401 milli of shared device 0 are promised twice"] == check_ledger(capacity)


def test_promise_keeps_the_device_that_its_victim_shares() -> None:
    """Beside a victim's part what is promised is kept from others; once it ends, the promise fits."""
    job = a_job(1, 1)
    claim = a_claim("w-9", jobs=(job,), spreads=(a_spread({0: 1}),), priority=9, victims=(attempt("w-1"),))
    image = a_small_region(parts_on("w-1", 1, 0.6), parts_on("w-2", 1, 0.6))
    capacity = image.capacity
    assert () == nodes_without_capacity(claim, capacity)
    image = a_small_region(parts_on("w-1", 1, 0.6), parts_on("w-2", 1, 0.6), promised(claim))
    capacity = image.capacity
    small = a_claim("w-3", jobs=(a_job(1, 0.4),), spreads=(a_spread({0: 1}),))
    assert (400,) == capacity.node_row(0).parts
    assert () == nodes_without_capacity(small, capacity)
    two = a_claim("w-3", jobs=(a_job(2, 0.4),), spreads=(a_spread({0: 2}),))
    assert (0,) == nodes_without_capacity(two, capacity)
    assert fits_promised(claim, capacity)
    assert not fits_promised(replace(claim, jobs=(a_job(2, 0.9),), spreads=(a_spread({0: 2}),)), capacity)


@pytest.mark.parametrize("seed", range(6))
def test_devices_of_a_random_history(seed: int) -> None:
    """After every fact no device holds more than it is, and each part lies on one; rows and arrays tell the same."""
    history = RegionHistory(seed)
    history.draw(0)
    image = RegionImage.empty()
    folded = shared = 0
    for _ in range(150):
        history.step()
        for fact in history.facts[folded:]:
            image.fold(fact)
            assert [] == check_ledger(image.capacity)
            shared += len(image.capacity.devices.by_node)
        folded = len(history.facts)
    assert shared > 50
    capacity = image.capacity
    placer = placer_of(capacity)
    placer.refresh()
    for gpus in (0.3, 0.6, 0.9, 1, 2):
        for gpu_type in ("H100", "A100"):
            job = a_job(1, gpus, gpu_type=gpu_type)
            fitting = sum(
                next(tasks for tasks in count() if not room_for(capacity, node, job.need, tasks + 1))
                for node, node_type in enumerate(capacity.node_type)
                if job.takes(node_type) and capacity.is_open(node)
            )
            assert fitting == placer.pools.capacity_for(job, Asker())


def room_for(capacity: Capacity, node: int, need: Amount, tasks: int) -> bool:
    """Whether so many tasks fit, by the store's rule."""
    part = need.gpu_milli % MILLI
    return has_capacity(capacity, node, need.times(tasks), [part] * tasks if part else [])

"""When a workload that finds no room could start at the latest, and where, beside every possibility."""

import random

import pytest
from msgspec.structs import replace

from core.claims.reservations import why_not_reserved
from core.events.region import AttemptEnded, GangStarted, StopOrdered
from core.fact import Event
from core.images import RegionImage
from core.images.capacity import Holding
from core.images.reservations import ReservedStart
from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import SECOND, Instant, seconds
from core.nouns.limits import CLOCKS_APART, END_SLACK, GRACE, START_SPAN
from core.nouns.placement import needs_of
from core.nouns.pool import PoolSettings
from core.nouns.starts import EarliestStart, StartOver
from core.nouns.workload import EndCause, Extent, JobSpec, Kind, Topology
from core.placing.index.overlay import Overlay
from core.placing.placer import Placer
from core.placing.pool_set import Asker
from core.rules.placement.rule_sets import PLAIN
from tests.builders import START, a_claim, a_job, a_region, attempt, granted, joined, promised
from tests.core.placing.searching import CHOICE, placer_of

NOW = Instant(START + 100 * SECOND)
W1 = WorkloadId("w-1")


def held(workload: str, node: int, gpus: int, lasts: float = 0, kind: Kind = Kind.TRAINING) -> Event:
    """One that holds so many GPUs of a node, and may last so many seconds; 0: for ever."""
    claim = a_claim(workload, placed={node: 1}, gpus=gpus, kind=kind)
    return granted(replace(claim, max_duration=seconds(lasts)))


def prospect(image: RegionImage, *jobs: JobSpec, now: Instant = NOW, priority: int = 3) -> EarliestStart:
    """Of a workload that is asked for now."""
    return placer_of(image.capacity).prospect(jobs or (a_job(2, 8),), Asker(priority=priority), CHOICE, now)


def gone_by(one: Holding) -> int | None:
    """By when it holds nothing any more, worked out anew."""
    bounds = []
    if one.is_ending:
        bounds.append(one.stopped_at + GRACE + END_SLACK)
    if one.claim.max_duration and one.claim.kind != Kind.SERVICE:
        since = one.started_at or one.granted_at + START_SPAN
        bounds.append(since + one.claim.max_duration + GRACE + END_SLACK)
    return min(bounds) if bounds and min(bounds) >= NOW else None


def drawn(dice: random.Random) -> list[Event]:
    """Four nodes of 8 GPUs, two a rack, with work of every sort on them."""
    events: list[Event] = [joined()]
    free = dict.fromkeys(range(4), 8)
    for number in range(dice.randrange(3, 12)):
        node, gpus = dice.randrange(4), dice.randrange(1, 9)
        if free[node] < gpus:
            continue
        free[node] -= gpus
        lasts = dice.choice((0, 1, 20, 60, 300, 301, 4000))
        kind = dice.choice((Kind.TRAINING, Kind.TRAINING, Kind.SERVICE, Kind.INTERACTIVE))
        events.append(held(f"w-{number + 10}", node, gpus, lasts, kind))
        key = attempt(f"w-{number + 10}")
        if dice.random() < 0.7:
            events.append(GangStarted(*key))
        if dice.random() < 0.2:
            events.append(StopOrdered(*key, EndCause.CANCELLED))
        elif dice.random() < 0.1:
            events.append(AttemptEnded(*key, EndCause.COMPLETED))
            free[node] += gpus
    return events


def brute(image: RegionImage, tasks: int, gpus: int, pack: Extent) -> int | None:
    """The earliest time at which so many tasks fit, by trying each."""
    live = [one for _, _, one in image.capacity.live()]
    times = sorted({NOW, *(bound for one in live if (bound := gone_by(one)) is not None)})
    for time in times:
        free = dict.fromkeys(range(4), 8000)
        for one in live:
            bound = gone_by(one)
            if bound is None or bound > time:
                for node, need in needs_of(one.claim).items():
                    free[node] -= need.gpu_milli
        fits = {node: room // (gpus * 1000) for node, room in free.items()}
        units = [(0, 1), (2, 3)] if pack is Extent.RACK else [(0, 1, 2, 3)]
        if any(sum(fits[node] for node in unit) >= tasks for unit in units):
            return time
    return None


@pytest.mark.parametrize("seed", range(150))
def test_beside_every_possibility(seed: int) -> None:
    """The earliest time at which it fits if everybody ends at their bound, on nodes that a store would reserve for it then."""
    dice = random.Random(seed)
    image = a_region(*drawn(dice))
    tasks, gpus = dice.randrange(1, 7), dice.choice((1, 2, 4, 8))
    pack = dice.choice((Extent.ANY, Extent.RACK))
    job = replace(a_job(tasks, gpus), topology=Topology(pack=pack))
    found, wanted = prospect(image, job), brute(image, tasks, gpus, pack)
    if wanted is None:
        assert not found.is_promisable
        return
    assert wanted - NOW + CLOCKS_APART == found.start_in
    row = a_start(found, job, starts_at=NOW + found.start_in)
    assert why_not(image, row) is None
    assert len({node // 2 for node in row.nodes()}) == 1 or pack is Extent.ANY
    if wanted > NOW:
        early = replace(row, starts_at=wanted - 1)
        assert why_not(image, early) is StartOver.NO_ROOM, "it would have been kept a moment too soon"


def a_start(found: EarliestStart, *jobs: JobSpec, starts_at: int) -> ReservedStart:
    """As it would be reserved."""
    return ReservedStart(1, 0, starts_at, 3, Kind.TRAINING, TenantName("default"), jobs, found.spreads, 1)


def why_not(image: RegionImage, row: ReservedStart) -> StartOver | None:
    """Why a store would not reserve it now."""
    placer = placer_of(image.capacity)
    return why_not_reserved(W1, row, image.starts, image.capacity, placer.owners, NOW)


def test_start_that_cannot_be_promised_has_the_gpus_held_for_ever() -> None:
    """Work without a longest duration, services among it, on nodes that would do; the rest of it could be had."""
    image = a_region(
        joined(),
        held("w-2", 0, 8),
        held("w-3", 1, 8, 60, Kind.SERVICE),
        held("w-4", 2, 4, 60),
        held("w-5", 3, 1, 60),
    )
    found = prospect(image, a_job(3, 8))
    assert EarliestStart(unbounded_gpu_milli=16_000) == found
    assert not found.is_promisable
    assert prospect(image, a_job(2, 8)).is_promisable


def test_gang_that_starts_counts_from_the_latest_start() -> None:
    """Nobody knows yet when it starts; what is recorded later than a start may come was told late."""
    grant = held("w-2", 0, 8, 50)
    waits, runs = (
        a_region(joined(nodes=1), grant),
        a_region(joined(nodes=1), grant, GangStarted(*attempt("w-2"))),
    )
    rest = seconds(50) + GRACE + END_SLACK + CLOCKS_APART
    granted_at, started_at = START + 2 * SECOND, START + 3 * SECOND
    assert granted_at + START_SPAN + rest - NOW == prospect(waits, a_job(1, 8)).start_in
    assert started_at + rest - NOW == prospect(runs, a_job(1, 8)).start_in


def test_attempt_past_its_longest_duration_is_not_counted_on() -> None:
    """Its end cannot be known any more."""
    image = a_region(joined(nodes=1), held("w-2", 0, 8, 50), GangStarted(*attempt("w-2")))
    late = Instant(NOW + seconds(1000))
    assert not prospect(image, a_job(1, 8), now=late).is_promisable


def test_victims_of_a_promise_leave_nothing_to_others() -> None:
    """What they leave is for whom they make room, and may be more than that; whoever waits for others does not count on it."""
    image = a_region(
        joined(nodes=1),
        held("w-2", 0, 8, 60),
        promised(a_claim("w-3", placed={0: 4}, priority=5, victims=(attempt("w-2"),))),
    )
    assert not prospect(image, a_job(1, 2)).is_promisable


def test_pool_that_keeps_something_free_promises_nothing() -> None:
    """Others may come so near to what is kept free that it may not start; healing work, which heeds none of it, may be promised."""
    image = a_region(joined(), held("w-2", 0, 8, 60), held("w-3", 1, 8, 60))
    settings = PoolSettings(reserve=1)
    placer = Placer(image.capacity, Overlay(), lambda _: PLAIN, settings_of=lambda _: settings)
    assert not placer.prospect((a_job(4, 8),), Asker(), CHOICE, NOW).is_promisable
    assert placer.prospect((a_job(4, 8),), Asker().unbound(), CHOICE, NOW).is_promisable

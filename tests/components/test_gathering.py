"""Room that is gathered for who has waited over quota for long."""

from itertools import groupby

import pytest

from components.fair_shares import is_held_back
from core.messages.base import LogSilent
from core.messages.queue import CancelWorkload, HoldWorkload
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import SHARES_INTERVAL
from core.nouns.ranking import CreditSettings, RankingSettings
from core.nouns.reasons import Reason
from tests.builders import EU, EU_LOG, US, a_job, joined
from tests.components.queueing import Start, a_job_queue
from tests.components.quota_scene import (
    ART,
    ML,
    Queue,
    award,
    ends,
    explained,
    listed,
    refuse,
    runs,
    tenant,
    waits,
)
from tests.components.test_fair_shares import OPS, asked_in, lent_out, rank_by, refusing

CAP = seconds(300)
BOTH = (EU, US)


def by_age(
    cap: Nanoseconds, *, lag_weight: int = CreditSettings().lag_weight, percent: int = 100
) -> RankingSettings:
    """After so long room is gathered, for as much as that."""
    return RankingSettings(CreditSettings(age_cap=cap, lag_weight=lag_weight), gather_percent=percent)


def gathered(queue: Queue) -> tuple[WorkloadId, RegionName] | None:
    """For whom, and where."""
    found = queue.state.gathered
    return None if found is None else (found.workload, found.region)


def aged(start: Start, *, cap: Nanoseconds = CAP, span: Nanoseconds = CAP) -> tuple[Queue, WorkloadId]:
    """ART, which has more than its due, wants two nodes more, and waited for so long, while both regions had no room."""
    queue = lent_out(start)
    rank_by(queue, by_age(cap))
    gang = waits(queue, of=ART, job=a_job(2, 8))
    queue.wake()
    refusing(queue, Nanoseconds(span + SHARES_INTERVAL))
    return queue, gang


def test_room_is_gathered_for_who_has_waited_for_long(start: Start) -> None:
    """In one region nobody else is lent anything, whoever is behind or ahead of its due; elsewhere all is as ever. It is told why."""
    queue, gang = aged(start)
    assert (gang, EU) == gathered(queue)
    others = [waits(queue, 1, of=tenant) for tenant in (ART, ML)]
    queue.wake()
    assert {(US,)} == {asked_in(queue, other) for other in others}
    assert EU == explained(queue, gang).gathered_in
    for other in others:
        refuse(queue, other, US)
    queue.wake()
    told = {one.region: one.reason for one in explained(queue, others[0]).regions}
    assert {EU: Reason.ROOM_GATHERED, US: Reason.NO_CAPACITY} == told
    assert (Reason.NO_CAPACITY, told) == (listed(queue, others[0]).reason, listed(queue, others[0]).refusals)
    assert "" == explained(queue, others[0]).gathered_in


def test_nothing_is_gathered_before(start: Start) -> None:
    """Nor where what is lent goes by the same credit as all else, as in the paper."""
    queue, _ = aged(start, span=Nanoseconds(CAP - 2 * SHARES_INTERVAL))
    assert gathered(queue) is None
    narrow = waits(queue, 1)
    queue.wake()
    assert BOTH == asked_in(queue, narrow)
    queue, _ = aged(start)
    rank_by(queue, by_age(CAP, lag_weight=0))
    refusing(queue, Nanoseconds(2 * SHARES_INTERVAL))
    assert gathered(queue) is None


def test_others_are_lent_there_again_once_it_is_awarded(start: Start) -> None:
    """At once, and then the next that has waited for long has its turn."""
    queue, gang = aged(start)
    narrow = waits(queue, of=ART, job=a_job(2, 2))
    queue.wake()
    assert (US,) == asked_in(queue, narrow)
    (first, *_) = queue.state.book.by_tenant[ART]
    ends(queue, first)
    refuse(queue, narrow, US)
    award(queue, gang, US)
    assert gathered(queue) is None
    refusing(queue, Nanoseconds(CAP + SHARES_INTERVAL))
    assert narrow == queue.state.gathered.workload


def test_whoever_waits_in_vain_gives_way_to_the_next(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, the oldest first, each for as long as patience lasts; then round again. Who is gone is forgotten."""
    monkeypatch.setattr("components.gathering.GATHER_PATIENCE", Nanoseconds(2 * SHARES_INTERVAL))
    queue, first = aged(start, span=Nanoseconds(0))
    second, third = (waits(queue, of=ML, job=a_job(3, 8)) for _ in range(2))
    queue.wake()
    refusing(queue, CAP)
    found: list[WorkloadId] = []
    for _ in range(10):
        refusing(queue, SHARES_INTERVAL)
        found.append(queue.state.gathered.workload)
    turns = [(name, len(list(all_of_them))) for name, all_of_them in groupby(found)]
    assert [(second, 2), (third, 2), (first, 2)] == turns[1:4]
    assert {first, second, third} == set(queue.state.gathered_until)
    queue.hear(CancelWorkload(second))
    queue.wait(SHARES_INTERVAL)
    assert {first, third} == set(queue.state.gathered_until)


def test_next_of_the_same_shape_is_found_behind_the_first(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a tenant's two gangs the first had its turn. It stands ahead of the other, and what comes free is not for it."""
    monkeypatch.setattr("components.gathering.GATHER_PATIENCE", Nanoseconds(2 * SHARES_INTERVAL))
    queue, first = aged(start, span=Nanoseconds(0))
    second = waits(queue, of=ART, job=a_job(2, 8))
    queue.wake()
    refusing(queue, Nanoseconds(CAP + 3 * SHARES_INTERVAL))
    assert (second, EU) == gathered(queue)
    (running, *_) = queue.state.book.by_tenant[ART]
    ends(queue, running)
    assert (US,) == asked_in(queue, first)
    refuse(queue, first, US)
    queue.wake()
    assert () == asked_in(queue, first)
    assert EU in asked_in(queue, second)


def test_room_is_gathered_where_the_least_of_it_is_missing(start: Start) -> None:
    """As its regions said; and where none was asked, for nothing may be lent now, where there is the most of what it wants."""
    queue = lent_out(start)
    rank_by(queue, by_age(CAP))
    gang = waits(queue, of=ART, job=a_job(1, 8))
    queue.wake()
    refusing(queue, Nanoseconds(CAP + SHARES_INTERVAL), missing={EU: 8_000, US: 3_000})
    assert (gang, US) == gathered(queue)
    queue = a_job_queue(start, us=joined(nodes=6))
    for name, gpus in ((ART, 40), (OPS, 40), (ML, 0)):
        tenant(queue, name, gpus)
    rank_by(queue, by_age(CAP))
    for number in range(4):
        runs(queue, of=OPS, region=EU, node=number)
        runs(queue, of=ART, region=US, node=number)
    runs(queue, of=ML, region=US, node=4)
    gang = waits(queue, of=ML, job=a_job(2, 8))
    queue.wake()
    queue.wait(Nanoseconds(CAP + SHARES_INTERVAL))
    assert (gang, US) == gathered(queue)


def test_who_is_held_back_is_gathered_for_too(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """ART had so much that it is lent nothing where ML is to start. For its gang, which has waited for long, room is gathered all the
    same, and then it is asked for there.
    """
    monkeypatch.setattr("components.fair_shares.LAG_SLACK", seconds(120))
    queue = lent_out(start)
    rank_by(queue, by_age(Nanoseconds(4 * CAP)))
    gang = waits(queue, of=ART, job=a_job(1, 8))
    queue.wake()
    refusing(queue, CAP)
    waits(queue, of=ML, job=a_job(2, 4))
    queue.wake()
    refusing(queue, Nanoseconds(2 * CAP))
    work = queue.state.order.work(gang)
    assert is_held_back(queue.state, work)
    (running, *_) = queue.state.book.by_tenant[ART]
    refusing(queue, Nanoseconds(2 * CAP))
    assert (gang, EU) == gathered(queue)
    assert is_held_back(queue.state, work)
    ends(queue, running)
    assert EU in asked_in(queue, gang)


def test_nothing_is_gathered_for_who_is_within_quota_now(start: Start) -> None:
    """Its tenant is entitled to more: it pushes others out."""
    queue, gang = aged(start)
    assert (gang, EU) == gathered(queue)
    tenant(queue, OPS, 0)
    tenant(queue, ART, 64)
    queue.wait(SHARES_INTERVAL)
    assert "within" == explained(queue, gang).standing
    assert gathered(queue) is None


@pytest.mark.parametrize("how", [CancelWorkload, lambda workload: HoldWorkload(workload, 0)])
def test_nothing_is_gathered_for_who_is_gone(start: Start, how: type[CancelWorkload]) -> None:
    """It wants nothing now."""
    queue, gang = aged(start)
    narrow = waits(queue, 1)
    queue.wake()
    assert (US,) == asked_in(queue, narrow)
    queue.hear(how(gang))
    queue.wait(SHARES_INTERVAL)
    queue.wake()
    assert gathered(queue) is None
    assert EU in asked_in(queue, narrow)


def test_nothing_is_gathered_for_what_cannot_be(start: Start) -> None:
    """No region has such hardware now; or more is wanted than others could lend, for they use it themselves."""
    queue = lent_out(start)
    rank_by(queue, by_age(CAP))
    waits(queue, of=ART, job=a_job(1, 8))
    queue.wake()
    refusing(queue, Nanoseconds(2 * CAP), Reason.NO_SUCH_HARDWARE)
    assert gathered(queue) is None
    queue, gang = aged(start, span=Nanoseconds(0))
    for first in list(queue.state.book.by_tenant[ART])[1:]:
        ends(queue, first, queue.state.image.workloads.rows[first].region)
        runs(queue, of=OPS, region=US, node=3)
    queue.wake()
    refusing(queue, Nanoseconds(2 * CAP))
    assert gathered(queue) is None
    assert gang in queue.state.order


def test_nothing_is_gathered_where_nobody_answers(start: Start) -> None:
    """Its region falls silent: the other one is chosen."""
    queue, gang = aged(start)
    assert (gang, EU) == gathered(queue)
    queue.hear(LogSilent(EU_LOG))
    refusing(queue, Nanoseconds(2 * SHARES_INTERVAL))
    assert (gang, US) == gathered(queue)


def test_nothing_is_gathered_for_more_than_a_part_of_all(start: Start) -> None:
    """Sixteen GPUs of 64 are a quarter."""
    for percent, expected in ((24, False), (25, True)):
        queue = lent_out(start)
        rank_by(queue, by_age(CAP, percent=percent))
        waits(queue, of=ART, job=a_job(2, 8))
        queue.wake()
        refusing(queue, Nanoseconds(CAP + SHARES_INTERVAL))
        assert expected is (gathered(queue) is not None)


def test_within_quota_pushes_out_elsewhere_first(start: Start) -> None:
    """ML is entitled to what it wants: where room is gathered it is asked for once the other region has refused."""
    queue, _ = aged(start)
    tenant(queue, ML, 16)
    own = waits(queue, 8)
    queue.wake()
    assert (US,) == asked_in(queue, own)
    refuse(queue, own, US)
    queue.wake()
    assert (EU,) == asked_in(queue, own)

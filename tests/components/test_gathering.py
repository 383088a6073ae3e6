"""Room that is gathered for who has waited over quota for long."""

import pytest
from msgspec.structs import replace

from core.messages.base import LogSilent
from core.messages.queue import CancelWorkload, HoldWorkload
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import SHARES_INTERVAL
from core.nouns.ranking import CreditSettings, RankingSettings
from core.nouns.reasons import Reason
from tests.builders import EU, EU_LOG, US, a_job, a_spec
from tests.components.queueing import Start, submit
from tests.components.quota_scene import ART, ML, Queue, award, ends, explained, listed, refuse, runs, waits
from tests.components.test_fair_shares import OPS, asked_in, lent_out, rank_by, refusing

CAP = seconds(300)
BOTH = (EU, US)


def gathered(queue: Queue) -> tuple[WorkloadId, RegionName] | None:
    """For whom, and where."""
    found = queue.state.gathered
    return None if found is None else (found.workload, found.region)


def aged(start: Start, *, cap: Nanoseconds = CAP, span: Nanoseconds = CAP) -> tuple[Queue, WorkloadId]:
    """ART, which has more than its due, wants two nodes more, and waited for so long, while both regions had no room."""
    queue = lent_out(start)
    rank_by(queue, RankingSettings(replace(CreditSettings(), age_cap=cap)))
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
    rank_by(queue, RankingSettings(replace(CreditSettings(), age_cap=CAP, lag_weight=0)))
    refusing(queue, Nanoseconds(2 * SHARES_INTERVAL))
    assert gathered(queue) is None


def test_within_quota_takes_what_is_gathered(start: Start) -> None:
    """It comes before whatever is lent: OPS is entitled to what it wants."""
    queue, _ = aged(start)
    own = waits(queue, 8, of=OPS)
    queue.wake()
    assert BOTH == asked_in(queue, own)


def test_who_it_is_gathered_for_is_asked_for_everywhere(start: Start) -> None:
    """Also where its tenant would be lent nothing, for having had so much."""
    queue, gang = aged(start)
    waits(queue, 8)
    queue.wake()
    refusing(queue, Nanoseconds(3 * SHARES_INTERVAL))
    assert queue.state.gathers_in is not None
    (first, *_) = queue.state.book.by_tenant[ART]
    ends(queue, first)
    assert BOTH == asked_in(queue, gang)


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
    """One after the other, the oldest first, and round again."""
    monkeypatch.setattr("components.gathering.GATHER_PATIENCE", Nanoseconds(2 * SHARES_INTERVAL))
    queue, gang = aged(start, span=Nanoseconds(0))
    second = waits(queue, of=ML, job=a_job(3, 8))
    queue.wake()
    found: list[WorkloadId] = []
    for _ in range(14):
        refusing(queue, SHARES_INTERVAL)
        one = gathered(queue)
        if one is not None and found[-1:] != [one[0]]:
            found.append(one[0])
    assert [gang, second, gang] == found[:3]


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
    rank_by(queue, RankingSettings(replace(CreditSettings(), age_cap=CAP)))
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


def test_line_of_whom_it_is_gathered_for_is_looked_through(start: Start) -> None:
    """The first of its shape is not the one it is gathered for: that one is found behind it, and asked for."""
    queue, gang = aged(start)
    queue.hear(HoldWorkload(gang, 0))
    second = submit(queue, a_spec(a_job(2, 8), tenant=ART), key="second")
    queue.wake()
    refusing(queue, Nanoseconds(CAP + 2 * SHARES_INTERVAL))
    assert (second, EU) == gathered(queue)

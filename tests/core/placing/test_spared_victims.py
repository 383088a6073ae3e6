"""Work that has not run as long as its tenant's runs at least: nobody pushes it out before, and the store holds to that too."""

import pytest
from msgspec.structs import replace

from core.claims.checks import check_victims
from core.events.region import AttemptRanked, GangStarted
from core.images.capacity import Capacity
from core.nouns.ids import WorkloadId
from core.nouns.instant import SECOND, Instant
from core.nouns.limits import START_SPAN
from core.nouns.reasons import Reason
from core.nouns.tenant import OVER_LEVEL
from core.placing.preemption.victims import candidates_under, spared_for
from tests.builders import a_claim, a_region, attempt, granted, joined

RUN_MIN = 600 * SECOND
MINE = replace(a_claim("w-1", placed={0: 1}, gpus=8, priority=1), run_min=RUN_MIN)
OTHER = a_claim("w-9", placed={0: 1}, gpus=8, priority=2, victims=(attempt("w-1"),))


def up() -> tuple[Capacity, Instant]:
    """A region in which all of it runs, and since when."""
    capacity = a_region(joined(), granted(MINE), GangStarted(*attempt("w-1"))).capacity
    return capacity, Instant(capacity.holdings[WorkloadId("w-1")][1].started_at)


@pytest.mark.parametrize(("ran", "is_victim"), [(0, False), (RUN_MIN - 1, False), (RUN_MIN, True)])
def test_it_is_spared_until_it_has_run_long_enough(ran: int, is_victim: bool) -> None:
    """By the agent that searches and by the store that judges; how long that takes yet is told."""
    capacity, since = up()
    at = Instant(since + ran)
    found = [workload for workload, _, _ in candidates_under(capacity, 2, at)]
    assert (["w-1"] if is_victim else []) == found
    assert (None if is_victim else Reason.CONFLICT) == check_victims(OTHER, capacity, at)
    assert max(0, RUN_MIN - ran) == spared_for(capacity, 2, at)
    assert 0 == spared_for(capacity, 1, at)


def test_it_is_spared_while_it_starts() -> None:
    """It has not run at all; whether it is up by then is asked when it must be."""
    capacity = a_region(joined(), granted(MINE)).capacity
    assert [] == candidates_under(capacity, 6, Instant(1 << 61))
    assert START_SPAN == spared_for(capacity, 6, Instant(5 * SECOND))


def test_work_over_quota_may_be_preempted_by_the_lowest_level() -> None:
    """M19: within quota at level 0 is above work over quota, and that is above nothing."""
    ranked = AttemptRanked(*attempt("w-1"), 2, OVER_LEVEL)
    capacity = a_region(joined(), granted(replace(MINE, run_min=0)), ranked).capacity
    assert ["w-1"] == [workload for workload, _, _ in candidates_under(capacity, 0, Instant(0))]
    assert [] == candidates_under(capacity, OVER_LEVEL, Instant(0))
    assert 2 == capacity.holdings[WorkloadId("w-1")][1].claim.standing_revision

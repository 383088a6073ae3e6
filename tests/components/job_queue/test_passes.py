"""A job queue that ranks in passes, as the paper's does."""

from core.messages.tenants import SetRanking
from core.nouns.instant import seconds
from core.nouns.ranking import RankingSettings
from core.nouns.reasons import Reason
from core.nouns.tenant import OVER_LEVEL
from tests.builders import EU, US
from tests.components.support.job_queue import (
    W1,
    W2,
    Start,
    a_job_queue,
    asked,
    auction_of,
    awards,
    bid,
    submit,
)
from tests.components.support.quota import ART, ML, bids, explained, levels, tenant, waits

PASS = seconds(300)


def test_submitted_workload_waits_for_the_next_pass(start: Start) -> None:
    """M9: and the queue wakes for the pass by itself; a repeat of the settings changes no pass."""
    machine = a_job_queue(start)
    machine.wait(seconds(1))
    for _ in range(2):
        machine.hear(SetRanking(RankingSettings(is_in_passes=True, pass_span=PASS), 0))
    machine.wake()
    submit(machine)
    assert [] == asked(machine.wake())
    opened = machine.wake(machine.state.passes_at)
    assert [(W1, EU), (W1, US)] == asked(opened)
    for region in (EU, US):
        bid(machine, auction_of(opened), region)
    assert [W1] == awards(machine.wake())
    submit(machine)
    assert [] == asked(machine.wake())
    assert W2 in {workload for workload, _ in asked(machine.wait(PASS))}


def test_workload_that_lost_its_quota_since_the_pass_is_passed_over(start: Start) -> None:
    """It was within quota at the newest pass, and its quota is gone: its bids are void once, and it is asked for at the next pass."""
    queue = a_job_queue(start)
    tenant(queue, ML, 8)
    tenant(queue, ART, 16)
    queue.hear(SetRanking(RankingSettings(is_in_passes=True, pass_span=PASS), 0))
    waits(queue)
    queue.wait(PASS)
    assert 3 == queue.state.auctions.open[W1].shape.level
    tenant(queue, ML, 0)
    auctions = 0
    while W1 in queue.state.auctions.open and auctions < 10:
        auctions += 1
        bids(queue, W1)
        queue.wake()
    assert 1 == auctions
    assert {} == levels(queue)
    assert Reason.NOT_RANKED == explained(queue, W1).reason
    queue.wait(PASS)
    assert OVER_LEVEL == queue.state.auctions.open[W1].shape.level
    bids(queue, W1)
    queue.wake()
    assert {W1: OVER_LEVEL} == levels(queue)

"""A workload whose attempt a failure of nodes ended: the queue says so to whoever may give it what is kept in reserve."""

import pytest

from core.messages.broker import ExecuteAward, SolicitBid
from core.nouns.limits import AWARD_SAY_AGAIN
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause
from tests.builders import EU, EU_LOG, a_spec
from tests.components.support.job_queue import (
    W1,
    W2,
    Start,
    a_job_queue,
    abstain,
    asked,
    auction_of,
    awarded,
    bid,
    ended,
    running,
    submit,
)
from tests.matching import said, said_once

ONLY_EU = a_spec(regions=(EU,))


@pytest.mark.parametrize(
    ("cause", "is_healing"),
    [
        (EndCause.NODE_LOST, True),
        (EndCause.NODE_FAILED, True),
        (EndCause.PREEMPTED, False),
        (EndCause.DRAINED, False),
        (EndCause.MAINTENANCE, False),
    ],
)
def test_bids_and_awards_mark_recovering_workloads(
    start: Start, cause: EndCause, *, is_healing: bool
) -> None:
    """P23: a job heals when its former attempt ended by the loss or the failure of a node, and not by a user's request or its own
    failure.
    """
    machine = a_job_queue(start)
    submit(machine, ONLY_EU)
    first = machine.wake()
    assert [False] == [message.is_healing for message in said(first, SolicitBid)]
    bid(machine, auction_of(first))
    machine.wake()
    running(machine)
    machine.fact(EU_LOG, ended(cause))
    again = machine.wake()
    assert [is_healing] == [message.is_healing for message in said(again, SolicitBid)]
    bid(machine, auction_of(again))
    told = [*said(machine.wake(), ExecuteAward), *said(machine.wait(AWARD_SAY_AGAIN), ExecuteAward)]
    assert [(2, is_healing)] * 2 == [(message.epoch, message.is_healing) for message in told]


def test_refusal_of_ordinary_work_holds_for_no_work_that_heals(start: Start) -> None:
    """They are of two shapes: what is kept from one is there for the other."""
    machine = a_job_queue(start)
    submit(machine, ONLY_EU)
    awarded(machine)
    machine.wake()
    running(machine)
    submit(machine, ONLY_EU)
    abstain(machine, auction_of(machine.wake(), W2), workload=W2, reason=Reason.RESERVED)
    machine.wake()
    machine.fact(EU_LOG, ended(EndCause.NODE_LOST, gpu_milli=0))
    opened = machine.wake()
    assert [(W1, EU)] == asked(opened)
    assert said_once(opened, SolicitBid).is_healing

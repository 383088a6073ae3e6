"""How long a refusal holds: until enough came free, until nodes join, or for a time."""

import pytest
from msgspec.structs import replace

from components.job_queue.state.asked_shape import AskedShape
from core.events.control import ClaimRevised, NodesClosed, NodesOpened
from core.events.pools import PoolChanged
from core.events.region import NodesLost, NodesReturned
from core.fact import Event
from core.messages.queue import Abstention, CancelWorkload
from core.nouns.ids import AgentName, RegionName, WorkerName, WorkloadId
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import (
    AUCTION_SPAN,
    FREED_REMEMBERED_MAX,
    LAGGING_VIEW_RETRY,
    OPEN_BIDS_RETRY,
)
from core.nouns.maintenance import ClosureKind
from core.nouns.operation import TaskMove
from core.nouns.pool import PoolSettings
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause, Kind
from tests.builders import (
    EU,
    EU_LOG,
    US,
    a_claim,
    a_job,
    a_spec,
    attempt,
    granted,
    joined,
    promised,
)
from tests.components.support.job_queue import (
    W1,
    W2,
    W3,
    Start,
    a_job_queue,
    abstain,
    asked,
    auction_of,
    awarded,
    awards,
    bid,
    declined,
    ended,
    grant,
    large,
    small,
    submit,
)

ONLY_EU = (EU,)


def test_refusal_holds_until_enough_was_freed(start: Start) -> None:
    """The region said how much it lacks: before its log shows so much freed it is not asked."""
    machine = a_job_queue(start)
    submit(machine, small())
    abstain(machine, auction_of(machine.wake()), missing=3_000)
    assert [] == asked(machine.wait(Nanoseconds(20 * AUCTION_SPAN)))
    other = WorkloadId("w-8")
    machine.fact(EU_LOG, grant(1, other), ended(EndCause.COMPLETED, 1, other, gpu_milli=2_999))
    assert [] == asked(machine.wake())
    machine.fact(EU_LOG, grant(2, other), ended(EndCause.COMPLETED, 2, other, gpu_milli=1))
    assert [(W1, EU)] == asked(machine.wake())


def test_refusal_for_want_of_hardware_holds_until_nodes_join(start: Start) -> None:
    """What is freed, returns or opens there makes no difference to what even the empty region could not hold."""
    machine = a_job_queue(start)
    submit(machine, small())
    machine.fact(EU_LOG, NodesLost(WorkerName("w0"), (0, 1, 2, 3)))
    abstain(machine, auction_of(machine.wake()), reason=Reason.NO_SUCH_HARDWARE, missing=0)
    machine.fact(EU_LOG, grant(1, W3), ended(EndCause.COMPLETED, 1, W3, gpu_milli=32_000))
    machine.fact(EU_LOG, NodesReturned(WorkerName("w0"), (0, 1, 2, 3)))
    assert [] == asked(machine.wait(Nanoseconds(100 * AUCTION_SPAN)))
    machine.fact(EU_LOG, joined("w9", 8, 1))
    assert [(W1, EU)] == asked(machine.wake())


def test_refusal_for_want_of_hardware_on_a_view_from_before_nodes_joined(start: Start) -> None:
    """The agent had not heard of them: it is asked again in a moment, and what it says then holds."""
    machine = a_job_queue(start)
    submit(machine, small())
    auction = auction_of(machine.wake())
    view = machine.sequence(EU_LOG)
    machine.fact(EU_LOG, joined("w9", 8, 1))
    abstain(machine, auction, reason=Reason.NO_SUCH_HARDWARE, view=view)
    assert [] == asked(machine.wait(Nanoseconds(LAGGING_VIEW_RETRY - 1)))
    second = machine.wait(Nanoseconds(1))
    assert [(W1, EU)] == asked(second)
    abstain(machine, auction_of(second), reason=Reason.NO_SUCH_HARDWARE)
    assert [] == asked(machine.wait(Nanoseconds(100 * AUCTION_SPAN)))


def test_refusal_that_names_no_amount(start: Start) -> None:
    """Whatever is freed next could be enough."""
    machine = a_job_queue(start)
    submit(machine, small())
    abstain(machine, auction_of(machine.wake()), missing=0)
    assert [] == asked(machine.wait(Nanoseconds(20 * AUCTION_SPAN)))
    machine.fact(EU_LOG, grant(1, W3), ended(EndCause.COMPLETED, 1, W3, gpu_milli=1))
    assert [(W1, EU)] == asked(machine.wake())


def test_refusal_when_the_obstacle_held_no_gpu(start: Start) -> None:
    """The GPUs are free, and work without any has the CPUs, or runs where another workload wants to be alone: its end could be enough. A
    refusal that lacks GPUs goes on waiting for them.
    """
    machine = a_job_queue(start)
    submit(machine, small())
    submit(machine, large())
    opened = machine.wake()
    abstain(machine, auction_of(opened, W1), missing=0)
    abstain(machine, auction_of(opened, W2), workload=W2, missing=2_000)
    assert [] == asked(machine.wait(Nanoseconds(20 * AUCTION_SPAN)))
    machine.fact(EU_LOG, grant(1, W3), ended(EndCause.COMPLETED, 1, W3, gpu_milli=0))
    assert [(W1, EU)] == asked(machine.wake())


def test_refusal_on_an_old_view(start: Start) -> None:
    """What was freed since that view counts: enough of it, and the refusal holds for a moment only. Asked at once, an agent
    that lags would say the same again, as fast as the bus can carry it.
    """
    machine = a_job_queue(start)
    submit(machine, small())
    auction = auction_of(machine.wake())
    view = machine.sequence(EU_LOG)
    machine.fact(EU_LOG, grant(1, W3), ended(EndCause.COMPLETED, 1, W3, gpu_milli=1_000))
    abstain(machine, auction, missing=1_000, view=view)
    assert [] == asked(machine.wait(Nanoseconds(LAGGING_VIEW_RETRY - 1)))
    assert [(W1, EU)] == asked(machine.wait(Nanoseconds(1)))


def test_refusal_on_an_old_view_when_too_little_was_freed_since(start: Start) -> None:
    """It holds for the rest."""
    machine = a_job_queue(start)
    submit(machine, small())
    auction = auction_of(machine.wake())
    view = machine.sequence(EU_LOG)
    machine.fact(EU_LOG, grant(1, W3), ended(EndCause.COMPLETED, 1, W3, gpu_milli=400))
    abstain(machine, auction, missing=1_000, view=view)
    assert [] == asked(machine.wake())
    machine.fact(EU_LOG, grant(2, W3), ended(EndCause.COMPLETED, 2, W3, gpu_milli=600))
    assert [(W1, EU)] == asked(machine.wake())


PROMISED = promised(a_claim("w-8"))
WITHDRAWN = declined(workload=WorkloadId("w-8"), reason=Reason.WITHDRAWN)


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(joined("w9", 8, 1), id="nodes joined"),
        pytest.param(NodesReturned(WorkerName("w0"), (0, 1, 2, 3)), id="nodes returned"),
        pytest.param(WITHDRAWN, id="a promise was withdrawn"),
    ],
)
def test_refusal_on_a_view_from_before_the_region_changed(start: Start, event: Event) -> None:
    """The agent had not heard of it: what it says is void, and must not hold now that it would not be said again."""
    machine = a_job_queue(start)
    machine.fact(EU_LOG, NodesLost(WorkerName("w0"), (0, 1, 2, 3)), PROMISED)
    submit(machine, small())
    auction = auction_of(machine.wake())
    view = machine.sequence(EU_LOG)
    machine.fact(EU_LOG, event)
    abstain(machine, auction, missing=32_000, view=view)
    second = machine.wait(LAGGING_VIEW_RETRY)
    assert [(W1, EU)] == asked(second)
    abstain(machine, auction_of(second), missing=32_000)
    assert [] == asked(machine.wait(LAGGING_VIEW_RETRY))


def test_refusal_on_a_view_from_before_the_queue_knew_the_region(start: Start) -> None:
    """Nobody remembers what was freed since that view: it does not hold."""
    machine = a_job_queue(start)
    submit(machine, small())
    machine.fact(EU_LOG, grant(1, W3), ended(EndCause.COMPLETED, 1, W3, gpu_milli=32_000))
    again = machine.restart()
    first = again.wake()
    abstain(again, auction_of(first), missing=32_000, view=again.sequence(EU_LOG) - 1)
    second = again.wait(LAGGING_VIEW_RETRY)
    assert [(W1, EU)] == asked(second)
    again.adopt(EU_LOG, grant(2, W3), ended(EndCause.COMPLETED, 2, W3, gpu_milli=32_000))
    abstain(again, auction_of(second), missing=32_000, view=again.sequence(EU_LOG) - 1)
    third = again.wait(LAGGING_VIEW_RETRY)
    assert [(W1, EU)] == asked(third)
    abstain(again, auction_of(third), missing=32_000)
    assert [] == asked(again.wake())


def test_refusal_on_a_view_older_than_all_that_is_remembered(start: Start) -> None:
    """More was freed since than is known: it does not hold."""
    machine = a_job_queue(start)
    submit(machine, small())
    auction = auction_of(machine.wake())
    view = machine.sequence(EU_LOG)
    for epoch in range(1, FREED_REMEMBERED_MAX + 2):
        machine.fact(EU_LOG, grant(epoch, W3), ended(EndCause.COMPLETED, epoch, W3, gpu_milli=1_000))
    abstain(machine, auction, missing=1_000 * (FREED_REMEMBERED_MAX + 1), view=view)
    assert [(W1, EU)] == asked(machine.wait(LAGGING_VIEW_RETRY))


def test_refusal_holds_for_its_shape(start: Start) -> None:
    """Others of the same shape are not asked about; another shape, or another priority, is."""
    machine = a_job_queue(start)
    submit(machine, large())
    abstain(machine, auction_of(machine.wake()), missing=8_000)
    submit(machine, large())
    assert [] == asked(machine.wake())
    submit(machine, small())
    submit(machine, large(5))
    assert [("w-4", EU), ("w-3", EU)] == asked(machine.wake())


def test_refusal_of_one_region_leaves_the_others(start: Start) -> None:
    """The region that lacks capacity is asked no more; the one that refused for open bids is."""
    machine = a_job_queue(start)
    submit(machine)
    auction = auction_of(machine.wake())
    abstain(machine, auction, EU)
    abstain(machine, auction, US, reason=Reason.OPEN_BIDS)
    assert [(W1, US)] == asked(machine.wait(OPEN_BIDS_RETRY))


def test_head_of_the_queue_that_fits_nowhere_is_passed_over(start: Start) -> None:
    """Who stands behind it is served, and it keeps its place."""
    machine = a_job_queue(start)
    submit(machine, large(6))
    submit(machine, small())
    decision = machine.wake()
    abstain(machine, auction_of(decision, W1), missing=32_000)
    bid(machine, auction_of(decision, W2), workload=W2)
    assert [W2] == awards(machine.wake())
    machine.fact(EU_LOG, grant(1, W2), ended(EndCause.COMPLETED, 1, W2, gpu_milli=32_000))
    assert [(W1, EU)] == asked(machine.wake())


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(joined("w9", 8, 1), id="nodes join"),
        pytest.param(NodesReturned(WorkerName("w0"), (0, 1, 2, 3)), id="nodes return"),
        pytest.param(NodesOpened("d-1", ClosureKind.DRAIN, ((4, 4),)), id="nodes are open again"),
        pytest.param(PoolChanged("training", PoolSettings()), id="its pools are set otherwise"),
        pytest.param(ClaimRevised(*attempt("w-7"), 1, (TaskMove(0, 4, -1),)), id="a task leaves its node"),
    ],
)
def test_refusal_when_the_regions_nodes_change(start: Start, event: Event) -> None:
    """Nothing said before counts: it is asked at once."""
    machine = a_job_queue(start)
    machine.fact(EU_LOG, joined("w8", 4, 2), granted(a_claim("w-7", placed={4: 1, 5: 1}, kind=Kind.SERVICE)))
    machine.fact(EU_LOG, NodesLost(WorkerName("w0"), (0, 1, 2, 3)))
    machine.fact(EU_LOG, NodesClosed("d-1", ClosureKind.DRAIN, ((4, 4),), "because"))
    submit(machine, small())
    abstain(machine, auction_of(machine.wake()), missing=32_000)
    assert [] == asked(machine.wake())
    machine.fact(EU_LOG, event)
    assert [(W1, EU)] == asked(machine.wake())


def test_refusal_when_a_promise_is_withdrawn(start: Start) -> None:
    """What was reserved for it is free, though nothing ended."""
    machine = a_job_queue(start)
    machine.fact(EU_LOG, promised(a_claim("w-8")))
    submit(machine, small())
    abstain(machine, auction_of(machine.wake()), missing=32_000)
    machine.fact(EU_LOG, declined(workload=WorkloadId("w-8"), reason=Reason.WITHDRAWN))
    assert [(W1, EU)] == asked(machine.wake())


def test_refusal_for_open_bids_passes_by_itself(start: Start) -> None:
    """The room is there, but offered to others: soon it is theirs or free."""
    machine = a_job_queue(start)
    submit(machine, small())
    abstain(machine, auction_of(machine.wake()), reason=Reason.OPEN_BIDS)
    assert [] == asked(machine.wait(Nanoseconds(OPEN_BIDS_RETRY - 1)))
    assert [(W1, EU)] == asked(machine.wait(Nanoseconds(1)))


@pytest.mark.parametrize("winner", [EU, US])
def test_refusal_for_open_bids_when_the_other_bid_loses(start: Start, winner: RegionName) -> None:
    """The region may offer that capacity again and is asked at once; if the other bid wins, only after `OPEN_BIDS_RETRY`."""
    machine = a_job_queue(start)
    submit(machine, a_spec(a_job(2, 8)))
    submit(machine, small())
    decision = machine.wake()
    bid(machine, auction_of(decision, W1), EU, score=(5,))
    abstain(machine, auction_of(decision, W2), workload=W2, reason=Reason.OPEN_BIDS)
    bid(machine, auction_of(decision, W1), US, score=(9 if winner == EU else 1,))
    decision = machine.wake()
    assert [W1] == awards(decision)
    assert ([] if winner == EU else [(W2, EU)]) == asked(decision)
    if winner == EU:
        assert [] == asked(machine.wait(Nanoseconds(OPEN_BIDS_RETRY - 1)))
        assert [(W2, EU)] == asked(machine.wait(Nanoseconds(1)))


def test_refusal_for_open_bids_when_the_award_is_declined(start: Start) -> None:
    """What was offered was not taken: it is free, and always was."""
    machine = a_job_queue(start)
    submit(machine, a_spec(a_job(2, 8), regions=ONLY_EU))
    awarded(machine)
    submit(machine, small())
    abstain(machine, auction_of(machine.wake(), W2), workload=W2, reason=Reason.OPEN_BIDS)
    machine.fact(EU_LOG, declined())
    assert (W2, EU) in asked(machine.wake())


def test_one_workload_of_a_contended_shape_is_asked_for_at_a_time(start: Start) -> None:
    """Since one of its shape was refused: if it cannot be placed, none of them can. After an award two are asked for."""
    machine = a_job_queue(start)
    for _ in range(3):
        submit(machine, small())
    decision = machine.wake()
    assert [W1, W2, W3] == [workload for workload, _ in asked(decision)]
    for workload in (W1, W2, W3):
        abstain(machine, auction_of(decision, workload), workload=workload)
    assert [] == asked(machine.wake())
    machine.fact(EU_LOG, joined("w9", 8, 1))
    decision = machine.wake()
    assert [(W1, EU)] == asked(decision)
    bid(machine, auction_of(decision))
    assert [(W2, EU), (W3, EU)] == asked(machine.wake())


def test_shape_without_workloads_is_forgotten(start: Start) -> None:
    """Only its refusals are remembered, until they expire; so shapes that never come back fill no memory."""
    machine = a_job_queue(start)
    submit(machine, small())
    abstain(machine, auction_of(machine.wake()), missing=3_000)
    machine.wake()
    spec = small()
    shape = AskedShape(3, spec.shape, spec.base, 1, ())
    auctions = machine.state.auctions
    assert (True, True) == (shape in auctions.window, shape in auctions.willing_memo)
    machine.hear(CancelWorkload(W1))
    assert (False, False) == (shape in auctions.window, shape in auctions.willing_memo)
    submit(machine, small())
    assert [] == asked(machine.wake())
    other = WorkloadId("w-8")
    machine.fact(EU_LOG, grant(1, other), ended(EndCause.COMPLETED, 1, other, gpu_milli=3_000))
    assert [(W2, EU)] == asked(machine.wake())


# Those that pass by themselves.

SPAN = seconds(5)


@pytest.mark.parametrize("reason", [Reason.NO_CAPACITY, Reason.DESTROYS_TOO_MUCH])
def test_region_that_says_when_is_asked_again_then(start: Start, reason: Reason) -> None:
    """N8: somebody has run for its least time by then, or the hour's destruction is less; nothing need be freed for that."""
    queue = a_job_queue(start)
    submit(queue, a_spec(regions=[EU]))
    auction = auction_of(queue.wake())
    said = Abstention(EU, AgentName("a0"), W1, auction, reason, queue.sequence(EU_LOG), 8_000)
    queue.hear(replace(said, again_in=SPAN))
    queue.wake()
    assert [] == asked(queue.wait(Nanoseconds(SPAN - 1)))
    assert [(W1, EU)] == asked(queue.wait(Nanoseconds(1)))

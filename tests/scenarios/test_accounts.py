"""Accounts: what counts as useful is work that somebody has in the end, and to wait for a start in vain is to wait."""

import math

import pytest
from msgspec.structs import replace

from core.events.harvest import HarvestOffered, HarvestReleased
from core.events.queue import AttemptClosed, WorkloadAwarded, WorkloadCancelled
from core.events.region import AttemptEnded, AwardDeclined, CheckpointCommitted, GangStarted, NodesJoined
from core.fact import Event
from core.nouns.harvest import HarvestPart, ReleasedPart
from core.nouns.ids import GLOBAL_LOG, ClaimId, LogName, RegionName, WorkloadId
from core.nouns.instant import seconds
from core.nouns.limits import AUDIT_INTERVAL
from core.nouns.reasons import Reason
from core.nouns.workload import Consent, Emulation, EndCause, JobSpec, Phase, Program
from scenarios.accounting.attempts import Accounting, percentile
from scenarios.accounting.harvest import HarvestKept
from scenarios.accounting.witness import Witness
from scenarios.schema.fleet import FleetSpec, plan_of
from tests.builders import (
    EU,
    EU_LOG,
    a_claim,
    a_fact,
    amount,
    attempt,
    granted,
    joined,
    promised,
    submitted,
)

W1 = WorkloadId("w-1")
WORK = Emulation(seconds(60), checkpoint_every=seconds(10))
GPUS = 4


def a_gang(emulation: Emulation | None = WORK) -> JobSpec:
    """One task of four GPUs with a minute's work, or a program of which nobody knows how long it takes."""
    program = None if emulation else Program("true")
    return JobSpec("main", 1, amount(GPUS), "H100", emulation, program)


def a_grant(epoch: int = 1, resume_step: int = 0, job: JobSpec | None = None) -> Event:
    """The gang holds its capacity."""
    claim = a_claim("w-1", epoch, jobs=(job or a_gang(),))
    return granted(replace(claim, resume_step=resume_step))


def closed(cause: EndCause, phase: Phase, epoch: int = 1) -> tuple[Event, ...]:
    """An attempt ends, and the queue records what becomes of the workload."""
    return AttemptEnded(*attempt("w-1", epoch), cause), AttemptClosed(W1, epoch, cause, phase, EU, 1)


def accounts_of(*told: tuple[float, Event]) -> Accounting:
    """After these, each at its second."""
    accounts = Accounting()
    for at, event in told:
        is_of_queue = isinstance(
            event, AttemptClosed | WorkloadAwarded | WorkloadCancelled | type(submitted())
        )
        accounts.take(a_fact(event, log=GLOBAL_LOG if is_of_queue else EU_LOG), at)
    return accounts


def goodput(accounts: Accounting) -> tuple[float, dict[str, float]]:
    """GPU-seconds that were useful, and those that were lost."""
    figures = accounts.figures(1000.0)
    return round(figures["goodput_ratio"] * figures["gpu_seconds_held"], 3), accounts.lost_seconds


def test_completed_work_counts_whole_and_the_wait_for_a_slow_device_does_not() -> None:
    """A minute's work that took two: half of what was held was of use, and nothing was lost."""
    ended, done = closed(EndCause.COMPLETED, Phase.COMPLETED)
    accounts = accounts_of(
        (0, submitted()), (1, a_grant()), (2, GangStarted(*attempt())), (121, ended), (121, done)
    )
    assert (60.0 * GPUS, {}) == goodput(accounts)
    assert 120.0 * GPUS == accounts.figures(121)["gpu_seconds_held"]
    assert 0.5 == accounts.figures(121)["goodput_ratio"]


def test_device_of_a_pair_is_held_once() -> None:
    """By the host, and from its end on by the guest; a guest that ends first held nothing."""
    host, guest = attempt("w-1"), attempt("w-2")
    lent = granted(replace(a_claim(*guest, jobs=(a_gang(),)), beside=host))
    ends = [AttemptEnded(*key, EndCause.ROUND_OVER) for key in (host, guest)]
    for story in (((30.0, ends[0]), (70.0, ends[1])), ((30.0, ends[1]), (70.0, ends[0]))):
        accounts = accounts_of((0.0, a_grant()), (10.0, lent), *story)
        assert 70.0 * GPUS == accounts.figures(80)["gpu_seconds_held"]


def test_tries_of_claims_are_counted_to_the_last() -> None:
    """A grant at the third try, and an award that was given back after ten in vain: twelve conflicts of thirteen claims."""
    third = replace(a_claim("w-1", 1, jobs=(a_gang(),)), claim=ClaimId("w-1.1.a0.3"))
    accounts = accounts_of((0, granted(third)))
    figures = accounts.figures(1)
    assert (3, 0, 2 / 3) == (
        figures["claim_tries_max"],
        figures["claims_given_up"],
        figures["conflicts_share"],
    )
    given_up = AwardDeclined(WorkloadId("w-2"), 1, Reason.CONFLICTS_EXHAUSTED, 2)
    accounts = accounts_of((0, granted(third)), (1, given_up), (2, AwardDeclined(W1, 2, Reason.WITHDRAWN, 3)))
    figures = accounts.figures(2)
    assert (10, 1) == (figures["claim_tries_max"], figures["claims_given_up"])
    assert 12 / 13 == figures["conflicts_share"]


def test_work_that_is_done_again_counts_once() -> None:
    """The first attempt counts up to its checkpoint; what it did after that is lost; the second does what is left."""
    lost, pending = closed(EndCause.NODE_LOST, Phase.PENDING)
    ended, done = closed(EndCause.COMPLETED, Phase.COMPLETED, 2)
    accounts = accounts_of(
        (0, submitted()),
        (0, a_grant()),
        (0, GangStarted(*attempt())),
        (20, CheckpointCommitted(*attempt(), 20_000)),
        (25, lost),
        (25, pending),
        (30, a_grant(2, 20_000)),
        (30, GangStarted(*attempt("w-1", 2))),
        (70, ended),
        (70, done),
    )
    assert (60.0 * GPUS, {"node_lost": 5.0 * GPUS}) == goodput(accounts)


@pytest.mark.parametrize(
    ("cause", "phase"), [(EndCause.TASK_FAILED, Phase.FAILED), (EndCause.CANCELLED, Phase.CANCELLED)]
)
def test_saved_work_of_a_workload_that_did_not_complete_is_lost(cause: EndCause, phase: Phase) -> None:
    """It is of use to no user. While the workload could still complete it counted."""
    ended, over = closed(cause, phase)
    story = [
        (0.0, submitted()),
        (0.0, a_grant()),
        (0.0, GangStarted(*attempt())),
        (20.0, CheckpointCommitted(*attempt(), 20_000)),
        (25.0, ended),
    ]
    assert (20.0 * GPUS, {cause: 5.0 * GPUS}) == goodput(accounts_of(*story))
    assert (0.0, {cause: 25.0 * GPUS}) == goodput(accounts_of(*story, (25.0, over)))


def test_program_counts_by_its_time() -> None:
    """Nobody knows how much there was to do: what it ran until its checkpoint or its end counts."""
    ended, done = closed(EndCause.COMPLETED, Phase.COMPLETED)
    job = a_gang(None)
    story = [
        (0.0, submitted()),
        (0.0, a_grant(job=job)),
        (2.0, GangStarted(*attempt())),
        (42.0, ended),
        (42.0, done),
    ]
    assert (40.0 * GPUS, {}) == goodput(accounts_of(*story))


def test_attempt_that_never_started_did_nothing() -> None:
    """It held capacity, and no work is lost with it."""
    ended, pending = closed(EndCause.NODE_LOST, Phase.PENDING)
    assert (0.0, {}) == goodput(accounts_of((0, submitted()), (0, a_grant()), (9, ended), (9, pending)))


def starts(accounts: Accounting, at: float) -> list[float]:
    """The median and the two tails."""
    figures = accounts.figures(at)
    return [figures[f"p{share}_start_seconds"] for share in (50, 90, 99)]


def test_start_that_never_came_counts_until_the_end() -> None:
    """Two of three wait: one that is pending still, and one that ended without ever having started."""
    third = submitted(3)
    accounts = accounts_of(
        (0, submitted(1)), (1, a_grant()), (4, GangStarted(*attempt())), (10, submitted(2)), (20, third)
    )
    assert [80.0, 90.0, 90.0] == starts(accounts, 100.0)
    over = AttemptClosed(WorkloadId("w-3"), 1, EndCause.START_FAILED, Phase.FAILED, EU, 1)
    accounts.take(a_fact(over, log=GLOBAL_LOG), 30.0)
    assert [80.0, 90.0, 90.0] == starts(accounts, 100.0)


def test_unrecorded_start_came_before_the_end() -> None:
    """An attempt that is done so fast was up, though no fact has the time."""
    ended, done = closed(EndCause.COMPLETED, Phase.COMPLETED)
    story = [(0.0, submitted()), (1.0, a_grant()), (3.0, ended), (3.0, done)]
    assert [3.0] * 3 == starts(accounts_of(*story), 100.0)


def test_workload_cancelled_before_its_start_does_not_wait() -> None:
    """Its user did not want it any more; if all were cancelled, the wait is unknown."""
    cancelled = WorkloadCancelled(WorkloadId("w-2"))
    both = [(0.0, submitted(1)), (1.0, a_grant()), (4.0, GangStarted(*attempt())), (10.0, submitted(2))]
    assert [4.0] * 3 == starts(accounts_of(*both, (20.0, cancelled)), 100.0)
    assert [math.inf] * 3 == starts(accounts_of((0, submitted(2)), (1, cancelled)), 100.0)
    assert [0.0] * 3 == starts(Accounting(), 100.0)


@pytest.mark.parametrize(
    ("shown", "waited"),
    [
        pytest.param((6.0, a_grant()), 1, id="granted late"),
        pytest.param((5.0, a_grant()), 0, id="granted in time"),
        pytest.param((6.0, AwardDeclined(*attempt(), Reason.NO_CAPACITY, 1)), 1, id="declined late"),
        pytest.param((6.0, promised(a_claim())), 1, id="promised late"),
        pytest.param((6.0, closed(EndCause.ABANDONED, Phase.PENDING)[1]), 0, id="given up"),
    ],
)
def test_awards_that_wait_for_their_region(shown: tuple[float, Event], waited: int) -> None:
    """Until its log shows anything of them, more than five seconds; what comes after that does not count again."""
    accounts = accounts_of((0.0, WorkloadAwarded(W1, 1, EU, 0, ())), shown, (90.0, a_grant()))
    assert waited == accounts.figures(100.0)["awards_waited"]


def test_attempts_that_are_given_up_with_their_region() -> None:
    """By who agreed to it; an end that a log shows is none."""
    accounts = Accounting()
    for epoch, consent in enumerate(
        (Consent.OPERATOR, Consent.OPERATOR, Consent.WORKLOAD, Consent.NOBODY), 1
    ):
        (_, event) = closed(EndCause.ABANDONED, Phase.PENDING, epoch)
        assert isinstance(event, AttemptClosed)
        accounts.take(a_fact(replace(event, consent=consent), log=GLOBAL_LOG), 1.0)
    figures = accounts.figures(2.0)
    assert (2, 1) == (figures["given_up_by_operators"], figures["given_up_by_workloads"])


@pytest.mark.parametrize(("share", "wanted"), [(0.0, 1.0), (0.5, 2.0), (0.75, 3.0), (0.99, 4.0), (1.0, 4.0)])
def test_percentile(share: float, wanted: float) -> None:
    """The smallest of which at least this share is not larger."""
    assert wanted == percentile([1.0, 2.0, 3.0, 4.0], share)


# The witness.


def test_witness_checks_everything_again_from_time_to_time() -> None:
    """A violation that no single fact shows: here a ledger that was spoilt by hand is found five minutes of facts later."""
    witness = Witness(plan_of(FleetSpec(regions=1, nodes=4), "watched"))
    log, region = LogName("region.r0"), RegionName("r0")
    witness.see([a_fact(joined(), 1, log=log)], 0.0)
    image = witness.audit.regions[region]
    image.capacity.gpu.held[0] += 1000
    image.capacity.gpu.free[0] -= 1000
    later = AUDIT_INTERVAL / 1e9
    worker = [a_fact(another(number), number, log=log) for number in (2, 3)]
    witness.see(worker[:1], later - 1)
    assert [] == witness.violations
    witness.see(worker[1:], later + 1)
    assert ["node 0: gpu held or ending is not what attempts hold there"] == [
        one.text for one in witness.violations
    ]


def another(number: int) -> NodesJoined:
    """One more worker."""
    return joined(f"w{number}", 4 * number, 1)


def test_recall_that_a_start_ends_is_reclaimed_then() -> None:
    """The slowest are those of which no function server says that they are over."""
    kept = HarvestKept()
    events = (
        joined(),
        HarvestOffered(1, (HarvestPart(((0, 1),), amount(8), pool="training"),), seconds(30)),
        granted(a_claim("w-1", placed={0: 4})),
        granted(a_claim("w-2", placed={1: 4})),
        HarvestReleased((ReleasedPart(1, 3, seconds(1)),)),
        GangStarted(*attempt("w-1")),
        GangStarted(*attempt("w-2")),
    )
    for place, event in enumerate(events, 1):
        kept.take(a_fact(event, place))
    figures = kept.figures()
    assert (3.0, 1.0) == (figures["p99_reclaim_seconds"], figures["harvest_releases"])

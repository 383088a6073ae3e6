"""The auditor: folds all logs at consistent cuts, and finds what was broken on purpose."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from components.auditor.component import Audited, Auditor
from core.component import NOTHING
from core.effects import KeepViolations, PutViolationsAside
from core.events.control import ClaimRevised, OperationsBegun, OperationsRequested, TasksGone
from core.events.queue import AttemptClosed, RegionAdded, WorkloadAwarded, WorkloadBound
from core.events.region import AttemptEnded, AttemptsForgotten, GangStarted, StopOrdered
from core.fact import Event
from core.messages.auditor import (
    AcknowledgeViolations,
    AuditShown,
    FoundViolation,
    ShowAudit,
    ViolationsAcknowledged,
    ViolationsFound,
    ViolationsKept,
)
from core.messages.base import Woken
from core.nouns.ids import GLOBAL_LOG, TenantName, WorkloadId
from core.nouns.limits import AUDIT_INTERVAL, VIOLATIONS_KEPT_MAX
from core.nouns.operation import BegunBy, ControlSpec, OperationKind, TaskMove
from core.nouns.workload import EndCause, Kind, Phase
from tests.builders import (
    EU,
    EU_LOG,
    US,
    US_LOG,
    a_claim,
    a_fact,
    a_job,
    a_spread,
    an_envelope,
    attempt,
    granted,
    joined,
    submitted,
)
from tests.components.support.machine import Machine
from tests.matching import said_once

Start = Callable[..., Machine[Any]]
W1 = WorkloadId("w-1")
AWARD = WorkloadAwarded(W1, 1, EU, 0, ())
"""Fact 4 of the queue's log."""
CLAIM = a_claim("w-1", award_sequence=4)
CLOSED = AttemptClosed(W1, 1, EndCause.COMPLETED, Phase.COMPLETED, EU, 4)
ENDED = AttemptEnded(*attempt(), EndCause.COMPLETED)
CLOSED_TOO_SOON = [
    (3, GLOBAL_LOG, 6, "w-1: AttemptClosed of epoch 1, and eu shows it started"),
    (3, GLOBAL_LOG, 6, "w-1: ended, and eu still has attempt 1 started"),
]
"""What is found when the queue closes, as its sixth fact, what its region still runs."""


def an_auditor(start: Start) -> Machine[Any]:
    """It has followed everything from the first fact: two regions, one submission, four nodes in each."""
    machine = start(Auditor((US, EU)))
    machine.fact(GLOBAL_LOG, RegionAdded(EU), RegionAdded(US), submitted(1))
    machine.fact(EU_LOG, joined())
    machine.fact(US_LOG, joined())
    return machine


def shown(machine: Machine[Any]) -> AuditShown:
    """What it tells."""
    return said_once(machine.hear(ShowAudit()), AuditShown)


def found(machine: Machine[Any]) -> list[tuple[int, str, int, str]]:
    """What it found: rule, log, sequence, text."""
    return [(one.rule, one.log, one.sequence, one.text) for one in shown(machine).violations]


def test_nothing_is_found_in_a_valid_life(start: Start) -> None:
    """Awarded, granted, bound, ended, closed, forgotten: and all of it is checked."""
    machine = an_auditor(start)
    machine.fact(GLOBAL_LOG, AWARD)
    machine.fact(EU_LOG, granted(CLAIM), GangStarted(*attempt()))
    machine.fact(GLOBAL_LOG, WorkloadBound(W1, 1, EU, 3))
    machine.fact(EU_LOG, ENDED)
    machine.fact(GLOBAL_LOG, CLOSED)
    machine.fact(EU_LOG, AttemptsForgotten((attempt(),), 6))
    machine.wait(AUDIT_INTERVAL)
    assert AuditShown({GLOBAL_LOG: 6, EU_LOG: 5, US_LOG: 1}, 0, (), 0) == shown(machine)


def test_fact_waits_for_the_facts_it_cites(start: Start) -> None:
    """The grant is told before the award that it rests on: neither is folded too early, and nothing is found."""
    machine = an_auditor(start)
    machine.fact(EU_LOG, granted(CLAIM), GangStarted(*attempt()))
    assert (1, 2) == (shown(machine).checked[EU_LOG], shown(machine).waiting)
    machine.fact(GLOBAL_LOG, AWARD)
    assert (3, 0) == (shown(machine).checked[EU_LOG], shown(machine).waiting)
    assert [] == found(machine)


def test_facts_that_wait_for_each_other_in_turn(start: Start) -> None:
    """A whole story told backwards: log by log, each as far as the other allows."""
    machine = an_auditor(start)
    machine.fact(GLOBAL_LOG, AWARD, WorkloadBound(W1, 1, EU, 3), CLOSED)
    assert (4, 2) == (shown(machine).checked[GLOBAL_LOG], shown(machine).waiting)
    machine.fact(EU_LOG, granted(CLAIM), GangStarted(*attempt()), ENDED, AttemptsForgotten((attempt(),), 6))
    assert {"global": 6, "region.eu": 5, "region.us": 1} == shown(machine).checked
    assert ([], 0) == (found(machine), shown(machine).waiting)


def planted(start: Start, *events: tuple[str, Event]) -> list[tuple[int, str, int, str]]:
    """What is found in a history in which something is wrong."""
    machine = an_auditor(start)
    logs = {"global": GLOBAL_LOG, "eu": EU_LOG, "us": US_LOG}
    for log, event in events:
        machine.fact(logs[log], event)
    return found(machine)


def test_grant_without_an_award(start: Start) -> None:
    """Rule 3, at the grant."""
    text = "w-1.1: granted in us without a standing award"
    assert [(3, US_LOG, 2, text)] == planted(start, ("global", AWARD), ("us", granted(CLAIM)))


def test_capacity_held_twice(start: Start) -> None:
    """N9: found at the grant and in the ledger that it leaves."""
    other = WorkloadAwarded(WorkloadId("w-2"), 1, EU, 0, ())
    large = a_claim("w-2", placed={0: 8}, award_sequence=6)
    events = [("global", AWARD), ("eu", granted(CLAIM)), ("global", submitted(2)), ("global", other)]
    wanted = [
        (1, EU_LOG, 3, "w-2.1: granted without room on node 0"),
        (1, EU_LOG, 3, "node 0: gpu free -1000 + held 9000 + ending 0 is not 8000"),
    ]
    assert wanted == planted(start, *events, ("eu", granted(large)))


def test_tenants_that_are_not_apart(start: Start) -> None:
    """Whoever shares a node with nobody is alone there, until it has ended."""
    machine = an_auditor(start)
    alone = (replace(a_job(1, 1), is_alone=True),)
    kept = replace(a_claim("w-8", jobs=alone, spreads=(a_spread({0: 1}),)), tenant=TenantName("ml"))
    other = a_claim("w-9")
    machine.adopt(EU_LOG, granted(kept))
    machine.fact(EU_LOG, granted(other))
    wanted = (2, EU_LOG, 3, "w-9.1: granted on node 0 against tenants_apart")
    assert [wanted] == [one for one in found(machine) if one[0] == 2]
    machine.fact(EU_LOG, AttemptEnded(*attempt("w-8"), EndCause.COMPLETED))
    machine.fact(EU_LOG, granted(replace(other, workload=WorkloadId("w-7"))))
    assert [wanted] == [one for one in found(machine) if one[0] == 2]


def test_two_live_attempts(start: Start) -> None:
    """N9: across regions: the second award was made while the first stood, and both were granted."""
    second = WorkloadAwarded(W1, 2, US, 0, ())
    grants = [("eu", granted(CLAIM)), ("us", granted(a_claim("w-1", 2, award_sequence=5)))]
    wanted = [
        (3, GLOBAL_LOG, 5, "w-1: awarded while epoch 1 stands in eu"),
        (3, US_LOG, 2, "w-1: live attempts eu:1, us:2"),
    ]
    assert wanted == planted(start, ("global", AWARD), grants[0], ("global", second), grants[1])


def test_workload_that_ends_while_it_runs(start: Start) -> None:
    """The queue says ended, at a cut at which the region still has it."""
    closed = AttemptClosed(W1, 1, EndCause.COMPLETED, Phase.COMPLETED, EU, 2)
    events = [("global", AWARD), ("eu", granted(CLAIM)), ("global", closed)]
    wanted = [
        (3, GLOBAL_LOG, 5, "w-1: AttemptClosed of epoch 1, and eu shows it granted"),
        (3, GLOBAL_LOG, 5, "w-1: ended, and eu still has attempt 1 granted"),
    ]
    assert wanted == planted(start, *events)


def test_preemption_without_a_promise(start: Start) -> None:
    """Rule 5 at the order."""
    stop = StopOrdered(*attempt(), EndCause.PREEMPTED, WorkloadId("w-2"))
    events = [("global", AWARD), ("eu", granted(CLAIM)), ("eu", stop)]
    text = "w-1.1: preempted for w-2, which has no promise over it"
    assert [(5, EU_LOG, 3, text)] == planted(start, *events)


def test_operation_without_an_ack(start: Start) -> None:
    """T11: rule 6 at the begin; and any other disorder of its attempt's tasks is found by the next full check."""
    service = replace(CLAIM, kind=Kind.SERVICE, control=ControlSpec("shards"))
    asked = OperationsRequested(*attempt(), 1, OperationKind.RESTART, (0,), "because", requester="user:ada")
    begun = OperationsBegun(*attempt(), (1,), BegunBy.ACK, "user:ada")
    gone = ("eu", TasksGone(*attempt(), (0,)))
    away = ("eu", ClaimRevised(*attempt(), 7, (TaskMove(0, 0, 3),)))
    events = [("global", AWARD), ("eu", granted(service)), ("eu", GangStarted(*attempt())), ("eu", asked)]
    wanted = [
        (6, EU_LOG, 5, "w-1.1: operation 1 begins without its ack"),
        (6, EU_LOG, 7, "w-1.1: revision 7 after 0"),
    ]
    assert wanted == planted(start, *events, ("eu", begun), gone, away)


def test_violation_that_no_single_fact_shows(start: Start) -> None:
    """Rule 6 over all, from time to time: a row that differs from the ledger."""
    machine = an_auditor(start)
    machine.fact(GLOBAL_LOG, AWARD)
    machine.fact(EU_LOG, granted(CLAIM))
    machine.state.regions[EU].control.specs.clear()
    assert [] == found(machine)
    decision = machine.component.decide(machine.state, an_envelope(Woken(), at=machine.now))
    [audited] = decision.events
    assert isinstance(audited, Audited)
    wanted = "w-1.1: holds room, and nothing is known of its tasks"
    assert [(6, wanted)] == [(one.rule, one.text) for one in audited.violations]
    machine.adopt(EU_LOG)


def test_everything_is_checked_again_from_time_to_time(start: Start) -> None:
    """While anything changes: violations that no single fact shows are found then, and a quiet auditor is not woken."""
    machine = an_auditor(start)
    machine.fact(GLOBAL_LOG, AWARD)
    machine.fact(EU_LOG, granted(CLAIM))
    machine.wake()
    assert machine.component.due(machine.state) is None
    machine.fact(EU_LOG, GangStarted(*attempt()))
    assert [] == found(machine)
    machine.wait(AUDIT_INTERVAL)
    assert [] == found(machine)
    assert machine.component.due(machine.state) is None


def test_quiet_plane_is_checked_when_an_auditor_starts(start: Start) -> None:
    """Its logs may have been broken while no auditor lived, and no fact need come to find that."""
    twice = [granted(CLAIM), granted(a_claim("w-2", placed={0: 8}, award_sequence=6))]
    facts = [a_fact(event, number, log=EU_LOG) for number, event in enumerate((joined(), *twice), 1)]
    wanted = "node 0: gpu free -1000 + held 9000 + ending 0 is not 8000"
    machine = start(Auditor((EU,)), logs={EU_LOG: facts})
    machine.wake()
    assert wanted in [text for *_, text in found(machine)]
    later = start(Auditor((EU,)), unknown=(EU_LOG,))
    later.wake()
    later.wait(AUDIT_INTERVAL)
    assert [] == found(later)
    later.adopt(EU_LOG, joined(), *twice)
    later.wait(AUDIT_INTERVAL)
    assert wanted in [text for *_, text in found(later)]


def test_violations_are_counted_and_the_first_are_kept(start: Start) -> None:
    """A broken plane does not fill the auditor's memory."""
    machine = an_auditor(start)
    wrong = WorkloadBound(W1, 9, EU, 1)
    machine.fact(GLOBAL_LOG, *[wrong] * (VIOLATIONS_KEPT_MAX + 5))
    assert (VIOLATIONS_KEPT_MAX, VIOLATIONS_KEPT_MAX + 5) == (
        len(shown(machine).violations),
        shown(machine).count,
    )


# Adopted logs.


def test_log_that_is_adopted_late(start: Start) -> None:
    """Facts that rest on it wait; adopted, they are folded on top of it."""
    machine = start(Auditor((EU,)), unknown=(EU_LOG,))
    machine.fact(GLOBAL_LOG, RegionAdded(EU), submitted(1), submitted(2), AWARD, WorkloadBound(W1, 1, EU, 3))
    assert ({"global": 4}, 1) == (shown(machine).checked, shown(machine).waiting)
    machine.adopt(EU_LOG, joined(), granted(CLAIM), GangStarted(*attempt()))
    assert ({"global": 5, "region.eu": 3}, 0) == (shown(machine).checked, shown(machine).waiting)
    assert [] == found(machine)


def test_nothing_is_compared_before_an_adopted_image_is_reached(start: Start) -> None:
    """The region's image rests on an award that is not folded yet: a grant there would look like one without an award."""
    machine = start(Auditor((EU,)), unknown=(EU_LOG,))
    machine.fact(GLOBAL_LOG, RegionAdded(EU), submitted(1), submitted(2))
    machine.adopt(EU_LOG, joined(), granted(CLAIM))
    machine.fact(EU_LOG, granted(a_claim("w-2", placed={1: 1}, award_sequence=2)))
    assert [] == found(machine), "nothing can be said yet"
    machine.fact(GLOBAL_LOG, AWARD)
    machine.fact(EU_LOG, granted(a_claim("w-9", placed={2: 1}, award_sequence=2)))
    assert [(3, EU_LOG, 4, "w-9.1: granted in eu without a standing award")] == found(machine)


def test_comparing_begins_once_the_cited_region_is_adopted(start: Start) -> None:
    """The queue's image was adopted first, and cites the region; the region's image is past that already."""
    machine = start(Auditor((EU,)), unknown=(EU_LOG, GLOBAL_LOG))
    machine.adopt(GLOBAL_LOG, RegionAdded(EU), submitted(1), submitted(2), AWARD, WorkloadBound(W1, 1, EU, 3))
    machine.adopt(EU_LOG, joined(), granted(CLAIM), GangStarted(*attempt()))
    machine.fact(GLOBAL_LOG, AttemptClosed(W1, 1, EndCause.COMPLETED, Phase.COMPLETED, EU, 3))
    assert CLOSED_TOO_SOON == found(machine)


def test_comparing_begins_at_the_start_when_all_logs_are_known(start: Start) -> None:
    """Whatever the order in which they are told to it."""
    machine = start(Auditor((EU,)), unknown=(EU_LOG, GLOBAL_LOG))
    machine.adopt(EU_LOG, joined(), granted(CLAIM), GangStarted(*attempt()))
    machine.adopt(GLOBAL_LOG, RegionAdded(EU), submitted(1), submitted(2), AWARD, WorkloadBound(W1, 1, EU, 3))
    again = machine.restart()
    for one in (machine, again):
        one.fact(GLOBAL_LOG, AttemptClosed(W1, 1, EndCause.COMPLETED, Phase.COMPLETED, EU, 3))
        assert CLOSED_TOO_SOON == found(one)


def test_log_that_is_adopted_again(start: Start) -> None:
    """After a gap, facts ahead of the old image belong to the history before, and are dropped with it."""
    machine = an_auditor(start)
    machine.fact(EU_LOG, granted(CLAIM))
    assert 1 == shown(machine).waiting
    machine.adopt(EU_LOG, GangStarted(*attempt()))
    assert (0, 3) == (shown(machine).waiting, shown(machine).checked[EU_LOG])
    machine.fact(GLOBAL_LOG, AWARD)
    assert [] == found(machine)


def test_show_repeats_the_violations(start: Start) -> None:
    """In the words in which people are told."""
    machine = an_auditor(start)
    machine.fact(GLOBAL_LOG, AWARD, AWARD)
    wanted = ["w-1: epoch 1 after 1", "w-1: awarded while epoch 1 stands in eu"]
    told = tuple(FoundViolation(3, GLOBAL_LOG, 5, text, number) for number, text in enumerate(wanted, 1))
    assert told == shown(machine).violations
    assert 2 == shown(machine).count
    assert NOTHING.events == machine.hear(ShowAudit()).events


# What becomes of a violation.


def broken(start: Start) -> Machine[Any]:
    """An auditor that has found something: a queue that closes what still runs."""
    machine = an_auditor(start)
    machine.fact(GLOBAL_LOG, AWARD)
    machine.fact(EU_LOG, granted(CLAIM), GangStarted(*attempt()))
    too_soon = AttemptClosed(W1, 1, EndCause.COMPLETED, Phase.COMPLETED, EU, 3)
    machine.fact(GLOBAL_LOG, WorkloadBound(W1, 1, EU, 3), too_soon)
    return machine


def test_violations_are_told_and_kept_at_once(start: Start) -> None:
    """Each once: as a message for whoever listens to alarms, and as a deed that keeps it beyond this life."""
    machine = broken(start)
    decision = machine.wake()
    told = said_once(decision, ViolationsFound)
    assert [text for *_, text in CLOSED_TOO_SOON] == [one.text for one in told.violations]
    assert (KeepViolations(told.violations),) == decision.effects
    assert told.count == len(told.violations)
    assert NOTHING == machine.wake()


def test_violations_of_earlier_lives_are_shown(start: Start) -> None:
    """Before those of this one, and counted and numbered with them."""
    machine = broken(start)
    earlier = FoundViolation(1, EU_LOG, 1, "held twice", 41)
    machine.hear(ViolationsKept((earlier,), 7, 40))
    assert 47 == shown(machine).newest
    told = said_once(machine.wake(), ViolationsFound)
    assert [48, 49] == [one.number for one in told.violations]
    answer = shown(machine)
    assert (earlier, *told.violations) == answer.violations
    assert (7 + len(CLOSED_TOO_SOON), 49) == (answer.count, answer.newest)


def test_acknowledged_violations_are_put_aside(start: Start) -> None:
    """Those that were shown, and no others: what was found since has been seen by nobody."""
    machine = broken(start)
    machine.wake()
    assert 2 == shown(machine).newest
    decision = machine.hear(AcknowledgeViolations(1))
    assert [2] == [one.number for one in shown(machine).violations]
    assert ViolationsAcknowledged(1) == said_once(decision, ViolationsAcknowledged)
    assert (PutViolationsAside(1),) == decision.effects
    assert ViolationsAcknowledged(1) == said_once(
        machine.hear(AcknowledgeViolations(2)), ViolationsAcknowledged
    )
    answer = shown(machine)
    assert ((), 0, 2) == (answer.violations, answer.count, answer.newest)


def test_acknowledgement_that_is_heard_again_or_late_changes_nothing(start: Start) -> None:
    """What was found since has been seen by nobody, though it is as much; nor has what another auditor has numbered."""
    machine = broken(start)
    machine.wake()
    machine.hear(AcknowledgeViolations(2))
    machine.fact(GLOBAL_LOG, *[WorkloadBound(W1, 8, EU, 1)] * 2)
    machine.wake()
    left = shown(machine)
    assert left.count >= 2
    for number in (2, 1, 0, -1, left.newest + 1):
        decision = machine.hear(AcknowledgeViolations(number))
        assert ((), ()) == (decision.events, decision.effects)
        assert ViolationsAcknowledged(0) == said_once(decision, ViolationsAcknowledged)
    assert left == shown(machine)


def test_violation_that_is_not_told_yet_is_not_acknowledged(start: Start) -> None:
    """It would be kept after it was acknowledged, and found again by the next life."""
    machine = broken(start)
    assert (2, 0) == (shown(machine).count, shown(machine).newest)
    assert () == machine.hear(AcknowledgeViolations(2)).effects
    machine.wake()
    assert (2, 2) == (shown(machine).count, shown(machine).newest)


def test_violation_that_stands_is_one(start: Start) -> None:
    """A full check every five minutes finds it again, and it is not counted again."""
    machine = broken(start)
    machine.wait(AUDIT_INTERVAL)
    count = shown(machine).count
    for number in (2, 3):
        machine.fact(GLOBAL_LOG, submitted(number))
        machine.wait(AUDIT_INTERVAL)
    assert count == shown(machine).count

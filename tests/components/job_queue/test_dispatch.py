"""The order in which hosts decide messages: set at the queue, recorded, and told to all hosts again and again."""

from typing import Any

import pytest

from core.component import Decision
from core.events.dispatch import DispatchSet
from core.messages.base import Refused
from core.messages.dispatch import DispatchAnswered, DispatchTold, SetDispatch, ShowDispatchSettings
from core.nouns.dispatch import DispatchSettings, Target
from core.nouns.ids import GLOBAL_LOG
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import DISPATCH_INTERVAL, NAME_LENGTH_MAX
from core.nouns.reasons import Reason
from tests.components.support.job_queue import Start, a_job_queue, submit
from tests.components.support.machine import Machine
from tests.matching import facts, said, said_once

EDF = DispatchSettings("edf", {"query": Target(seconds(2), seconds(9))}, Nanoseconds(1_000_000), 50)
RR = DispatchSettings("rr")
LITTLE = Nanoseconds(1)


def ask_for(queue: Machine[Any], settings: DispatchSettings, revision: int = 0, by: str = "olga") -> Decision:
    """An operator sets it."""
    return queue.hear(SetDispatch(settings, revision, by))


def refused(decision: Decision) -> Refused:
    """Nothing is recorded, and why."""
    assert () == decision.events
    return said_once(decision, Refused)


def recorded(queue: Machine[Any]) -> list[DispatchSet]:
    """All that the log has of it."""
    return [fact.event for fact in queue.logs[GLOBAL_LOG] if isinstance(fact.event, DispatchSet)]


def shown(queue: Machine[Any]) -> DispatchAnswered:
    """The settings and their revision."""
    return said_once(queue.hear(ShowDispatchSettings()), DispatchAnswered)


def told(decision: Decision) -> list[tuple[DispatchSettings, int]]:
    """What all hosts are told: the settings, and their revision."""
    return [(one.settings, one.revision) for one in said(decision, DispatchTold)]


# Setting.


def test_settings_are_recorded_once(start: Start) -> None:
    """With the operator and the next revision, which the answer tells."""
    queue = a_job_queue(start)
    assert DispatchAnswered(DispatchSettings(), 0) == shown(queue)
    decision = ask_for(queue, EDF)
    assert [DispatchSet(EDF, 1, "olga")] == facts(decision) == recorded(queue)
    assert DispatchAnswered(EDF, 1) == said_once(decision, DispatchAnswered) == shown(queue)
    assert [DispatchSet(RR, 2, "olga")] == facts(ask_for(queue, RR, 1))
    assert DispatchAnswered(RR, 2) == shown(queue)


@pytest.mark.parametrize("revision", [0, 1])
def test_same_wish_again_is_no_fact(start: Start, revision: int) -> None:
    """Whether the message comes twice, or an operator asks for the settings that there are."""
    queue = a_job_queue(start)
    ask_for(queue, EDF)
    decision = ask_for(queue, EDF, revision)
    assert () == decision.events
    assert DispatchAnswered(EDF, 1) == said_once(decision, DispatchAnswered)
    assert 1 == len(recorded(queue))


def test_default_settings_are_answered_before_any_are_set(start: Start) -> None:
    """They are so already: no fact, and no revision."""
    queue = a_job_queue(start)
    decision = ask_for(queue, DispatchSettings())
    assert () == decision.events
    assert DispatchAnswered(DispatchSettings(), 0) == said_once(decision, DispatchAnswered)


@pytest.mark.parametrize("revision", [-1, 0, 1, 3])
def test_stale_revision_is_superseded(start: Start, revision: int) -> None:
    """Another operator was quicker, or the revision never was: the answer names the newest."""
    queue = a_job_queue(start)
    ask_for(queue, EDF)
    ask_for(queue, RR, 1)
    answer = refused(ask_for(queue, EDF, revision))
    assert (Reason.SUPERSEDED, ("revision: it is 2 now",)) == (answer.reason, answer.problems)
    assert DispatchAnswered(RR, 2) == shown(queue)


def test_older_wish_that_comes_late_is_superseded(start: Start) -> None:
    """It is not taken for the newest, though its settings are those of now: a revision lies between."""
    queue = a_job_queue(start)
    for revision, settings in enumerate((EDF, RR, EDF)):
        ask_for(queue, settings, revision)
    assert Reason.SUPERSEDED == refused(ask_for(queue, EDF, 0)).reason
    assert 3 == len(recorded(queue))


def test_every_problem_is_told(start: Start) -> None:
    """At once, each with its field, before the revision is looked at."""
    queue = a_job_queue(start)
    targets = {
        "query": Target(Nanoseconds(1), seconds(1)),
        "gang": Target(seconds(9), seconds(1)),
        "urgent": Target(seconds(1), seconds(1)),
    }
    wrong = DispatchSettings("lifo", targets, seconds(2), 0)
    answer = refused(ask_for(queue, wrong, 7, "o" * (NAME_LENGTH_MAX + 1)))
    assert Reason.INVALID == answer.reason
    fields = [problem.partition(":")[0] for problem in answer.problems]
    assert ["policy", "query", "gang", "class", "quantum", "rate", "by"] == fields
    assert "there are llf, edf, sjf, token, rr, fifo" in answer.problems[0]
    assert [] == recorded(queue)


@pytest.mark.parametrize("message", [SetDispatch(EDF, 0, "olga"), ShowDispatchSettings()])
def test_tenant_is_refused(start: Start, message: SetDispatch | ShowDispatchSettings) -> None:
    """The order of all messages is for operators, to set and to see."""
    queue = a_job_queue(start)
    decision = queue.hear(message, sender="ml/ada@desk", tenant="ml")
    assert Reason.OPERATORS_ONLY == refused(decision).reason
    assert [] == recorded(queue)


# Telling.


def test_nothing_is_told_before_anything_is_set(start: Start) -> None:
    """However long the queue runs, and after a restart; the queue is not woken for it."""
    queue = a_job_queue(start)
    assert queue.component.due(queue.state) is None
    assert [] == told(queue.wait(Nanoseconds(10 * DISPATCH_INTERVAL)))
    again = queue.restart()
    assert [] == told(again.wake())
    assert [] == told(again.wait(Nanoseconds(10 * DISPATCH_INTERVAL)))


def test_all_hosts_are_told_at_once_and_again_and_again(start: Start) -> None:
    """When it is set, and then in every interval: a host may have started since, or a message have been lost."""
    queue = a_job_queue(start)
    ask_for(queue, EDF)
    assert [(EDF, 1)] == told(queue.wake())
    assert [] == told(queue.wait(Nanoseconds(DISPATCH_INTERVAL - LITTLE)))
    assert [(EDF, 1)] == told(queue.wait(LITTLE))
    assert 3 * [(EDF, 1)] == told(queue.wait(Nanoseconds(3 * DISPATCH_INTERVAL)))
    ask_for(queue, RR, 1)
    assert [(RR, 2)] == told(queue.wake())
    assert [(RR, 2)] == told(queue.wait(DISPATCH_INTERVAL))


def test_a_wish_that_is_answered_without_a_fact_tells_nothing_sooner(start: Start) -> None:
    """Nothing has changed, so the next time is the one that it was."""
    queue = a_job_queue(start)
    ask_for(queue, EDF)
    queue.wake()
    queue.wait(LITTLE)
    ask_for(queue, EDF, 1)
    ask_for(queue, RR, 7)
    assert [] == told(queue.wake())
    assert [(EDF, 1)] == told(queue.wait(DISPATCH_INTERVAL))


def test_other_work_tells_nothing_sooner(start: Start) -> None:
    """A queue that is woken for auctions tells hosts in its interval all the same."""
    queue = a_job_queue(start)
    ask_for(queue, EDF)
    queue.wake()
    submit(queue)
    decision = queue.wait(Nanoseconds(DISPATCH_INTERVAL - LITTLE))
    assert decision.messages
    assert [] == told(decision)
    assert [(EDF, 1)] == told(queue.wait(LITTLE))


def test_restarted_queue_tells_at_once(start: Start) -> None:
    """Its log has the settings, whenever it told them last."""
    queue = a_job_queue(start)
    ask_for(queue, EDF)
    queue.wake()
    again = queue.restart()
    assert DispatchAnswered(EDF, 1) == shown(again)
    assert [(EDF, 1)] == told(again.wake())
    assert [(EDF, 1)] == told(again.wait(DISPATCH_INTERVAL))
    assert [DispatchSet(RR, 2, "olga")] == facts(ask_for(again, RR, 1))

"""What mailboxes know of each type: nothing is without traits, ways never lead back, and the table says what components say."""

import random
from collections import defaultdict
from typing import Any

import pytest

from bus.catalogue import ROUTES
from core.dispatch.traits import (
    BEAT_LOOK,
    TRAITS,
    class_of_work,
    classes_of,
    possible_classes,
)
from core.messages import MESSAGES
from core.messages.agents import FindBid
from core.messages.base import Answer, Envelope, Message, Notice
from core.messages.broker import SolicitBid
from core.messages.queue import ListWorkloads, SubmitWorkload
from core.messages.store import OrderStop
from core.messages.workers import PrepareTasks, StopTasks, WorkerBeat, WorkerReport
from core.nouns.dispatch import TARGETS, UrgencyClass
from core.nouns.limits import PRESENCE_INTERVAL, SUSPECT_SILENCE
from core.nouns.quantities import Amount
from core.nouns.workload import JobSpec, Kind
from runtime.host import Host
from scenarios.play.forged_messages import forged, names_of
from scenarios.play.simulated import run_simulated
from scenarios.scenario import load_scenario

SAID = [kind for kind in MESSAGES if not issubclass(kind, Answer)]


@pytest.mark.parametrize("kind", SAID, ids=lambda kind: kind.__name__)
def test_message_has_class_key_and_size(kind: type[Message]) -> None:
    """Any message that can be drawn of a type, so that no field is read which there is not."""
    dice, traits = random.Random(7), TRAITS[kind]
    for _ in range(20):
        message = forged(kind, dice, names_of([], []))
        assert traits.class_of(message) in classes_of(traits)
        assert isinstance(traits.key_of(message), str)
        assert isinstance(traits.size_of(message), int)
        assert 0 <= traits.look_of(message) < TARGETS[UrgencyClass.REPORT].max_wait


def test_ways_lead_to_what_is_heard_and_never_back() -> None:
    """A way that led back would grow with each round."""
    for kind, traits in TRAITS.items():
        assert all(onward in ROUTES for onward in (*traits.leads_to, *traits.retries)), kind
        seen: set[type[Message]] = set()
        ahead = list(traits.leads_to)
        while ahead:
            onward = ahead.pop()
            assert onward is not kind, kind
            if onward not in seen:
                seen.add(onward)
                ahead += TRAITS[onward].leads_to


def test_class_follows_the_work() -> None:
    """By its kind, and by its number of tasks."""
    assert UrgencyClass.INTERACTIVE == class_of_work(Kind.TRAINING, [_job(1)])
    assert UrgencyClass.PLACEMENT == class_of_work(Kind.TRAINING, [_job(1), _job(1)])
    assert UrgencyClass.PLACEMENT == class_of_work(Kind.BATCH, [_job(8)])
    assert UrgencyClass.GANG == class_of_work(Kind.TRAINING, [_job(9)])
    assert UrgencyClass.INTERACTIVE == class_of_work(Kind.INTERACTIVE, [_job(9)])


def _job(tasks: int) -> JobSpec:
    return JobSpec("train", tasks, Amount(gpu_milli=1000), "H100")


def test_commands_to_a_worker_are_one_lane_and_so_are_its_reports() -> None:
    """And so are the requests of one cycle."""
    for kinds in ((PrepareTasks, StopTasks), (WorkerBeat, WorkerReport), (SolicitBid,), (FindBid,)):
        assert {None} == {TRAITS[kind].key for kind in kinds}


def test_class_that_leads_to_a_message_is_possible_for_it() -> None:
    """And no other."""
    possible = possible_classes()
    assert UrgencyClass.SYSTEM in possible[OrderStop]
    assert UrgencyClass.SYSTEM in possible[WorkerReport], "a stop leads to reports"
    assert {UrgencyClass.QUERY, UrgencyClass.BULK} == possible[ListWorkloads]
    assert {UrgencyClass.INTERACTIVE, UrgencyClass.BULK} == possible[SubmitWorkload]


def test_beat_that_waits_longest_still_comes_before_its_worker_is_suspect() -> None:
    """A worker whose last beat was lost is suspect `SUSPECT_SILENCE` after the one before that."""
    waits = TARGETS[UrgencyClass.REPORT].max_wait
    assert 2 * PRESENCE_INTERVAL + waits < SUSPECT_SILENCE
    assert BEAT_LOOK + TARGETS[UrgencyClass.REPORT].within <= waits


@pytest.mark.parametrize("name", ["quiet_minutes", "preemption_storm", "drain_with_consent", "rack_loss"])
def test_table_has_all_that_is_said(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In whole simulated planes."""
    said: dict[type[Message], set[type[Message]]] = defaultdict(set)
    decide = Host._decide

    def watched(host: Host[Any], envelope: Envelope) -> Any:  # Any: a decision of whichever component
        decision = decide(host, envelope)
        said[type(envelope.message)].update(map(type, decision.messages))
        return decision

    monkeypatch.setattr(Host, "_decide", watched)
    run_simulated(load_scenario(name), 1)
    assert len(said) > 10
    for kind, onward in said.items():
        if issubclass(kind, Notice):
            continue
        traits = TRAITS[kind]
        unlisted = {one for one in onward if not issubclass(one, Answer)} - {
            *traits.leads_to,
            *traits.retries,
        }
        assert not unlisted, (kind, unlisted)

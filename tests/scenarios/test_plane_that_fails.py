"""A process that dies of a mistake is dead for good: a run ends then and says what it died of, whoever waits for an answer."""

from typing import Any

import pytest

from bench.fairness import QUICK, Week
from components.auditor.component import Auditor
from components.job_queue.component import JobQueue
from core.component import Decision
from core.messages.auditor import ShowAudit
from core.messages.base import Envelope, Message
from core.messages.queue import SubmitWorkload
from core.messages.tenants import SetRanking
from core.nouns.ranking import RankingSettings
from scenarios.scenario import parse_scenario
from scenarios.worlds.interface import PlaneFailed
from tests.scenarios.runs import run_quietly

SMALL = parse_scenario(
    """
name: small
survives: Nothing but a ranking that is set, and work.
fleet: {regions: 1, nodes: 2, workers: 1}
tenants: {one: {entitled: {H100: {gpus: 8}}}}
ranking: {quota_patience_seconds: 600}
workload:
  - steady: {workloads: 3, tenant: one, hours: 0.05, minutes_median: 0.5, minutes_max: 2, gpus_max: 8}
calm: {minutes: 30}
""",
    "small.yaml",
)


def stumbles_over(monkeypatch: pytest.MonkeyPatch, who: type[Any], kind: type[Message]) -> None:
    """From now on a component dies of every message of a type."""
    decide = who.decide

    def stumbles(component: Any, state: Any, envelope: Envelope) -> Decision:
        if isinstance(envelope.message, kind):
            raise KeyError(kind.__name__)
        decided: Decision = decide(component, state, envelope)
        return decided

    monkeypatch.setattr(who, "decide", stumbles)


@pytest.mark.parametrize(
    ("who", "kind"),
    [
        pytest.param(JobQueue, SetRanking, id="while it is set up"),
        pytest.param(JobQueue, SubmitWorkload, id="under load"),
        pytest.param(Auditor, ShowAudit, id="while checks ask"),
    ],
)
def test_scenario_of_which_a_process_dies_of_a_mistake(
    monkeypatch: pytest.MonkeyPatch, who: type[Any], kind: type[Message]
) -> None:
    """It ends, and says what the process died of."""
    stumbles_over(monkeypatch, who, kind)

    outcome = run_quietly(SMALL, 1)

    found = [text for text in outcome.problems if "died of" in text]
    assert [f"died of KeyError({kind.__name__!r})"] == [text.partition(" ")[2] for text in found]


def test_week_of_which_the_queue_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    """A benchmark waits for no answer that cannot come."""
    stumbles_over(monkeypatch, JobQueue, SubmitWorkload)

    with pytest.raises(PlaneFailed, match=r"died of KeyError\('SubmitWorkload'\)"):
        Week(QUICK, 1, RankingSettings()).play()

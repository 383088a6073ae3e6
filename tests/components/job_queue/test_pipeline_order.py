"""The order of the queue with pipelines: without deadlines it is that of plain work, fact for fact."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from components.job_queue.component import JobQueue
from core.events.pipelines import PipelineEnded, PipelineSubmitted, StagesReprioritised
from core.events.queue import WorkloadAwarded
from core.fact import Event, Note
from core.messages.pipelines import SubmitPipeline
from core.messages.queue import SubmitWorkload
from core.messages.tenants import SetRanking, SetTenant
from core.nouns.ids import GLOBAL_LOG, TenantName, WorkloadId
from core.nouns.instant import SECOND, Nanoseconds, after
from core.nouns.pipeline import NO_DEADLINE, PipelineSpec, StageSpec
from core.nouns.ranking import DeadlinePolicy, RankingSettings
from core.nouns.tenant import TenantSettings
from core.nouns.workload import EndCause, WorkloadSpec
from tests.builders import EU, EU_LOG, US, US_LOG, a_job, a_spec, joined
from tests.components.support.job_queue import bid, ended, refuse_open, running
from tests.components.support.machine import Machine
from tests.components.support.pipelines import DAY, HOUR
from tests.core.properties import PROPERTY

OF_PIPELINES = (PipelineSubmitted, PipelineEnded, StagesReprioritised)
ROOM = 2
"""Workloads that run at once."""
TENANTS = ("ml", "vision")


class Asked(Struct, frozen=True):
    """One submission."""

    spec: WorkloadSpec
    within: Nanoseconds
    waits: int
    """Minutes to the next one."""


@st.composite
def submissions(draw: st.DrawFn) -> list[Asked]:
    """Up to ten workloads of two tenants, of one stage each, within some hours."""
    names = st.sampled_from(["prep", "train", "eval"])
    return [
        Asked(
            a_spec(
                a_job(1, draw(st.sampled_from([1, 4]))),
                name=draw(names),
                tenant=draw(st.sampled_from(TENANTS)),
                priority=draw(st.integers(0, 3)),
                regions=(EU,),
            ),
            Nanoseconds(draw(st.integers(1, 30)) * HOUR),
            draw(st.integers(0, 90)),
        )
        for _ in range(draw(st.integers(2, 10)))
    ]


class Played:
    """A queue that hears submissions, and of which one region runs what ranks first."""

    def __init__(self, policy: DeadlinePolicy, *, as_pipelines: bool, with_deadlines: bool) -> None:
        self.machine: Machine[Any] = Machine(JobQueue((US, EU), (US, EU)))
        self.machine.fact(EU_LOG, joined())
        self.machine.fact(US_LOG, joined())
        for tenant in TENANTS:
            self.machine.hear(SetTenant(TenantName(tenant), TenantSettings(), 0))
        self.machine.hear(SetRanking(RankingSettings(deadlines=policy), 0))
        self.as_pipelines, self.with_deadlines = as_pipelines, with_deadlines
        self.runs: list[WorkloadId] = []

    def play(self, asked: list[Asked]) -> list[Event | Note]:
        """Return all facts but those about pipelines."""
        for one in asked:
            self._submit(one)
            self._turn()
            self.machine.wake(after(self.machine.now, Nanoseconds(one.waits * 60 * SECOND)))
        while self.runs:
            self.machine.fact(EU_LOG, ended(EndCause.COMPLETED, 1, self.runs.pop(0)))
            self._turn()
        facts = [fact.event for fact in self.machine.logs[GLOBAL_LOG]]
        return [event for event in facts if not isinstance(event, OF_PIPELINES)]

    def _submit(self, one: Asked) -> None:
        if not self.as_pipelines:
            self.machine.hear(SubmitWorkload(one.spec, "ada"))
            return
        within = one.within if self.with_deadlines else Nanoseconds(0)
        stage = StageSpec(one.spec.name, one.spec)
        self.machine.hear(SubmitPipeline(PipelineSpec(one.spec.name, (stage,), NO_DEADLINE, within), "ada"))

    def _turn(self) -> None:
        """The region grants what ranks first while it has room, and refuses all else until the next turn."""
        self.machine.wake()
        while self.machine.state.auctions.open:
            auctions = self.machine.state.auctions.open
            ranked = [one.work.workload for one in self.machine.state.order.ranked()]
            first = next((name for name in ranked if name in auctions), None)
            if first is None or len(self.runs) >= ROOM:
                refuse_open(self.machine, missing={EU: 1_000})
            else:
                bid(self.machine, auctions[first].auction, workload=first)
                refuse_open(self.machine, first, missing={EU: 1_000})
                self.runs.append(first)
            self.machine.wake()
            if first in self.runs:
                running(self.machine, 1, first)


@settings(PROPERTY, max_examples=25)
@given(submissions())
def test_pipelines_without_deadlines_are_plain_work(asked: list[Asked]) -> None:
    """The same submissions, starts promised, awards and ends, at the same times and in the same order."""
    plain = Played(DeadlinePolicy.LLF, as_pipelines=False, with_deadlines=False)
    pipelines = Played(DeadlinePolicy.LLF, as_pipelines=True, with_deadlines=False)
    assert plain.play(asked) == pipelines.play(asked)
    assert len(asked) == sum(
        isinstance(fact.event, WorkloadAwarded) for fact in plain.machine.logs[GLOBAL_LOG]
    )


@settings(PROPERTY, max_examples=25)
@given(submissions())
def test_deadlines_that_are_off_change_nothing(asked: list[Asked]) -> None:
    """With `ranking deadlines off` start deadlines are known and shown, and order nothing."""
    plain = Played(DeadlinePolicy.OFF, as_pipelines=False, with_deadlines=False)
    pipelines = Played(DeadlinePolicy.OFF, as_pipelines=True, with_deadlines=True)
    assert plain.play(asked) == pipelines.play(asked)


@pytest.mark.parametrize("policy", [DeadlinePolicy.LLF, DeadlinePolicy.EDF])
def test_deadlines_that_are_on_change_the_order(policy: DeadlinePolicy) -> None:
    """The last of four is due first: so the two properties above compare what can differ."""
    asked = [
        Asked(a_spec(name="train", tenant="ml", regions=(EU,)), Nanoseconds(span), 1)
        for span in (4 * DAY, 4 * DAY, 4 * DAY, HOUR)
    ]
    plain = Played(policy, as_pipelines=False, with_deadlines=False).play(asked)
    pipelines = Played(policy, as_pipelines=True, with_deadlines=True).play(asked)

    def awards(events: list[Event | Note]) -> list[str]:
        return [event.workload for event in events if isinstance(event, WorkloadAwarded)]

    assert ["w-1", "w-2", "w-3", "w-4"] == awards(plain)
    assert ["w-1", "w-2", "w-4", "w-3"] == awards(pipelines)

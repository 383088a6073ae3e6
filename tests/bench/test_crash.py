"""The crash experiment: that it plays what it says, and that its counters, which are to be zero, see what is planted."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

import bench.crash
from bench.crash import FLEET, HAPPENED, REGION_LOG, SECONDS_MEDIAN, SHARE, WRONG, bars_of, run
from bench.support.crash.check import Replayed, holder_of, lost_workloads, needed
from bench.support.crash.load import Sustained, workloads_for
from bench.support.report import Findings
from core.events.queue import AttemptClosed, WorkloadAwarded, WorkloadCancelled, WorkloadSubmitted
from core.events.region import AttemptEnded, ClaimGranted, NodesLost
from core.fact import Event, Fact
from core.nouns.ids import GLOBAL_LOG, LogName, WorkerName, WorkloadId
from scenarios.schema.fleet import regions_of
from scenarios.workload import gpus_of
from scenarios.worlds.simulated.world import SimulatedWorld

NOBODY = WorkloadId("w-nobody")


class Seen:
    """What the benchmark found, and the logs of its run."""

    def __init__(self) -> None:
        self.logs: dict[LogName, list[Fact]] = {}
        with pytest.MonkeyPatch.context() as patch:
            facts_on = bench.crash.facts_on

            def recorded(world: SimulatedWorld, log: LogName, after: int = 0) -> list[Fact]:
                facts = facts_on(world, log, after)
                if not after:
                    self.logs[log] = facts
                return facts

            patch.setattr(bench.crash, "facts_on", recorded)
            self.findings: Findings = run(Path("nowhere"), is_quick=True)

    @property
    def queue(self) -> list[Fact]:
        return self.logs[GLOBAL_LOG]

    @property
    def region(self) -> list[Fact]:
        return self.logs[REGION_LOG]

    @property
    def accepted(self) -> list[WorkloadId]:
        return [fact.event.workload for fact in self.queue if isinstance(fact.event, WorkloadSubmitted)]

    def lost(self, queue: Sequence[Fact], region: Sequence[Fact], *more: WorkloadId) -> list[str]:
        """The sentences about a run that left these logs."""
        return list(lost_workloads([*self.accepted, *more], queue, [holder_of(region)]).values())


@pytest.fixture(scope="module")
def seen() -> Seen:
    """One seed, shortened."""
    return Seen()


def places(facts: Sequence[Fact], kind: type[Event]) -> list[int]:
    """Where such facts are."""
    return [place for place, fact in enumerate(facts) if isinstance(fact.event, kind)]


def test_nothing_is_given_twice_or_lost_while_all_die(seen: Seen) -> None:
    """P2, P4, L5: every bar is met, and agents, the store and the middle of its commits were struck while grants flowed."""
    findings = seen.findings
    bars = {bar.name: bar.value for bar in findings.bars}
    assert dict.fromkeys(("double_placements", "lost", "replay_differs", "ran_wrongly", "violations"), 0) == {
        name: bars.pop(name) for name in WRONG
    }
    assert HAPPENED.keys() == bars.keys()
    assert all(bar.met for bar in findings.bars)
    figures = findings.figures
    assert sum(figures[f"store_kills_batch_{fate}"] for fate in ("lost", "torn", "kept")) >= 1
    assert figures["grants"] >= figures["workloads"] / 2 > 10


@pytest.mark.parametrize("name", WRONG)
def test_one_thing_that_is_wrong_misses_its_bar(seen: Seen, name: str) -> None:
    """And says which it was."""
    (missed,) = (bar for bar in bars_of(seen.findings.figures | {name: 1.0}, "seed 7: so") if not bar.met)
    assert (name, "seed 7: so") == (missed.name, missed.limited_by)


@pytest.mark.parametrize("name", HAPPENED)
def test_run_in_which_nothing_happens_misses_its_bars(seen: Seen, name: str) -> None:
    """Zeros of a run in which nobody died, nothing was granted or nothing was compared say nothing."""
    figures = seen.findings.figures
    assert figures["seeds"] * HAPPENED[name] <= figures[name]
    (missed,) = (bar for bar in bars_of(figures | {name: 0.0}, "") if not bar.met)
    assert name == missed.name


def test_load_requests_its_share_of_the_gpus() -> None:
    """Over ten times the span, the drawn work is within a tenth of the load's share of the GPUs."""
    (region,) = regions_of(FLEET).values()
    span = 6_000.0
    load = Sustained(
        workloads=workloads_for(SHARE, region, span, SECONDS_MEDIAN),
        hours=span / 3600,
        seconds_median=SECONDS_MEDIAN,
    )
    asked = 0.0
    for arrival in load.arrivals(FLEET, random.Random(1)):
        (job,) = arrival.spec.jobs
        assert job.emulation is not None
        asked += job.tasks * job.need.gpu_milli / 1000 * job.emulation.work / 1e9
    assert SHARE == pytest.approx(asked / (gpus_of(region) * span), rel=0.1)


def test_capacity_granted_twice_is_counted(seen: Seen) -> None:
    """Counted once each: a grant of a whole node that is already granted, a second grant to its holder, and a grant on a lost node."""
    facts = seen.region
    assert [] == holder_of(facts).twice
    totals = holder_of(facts).total
    at, event = next(
        (place, fact.event)
        for place, fact in enumerate(facts)
        if isinstance(fact.event, ClaimGranted)
        and any(milli == totals[node] for node, milli in needed(fact.event.claim).items())
    )
    granted = facts[at]
    other = replace(granted, event=replace(event, workload=NOBODY))
    assert 1 == len(holder_of([*facts[: at + 1], other]).twice)
    again = replace(granted, event=replace(event, epoch=event.epoch + 1))
    assert 1 == len(holder_of([*facts[: at + 1], again]).twice)
    assert 1 == len(holder_of([*facts[: at + 1], granted]).twice)
    lost = replace(granted, event=NodesLost(WorkerName("w0"), tuple(needed(event.claim))))
    assert 1 == len(holder_of([*facts[:at], lost, granted]).twice)


def test_workload_that_is_lost_is_seen(seen: Seen) -> None:
    """One that no log has, whose end was never recorded, or twice, that goes on after it, or holds its room: one each."""
    queue, region = seen.queue, seen.region
    assert [] == seen.lost(queue, region)
    assert ["accepted, and no log has it"] == seen.lost(queue, region, NOBODY)
    at, end = next(
        (place, fact.event)
        for place, fact in enumerate(queue)
        if isinstance(fact.event, AttemptClosed) and fact.event.phase.is_terminal
    )
    assert ["ended 0 times"] == seen.lost([*queue[:at], *queue[at + 1 :]], region)
    cancelled = replace(queue[at], event=WorkloadCancelled(end.workload))
    assert ["ended 2 times"] == seen.lost([*queue, cancelled], region)
    awarded = next(
        fact
        for fact in queue
        if isinstance(fact.event, WorkloadAwarded) and fact.event.workload == end.workload
    )
    (text,) = seen.lost([*queue, awarded], region)
    assert "after its end" in text
    last = places(region, AttemptEnded)[-1]
    (text,) = seen.lost(queue, [*region[:last], *region[last + 1 :]])
    assert "still holds its room" in text
    assert ["the answer to 2 submissions"] == seen.lost(queue, region, seen.accepted[0])


@pytest.mark.parametrize("log", [GLOBAL_LOG, REGION_LOG])
def test_log_that_is_not_the_state_is_seen(seen: Seen, log: LogName) -> None:
    """A fact that is another one, or one that was evolved and is not in the log."""
    facts = seen.logs[log]
    at = [*places(facts, WorkloadSubmitted), *places(facts, ClaimGranted)][-1]
    live, same, other, short = (Replayed(log) for _ in range(4))
    for one in (live, same):
        one.fold(facts[: at + 1])
    assert not same.differs(live.image)
    other.fold([*facts[:at], replace(facts[at], at=facts[at].at + 1)])
    assert other.differs(live.image)
    short.fold(facts[:at])
    assert short.differs(live.image)

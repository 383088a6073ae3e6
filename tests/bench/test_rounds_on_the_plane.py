"""Benchmarks of shared pools on the plane: a few jobs take turns through queue, store, agents and planner, and the figures are what they say."""

import argparse
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace

from bench import round_cost, rounds, rounds_live, two_worlds
from bench.support.sharing.big_pool import regions_of, workloads_of
from bench.support.sharing.plane_jobs import Pauses, model_name, pool_region, workload_of
from bench.support.sharing.plane_play import columns_of
from bench.support.sharing.queue_rounds import QueueRounds
from bench.support.sharing.tables import GAVEL_TYPES, made_up_table
from bench.support.sharing.turns import Turns
from core.events.queue import AttemptClosed, WorkloadAwarded, WorkloadBound, WorkloadSubmitted
from core.events.region import (
    AttemptEnded,
    AttemptRanked,
    CheckpointCommitted,
    ClaimGranted,
    GangStarted,
)
from core.events.sharing import PicksAdded, RoundBegun
from core.fact import Event, Fact
from core.nouns.ids import GLOBAL_LOG, RegionName, WorkloadId
from core.nouns.instant import SECOND, Instant, Nanoseconds
from core.nouns.sharing import ShareColumn
from core.nouns.workload import EndCause, Kind, Phase
from core.rules import shared_rounds
from core.rules.submission import problems_of
from core.sharing.jobs import SharingJob
from core.sharing.rounds import chosen
from tests.builders import a_claim

HERE = RegionName("here")
COLUMNS = (ShareColumn(HERE, "v100"), ShareColumn(HERE, "k80"))
SPAN = 360
PAUSES = Pauses(stop_seconds=10, set_up_seconds=30, checkpoint_seconds=600)


def job(number: int, gpus: int = 1) -> SharingJob:
    """A job of a model that is measured."""
    return SharingJob(f"{number}", "ResNet-18 (batch size 16)", gpus, 1_000.0, 0.0)


@dataclass
class Story:
    """Facts as they become durable, and the figures that are folded from them. Times are seconds."""

    turns: Turns = field(default_factory=lambda: Turns({"here/v100": 2, "here/k80": 2}, SPAN * SECOND))

    def tell(self, at: float, *events: Event) -> None:
        """At one time."""
        for event in events:
            self.turns.take(Fact(GLOBAL_LOG, 1, Instant(round(at * SECOND)), "", "", event))

    def submit(self, *numbers: int, gpus: int = 1) -> None:
        """Jobs of so many GPUs, at the begin."""
        for number in numbers:
            spec = workload_of(job(number, gpus), made_up_table(), GAVEL_TYPES, PAUSES)
            self.tell(1, WorkloadSubmitted(WorkloadId(f"w-{number}"), number, spec, "ada", ""))

    def round(self, at: float, joins: dict[int, int], leaves: tuple[int, ...] = ()) -> None:
        """A round begins; jobs by number join a column by its place."""
        ids = {WorkloadId(f"w-{number}"): column for number, column in joins.items()}
        left = tuple(WorkloadId(f"w-{number}") for number in leaves)
        self.tell(at, RoundBegun(round(at) // SPAN, COLUMNS, ids, left, Nanoseconds(60 * SECOND)))

    def place(self, at: float, number: int, epoch: int = 1) -> None:
        """It is awarded and granted."""
        workload = WorkloadId(f"w-{number}")
        self.tell(at, WorkloadAwarded(workload, epoch, HERE, 0, ()))
        self.tell(at, ClaimGranted(workload, epoch, a_claim(workload, epoch), is_merged=False))

    def start(self, at: float, number: int, epoch: int = 1) -> None:
        """It is placed, and all of its tasks run."""
        self.place(at, number, epoch)
        workload = WorkloadId(f"w-{number}")
        self.tell(at, GangStarted(workload, epoch), WorkloadBound(workload, epoch, HERE, 1))

    def end(self, at: float, number: int, cause: EndCause, epoch: int = 1) -> None:
        """Its attempt ends."""
        workload, phase = WorkloadId(f"w-{number}"), Phase.PENDING
        if cause is EndCause.COMPLETED:
            phase = Phase.COMPLETED
        self.tell(at, AttemptEnded(workload, epoch, cause))
        self.tell(at, AttemptClosed(workload, epoch, cause, phase, HERE, 1))

    @property
    def figures(self) -> dict[str, float]:
        """As they are now."""
        return self.turns.figures()


def test_pause_is_from_the_pick_until_the_job_works_again() -> None:
    """Of a job that moves: 12 s until it starts on other GPUs, of which 10 are its own way to stop, and 30 s of set-up."""
    story = Story()
    story.submit(1)
    story.round(SPAN, {1: 0})
    story.start(SPAN + 1, 1)
    story.round(2 * SPAN, {1: 1}, (1,))
    story.end(2 * SPAN + 11, 1, EndCause.ROUND_OVER)
    story.start(2 * SPAN + 12, 1, epoch=2)
    found = story.figures
    assert (42.0, 31.0) == (found["pause_mean_seconds"], found["first_start_p95_seconds"])
    assert [1.0, 2.0] == story.turns.beyond
    assert (1.0, 1.0, 0.0) == (found["moves"], found["leases"], found["lease_share"])


def test_pick_that_waits_the_whole_round_is_counted() -> None:
    """It counts with the whole round, once, also if it starts later; and the GPUs that nobody held meanwhile are empty."""
    story = Story()
    story.submit(1, 2)
    story.round(SPAN, {1: 0, 2: 0})
    story.start(SPAN + 1, 1)
    story.round(2 * SPAN, {})
    story.round(3 * SPAN, {})
    assert [1.0, 360.0] == story.turns.beyond
    # One of two V100, of four GPUs in all, in both rounds.
    assert 2 / 8 == story.figures["empty_share"]
    story.start(3 * SPAN + 5, 2)
    story.round(4 * SPAN, {})
    assert [1.0, 360.0] == story.turns.beyond
    assert 2 / 12 == story.figures["empty_share"]


def test_idle_gpus_that_no_pick_waits_for_are_not_empty() -> None:
    """Nor are those that were held for part of the round."""
    story = Story()
    story.submit(1, 2)
    story.round(SPAN, {1: 0})
    story.start(SPAN + 1, 1)
    story.tell(SPAN + 200, PicksAdded(COLUMNS, {WorkloadId("w-2"): 0}))
    story.start(SPAN + 201, 2)
    story.round(2 * SPAN, {})
    assert 0.0 == story.figures["empty_share"]
    assert [1.0] == story.turns.beyond


def test_facts_about_jobs_that_stay() -> None:
    """A checkpoint at its own time, and the end of the work, are the job's own; anything else was done to it."""
    story = Story()
    story.submit(1)
    one = WorkloadId("w-1")
    story.round(SPAN, {1: 0})
    story.start(SPAN + 1, 1)
    story.round(2 * SPAN, {})
    story.tell(SPAN + 602, CheckpointCommitted(one, 1, 500))
    assert 0.0 == story.figures["facts_per_lease"]
    story.tell(SPAN + 700, CheckpointCommitted(one, 1, 501))
    assert 1.0 == story.figures["facts_per_lease"]
    story.tell(SPAN + 701, AttemptRanked(one, 1, 2, 3))
    assert 2.0 == story.figures["facts_per_lease"]
    story.end(SPAN + 702, 1, EndCause.COMPLETED)
    story.round(3 * SPAN, {})
    assert 2.0 == story.figures["facts_per_lease"]
    assert 701 / 3_600 + SPAN / 3_600 == pytest.approx(story.figures["jct_hours"])


def test_jobs_of_a_trace_are_jobs_that_users_may_submit() -> None:
    """With a task for each GPU, the types that they run on, and speeds of the whole job."""
    spec = workload_of(job(7, 4), made_up_table(), GAVEL_TYPES, PAUSES)
    assert () == problems_of(spec)
    assert (4, "v100", ("p100", "k80")) == (
        spec.jobs[0].tasks,
        spec.jobs[0].gpu_type,
        spec.jobs[0].or_types,
    )
    assert "ResNet-18-16" == model_name("ResNet-18 (batch size 16)")
    assert {"r/v100": 8, "r/k80": 24} == columns_of({"r": pool_region({"v100": 8, "k80": 24})})


def test_rounds_in_small(tmp_path: Path) -> None:
    """All jobs complete on the plane, jobs move, and who stays is told nothing."""
    found = rounds.run(tmp_path, is_quick=True)
    assert ["plane_over_pure", "lease_share", "empty_share"] == [bar.name for bar in found.bars]
    figures = found.figures
    assert rounds.QUICK_JOBS == figures["completed"]
    assert figures["moves"] > 0
    assert 40 <= figures["pause_p95_seconds"] < 45
    assert 0.0 == figures["facts_per_lease"]
    assert figures["jct_hours"] > figures["pure_jct_hours"] > 0
    assert 0.0 < figures["lease_share"] < 1.0


def test_jobs_move_between_regions(tmp_path: Path) -> None:
    """Where each type is in a region of its own, all jobs complete too."""
    parser = argparse.ArgumentParser()
    rounds.options(parser)
    found = rounds.run(tmp_path, is_quick=True, chosen=parser.parse_args(["--apart"]))
    assert rounds.QUICK_JOBS == found.figures["completed"]
    assert found.figures["moves"] > 0


def test_round_cost_in_small(tmp_path: Path) -> None:
    """Jobs of two regions take turns, who stays is told nothing, and the choice is most of what its own timer says."""
    found = round_cost.run(tmp_path, is_quick=True)
    assert ["switch_p95_seconds", "facts_per_lease", "choose_10k_ms"] == [bar.name for bar in found.bars]
    figures = found.figures
    assert round_cost.QUICK_ROUNDS < figures["rounds"]
    assert figures["switches"] > figures["moves"] > 0
    assert (0.0, 0.0) == (figures["facts_per_lease"], figures["empty_share"])
    assert 0.0 < figures["chosen_10k_ms"] < figures["choose_10k_ms"] <= figures["choose_10k_max_ms"]
    assert chosen is vars(shared_rounds)["chosen"], "the timer is still there"


def test_queue_alone_chooses_as_many_as_there_is_room_for() -> None:
    """Round after round all GPUs are given out, and jobs take turns: more than ever run at one time have had one."""
    rounds_of_queue = QueueRounds(regions_of(64), workloads_of(100, PAUSES))
    had = set[WorkloadId]()
    for _, _, begun in rounds_of_queue.rounds(6):
        had |= begun.joins.keys()
        sharing = rounds_of_queue.state.image.sharing
        held = sum(sharing.classes[sharing.jobs[job].kind].gpus for job in sharing.picks)
        assert 60 <= held <= 64
        assert not {*begun.leaves} & {job for job in sharing.picks if job not in begun.joins}
    assert len(had) > len(rounds_of_queue.state.image.sharing.picks)


@pytest.mark.slow
def test_two_worlds_in_small(tmp_path: Path) -> None:
    """The busy half is busy, and takes turns; the border holds; and the same work of quota is submitted in all plays."""
    found = two_worlds.run(tmp_path, is_quick=True)
    assert ["quota_wait_ratio", "border_breaks"] == [bar.name for bar in found.bars]
    figures = found.figures
    assert 0.0 == figures["border_breaks"]
    assert figures["quota_started"] > 20
    assert figures["shared_switches"] > 10
    assert 0.9 < figures["shared_gpu_share"] <= 1.0


def test_recorded_load_is_played_again() -> None:
    """What tenants did is done again at the same looks, so that without any other change every wait is the same."""
    size = replace(two_worlds.QUICK, days=0.01)
    first = two_worlds.HalfShared(size, 1)
    first.play()
    again = two_worlds.HalfShared(size, 1, first.deeds)
    again.play()
    assert first.deeds == again.deeds
    assert first.waits == again.waits
    assert len(first.waits) > 5


def test_border_breaks_are_counted() -> None:
    """Shared work on a node for quota, quota work on a shared one, and shared work that is charged as quota has it."""
    play = two_worlds.HalfShared(two_worlds.QUICK, 1)
    play.loop.close()
    watch = play.witness.watchers[-1]
    spec = workload_of(job(1), made_up_table(), GAVEL_TYPES, PAUSES)
    facts: list[tuple[Event, int]] = [(WorkloadSubmitted(WorkloadId("w-1"), 1, spec, "ada", ""), 0)]
    columns = (ShareColumn(RegionName("r0"), "H100"),)
    facts.append((PicksAdded(columns, {WorkloadId("w-1"): 0}), 0))
    for node, kind, breaks in (
        (0, Kind.SHARED, 1),
        (4, Kind.SHARED, 0),
        (3, Kind.TRAINING, 0),
        (7, Kind.TRAINING, 1),
    ):
        claim = replace(a_claim("w-1", 1, placed={node: 1}), kind=kind)
        facts.append((ClaimGranted(WorkloadId("w-1"), 1, claim, is_merged=False), breaks))
    for charge, breaks in (({"shared/H100": 1_000}, 0), ({"H100": 1_000}, 1)):
        facts.append((WorkloadAwarded(WorkloadId("w-1"), 1, RegionName("r0"), 0, (), charge=charge), breaks))
    for event, breaks in facts:
        before = play.border_breaks
        watch(Fact(GLOBAL_LOG, 1, Instant(1), "", "", event))
        assert breaks == play.border_breaks - before, event


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_rounds_live_in_small(tmp_path: Path) -> None:
    """Three real gangs take turns in rounds of five seconds; no step is made twice, and all logs replay to their digests."""
    found = rounds_live.run(tmp_path, is_quick=True)
    assert ["share_error", "steps_lost"] == [bar.name for bar in found.bars]
    figures = found.figures
    assert (0.0, 0.0, 0.0) == tuple(figures[name] for name in ("steps_lost", "digests_differ", "violations"))
    assert figures["turns"] > rounds_live.GANGS
    assert figures["counted_seconds"] > 0

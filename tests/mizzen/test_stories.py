"""What logs tell of a workload, each story written by hand: served by readers, while nobody keeps the logs."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from core.events.queue import (
    AttemptClosed,
    AwardReturned,
    CancelRequested,
    RankedBid,
    RegionAdded,
    RequeueRequested,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadCancelled,
)
from core.events.region import (
    AttemptEnded,
    AwardDeclined,
    CheckpointCommitted,
    ClaimGranted,
    ClaimPromised,
    GangStarted,
    NodesLost,
    StopOrdered,
)
from core.fact import Event
from core.images import RegionImage
from core.messages.base import Refused
from core.messages.queue import (
    HardwareKnown,
    Holder,
    PastReason,
    RegionOutlook,
    ShownStart,
    WorkloadExplained,
)
from core.nouns.ids import GLOBAL_LOG, LogName, RegionName, TenantName, WorkerName, WorkloadId
from core.nouns.instant import SECOND, Instant, seconds
from core.nouns.placement import PAPER_PART, SCORE_PARTS, SEARCH, VICTIM_PARTS, Shortage, View
from core.nouns.reasons import SENTENCES, Reason
from core.nouns.tenant import LEVEL_MAX
from core.nouns.workload import EndCause, Phase
from core.placing.diagnosis.replay_choice import Outcome
from core.placing.index.overlay import Overlay
from core.placing.pick.nodes import Choice
from core.placing.placer import SECTIONS, Found, Placer
from core.placing.pool_set import Asker
from mizzen.connect.plane import refusal_text
from mizzen.terminal.output import CommandError
from mizzen.views.phrases.text import instant_text
from mizzen.views.workloads import explain as explaining
from mizzen.views.workloads import show_text
from mizzen.views.workloads.explain import AWAY, Explanation, compared, explained, offer_of
from mizzen.views.workloads.lookup import Known
from mizzen.views.workloads.story import story_of
from runtime.reader import Reader
from store.rows import row_of
from tests.builders import (
    EU,
    EU_LOG,
    START,
    US,
    US_LOG,
    a_claim,
    a_fact,
    a_job,
    a_spec,
    amount,
    attempt,
    folded,
    granted,
    joined,
    of_types,
    opened,
    promised,
    submitted,
)
from tests.runtime.aids import Place, Serving, virtual

W1 = WorkloadId("w-1")
QUEUE = (opened(), RegionAdded(EU), RegionAdded(US), submitted(1))
REGION = (opened(), joined("w0", 0, 4))


class Told(NamedTuple):
    """What came of it."""

    explanation: Explanation
    known: Known

    @property
    def chain(self) -> list[tuple[str, int, str]]:
        """The facts that led to the end, newest first."""
        return [(link.log, link.sequence, link.text) for link in self.explanation.because]


async def told(
    place: Place,
    queue: Sequence[Event] = (),
    eu: Sequence[Event] = (),
    us: Sequence[Event] = (),
    *,
    silent: Sequence[LogName] = (),
    workload: WorkloadId = W1,
) -> Told:
    """These happened, a second apart, and the readers tell of them; those of silent logs do not."""
    for log, events in ((GLOBAL_LOG, (*QUEUE, *queue)), (EU_LOG, (*REGION, *eu)), (US_LOG, (*REGION, *us))):
        if log in silent:
            continue
        keeper = await place.store.open(log, "log")
        await keeper.append([row_of(a_fact(event, number)) for number, event in enumerate(events, 1)], 1)
        bus = place.network.endpoint(f"reader.{log}")
        reader = Reader(log, await place.store.reader(log), bus, place.clock())
        Serving(place.loop, reader, bus)
    await place.moment()
    return Told(*await explained(place.client, workload))


def awarded(epoch: int = 1, *bids: RankedBid, resume: tuple[int, int] = (0, 0)) -> WorkloadAwarded:
    """To the region of the best bid, or to the only one."""
    found = bids or (RankedBid(EU, (0, 0, 0, 1, 1, 0)),)
    return WorkloadAwarded(W1, epoch, found[0].region, 0, found, *resume)


def closed(
    cause: EndCause, phase: Phase, epoch: int = 1, region_sequence: int = 5, saved: tuple[int, int] = (0, 0)
) -> AttemptClosed:
    """The queue read the end in the log of `eu`."""
    return AttemptClosed(W1, epoch, cause, phase, EU, region_sequence, *saved)


def ended(cause: EndCause, epoch: int = 1, exit_code: int = 0) -> AttemptEnded:
    """The region saw the end."""
    return AttemptEnded(*attempt("w-1", epoch), cause, exit_code, 1_000)


@virtual
async def test_node_was_lost(place: Place) -> None:
    """Down to the worker that fell silent."""
    found = await told(
        place,
        [awarded(), WorkloadBound(W1, 1, EU, 4), closed(EndCause.NODE_LOST, Phase.PENDING, saved=(1, 40))],
        [
            granted(a_claim(placed={1: 1})),
            GangStarted(*attempt()),
            CheckpointCommitted(*attempt(), 40),
            NodesLost(WorkerName("w0"), (0, 1, 2, 3)),
            StopOrdered(*attempt(), EndCause.NODE_LOST),
            ended(EndCause.NODE_LOST, exit_code=-1),
        ],
    )
    assert [
        (
            "global",
            7,
            "PENDING: attempt 1 ended, node_lost (unplanned); it waits for the next attempt; the checkpoint of attempt 1 at step 40 stays",
        ),
        (
            "region.eu",
            8,
            "nothing of it runs any more in eu: node_lost with exit code -1 (its node no longer had it)",
        ),
        ("region.eu", 7, "it was ordered to stop: node_lost"),
        ("region.eu", 6, "worker w0 fell silent"),
    ] == found.chain
    assert "w-1 is PENDING; ask again for the reason" == found.explanation.verdict
    assert ["the queue's current state is missing"] == [note.partition(":")[0] for note in found.known.notes]


@virtual
async def test_requeued_by_an_operator(place: Place) -> None:
    """And the next attempt resumes; the chain is of the one that ended."""
    found = await told(
        place,
        [
            awarded(),
            RequeueRequested(W1, 1),
            closed(EndCause.REQUEUED, Phase.PENDING, saved=(1, 7)),
            awarded(2, resume=(1, 7)),
        ],
        [
            granted(a_claim()),
            GangStarted(*attempt()),
            StopOrdered(*attempt(), EndCause.REQUEUED),
            ended(EndCause.REQUEUED, exit_code=143),
            granted(a_claim(epoch=2)),
        ],
    )
    assert "w-1 is AWARDED in eu (attempt 2), which alone bid" == found.explanation.verdict
    assert ("global", 6, "actor asked for it") == found.chain[-1]
    assert "exit code 143 (signal 15)" in found.chain[1][2]
    award = found.explanation.award
    assert award is not None
    assert (2, "starting", 0, ((0, 0),)) == (award.epoch, award.state, award.view_sequence, award.node_runs)
    second = found.known.telling.story.attempts[1]
    assert (1, 7, 0) == (second.resume_epoch, second.resume_step, second.started_at)


@virtual
async def test_self_requeue_by_exit_code(place: Place) -> None:
    """A task that asks for it says so by its exit code, and nobody else did."""
    found = await told(
        place,
        [awarded(), closed(EndCause.REQUEUED, Phase.PENDING)],
        [granted(a_claim()), GangStarted(*attempt()), ended(EndCause.REQUEUED, exit_code=85)],
    )
    assert "exit code 85 (a checkpoint is written, start me again)" in found.chain[-1][2]


@virtual
async def test_waits_for_its_victims(place: Place) -> None:
    """Whom it pushes out, as long as they are there."""
    claim = a_claim(victims=(attempt("w-9", 3),), view_sequence=2)
    found = await told(place, [awarded()], [replace(promised(claim), ask_span=60 * SECOND)])
    assert "w-1 waits in eu (attempt 1) for w-9 (attempt 3) to stop" == found.explanation.verdict
    story = found.known.telling.story
    until = instant_text(story.attempts[-1].promised_at + 60 * SECOND)
    told_of = f"w-9 (attempt 3) to stop; their controllers are asked until {until} at the latest"
    assert f"  waits for     {told_of}" in show_text.lines_of(story, None, Instant(START))
    award = found.explanation.award
    assert award is not None
    assert ((attempt("w-9", 3),), 2, 3) == (award.victims, award.view_sequence, award.claim_sequence)
    assert "  it preempted w-9 (attempt 3)" in explaining.lines_of(
        found.explanation, found.known.telling.story
    )


@virtual
async def test_choice_is_made_again_from_the_log_as_the_reader_tells_it(place: Place) -> None:
    """P27: where the log's file is not at hand, its facts up to the claim's view are; no later one counts."""
    image = folded(RegionImage.empty(SECTIONS), REGION)
    held = promised(a_claim("w-9", placed={2: 1}, gpus=8))
    jobs = (a_job(1, 2, name="reader"), a_job(3, 8, name="trainer"))
    choice = Choice("w-1.1.a0", stripes=2)
    asker = Asker(priority=3, tenant=TenantName("default"))
    there = Placer.of(image, Overlay()).find(jobs, asker, choice)
    assert isinstance(there, Found)
    claim = replace(
        a_claim(jobs=jobs, spreads=there.spreads), view=View(2, seed=choice.seed, stripes=2, search=SEARCH)
    )
    found = await told(place, [awarded()], [held, granted(claim)])
    chosen = found.explanation.chosen
    assert chosen is not None
    assert ("region.eu", Outcome.EQUAL, 2) == (chosen.log, chosen.retraced.outcome, chosen.retraced.sequence)
    lines = explaining.lines_of(found.explanation, found.known.telling.story)
    first = lines.index("how it was chosen, recomputed from region.eu 2: equal")
    hard = "gpu_type 4, gpu_memory 4, capacity 4, pool 4, in_zones 4, open_node 4, tenant_isolation 4, reserved_start 4"
    last = "fullest_pod 1, power_headroom 1, draw 1"
    soft = "planned_work 1, near_data 1, priced_value 1, avoid_empty 1, shared_devices 1"
    assert [
        "  reader went to eu-3 of pool training: capacity for a task decided",
        f"    nodes left by in_pool 4, {hard}, room 1, stripe 1, {soft}, best_fit 1, islands 1, fullest_rack 1, {last}",
        "  trainer went to pod 0 of pool training: no rule decided",
        f"    nodes left by in_pool 4, {hard}, room 4",
        "    pods left by in_pool 1, large_enough 1, stripe 1, tightest 1, draw 1",
    ] == lines[first + 1 :]


@virtual
async def test_choice_of_an_earlier_build_is_not_made_again(place: Place) -> None:
    """P27: what its claim does not say is said to be missing."""
    found = await told(place, [awarded()], [granted(a_claim(view_sequence=2))])
    assert (
        "how it was chosen, recomputed from region.eu 2: unknown: it was chosen by another build, which searched in another way"
        == explaining.lines_of(found.explanation, found.known.telling.story)[-1]
    )


@virtual
async def test_declined_award(place: Place) -> None:
    """The region declined, and the next best is elsewhere."""
    bids = (RankedBid(EU, (0, 0, 0, 1, 1, 0)), RankedBid(US, (0, 0, 0, 2, 2, 0)))
    found = await told(
        place,
        [
            awarded(1, *bids),
            AwardReturned(W1, 1, Reason.CONFLICTS_EXHAUSTED, EU, 3),
            awarded(2, bids[1], bids[0]),
        ],
        [AwardDeclined(*attempt(), Reason.CONFLICTS_EXHAUSTED, 5)],
        [granted(a_claim("w-1", 2, region=US), is_merged=True), GangStarted(*attempt("w-1", 2))],
    )
    assert "w-1 is AWARDED in us (attempt 2), whose bid was the best of 2" == found.explanation.verdict
    assert [
        ("global", 6, "the award of attempt 1 was declined: conflicts_exhausted"),
        ("region.eu", 3, "eu will not start it: conflicts_exhausted"),
    ] == found.chain
    award = found.explanation.award
    assert award is not None
    assert (True, "racks: 1 against 2") == (award.is_merged, award.bids[1].lost_on)
    assert ["declined", "running"] == [one.state for one in found.known.telling.story.attempts]
    lines = explaining.lines_of(found.explanation, found.known.telling.story)
    assert any("merged: the view was old, and it still fitted" in line for line in lines)


def test_bid_that_lost_because_its_data_is_newer_elsewhere() -> None:
    """It is told so where it was compared, behind whom bids push out; of awards at which that made no difference it is not told."""
    home, away = RankedBid(US, (0, 0, 0, 4, 4, 900)), RankedBid(EU, (0, 0, 0, 1, 1, 0), 1)
    told = compared(away, (home, away))
    assert [*SCORE_PARTS[:VICTIM_PARTS], AWAY, *SCORE_PARTS[VICTIM_PARTS:]] == list(told)
    assert 1 == told[AWAY]
    assert f"{AWAY}: 1 against 0" == offer_of(away, (home, away), home).lost_on
    assert list(SCORE_PARTS) == list(compared(home, (home,)))


def test_bid_that_lost_by_the_papers_victims() -> None:
    """One figure for all victims: the figures of the other two parts are not told as if they were none."""
    spares, pushes = RankedBid(US, (0, 0, 0, 4, 4, 900)), RankedBid(EU, (2_001_000_099, 0, 0, 1, 1, 0), 1)
    told = compared(pushes, (spares, pushes))
    assert [PAPER_PART, AWAY, *SCORE_PARTS[VICTIM_PARTS:]] == list(told)
    assert f"{PAPER_PART}: 2001000099 against 0" == offer_of(pushes, (spares, pushes), spares).lost_on
    of_the_highest = RankedBid(EU, (LEVEL_MAX + 1, 1, 60, 1, 1, 0))
    assert list(SCORE_PARTS) == list(compared(of_the_highest, (of_the_highest,)))


@virtual
async def test_no_start_is_tried_again(place: Place) -> None:
    """Its retries for starts are used up."""
    events: list[Event] = []
    of_region: list[Event] = []
    for epoch in range(1, 7):
        phase = Phase.PENDING if epoch < 6 else Phase.FAILED
        events += [awarded(epoch), closed(EndCause.START_FAILED, phase, epoch, 2 * epoch + 2)]
        of_region += [granted(a_claim(epoch=epoch)), ended(EndCause.START_FAILED, epoch)]
    found = await told(place, events, of_region)
    assert (
        "w-1 is FAILED: attempt 6 ended, start_failed (unplanned); no retry was left: it has 5 for failed starts, and this was number 6"
        == found.explanation.verdict
    )


@virtual
async def test_cancelled_before_it_was_granted(place: Place) -> None:
    """Who asked for it stands at the end of the chain."""
    found = await told(
        place,
        [
            awarded(),
            CancelRequested(W1),
            AwardReturned(W1, 1, Reason.WITHDRAWN, EU, 3),
            WorkloadCancelled(W1),
        ],
        [AwardDeclined(*attempt(), Reason.WITHDRAWN, 5)],
    )
    assert [
        ("global", 8, "CANCELLED while nothing of it ran"),
        ("global", 6, "actor asked for it"),
    ] == found.chain
    story = found.known.telling.story
    assert ("actor", START + 6 * SECOND, START + 8 * SECOND) == (
        story.cancelled_by,
        story.cancel_requested_at,
        story.ended_at,
    )


@virtual
async def test_region_that_does_not_tell(place: Place) -> None:
    """What the queue's log says is told, and what is missing is said."""
    found = await told(
        place,
        [awarded(), WorkloadBound(W1, 1, EU, 4), closed(EndCause.PREEMPTED, Phase.PENDING)],
        silent=(EU_LOG,),
    )
    assert ["global"] == [log for log, _, _ in found.chain]
    assert {EU} == set(found.known.telling.story.untold)
    assert found.known.notes[-1].startswith("eu's state of it is missing: log region.eu: no process answers")
    (attempt_,) = found.known.telling.story.attempts
    assert (None, "preempted", START + 6 * SECOND) == (
        attempt_.placement,
        attempt_.end_cause,
        attempt_.started_at,
    )


@virtual
async def test_story_of_an_unknown_workload(place: Place) -> None:
    """One sentence."""
    with pytest.raises(CommandError, match="there is no workload w-7, nor was there ever"):
        await told(place, workload=WorkloadId("w-7"))


@virtual
async def test_show_draws_every_part(place: Place) -> None:
    """Also what is rare."""
    found = await told(
        place,
        [awarded(), closed(EndCause.PREEMPTED, Phase.PENDING), awarded(2)],
        [
            granted(a_claim(placed={0: 1, 1: 1, 3: 1})),
            GangStarted(*attempt()),
            StopOrdered(*attempt(), EndCause.PREEMPTED, by=WorkloadId("w-9")),
            ended(EndCause.PREEMPTED, exit_code=143),
            ClaimPromised(*attempt("w-1", 2), a_claim(epoch=2)),
            ClaimGranted(*attempt("w-1", 2), a_claim(epoch=2), is_merged=True),
            StopOrdered(*attempt("w-1", 2), EndCause.TIMEOUT),
        ],
    )
    story = found.known.telling.story
    lines = show_text.lines_of(story, None, Instant(START + 100 * SECOND))
    assert "  state         AWARDED in eu, attempt 2 stopping" in lines
    first, second = (line.split() for line in lines[-5:-3])
    assert ["1", "eu", "ended", "preempted", "for", "w-9", "planned", "143"] == first[:8]
    assert "eu-[0-1,3]" == first[-1]
    assert ["2", "eu", "stopping", "timeout", "yours", "-"] == second[:6]
    told_json = show_text.builtins_of(story, None)
    assert [[0, 1], [3, 3]] == told_json["attempts"][0]["placement"]["node_runs"]
    assert ["planned", "yours"] == [one["blame"] for one in told_json["attempts"]]


@virtual
async def test_show_has_the_answer_of_each_region(place: Place) -> None:
    """Bids with the parts that were compared, which of them won, and refusals with their reason."""
    better, worse = RankedBid(EU, (0, 0, 0, 1, 1, 250)), RankedBid(RegionName("us"), (0, 0, 0, 2, 2, 250))
    award = replace(awarded(), bids=(better, worse), refusals={RegionName("asia"): Reason.NO_CAPACITY})
    found = await told(place, [award], [granted(a_claim())])
    lines = show_text.lines_of(found.known.telling.story, None, Instant(START + 100 * SECOND))
    head, *rows = (line.split(maxsplit=2) for line in lines[-4:])
    assert ["REGION", "ANSWER", "WHY"] == head
    assert [["eu", "won"], ["us", "bid"], ["asia", "no_capacity"]] == [row[:2] for row in rows]
    assert "racks 2, nodes 2" in rows[1][2]
    assert rows[2][2].startswith("Not enough capacity is free")


# What the queue says.


def a_waiting(*regions: RegionOutlook, **changed: object) -> Explanation:
    """A pending workload of which the queue says this."""
    waiting = WorkloadExplained(
        workload=W1,
        name="train",
        phase=Phase.PENDING,
        reason=Reason.NO_CAPACITY,
        sentence=SENTENCES[Reason.NO_CAPACITY],
        epoch=0,
        region="",
        is_held=False,
        hold_revision=0,
        is_cancel_requested=False,
        shape="shape",
        regions=regions,
    )
    return Explanation(W1, "train", Phase.PENDING, "verdict", replace(waiting, **changed))


def _lines(explanation: Explanation) -> list[str]:
    spec = a_spec(a_job(4, 8, name="trainer", cpus=16), a_job(2, 1, gpu_type="A100"))
    return explaining.lines_of(explanation, story_of([a_fact(submitted(1, spec), log=GLOBAL_LOG)]))


def test_refusal_in_figures() -> None:
    """Needed, free, and the largest free piece, of what the job asks for and of nothing else."""
    shortage = Shortage("trainer", 4, 1, 6, amount(20, 80, 900), amount(8, 64, 200))
    (line,) = _lines(
        a_waiting(
            RegionOutlook(
                EU,
                Reason.NO_CAPACITY,
                "sentence",
                refused=WorkloadId("w-8"),
                agent="a0",
                view_sequence=77,
                missing_gpu_milli=12_500,
                shortage=shortage,
                holders=(Holder(WorkloadId("w-5"), 4, 32_000), Holder(WorkloadId("w-6"), 3, 500)),
            )
        )
    )[3:]
    assert (
        "eu      no_capacity  trainer needs 4 x 8 GPUs, 16 CPUs and there is capacity for 1: 20 GPUs, 80 CPUs free on 6 nodes "
        "of H100, at most 8 GPUs, 64 CPUs on one; 12.5 more GPUs must be freed before it is asked again; most is held by "
        "w-5 (32 GPUs, priority 4), w-6 (0.5 GPUs, priority 3); said for w-8 by agent a0, which knew the log up to 77"
    ) == line.strip()


def test_start_that_was_promised() -> None:
    """In how long at the latest, where, and what became of the promise before; not where none was."""
    start = ShownStart(EU, seconds(754), seconds(5))
    told = "in 12:34 at the latest, on nodes that eu keeps for it; it may be sooner, there or elsewhere"
    assert f"  its start is reserved: {told}" in _lines(a_waiting(promised=start))
    late = ShownStart(EU, seconds(0), seconds(5), "displaced", "work of a higher level took the capacity")
    why = "; its earlier reservation was not kept: work of a higher level took the capacity"
    assert (
        f"  its start is reserved: {told.replace('in 12:34 at the latest', 'was to be by now')}{why}"
        in _lines(a_waiting(promised=late))
    )
    story = story_of([a_fact(submitted(1), log=GLOBAL_LOG)])
    waiting = a_waiting(promised=start).waiting
    assert f"  starts        {told}" in show_text.lines_of(story, waiting, Instant(START))
    assert "eu" == show_text.builtins_of(story, waiting)["promised"]["region"]
    assert not [
        line for line in show_text.lines_of(story, a_waiting().waiting, Instant(START)) if "starts  " in line
    ]


def test_how_long_each_reason_held() -> None:
    """The present one first; a region that is silent now has only earlier ones."""
    noted = (
        PastReason(Reason.NO_CAPACITY, seconds(7_500), seconds(7_500)),
        PastReason(Reason.OVER_LIMIT, seconds(8_100), seconds(600)),
    )
    outlook = RegionOutlook(EU, Reason.NO_CAPACITY, "sentence", noted=noted)
    (line,) = _lines(a_waiting(outlook))[3:]
    assert line.strip().endswith("sentence; so for 2h5m, before that over_limit for 10m")
    (line,) = _lines(a_waiting(replace(outlook, reason=Reason.REGION_UNREACHABLE)))[3:]
    assert line.strip().endswith("sentence; before that no_capacity for 2h5m, before that over_limit for 10m")


def test_start_that_cannot_be_promised() -> None:
    """How much is held by work of which nobody knows when it ends."""
    outlook = RegionOutlook(EU, Reason.NO_CAPACITY, "sentence", unbounded_gpu_milli=12_000)
    (line,) = _lines(a_waiting(outlook))[3:]
    assert line.strip().endswith(
        "no start can be reserved: 12 GPUs are held by work without a `max_duration`"
    )


def test_hardware_that_is_not_enough() -> None:
    """What there is, were it all free, and what there is not at all."""
    hardware = (HardwareKnown("H100", 4, 16_000, 4_000),)
    sentence = SENTENCES[Reason.NO_SUCH_HARDWARE]
    (line,) = _lines(a_waiting(RegionOutlook(EU, Reason.NO_SUCH_HARDWARE, sentence, hardware)))[3:]
    assert (
        f"{sentence.removesuffix('.')}; trainer needs 4 x 8 GPUs of H100, and there are 16 on 4 nodes, at most 4 on one; "
        "main needs A100, and there is none"
    ) in line


def test_hardware_of_several_types() -> None:
    """Each of a job's types by itself, for its tasks are all on one; of any, those that there are."""
    hardware = (HardwareKnown("A100", 2, 8_000, 4_000), HardwareKnown("H100", 4, 16_000, 4_000))
    jobs = (of_types(a_job(4, 8), "H100", "A100"), of_types(a_job(1, 8, name="b"), "any"))
    spec = a_spec(*jobs, of_types(a_job(name="c"), "L4", "L40"))
    story = story_of([a_fact(submitted(1, spec), log=GLOBAL_LOG)])
    waiting = a_waiting(RegionOutlook(EU, Reason.NO_SUCH_HARDWARE, "sentence", hardware))
    (line,) = explaining.lines_of(waiting, story)[3:]
    of_each = "8 of A100 on 2 nodes, at most 4 on one, or 16 of H100 on 4 nodes, at most 4 on one"
    assert line.strip().endswith(
        f"main needs 4 x 8 GPUs of H100 or A100, and there are {of_each}; b needs 1 x 8 GPUs of any type, and there are "
        f"{of_each}; c needs L4 or L40, and there is none"
    )


def test_hardware_for_work_without_gpus() -> None:
    """Nothing is told of GPUs that it does not want; of nodes that there are not, that there are none."""
    hardware = (HardwareKnown("H100", 4, 16_000, 4_000),)
    spec = a_spec(of_types(a_job(4, 0, cpus=8), "any"), a_job(1, 0, name="b", cpus=8, gpu_type="cpu"))
    story = story_of([a_fact(submitted(1, spec), log=GLOBAL_LOG)])
    waiting = a_waiting(
        RegionOutlook(EU, Reason.NO_SUCH_HARDWARE, "sentence", hardware, missing_cpu_milli=4_500)
    )
    (line,) = explaining.lines_of(waiting, story)[3:]
    assert line.strip().endswith(
        "sentence; b needs cpu, and there is none; 4.5 more CPUs must be freed before it is asked again"
    )


def test_turns_are_told() -> None:
    """How many stand ahead, who is nearest, and whose auctions are open."""
    ahead = (WorkloadId("w-3"), WorkloadId("w-4"))
    lines = _lines(a_waiting(rank=7, ahead=ahead, asking=(WorkloadId("w-2"),)))
    assert [
        "verdict",
        "  7 ahead of it in the queue, nearest first: w-4, w-3",
        "  it is the turn of w-2",
    ] == lines[:3]
    assert "  it is the first in the queue" == _lines(a_waiting(rank=0))[1]
    asked = _lines(
        a_waiting(
            RegionOutlook(EU, is_asked=True), RegionOutlook(US, is_asked=True, score=(0, 0, 0, 1, 2, 3))
        )
    )
    assert ["eu", "asked"] == asked[-2].split()
    assert ["us", "bid", "victims'"] == asked[-1].split()[:3]
    assert "racks 1, nodes 2, GPU permille held 3" in asked[-1]
    assert ["eu", "would", "be", "asked"] == _lines(a_waiting(RegionOutlook(EU)))[-1].split()


def test_refusal_is_one_sentence() -> None:
    """With every problem behind a colon."""
    assert "It is so." == refusal_text(Refused("r", "It is so."))
    assert "It is so: a; b" == refusal_text(Refused("r", "It is so.", ("a", "b")))

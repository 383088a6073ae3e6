"""What one decision costs an agent of MAST's largest region, 98 % full, and how that grows when the region is doubled four times.

A decision is `AllocationAgent.decide`, from the request that the agent has heard to the bid that it has decided, in service:
between two of them a second passes, work is granted, checkpoints and ends, and the agent folds what the log tells of it. No request is
like the one before. A decision waits for no other process, so time is counted by the core, and beside that by the wall. `free`
decisions preempt no attempt, `preempt` ones preempt some, and `refuse` ones bid nothing, because the region has no room for the request
even with preemption. `made` are all three. MAST publishes averages, so means stand beside its figures, and medians are told too. The
regions decide in turn, so that whatever else the machine does falls on all of them alike.

At the published size every so many decisions are made once more with all memos forgotten, and a refusal that the queue would
remember (components/job_queue/state/auctions.py) is asked for again after each decision: neither may say anything else.

source    MAST §5.4: 1.3 ms free and 5.5 ms with preemption in the slowest region, four times as much for each doubling (§4.3.1:
          quadratic in the hardware); spec E5
"""

# rows: E5

import gc
import statistics
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from bench.support.agents.decision_region import Answer, FullRegion
from bench.support.report import Bar, Findings, Yardstick, at_most
from components.job_queue.state.asked_shape import AskedShape
from components.job_queue.state.refusal_expiry import RefusalExpiry, Resource
from core.component import Decision
from core.messages.base import Envelope
from core.messages.queue import Abstention
from core.nouns.reasons import Reason
from core.nouns.workload import JobSpec

SCALES, QUICK_SCALES = (1, 2, 4, 8, 16), (1,)
DECISIONS, QUICK_DECISIONS = 1_000, 60
"""In each region."""
WARM_UP, QUICK_WARM_UP = 100, 10
AT_ONCE = 25
"""In one region before the next has its turn, and as many seconds between two of the agent's beats."""
FORGOTTEN_EVERY = 15
Shape = tuple[tuple[JobSpec, ...], int]
LOOK = ("free", "preempt", "refuse")
VICTIMS_LIMIT = (
    "victims are taken one by one until it could fit, and searches made over the rows that they leave"
)


class Memory:
    """The queue's negative cache of one region: jobs and levels that were refused, and for which not enough has come free since."""

    def __init__(self) -> None:
        self.freed = RefusalExpiry()
        self.refused: dict[Shape, None] = {}

    def hear(self, answer: Answer, said: Decision) -> None:
        """One decision."""
        shape = (answer.jobs, answer.priority)
        (message,) = said.messages
        if not isinstance(message, Abstention) or message.reason is not Reason.NO_CAPACITY:
            return
        room = Resource.BARE_CPU if message.missing_cpu_milli else Resource.GPU
        missing = message.missing_cpu_milli or max(1, message.missing_gpu_milli)
        if self.freed.hold(_key(shape), message.view_sequence, room, missing):
            self.refused[shape] = None

    def free(self, sequence: int, amounts: Mapping[Resource, int]) -> None:
        """So much came free."""
        passed = set(self.freed.add(sequence, amounts))
        if passed:
            self.refused = {shape: None for shape in self.refused if _key(shape) not in passed}


def _key(shape: Shape) -> AskedShape:
    jobs, level = shape
    return AskedShape(level, repr(jobs), "", 0, ())


class Deciding:
    """One region, and what its decisions cost."""

    def __init__(self, scale: int) -> None:
        self.region = FullRegion(scale)
        self.spans: dict[str, list[float]] = {look: [] for look in LOOK}
        """Milliseconds of a core."""
        self.by_the_wall: dict[str, list[float]] = {look: [] for look in LOOK}
        """With what others did on that core meanwhile."""
        self.memory = Memory()
        self.region.on_end = self.memory.free
        self.made = self.forgotten = self.differs = self.asked_again = self.wrong = 0

    def decide(self, count: int, *, is_counted: bool, is_checked: bool) -> None:
        """So many decisions, and the agent's beat after them."""
        region = self.region
        for _ in range(count):
            envelope, jobs, level = region.request()
            by_the_wall, begun = time.perf_counter(), time.thread_time()
            decision = region.agent.decide(region.state, envelope)
            span, by_the_wall = time.thread_time() - begun, time.perf_counter() - by_the_wall
            self.made += 1
            if is_checked and self.made % FORGOTTEN_EVERY == 0:
                self._check(envelope, decision)
            if is_checked and self.memory.refused:
                self._ask_again()
            answer = region.take(envelope, decision, jobs, level)
            self.memory.hear(answer, decision)
            if is_counted:
                self.spans[look_of(answer)].append(1e3 * span)
                self.by_the_wall[look_of(answer)].append(1e3 * by_the_wall)
            region.pass_time(1)
        region.beat()

    def _check(self, envelope: Envelope, decision: Decision) -> None:
        """The same once more, with nothing remembered but the log and the agent's own notes."""
        agent, state = self.region.agent, self.region.state
        agent.forget_memos(state)
        self.forgotten += 1
        self.differs += agent.decide(state, envelope) != decision

    def _ask_again(self) -> None:
        """For one that the queue would not ask for, because it remembers that it was refused."""
        region = self.region
        jobs, level = region.dice.choice(list(self.memory.refused))
        (said,) = region.agent.decide(region.state, region.asked(jobs, level)).messages
        self.asked_again += 1
        self.wrong += not isinstance(said, Abstention)


def look_of(answer: Answer) -> str:
    """What sort of decision it was."""
    if answer.bid is None:
        return "refuse"
    return "preempt" if answer.bid.victims else "free"


def run(_: Path, *, is_quick: bool) -> Findings:
    """One agent a region, one core."""
    scales = QUICK_SCALES if is_quick else SCALES
    places = {scale: Deciding(scale) for scale in scales}
    for deciding in places.values():
        deciding.decide(QUICK_WARM_UP if is_quick else WARM_UP, is_counted=False, is_checked=False)
    gc.collect()
    gc.freeze()
    for _turn in range((QUICK_DECISIONS if is_quick else DECISIONS) // AT_ONCE):
        for deciding in places.values():
            deciding.decide(AT_ONCE, is_counted=True, is_checked=False)
    gc.unfreeze()
    least = places[scales[0]]
    least.decide((QUICK_DECISIONS if is_quick else DECISIONS) // 2, is_counted=False, is_checked=True)
    return Findings(_figures(places), _bars(_figures(places)), YARDSTICKS)


YARDSTICKS = [
    Yardstick(
        "MAST free_ms",
        1.3,
        "§5.4: by the minute the slowest region's average; spikes to 35 ms",
        "free_mean_ms",
    ),
    Yardstick("MAST preempt_ms", 5.5, "the same", "preempt_mean_ms"),
    Yardstick(
        "MAST growth_per_doubling",
        4,
        "§4.3.1: quadratic in the hardware, by its terms",
        "growth_per_doubling",
    ),
]


def _figures(places: dict[int, Deciding]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for scale, deciding in places.items():
        suffix = "" if scale == min(places) else f"_{scale}x"
        figures[f"attempts{suffix}"] = deciding.region.running
        figures |= {f"{name}{suffix}": value for name, value in spent(deciding.spans).items()}
        by_the_wall = spent(deciding.by_the_wall)
        for look in LOOK:
            for kind in ("mean", "p50"):
                if f"{look}_{kind}_ms" in by_the_wall:
                    figures[f"{look}_{kind}_by_the_wall_ms{suffix}"] = by_the_wall[f"{look}_{kind}_ms"]
    for look in LOOK:
        medians = [statistics.median(one.spans[look]) for one in places.values() if one.spans[look]]
        steps = [after / before for before, after in pairwise(medians)] or [1.0]
        figures[f"{look}_growth_per_doubling"] = statistics.geometric_mean(steps)
        figures[f"{look}_growth_worst"] = max(steps)
    figures["growth_per_doubling"] = max(figures[f"{look}_growth_per_doubling"] for look in LOOK[:2])
    checked = places[min(places)]
    figures["decided_again"] = checked.forgotten
    figures["decided_otherwise"] = checked.differs
    figures["asked_again"] = checked.asked_again
    figures["cache_wrong"] = checked.wrong
    return figures


def spent(spans: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return count, mean, median and 99th percentile of each sort of decision, and the mean of all decisions made."""
    figures: dict[str, float] = {}
    for look, some in spans.items():
        figures[f"{look}_count"] = len(some)
        if some:
            figures[f"{look}_mean_ms"] = statistics.fmean(some)
            figures[f"{look}_p50_ms"] = statistics.median(some)
            figures[f"{look}_p99_ms"] = sorted(some)[len(some) * 99 // 100]
    figures["made_mean_ms"] = statistics.fmean(one for some in spans.values() for one in some)
    return figures


def _bars(figures: dict[str, float]) -> list[Bar]:
    return [
        at_most("free_p50_ms", figures["free_p50_ms"], 1, "Python calls from the request to the bid"),
        at_most("preempt_p50_ms", figures["preempt_p50_ms"], 5, VICTIMS_LIMIT),
        at_most(
            "growth_per_doubling", figures["growth_per_doubling"], 1.5, "what is looked at by pod and by rack"
        ),
        at_most(
            "decided_otherwise", figures["decided_otherwise"], 0, "a memo that is not what it stands for"
        ),
        at_most("cache_wrong", figures["cache_wrong"], 0, "a refusal that held for too long"),
    ]

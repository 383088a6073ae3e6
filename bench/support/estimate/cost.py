"""What estimates cost the queue while very many workloads wait: one at a submission, and a list of the first of them.

Ten regions, each with nodes of three types, all full; workloads of 1 to 64 GPUs at all levels, some for any of two types, some
pinned to a region. Every group of estimates remembers as much as it may.
"""

import random
import time

from components.job_queue.component import JobQueue
from components.job_queue.requests.start_queries import StartAnswers
from components.job_queue.start_estimates import estimated_start
from components.job_queue.state.queue_state import QueueState
from core.component import Images
from core.estimating.bands import LENGTHS, Group
from core.events.queue import RegionAdded, WorkloadSubmitted
from core.events.region import NodesJoined
from core.fact import Event, Fact
from core.images import GlobalImage, RegionImage
from core.messages.base import Envelope
from core.messages.starts import ListStarts
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import GLOBAL_LOG, LogName, RegionName, TenantName, WorkerName, WorkloadId, region_log
from core.nouns.instant import SECOND, Instant, Nanoseconds
from core.nouns.limits import BAND_RATIOS_MAX
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import Emulation, JobSpec, WorkloadSpec

REGIONS = tuple(RegionName(f"r{number}") for number in range(10))
TYPES = ("H100", "A100", "V100")
NODES = 100
ASKED, QUICK_ASKED = 1_000, 20
LISTS = 5
NOW = Instant(1_800_000_000 * SECOND)


def costs(waiting: int, *, is_quick: bool) -> dict[str, float]:
    """Milliseconds of a processor, with so many waiting."""
    dice = random.Random(1)
    state = _state(waiting, dice)
    spans = []
    for _ in range(QUICK_ASKED if is_quick else ASKED):
        spec = _spec(dice)
        begun = time.process_time()
        assert estimated_start(state, spec, NOW) is not None
        spans.append(time.process_time() - begun)
    spans.sort()
    answers = StartAnswers(REGIONS, lambda *_: None)
    lists = []
    for _ in range(LISTS):
        begun = time.process_time()
        answers.deciders[ListStarts](state, Envelope(ListStarts(), "bench", "m-1", NOW, "inbox"))
        lists.append(time.process_time() - begun)
    return {
        "estimate_p50_ms": 1e3 * spans[len(spans) // 2],
        "estimate_p99_ms": 1e3 * spans[len(spans) * 99 // 100],
        "list_ms": 1e3 * sorted(lists)[LISTS // 2],
    }


def _state(waiting: int, dice: random.Random) -> QueueState:
    image = GlobalImage.empty()
    for number, region in enumerate(REGIONS):
        image.fold(_fact(GLOBAL_LOG, number + 1, RegionAdded(region)))
    for number in range(1, waiting + 1):
        event = WorkloadSubmitted(WorkloadId(f"w-{number}"), number, _spec(dice), "ada")
        image.fold(_fact(GLOBAL_LOG, number + len(REGIONS), event))
    for name in ("now", *(length for _, length in LENGTHS), "longer"):
        for suffix in ("", ", wide"):
            image.starts.bands.groups[name + suffix] = Group(
                [dice.randrange(-3_000, 3_000) for _ in range(BAND_RATIOS_MAX)],
            )
    followed = {region_log(region): (_region(region), 1) for region in REGIONS}
    state = JobQueue(REGIONS).initial(Images(NOW, image, dict(followed)))
    for region in REGIONS:
        for node_type in TYPES:
            state.waits.standing[region, (node_type,), False] = NODES * 8 * MILLI
    return state


def _region(region: RegionName) -> RegionImage:
    image = RegionImage.empty(("attempts", "hardware"))
    groups = tuple(
        NodeGroup(number * NODES, NODES, Amount(8 * MILLI, 64 * MILLI, 1 << 40), gpu_type, number * 10, 10)
        for number, gpu_type in enumerate(TYPES)
    )
    worker = WorkerName("w0")
    image.fold(_fact(region_log(region), 1, NodesJoined(worker, Inventory(worker, groups))))
    return image


def _fact(log: LogName, sequence: int, event: Event) -> Fact:
    return Fact(log, sequence, NOW, "cause", "actor", event, NOW)


def _spec(dice: random.Random) -> WorkloadSpec:
    gpus = dice.choice((1, 2, 4, 8, 16, 64))
    per_task = min(gpus, 8)
    first, *others = dice.sample(TYPES, dice.choice((1, 1, 2)))
    job = JobSpec(
        "main",
        gpus // per_task,
        Amount(per_task * MILLI, 0, 0),
        first,
        Emulation(Nanoseconds(600 * SECOND)),
        or_types=tuple(others),
    )
    return WorkloadSpec(
        f"job-{dice.randrange(1_000)}",
        (job,),
        TenantName(f"tenant-{dice.randrange(200)}"),
        dice.randrange(7),
        regions=(dice.choice(REGIONS),) if dice.random() < 0.1 else (),
    )

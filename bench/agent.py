"""What it costs an allocation agent to find a place on 100,000 nodes: warm, after a change, and for a class never seen.

A pick is a whole search for one workload (`Placer.find`): from its jobs to nodes, with every rule of its rule set; the set
`plain` but where a figure's name says `default`. `stream`
is the set-up as published: classes by Zipf's law, 2,000 changes a second and 1,000 picks a second, so that a class has missed
what happened since it was asked for last. `decide` is all that the agent does with a request, up to the bid.

The region holds 1.3 attempts a node. Its image has the sections that an agent follows: `image_megabytes` as a reader sends them,
`image_resident_megabytes` as they lie in the memory of the agent's process.

source    spec E-P1; Protean §5: 14 ms on a hit, 88 ms on a miss, hit ratio 0.9, for more rules and in C#
"""

# rows: E-P1

import random
import resource
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.support.agents.explain import explain_figures
from bench.support.agents.infeasible import never_figures
from bench.support.agents.region import EAST, GPU_TYPE, AgentRegion, classes, zipf
from bench.support.report import Findings, Yardstick, at_least, at_most
from core.messages.agents import FindBid
from core.messages.base import Envelope
from core.messages.broker import SolicitBid
from core.nouns.ids import AgentName, WorkloadId
from core.nouns.instant import Instant
from core.nouns.quantities import MILLI, Amount
from core.nouns.reasons import Reason
from core.nouns.workload import JobSpec, Kind
from core.placing.pick.nodes import Choice
from core.placing.placer import SECTIONS
from core.placing.pool_set import Asker

NODES, QUICK_NODES = 100_000, 2_000
CLASSES, EXPONENT = 1_000, 1.5
CHANGES_A_PICK = 2
"""2,000 changes and 1,000 picks a second."""
ASKER = Asker()
REPEATS, QUICK_REPEATS = 3_000, 100
WITH_DEFAULT = ("pick_unchanged_p50_us", "pick_one_event_p50_us", "pick_miss_p50_ms", "gang_128_p50_us")
"""Figures that are taken by the rule set `default` too, which prices the room that is left."""


def run(_: Path, *, is_quick: bool) -> Findings:
    """One region, one agent, one core."""
    region = AgentRegion(QUICK_NODES if is_quick else NODES)
    repeats = QUICK_REPEATS if is_quick else REPEATS
    figures = weight_of(region) | measured(region, repeats)
    figures |= _stream(region, repeats)
    region.set_rules("default")
    refined = measured(region, repeats // 3)
    figures |= {f"default_{name.removeprefix('pick_')}": refined[name] for name in WITH_DEFAULT}
    figures |= _percentiles("fold", region.fold_spans, 1e6, "us")
    figures["process_megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_000
    figures |= never_figures(region)
    figures |= explain_figures(region)
    return Findings(
        figures,
        [
            at_most(
                "pick_one_event_p50_us",
                figures["pick_one_event_p50_us"],
                60,
                "numpy calls on a rack's rows, some 40 a pick",
            ),
            at_most(
                "pick_unchanged_p50_us",
                figures["pick_unchanged_p50_us"],
                10,
                "Python calls between the request and the draw",
            ),
            at_most("pick_miss_p50_ms", figures["pick_miss_p50_ms"], 3, "every rule over every node"),
            at_least("hit_ratio", figures["hit_ratio"], 0.95, "classes that are asked for once"),
            at_most("gang_128_p50_us", figures["gang_128_p50_us"], 150, "sorting the racks of a pod"),
            at_most("class_kilobytes", figures["class_kilobytes"], 1_000, "six bytes a node"),
            at_most(
                "default_one_event_p50_us",
                figures["default_one_event_p50_us"],
                400,
                "the worth of a rack's rows before and after, at 18 prices of a core",
            ),
            at_most("default_miss_p50_ms", figures["default_miss_p50_ms"], 6, "every rule over every node"),
            at_most(
                "explain_p50_ms", figures["explain_p50_ms"], 100, "a layout, and every rule over every node"
            ),
            at_most(
                "never_seconds", figures["never_seconds"], 1, "gangs of half the region, placed beside others"
            ),
        ],
        [
            Yardstick("hit_ms", 14, "Protean §5, a hit; more rules, C#"),
            Yardstick("miss_ms", 88, "Protean §5, a miss"),
            Yardstick("never_seconds", 249.5, "KAI's published figure, an impossible job of 80 GPUs"),
        ],
    )


def weight_of(region: AgentRegion) -> dict[str, float]:
    """Return the weight of the region's image, before anything is searched."""
    image = region.state.image
    return {
        "attempts_a_node": len(image.capacity.live()) / region.nodes,
        "image_megabytes": len(image.encode(SECTIONS)) / 1e6,
        "image_resident_megabytes": region.image_resident_bytes / 1e6,
    }


def measured(region: AgentRegion, repeats: int) -> dict[str, float]:
    """Picks, one sort at a time."""
    hot = classes(8)
    choices = iter(range(10**9))

    def pick(job: JobSpec) -> float:
        choice = Choice(f"w-{next(choices)}.1")
        begun = time.perf_counter()
        found = region.state.placer.find((job,), ASKER, choice)
        span = time.perf_counter() - begun
        assert not isinstance(found, Reason), (job, found)
        return span

    for job in hot:
        pick(job)
    figures: dict[str, float] = {}
    unchanged = [pick(hot[0]) for _ in range(repeats)]
    one_event = []
    for number in range(repeats):
        job = hot[number % 2]
        pick(job)
        region.happen()
        one_event.append(pick(job))
    fresh = classes(200)[100:]
    missed = [pick(job) for job in fresh]
    gang = JobSpec("main", 128, Amount(8 * MILLI, 8_000, 64 << 30), GPU_TYPE)
    gangs = []
    for _ in range(repeats // 3):
        pick(gang)
        region.happen()
        gangs.append(pick(gang))
    decided = []
    for number in range(repeats // 3):
        region.happen()
        decided.append(_timed(partial(_decide, region, hot[number % 2], number)))
    for name, spans in (
        ("pick_unchanged", unchanged),
        ("pick_one_event", one_event),
        ("gang_128", gangs),
        ("decide", decided),
    ):
        figures |= _percentiles(name, spans, 1e6, "us")
    figures |= _percentiles("pick_miss", missed, 1e3, "ms")
    pools = region.state.placer.pools.by_name.values()
    figures["class_kilobytes"] = max(one.nbytes for pool in pools for one in pool.kept()) / 1_000
    return figures


def _decide(region: AgentRegion, job: JobSpec, number: int) -> None:
    request = SolicitBid(EAST, WorkloadId(f"w-{number}"), f"auction-{number}", (job,), 3, Kind.TRAINING)
    envelope = Envelope(FindBid(EAST, AgentName("a0"), request), "broker", "1", Instant(0))
    decision = region.agent.decide(region.state, envelope)
    assert decision.events, decision


def _stream(region: AgentRegion, repeats: int) -> dict[str, float]:
    """Classes as they come, with changes between."""
    pool = next(iter(region.state.placer.pools.by_name.values()))
    jobs, weights = classes(CLASSES), zipf(CLASSES, EXPONENT)
    dice = random.Random(5)
    drawn = dice.choices(jobs, weights, k=4 * repeats)
    spans = []
    for number, job in enumerate(drawn):
        if number == repeats:
            pool.counts.hits = pool.counts.misses = 0  # From here on the cache is what it comes to be.
        for _ in range(CHANGES_A_PICK):
            region.happen()
        choice = Choice(f"s-{number}.1")
        spans.append(_timed(partial(region.state.placer.find, (job,), ASKER, choice)))
    hits, misses = pool.counts.hits, pool.counts.misses
    figures = _percentiles("stream", spans[repeats:], 1e6, "us")
    figures["stream_mean_us"] = 1e6 * statistics.fmean(spans[repeats:])
    figures["hit_ratio"] = hits / (hits + misses)
    return figures


def _timed(function: Callable[[], object]) -> float:
    begun = time.perf_counter()
    function()
    return time.perf_counter() - begun


def _percentiles(name: str, spans: list[float], scale: float, unit: str) -> dict[str, float]:
    ordered = sorted(spans)
    return {
        f"{name}_p50_{unit}": scale * ordered[len(ordered) // 2],
        f"{name}_p99_{unit}": scale * ordered[len(ordered) * 99 // 100],
    }

"""One list offered once to one region, and what came of it."""

import statistics
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.support.packing.openb import Counted, ListedNode, Pod, job_of, name_of, nodes_in, offered, pods_in
from bench.support.packing.prices import Learner
from bench.support.packing.region import PackingRegion
from core.nouns.ids import WorkloadId
from core.nouns.workload import JobSpec
from core.pricing.shapes import mix_of
from core.rules.placement.rule_sets import (
    BEST_FIT_PUBLISHED_RULES,
    DEFAULT_RULES,
    FGD_RULES,
)

RULES = {"bestfit": BEST_FIT_PUBLISHED_RULES, "fgd": FGD_RULES, "default": DEFAULT_RULES}
TIES = ("name", "random")
BY_NAME = "by_name"
AT = 100
"""Percent of all GPUs that have arrived: where lists are compared."""


UPTO_MAX = 130
"""As far as it was published."""


class Order(Struct, frozen=True):
    """What is to be run: rules as people name them here, ties, and a seed."""

    rules: str
    ties: str
    """Empty: as the rule set has them."""
    seed: int
    upto: int = AT
    """Percent of all GPUs that arrive."""


class Packed(Struct, frozen=True):
    """One run."""

    list: str
    rules: str
    ties: str
    seed: int
    upto: int
    allocated: dict[int, float]
    """By percent of all GPUs that have arrived, rounded: the mean percent that is placed."""
    cpu_pods: int
    """Pods that need no GPU and arrived before the last percent."""
    cpu_pods_dropped: int
    gpu_pods: int
    gpu_pods_dropped: int
    decision_p50_us: float
    decision_p99_us: float
    decision_mean_us: float
    solved_p50_ms: float = 0.0
    """Of each time that prices were solved, off the decisions; 0 where none were."""

    @property
    def at_100(self) -> float:
        """The figure; of a cluster so small that one pod is several percent, the nearest there is."""
        return self.allocated[min(self.allocated, key=lambda percent: (abs(percent - AT), percent))]


def seeds_of(text: str) -> list[int]:
    """Of `42..51`, or `42,44`."""
    first, dots, last = text.partition("..")
    return list(range(int(first), int(last) + 1)) if dots else [int(number) for number in text.split(",")]


def rules_of(order: Order) -> str:
    """As an operator would set the pool."""
    names = [*RULES[order.rules]]
    if order.ties:
        names = [name for name in names if name != BY_NAME] + [BY_NAME] * (order.ties == "name")
    return ",".join(names)


def packed_all(
    nodes: Path,
    orders: Sequence[tuple[Path, Order]],
    done: Sequence[Packed],
    processes: int,
    keep: Path | None = None,
) -> list[Packed]:
    """One run for each list and order, so many at a time; what is done already is not run again.

    keep    where each run is written once it is there
    """
    known = {(one.list, one.rules, one.ties, one.seed): one for one in done}
    wanted = {(name_of(path), order.rules, order.ties, order.seed): (path, order) for path, order in orders}
    missing = {
        key: (path, order)
        for key, (path, order) in wanted.items()
        if key not in known or known[key].upto < order.upto
    }
    for key, one in _run_all(nodes, missing, processes):
        known[key] = one
        if keep is not None:
            keep.write_bytes(msgspec.json.encode(list(known.values())))
    return [known[key] for key in wanted]


Key = tuple[str, str, str, int]
"""List, rules, ties, seed."""


def _run_all(
    nodes: Path, missing: dict[Key, tuple[Path, Order]], processes: int
) -> Iterator[tuple[Key, Packed]]:
    if processes <= 1 or len(missing) <= 1:
        for key, (path, order) in missing.items():
            yield key, packed_files(nodes, path, order)
        return
    with ProcessPoolExecutor(processes) as pool:
        begun = {pool.submit(packed_files, nodes, path, order): key for key, (path, order) in missing.items()}
        for future in as_completed(begun):
            yield begun[future], future.result()


def packed_files(nodes: Path, pods: Path, order: Order) -> Packed:
    """As `packed`, of files."""
    return packed(name_of(pods), nodes_in(nodes), pods_in(pods), order)


def packed(name: str, nodes: Sequence[ListedNode], pods: Sequence[Pod], order: Order) -> Packed:
    """Offer all of it."""
    region = PackingRegion("east", nodes, rules_of(order))
    if order.rules == "fgd":
        region.set_mix(
            mix_of(Counted(pods).counts)
        )  # All that is to come, as it was published; nobody else is told.
    learner = Learner([region]) if order.rules == "default" else None
    jobs: dict[str, tuple[JobSpec, ...]] = {}
    arrived = placed = 0
    cells: dict[int, list[float]] = {}
    came, dropped = [0, 0], [0, 0]
    stream = offered(pods, region.gpu_milli, order.seed)
    for number, pod in enumerate(stream):
        arrived += pod.need.gpu_milli
        percent = round(100 * arrived / region.gpu_milli)
        if percent > order.upto:
            break
        job = jobs.setdefault(pod.name, (job_of(pod),))
        workload = WorkloadId(f"p-{number}")
        if learner is not None:
            learner.submitted(workload, job)
        is_placed = bool(region.place(workload, job))
        placed += pod.need.gpu_milli * is_placed
        cells.setdefault(percent, []).append(100 * placed / region.gpu_milli)
        has_gpu = pod.need.gpu_milli > 0
        came[has_gpu] += 1
        dropped[has_gpu] += not is_placed
    spans = sorted(1e6 * span for span in region.spans)
    return Packed(
        name,
        order.rules,
        order.ties,
        order.seed,
        order.upto,
        {percent: sum(values) / len(values) for percent, values in cells.items()},
        came[0],
        dropped[0],
        came[1],
        dropped[1],
        spans[len(spans) // 2],
        spans[len(spans) * 99 // 100],
        sum(spans) / len(spans),
        1e3 * statistics.median(learner.spans) if learner is not None and learner.spans else 0.0,
    )

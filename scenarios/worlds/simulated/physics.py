"""What no log can hide: tasks that run twice, though nobody agreed to that, or on devices that are not there.

Watched at every start of a share or an executor, in the spools themselves. A share whose region has given its nodes up for lost may still
run: that is promised to nobody but strict workloads, and its attempt has ended by the log's word.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from core.images import RegionImage
from core.nouns.function import Place
from core.nouns.ids import RegionName, ShareKey, WorkerName, WorkloadId
from core.nouns.operation import WHOLE
from core.nouns.quantities import NOTHING, Amount
from runtime.functions.devices import at, room_of
from runtime.functions.emulated import EmulatedExecutors
from runtime.spool import EmulatedSpool, Share
from runtime.tasks.emulated import holdings_of

Regions = Callable[[RegionName], RegionImage | None]
"""A region's image as its store has it now; None while there is none."""


Agreed = Callable[[RegionName, WorkloadId, int], bool]
"""Whether a region's store has read that this attempt was given up: it may run beside newer ones."""


WORKLOADS_MIN = 1000
"""How many are remembered before those that run no more are looked for among all; then twice as many as are left."""


class Physics:
    """Watches the spools of a world."""

    def __init__(self, regions: Regions, agreed: Agreed) -> None:
        self.problems: list[str] = []
        self._regions = regions
        self._agreed = agreed
        self._running: dict[WorkloadId, list[_Running]] = {}
        """Who runs no more leaves when the workload is next looked at, or all are."""
        self._workloads_max = WORKLOADS_MIN

    def watch(
        self,
        region: RegionName,
        spool: EmulatedSpool,
        totals: Mapping[int, Amount],
        executors: EmulatedExecutors | None = None,
    ) -> None:
        """From now on every start in this spool is checked. `totals`: what each of its nodes has. `executors`: those on its nodes."""
        devices = _Devices(spool)

        def started(key: ShareKey, share: Share) -> None:
            self._check_live(region, spool, key)
            self._check_once(region, spool, key, share)
            devices.add(key, share)
            self._check_devices(region, devices, share.nodes, totals, executors)
            check_executors()

        def check_executors() -> None:
            if executors is not None:
                self._check_executors(spool, executors)
                harvested = {place.node for place in executors.places() if place.is_harvested}
                self._check_devices(region, devices, sorted(harvested), totals, executors)

        def lent(share: Share) -> None:
            self._check_devices(region, devices, share.nodes, totals, executors)

        spool.on_start = started
        spool.on_lent = lent
        if executors is not None:
            executors.on_use = check_executors

    def _check_once(self, region: RegionName, spool: EmulatedSpool, key: ShareKey, started: Share) -> None:
        others = _live(self._running.get(key.workload, ()))
        for other in others:
            excludes = _excludes(key, other.key, other.region == region)
            if excludes and not (
                self._was_agreed(region, key, other)
                or self._may_still_run(other.region, region, other.spool, other.share)
            ):
                self.problems.append(
                    f"{_text(key)} starts in {region} while {_text(other.key)} runs in {other.spool.name}"
                )
        self._running[key.workload] = [*others, _Running(region, spool, key, started)]
        if len(self._running) > self._workloads_max:
            self._running = {name: live for name, every in self._running.items() if (live := _live(every))}
            self._workloads_max = max(WORKLOADS_MIN, 2 * len(self._running))

    def _was_agreed(self, region: RegionName, key: ShareKey, other: "_Running") -> bool:
        """The older attempt was given up: whoever granted the newer one had read that."""
        older = min(key.epoch, other.key.epoch)
        return any(self._agreed(one, key.workload, older) for one in (region, other.region))

    def _may_still_run(
        self, other_region: RegionName, region: RegionName, spool: EmulatedSpool, share: Share
    ) -> bool:
        """On nodes that were given up; what is strict may not, unless another region was told to go on without it."""
        if share.command.isolation and other_region == region and not spool.is_frozen:
            return False
        return self._is_given_up(other_region, spool)

    def _check_live(self, region: RegionName, spool: EmulatedSpool, key: ShareKey) -> None:
        """Whoever starts a share late starts what others count as over."""
        image = self._regions(region)
        if image is None or self._is_given_up(region, spool):
            return
        row = image.attempts.row(*key.attempt)
        if row is None or not row.phase.is_live:
            self.problems.append(f"{_text(key)} starts in {spool.name}, and its attempt is not alive")

    def _check_devices(
        self,
        region: RegionName,
        devices: "_Devices",
        nodes: Iterable[int],
        totals: Mapping[int, Amount],
        executors: EmulatedExecutors | None,
    ) -> None:
        """Tasks, and executors on what is harvested, together use no more GPUs and memory than there are. Cores are shared."""
        if self._is_given_up(region, devices.spool):
            return
        for node in nodes:
            used = devices.used(node)
            if executors is not None:
                for amount in executors.used(Place(node, is_harvested=True)).values():
                    used = used.plus(amount)
            total = totals[node]
            for what, uses, has in (
                ("GPU milli", used.gpu_milli, total.gpu_milli),
                ("bytes of memory", used.memory_bytes, total.memory_bytes),
            ):
                if uses > has:
                    self.problems.append(f"node {node} of {devices.spool.name} runs {uses} {what} of {has}")

    def _check_executors(self, spool: EmulatedSpool, executors: EmulatedExecutors) -> None:
        """Executors use what live tasks hold for functions on their node, those that stop included, and no more."""
        held = [replace(one, is_ending=False) for one in holdings_of(spool.shares.values())]
        for place in sorted(executors.places()):
            if place.is_harvested:
                continue
            used = executors.used(place)
            if room_of(at(held, place), used.items()).is_over():
                self.problems.append(f"functions beside {spool.name} use {used} of {held} at {place}")

    def _is_given_up(self, region: RegionName, spool: EmulatedSpool) -> bool:
        """Lost until it reports empty: whatever its attempts ended of, what runs there may still run."""
        image = self._regions(region)
        if image is None:
            return True  # Its store is dead, and nobody can say.
        row = image.capacity.workers.get(WorkerName(spool.name.rpartition(".")[2]))
        return row is None or row.is_lost


class _Running(NamedTuple):
    """A share, and where it was started."""

    region: RegionName
    spool: EmulatedSpool
    key: ShareKey
    share: Share

    @property
    def is_live(self) -> bool:
        """Whether it is there still, and any of it may run."""
        return self.share.is_live and self.spool.shares.get(self.key) is self.share


def _live(every: Iterable[_Running]) -> list[_Running]:
    return [one for one in every if one.is_live]


class _Devices:
    """What runs on each node of a spool: a look at one costs what runs there, and what has ended since the last look."""

    def __init__(self, spool: EmulatedSpool) -> None:
        self.spool = spool
        self._on: defaultdict[int, dict[ShareKey, tuple[Share, Amount]]] = defaultdict(dict)

    def add(self, key: ShareKey, share: Share) -> None:
        """It starts."""
        needs: defaultdict[int, Amount] = defaultdict(Amount)
        for job, spread in zip(share.command.jobs, share.command.spreads, strict=True):
            for node, count in zip(spread.nodes, spread.tasks, strict=True):
                needs[node] = needs[node].plus(job.need.times(count))
        for node, used in needs.items():
            self._on[node][key] = (share, used)

    def used(self, node: int) -> Amount:
        """What still runs there uses, a pair's device counted once, and nothing of what it lends; the rest is let go of."""
        live = {
            key: (share, used)
            for key, (share, used) in self._on[node].items()
            if share.is_live and self.spool.shares.get(key) is share
        }
        self._on[node] = live
        attempts = {key.attempt for key in live}
        total = NOTHING
        for share, used in live.values():
            is_guest = share.command.beside in attempts
            total = total.plus(Amount(0, used.cpu_milli, used.memory_bytes) if is_guest else used)
            for lent in share.state.lends:
                total = total.minus(lent.size) if lent.node == node else total
        return total


def _excludes(key: ShareKey, other: ShareKey, is_same_region: bool) -> bool:
    """Whether one may not start while the other runs: another attempt, another run, or the same task once more."""
    if key.workload != other.workload:
        return False
    if key.epoch != other.epoch or not is_same_region:
        return True
    return key.task == other.task and (key.run != other.run or key.task != WHOLE)


def _text(key: ShareKey) -> str:
    task = "" if key.task == WHOLE else f" task {key.task}"
    return f"{key.workload}.{key.epoch}{task}{f' run {key.run}' if key.run else ''}"

"""Functions: services whose tasks run functions, and callers that call them one by one and in maps."""

import random
from itertools import accumulate
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from core.nouns.function import FunctionSpec, WarmSpans
from core.nouns.ids import RegionName, TenantName
from core.nouns.instant import MILLISECOND, Nanoseconds, seconds
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import NEVER, Emulation, Kind, RetryLimits, Serves, WorkloadSpec
from runtime.fleet_file import RegionSpec
from scenarios.schema.fleet import FleetSpec, emulated_regions
from scenarios.schema.parts import Count, FieldError, NotNegative, Positive, PositiveFloat, Share, Steps
from scenarios.workload import Arrival, Workload, draw_region, gpus_of

YEAR: Nanoseconds = seconds(365 * 24 * 3_600)
STOP_SECONDS = 2.0
"""From the order to stop until a task of a service has left."""
CALLS_MAX = 100_000
"""Of one load."""
CODE_SHARE = 0.1
"""The part of the time until an executor is warm in which the code loads; `init` takes the rest."""
GIB = 1 << 30
HALF_A_GPU = Amount(MILLI // 2, MILLI, 8 * GIB)
A_CORE = Amount(0, MILLI, 2 * GIB)
COME_AND_GO_BEGINS, COME_AND_GO_STAYS = (0.0, 0.8), (0.05, 0.4)
"""Parts of the span between which such a service comes, and stays."""
HOT_BEGINS, HOT_ENDS = 1 / 3, 2 / 3
"""Parts of the span between which one function is hot."""
LEAVES_BETWEEN = (0.2, 0.8)
"""Parts of the span between which a caller leaves."""
Calls = Annotated[int, Meta(gt=0, le=CALLS_MAX)]


class MadeCall(Struct, frozen=True):
    """One call that somebody makes."""

    at: float
    """Seconds from the first arrival on."""
    function: FunctionSpec
    run_time: Nanoseconds
    """A whole number of milliseconds."""
    within: Nanoseconds
    is_once: bool


class CallersCalls(Struct, frozen=True):
    """All that one caller does."""

    tenant: TenantName
    made: tuple[MadeCall, ...]
    """By time."""
    leave_at: float | None
    """When it leaves, whatever it waits for, in seconds from the first arrival on; None: it waits for every answer."""


class Functions(Workload, frozen=True, kw_only=True):
    """Services of one tenant, and calls of its functions; or services for all, and callers of several tenants. Services are cancelled by
    their user once every call has ended. Run times of calls and warm-up times are not compressed.
    """

    workloads: Count = 2
    """Services; 0: calls run on harvested capacity alone."""
    tasks: Positive = 2
    """Of one service."""
    gpus: Positive = 1
    """Of one task, each with 8 cores and 64 GiB."""
    for_all: bool = False
    """Whether services are for the functions of all tenants."""
    come_and_go: bool = False
    """Whether services but the first come at any time, and are cancelled after a while."""
    functions: Positive = 10
    """How many there are."""
    zipf: NotNegative = 1.0
    """The rate of the n-th function goes by n to the minus this; 0: all are called alike."""
    gpu_share: Share = 0.0
    """Functions that need half a GPU; the others need a core."""
    callers: Positive = 2
    calls: Calls = 1_000
    """By all callers."""
    run_seconds: PositiveFloat = 0.2
    """The median run time of a call."""
    run_sigma: NotNegative = 1.0
    """Of its logarithm."""
    run_seconds_max: PositiveFloat = 10.0
    cold_seconds: NotNegative = 2.0
    """Until an executor is warm."""
    map_share: Share = 0.5
    """Calls that come in maps, all calls of a map at one moment."""
    map_calls: Positive = 200
    """Of one map, at most."""
    once_share: Share = 0.0
    """Calls that may be begun once only."""
    within_share: Share = 0.0
    """Calls that are to begin in time."""
    within_seconds: PositiveFloat = 20.0
    hot_share: Share = 0.0
    """Calls that are all of one function, in the middle third of the span."""
    leave_share: Share = 0.0
    """Callers that leave before their calls have ended."""

    @property
    def lasts(self) -> float:
        """Seconds of the longest call."""
        return self.run_seconds_max

    def times(self, dice: random.Random) -> list[float]:
        """All services at the beginning; or the first one, and the others at any time."""
        later = [dice.uniform(*COME_AND_GO_BEGINS) for _ in range(self.workloads - 1)]
        return [0.0, *later][: self.workloads] if self.come_and_go else [0.0] * self.workloads

    def problem(self, fleet: FleetSpec, path: Steps) -> FieldError | None:
        """What is wrong with it on this fleet."""
        serving = [region for region in _serving(fleet).values() if self.gpu_type in ("", region.gpu_type)]
        if not serving:
            text = "no region for this load runs functions; say `functions: true` in the fleet"
            return FieldError((*path, "functions"), text)
        if not any(
            self.gpus <= region.gpus_per_node and self.tasks * self.gpus <= gpus_of(region)
            for region in serving
        ):
            text = f"{self.tasks} tasks of {self.gpus} GPUs fit no region that runs functions"
            return FieldError((*path, "tasks"), text)
        return super().problem(fleet, path)

    def draw(self, fleet: FleetSpec, dice: random.Random, number: int) -> WorkloadSpec:
        """A service that runs until it is cancelled, in regions that run functions."""
        serving = _serving(fleet)
        region = draw_region(replace(fleet, regions={**serving}), dice, self.gpu_type)
        emulation = Emulation(YEAR, checkpoint_every=Nanoseconds(0), stop_span=seconds(STOP_SECONDS))
        serves = Serves.ALL if self.for_all else Serves.OWN
        job = replace(self.job(region, self.gpus, emulation), tasks=self.tasks, serves=serves)
        return WorkloadSpec(
            name=f"{self.name}-{number}",
            jobs=(job,),
            tenant=self.owner,
            priority=self.draw_priority(dice),
            kind=Kind.SERVICE,
            retry=RetryLimits(task_failed=-1),
            regions=tuple(serving),
        )

    def arrival(self, spec: WorkloadSpec, at: float, dice: random.Random) -> Arrival:
        """When a service comes, and goes."""
        stays = dice.uniform(*COME_AND_GO_STAYS) * self.span
        if self.come_and_go and at:
            return Arrival(seconds(at), spec, cancel_after=seconds(stays))
        return Arrival(seconds(at), spec, until_calls_end=True)

    @property
    def owner(self) -> TenantName:
        """The tenant of services."""
        return TenantName(self.tenant or min(self.tenants, default="tenant-0"))

    def callers_calls(self, dice: random.Random) -> list[CallersCalls]:
        """Draw what each caller calls and when."""
        tenants = [self.draw_tenant(dice) if self.for_all else self.owner for _ in range(self.callers)]
        shares = list(accumulate((number + 1) ** -self.zipf for number in range(self.functions)))
        made: list[list[MadeCall]] = [[] for _ in tenants]
        left = self.calls
        while left:
            at, is_map = dice.random(), dice.random() < self.map_share
            place = dice.choices(range(self.functions), cum_weights=shares)[0]
            if HOT_BEGINS <= at < HOT_ENDS and dice.random() < self.hot_share:
                place = 0
            caller = dice.randrange(self.callers)
            function = self._function(tenants[caller], place)
            count = min(self.map_calls if is_map else 1, left)
            made[caller] += [self._call(at * self.span, function, dice) for _ in range(count)]
            left -= count
        return [
            self._until_it_leaves(tenant, calls, dice) for tenant, calls in zip(tenants, made, strict=True)
        ]

    def _until_it_leaves(self, tenant: TenantName, made: list[MadeCall], dice: random.Random) -> CallersCalls:
        """What a caller does until it leaves, if it does."""
        leaves, at = dice.random() < self.leave_share, dice.uniform(*LEAVES_BETWEEN) * self.span
        calls = sorted(made, key=lambda one: one.at)
        if leaves:
            calls = [one for one in calls if one.at < at]
        return CallersCalls(tenant, tuple(calls), at if leaves else None)

    def _function(self, tenant: TenantName, place: int) -> FunctionSpec:
        """Each of the functions has its place; those with a GPU are spread over all places."""
        has_gpu = int((place + 1) * self.gpu_share) > int(place * self.gpu_share)
        loads = seconds(CODE_SHARE * self.cold_seconds)
        warm = WarmSpans(loads, Nanoseconds(seconds(self.cold_seconds) - loads))
        digest = f"{place:08x}"
        return FunctionSpec(tenant, f"f{place}", digest, HALF_A_GPU if has_gpu else A_CORE, warm=warm)

    def _call(self, at: float, function: FunctionSpec, dice: random.Random) -> MadeCall:
        ran = min(self.run_seconds * dice.lognormvariate(0.0, self.run_sigma), self.run_seconds_max)
        run_time = Nanoseconds(max(1, round(1_000 * ran)) * MILLISECOND)
        is_in_time, is_once = dice.random() < self.within_share, dice.random() < self.once_share
        within = seconds(self.within_seconds) if is_in_time else NEVER
        return MadeCall(at, function, run_time, within, is_once)


def _serving(fleet: FleetSpec) -> dict[RegionName, RegionSpec]:
    """Return the emulated regions that run functions."""
    return {name: region for name, region in emulated_regions(fleet).items() if region.functions}

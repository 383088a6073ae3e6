"""Plays one scenario in one world: starts the plane, lets users and misfortune loose, waits until all is calm, checks.

    1. The plane comes up.
    2. Workloads arrive and faults strike, for as long as the load lasts.
    3. Misfortune ends: every fault that goes on is undone, every process lives, no message is lost any more.
    4. Within the scenario's calm everything must end, for when misfortune ends progress follows (DESIGN §11, 8).
    5. Every check is asked, and every expectation compared.

A fact that breaks an invariant ends the run at once.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

import msgspec
import structlog
from msgspec.structs import replace

from core.nouns.dispatch import DispatchSettings
from core.nouns.ids import RegionName, ShareKey, TenantName
from scenarios.accounting.harvest import HarvestKept
from scenarios.accounting.witness import Witness
from scenarios.controller import Controllers
from scenarios.fault import Fault, Stage
from scenarios.play.agent_settings import set_agents
from scenarios.play.callers import Callers
from scenarios.play.data_settings import state_data
from scenarios.play.on_call import OnCall
from scenarios.play.operators import Operators
from scenarios.play.pool_needs import lend, state_needs
from scenarios.scenario import ScenarioSpec
from scenarios.schema.expectations import compared
from scenarios.schema.outcome import Outcome
from scenarios.users import Users
from scenarios.worlds.interface import CannotCause, PlaneFailed, World

logger = structlog.get_logger()

WARM_UP = {"simulated": 20.0, "processes": 0.0}
"""Seconds before the first arrival: nodes join, agents show that they are there."""
LOOK = {"simulated": 10.0, "processes": 0.5}
"""Seconds between looks whether everything has ended."""
QUARANTINE_LOOK = {"simulated": 60.0, "processes": 5.0}
"""Seconds between operators' looks at nodes in quarantine, once misfortune is over."""
PATIENCE = 60.0
"""Seconds after misfortune has ended, in which what it delayed comes, and what it made overdue is asked back."""
SETTLE = {"simulated": 60.0, "processes": 2.0}
"""Seconds that everything must stay as it is, once it has ended: what was late arrives meanwhile."""


class Run:
    """One scenario under way."""

    def __init__(self, spec: ScenarioSpec, seed: int, world: World, witness: Witness) -> None:
        self.spec = spec
        self.seed = seed
        self.world = world
        self.witness = witness
        self.outcome = Outcome(spec.name, seed, world.world)
        self.binder = spec.variant.binder(spec.fleet)
        witness.watchers.append(self.binder.take)
        self.users = Users(world, world.user("client.user"), spec.name, self.binder)
        self.callers = Callers(self.users)
        self.calls = self.callers.kept
        witness.watchers.append(self.calls.take)
        self.harvest = HarvestKept()
        witness.watchers.append(self.harvest.take)
        self.controllers = Controllers(spec.controllers, seed)
        self.on_call = OnCall(world)
        self._checks = [check for check in spec.checks if world.can_be_seen_through or not check.sees_through]
        for check in spec.checks:
            if check not in self._checks:
                self.outcome.unchecked[check.name] = f"{world.world} cannot be seen through"
        self.shares: set[ShareKey] = set()
        """What workers were told to stop, or reported, where that can be overheard."""
        self._faults: list[asyncio.Task[None]] = []
        self._begun = self._clock = 0.0
        self.quiet_from: float | None = None
        """Since when nothing is wrong that anybody could be delayed by, on the witness's clock; None: it may be still."""

    async def play(self) -> Outcome:
        """From the start of the plane to the last check."""
        try:
            await self.begin()
            await self.strike()
            await self.calm_down()
            await self.conclude()
        finally:
            await self.stop()
        return self.outcome

    async def begin(self) -> None:
        """The plane comes up."""
        self._begun, self._clock = time.perf_counter(), self.world.now()
        self.world.watch_calls(self.calls.begun)
        await self.world.start()
        await self.on_call.begin()
        for check in self._checks:
            check.begin(self)
        for part in self.controllers.parts:
            await self.controllers.start(part, self.world.user(f"client.controller.{part.called}"))
        await self.world.sleep(WARM_UP[self.world.world])
        await self._set_up()

    async def _set_up(self) -> None:
        """What operators set before anybody has submitted anything."""
        operators = Operators(self.users)
        with self.unless_failed():
            if self.spec.ranking is not None:
                refused = await operators.rank_by(self.spec.ranking.settings)
                self.outcome.problems += [refused] * bool(refused)
            if self.spec.dispatch.settings != DispatchSettings():
                refused = await operators.dispatch_by(self.spec.dispatch.settings)
                self.outcome.problems += [refused] * bool(refused)
            if self.spec.fleet.shared is not None:
                refused = await operators.share_by(self.spec.fleet.shared.settings)
                self.outcome.problems += [refused] * bool(refused)
            if (agents := self.spec.fleet.agent_settings) is not None:
                for name in agents.regions or self.spec.plan.region_names():
                    self.outcome.problems += await set_agents(self.users, RegionName(name), agents.settings)
            if self.spec.fleet.data is not None:
                served = self.spec.plan.data_services()
                self.outcome.problems += await state_data(self.users, served, self.spec.fleet.data)
            if self.spec.fleet.pools is not None:
                for region in self.spec.plan.regions:
                    self.outcome.problems += await state_needs(self.users, region, self.spec.fleet.pools)
            if (harvest := self.spec.fleet.harvest) is not None:
                for region in self.spec.plan.regions:
                    if region.functions is not None:
                        self.outcome.problems += await lend(self.users, region.region, harvest)
            if self.spec.preemption is not None:
                for region in self.spec.plan.regions:
                    refused = await operators.preempt_by(region.region, self.spec.preemption.settings)
                    self.outcome.problems += [refused] * bool(refused)
            self.outcome.problems += await operators.set_tenants(self.spec.tenants)

    async def conclude(self) -> None:
        """Ask every check, and count."""
        outcome = self.outcome
        # 1. What the run came to, before any check tries something of its own.
        for log in self.witness.logs:
            self.world.look(log)
        self._take_figures()
        # 2. While the plane runs, and then with all that it left.
        async with self._nodes_looked_after():
            for check in self._checks:
                with self.unless_failed():
                    outcome.problems += await check.in_calm(self)
        await self.world.close_plane()
        for check in self._checks:
            outcome.problems += await check.at_end(self)
        outcome.virtual_seconds = self.world.now() - self._clock
        await self.world.account(outcome)
        self._count()

    async def stop(self) -> None:
        """End everything, however far it has come."""
        await self._end_misfortune()
        self.users.stop()
        self.callers.close()
        self.on_call.stop()
        await self.controllers.close()
        await self.world.stop()

    # Load and misfortune.

    async def strike(self) -> None:
        """Users and faults, for as long as the load lasts; then whatever of misfortune goes on is undone."""
        spec, loop = self.spec, asyncio.get_running_loop()
        arrivals = spec.arrivals(random.Random(f"load/{self.seed}"))
        for number, (fault, key) in enumerate(zip(spec.faults, keys_of(spec.faults), strict=True)):
            self.outcome.wanted[fault.name] = self.outcome.wanted.get(fault.name, 0) + fault.times
            for turn in range(fault.times):
                dice = random.Random(f"fault/{self.seed}/{key}/{turn}")
                stage = Stage(
                    self.world, self.users, dice, spec.span, spec.fleet, self.controllers, spec.tenants
                )
                name = f"fault/{fault.name}/{number}.{turn}"
                self._faults.append(loop.create_task(self._happen(fault, stage), name=name))
        self.users.play(arrivals, "load")
        self.callers.play(spec.workload, random.Random(f"calls/{self.seed}"))
        if not any(fault.is_misfortune for fault in spec.faults):
            self.quiet_from = self.world.facts_now()
        until = self.world.now() + spec.span
        while self.world.now() < until and not self._has_failed():
            await self.world.sleep(min(LOOK[self.world.world], until - self.world.now()))
        await self._end_misfortune()
        for task in self._faults:
            failure = None if task.cancelled() else task.exception()
            if failure is not None and not isinstance(failure, PlaneFailed):
                self.outcome.problems.append(f"{task.get_name()} failed: {failure!r}")

    async def _end_misfortune(self) -> None:
        """By the faults themselves."""
        for task in self._faults:
            task.cancel()
        if self._faults:
            await asyncio.wait(self._faults)

    async def _happen(self, fault: Fault, stage: Stage) -> None:
        """Wait for its time and strike; what this world cannot cause is skipped aloud and counted."""
        outcome = self.outcome
        await stage.wait(fault.when(stage.span))
        outcome.strikes[fault.name] = outcome.strikes.get(fault.name, 0) + 1
        try:
            await fault.strike(stage)
        except CannotCause as error:
            stage.has_struck = False
            outcome.figures["skipped"] = outcome.figures.get("skipped", 0.0) + 1
            if fault.name not in outcome.skipped:
                logger.warning("fault_skipped", fault=fault.name, why=str(error))
            outcome.skipped[fault.name] = str(error)
        finally:
            if not stage.has_struck:
                outcome.strikes[fault.name] -= 1
            outcome.problems += stage.problems

    def _has_failed(self) -> bool:
        return bool(self.witness.violations or self.world.failures)

    @contextmanager
    def unless_failed(self) -> Iterator[None]:
        """Of a plane that has failed nothing more is asked, and the outcome says what it died of."""
        try:
            yield
        except PlaneFailed as failure:
            self.outcome.problems.append(str(failure))

    # The end.

    async def calm_down(self) -> None:
        """Until everything has ended and stays so, or the scenario's time is over."""
        calm = self.world.now()
        if self.quiet_from is None:
            self.quiet_from = self.world.facts_now() + PATIENCE
        async with self._nodes_looked_after():
            await self._until_calm(calm + 60 * self.spec.calm.minutes)
        self.outcome.figures["calm_seconds"] = max(0.0, self.world.now() - calm)

    @asynccontextmanager
    async def _nodes_looked_after(self) -> AsyncIterator[None]:
        """Meanwhile operators look at nodes: also a probe that fails may be one failure too many for a node."""
        operators = asyncio.get_running_loop().create_task(self._look_after_nodes(), name="operators")
        try:
            yield
        finally:
            operators.cancel()
            await asyncio.wait([operators])

    async def _look_after_nodes(self) -> None:
        """Operators let nodes out of quarantine: what made them fail is over, or was never their fault."""
        operators = Operators(self.users)
        with self.unless_failed():
            while True:
                await self.world.sleep(QUARANTINE_LOOK[self.world.world])
                for region in self.world.plan.region_names():
                    await operators.release_quarantined(region)

    async def _until_calm(self, deadline: float) -> None:
        look, settle = LOOK[self.world.world], SETTLE[self.world.world]
        while self.world.now() < deadline and not self._has_failed():
            if self.users.has_submitted_all and await self.world.is_quiet():
                await self.world.sleep(settle)
                if await self.world.is_quiet():
                    return
            await self.world.sleep(look)

    def _take_figures(self) -> None:
        outcome, witness = self.outcome, self.witness
        for phase in sorted(witness.ended.values()):
            outcome.ended[phase] = outcome.ended.get(phase, 0) + 1
        outcome.gpu_seconds_lost = dict(sorted(witness.lost_seconds.items()))
        now = self.world.facts_now()
        outcome.figures |= {
            **witness.figures(now),
            **self.calls.figures(),
            **self.harvest.figures(),
            "clock_words": float(self.on_call.words),
            "pipelines_refused": float(len(self.users.refused_pipelines)),
        }
        for one in self.spec.expectations:
            if one.tenant:
                found = witness.figures_of(TenantName(one.tenant), one.level, now)
                outcome.figures[one.key] = found[one.figure]

    def _count(self) -> None:
        outcome = self.outcome
        outcome.violations = [*self.witness.violations]
        outcome.problems = list(dict.fromkeys((*self.users.problems, *outcome.problems)))
        outcome.facts = sum(self.witness.facts.values())
        for name in ("wanted", "strikes", "skipped"):
            setattr(outcome, name, dict(sorted(getattr(outcome, name).items())))
        outcome.figures |= {
            "skipped": outcome.figures.get("skipped", 0.0),
            "kills": float(outcome.kills),
            "strikes": float(sum(outcome.strikes.values())),
            "messages": float(outcome.messages),
        }
        outcome.expectations = [compared(one, outcome.figures) for one in self.spec.expectations]
        outcome.wall_seconds = time.perf_counter() - self._begun


def keys_of(faults: Sequence[Fault]) -> list[str]:
    """What each fault's chance is drawn from besides the seed: what it is, and the how manieth of its like; not its place
    among the others, nor how often it strikes. Taking one away leaves the others as they were.
    """
    keys: list[str] = []
    like: Counter[str] = Counter()
    for fault in faults:
        what = msgspec.json.encode([fault.name, replace(fault, times=1)], order="sorted").decode()
        keys.append(f"{what}/{like[what]}")
        like[what] += 1
    return keys

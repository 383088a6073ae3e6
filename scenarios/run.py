"""Runs one scenario in the simulated world: starts the plane, plays the load and the misfortune, waits for the end, checks.

The outcome's digest covers every message delivered and every log; the same (scenario, seed, commit) gives the same one.
"""

import asyncio
import random
import time
from hashlib import blake2b

import structlog
from msgspec import Struct

from bus.errors import BusError
from components import Auditor
from core.component import Images
from core.images import GlobalImage, RegionImage, empty_image
from core.invariants import Violation, check_ledger
from core.messages.base import Message, Refused
from core.messages.queue import Acknowledged, CancelWorkload, Submitted, SubmitWorkload
from core.nouns.ids import GLOBAL_LOG, LogName, RegionName, WorkloadId, region_log
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.limits import READ_BYTES_MAX, READ_FACTS_MAX
from runtime.garbage import settle_down
from runtime.images import load_image
from runtime.virtual_loop import VirtualLoop
from runtime.wiring import bus_name_of
from scenarios.fleet import plan_of, regions_of, unit_meant
from scenarios.load import Arrival, draw_load
from scenarios.scenario import ScenarioError, ScenarioSpec
from scenarios.worlds.simulated import START, SimulatedUnit, SimulatedWorld
from store.rows import facts_of

logger = structlog.get_logger()

WARM_UP = seconds(20)
"""Before the first arrival: nodes join, agents show that they are there."""
LOOK = seconds(30)
"""Between looks whether everything has ended."""
ASK: Nanoseconds = seconds(2)


class Outcome(Struct):
    """What came of a run."""

    scenario: str
    seed: int
    digest: str = ""
    violations: list[Violation] = []
    problems: list[str] = []
    """Everything else that should not be: lost workloads, capacity held at the end, processes that died by themselves."""
    submitted: int = 0
    ended: dict[str, int] = {}
    kills: int = 0
    messages: int = 0
    heads_and_beats: int = 0
    facts: int = 0
    virtual_seconds: float = 0.0
    wall_seconds: float = 0.0

    @property
    def is_good(self) -> bool:
        """Whether nothing was wrong."""
        return not self.violations and not self.problems


class Run:
    """One scenario under way."""

    def __init__(
        self, spec: ScenarioSpec, seed: int, loop: VirtualLoop, *, decides_twice: bool = False
    ) -> None:
        self.spec = spec
        self.seed = seed
        self.loop = loop
        self.outcome = Outcome(spec.name, seed)
        self.dice = random.Random(f"scenario/{spec.name}/{seed}")
        self.world = SimulatedWorld(plan_of(spec.fleet, spec.name), seed, loop, decides_twice=decides_twice)
        self.user = self.world.network.endpoint("client.user")
        self.accepted: dict[int, WorkloadId] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._heads: dict[LogName, bytes] = {}

    async def play(self) -> Outcome:
        """From the start of the plane to the last check."""
        begun = time.perf_counter()
        await self.world.start()
        await _sleep(WARM_UP)
        self._begin_misfortune()
        arrivals = draw_load(self.spec.load, self.spec.fleet, self.dice)
        self._tasks.append(self.loop.create_task(self._submit_all(arrivals), name="user"))
        await self._wait_for_the_end()
        await self._check()
        self.outcome.digest = self._digest()
        self._count(begun)
        self.world.close()
        return self.outcome

    # Load.

    async def _submit_all(self, arrivals: list[Arrival]) -> None:
        begun = self.loop.now_ns()
        for number, arrival in enumerate(arrivals):
            await _sleep(Nanoseconds(max(0, begun + arrival.at - self.loop.now_ns())))
            self._tasks.append(self.loop.create_task(self._submit(number, arrival), name=f"user/{number}"))

    async def _submit(self, number: int, arrival: Arrival) -> None:
        answer = await self._insist(SubmitWorkload(arrival.spec, "user", key=f"key-{number}"))
        if not isinstance(answer, Submitted):
            self.outcome.problems.append(f"arrival {number}: {answer}")
            return
        self.accepted[number] = answer.workload
        if arrival.cancel_after is not None:
            await _sleep(arrival.cancel_after)
            answer = await self._insist(CancelWorkload(answer.workload))
            if not isinstance(answer, Acknowledged | Refused):
                self.outcome.problems.append(f"cancel {number}: {answer}")

    async def _insist(self, message: Message) -> Message:
        """Ask until there is an answer, as any client does."""
        while True:
            try:
                return await self.user.ask(message, ASK)
            except BusError:
                await _sleep(seconds(0.5))

    # Misfortune.

    def _begin_misfortune(self) -> None:
        misfortune, faults = self.spec.misfortune, self.world.network.faults
        faults.drop_probability = misfortune.drop
        faults.repeat_probability = misfortune.repeat
        faults.is_reordering = misfortune.reorders
        span = 3600 * self.spec.load.hours / self.spec.load.compression
        for unit in self.world.units:
            for _ in range(misfortune.crashes_each):
                self.loop.call_later(self.dice.uniform(0.0, span), self._kill, unit)
        for kill in misfortune.kills:
            meant = unit_meant([unit.unit for unit in self.world.units], kill)
            unit = next(unit for unit in self.world.units if unit.unit == meant)
            self.loop.call_later(kill.after_seconds, self._kill, unit)
        workers = [unit for unit in self.world.units if unit.unit.role == "worker"]
        for unit in self.dice.sample(workers, min(misfortune.workers_lost, len(workers))):
            self.loop.call_later(self.dice.uniform(0.0, span), self._cut_off, unit)

    def _kill(self, unit: SimulatedUnit) -> None:
        if unit.is_alive:
            self.world.kill(unit, lambda: self.dice.uniform(0.1, self.spec.misfortune.down_seconds_max))

    def _cut_off(self, unit: SimulatedUnit) -> None:
        cut = self.world.network.cut([bus_name_of(unit.unit)], ["*"])
        self.loop.call_later(self.dice.uniform(5.0, 120.0), self.world.network.heal, cut)

    # The end.

    async def _wait_for_the_end(self) -> None:
        load_hours = self.spec.load.hours / self.spec.load.compression
        deadline = self.loop.now_ns() + seconds(3600 * (load_hours + self.spec.calm_hours))
        while self.loop.now_ns() < deadline and not self.world.failures:
            await _sleep(LOOK)
            if len(self.accepted) == self.spec.load.workloads and self._is_quiet():
                self._calm_the_network()
                await _sleep(seconds(120))
                if self._is_quiet():
                    return
        self._calm_the_network()

    def _calm_the_network(self) -> None:
        faults = self.world.network.faults
        faults.drop_probability = faults.repeat_probability = 0.0

    def _is_quiet(self) -> bool:
        queue = self._queue()
        if queue is None or any(not unit.is_alive for unit in self.world.units):
            return False
        if any(not row.phase.is_terminal for row in queue.workloads.rows.values()):
            return False
        images = [self._region(plan.region) for plan in self.world.plan.regions]
        return all(image is not None and not image.capacity.holdings for image in images)

    def _queue(self) -> GlobalImage | None:
        opened = self.world.unit("job_queue").open
        state = opened.host.state if opened and opened.host else None
        return state.image if state is not None else None

    def _region(self, region: RegionName) -> RegionImage | None:
        return self.world.region_image(region)

    def _logs(self) -> list[LogName]:
        return [GLOBAL_LOG, *(region_log(region) for region in self.world.plan.region_names())]

    async def _check(self) -> None:
        """Nothing lost, nothing held, nothing running, and every log replays to what its keeper has."""
        outcome, problems = self.outcome, self.outcome.problems
        problems.extend(self.world.physics.problems)
        for unit, failure in self.world.failures:
            problems.append(f"{unit.name} died of {failure!r}")
        queue = self._queue()
        if queue is None:
            problems.append("the queue is not there at the end")
            return
        rows = queue.workloads.rows
        for number, workload in sorted(self.accepted.items()):
            row = rows.get(workload)
            if row is not None and not row.phase.is_terminal:
                problems.append(
                    f"arrival {number}: {workload} is {row.phase} at the end, epoch {row.epoch} in {row.region}"
                )
            if row is not None:
                outcome.ended[row.phase] = outcome.ended.get(row.phase, 0) + 1
        if len(set(self.accepted.values())) != self.spec.load.workloads:
            problems.append(
                f"{len(set(self.accepted.values()))} workloads of {self.spec.load.workloads} have an id"
            )
        outcome.submitted = queue.workloads.submitted
        if outcome.submitted != self.spec.load.workloads:
            problems.append(
                f"{outcome.submitted} workloads were recorded for {self.spec.load.workloads} asked for"
            )
        for plan in self.world.plan.regions:
            self._check_region(plan.region)
        self._check_auditor()
        await self._audit_again()
        for log in self._logs():
            await self._check_replay(log)

    def _check_region(self, region: RegionName) -> None:
        image, problems = self._region(region), self.outcome.problems
        if image is None:
            problems.append(f"the store of {region} is not there at the end")
            return
        problems.extend(f"{region}: {text}" for text in check_ledger(image.capacity))
        problems.extend(f"{region}: {workload} still holds capacity" for workload in image.capacity.holdings)
        problems.extend(f"{region}: {workload} still has a promise" for workload in image.capacity.promises)
        lost = [worker for worker, row in image.capacity.workers.items() if row.is_lost]
        problems.extend(f"{region}: {worker} is still lost" for worker in lost)
        for unit in self.world.units:
            if unit.spool is not None and unit.unit.region == region:
                running = [key for key, share in unit.spool.shares.items() if share.is_live]
                problems.extend(f"{unit.unit.name}: still runs {key}" for key in running)

    def _check_auditor(self) -> None:
        opened = self.world.unit("auditor").open
        state = opened.host.state if opened and opened.host else None
        if state is None:
            self.outcome.problems.append("the auditor is not there at the end")
            return
        self.outcome.violations = list(state.violations)
        if state.waiting:
            self.outcome.problems.append(f"the auditor waits for what {state.waiting} facts rest on")

    async def _audit_again(self) -> None:
        """Check every log from its first fact on: an auditor that was killed has forgotten what it had found."""
        auditor = Auditor(self.world.plan.region_names())
        logs = self._logs()
        state = auditor.initial(Images(START, None, {log: (empty_image(log), 0) for log in logs}))
        for log in logs:
            reader, first = await self.world.store.reader(log), 1
            while rows := (await reader.read(first, READ_FACTS_MAX, READ_BYTES_MAX)).rows:
                for fact in facts_of(log, rows):
                    state = auditor.evolve(state, fact)
                first += len(rows)
        known = self.outcome.violations
        known.extend(violation for violation in state.violations if violation not in known)

    async def _check_replay(self, log: LogName) -> None:
        reader = await self.world.store.reader(log)
        image, head, _ = await load_image(reader, log)
        verified = await reader.verify()
        if verified.broken_at:
            self.outcome.problems.append(f"log {log} is broken at {verified.broken_at}: {verified.problem}")
        self.outcome.facts += head.sequence
        self._heads[log] = head.hash
        kept = self._queue() if log == GLOBAL_LOG else self._region(RegionName(log.removeprefix("region.")))
        if kept is not None and kept.digest() != image.digest():
            self.outcome.problems.append(f"log {log} does not replay to what its keeper has")

    def _digest(self) -> str:
        digest = blake2b(self.world.network.digest().encode(), digest_size=16)
        for log in self._logs():
            digest.update(self._heads.get(log, b""))
        return digest.hexdigest()

    def _count(self, begun: float) -> None:
        outcome = self.outcome
        delivered = self.world.network.delivered
        quiet = ("head-told", "agent-present", "worker-beat", "beat-heard")
        outcome.heads_and_beats = sum(count for tag, count in delivered.items() if tag in quiet)
        outcome.messages = sum(delivered.values()) - outcome.heads_and_beats
        outcome.kills = self.world.kills
        outcome.virtual_seconds = (self.loop.now_ns() - START) / SECOND
        outcome.wall_seconds = time.perf_counter() - begun


async def _sleep(span: Nanoseconds) -> None:
    await asyncio.sleep(span / SECOND)


def run_simulated(spec: ScenarioSpec, seed: int, *, decides_twice: bool = False) -> Outcome:
    """Play a scenario from a seed. Deciding everything twice tests that deciding changes nothing; it costs a third more.

    Raises ScenarioError for one that cannot be simulated.
    """
    if spec.jobs or any(region.this_machine for region in regions_of(spec.fleet).values()):
        raise ScenarioError(f"{spec.name} runs programs on this machine; play it with `mizzen up FILE`")
    settle_down()
    loop = VirtualLoop(START)
    try:
        return loop.run_until_complete(Run(spec, seed, loop, decides_twice=decides_twice).play())
    finally:
        loop.cancel_all()
        loop.close()

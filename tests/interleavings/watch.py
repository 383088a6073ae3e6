"""Who runs what, at every instant: spools that say each change, and the one excuse for running twice."""

from msgspec import Struct
from msgspec.structs import replace

from core.codec import decode_event
from core.events.region import AttemptEnded, NodesLost, NodesReturned
from core.messages.workers import TasksPhase
from core.nouns.ids import RegionName, ShareKey, WorkloadId, region_log
from runtime.clock import Clock
from runtime.spool import Share
from runtime.wiring import Unit
from scenarios.worlds.nodes import TroubledNodes
from scenarios.worlds.simulated.world import SimulatedWorld

Attempt = tuple[RegionName, int]


class Overlap(Struct, frozen=True):
    """Two attempts of one workload ran at once, and on which workers."""

    workload: WorkloadId
    running: tuple[tuple[Attempt, tuple[str, ...]], ...]
    """Oldest first."""


class Watch:
    """Who runs what, at every instant, on all spools."""

    def __init__(self) -> None:
        self.running: dict[WorkloadId, dict[Attempt, set[str]]] = {}
        self.overlaps: list[Overlap] = []
        self.started: list[tuple[str, WorkloadId, int]] = []
        """Every start of a share: on which worker, of which attempt."""

    def see(self, spool: str, region: RegionName, share: Share) -> None:
        """A share changed."""
        state = share.state
        attempts = self.running.setdefault(state.workload, {})
        workers = attempts.setdefault((region, state.epoch), set())
        if share.is_live and spool not in workers:
            workers.add(spool)
            self.started.append((spool, state.workload, state.epoch))
        elif not share.is_live:
            workers.discard(spool)
        live = sorted((key for key, workers in attempts.items() if workers), key=lambda key: key[1])
        if len(live) > 1:
            running = tuple((key, tuple(sorted(attempts[key]))) for key in live)
            self.overlaps.append(Overlap(state.workload, running))

    def runs(self, workload: WorkloadId) -> bool:
        """Whether any of it runs now."""
        return any(self.running.get(workload, {}).values())

    def unexcused(self, world: SimulatedWorld) -> list[Overlap]:
        """Overlaps that must not be. A worker that is cut off runs on, and may, until it hears better: so an older
        attempt may still run where the worker was lost when the attempt's end was recorded, and nowhere else.
        """
        lost: dict[tuple[RegionName, int, WorkloadId], set[str]] = {}
        for plan in world.plan.regions:
            file = world.store.disk(region_log(plan.region)).file(region_log(plan.region))
            assert file is not None
            gone: set[str] = set()
            for row in file.rows[: file.durable]:
                event = decode_event(row.event)
                if isinstance(event, NodesLost):
                    gone.add(f"worker.{plan.region}.{event.worker}")
                elif isinstance(event, NodesReturned):
                    gone.discard(f"worker.{plan.region}.{event.worker}")
                elif isinstance(event, AttemptEnded):
                    lost[plan.region, event.epoch, event.workload] = set(gone)
        return [
            overlap
            for overlap in self.overlaps
            if any(
                not set(workers) <= lost.get((*attempt, overlap.workload), set())
                for attempt, workers in overlap.running[:-1]
            )
        ]


class WatchedSpool(TroubledNodes):
    """Says each change to the watch as well, also while no worker is there."""

    def __init__(self, unit: Unit, world: SimulatedWorld, watch: Watch) -> None:
        super().__init__(unit.name, Clock(world.loop, world.loop.now_ns()))
        self._region = unit.region
        self._watch = watch

    def _tell(self, share: Share) -> None:
        self._watch.see(self.name, self._region, share)
        super()._tell(share)

    def forget_share(self, key: ShareKey) -> None:
        """It runs no more, and no longer says so."""
        share = self.shares[key]
        share.state = replace(share.state, phase=TasksPhase.ENDED)
        self._watch.see(self.name, self._region, share)
        super().forget_share(key)


def watch_spools(world: SimulatedWorld) -> Watch:
    """Put a watch on every spool of a world that has not begun; the world's own watch goes on."""
    watch = Watch()
    for unit in world.all:
        if unit.spool is not None:
            unit.spool = WatchedSpool(unit.unit, world, watch)
            groups = world.plan.inventory(unit.unit.region, unit.unit.member).groups
            totals = {node: group.total for group in groups for node in group.numbers()}
            world.physics.watch(unit.unit.region, unit.spool, totals)
    return watch

"""The shares of programs on this machine: prepared, started, stopped, forgotten, and found again after a restart.

A share that was not wholly prepared when its worker died is dropped: nobody was told of it, and whoever wants it says so
again. Whatever else is found here goes on as it was.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

import structlog
from msgspec.structs import replace

from core.effects import ForgetShare, StartShare, StopShare
from core.messages.workers import PrepareTasks, TasksPhase, TasksState
from core.nouns.ids import AttemptKey
from core.nouns.instant import MILLISECOND, Instant, Nanoseconds, after
from core.nouns.limits import RUNNER_BEAT
from core.nouns.quantities import MILLI
from runtime.tasks import processes, running
from runtime.tasks.environment import Addresses, Place
from runtime.tasks.layout import Layout
from runtime.tasks.ports import free_pair
from runtime.tasks.rubbish import Rubbish
from runtime.tasks.share import Commanded, ProgramShare, TaskLimits, read_share
from runtime.tasks.slots import CPU_TYPE, Device, allot
from runtime.tasks.task import Task

logger = structlog.get_logger()

SOON = Nanoseconds(20 * MILLISECOND)
"""Between looks at what nothing else tells of: a runner that is starting, one that died and left processes."""
LATE = 50
"""So many times longer, if that goes on and on: some processes cannot be killed."""
TOLD_BYTES = 64 * 1024


class Programs:
    """All shares of programs."""

    def __init__(
        self,
        layout: Layout,
        rubbish: Rubbish,
        *,
        host: str,
        devices: Sequence[Device],
        limits: TaskLimits,
        inherited: Mapping[str, str],
        changed: Callable[[], None],
        tell: Callable[[TasksState], None],
    ) -> None:
        """Finds what is there. `changed` is called when `look` has something to look at. Raises SpoolDamaged, OSError."""
        self.shares: dict[AttemptKey, ProgramShare] = {}
        self._layout = layout
        self._rubbish = rubbish
        self._host = host
        self._gpus = [device.uuid for device in devices if device.uuid]
        self._limits = limits
        self._inherited = inherited
        self._changed = changed
        self._tell = tell
        self._named: dict[str, Task] = {}
        self._ear = -1
        self._looks_at_all = Instant(0)
        self._looks = 0
        """In a row that found something unsettled."""
        self._leaving: list[int] = []
        """Runners of forgotten shares that have not been reaped."""
        self._find()

    # Effects.

    def prepare(self, command: PrepareTasks) -> None:
        """Start runners that wait. What cannot be prepared has ended, by no fault of its own."""
        key = (command.workload, command.epoch)
        share = self.shares.get(key)
        if share is not None:
            if share.told is not None:
                self._tell(share.told)
            return
        try:
            self._prepare(key, command)
        except OSError as error:
            logger.error("share_not_prepared", workload=key[0], epoch=key[1], error=str(error))
            self._drop(key)
            self._tell(TasksState(*key, TasksPhase.ENDED, exit_code=running.LOST, host=self._host))

    def start(self, effect: StartShare) -> None:
        """Tell its runners to go."""
        share = self.shares[effect.workload, effect.epoch]
        if share.phase == TasksPhase.PREPARED:
            try:
                share.start(Addresses(effect.masters, effect.hosts), self._inherited)
            except OSError as error:  # It will be asked for again, or given up.
                logger.error("share_not_started", share=str(share.directory), error=str(error))

    def stop(self, effect: StopShare) -> None:
        """Tell its runners to end it, with grace."""
        share = self.shares[effect.workload, effect.epoch]
        if share.phase != TasksPhase.ENDED:
            share.stop(effect.grace)
            self._tell_change(share)

    def forget(self, effect: ForgetShare) -> None:
        """Drop a share that has ended; what it wrote stays for a while."""
        key = (effect.workload, effect.epoch)
        if self.shares[key].phase == TasksPhase.ENDED:
            self._drop(key)

    def states(self) -> tuple[TasksState, ...]:
        """All that a worker is to hear of when it has just started."""
        for share in self.shares.values():
            share.told = share.state
        return tuple(share.told for share in self.shares.values() if share.told is not None)

    # Time.

    def look(self, now: Instant) -> Instant | None:
        """Look at whatever may have changed, and tell what did; when to look again if nothing says so sooner."""
        is_time_for_all = now >= self._looks_at_all
        if is_time_for_all:
            self._looks_at_all = after(now, RUNNER_BEAT)
        is_settled = True
        for share in self.shares.values():
            looked = [task for task in share.tasks if is_time_for_all or task.is_dirty or not task.is_settled]
            for task in looked:
                task.look()
            if looked:
                share.enforce()
                self._tell_change(share)
            is_settled = is_settled and all(task.is_settled for task in share.tasks)
        self._leaving = [pid for pid in self._leaving if not processes.reap(pid)]
        if not is_settled or self._leaving:
            self._looks += 1
            return after(now, Nanoseconds(SOON * min(self._looks, LATE)))
        self._looks = 0
        return self._looks_at_all if self.shares else None

    def close(self) -> None:
        """Let go of everything. Tasks run on."""
        for share in self.shares.values():
            share.close()
        if self._ear >= 0:
            asyncio.get_running_loop().remove_reader(self._ear)
            os.close(self._ear)
            self._ear = -1

    # Preparing.

    def _prepare(self, key: AttemptKey, command: PrepareTasks) -> None:
        """Raises OSError."""
        self._listen()
        places = places_of(command)
        held, lacking = self._hold(command, places)
        ports = tuple(self._port(command, job) for job in range(len(command.jobs)))
        commanded = Commanded(command, self._host, ports, tuple(held))
        share = ProgramShare(self._layout, self._layout.new_share(key), commanded, self._changed)
        self.shares[key] = share
        self._rubbish.throw(self._layout.output(key))  # Of a worker that had no time to prepare it.
        share.directory.mkdir(mode=0o700)
        share.keep()
        for task in share.tasks:
            self._named[f"{share.directory.name}/{task.directory.name}"] = task
        if lacking:
            for task in share.tasks:
                task.end_unstarted(running.NOT_STARTED, f"mizzen: the task cannot be started: {lacking}\n")
        else:
            share.spawn(self._limits)
        logger.info("share_prepared", workload=key[0], epoch=key[1], tasks=len(share.tasks))
        self._changed()

    def _hold(self, command: PrepareTasks, places: Sequence[Place]) -> tuple[list[Place], str]:
        """The places with their slots, and what is lacking."""
        used = {True: self._used(is_cpu=True), False: self._used(is_cpu=False)}
        held = []
        for place in places:
            job = command.jobs[place.job]
            is_cpu = job.gpu_type == CPU_TYPE
            slots = allot(job.need.gpu_milli, used[is_cpu], None if is_cpu else len(self._gpus))
            if slots is None:
                return list(places), f"{job.need.gpu_milli} milli of a GPU are not free on this machine"
            for slot, milli in slots:
                used[is_cpu][slot] = used[is_cpu].get(slot, 0) + milli
            uuids = () if is_cpu else tuple(self._gpus[slot] for slot, _ in slots)
            held.append(
                Place(
                    place.job,
                    place.rank,
                    place.local_rank,
                    place.local_count,
                    place.group,
                    place.node,
                    slots,
                    uuids,
                )
            )
        return [replace(place, devices=_seen_devices(command, place, held)) for place in held], ""

    def _used(self, *, is_cpu: bool) -> dict[int, int]:
        """Milli that live shares hold, by slot."""
        used: dict[int, int] = {}
        for share in self.shares.values():
            command = share.commanded.command
            if share.phase == TasksPhase.ENDED:
                continue
            for place in share.commanded.places:
                if (command.jobs[place.job].gpu_type == CPU_TYPE) == is_cpu:
                    for slot, milli in place.slots:
                        used[slot] = used.get(slot, 0) + milli
        return used

    def _port(self, command: PrepareTasks, job: int) -> int:
        """A free port with a free one after it, if rank 0 of the job is here; 0 if not. Raises OSError."""
        is_first_here = 0 in command.groups[job] if command.groups else bool(command.spreads[job].nodes)
        if not is_first_here:
            return 0
        taken = {port for share in self.shares.values() for port in share.commanded.ports}
        return free_pair(f"{command.worker}/{command.workload}.{command.epoch}/{job}", taken)

    # What another process left.

    def _find(self) -> None:
        """Raises SpoolDamaged, OSError."""
        for directory in sorted(self._layout.shares.iterdir()):
            share = read_share(self._layout, directory, self._changed)
            if share is not None and share.phase is not None:
                self.shares[share.key] = share
                for task in share.tasks:
                    self._named[f"{directory.name}/{task.directory.name}"] = task
                logger.info("share_found", share=directory.name, phase=str(share.phase))
            else:
                if share is not None:
                    share.close()
                self._rubbish.throw(directory)
        if self.shares:
            self._listen()
        live = {
            str(task.files)
            for share in self.shares.values()
            for task in share.tasks
            if task.phase != running.ENDED
        }
        for pid, mark in processes.marked_under(str(self._layout.shares)):
            if mark not in live:
                logger.warning("orphan_killed", pid=pid, task=mark)
                processes.kill(pid)

    # Helpers.

    def _drop(self, key: AttemptKey) -> None:
        share = self.shares.pop(key, None)
        if share is None:
            return
        self._leaving += share.close()
        for task in share.tasks:
            self._named.pop(f"{share.directory.name}/{task.directory.name}", None)
        try:
            self._rubbish.throw(share.directory)
        except OSError as error:
            logger.error("share_not_dropped", share=str(share.directory), error=str(error))

    def _tell_change(self, share: ProgramShare) -> None:
        state = share.state
        if state is None or state == share.told:
            return
        if state.phase == TasksPhase.ENDED:
            logger.info("share_ended", workload=state.workload, epoch=state.epoch, exit_code=state.exit_code)
        share.told = state
        self._tell(state)

    def _listen(self) -> None:
        """To runners. Raises OSError."""
        if self._ear >= 0:
            return
        if not self._layout.told.exists():
            os.mkfifo(self._layout.told, 0o600)
        self._ear = os.open(self._layout.told, os.O_RDWR | os.O_NONBLOCK)
        asyncio.get_running_loop().add_reader(self._ear, self._hear)

    def _hear(self) -> None:
        """Names of tasks. A name cut in two, or nobody's, says nothing: the files are looked at in their time."""
        try:
            names = os.read(self._ear, TOLD_BYTES)
        except BlockingIOError:
            return
        for name in os.fsdecode(names).splitlines():
            if name in self._named:
                self._named[name].is_dirty = True
        self._changed()


def places_of(command: PrepareTasks) -> list[Place]:
    """Every task of a share, with its rank: ranks are numbered node by node."""
    places = []
    for job, spread in enumerate(command.spreads):
        ranks = command.ranks[job] if command.ranks else tuple(accumulate(spread.tasks[:-1], initial=0))
        groups = command.groups[job] if command.groups else tuple(range(len(spread.nodes)))
        for node, count, first, group in zip(spread.nodes, spread.tasks, ranks, groups, strict=False):
            places += [Place(job, first + local, local, count, group, node) for local in range(count)]
    return places


def _seen_devices(command: PrepareTasks, place: Place, held: Sequence[Place]) -> tuple[str, ...]:
    """The GPUs that a task sees: its own; where each rank has one whole GPU, those of all ranks on the node, in their order.

    So `set_device(LOCAL_RANK)` finds a rank's own, as scripts that were written for torchrun do it.
    """
    if command.jobs[place.job].need.gpu_milli != MILLI:
        return place.devices
    mates = [mate for mate in held if (mate.job, mate.node) == (place.job, place.node)]
    return tuple(uuid for mate in sorted(mates, key=_local_rank) for uuid in mate.devices)


def _local_rank(place: Place) -> int:
    return place.local_rank

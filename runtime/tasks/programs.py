"""The shares of programs on this machine: prepared, started, stopped, forgotten, and found again after a restart.

A share that was not wholly prepared when its worker died is dropped: nobody was told of it, and whoever wants it says so
again. Whatever else is found here goes on as it was.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate

import structlog
from msgspec.structs import replace

from core.effects import ForgetShare, StartShare, StopShare
from core.messages.workers import PrepareTasks, TasksPhase, TasksState
from core.nouns.fleet import CPU_TYPE
from core.nouns.ids import AttemptKey, ShareKey
from core.nouns.instant import MILLISECOND, Instant, Nanoseconds, after, earliest
from core.nouns.limits import RUNNER_BEAT
from core.nouns.operation import WHOLE
from core.nouns.quantities import MILLI
from runtime.tasks import processes, running
from runtime.tasks.book import ExecutorUse, TaskNode
from runtime.tasks.cleanup import Rubbish
from runtime.tasks.environment import NOT_SHARED, Addresses, Place
from runtime.tasks.layout import TENANT, Layout, share_name
from runtime.tasks.lending import ProgramLending
from runtime.tasks.ports import free_pair
from runtime.tasks.share import Commanded, ProgramShare, TaskLimits, read_share
from runtime.tasks.slots import Device, allot
from runtime.tasks.task import Task
from runtime.tasks.tasks_first import Clearing, nodes_of, parts_lent

logger = structlog.get_logger()

SOON = Nanoseconds(20 * MILLISECOND)
"""Between looks at what nothing else tells of: a runner that is starting, one that died and left processes."""
LATE = 50
"""So many times longer, if that goes on and on: some processes cannot be killed."""
CHOICES_MAX = 8
"""Of slots for one share, while executors begin beside it."""
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
        clearing: Clearing,
    ) -> None:
        """Finds what is there. `changed` is called when `look` has something to look at. Raises SpoolDamaged, OSError."""
        self.shares: dict[ShareKey, ProgramShare] = {}
        self._layout = layout
        self._rubbish = rubbish
        self._host = host
        self._gpus = [device.uuid for device in devices if device.uuid]
        self._limits = limits
        self._inherited = inherited
        self._changed = changed
        self._tell = tell
        self._side = clearing.side
        self._clearing = clearing
        self._lending = ProgramLending(clearing)
        self._named: dict[str, Task] = {}
        self._ear = -1
        self._looks_at_all = Instant(0)
        self._looks = 0
        """In a row that found something unsettled."""
        self._heard_at = 0
        """When the region was heard last, on the machine's monotonic clock; 0: not by this process."""
        self._leaving: list[int] = []
        """Runners of forgotten shares that have not been reaped."""
        self._find()

    # Effects.

    def prepare(self, command: PrepareTasks) -> bool:
        """Start runners that wait; False: executors are in the way again. What cannot be prepared has ended, by no fault of its own."""
        key = command.key
        share = self.shares.get(key)
        if share is not None:
            if share.told is not None:
                self._tell(share.told)
            return True
        try:
            return self._prepare(key, command)
        except OSError as error:
            self.refuse(command, error)
            return True

    def refuse(self, command: PrepareTasks, error: OSError) -> None:
        """Tell that a share cannot be prepared."""
        key = command.key
        logger.error("share_not_prepared", **key._asdict(), error=str(error))
        self._drop(key)
        self._tell(
            TasksState(
                key.workload,
                key.epoch,
                TasksPhase.ENDED,
                exit_code=running.LOST,
                host=self._host,
                task=key.task,
                run=key.run,
                failed_nodes=tuple(sorted({place.node for place in places_of(command)})),
            )
        )

    def has_slots(self, command: PrepareTasks, executors: Sequence[ExecutorUse]) -> bool:
        """Return whether a share could have slots beside these executors, or not even without them. A guest waits until its host lends none."""
        if command.beside is not None and any(
            share.lends for share in self.shares.values() if share.key.attempt == command.beside
        ):
            return False
        places = places_of(command)
        return not self._hold(command, places, executors)[1] or bool(self._hold(command, places, ())[1])

    def start(self, effect: StartShare) -> None:
        """Tell its runners to go."""
        share = self.shares[effect.key]
        if share.phase == TasksPhase.PREPARED:
            try:
                share.start(Addresses(effect.masters, effect.hosts), self._inherited)
            except OSError as error:  # It will be asked for again, or given up.
                logger.error("share_not_started", share=str(share.directory), error=str(error))

    def stop(self, effect: StopShare) -> None:
        """Tell its runners to end it, with grace."""
        share = self.shares[effect.key]
        if share.phase != TasksPhase.ENDED:
            share.stop(effect.grace)
            self._tell_change(share)

    def forget(self, effect: ForgetShare) -> None:
        """Drop a share that has ended; what it wrote stays for a while."""
        if self.shares[effect.key].phase == TasksPhase.ENDED:
            self._drop(effect.key)

    def keep_heard(self, at: int) -> None:
        """The region was heard then, on the machine's monotonic clock: strict tasks run on, whether or not we do."""
        self._heard_at = max(self._heard_at, at)
        if any(share.commanded.command.isolation for share in self.shares.values()):
            self._write_heard()

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
        changed: list[ProgramShare] = []
        for share in self.shares.values():
            looked = [task for task in share.tasks if is_time_for_all or task.is_dirty or not task.is_settled]
            for task in looked:
                task.look()
            if looked:
                share.enforce()
                self._lending.read(share, looked)
                changed.append(share)
            is_settled = is_settled and all(task.is_settled for task in share.tasks)
        lends_at = self._lending.look(now, self._hosts()) if self._lending.is_used else None
        for share in self.shares.values() if self._lending.is_used else changed:
            self._tell_change(share)
        self._leaving = [pid for pid in self._leaving if not processes.reap(pid)]
        if not is_settled or self._leaving:
            self._looks += 1
            return earliest(lends_at, after(now, Nanoseconds(SOON * min(self._looks, LATE))))
        self._looks = 0
        return earliest(lends_at, self._looks_at_all) if self.shares else None

    def close(self) -> None:
        """Let go of everything. Tasks run on."""
        for share in self.shares.values():
            share.close()
        if self._ear >= 0:
            asyncio.get_running_loop().remove_reader(self._ear)
            os.close(self._ear)
            self._ear = -1

    # Preparing.

    def _prepare(self, key: ShareKey, command: PrepareTasks) -> bool:
        """Raises OSError."""
        allotted = self._allot(command)
        if allotted is None:
            return False
        held, lacking = allotted
        self._listen()
        if command.isolation:
            self._write_heard()
        ports = tuple(self._port(command, job) for job in range(len(command.jobs)))
        commanded = Commanded(command, self._host, ports, tuple(held))
        share = ProgramShare(self._layout, self._layout.new_share(key), commanded, self._changed)
        self.shares[key] = share
        if not key.run:
            self._drop_output(share)
        share.directory.mkdir(mode=0o700)
        share.keep()
        self._side.have(share_name(key), with_slots(command, held))
        self._own(command)
        for task in share.tasks:
            self._named[f"{share.directory.name}/{task.directory.name}"] = task
        if lacking:
            for task in share.tasks:
                task.end_unstarted(running.NOT_STARTED, f"mizzen: the task cannot be started: {lacking}\n")
        else:
            share.spawn(self._limits)
        logger.info("share_prepared", **key._asdict(), tasks=len(share.tasks))
        self._changed()
        return True

    def _allot(self, command: PrepareTasks) -> tuple[list[Place], str] | None:
        """The places with their slots, and what is lacking; None if executors are in the way again. Raises OSError.

        An executor may have been placed before it could see which slots these are: then others are chosen.
        """
        places, executors = places_of(command), self._side.executors()
        for _ in range(CHOICES_MAX):
            held, lacking = self._hold(command, places, executors)
            if lacking:
                lacks_anyway = self._hold(command, places, ())[1]
                return (held, lacks_anyway) if lacks_anyway else None
            executors = self._side.allot(share_name(command.key), with_slots(command, held))
            if not self._is_crowded(command, held, executors):
                return held, ""
        return None

    def _is_crowded(
        self, command: PrepareTasks, held: Sequence[Place], executors: Iterable[ExecutorUse]
    ) -> bool:
        """Whether executors use a part of the slots that a share is about to have. A mate shares those of another task."""
        mates = self._lent(command)
        used = self._used(is_cpu=False)
        for gpu in (gpu for one in executors for gpu in one.gpus):
            used[gpu.index] = used.get(gpu.index, 0) + gpu.milli
        for place in held:
            if place.node not in mates and command.jobs[place.job].gpu_type != CPU_TYPE:
                for slot, milli in place.slots:
                    used[slot] = used.get(slot, 0) + milli
                    if used[slot] > MILLI:
                        return True
        return False

    def _hold(
        self, command: PrepareTasks, places: Sequence[Place], executors: Iterable[ExecutorUse]
    ) -> tuple[list[Place], str]:
        """The places with their slots, beside executors of functions, and what is lacking."""
        used = {True: self._used(is_cpu=True), False: self._used(is_cpu=False)}
        for gpu in (gpu for one in executors for gpu in one.gpus):
            used[False][gpu.index] = used[False].get(gpu.index, 0) + gpu.milli
        shared = self._shared()
        lent = self._lent(command)
        held = []
        for place in places:
            if place.node in lent:
                mate = lent[place.node]
                held.append(replace(place, slots=mate.slots, devices=mate.devices))
                continue
            job = command.jobs[place.job]
            is_cpu = job.gpu_type == CPU_TYPE
            key = (place.node, place.shared, is_cpu)
            slots = allot(
                job.need.gpu_milli,
                used[is_cpu],
                None if is_cpu else len(self._gpus),
                shared.get(key),
                is_new=place.shared != NOT_SHARED and key not in shared,
            )
            if slots is None:
                return list(places), f"{job.need.gpu_milli} milli of a GPU are not free on this machine"
            for slot, milli in slots:
                used[is_cpu][slot] = used[is_cpu].get(slot, 0) + milli
            if place.shared != NOT_SHARED:
                shared[key] = slots[-1][0]
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
                    place.shared,
                )
            )
        return [replace(place, devices=_seen_devices(command, place, held)) for place in held], ""

    def _hosts(self) -> list[AttemptKey]:
        """The attempts whose devices others have parts of, or wait for."""
        guests = (share.commanded.command.beside for share in self.shares.values() if share.is_live)
        return [*self._clearing.hosts(), *(host for host in guests if host is not None)]

    def _lent(self, command: PrepareTasks) -> dict[int, Place]:
        """By node, the place of the one task with which this command's one task shares a device: of its host, or of its guest if that
        came first.
        """
        if len(command.jobs) > 1:
            return {}
        mates = (
            share.commanded
            for share in self.shares.values()
            if share.phase != TasksPhase.ENDED
            and (share.key.attempt == command.beside or share.commanded.command.beside == command.key.attempt)
        )
        return {place.node: place for mate in mates for place in mate.places if place.slots}

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

    def _shared(self) -> dict[tuple[int, int, bool], int]:
        """The slot of each shared device of which live shares have parts, by node, its number there, and whether it is a CPU."""
        return {
            (place.node, place.shared, share.commanded.command.jobs[place.job].gpu_type == CPU_TYPE): (
                place.slots[-1][0]
            )
            for share in self.shares.values()
            if share.phase != TasksPhase.ENDED
            for place in share.commanded.places
            if place.shared != NOT_SHARED and place.slots
        }

    def _own(self, command: PrepareTasks) -> None:
        """Whose its output is, beside it, before there is any: it outlives the share. Raises OSError."""
        output = self._layout.output(command.key.attempt)
        output.mkdir(mode=0o700, parents=True, exist_ok=True)
        (output / TENANT).write_text(command.tenant)

    def _drop_output(self, share: ProgramShare) -> None:
        """Of a worker that had no time to prepare it, or of another fleet: nothing of its first run was ever wanted."""
        if share.key.task == WHOLE:
            self._rubbish.throw(self._layout.output(share.key.attempt))
        else:
            for task in share.tasks:  # Beside them are those of other tasks, which stand alone too.
                self._rubbish.throw(task.output)

    def _port(self, command: PrepareTasks, job: int) -> int:
        """A free port with a free one after it, if rank 0 of the job is here, or a task that may have to be its own.

        0 if not. Raises OSError.
        """
        is_here = bool(command.spreads[job].nodes)
        if command.task == WHOLE and command.groups:
            is_here = 0 in command.groups[job]
        if not is_here:
            return 0
        taken = {port for share in self.shares.values() for port in share.commanded.ports}
        return free_pair(f"{command.worker}/{share_name(command.key)}/{job}", taken)

    def _write_heard(self) -> None:
        """As the time of a file: that takes no room, which there may not be."""
        if not self._heard_at:
            return
        try:
            self._layout.heard.touch(mode=0o600)
            os.utime(self._layout.heard, ns=(self._heard_at, self._heard_at))
        except OSError as error:
            logger.error("heard_not_kept", error=str(error))

    # What another process left.

    def _find(self) -> None:
        """Raises SpoolDamaged, OSError."""
        for directory in sorted(self._layout.shares.iterdir()):
            share = read_share(self._layout, directory, self._changed)
            if share is not None and share.phase is not None:
                self.shares[share.key] = share
                share.lends = parts_lent(self._clearing.had_by(share.key))
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

    def _drop(self, key: ShareKey) -> None:
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
            logger.info("share_ended", **state.key._asdict(), exit_code=state.exit_code)
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


def with_slots(command: PrepareTasks, places: Iterable[Place]) -> tuple[TaskNode, ...]:
    """What the tasks of a share have of each node, with the slots that they got there: a guest has those of its host."""
    slots: dict[int, dict[int, int]] = {}
    for place in places if command.beside is None else ():
        for slot, milli in place.slots:
            here = slots.setdefault(place.node, {})
            here[slot] = here.get(slot, 0) + milli
    return tuple(
        replace(one, slots=tuple(sorted(slots.get(one.node, {}).items()))) for one in nodes_of(command)
    )


def places_of(command: PrepareTasks) -> list[Place]:
    """Every task of a share, with its rank: ranks are numbered node by node."""
    places = []
    for job, spread in enumerate(command.spreads):
        ranks = command.ranks[job] if command.ranks else tuple(accumulate(spread.tasks[:-1], initial=0))
        devices = iter(command.devices[job] if command.devices else ())
        groups = command.groups[job] if command.groups else tuple(range(len(spread.nodes)))
        for node, count, first, group in zip(spread.nodes, spread.tasks, ranks, groups, strict=False):
            for local in range(count):
                device = next(devices, NOT_SHARED)
                places.append(Place(job, first + local, local, count, group, node, shared=device))
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

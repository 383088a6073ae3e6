"""One task, from before its start until nothing of it is left: what its runner does, and so of few imports.

    task      what to run, where, and the limits: written by the worker before the runner starts
    words     a pipe with a name, by which a worker speaks: `reset`, `part`, `go`, `fail`, `stop`
    environ   what the task sees, but for its secrets, which come as words; written before `go`
    state     where the task is, and the runner's identity: written here, whole or not at all; its time is the last beat

The runner waits for the word, starts the program in a process group of its own, and keeps its output in files of bounded
size. All that the program leaves behind becomes the runner's own child, is ended with it, and only then the end is written.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # what `signal` wraps in enums, which cost more than all else here
import errno
import os
import select
import time

from runtime.tasks import machine
from runtime.tasks.segments import Output

CHUNK_BYTES = 64 * 1024
STEP_DIGITS_MAX = 15
CHUNKS_AT_ONCE = 16
"""Of output, before whatever else is looked at."""
NOT_FOUND = 127
NOT_STARTED = 126
"""As a shell reports what it cannot find, and what it finds and cannot run."""
STOPPED = 143
LOST = -1
ISOLATED = -2
"""As in core/messages/workers.py."""
SOON_MS = 20
"""Between looks at what nothing else tells of."""
SHELLS_END_WITHIN = 1_000_000_000
"""Nanoseconds for which the shells of a task have to end before those whom they wait for are told to; then these are told."""

WAITING = "waiting"
STARTED = "started"
STOPPING = "stopping"
ENDED = "ended"


class Runner:
    """One task, from before its start until nothing of it is left."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.task = machine.fields_of(f"{directory}/task")
        self.phase = WAITING
        self.code = 0
        self.at = 0
        self.saved = 0
        self.output = Output(
            self.task["output"], int(self.task["segment_bytes"]), int(self.task["segments_max"])
        )
        # Open for writing too, so that it never ends: worker after worker may open it.
        self.words = os.open(f"{directory}/words", os.O_RDWR | os.O_NONBLOCK)
        self.heard = b""
        self.parts: list[str] = []
        self.prctl: machine.Prctl | None = None
        self.pid = 0
        """Of the program, and of its group; 0 before it is started."""
        self.pid_watch = -1
        self.pipe = self.status = -1
        self.has_main_ended = False
        self.has_children = False
        self.family: dict[int, tuple[int, bool]] = {}
        """Of the group when it was told to end: each one's parent, and whether it is a shell."""
        self.ended: dict[int, int] = {}
        """How the program ended and, from then on, whoever became our child, in order."""
        self.kills = 0
        """Rounds of killing."""
        now = time.monotonic_ns()
        self.waits_until = now + int(self.task["wait"])
        self.beats_at = now + int(self.task["beat"])
        self.looks_at = self.terminates_at = self.kills_at = 0
        """0: not asked for."""
        self.isolation = int(self.task["isolation"])
        """For so long it runs on without its region being heard; 0: for ever."""
        self.heard_at = now
        self.is_isolated = False
        """It ends because of that, and not as its program did."""
        self.is_kept = False
        self.is_forsaken = False
        """The directory is gone: nobody could ever stop the task."""
        self.identity = f"pid={os.getpid()} start={machine.start_of('self')} boot={machine.boot_id()}"

    def run(self) -> None:
        """Until the end is written."""
        self.keep()
        self.prctl = machine.load_prctl()
        machine.adopt_orphans(self.prctl)
        while self.phase != ENDED or not (self.is_kept or self.is_forsaken):
            # 1. Sleep until something happens or is due.
            self.wait()
            # 2. What a worker says.
            self.hear()
            # 3. What the task says, and whether it was started at all.
            self.pump()
            self.read_status()
            # 4. Who has ended; who must end.
            self.reap()
            self.pass_time()

    # Waiting.

    def wait(self) -> None:
        """Until there is something to read, or for as long as nothing is due."""
        ears = select.poll()
        for descriptor in (self.words, self.pipe, self.status, self.pid_watch):
            if descriptor >= 0:
                ears.register(descriptor, select.POLLIN)
        try:
            ears.poll(max(0, self.span_ms()))
        except InterruptedError:
            return

    def span_ms(self) -> int:
        """Until the next deadline."""
        now = time.monotonic_ns()
        if self.has_main_ended or self.is_forsaken or (self.kills_at and self.kills_at <= now):
            return min(SOON_MS << min(self.kills, 6), 1000)  # Some cannot be killed.
        if self.pid and self.pid_watch < 0:
            return SOON_MS
        if not self.is_kept:
            return 10 * SOON_MS
        deadlines = [self.beats_at, self.looks_at, self.kills_at]
        if not self.pid:
            deadlines.append(self.waits_until)
        if self.status < 0:
            deadlines.append(self.terminates_at)
        return (min(deadline for deadline in deadlines if deadline) - now) // 1_000_000 + 1

    def pass_time(self) -> None:
        """Beat, look for checkpoints, and do what was asked for later."""
        now = time.monotonic_ns()
        if now >= self.beats_at:
            self.beats_at = now + int(self.task["beat"])
            self.beat()
            self.end_if_isolated(now)
        if self.looks_at and now >= self.looks_at:
            self.looks_at = now + int(self.task["look"])
            self.look_for_checkpoints()
        if not self.is_kept:
            self.keep()
        if self.phase == ENDED:
            return
        if not self.pid:
            if self.is_forsaken or now >= self.waits_until:
                self.end(LOST if self.is_forsaken else ISOLATED)
            return
        # Not while it is being started: our child ignores what we ignore, until it becomes the program.
        if self.terminates_at and now >= self.terminates_at and self.status < 0:
            self.terminates_at = 0
            self.terminate()
        if self.has_children and (self.is_forsaken or (self.kills_at and now >= self.kills_at)):
            self.kill_all()
        if self.has_main_ended:
            self.finish()

    # Words.

    def hear(self) -> None:
        """Every whole line; a worker that died within one never ended it, and its successor begins with `reset`."""
        try:
            self.heard += os.read(self.words, CHUNK_BYTES)
        except OSError:
            return
        *lines, self.heard = self.heard.split(b"\n")
        for line in lines:
            try:
                self.obey(*line.decode("ascii").split(" "))
            except (TypeError, ValueError):
                continue  # Of another build: what it wants is said again in words that we know, or time passes.

    def obey(self, word: str, first: str = "", second: str = "") -> None:
        """One word. Raises ValueError for what is none."""
        is_waiting = self.phase == WAITING and not self.pid
        if word == "reset":
            self.parts.clear()
        elif word == "part":
            self.parts.append(first)
        elif word == "go" and is_waiting:
            self.start()
        elif word == "note" and is_waiting:
            self.output.write(bytes.fromhex(first))
        elif word == "fail" and is_waiting:
            self.output.write(bytes.fromhex(second))
            self.end(int(first))
        elif word == "stop":
            self.stop(int(first), int(second))

    def stop(self, grace: int, warning: int) -> None:
        """SIGUSR1, SIGTERM after the warning, SIGKILL after the grace. Hearing it twice changes nothing."""
        if self.phase in (STOPPING, ENDED):
            return
        if not self.pid:
            self.end(STOPPED)
            return
        now = time.monotonic_ns()
        if warning:
            self.warn()
        self.terminates_at = now + warning
        self.kills_at = now + warning + grace
        self.phase = STOPPING
        self.keep()

    def end_if_isolated(self, now: int) -> None:
        """A strict task is gone some time after its region was heard last, whoever is there to say so or to stop it."""
        if not self.isolation or not self.pid:
            return
        try:
            heard_at = os.stat(self.task["heard"]).st_mtime_ns  # noqa: PTH116
        except OSError:
            heard_at = self.heard_at
        if heard_at <= now:  # Or it is of another boot.
            self.heard_at = heard_at
        stops_at = self.heard_at + self.isolation
        if now >= stops_at:
            kills_at = stops_at + int(self.task["isolated_grace"])
            self.is_isolated = self.is_isolated or not (self.has_main_ended or self.phase == STOPPING)
            self.stop(max(0, kills_at - now), 0)
            self.kills_at = min(self.kills_at, kills_at)

    # The program.

    def start(self) -> None:
        """Fork, and let the child become the program. It says through `status` why it could not."""
        secrets = machine.decoded(bytes.fromhex("".join(self.parts)))
        environ = {**secrets, **machine.fields_of(f"{self.directory}/environ")}
        self.parts.clear()
        self.pipe, pipe_end = os.pipe()
        self.status, status_end = os.pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self.become(environ, parent, pipe_end, status_end)
        os.close(pipe_end)
        os.close(status_end)
        os.set_blocking(self.pipe, False)
        os.set_blocking(self.status, False)
        self.pid = pid
        self.has_children = True
        if hasattr(os, "pidfd_open"):
            self.pid_watch = os.pidfd_open(pid)

    def become(self, environ: dict[str, str], parent: int, pipe: int, status: int) -> None:
        """In the child: a group of its own, gentle, on its CPUs, and then the program."""
        code = NOT_STARTED
        try:
            os.setpgid(0, 0)
            machine.die_with_parent(self.prctl)
            if os.getppid() != parent:
                os._exit(NOT_STARTED)
            machine.heed_signals()
            machine.be_gentle()
            if self.task["cpus"]:
                os.sched_setaffinity(0, [int(cpu) for cpu in self.task["cpus"].split(",")])
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
            os.dup2(pipe, 1)
            os.dup2(pipe, 2)
            if environ["MIZZEN_CHECKPOINT_DIR"]:
                os.makedirs(environ["MIZZEN_CHECKPOINT_DIR"], exist_ok=True)  # noqa: PTH103
            os.chdir(self.task["directory"])
            os.execve(self.task["shell"], ["sh", "-c", self.task["run"]], environ)  # noqa: S606
        except BaseException as error:  # noqa: BLE001  # a child that did not become the program must not go on
            if isinstance(error, FileNotFoundError):
                code = NOT_FOUND
            what = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else repr(error)
            os.write(status, os.fsencode(f"{code} mizzen: the task cannot be started: {what}\n"))
        finally:
            os._exit(code)

    def read_status(self) -> None:
        """The end of it without a word: the program runs. A word: it does not, and why."""
        if self.status < 0:
            return
        try:
            said = os.read(self.status, CHUNK_BYTES)
        except BlockingIOError:
            return
        if said:
            _, _, text = said.partition(b" ")
            self.output.write(text)
        os.close(self.status)
        self.status = -1
        if not said and self.phase == WAITING:
            self.phase = STARTED
            self.looks_at = time.monotonic_ns() if self.task["checkpoints"] else 0
            self.keep()

    def pump(self) -> None:
        """From the task's pipe into its files."""
        for _ in range(CHUNKS_AT_ONCE):
            if self.pipe < 0:
                return
            try:
                data = os.read(self.pipe, CHUNK_BYTES)
            except BlockingIOError:
                return
            if data:
                self.output.write(data)
            else:
                os.close(self.pipe)
                self.pipe = -1

    # The end.

    def reap(self) -> None:
        """Every child that has ended: the program, and what it left to us."""
        if not self.pid:
            return
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.has_children = False
                return
            if pid == 0:
                self.has_children = True
                return
            if pid == self.pid or self.family:
                self.ended[pid] = os.waitstatus_to_exitcode(status)
            if pid == self.pid:
                self.main_ended()

    def main_ended(self) -> None:
        """A shell that our SIGTERM ended leaves those whom it ran to end in their own time; nobody else leaves any."""
        self.has_main_ended = True
        self.at = time.monotonic_ns()
        self.terminates_at = 0
        if self.pid_watch >= 0:
            os.close(self.pid_watch)
            self.pid_watch = -1
        if not self.is_shell_terminated(self.pid):
            self.kills_at = self.at

    def finish(self) -> None:
        """Whoever is left has until the grace ends, and only in the task's own group; then it is over."""
        if self.has_children:
            if not machine.group_exists(self.pid):
                self.kills_at = self.at
            return
        while self.pipe >= 0 and select.select([self.pipe], [], [], 0)[0]:
            self.pump()
        if self.task["checkpoints"]:
            self.look_for_checkpoints()
        code = self.code_of(self.pid)
        self.end(ISOLATED if self.is_isolated else 128 - code if code < 0 else code)

    def is_shell_terminated(self, pid: int) -> bool:
        """Whether it is a shell, which our SIGTERM ended at once and not those whom it waited for."""
        return self.ended[pid] == -_signal.SIGTERM and self.family.get(pid, (0, False))[1]

    def code_of(self, pid: int) -> int:
        """How a process ended; for such a shell, the last of its children that ended in another way, if one did."""
        if not self.is_shell_terminated(pid):
            return self.ended[pid]
        children = [child for child in self.ended if self.family.get(child, (0, False))[0] == pid]
        codes = [code for code in map(self.code_of, children) if code != -_signal.SIGTERM]
        return codes[-1] if codes else self.ended[pid]

    def kill_all(self) -> None:
        """Every process that descends from us. It is called until none is left."""
        self.kills += 1
        if not self.has_main_ended:
            self.send(_signal.SIGKILL)
        for pid in sorted(machine.descendants_of(os.getpid())):
            machine.kill(pid, _signal.SIGKILL)

    def warn(self) -> None:
        """SIGUSR1 to those of the group who listen for it: whoever does not would end by it, and nobody is to end yet."""
        family = machine.family_of(self.pid)
        for pid in family:
            if machine.listens(pid, _signal.SIGUSR1):
                machine.kill(pid, _signal.SIGUSR1)
        if not family:
            self.send(_signal.SIGUSR1)

    def terminate(self) -> None:
        """SIGTERM to the whole group, and first to each shell that it ends: one that runs later than its child would reap it."""
        self.family = machine.family_of(self.pid)
        until = time.monotonic_ns() + SHELLS_END_WITHIN
        shells = [self.pid] if self.family.get(self.pid, (0, False))[1] else []
        for shell in shells:
            if not machine.is_ended_by(shell, _signal.SIGTERM):
                continue
            shells += [pid for pid, (parent, is_shell) in self.family.items() if is_shell and parent == shell]
            machine.kill(shell, _signal.SIGTERM)
            machine.kill(shell, _signal.SIGCONT)
            machine.await_end(shell, max(0, until - time.monotonic_ns()) // 1_000_000)
        self.send(_signal.SIGTERM)
        self.send(_signal.SIGCONT)  # Or a suspended task could not hear of it.

    def send(self, number: int) -> None:
        """To the whole group of the task, and to the task alone before it has made one."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            if not self.has_main_ended:
                os.kill(self.pid, number)  # Our child, and not yet reaped: the number is nobody else's.
        except OSError:
            return

    def end(self, code: int) -> None:
        """Nothing of it runs any more."""
        self.code = code
        self.at = self.at or time.monotonic_ns()
        self.phase = ENDED
        self.beat()
        if not self.is_forsaken:  # The output may be another runner's by now.
            # Before anybody hears of the end: the task's next run goes on in the same files.
            self.output.end(code)
        self.keep()

    # What others find.

    def keep(self) -> None:
        """Write the state, and tell the worker, if there is one: a word that is lost is found in the file."""
        text = f"phase={self.phase} {self.identity} code={self.code} at={self.at} saved={self.saved}\n"
        try:
            with open(f"{self.directory}/state.new", "w") as file:  # noqa: PTH123
                file.write(text)
            os.replace(f"{self.directory}/state.new", f"{self.directory}/state")  # noqa: PTH105
            self.is_kept = True
        except OSError as error:
            self.is_kept = False
            self.is_forsaken = self.is_forsaken or error.errno == errno.ENOENT
            return
        try:
            ear = os.open(self.task["told"], os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return
        try:
            os.write(ear, os.fsencode(f"{self.task['name']}\n"))
        except OSError:
            return
        finally:
            os.close(ear)

    def beat(self) -> None:
        """A sign of life."""
        try:
            os.utime(f"{self.directory}/state")
        except FileNotFoundError:
            self.is_forsaken = True
        except OSError:
            return

    def look_for_checkpoints(self) -> None:
        """The checkpoint of a step counts once `<step>.done` lies beside it."""
        try:
            names = os.listdir(self.task["checkpoints"])  # noqa: PTH208
        except OSError:
            return
        newest = max((step_of(name[:-5]) for name in names if name.endswith(".done")), default=0)
        if newest > self.saved:
            self.saved = newest
            self.keep()


def step_of(name: str) -> int:
    """The step that a checkpoint is called by; 0 for whatever is no step: no number, written otherwise, or out of reach."""
    if not (name.isascii() and name.isdigit() and len(name) <= STEP_DIGITS_MAX):
        return 0
    return int(name) if str(int(name)) == name else 0

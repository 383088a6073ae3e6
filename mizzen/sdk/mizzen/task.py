"""What a training script imports: where its checkpoints go, where it resumes, and when all its ranks leave.

    import mizzen

    for step in range(mizzen.resume_step() + 1, steps + 1):
        train(step)
        if mizzen.should_preempt():  # every rank asks, once a step, and all hear yes at the same step
            if rank == 0:
                save(mizzen.checkpoint_path(step))
                mizzen.saved(step)
            sys.exit(143)

Nothing but the standard library is imported. A script that runs without Mizzen finds none of its variables: it
resumes nowhere, keeps its checkpoints in `checkpoints/`, and is asked to leave only by a SIGTERM from somebody.
"""

from __future__ import annotations

import atexit
import os
import selectors
import signal
import socket
import struct
import sys
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FrameType

ASK_SECONDS_MAX = 10.0
"""How long a rank waits for the coordinator, which first listens when rank 0 asks for the first time."""
LINGER_SECONDS_MAX = 5.0
"""How long rank 0 stays at its end for ranks that have not yet asked what it asked last."""
STRANGERS_MAX = 16
"""Connections to the coordinator of which no rank is known; the oldest is dropped for the next."""
RETRY_SECONDS = 0.05
PORT_MAX = 65535

# Which run this is, who asks, for which time, and whether it was told to leave.
QUESTION = struct.Struct("!IIQ?")
NO, YES = b"n", b"y"

Reduction = Callable[[int], object]


def checkpoint_path(step: int, directory: str | Path | None = None) -> Path:
    """Where the checkpoint of a step is to be written, as a file or a directory; its parent is there afterwards.

    Mizzen says in which directory. Without Mizzen it is the one named here, or `checkpoints`.
    """
    parent = Path(os.environ.get("MIZZEN_CHECKPOINT_DIR") or directory or "checkpoints")
    parent.mkdir(parents=True, exist_ok=True)
    return parent / str(step)


def saved(step: int, directory: str | Path | None = None) -> None:
    """Make the checkpoint of a step count; it must be complete, and one rank says so for all.

    It counts once `<step>.done` lies beside it, and that name appears only when everything before it is on disk.
    """
    checkpoint = checkpoint_path(step, directory)
    _sync(checkpoint)
    _sync_one(checkpoint.parent)
    draft = checkpoint.with_name(f".{step}.done.{os.getpid()}")
    draft.write_text(f"{step}\n")
    _sync_one(draft)
    draft.replace(checkpoint.with_name(f"{step}.done"))
    _sync_one(checkpoint.parent)


def resume_from() -> Path | None:
    """The checkpoint to go on from; None at a first start."""
    path = os.environ.get("MIZZEN_RESUME_FROM")
    return Path(path) if path else None


def resume_step() -> int:
    """The step of the checkpoint to go on from; 0 at a first start."""
    path = resume_from()
    if path is None:
        return 0
    step = os.environ.get("MIZZEN_RESUME_STEP") or path.name
    if not step.isdecimal():
        raise ValueError(f"{path} does not end in a step, and MIZZEN_RESUME_STEP names none")
    return int(step)


def checkpoint_of(stage: str) -> Path | None:
    """The newest checkpoint of a stage that came before in the pipeline; None when it saved none, or there is no such stage."""
    name = "MIZZEN_STAGE_" + "".join(letter if letter.isalnum() else "_" for letter in stage).upper()
    directory, step = os.environ.get(f"{name}_CHECKPOINT_DIR"), os.environ.get(f"{name}_STEP", "0")
    return Path(directory) / step if directory and step != "0" else None


def should_preempt(all_reduce: Reduction | None = None) -> bool:
    """Whether to save and leave now. Every rank asks once a step, and all hear yes for the first time at the same step.

    all_reduce  the script's own sum or maximum of an int over all ranks, to be used instead of Mizzen's agreement
    """
    return _this_rank().should_leave(all_reduce)


def watch_signals() -> None:
    """Hear SIGTERM from now on, not only from the first `should_preempt()`; the main thread must call it.

    A handler that was installed before is called too. One that is installed later should call ours.
    """
    _this_rank().watch()


@cache
def _this_rank() -> Preemption:
    preemption = Preemption(os.environ)
    atexit.register(preemption.close)
    return preemption


class Preemption:
    """Whether this rank was told to leave, and whether the ranks have agreed to."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.is_told = False
        self._world = int(environment.get("WORLD_SIZE") or 1)
        self._rank = int(environment.get("RANK") or 0)
        self._place = environment.get("MIZZEN_AGREE_ADDR", "")
        # No secret: it keeps ranks of another attempt apart, which may still hold an old address.
        names = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MIZZEN_ATTEMPT")
        self._run = zlib.crc32(" ".join(environment.get(name, "") for name in names).encode())
        self._process = os.getpid()
        self._is_watching = False
        self._before: Callable[[int, FrameType | None], object] | int | None = None
        self._has_left = False
        self._times = 0
        self._agreement: _Coordinator | _Asker | None = None
        self._is_alone = self._world == 1

    def watch(self) -> None:
        """Hear SIGTERM, and on rank 0 also the other ranks."""
        self._hear_signals()
        if self._rank == 0 and self._place:
            self._joined()

    def should_leave(self, all_reduce: Reduction | None = None) -> bool:
        """What `should_preempt` promises."""
        self._hear_signals()
        if not self._has_left:
            reduced = self._agreed() if all_reduce is None else all_reduce(int(self.is_told))
            self._has_left = bool(reduced)
        return self._has_left

    def close(self) -> None:
        """Rank 0 first answers what the others are about to ask; a forked helper has nothing to close."""
        if self._agreement is not None and os.getpid() == self._process:
            self._agreement.close(self._times)
            self._agreement = None

    def _agreed(self) -> bool:
        """What the ranks agree on or, where they cannot, whether this one was told."""
        agreement = self._joined()
        if agreement is not None:
            self._times += 1
            try:
                return agreement.ask(self._times, is_told=self.is_told)
            except OSError as error:
                self._go_alone(error)
        return self.is_told

    def _joined(self) -> _Coordinator | _Asker | None:
        if self._agreement is None and not self._is_alone:
            try:
                self._agreement = self._join()
            except OSError as error:
                self._go_alone(error)
        return self._agreement

    def _join(self) -> _Coordinator | _Asker:
        host, _, port = self._place.rpartition(":")
        if not host or not port.isdecimal() or int(port) > PORT_MAX:
            raise OSError(f"MIZZEN_AGREE_ADDR is {self._place!r}, not host:port")
        address = (host.strip("[]"), int(port))
        if self._rank == 0:
            return _Coordinator(address, self._world, self._run, lambda: self.is_told)
        return _Asker(address, self._rank, self._run)

    def _go_alone(self, why: Exception) -> None:
        _say(f"rank {self._rank} cannot agree with the others, and leaves when told itself: {why}")
        self._is_alone = True
        self.close()

    def _hear_signals(self) -> None:
        if self._is_watching:
            return
        self._is_watching = True
        try:
            self._before = signal.signal(signal.SIGTERM, self._hear)
        except ValueError:
            _say("SIGTERM is not heard: let the main thread call mizzen.watch_signals() first")

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() == self._process:
            self.is_told = True
        elif not callable(self._before):
            # A forked helper, a data loader say, has inherited this handler: it ends as it would have without.
            signal.signal(number, signal.SIG_DFL if self._before is None else self._before)
            os.kill(os.getpid(), number)
        if callable(self._before):
            self._before(number, frame)


class _Peer:
    """One connection to the coordinator, and as much of a question as has come."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.heard = bytearray()
        self.rank = 0  # until a question tells it: rank 0 asks without a connection


class _Coordinator:
    """Rank 0's part: answers every rank's n-th question, so that all hear yes for the first time at the same n.

    Once any rank was told, they leave at the first n that nobody has yet heard no for. Whoever else connects to its
    port is heard for the length of one question, and dropped when that is none.
    """

    def __init__(
        self, address: tuple[str, int], world: int, run: int, is_told_here: Callable[[], bool]
    ) -> None:
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._listener = socket.create_server(address, family=family)
        self._listener.setblocking(False)
        self._world = world
        self._run = run
        self._is_told_here = is_told_here
        self._turn = threading.Condition()
        self._refused_max = 0
        self._leave_at: int | None = None
        self._answered: dict[int, int] = {}
        self._gone: set[int] = set()
        self._is_closed = False
        self._thread = threading.Thread(target=self._serve, name="mizzen agreement", daemon=True)
        self._thread.start()

    def ask(self, time_asked: int, *, is_told: bool) -> bool:
        """The answer to some rank's question of this number."""
        with self._turn:
            if self._leave_at is None and (is_told or self._is_told_here()):
                self._leave_at = self._refused_max + 1
            if self._leave_at is not None and time_asked >= self._leave_at:
                return True
            self._refused_max = max(self._refused_max, time_asked)
            return False

    def close(self, times: int) -> None:
        """End, but not before the others have heard the answer to the question that rank 0 asked last."""
        with self._turn:
            self._turn.wait_for(lambda: self._have_heard(times), LINGER_SECONDS_MAX)
        self._is_closed = True
        with suppress(OSError):  # It may have woken by itself, and closed the listener.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(LINGER_SECONDS_MAX)

    def _have_heard(self, times: int) -> bool:
        others = range(1, self._world)
        return all(rank in self._gone or self._answered.get(rank, 0) >= times for rank in others)

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector, self._listener:
            selector.register(self._listener, selectors.EVENT_READ)
            while not self._is_closed:
                for key, _ in selector.select():
                    if key.data is None:
                        self._admit(selector)
                    elif key.data.connection.fileno() >= 0 and not self._hear(key.data):
                        self._drop(selector, key.data)
            for peer in _peers(selector):
                peer.connection.close()

    def _admit(self, selector: selectors.BaseSelector) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            _rest()  # It went away again, or we are closed, or no file may be opened any more.
            return
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        strangers = [peer for peer in _peers(selector) if not peer.rank]
        if len(strangers) >= STRANGERS_MAX + self._world:
            self._drop(selector, strangers[0])
        selector.register(connection, selectors.EVENT_READ, _Peer(connection))

    def _drop(self, selector: selectors.BaseSelector, peer: _Peer) -> None:
        selector.unregister(peer.connection)
        peer.connection.close()
        with self._turn:
            if peer.rank:
                self._gone.add(peer.rank)
            self._turn.notify_all()

    def _hear(self, peer: _Peer) -> bool:
        """Take what has come, and answer when it is a question; whether the connection is of any more use."""
        try:
            heard = peer.connection.recv(QUESTION.size - len(peer.heard))
            peer.heard += heard
            if len(peer.heard) < QUESTION.size:
                return bool(heard)
            run, rank, time_asked, is_told = QUESTION.unpack(peer.heard)
            peer.heard.clear()
            # A number out of turn would move the others' agreement to where no rank ever comes.
            is_next = time_asked == self._answered.get(rank, 0) + 1
            if run != self._run or not 0 < rank < self._world or not is_next:
                return False
            peer.rank = rank
            peer.connection.send(YES if self.ask(time_asked, is_told=is_told) else NO)
        except OSError:
            return False
        with self._turn:
            self._answered[rank] = time_asked  # Only now, for rank 0 may end as soon as this is known.
            self._turn.notify_all()
        return True


class _Asker:
    """Every other rank's part: asks the coordinator over one connection."""

    def __init__(self, address: tuple[str, int], rank: int, run: int) -> None:
        self._rank = rank
        self._run = run
        self._connection = _connected(address)
        self._connection.settimeout(ASK_SECONDS_MAX)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, time_asked: int, *, is_told: bool) -> bool:
        """The coordinator's answer to this rank's question of this number."""
        self._connection.sendall(QUESTION.pack(self._run, self._rank, time_asked, is_told))
        answer = self._connection.recv(1)
        if answer not in {YES, NO}:
            self._connection.close()
            raise ConnectionError("rank 0 has gone" if not answer else "the listener there is not rank 0")
        return answer == YES

    def close(self, times: int) -> None:
        """Leave."""
        self._connection.close()


def _connected(address: tuple[str, int]) -> socket.socket:
    deadline = time.monotonic() + ASK_SECONDS_MAX
    while True:
        try:
            return _connected_now(address)
        except OSError:
            if time.monotonic() > deadline:
                raise
        _rest()


def _connected_now(address: tuple[str, int]) -> socket.socket:
    connection = socket.create_connection(address, timeout=ASK_SECONDS_MAX)
    if connection.getsockname() == connection.getpeername():
        # With nobody listening there, TCP may connect to itself on loopback, and hold the port.
        connection.close()
        raise ConnectionRefusedError("no process listens there")
    return connection


def _peers(selector: selectors.BaseSelector) -> list[_Peer]:
    return [key.data for key in selector.get_map().values() if key.data is not None]


def _sync(path: Path) -> None:
    """Bring a file, or a directory and all in it, to disk."""
    for folder, _, names in os.walk(path, topdown=False):
        for inner in (Path(folder, name) for name in names):
            if inner.is_file():
                _sync_one(inner)
        _sync_one(Path(folder))
    if not path.is_dir():
        _sync_one(path)


def _sync_one(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _rest() -> None:
    time.sleep(RETRY_SECONDS)  # noqa: TID251  # a rank that cannot go on yet, or the coordinator's own thread


def _say(sentence: str) -> None:
    print(f"mizzen: {sentence}", file=sys.stderr, flush=True)

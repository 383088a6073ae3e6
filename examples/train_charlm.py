"""Trains a small character language model on as many ranks as Mizzen, or nobody, gives it.

The text is what every machine has: the sources of Python's standard library; or, with --data NAME, the dataset NAME,
which Mizzen brought to the region of the job. From the last few characters an
embedding and one hidden layer guess the next. Each rank draws its batches from its own part of the text, gradients
are averaged over ranks, and rank 0 keeps the checkpoints. What a batch holds follows from seed, step and rank alone,
so a resumed run sees what the stopped one would have seen.

With numpy, ranks are also summed in one order, and a resumed run ends with the parameters of one that was never
stopped, to the bit, on the same kind of machine. With torch, where it is installed, DistributedDataParallel over
gloo regroups its sums after a start, and they end equal up to rounding.

    python examples/train_charlm.py --steps 200     # alone, without Mizzen
    mizzen submit examples/charlm.yaml              # four ranks, on a fleet
"""

import argparse
import importlib.util
import io
import os
import socket
import struct
import sys
import sysconfig
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = (
        "1"  # Read when numpy is loaded. Ranks share cores, and one thread adds in one order.
    )

import numpy as np  # noqa: E402  # after the lines above
from numpy.typing import NDArray  # noqa: E402

import mizzen  # noqa: E402

Floats = NDArray[np.float32]
Codes = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]  # Any: a checkpoint holds floats, whole numbers and bytes

CONTEXT = 16
"""Characters that are seen before the one that is guessed."""
EMBEDDING = 16
ALPHABET = "\n" + "".join(map(chr, range(32, 127)))
UNKNOWN = len(ALPHABET)
SYMBOLS = UNKNOWN + 1
TEXT_BYTES_MAX = 600_000
DATA_BYTES_MAX = 16_000_000
"""Of a dataset; more of it is not read."""
RATE = 2e-3
"""Adam's step size. It does not depend on --steps, so a run may be made longer when it is resumed."""

NICENESS = 10
TOLD_TO_LEAVE = 143
JOIN_SECONDS_MAX = 30.0
PEER_SECONDS_MAX = 30.0
"""How long one rank may keep the others waiting; a rank that died is noticed at once."""


def main() -> int:
    """Train until the last step, or until all ranks are told to leave; returns the exit code."""
    options = _options()
    os.nice(max(0, NICENESS - os.nice(0)))
    ranks = Ranks(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))
    try:
        trainer = _trainer(options, ranks)
        try:
            return _train(trainer, ranks, options)
        finally:
            trainer.close()
    except PeerLost as error:
        print(f"rank {ranks.rank} stops: {error}", file=sys.stderr, flush=True)
        return 1


@dataclass(frozen=True)
class Ranks:
    """Which of how many this process is."""

    rank: int
    world: int


class Trainer(Protocol):
    """A model with its optimizer, the same on every rank after every step."""

    def step(self, context: Codes, target: Codes) -> float:
        """Learn one batch of each rank; returns the mean loss over all, before learning."""

    def state(self) -> Arrays:
        """All that the next step depends on."""

    def load(self, state: Arrays) -> None:
        """Go back to a state."""

    def wait_for_all(self) -> None:
        """Return when every rank has come here."""

    def close(self) -> None:
        """Leave the other ranks."""


def _train(trainer: Trainer, ranks: Ranks, options: argparse.Namespace) -> int:
    """1. Resume. Then, every step: 2. learn, 3. tell, 4. ask whether to leave, 5. save, and leave together."""
    text = _codes(_dataset(options.data, ranks) if options.data else _sources())
    loss = float("nan")
    first = mizzen.resume_step()
    resumed = mizzen.resume_from()
    if resumed is not None:
        loss = _resume(trainer, resumed, first)
        if ranks.rank == 0:
            print(f"resumed at step {first}", flush=True)
    mizzen.watch_signals()  # From here on there is something to save; before, a SIGTERM simply ends us.
    started = time.monotonic()
    for step in range(first + 1, options.steps + 1):
        loss = trainer.step(*_batch(text, step, ranks, options))
        if ranks.rank == 0 and (step % options.print_every == 0 or step in {first + 1, options.steps}):
            print(f"step {step} loss {loss:.4f} seconds {time.monotonic() - started:.1f}", flush=True)
        is_last = step == options.steps
        is_leaving = mizzen.should_preempt() and not is_last
        if ranks.rank == 0 and (is_leaving or is_last or step % options.save_every == 0):
            _save(trainer, step, loss, options)
        if is_leaving:
            trainer.wait_for_all()  # Nobody's exit cuts rank 0's checkpoint short.
            print(f"leaving at step {step}", flush=True)
            return TOLD_TO_LEAVE
    if ranks.rank == 0:
        print(f"finished step {max(first, options.steps)} loss {loss:.4f}", flush=True)
    return 0


def _save(trainer: Trainer, step: int, loss: float, options: argparse.Namespace) -> None:
    path = mizzen.checkpoint_path(step, options.checkpoints)
    draft = path.with_name(f".{step}.draft")
    with draft.open("wb") as file:
        np.savez(file, allow_pickle=False, step=step, loss=loss, **trainer.state())
    draft.replace(path)
    mizzen.saved(step, options.checkpoints)


def _resume(trainer: Trainer, path: Path, step: int) -> float:
    with np.load(path) as file:
        state = {name: file[name] for name in file.files}
    assert step == int(state.pop("step")), f"{path} is not of step {step}"
    loss = float(state.pop("loss"))
    trainer.load(state)
    return loss


# -------------------------------------------------------------------------------------- the text


def _sources() -> bytes:
    """The first sources of the standard library, by name."""
    return _read(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"), TEXT_BYTES_MAX)


def _dataset(name: str, ranks: Ranks) -> bytes:
    """A dataset of this region, a file or a directory of files. Raises OSError where there is none."""
    path = Path(os.environ["MIZZEN_DATA_DIR"]) / name
    text = _read((path,) if path.is_file() else path.iterdir(), DATA_BYTES_MAX)
    if ranks.rank == 0:
        print(f"data {name}: {len(text)} bytes", flush=True)
    return text


def _read(paths: Iterable[Path], most: int) -> bytes:
    """The text of these files in the order of their names, up to so many bytes."""
    text = b""
    for path in sorted(paths):
        text += path.read_bytes()
        if len(text) >= most:
            break
    return text[:most]


def _codes(text: bytes) -> Codes:
    """A text as numbers of symbols, (characters,)."""
    codes = np.full(256, UNKNOWN, dtype=np.int64)
    codes[np.frombuffer(ALPHABET.encode(), dtype=np.uint8)] = np.arange(UNKNOWN)
    return codes[np.frombuffer(text, dtype=np.uint8)]


def _batch(text: Codes, step: int, ranks: Ranks, options: argparse.Namespace) -> tuple[Codes, Codes]:
    """What a rank learns at a step: contexts, (batch, CONTEXT), and what follows them, (batch,)."""
    share = len(text) // ranks.world
    dice = np.random.default_rng([options.seed, step, ranks.rank])
    starts = ranks.rank * share + dice.integers(0, share - CONTEXT, size=options.batch)
    windows = text[starts[:, np.newaxis] + np.arange(CONTEXT + 1)]
    return windows[:, :-1], windows[:, -1]


# -------------------------------------------------------------------------------------- with numpy


class NumpyTrainer:
    """The model by hand, its gradients averaged over a `Star` of sockets, and Adam.

    source  Bengio et al., A Neural Probabilistic Language Model, 2003; Kingma and Ba, Adam, 2015
    """

    def __init__(self, hidden: int, seed: int, star: "Star") -> None:
        width = CONTEXT * EMBEDDING
        shapes = ((SYMBOLS, EMBEDDING), (width, hidden), (hidden,), (hidden, SYMBOLS), (SYMBOLS,))
        count = sum(int(np.prod(shape)) for shape in shapes)
        self._star = star
        self._parameters = np.zeros(count, dtype=np.float32)
        self._first = np.zeros(count, dtype=np.float32)
        self._second = np.zeros(count, dtype=np.float32)
        self._updates = 0
        # The gradient and, behind it, the loss: one message a step.
        self._told = np.zeros(count + 1, dtype=np.float32)
        self._views = _views(self._parameters, shapes)
        self._slopes = _views(self._told, shapes)
        dice = np.random.default_rng(seed)
        for weights, spread in zip(self._views, (0.3, width**-0.5, 0, 0.1 * hidden**-0.5, 0), strict=True):
            weights[...] = spread * dice.standard_normal(weights.shape, dtype=np.float32)

    def step(self, context: Codes, target: Codes) -> float:
        """Learn one batch of each rank."""
        self._told[-1] = self._learn(context, target)
        self._star.add_up(self._told)
        self._told /= self._star.ranks.world
        self._adam(self._told[:-1])
        return float(self._told[-1])

    def state(self) -> Arrays:
        """Parameters and both moments, (parameters,) each, and how often they were updated."""
        return {
            "parameters": self._parameters,
            "first": self._first,
            "second": self._second,
            "updates": np.array(self._updates),
        }

    def load(self, state: Arrays) -> None:
        """Go back to a state; the parameters' views stay as they are."""
        self._parameters[...] = state["parameters"]
        self._first[...] = state["first"]
        self._second[...] = state["second"]
        self._updates = int(state["updates"])

    def wait_for_all(self) -> None:
        """Return when every rank has come here."""
        self._star.add_up(np.zeros(1, dtype=np.float32))

    def close(self) -> None:
        """Leave the other ranks."""
        self._star.close()

    def _learn(self, context: Codes, target: Codes) -> np.float32:
        """The mean loss of a batch; leaves its slope by every parameter in `_slopes`."""
        embedding, inner, inner_bias, outer, outer_bias = self._views
        rows = np.arange(len(target))
        seen = embedding[context].reshape(len(target), -1)
        hidden = np.tanh(seen @ inner + inner_bias)
        guess = hidden @ outer + outer_bias
        guess -= guess.max(axis=1, keepdims=True)
        chance = np.exp(guess)
        chance /= chance.sum(axis=1, keepdims=True)
        loss = -np.log(chance[rows, target] + np.float32(1e-20)).mean()

        # Backwards: d(loss)/d(guess) is the chance given, less one for what came, over the batch.
        chance[rows, target] -= 1
        chance /= len(target)
        before_tanh = (chance @ outer.T) * (1 - hidden * hidden)
        d_embedding, d_inner, d_inner_bias, d_outer, d_outer_bias = self._slopes
        np.matmul(hidden.T, chance, out=d_outer)
        np.sum(chance, axis=0, out=d_outer_bias)
        np.matmul(seen.T, before_tanh, out=d_inner)
        np.sum(before_tanh, axis=0, out=d_inner_bias)
        d_embedding[...] = 0
        np.add.at(d_embedding, context.ravel(), (before_tanh @ inner.T).reshape(-1, EMBEDDING))
        return np.float32(loss)

    def _adam(self, slope: Floats) -> None:
        self._updates += 1
        self._first += 0.1 * (slope - self._first)
        self._second += 0.001 * (slope * slope - self._second)
        first = self._first / (1 - 0.9**self._updates)
        second = self._second / (1 - 0.999**self._updates)
        self._parameters -= RATE * first / (np.sqrt(second) + 1e-8)


def _views(flat: Floats, shapes: Sequence[tuple[int, ...]]) -> list[Floats]:
    """Pieces of a flat array, in their shapes; writing into one writes into it."""
    views, start = [], 0
    for shape in shapes:
        end = start + int(np.prod(shape))
        views.append(flat[start:end].reshape(shape))
        start = end
    return views


# ------------------------------------------------------------------------- sums over ranks, by sockets


class PeerLost(Exception):
    """Another rank has gone, or says something else than this one expects; only a new start helps."""


class Star:
    """Every rank tells rank 0, which adds up in the order of ranks and tells them all."""

    # Sent before each array: the number of the sum, and the array's bytes.
    HEAD = struct.Struct("!QQ")
    # Sent once: who comes to which world.
    HELLO = struct.Struct("!6sII")
    NAME = b"charlm"

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self._sums = 0
        self._peers: dict[int, socket.socket] = {}
        if ranks.world == 1:
            return
        address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        try:
            self._peers = self._gathered(address) if ranks.rank == 0 else {0: self._joined(address)}
        except OSError as error:
            raise PeerLost(f"the ranks did not meet at {address[0]}:{address[1]}: {error}") from error
        for connection in self._peers.values():
            connection.settimeout(PEER_SECONDS_MAX)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def add_up(self, numbers: Floats) -> None:
        """Replace an array, of one size on all ranks, by its sum over ranks."""
        self._sums += 1
        if self.ranks.rank == 0:
            theirs = np.empty_like(numbers)
            for rank in sorted(self._peers):
                self._receive(rank, theirs)
                numbers += theirs
            for rank in sorted(self._peers):
                self._send(rank, numbers)
        elif self._peers:
            self._send(0, numbers)
            self._receive(0, numbers)

    def close(self) -> None:
        """Leave; whoever waits for this rank hears of it."""
        for connection in self._peers.values():
            connection.close()

    def _gathered(self, address: tuple[str, int]) -> dict[int, socket.socket]:
        """Rank 0: one connection from each of the others; a stranger's is closed."""
        peers: dict[int, socket.socket] = {}
        deadline = time.monotonic() + JOIN_SECONDS_MAX
        with socket.create_server(address, backlog=self.ranks.world) as listener:
            while len(peers) < self.ranks.world - 1:
                listener.settimeout(max(0.01, deadline - time.monotonic()))
                connection, _ = listener.accept()
                rank = self._greeted(connection)
                if rank is None or rank in peers:
                    connection.close()
                else:
                    peers[rank] = connection
        return peers

    def _greeted(self, connection: socket.socket) -> int | None:
        connection.settimeout(1)
        try:
            name, rank, world = self.HELLO.unpack(connection.recv(self.HELLO.size, socket.MSG_WAITALL))
        except (OSError, struct.error):
            return None
        return rank if name == self.NAME and world == self.ranks.world and 0 < rank < world else None

    def _joined(self, address: tuple[str, int]) -> socket.socket:
        """Another rank: a connection to rank 0, which may not listen yet."""
        deadline = time.monotonic() + JOIN_SECONDS_MAX
        while True:
            try:
                connection = _connected(address)
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    raise
            else:
                connection.sendall(self.HELLO.pack(self.NAME, self.ranks.rank, self.ranks.world))
                return connection
            time.sleep(0.05)  # noqa: TID251  # there is nothing to do before all have met

    def _send(self, rank: int, numbers: Floats) -> None:
        try:
            self._peers[rank].sendall(self.HEAD.pack(self._sums, numbers.nbytes) + numbers.tobytes())
        except OSError as error:
            raise PeerLost(f"rank {rank} hears no more: {error}") from error

    def _receive(self, rank: int, numbers: Floats) -> None:
        head = bytearray(self.HEAD.size)
        self._fill(rank, memoryview(head))
        if self.HEAD.unpack(head) != (self._sums, numbers.nbytes):
            raise PeerLost(f"rank {rank} is at another step, or was started with other options")
        self._fill(rank, numbers.data.cast("B"))

    def _fill(self, rank: int, room: memoryview) -> None:
        try:
            while room:
                count = self._peers[rank].recv_into(room)
                if not count:
                    raise PeerLost(f"rank {rank} has gone")
                room = room[count:]
        except OSError as error:
            raise PeerLost(f"rank {rank} is not heard: {error}") from error


def _connected(address: tuple[str, int]) -> socket.socket:
    connection = socket.create_connection(address, timeout=JOIN_SECONDS_MAX)
    if connection.getsockname() == connection.getpeername():
        # Where nobody listens yet, TCP on one machine may connect to itself, and hold the port.
        connection.close()
        raise ConnectionRefusedError("nobody listens there")
    return connection


# -------------------------------------------------------------------------------------- with torch


class TorchTrainer:
    """The same model for those who have torch: DistributedDataParallel averages the gradients."""

    def __init__(self, hidden: int, seed: int, ranks: Ranks) -> None:
        import torch
        from torch import distributed, nn

        torch.set_num_threads(1)
        torch.manual_seed(seed)
        self._torch = torch
        self._ranks = ranks
        self._distributed = distributed
        self._model = nn.Sequential(
            nn.Embedding(SYMBOLS, EMBEDDING),
            nn.Flatten(),
            nn.Linear(CONTEXT * EMBEDDING, hidden),
            nn.Tanh(),
            nn.Linear(hidden, SYMBOLS),
        )
        self._whole: Any = self._model  # Any: torch is not installed where types are checked
        if ranks.world > 1:
            distributed.init_process_group("gloo")
            self._whole = nn.parallel.DistributedDataParallel(self._model)
        self._adam = torch.optim.Adam(self._model.parameters(), lr=RATE)

    def step(self, context: Codes, target: Codes) -> float:
        """Learn one batch of each rank."""
        torch = self._torch
        self._adam.zero_grad()
        guess = self._whole(torch.from_numpy(context))
        loss = torch.nn.functional.cross_entropy(guess, torch.from_numpy(target))
        loss.backward()
        self._adam.step()
        mean = loss.detach() / self._ranks.world
        if self._ranks.world > 1:
            self._distributed.all_reduce(mean)
        return float(mean)

    def state(self) -> Arrays:
        """Model and optimizer as torch writes them, as one array of bytes."""
        kept = io.BytesIO()
        self._torch.save([self._model.state_dict(), self._adam.state_dict()], kept)
        return {"torch": np.frombuffer(kept.getvalue(), dtype=np.uint8)}

    def load(self, state: Arrays) -> None:
        """Go back to a state."""
        model, adam = self._torch.load(io.BytesIO(state["torch"].tobytes()), weights_only=True)
        self._model.load_state_dict(model)
        self._adam.load_state_dict(adam)

    def wait_for_all(self) -> None:
        """Return when every rank has come here."""
        if self._ranks.world > 1:
            self._distributed.barrier()

    def close(self) -> None:
        """Leave the other ranks."""
        if self._ranks.world > 1:
            self._distributed.destroy_process_group()


# -------------------------------------------------------------------------------------- what was asked for


def _trainer(options: argparse.Namespace, ranks: Ranks) -> Trainer:
    with_torch = options.backend == "torch" or (
        options.backend == "auto" and importlib.util.find_spec("torch") is not None
    )
    if with_torch:
        return TorchTrainer(options.hidden, options.seed, ranks)
    return NumpyTrainer(options.hidden, options.seed, Star(ranks))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a small character language model.")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=352, help="of each rank")
    parser.add_argument("--hidden", type=int, default=384)
    parser.add_argument("--save-every", type=int, default=100, help="steps")
    parser.add_argument("--print-every", type=int, default=20, help="steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--checkpoints", help="their directory, where Mizzen names none", default="checkpoints"
    )
    parser.add_argument("--data", default="", help="a dataset to read, named in the job file's `data` too")
    parser.add_argument("--backend", choices=("auto", "numpy", "torch"), default="auto")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

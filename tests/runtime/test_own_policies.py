"""Policies of one's own: a file that is right gives shares, and one that is wrong gives one sentence and nothing else."""

import fcntl
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from core.sharing.problem import MILLIONTHS, BadProblem, Shares
from runtime.errors import BadOwnPolicy, NotSolved
from runtime.planning.own_policies import SharingProcess, solve_own
from runtime.planning.sharing_worker import Answered, decode_answer, frame_of
from runtime.solvers.sharing import solve_shares
from tests.core.sharing.instances import assert_possible, drawn, of_speeds

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PROBLEM = of_speeds([[40, 10], [12, 4], [100, 50]], [1, 1])
BAD = {
    "broken": ("def objective(shares:\n", "broken.py: it does not load: SyntaxError: '(' was never closed"),
    "leaves": ("raise SystemExit('no more')\n", "leaves.py: it does not load: SystemExit: no more"),
    "empty": ("aim = 1\n", "empty.py: it has no function objective(shares)"),
    "fails": ("def objective(shares):\n    return shares.sped\n", "fails.py: its objective fails: AttributeError"),
    "number": ("def objective(shares):\n    return 3\n", "number.py: its objective returns int, and no expression"),
    "many": ("def objective(shares):\n    return shares.speeds\n", "many.py: its objective returns 3 numbers"),
    "convex": (
        "import cvxpy\ndef objective(shares):\n    return cvxpy.max(shares.speeds)\n",
        "convex.py: its objective is convex by cvxpy's rules",
    ),
    "wild": (
        "def objective(shares):\n    return shares.speeds[0] * shares.speeds[1]\n",
        "wild.py: its objective is quasiconcave by cvxpy's rules",
    ),
    "blind": ("import cvxpy\ndef objective(shares):\n    return cvxpy.Constant(1)\n", "blind.py: no share is in"),
    "endless": (
        "import cvxpy\ndef objective(shares):\n    return cvxpy.Variable() + cvxpy.sum(shares.time)\n",
        "endless.py: its objective has no largest value",
    ),
    "strict": (
        "from cvxpy.transforms import indicator\ndef objective(s):\n    return s.time[0] - indicator([s.time >= 1])\n",
        "strict.py: no shares fulfil the conditions",
    ),
    "reads": ("input()\ndef objective(shares):\n    return shares\n", "reads.py: it does not load: EOFError"),
}  # fmt: skip
"""Files, and how the sentence on each begins."""
FILES = {
    "fair": """
import cvxpy

print("said to people")

def objective(shares):
    return cvxpy.min(cvxpy.multiply(shares.gpus / shares.weights, shares.normalised))
""",
    "greedy": """
import cvxpy

solve = cvxpy.Problem.solve

def ours(self):
    solve(self)
    for one in self.variables():
        one.value = one.value * 0 + 1

def objective(shares):
    cvxpy.Problem.solve = ours
    return cvxpy.sum(shares.time)
""",
    "crashes": """
import os, sys

def objective(shares):
    print("so long", file=sys.stderr, flush=True)
    os._exit(3)
""",
    "hangs": """
import fcntl, pathlib, subprocess, threading

held = pathlib.Path(__file__).with_suffix(".lock").open("w")
fcntl.flock(held, fcntl.LOCK_EX)
child = subprocess.Popen(["sleep", "600"], pass_fds=(held.fileno(),))
threading.Event().wait()
""",
}
"""Files that load: max-min fairness, shares that are not there, an end of the process, and none."""

pytestmark = pytest.mark.processes


@pytest.fixture(name="folder", scope="module")
def folder_of_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of the files."""
    folder = tmp_path_factory.mktemp("own")
    for name, text in [*FILES.items(), *((name, text) for name, (text, _) in BAD.items())]:
        (folder / f"{name}.py").write_text(text)
    return folder


@pytest.fixture(name="process", scope="module")
def process_of_the_folder(folder: Path) -> Iterator[SharingProcess]:
    """A process for the tests that leave it as it was."""
    with SharingProcess(folder) as process:
        yield process


@pytest.mark.parametrize("has_pairs", [False, True])
def test_own_max_min_is_ours(process: SharingProcess, *, has_pairs: bool) -> None:
    """G1, G12, G13, G14: three lines of cvxpy have the optimum of the policy that is built in, with widths, weights, regions and pairs."""
    for seed in range(10):
        problem = drawn(seed, has_pairs=has_pairs)
        shares = process.solve("fair.py", problem)
        assert solve_shares("max_min", problem).objective == pytest.approx(shares.objective, rel=1e-5)
        assert shares.by.endswith("by cvxpy")
        assert_possible(problem, shares)


def test_example_is_proportional_fairness_and_minds_money() -> None:
    """Where nothing costs anything the example has the geometric mean of the strategy-proof policy's first step; else it spends less."""
    problem = drawn(5)
    by_factor = [
        replace(problem, columns=tuple(replace(one, price=factor * one.price) for one in problem.columns))
        for factor in (0.0, 100.0)
    ]
    with SharingProcess(EXAMPLES) as process:
        free, dear = (process.solve("my_policy.py", one) for one in by_factor)
    mean = np.exp(free.objective / (problem.counts @ problem.weights))
    assert solve_shares("strategy_proof", problem).objective == pytest.approx(mean, rel=1e-5)
    prices = np.array([one.price for one in problem.columns])
    in_free, in_dear = (problem.counts * problem.widths @ one.alone @ prices for one in (free, dear))
    assert in_dear < 0.75 * in_free


@pytest.mark.parametrize("name", BAD)
def test_bad_file_is_one_sentence(process: SharingProcess, name: str) -> None:
    """A file that does not load, has no objective, or has none that can be made large is told so, and the process goes on."""
    with pytest.raises(BadOwnPolicy) as told:
        process.solve(f"{name}.py", PROBLEM)
    assert str(told.value).startswith(BAD[name][1])
    assert "\n" not in str(told.value)
    assert process.solve("fair.py", PROBLEM).objective > 0


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nowhere", "nowhere.py: there is no such file in"),
        ("../fair", "'../fair': the name of a file"),
        ("fair.py", "'fair.py': the name of a file"),
    ],
)
def test_files_of_the_named_folder_alone_are_loaded(
    process: SharingProcess, name: str, sentence: str
) -> None:
    """A problem names a file, and cannot name another place."""
    with pytest.raises(BadOwnPolicy) as told:
        process.solve(f"{name}.py", PROBLEM)
    assert str(told.value).startswith(sentence)


def test_hanging_file_is_ended(folder: Path) -> None:
    """A file that does not come to an end is ended in its time, with the processes that it started."""
    begun = time.monotonic()
    with pytest.raises(BadOwnPolicy, match=r"^hangs\.py: it took longer than 3 s, and was ended$"):
        solve_own(folder / "hangs.py", PROBLEM, 3.0)
    assert 3.0 <= time.monotonic() - begun < 15.0
    with (folder / "hangs.lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # Waits for as long as the file's process or its child lives.


def test_crash_and_greed_are_told_and_the_next_problem_is_solved(folder: Path) -> None:
    """A file that ends its process, or makes the solver say what is not so, spoils no other: a new process is started where need be."""
    with SharingProcess(folder) as process:
        with pytest.raises(BadOwnPolicy, match=r"^crashes\.py: its process ended with exit code 3: so long$"):
            process.solve("crashes.py", PROBLEM)
        assert process.solve("fair.py", PROBLEM).objective > 0
        with pytest.raises(BadOwnPolicy, match=r"^greedy\.py: it gives more than there is$"):
            process.solve("greedy.py", PROBLEM)


def answering(said: bytes) -> tuple[str, ...]:
    """A process that says this, whatever it is asked."""
    return (
        "-c",
        f"import sys; sys.stdin.buffer.read(8); sys.stdout.buffer.write({said!r}); sys.stdout.flush()",
    )


def shares_of(alone: list[list[int]], objective: float = 1.0) -> bytes:
    """An answer with these shares."""
    none = np.zeros((0, 2), dtype=np.int64)
    return frame_of(Answered(Shares(np.array(alone, dtype=np.int64), none, objective)))


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (b"", "its process ended with exit code 0: it said nothing"),
        (b"hello, world", "its process gave an answer that is none"),
        ((5).to_bytes(8, "big") + b"hello", "its process gave an answer that is none"),
        (shares_of([[1, 0], [0, 0], [0, 0]]) + b"more", "its process gave an answer that is none"),
        (
            shares_of([[MILLIONTHS, 1], [0, 0], [0, 0]]),
            "it gives what there is not: j0 has 1.000001 of its time, which is more than all",
        ),
        (
            shares_of([[600_000, 0], [400_001, 0], [0, 0]]),
            "it gives what there is not: 1.000001 GPUs of v100 in eu are shared out, and there are 1",
        ),
        (shares_of([[-1, 0], [0, 0], [0, 0]]), "it gives what there is not: a share is less than nothing"),
        (
            shares_of([[2**62, 0], [2**62, 0], [0, 0]]),
            "it gives what there is not: a share is more than all of the time of its jobs",
        ),
        (shares_of([[1, 1]]), "it gives what there is not: shares are for (3, 2) classes"),
        (shares_of([[1, 0], [0, 0], [0, 0]], float("nan")), "its objective is no number"),
    ],
)
def test_answers_are_not_believed(said: bytes, sentence: str) -> None:
    """G12: whatever a process says that ran a stranger's code, no job and no pool gives more than there is."""
    with SharingProcess(command=answering(said)) as process, pytest.raises(BadOwnPolicy) as told:
        process.solve("own.py", PROBLEM, 20.0)
    assert str(told.value).startswith(f"own.py: {sentence}")


def test_right_answer_is_taken() -> None:
    """So that the refusals above mean something."""
    with SharingProcess(command=answering(shares_of([[MILLIONTHS, 0], [0, 0], [0, 5]]))) as process:
        shares = process.solve("own.py", PROBLEM, 20.0)
    assert [[MILLIONTHS, 0], [0, 0], [0, 5]] == shares.alone.tolist()


def test_arrays_are_of_their_kind() -> None:
    """Shares with a fraction, or with fewer numbers than their shape says, are no answer."""
    right = Answered(Shares(np.zeros((1, 1), dtype=np.int64), np.zeros((0, 1), dtype=np.int64)))
    data = frame_of(right)[8:]
    found = decode_answer(data)
    assert found is not None
    assert found.shares is not None
    assert decode_answer(data.replace(b"<i8", b"<f8")) is None
    assert decode_answer(data.replace(bytes(8), bytes(7))) is None


def test_policies_that_are_built_in_are_solved_there_too(process: SharingProcess) -> None:
    """By their names, with the shares that they have in this process; a problem that is wrong is told before it is sent."""
    problem = drawn(2)
    assert solve_shares("max_min", problem).alone.tolist() == process.solve("max_min", problem).alone.tolist()
    wrong = replace(problem, classes=(replace(problem.classes[0], weight=0.0), *problem.classes[1:]))
    with pytest.raises(BadProblem, match="its weight is 0"):
        process.solve("fair.py", wrong)


def test_file_may_be_called_as_a_policy_of_ours(tmp_path: Path) -> None:
    """A file `sjf.py` is that file, and `sjf` is ours; a name that is neither is told."""
    (tmp_path / "sjf.py").write_text("def objective(shares:", encoding="utf-8")
    with SharingProcess(tmp_path) as process:
        with pytest.raises(BadOwnPolicy, match=r"^sjf\.py: it does not load: SyntaxError"):
            process.solve("sjf.py", PROBLEM)
        assert "greedy" == process.solve("sjf", drawn(2, is_by_job=True)).by
        with pytest.raises(NotSolved, match=r"^sfj: there is no such policy"):
            process.solve("sfj", PROBLEM)


def test_without_a_folder_there_is_no_policy_of_ones_own() -> None:
    """A process that was started without one loads no file."""
    with SharingProcess() as process, pytest.raises(NotSolved, match=r"^fair\.py: there is no such policy"):
        process.solve("fair.py", PROBLEM)

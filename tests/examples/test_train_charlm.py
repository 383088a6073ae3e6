"""The example learns, notices a lost peer, and continues after a stop as if it had never been stopped."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import IO

import numpy as np
import pytest
import yaml

HOUSE = Path(__file__).resolve().parents[2]
SCRIPT = HOUSE / "examples" / "train_charlm.py"
WORLD = 4
TINY = ("--backend", "numpy", "--hidden", "24", "--batch", "32")
END_SECONDS = 15.0
"""From the death of one rank to the end of the others; otherwise a tenth of a second."""

pytestmark = pytest.mark.processes


class Rank:
    """One process of a run, and what it said so far."""

    def __init__(self, process: subprocess.Popen[str], said: IO[str], errors: Path) -> None:
        self.process = process
        self.lines: list[str] = []
        self._said = said
        self._errors = errors

    def say(self, beginning: str) -> str:
        """The next line that begins so."""
        for line in self._said:
            self.lines.append(line.rstrip())
            if line.startswith(beginning):
                return line.rstrip()
        raise AssertionError(f"it ended after {self.lines} and {self.errors()}")

    def end(self) -> int:
        """Its exit code, when it has said all."""
        self.lines += [line.rstrip() for line in self._said]
        return self.process.wait(END_SECONDS)

    def errors(self) -> str:
        """What it said of mistakes."""
        return self._errors.read_text()


@contextmanager
def a_rank(directory: Path, words: Sequence[str], environment: dict[str, str]) -> Iterator[Rank]:
    """A process of the script, killed in the end."""
    errors = directory / f"errors.{environment.get('RANK', 'alone')}.{environment.get('MIZZEN_ATTEMPT')}"
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MIZZEN_", "TORCHELASTIC_")) and name not in {"RANK", "WORLD_SIZE"}
    }
    with (
        errors.open("w") as said,
        subprocess.Popen(
            [sys.executable, SCRIPT, *words],
            cwd=directory,
            env=kept | environment,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            yield Rank(process, process.stdout, errors)
        finally:
            process.kill()


@contextmanager
def a_run(directory: Path, *words: str, attempt: int = 1, resume: Path | None = None) -> Iterator[list[Rank]]:
    """All ranks of a run, as Mizzen starts them."""
    with ExitStack() as listeners:
        taken = [listeners.enter_context(closing(socket.create_server(("127.0.0.1", 0)))) for _ in range(2)]
        master, agree = (listener.getsockname()[1] for listener in taken)
    shared = {
        "WORLD_SIZE": str(WORLD),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(master),
        "MIZZEN_AGREE_ADDR": f"127.0.0.1:{agree}",
        "MIZZEN_CHECKPOINT_DIR": str(directory / str(attempt)),
        "MIZZEN_ATTEMPT": str(attempt),
    }
    if resume is not None:
        shared |= {"MIZZEN_RESUME_FROM": str(resume), "MIZZEN_RESUME_STEP": resume.name}
    with ExitStack() as processes:
        yield [
            processes.enter_context(a_rank(directory, (*TINY, *words), {**shared, "RANK": str(rank)}))
            for rank in range(WORLD)
        ]


def losses(rank: Rank) -> dict[int, float]:
    """Step by step, from lines in the form that tables of live runs read."""
    form = re.compile(r"step (\d+) loss (\d+\.\d{4}) seconds \d+\.\d")
    matched = [form.fullmatch(line) for line in rank.lines]
    return {int(found[1]): float(found[2]) for found in matched if found}


def parameters(path: Path) -> list[bytes]:
    """All that a checkpoint holds, to the bit."""
    with np.load(path) as file:
        return [name.encode() + file[name].tobytes() for name in sorted(file.files)]


def test_four_ranks_learn(tmp_path: Path) -> None:
    """The loss falls from that of a guess; checkpoints count; only rank 0 speaks."""
    with a_run(tmp_path, "--steps", "80", "--print-every", "10", "--save-every", "50") as ranks:
        assert [0] * WORLD == [rank.end() for rank in ranks], [rank.errors() for rank in ranks]
        told = losses(ranks[0])
        assert [1, 10, 20, 30, 40, 50, 60, 70, 80] == list(told)
        assert 4.4 < told[1] < 4.7
        assert told[80] < 3.4
        assert f"finished step 80 loss {told[80]:.4f}" == ranks[0].lines[-1]
        assert [[], [], []] == [rank.lines for rank in ranks[1:]]
        assert [""] * WORLD == [rank.errors() for rank in ranks]
    assert ["50", "50.done", "80", "80.done"] == sorted(path.name for path in (tmp_path / "1").iterdir())


@pytest.mark.parametrize("killed", [0, 2])
def test_others_end_soon_after_a_peer_died(killed: int, tmp_path: Path) -> None:
    """They exit with an error that names it, so that the whole gang can be started again."""
    with a_run(tmp_path, "--steps", "1000000", "--print-every", "1", "--save-every", "1000000") as ranks:
        ranks[0].say("step 5 ")
        ranks[killed].process.kill()
        others = [rank for number, rank in enumerate(ranks) if number != killed]
        assert [1, 1, 1] == [rank.end() for rank in others]
        assert f"stops: rank {killed} " in others[0].errors()


@pytest.mark.parametrize("told", [range(WORLD), [2]], ids=["all", "one"])
def test_run_continues_as_if_it_had_never_been_stopped(told: Sequence[int], tmp_path: Path) -> None:
    """SIGTERM to all or to one: all leave at the same step, and the resumed run ends with the same parameters."""
    with a_run(tmp_path, "--steps", "1000000", "--print-every", "1", "--save-every", "1000000") as ranks:
        ranks[0].say("step 5 ")
        for rank in told:
            ranks[rank].process.send_signal(signal.SIGTERM)
        # One that is told when it is already on its way out may end by the signal itself.
        assert {rank.end() for rank in ranks} <= {143, -signal.SIGTERM}, [rank.errors() for rank in ranks]
        assert 1 == len({rank.lines[-1] for rank in ranks})
        step = int(ranks[0].lines[-1].removeprefix("leaving at step "))
    saved = tmp_path / "1" / str(step)
    assert {saved, saved.with_name(f"{step}.done")} == set(saved.parent.iterdir())

    last = step + 7
    with a_run(tmp_path, "--steps", str(last), "--print-every", "1", attempt=2, resume=saved) as ranks:
        assert [0] * WORLD == [rank.end() for rank in ranks], [rank.errors() for rank in ranks]
        assert f"resumed at step {step}" == ranks[0].lines[0]
        assert list(range(step + 1, last + 1)) == list(losses(ranks[0]))
    with a_run(tmp_path, "--steps", str(last), attempt=3) as ranks:
        assert [0] * WORLD == [rank.end() for rank in ranks], [rank.errors() for rank in ranks]
    assert parameters(tmp_path / "3" / str(last)) == parameters(tmp_path / "2" / str(last))


def test_one_process_without_mizzen(tmp_path: Path) -> None:
    """It needs no variables, keeps its checkpoints where it is run, and is not told to leave by anybody."""
    with a_rank(tmp_path, (*TINY, "--steps", "20"), {}) as rank:
        assert 0 == rank.end(), rank.errors()
        assert [1, 20] == list(losses(rank))
        assert "" == rank.errors()
    assert ["20", "20.done"] == sorted(path.name for path in (tmp_path / "checkpoints").iterdir())


@pytest.mark.parametrize("is_directory", [True, False])
def test_text_of_a_dataset(is_directory: bool, tmp_path: Path) -> None:
    """All files of it, or the one that it is: in the directory that Mizzen names; the loss says that no other text is read."""
    corpus = tmp_path / "data" / "corpus"
    (corpus if is_directory else corpus.parent).mkdir(parents=True)
    for part in (corpus / "a", corpus / "b") if is_directory else (corpus,):
        part.write_text("ab" * 5_000)
    with a_rank(
        tmp_path,
        (*TINY, "--steps", "60", "--data", "corpus"),
        {"MIZZEN_DATA_DIR": str(corpus.parent)},
    ) as rank:
        assert 0 == rank.end(), rank.errors()
        assert f"data corpus: {20_000 if is_directory else 10_000} bytes" == rank.lines[0]
        assert losses(rank)[60] < 1.0


@pytest.mark.parametrize(("name", "tasks"), [("charlm", WORLD), ("charlm_on_data", 2)])
def test_job_file_names_the_script(name: str, tasks: int) -> None:
    """`run` works from the repository's root, and the tasks are ranks; the dataset that is read is named."""
    job = yaml.safe_load((HOUSE / "examples" / f"{name}.yaml").read_text())
    command, script, *options = job["run"].split()
    assert ("python", SCRIPT) == (command, HOUSE / script)
    assert "--steps" == options[0]
    assert options[2:] == [word for dataset in job.get("data", []) for word in ("--data", dataset)]
    assert tasks == job["tasks"]

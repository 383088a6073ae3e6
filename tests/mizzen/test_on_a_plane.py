"""Commands where a part of the plane is down, or all of it, or there is none."""

from pathlib import Path

import pytest

from core.nouns.ids import WorkloadId
from core.nouns.instant import seconds
from mizzen.cli import main
from tests.mizzen.asking import Captured, ask, refused
from tests.mizzen.running import RunningPlane

pytestmark = pytest.mark.processes


# What is down.


def test_part_of_a_plane_is_down(plane: RunningPlane, running: WorkloadId, capsys: Captured) -> None:
    """One sentence; what can be told without it is told."""
    with plane.without("job_queue"):
        assert refused(capsys, "queue").startswith("no process answers; that part of the plane is down")
        assert 0 == main(["show", running])
        out, err = capsys.readouterr()
        assert "RUNNING in r0" in out
        assert "note: the queue's current state is missing: no process answers" in err
    with plane.without("reader", "r0"):
        capsys.readouterr()
        assert 1 == main(["nodes"])
        out, err = capsys.readouterr()
        assert "r1-[0-1]" in out
        assert "r0-" not in out
        assert "mizzen: region r0 is missing: no process answers" in err
        assert 0 == main(["show", running])
        out, err = capsys.readouterr()
        assert "note: r0's state of it is missing: log region.r0: no process answers" in err
        assert refused(capsys, "log region.r0").startswith("log region.r0: no process answers")
        said = refused(capsys, f"logs {running}")
        assert said.startswith(
            f"where {running} was placed is not known without r0: log region.r0: no process answers"
        )
    with plane.without("reader"):
        for words in (f"show {running}", "log global", "nodes"):
            assert refused(capsys, words).startswith("log global: no process answers")
        assert running in ask(capsys, f"log region.r0 --about {running}")
        assert running in ask(capsys, "queue")


# Without a plane.


ON_A_PLANE = (
    "queue", "nodes", "show w-1", "explain w-1", "logs w-1", "cancel w-1", "hold w-1", "release w-1", "requeue w-1",
    "log global",
    "drain", "undrain r0-1", "maintain m-1", "nodes release r0-1",
)  # fmt: skip


@pytest.mark.parametrize("words", ON_A_PLANE)
def test_no_plane_here(words: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """What to do about it, in a sentence."""
    monkeypatch.delenv("MIZZEN_NATS_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    assert refused(capsys, words).startswith("there is no plane here; start one with `mizzen up`")


def test_plane_that_does_not_answer(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its address is told, without the password."""
    monkeypatch.setattr("mizzen.connect.plane.CONNECT_SPAN", seconds(0.1))
    monkeypatch.setenv("MIZZEN_NATS_URL", "nats://user:secret@127.0.0.1:1")
    said = refused(capsys, "queue")
    assert said.startswith("the plane at 127.0.0.1:1 does not answer")
    assert "secret" not in said

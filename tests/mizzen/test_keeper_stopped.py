"""A keeper that is a process tells, as it ends, the digest to which a replay of its log comes."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from core.messages.queue import CancelWorkload, Submitted, SubmitWorkload
from core.nouns.ids import GLOBAL_LOG
from core.nouns.instant import seconds
from core.nouns.quantities import Amount
from core.nouns.workload import Emulation, JobSpec, WorkloadSpec
from mizzen.cli import main
from tests.mizzen.processes import Plane, plane
from tests.worlds.plane import insist

pytestmark = pytest.mark.processes


async def test_digest_of_a_keeper_is_that_of_its_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also in its second life, which began from the file."""
    told = []
    async with plane(tmp_path) as made:
        for life in (1, 2):
            process = made.start("job_queue")
            job = JobSpec("main", 1, Amount(gpu_milli=1000), "cpu", Emulation(seconds(60)))
            answer = await insist(made.user, SubmitWorkload(WorkloadSpec(f"n{life}", (job,)), "user"))
            assert isinstance(answer, Submitted)
            await insist(made.user, CancelWorkload(answer.workload))
            process.send_signal(signal.SIGTERM)
            assert 0 == await made.ended(process)
            (line,) = _stops(made, process)
            told.append(line)
    path = tmp_path / "logs" / "global.sqlite"
    for line in told:
        words = ["replay", str(path), "--until", str(line["sequence"]), "--digest"]
        assert 0 == await asyncio.to_thread(main, words)
        assert f"{line['digest']}\n" == capfd.readouterr().out
    assert [(GLOBAL_LOG, 1), (GLOBAL_LOG, 2)] == [(line["log"], line["term"]) for line in told]
    assert told[0]["hash"] != told[1]["hash"]


def _stops(
    made: Plane, process: Any
) -> list[dict[str, Any]]:  # Any: a process, and whatever a log line holds
    lines = [json.loads(line) for line in made.said(process).splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == "keeper_stopped"]

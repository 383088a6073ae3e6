"""`mizzen plane` on a plane in which a unit was killed, one hangs, one message is poison and an invariant was broken by hand."""

import asyncio
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from bus.port import Bus
from core.codec import encode
from core.messages.queue import ReleaseWorkload, ShowWorkload, Submitted, SubmitWorkload, WorkloadShown
from core.nouns.ids import WorkloadId, region_log
from core.nouns.instant import seconds
from core.nouns.reasons import Reason
from core.nouns.workload import Emulation
from mizzen.views.fleet.plane_health import PlaneHealth, health_of
from runtime.clock import wall_now
from runtime.fleet_file import load_plan
from runtime.plane import PROCESSES, PlaneProcesses
from scenarios.worlds.processes.unit_main import HANGS
from store.port import Row
from store.sqlite import SqliteStore
from tests.builders import EU, a_claim, a_job, a_spec, granted
from tests.runtime.planted_unit import POISON
from tests.runtime.test_plane import FLEET, client_of, insist, kept_up, submitted, until_completed

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

PATIENCE_SECONDS = 60.0
UNANSWERED = seconds(6)
AGENT, KILLED, HUNG = "allocation_agent.eu.a0", "task_control.eu", "region_broker.eu"


def a_plane(directory: Path) -> PlaneProcesses:
    """One region; its processes have mistakes planted in them."""
    file = directory / "given.yaml"
    file.write_text(FLEET)
    return PlaneProcesses(
        load_plan(file),
        file,
        directory / "plane",
        unanswered_max=UNANSWERED,
        command_line="tests.runtime.planted_unit",
    )


async def until(bus: Bus, holds: Callable[[PlaneHealth], bool]) -> PlaneHealth:
    """Look until something holds; what was seen then."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds(health := await health_of(bus)):
        assert time.monotonic() < end, health
        await asyncio.sleep(0.1)
    return health


def of(health: PlaneHealth, unit: str) -> tuple[str, int, str]:
    """A unit's fault, its restarts, and how its life before ended."""
    one = next(one for one in health.units if one.unit == unit)
    return one.fault, one.restarts, one.status.last_end if one.status is not None else ""


NOTHING_FOUND = "no violation was found since the last acknowledgement; nothing has changed\n"


async def screen(plane: PlaneProcesses, *words: str) -> tuple[int, str]:
    """What the command prints, and its exit code."""
    environment = {**os.environ, "MIZZEN_NATS_URL": plane.url, "MIZZEN_FLEET": "lab"}
    command = [sys.executable, "-m", "mizzen", "plane", *words]
    done = await asyncio.to_thread(
        subprocess.run, command, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


async def poison(bus: Bus) -> WorkloadId:
    """Submit work on which every agent fails, and wait until it is held."""
    job = replace(a_job(1, 1, name=POISON), emulation=Emulation(work=seconds(0.1)))
    answer = await insist(bus, SubmitWorkload(a_spec(job), "ada"))
    assert isinstance(answer, Submitted)
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        shown = await insist(bus, ShowWorkload(answer.workload))
        assert isinstance(shown, WorkloadShown)
        if shown.is_held:
            assert Reason.UNHANDLED == shown.reason
            assert "(agent.eu.a0, find-bid: OverflowError" in shown.sentence
            return answer.workload
        assert time.monotonic() < end, "it is not held"
        await asyncio.sleep(0.1)


async def break_invariant(plane: PlaneProcesses) -> None:
    """Write a fact into the region's log while its keeper is dead: a grant that nobody awarded."""
    keeper = "placement_store.eu"
    await plane.supervisor.hold(keeper)
    log = await SqliteStore(plane.directory).open(region_log(EU), secrets.token_hex(16))
    head = log.head
    event = granted(a_claim("w-99", award_sequence=1))
    row = Row(head.sequence + 1, wall_now(), "by hand", "nobody", event.about, encode(event))
    await log.append([row], head.term)
    await log.close()
    plane.supervisor.release(keeper)


async def test_one_screen_tells_all_that_is_wrong(tmp_path: Path) -> None:
    """Killed, hanging, poisoned and broken; and before that, that all is well."""
    async with kept_up(a_plane(tmp_path)) as plane, client_of(plane.url) as bus:
        await until_completed(bus, await submitted(bus))
        well = await until(bus, lambda health: health.is_well)
        assert set(plane.supervisor.names()) == {one.unit for one in well.units}
        assert 0 == (await screen(plane))[0]

        # 1. What makes an agent fail is put aside: the agent lives, the work is held, and other work runs.
        workload = await poison(bus)
        await until_completed(bus, await submitted(bus))
        # 2. One is killed, and its next life says so; 3. an invariant is broken.
        assert plane.supervisor.kill(KILLED)
        await break_invariant(plane)
        await until(bus, lambda health: bool(health.violation_count) and of(health, KILLED)[1] == 1)
        # 4. One hangs in a decision.
        assert plane.supervisor.send(HUNG, HANGS)
        code, text = await screen(plane)
        assert 1 == code
        assert f"{AGENT}: find-bid of workload {workload} is put aside" in text
        assert "OverflowError: value too large to convert to int32_t" in text
        assert f"{KILLED}: its life before this one ended: killed by SIGKILL" in text
        assert f"{HUNG}: does not answer, silent for" in text
        assert "1 invariant is broken:" in text
        assert "w-99.1: granted in eu without a standing award" in text

        # It is ended with its stacks written, and lives again.
        health = await until(bus, lambda health: of(health, HUNG)[:2] == ("", 1))
        assert of(health, HUNG)[2].startswith("did not answer for ")
        stacks = (plane.directory / PROCESSES / f"{HUNG}.log").read_text()
        assert "Fatal Python error: Aborted" in stacks
        assert "_decide_without_end" in stacks

        # What is told outlives the auditor, and is put aside by an operator.
        plane.supervisor.kill("auditor")
        await until(bus, lambda health: of(health, "auditor")[1] == 1 and health.violation_count == 1)
        assert (0, {"acknowledged": 1}) == _json(await screen(plane, "acknowledge", "--json"))
        await until(bus, lambda health: health.has_auditor and not health.violation_count)
        assert (0, NOTHING_FOUND) == await screen(plane, "acknowledge")
        for log, told in (("mars", "there is no log mars"), ("global", "does not wait")):
            code, text = await screen(plane, "accept-clock", log)
            assert code
            assert told in text

        # Released, it is tried again, and held again.
        shown = await insist(bus, ShowWorkload(workload))
        assert isinstance(shown, WorkloadShown)
        await insist(bus, ReleaseWorkload(workload, shown.hold_revision))
        await until(
            bus,
            lambda health: any(
                one.count > 1 for unit in health.units if unit.status for one in unit.status.aside
            ),
        )


def _json(done: tuple[int, str]) -> tuple[int, object]:
    return done[0], json.loads(done[1])

"""Plays one scenario in real processes on this machine, in a directory of its own, which has its logs afterwards."""

from pathlib import Path

import msgspec
import yaml

from core.nouns.limits import READ_FACTS_MAX
from runtime.plane import FLEET_FILE, PlaneError
from runtime.process import run_until_signalled
from scenarios.accounting.witness import Witness
from scenarios.play.data_files import with_files
from scenarios.play.run import Run
from scenarios.scenario import HISTORIES, ScenarioError, ScenarioSpec
from scenarios.schema.fleet import fleet_file_of
from scenarios.schema.history import read_history
from scenarios.schema.outcome import Outcome
from scenarios.worlds.processes.world import ProcessesWorld
from store.sqlite import SqliteStore

RUNS = "runs"
DATA = "data"
"""In the directory of a run, where regions keep datasets as files."""


def run_processes(spec: ScenarioSpec, seed: int, directory: Path) -> Outcome:
    """Play a scenario; what is left of it is in a new directory under `directory`.

    Raises ScenarioError for one that cannot be played so, KeyboardInterrupt if a signal ended it, and BusError.
    """
    if spec.jobs:
        raise ScenarioError(f"{spec.name} submits job files; play it with `mizzen up FILE`")
    played: list[Outcome] = []

    async def play() -> None:
        played.append(await play_processes(spec, seed, make_run_directory(directory, spec)))

    try:
        run_until_signalled(play)
    except PlaneError as error:
        raise ScenarioError(str(error)) from error
    if not played:
        raise KeyboardInterrupt
    return played[0]


async def play_processes(spec: ScenarioSpec, seed: int, directory: Path) -> Outcome:
    """The same in a loop that runs already, and in this very directory. Raises PlaneError and BusError."""
    outcome = await (await processes_run(spec, seed, directory)).play()
    outcome.directory = str(directory)
    return outcome


async def processes_run(spec: ScenarioSpec, seed: int, directory: Path) -> Run:
    """A run that has not begun."""
    witness = Witness(spec.plan)
    world = ProcessesWorld(spec.plan, seed, directory, witness)
    if spec.history:
        await put_history(spec.history, directory)
        for log in witness.logs:
            world.look(log)
        witness.known_before = len(witness.submitted_at)
    return Run(spec, seed, world, witness)


def make_run_directory(directory: Path, spec: ScenarioSpec) -> Path:
    """A directory of its own for each run, with its fleet file: no run meets the logs of another."""
    runs = directory / RUNS
    runs.mkdir(mode=0o700, parents=True, exist_ok=True)
    number = 1
    while True:
        path = runs / f"{spec.name}-{number}"
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            number += 1
            continue
        fleet = spec.variant.served(spec.fleet)
        file = with_files(fleet_file_of(fleet, spec.plan.fleet), fleet.data, path.absolute() / DATA)
        (path / FLEET_FILE).write_text(yaml.safe_dump(msgspec.to_builtins(file)), encoding="utf-8")
        return path


async def put_history(name: str, directory: Path) -> None:
    """Logs that an older build wrote, as if that build had kept a plane in this directory."""
    store = SqliteStore(directory)
    for name_, disk in read_history(HISTORIES / name).items():
        file = disk.file(name_)
        assert file is not None, name_
        log = await store.open(name_, file.log_id)
        try:
            for first in range(0, len(file.rows), READ_FACTS_MAX):
                await log.append(file.rows[first : first + READ_FACTS_MAX], file.term)
        finally:
            await log.close()

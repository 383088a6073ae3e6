"""`mizzen up`: a plane on this machine, kept up until Ctrl-C; or a scenario played in real processes."""

import asyncio
import json as json_text
import os
import sys
import time
from pathlib import Path
from typing import Annotated

import msgspec
import yaml
from cyclopts import Parameter

from bus.errors import BusError
from bus.server import LOOPBACK
from core.nouns.instant import SECOND, Nanoseconds
from mizzen.actions.log_archive import keep_from
from mizzen.connect.plane import DIRECTORY, FILE, read_plane
from mizzen.jobs.file import JobFileError, load_file
from mizzen.terminal.options import HUNG_AFTER, Json, check_hung_after
from mizzen.terminal.output import (
    FAILED,
    INTERRUPTED,
    MISUSED,
    CommandError,
    command_name,
    explained,
    tell_json,
    tell_lines,
    tell_table,
)
from mizzen.views.live_table import LiveTable, tenants_told
from runtime.fleet_file import FleetFileError, load_plan, plan_of_this_machine
from runtime.logs import UnknownLevel, set_up_logs
from runtime.plane import FLEET_FILE, NATS, PlaneError, PlaneProcesses
from runtime.process import run_until_signalled
from scenarios.play.live import Job, LiveRun, PipelineJob
from scenarios.play.live_summary import Summary, lines_of, summary_of
from scenarios.play.processes import make_run_directory
from scenarios.scenario import ScenarioError, ScenarioSpec, load_scenario, with_trace

SUMMARY = "summary.json"
SHOWN_MAX = 20
PORTS = 1 << 16


def up(
    file: Annotated[
        Path | None, Parameter(help="A fleet file, or a scenario file; none: this machine.")
    ] = None,
    /,
    *,
    directory: Annotated[Path, Parameter(help="Where the plane lives.")] = Path(DIRECTORY),
    listen: Annotated[
        str, Parameter(help="The address of the NATS server; others than this machine need it.")
    ] = LOOPBACK,
    port: Annotated[int, Parameter(help="Its port; a free one if not named.")] = 0,
    seed: Annotated[int, Parameter(help="Of a scenario's chance.")] = 0,
    trace: Annotated[
        Path | None, Parameter(help="A folder with a trace, whose jobs a scenario then takes for its load.")
    ] = None,
    hung_after: Annotated[
        int,
        Parameter(help="Seconds after which a process that does not answer is started again; 0: never."),
    ] = HUNG_AFTER,
    json: Json = False,
) -> int:
    """Start a plane and keep it up, or play a scenario in real processes and say what came of it."""
    with explained(UnknownLevel):
        set_up_logs(os.environ, default="error", is_json=True if json else None)
    check_hung_after(hung_after)
    if not 0 <= port < PORTS:
        raise CommandError(f"--port: {port} is not between 0 and {PORTS - 1}", MISUSED)
    is_scenario = file is not None and _is_scenario(file)
    alien = (
        {"--listen": listen != LOOPBACK, "--port": port, "--hung-after": hung_after != HUNG_AFTER}
        if is_scenario
        else {"--seed": seed, "--trace": trace}
    )
    for name, is_given in alien.items():
        if is_given:
            what = "a scenario" if is_scenario else "a plane that is kept up"
            raise CommandError(f"{name} means nothing for {what}; leave it out", MISUSED)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if is_scenario and file is not None:
        return _play(file, directory, seed, trace, is_json=json)
    return _keep_up(file, directory, listen, port, hung_after)


def _is_scenario(file: Path) -> bool:
    """A scenario says what must survive; a fleet does not. Raises CommandError."""
    with explained():
        text = file.read_bytes()
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CommandError(f"{file}: it is neither a fleet file nor a scenario ({error})") from error
    return isinstance(found, dict) and "survives" in found


# A plane.


def _keep_up(file: Path | None, directory: Path, listen: str, port: int, hung_after: int) -> int:
    keep_from(os.environ)  # Its processes take it from there; a mistake is told before any of them starts.
    with explained(FleetFileError):
        kept = directory / FLEET_FILE
        given = file or (kept if kept.exists() else None)
        plan = plan_of_this_machine() if given is None else load_plan(given)
    plane = PlaneProcesses(
        plan,
        given,
        directory,
        host=listen,
        port=port,
        died=lambda name, code: _tell_death(plane, name, code),
        unanswered_max=Nanoseconds(hung_after * SECOND),
    )

    async def keep() -> None:
        await plane.start()
        try:
            regions = ", ".join(plan.region_names())
            print(f"the plane {plan.fleet} is up in {directory} ({regions}); Ctrl-C ends it")
            name = command_name()
            print(f"  {name} submit JOB.yaml        run something")
            print(f"  {name} queue                  see running and pending workloads")
            print(f"  {name} start worker --join {directory / FILE}   add a machine", flush=True)
            await asyncio.get_running_loop().create_future()
        finally:
            await plane.stop()
            tasks = len(plane.tasks())
            if tasks:
                print(f"{tasks} processes of tasks run on; `mizzen up` finds them again", flush=True)

    with explained(PlaneError, BusError):
        run_until_signalled(keep)
    return 0


def _tell_death(plane: PlaneProcesses, name: str, exit_code: int) -> None:
    how = plane.supervisor.last_end(name) if name != NATS else f"exit code {exit_code}"
    print(f"{name} died ({how}) and is started again", flush=True)


# A scenario.


def _play(file: Path, directory: Path, seed: int, trace: Path | None, *, is_json: bool) -> int:
    with explained(ScenarioError, JobFileError):
        spec = load_scenario(str(file))
        if trace is not None:
            spec = with_trace(spec, trace.absolute())
        files = [(job, load_file(file.parent / job.file)) for job in spec.jobs]
    jobs = [Job(job, read.spec) for job, read in files if read.pipeline is None]
    pipelines = [PipelineJob(job, read.pipeline) for job, read in files if read.pipeline is not None]
    run_directory = make_run_directory(directory, spec)
    begun = time.monotonic()
    with LiveTable(is_quiet=is_json) as table:
        run = LiveRun(spec, jobs, run_directory, seed, table, pipelines)
        has_ended = False

        async def play() -> None:
            nonlocal has_ended
            if not _is_kept_up(directory / FILE):
                run.world.found_at = directory / FILE
            await run.play()
            has_ended = True

        with explained(PlaneError, BusError, ScenarioError):
            run_until_signalled(play)
    if not has_ended:
        if not is_json:
            print(f"interrupted; everything has ended, and its logs are in {run_directory}", file=sys.stderr)
        return INTERRUPTED
    summary = summary_of(run, seed, time.monotonic() - begun, run_directory)
    _keep_summary(summary, directory, run_directory)
    if is_json:
        tell_json(msgspec.to_builtins(summary))
    else:
        _tell(summary, spec, run_directory)
    return 0 if summary.is_good else FAILED


def _is_kept_up(path: Path) -> bool:
    """Whether a plane that lives is found there: then it stays found."""
    if not path.exists():
        return False
    try:
        os.kill(read_plane(path).pid, 0)
    except (CommandError, ProcessLookupError, PermissionError):
        return False
    return True


def _keep_summary(summary: Summary, directory: Path, run_directory: Path) -> None:
    text = json_text.dumps(msgspec.to_builtins(summary), indent=2)
    for path in (run_directory / SUMMARY, directory / SUMMARY):
        path.write_text(f"{text}\n", encoding="utf-8")


def _tell(summary: Summary, spec: ScenarioSpec, run_directory: Path) -> None:
    tell_table(("", spec.name), lines_of(summary))
    for violation in summary.violations[:SHOWN_MAX]:
        print(f"violation of rule {violation.rule}: {violation.log} {violation.sequence}: {violation.text}")
    tell_lines(tenants_told(summary.tenants))
    log = run_directory / "global.sqlite"
    name = command_name()
    print("\nlook at it:")
    print(f"  {name} log {log} --about w-1")
    print(f"  {name} replay {log} --digest --check")
    print(f"  {name} state {log} --at 100")

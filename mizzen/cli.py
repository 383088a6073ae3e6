"""`mizzen`: reads the command line and runs the command that it names.

Commands are named here and imported when they are asked for, so that `mizzen version` starts as fast as Python does.
"""

import re
import sys
import traceback
from collections.abc import Sequence
from itertools import takewhile

from cyclopts import App, CycloptsError, Parameter

from mizzen.terminal.output import FAILED, INTERRUPTED, MISUSED, CommandError, tell_problem

_NEGATIVE = re.compile(r"-[0-9.]")
_OPTION = re.compile(r"--[a-z][a-z-]*")

app = App(
    name="mizzen",
    help="A global scheduler for GPU training fleets that span regions.",
    version_flags=[],
    suppress_keyboard_interrupt=False,  # `main` answers for it
    help_format="plaintext",
    default_parameter=Parameter(show_default=False),
    result_action="return_value",
)
scenario = App(
    name="scenario",
    help="Put a fleet, a load and misfortune before a whole plane, in simulation.",
    version_flags=[],
)
controller = App(
    name="controller",
    help="Decide yourself when the tasks of your jobs may be touched.",
    version_flags=[],
)
app.command(
    "mizzen.commands.up:up",
    name="up",
    help="Keep a plane up on this machine, or play a scenario in real processes.",
)
app.command(
    "mizzen.commands.start:start", name="start", help="Run one part of a plane until it is told to end."
)
app.command(
    "mizzen.commands.submit:submit",
    name="submit",
    help="Submit a job file or a script; only its id is printed.",
)
app.command("mizzen.commands.queue:queue", name="queue", help="List workloads: where they run, or why not.")
app.command("mizzen.commands.show:show", name="show", help="Tell everything about one workload.")
app.command(
    "mizzen.commands.explain:explain", name="explain", help="Tell why a workload waits, runs there, or ended."
)
app.command("mizzen.commands.logs:logs", name="logs", help="Tell what a task of a workload wrote.")
app.command("mizzen.commands.cancel:cancel", name="cancel", help="End workloads for good.")
app.command("mizzen.commands.hold:hold", name="hold", help="Keep workloads from being awarded.")
app.command("mizzen.commands.release:release", name="release", help="Lift the hold of workloads.")
app.command("mizzen.commands.priority:priority", name="priority", help="Set which level workloads ask for.")
app.command("mizzen.commands.requeue:requeue", name="requeue", help="Stop workloads and place them anew.")
app.command(
    "mizzen.commands.preempt:preempt",
    name="preempt",
    help="Have a workload that runs make room, and wait in its place again.",
)
app.command(
    "mizzen.commands.preemption:preemption",
    name="preemption",
    help="Show who is pushed out first, and how much work may be lost by that; or set it.",
)
app.command(
    "mizzen.commands.tasks:tasks", name="tasks", help="List the tasks of a workload: where, and what is next."
)
app.command("mizzen.commands.restart:restart", name="restart", help="Start tasks again where they are.")
app.command("mizzen.commands.move:move", name="move", help="Start tasks again on other nodes.")
app.command("mizzen.commands.update:update", name="update", help="Change what a workload's tasks run.")
app.command("mizzen.commands.resize:resize", name="resize", help="Change how many tasks a workload has.")
app.command(
    "mizzen.commands.controllers:controllers",
    name="controllers",
    help="List who decides when tasks are touched, and whether they answer.",
)
app.command("mizzen.commands.nodes:nodes", name="nodes", help="List nodes: what is free, and who is on them.")
app.command(
    "mizzen.commands.pools:pools", name="pools", help="List pools, and set what is kept free in them."
)
app.command(
    "mizzen.commands.prices:prices", name="prices", help="Tell what room is worth to the tasks to come."
)
app.command(
    "mizzen.commands.tenants:tenants", name="tenants", help="List tenants: what each may hold, and holds."
)
app.command(
    "mizzen.commands.quota:quota", name="quota", help="Show and set what tenants may hold, and how is ranked."
)
app.command("mizzen.commands.data:data", name="data", help="List which regions hold which data, and set it.")
app.command(
    "mizzen.commands.region:region", name="region", help="List regions, and give up one that does not answer."
)
app.command("mizzen.commands.drain:drain", name="drain", help="Empty nodes, and see how far that is.")
app.command("mizzen.commands.undrain:undrain", name="undrain", help="Let drained nodes take work again.")
app.command(
    "mizzen.commands.maintain:maintain", name="maintain", help="Plan work on nodes, and see how far it is."
)
app.command(
    "mizzen.commands.defrag:defrag",
    name="defrag",
    help="Plan moves that free whole nodes or racks, and have them made.",
)
app.command("mizzen.commands.log:log", name="log", help="Tell the facts of a log.")
app.command("mizzen.commands.replay:replay", name="replay", help="Fold a log anew, and tell its digest.")
app.command("mizzen.commands.state:state", name="state", help="Tell what a log came to, as JSON.")
app.command(
    "mizzen.commands.report:report",
    name="report",
    help="Tell what a plane came to: what was allocated, who waited.",
)
app.command("mizzen.commands.verify:verify", name="verify", help="Check that logs are whole.")
app.command("mizzen.commands.version:version", name="version", help="Tell what this is and what it runs on.")
app.command(scenario)
app.command(controller)
controller.command(
    "mizzen.commands.controller:run_controller",
    name="run",
    help="Run a controller of your own in this process.",
)
controller.command(
    "mizzen.commands.controller:credentials",
    name="credentials",
    help="Let a controller in under its own name, or no longer.",
)
scenario.command("mizzen.commands.scenario:list_scenarios", name="list", help="Name the scenarios there are.")
scenario.command("mizzen.commands.scenario:run", name="run", help="Run a scenario and check what came of it.")
scenario.command(
    "mizzen.commands.scenario:swarm", name="swarm", help="Draw many scenarios from seeds and play them all."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    is_json = "--json" in takewhile("--".__ne__, words)  # What follows `--` is for somebody else.
    try:
        done = app(with_negatives(words), exit_on_error=False, print_error=False)
    except CycloptsError as error:
        tell_problem(f"{_sentence(error)} `{_help_for(error)}` shows what there is.", is_json=is_json)
        return MISUSED
    except CommandError as error:
        tell_problem(str(error), is_json=is_json, problems=error.problems)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # Whoever read our answer has gone; Python would say so at exit.
        return FAILED
    except Exception as error:  # noqa: BLE001  # ours to mend, and no trace is anything to a user
        tell_problem(f"this is a mistake in Mizzen; please report it: {_place(error)}", is_json=is_json)
        return FAILED
    return done if isinstance(done, int) else 0


def with_negatives(words: Sequence[str]) -> list[str]:
    """`--deadline -5m` as `--deadline=-5m`: no option begins with a digit, so who reads the value can say what is wrong with it."""
    found: list[str] = []
    ours = list(takewhile("--".__ne__, words))
    for word in ours:
        if _NEGATIVE.match(word) and found and _OPTION.fullmatch(found[-1]):
            found[-1] += f"={word}"
        else:
            found.append(word)
    return [*found, *words[len(ours) :]]


def _sentence(error: CycloptsError) -> str:
    """What it says, without what is meant for developers."""
    error.verbose = False
    said = str(error).strip() or "This cannot be understood"
    return said if said.endswith((".", "?")) else f"{said}."


def _help_for(error: CycloptsError) -> str:
    return " ".join(("mizzen", *(error.command_chain or ()), "--help"))


def _place(error: Exception) -> str:
    """What happened, and where."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({frame.filename}:{frame.lineno})"

"""`mizzen`: reads the command line and runs the command that it names.

Commands are named here and imported when they are asked for, so that `mizzen version` starts as fast as Python does.
"""

import re
import sys
import traceback
from collections.abc import Sequence
from itertools import takewhile
from typing import Annotated

from cyclopts import App, CycloptsError, Group, Parameter

from mizzen.terminal.output import FAILED, INTERRUPTED, MISUSED, CommandError, tell_problem

_NEGATIVE = re.compile(r"-[0-9.]")
_OPTION = re.compile(r"--[a-z][a-z-]*")

GROUPS: dict[str, dict[str, str]] = {
    "Work": {
        "submit": "Submit a job file or a script, and print its id alone.",
        "queue": "List workloads: their nodes, or the reasons for waiting.",
        "show": "Show one workload in full.",
        "pipeline": "List pipelines, or show stages, deadlines and forecast of one.",
        "explain": "Explain why a workload waits, runs where it does, or ended.",
        "logs": "Print the output of a workload's tasks.",
        "cancel": "End workloads for good.",
        "tasks": "List the tasks of a workload, and operations on them.",
        "hold": "Keep workloads from being awarded until they are released.",
        "release": "Release held workloads.",
        "priority": "Set the priority level of workloads.",
        "requeue": "Stop workloads and place them again.",
        "preempt": "Preempt a running workload; it waits in its place again.",
        "update": "Change the program, or other fields, of a workload's jobs.",
        "resize": "Change the number of a workload's tasks.",
        "restart": "Start tasks again on the nodes that they have.",
        "move": "Start tasks again on other nodes or in another region.",
        "controllers": "List task controllers, and whether they answer.",
        "controller": "Run a task controller of your own.",
        "invoke": "Call a function on a warm executor, and print its value.",
        "map": "Call a function for each line of a file; go on where it was.",
        "functions": "List functions: rates, warm executors, waiting calls.",
    },
    "Fleet": {
        "up": "Run a plane on this machine, or a scenario in processes.",
        "plane": "Show the health of each component, and broken invariants.",
        "nodes": "List nodes: free capacity, occupants and closures.",
        "drain": "Drain nodes, and show the progress.",
        "undrain": "Let drained nodes take work again.",
        "maintain": "Plan maintenance of nodes, and show the progress.",
        "region": "List regions, and abandon one that does not answer.",
        "pools": "List pools, set rules and needs, and plan which nodes move.",
        "agents": "List agents, and set how they see their region.",
        "dispatch": "Show how long messages wait, and set their order.",
        "defrag": "Plan and make moves that free whole nodes or racks.",
        "preemption": "Show and set the order of victims and caps on lost work.",
        "prices": "Show the value of capacity to the expected tasks.",
        "harvest": "Show capacity that functions harvest, and its cost.",
        "data": "Show and set the regions that hold each dataset.",
        "start": "Run one component of a plane until a signal ends it.",
        "credentials": "Write credentials for each process of a plane.",
    },
    "Tenants": {
        "tenants": "List tenants with quotas and GPUs, and issue credentials.",
        "quota": "Show and set quotas, and the rules of ranking.",
    },
    "Logs and time": {
        "log": "List the facts of a log.",
        "state": "Print the state of a log, now or at a fact, as JSON.",
        "report": "Report the allocation and waiting times of a plane.",
        "replay": "Fold a log from its first fact, and print the digest.",
        "verify": "Check that logs are whole.",
    },
    "Simulation": {
        "scenario": "Play a fleet, a load and faults in simulation.",
        "policy": "Show and set the policy of shared pools; compare policies.",
    },
    "About": {
        "version": "Show the build, and the programs and libraries in use.",
        "--help": "Show this page; of a command, its arguments and options.",
    },
}
"""By group, each command and its sentence, most used first. A sentence fits its line on a terminal of 80 columns."""

app = App(
    name="mizzen",
    help="A global scheduler for GPU training fleets that span regions.",
    version_flags=[],
    suppress_keyboard_interrupt=False,  # `main` answers for it
    help_format="plaintext",
    default_parameter=Parameter(show_default=False),
    result_action="return_value",
)
controller, functions, policy, scenario = (
    App(name=name, version_flags=[]) for name in ("controller", "functions", "policy", "scenario")
)
for group_of_commands in (controller, functions, policy, scenario):
    app.command(group_of_commands)


def _register() -> None:
    """Add each command to the app, in its group and place; no module of a command is imported."""
    known_apps = {
        "controller": controller,
        "functions": functions,
        "policy": policy,
        "scenario": scenario,
        "--help": app["--help"],
    }
    for title, commands in GROUPS.items():
        group = Group.create_ordered(title)
        for place, (name, sentence) in enumerate(commands.items()):
            if (known := known_apps.get(name)) is None:
                path = f"mizzen.commands.{name}:{name}"
                app.command(path, name=name, help=sentence, group=group, sort_key=place)
            else:
                known.help, known.group, known.sort_key = sentence, group, place


_register()
controller.command(
    "mizzen.commands.controller:run_controller", name="run", help="Run a task controller in this process."
)
controller.command(
    "mizzen.commands.controller:credentials",
    name="credentials",
    help="Write the credentials of a controller, or revoke them.",
)
functions.command(
    "mizzen.commands.function_serve:serve", name="serve", help="Hold capacity for functions, by a service."
)
policy.command("mizzen.commands.policy:list_policies", name="list", help="List the policies.")
policy.command(
    "mizzen.commands.policy:set_policy", name="set", help="Set the policy that divides shared pools."
)
policy.command(
    "mizzen.commands.policy:status",
    name="status",
    help="Show how shared pools are divided, and by which shares.",
)
policy.command("mizzen.commands.policy:show", name="show", help="Show the shares of jobs of shared pools.")
policy.command("mizzen.commands.policy:solve", name="solve", help="Show the shares that a policy gives.")
policy.command(
    "mizzen.commands.policy:compare",
    name="compare",
    help="Play policies over the same jobs, and compare them.",
)
scenario.command("mizzen.commands.scenario:list_scenarios", name="list", help="List the scenarios.")
scenario.command("mizzen.commands.scenario:run", name="run", help="Run a scenario and check the outcome.")
scenario.command(
    "mizzen.commands.scenario:swarm", name="swarm", help="Draw many scenarios from seeds, and run them all."
)


@policy.default
def show_pools(
    *, json: Annotated[bool, Parameter(name="--json", negative=(), help="Answer with JSON.")] = False
) -> None:
    """Show how shared pools are divided; further commands set the policy, and compare policies."""
    from mizzen.commands.policy import status

    status(json=json)


@functions.default
def show_functions(
    *,
    region: Annotated[str, Parameter(help="Only of this region.")] = "",
    json: Annotated[bool, Parameter(name="--json", negative=(), help="Answer with JSON.")] = False,
) -> int:
    """List functions by region and router; further commands give them capacity."""
    from mizzen.commands.function_list import list_functions

    return list_functions(region=region, json=json)


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
    """Return `--deadline -5m` as `--deadline=-5m`: no option begins with a digit, so the reader of the value can name the mistake."""
    found: list[str] = []
    ours = list(takewhile("--".__ne__, words))
    for word in ours:
        if _NEGATIVE.match(word) and found and _OPTION.fullmatch(found[-1]):
            found[-1] += f"={word}"
        else:
            found.append(word)
    return [*found, *words[len(ours) :]]


def _sentence(error: CycloptsError) -> str:
    """Return the sentence of an error, without the part for developers."""
    error.verbose = False
    said = str(error).strip() or "This cannot be understood"
    return said if said.endswith((".", "?")) else f"{said}."


def _help_for(error: CycloptsError) -> str:
    return " ".join(("mizzen", *(error.command_chain or ()), "--help"))


def _place(error: Exception) -> str:
    """Return the error and the line that raised it."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({frame.filename}:{frame.lineno})"

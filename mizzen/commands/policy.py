"""`mizzen policy`: by which policy shared pools are divided, and what each would make of one's own jobs."""

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from core.nouns.instant import SECOND
from mizzen.jobs.values import Unreadable, span_of
from mizzen.terminal.options import Json
from mizzen.terminal.output import MISUSED, CommandError, tell_json, tell_lines, tell_note

ROUND_SECONDS_MIN = 1.0

Source = Annotated[
    str,
    Parameter(name="SOURCE", help="A trace, the file of a queue's log, or `global` on the running plane."),
]
Gpus = Annotated[
    str,
    Parameter(
        help="The fleet, as in V100=36,eu/H100=16x8@2.50: GPUs by type, or nodes and the GPUs of each, in a region if named, behind @ the dollars of one GPU for an hour."
    ),
]
Speeds = Annotated[
    Path | None,
    Parameter(help="A file of speeds by model and GPU type; of a trace, the one beside it if not named."),
]
Entities = Annotated[
    str, Parameter(help="Weights of entities (tenants), as in ads=2,maps=1; 1 if not named.")
]
Pairs = Annotated[bool, Parameter(negative=(), help="Let two jobs share the same GPUs where that is faster.")]


def list_policies(*, json: Json = False) -> None:
    """Name the policies, and what each does."""
    from core.sharing.policies import POLICIES
    from mizzen.views.phrases.text import columns_text

    if json:
        tell_json([{"policy": name, "does": one.does} for name, one in POLICIES.items()])
    else:
        print(
            *columns_text(("POLICY", "WHAT IT DOES"), [(name, one.does) for name, one in POLICIES.items()]),
            sep="\n",
        )


def set_policy(
    policy: Annotated[
        str, Parameter(name="POLICY", help="One of `mizzen policy list`; as it is if not named.")
    ] = "",
    /,
    *,
    named: Annotated[str, Parameter(name="--policy", help="The same, as an option.")] = "",
    round_length: Annotated[str, Parameter(name="--round", help="How long a round is, as in 6m.")] = "",
    stay: Annotated[
        str, Parameter(help="Rounds by which a job is preferred where it runs: more means fewer moves.")
    ] = "",
    entities: Annotated[
        str,
        Parameter(
            help="Weights of entities, as in ads=2,maps=1; others weigh as many as their GPUs under quota, 1 at least. `none` forgets them."
        ),
    ] = "",
    space_sharing: Annotated[
        Literal["on", "off"] | None, Parameter(help="Whether two jobs of one GPU may share it.")
    ] = None,
    json: Json = False,
) -> None:
    """Set how shared pools are divided from the next round on. What is not named stays as it is."""
    from msgspec import to_builtins

    from mizzen.actions.sharing import set_sharing, sharing_wish_of
    from mizzen.views.plane_reads import on_plane
    from mizzen.views.policies.pool_status import settings_text

    if policy and named and policy != named:
        raise CommandError(f"--policy: {policy} is named too; name one policy", MISUSED)
    wish = sharing_wish_of(policy or named, round_length, stay, entities, space_sharing)
    done = on_plane(lambda bus, _: set_sharing(bus, wish))
    if json:
        tell_json(to_builtins(done))
    else:
        print(f"from the next round on: {settings_text(done.settings)}")


def status(*, json: Json = False) -> None:
    """Tell by which policy shared pools are divided, how new the shares are, how full each column is, and who received its part."""
    from mizzen.views.plane_reads import on_plane
    from mizzen.views.policies.pool_history import seen
    from mizzen.views.policies.pool_status import status_lines, status_of

    found = on_plane(seen)
    for note in found.notes:
        tell_note(note, is_json=json)
    if json:
        tell_json(status_of(found.sharing, found.at, found.times, found.planner))
    else:
        tell_lines(status_lines(found.sharing, found.at, found.times, found.planner))


def show(
    job: Annotated[
        str,
        Parameter(
            name="JOB",
            help="One job, by its id: its speed, target, time and lag in each column, and its turn.",
        ),
    ] = "",
    /,
    *,
    jobs: Annotated[
        bool, Parameter(negative=(), help="Each job: whether it runs, where, and the rounds it is owed.")
    ] = False,
    json: Json = False,
) -> None:
    """Show what part of its time each job of a shared pool is to have in each column: a region and a GPU type."""
    from mizzen.views.plane_reads import on_plane, workload_of
    from mizzen.views.policies import pool_status
    from mizzen.views.policies.pool_history import seen_of_job, sharing_of

    if job and jobs:
        raise CommandError("name one job, or --jobs for all", MISUSED)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    answer: object
    if job:
        workload = workload_of(job)
        found = on_plane(lambda bus, plane: seen_of_job(bus, plane, workload))
        for note in found.notes:
            tell_note(note, is_json=json)
        columns = pool_status.job_rows(
            found.sharing, workload, found.times.get(workload), found.chosen, found.at
        )
        told = pool_status.job_told(found.sharing, workload, columns, found.run_time, found.saved_step)
        answer, lines = told, pool_status.job_lines(told, width)
    else:
        sharing = on_plane(lambda bus, _: sharing_of(bus))
        answer = pool_status.jobs_rows(sharing) if jobs else pool_status.shares_rows(sharing)
        lines = (pool_status.jobs_lines if jobs else pool_status.shares_lines)(sharing, width)
    if json:
        tell_json(answer)
    else:
        tell_lines(lines)


def solve(
    source: Source,
    /,
    *,
    gpus: Gpus,
    policy: Annotated[str, Parameter(help="Its name, or the file of one of your own.")] = "max_min",
    speeds: Speeds = None,
    entities: Entities = "",
    pairs: Pairs = False,
    json: Json = False,
) -> None:
    """Tell what part of its time each job would have on each type of GPU, if all of them were there now."""
    from mizzen.views.policies.inputs import policies_of
    from mizzen.views.policies.setting import setting_of
    from mizzen.views.policies.shares import lines_of, shares_of, told

    names = policies_of(policy)
    if len(names) != 1:
        raise CommandError(
            "--policy: one policy is solved; `mizzen policy compare` compares several", MISUSED
        )
    found = shares_of(setting_of(source, speeds, gpus, entities, names, pairs=pairs), names[0])
    if json:
        tell_json(told(found))
    else:
        print(*lines_of(found), sep="\n")


def compare(
    source: Source,
    /,
    *,
    gpus: Gpus,
    policies: Annotated[
        str, Parameter(help="Which, apart by commas; all if not named. A file is one of your own.")
    ] = "",
    charge: Annotated[
        str, Parameter(help="What each move costs a job, as in 30s: less than a round.")
    ] = "0s",
    round_length: Annotated[str, Parameter(name="--round", help="How long a round is.")] = "6m",
    idle: Annotated[
        Literal["give", "leave"],
        Parameter(
            help="GPUs that the shares leave idle: give them to jobs by speed, or leave them idle. `leave` is for strategy_proof and min_cost."
        ),
    ] = "give",
    speeds: Speeds = None,
    entities: Entities = "",
    pairs: Pairs = False,
    plot: Annotated[Path | None, Parameter(help="Where a drawing goes, as SVG.")] = None,
    workers: Annotated[int, Parameter(help="Policies played at a time; as many as cores if not named.")] = 0,
    json: Json = False,
) -> None:
    """Play policies over the same jobs on the same fleet, and tell waits, fairness, makespan, moves and cost of each."""
    from mizzen.views.policies.comparison import Comparison, compared, lines_of, told
    from mizzen.views.policies.drawing import checked_path, draw
    from mizzen.views.policies.inputs import policies_of
    from mizzen.views.policies.setting import setting_of

    names = policies_of(policies)
    charged, length = _seconds(charge, "--charge"), _seconds(round_length, "--round")
    if length < ROUND_SECONDS_MIN or workers < 0:
        raise CommandError(
            f"--round is {ROUND_SECONDS_MIN:g} s at least, and --workers not less than 0", MISUSED
        )
    if charged >= length:
        raise CommandError(
            f"--charge: a move that costs {charge} leaves no time to work in rounds of {round_length}; make rounds longer with --round",
            MISUSED,
        )
    setting = setting_of(source, speeds, gpus, entities, names, pairs=pairs)
    if plot is not None:
        checked_path(plot)
    what = Comparison(setting, charged, length, idle == "give")
    found = list(compared(what, names, workers or os.cpu_count() or 1))
    if not any(one.summary for one in found):
        raise CommandError(f"{found[0].policy}: {found[0].problem}")
    if plot is not None:
        draw(found, plot)
    if json:
        tell_json(told(what, found))
    else:
        print(*lines_of(what, found), sep="\n")


def _seconds(text: str, option: str) -> float:
    try:
        return span_of(text) / SECOND
    except Unreadable as error:
        raise CommandError(f"{option}: {error}", MISUSED) from error

"""Shared pools for people: their settings, how new the shares are, the shares themselves, and which job runs where and is owed what."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import to_builtins

from core.estimating.prediction import PredictedBy
from core.images.sharing import Measured, SharedClass, Sharing
from core.messages.planning import ConcernShown
from core.messages.queue import RunTimeTold
from core.nouns.fleet import gpu_type_of
from core.nouns.ids import WorkloadId
from core.nouns.instant import Instant
from core.nouns.sharing import BESIDE, ISOLATED, WHOLE, SharingSettings, column_of_place, place_name
from core.rules.expected_steps import steps_in
from core.sharing.policies import POLICIES
from mizzen.jobs.values import span_text
from mizzen.terminal.output import CommandError
from mizzen.views.phrases.planner_text import planner_text
from mizzen.views.phrases.prediction_text import PREDICTED_BY
from mizzen.views.phrases.text import columns_text, time_text
from mizzen.views.policies.received_time import JobTime, Part, parts_of
from mizzen.views.policies.round_choice import ChosenRound

NOTHING = "-"
FIGURES = ("JOBS", "TARGET", "RECEIVED", "FAIRNESS")
MEASURED, TOLD, GUESSED = "measured", "told", "guessed"
Times = Mapping[WorkloadId, JobTime]


def settings_text(settings: SharingSettings) -> str:
    """Return the settings in one line."""
    weights = ", ".join(
        f"{entity} {weight / 1_000:g}" for entity, weight in sorted(settings.entity_weights.items())
    )
    return (
        f"{settings.policy}, in rounds of {span_text(settings.round_span)}, "
        f"staying is worth {settings.stay / WHOLE:g} rounds{f', entities: {weights}' if weights else ''}"
        f"{', two jobs may share a GPU' if settings.has_pairs else ''}"
    )


def shares_problem(sharing: Sharing, planner: ConcernShown | None) -> str:
    """Return why rounds do not go by the newest shares of the policy that is set, or how solving these failed; empty: neither is so.

    planner   what the planner told of its solver; None: none answers
    """
    if all(job.rests for job in sharing.jobs.values()):
        return ""  # No shares are solved for nobody.
    stands, behind = "", sharing.changes - sharing.shares.changes
    if sharing.shares.by in ("", ISOLATED):
        stands = "no planner has told shares, and each job is owed an equal part"
    elif sharing.policy != sharing.settings.policy:
        stands = f"they are of the policy {sharing.policy}, until a planner tells those of {sharing.settings.policy}"
    elif behind:
        stands = f"they are {behind} change{'s' if behind > 1 else ''} old, until a planner tells newer ones"
    elif planner is None or not planner.failures:
        return ""
    return "; ".join(text for text in (stands, planner_text(planner)) if text)


def status_of(
    sharing: Sharing, now: Instant, times: Times, planner: ConcernShown | None = None
) -> dict[str, Any]:
    """Return the state of shared pools as plain tables; times are seconds.

    times     of each job, until now (mizzen/views/policies/received_time.py)
    planner   as in `shares_problem`
    """
    span = sharing.settings.round_span
    used = Counter[str]()
    for workload, pick in sharing.picks.items():
        used[pick.column] += 0 if pick.is_guest else _class_of(sharing, workload).gpus
    return {
        "settings": to_builtins(sharing.settings),
        "revision": sharing.revision,
        "does": POLICIES[sharing.settings.policy].does if sharing.settings.policy in POLICIES else "",
        "round": sharing.number,
        "next_round_seconds": (-now % span) / 1e9 if sharing.number else None,
        "shares": {
            "revision": sharing.shares.revision,
            "policy": sharing.policy,
            "by": sharing.shares.by,
            "problem": shares_problem(sharing, planner),
            "planner": None
            if planner is None
            else {name: one for name, one in to_builtins(planner).items() if name != "type"},
        },
        "jobs": len(sharing.jobs),
        "classes": len(sharing.classes),
        "picked": len(sharing.picks),
        "overdue": len(sharing.overdue),
        "columns": [
            {"column": column.name, "gpus": gpus, "picked_gpus": used[column.name]}
            for column, gpus in zip(sharing.shares.columns, sharing.shares.gpus, strict=True)
        ],
        "tenants": _parts_told(parts_of(((one.tenant, one) for one in times.values()), now)),
        "received": _parts_told(parts_of(((one.kind, one) for one in times.values()), now)),
    }


def _parts_told(parts: list[Part]) -> list[dict[str, Any]]:
    return [{**to_builtins(one), "fairness": one.fairness} for one in parts]


def status_lines(
    sharing: Sharing, now: Instant, times: Times, planner: ConcernShown | None = None
) -> list[str]:
    """Return the state of shared pools, and what tenants and classes of jobs received."""
    found = status_of(sharing, now, times, planner)
    begins = f"{found['round']}; the next begins in {time_text(-now % sharing.settings.round_span)}"
    shares = found["shares"]
    rows = [
        ("policy", settings_text(sharing.settings)),
        ("", found["does"]),
        (
            "round",
            begins if sharing.number else "none has begun: no job is there, or no node of a shared pool",
        ),
        ("shares", f"revision {shares['revision']}, by {shares['by'] or 'nobody'}"),
        ("", shares["problem"]),
        (
            "jobs",
            f"{found['jobs']} of {found['classes']} classes: {found['picked']} picked, {found['overdue']} overdue",
        ),
    ]
    rows += [
        (one["column"], f"{one['gpus']} GPUs: {one['picked_gpus']} of picked jobs")
        for one in found["columns"]
    ]
    width = max(len(name) for name, _ in rows) + 2
    lines = [f"{name:<{width}}{text}" for name, text in rows if text]
    for head, parts in (("TENANT", found["tenants"]), ("CLASS", found["received"])):
        if parts:
            lines += ["", *columns_text((head, *FIGURES), [_part_cells(one) for one in parts], None, FIGURES)]
    return lines


def _part_cells(one: dict[str, Any]) -> tuple[str, ...]:
    fairness = NOTHING if one["fairness"] is None else f"{one['fairness']:.2f}"
    return one["name"], str(one["jobs"]), f"{one['target']:.1%}", f"{one['received']:.1%}", fairness


def shares_rows(sharing: Sharing) -> list[dict[str, Any]]:
    """Return the shares of each class, or of each job if a policy tells jobs apart: parts of its time by column."""
    rows = []
    for name, targets in sharing.targets.items():
        workload = WorkloadId(name)
        kind = _class_of(sharing, workload) if workload in sharing.jobs else sharing.classes.get(name)
        if kind is not None:
            shares = {column: share / WHOLE for column, share in targets.items()}
            jobs = 1 if workload in sharing.jobs else kind.jobs
            rows.append({"name": name, "gpus": kind.gpus, "jobs": jobs, "shares": shares})
    return rows


def _share_text(shares: Mapping[str, float], column: str) -> str:
    """Return the part of its time that a job is owed in a column, and beside it the part that it is owed beside others."""
    beside = sum(
        share for name, share in shares.items() if BESIDE in name and column_of_place(name) == column
    )
    alone = shares.get(column, 0)
    parts = [f"{alone:.1%}"] if alone or not beside else []
    parts += [f"{beside:.1%} beside others"] if beside else []
    return " + ".join(parts) if alone or beside else NOTHING


def shares_lines(sharing: Sharing, width: int | None) -> list[str]:
    """Return the shares as a table, one column for each column of the pools."""
    names = [column.name for column in sharing.shares.columns]
    rows = [
        (
            one["name"],
            str(one["gpus"]),
            str(one["jobs"]),
            *(_share_text(one["shares"], name) for name in names),
        )
        for one in shares_rows(sharing)
    ]
    return columns_text(("CLASS", "GPUS", "JOBS", *names), rows, width)


def jobs_rows(sharing: Sharing) -> list[dict[str, Any]]:
    """Return each job with the column in which it is picked, and the rounds that it is owed by column."""
    overdue = sharing.overdue
    return [
        {
            "job": workload,
            "class": job.kind,
            "picked": sharing.picks[workload].column if workload in sharing.picks else None,
            "beside": (sharing.picks[workload].beside or None) if workload in sharing.picks else None,
            "runs": bool(workload in sharing.picks and sharing.picks[workload].counted_at),
            "owed": {column: lag / WHOLE for column, lag in sharing.lags.get(workload, {}).items()},
            "leaves": workload in sharing.leaving,
            "overdue": workload in overdue,
            "rests": job.rests,
        }
        for workload, job in sharing.jobs.items()
    ]


def jobs_lines(sharing: Sharing, width: int | None) -> list[str]:
    """Return the jobs as a table; OWED is the rounds that a job should have had and has not, by column. Who rests is owed no more."""
    rows = [
        (
            one["job"],
            one["class"],
            "overdue"
            if one["overdue"]
            else "runs"
            if one["runs"]
            else "starts"
            if one["picked"]
            else "leaves"
            if one["leaves"]
            else "rests"
            if one["rests"]
            else "waits",
            place_name(one["picked"] or NOTHING, one["beside"] or ""),
            _owed_text(one["owed"]),
        )
        for one in jobs_rows(sharing)
    ]
    return columns_text(("JOB", "CLASS", "STATE", "COLUMN", "OWED"), rows, width)


def job_rows(
    sharing: Sharing, workload: WorkloadId, time: JobTime | None, chosen: ChosenRound | None, now: Instant
) -> list[dict[str, Any]]:
    """Return one job's columns: its speed there and whose word that is, its target, the part received, its lag, and its turn. Raises CommandError.

    time     what it received, until now; None: not known
    chosen   the newest round
    """
    if workload not in sharing.jobs:
        raise CommandError(
            f"{workload} is no job of a shared pool, or has ended; `mizzen policy show --jobs` lists them"
        )
    name = sharing.jobs[workload].kind
    kind, shares = sharing.classes[name], sharing.targets_of(workload)
    measured = sharing.measured.get(kind.speed_key)
    turns = list(chosen.turns) if chosen is not None else []
    span = now - time.since if time is not None and time.since else 0
    rows = []
    for column in sharing.shares.columns:
        gpu_type, _ = gpu_type_of(column.gpu_type)
        if not kind.takes(column):
            continue
        mine = workload, column.name
        rows.append(
            {
                "column": column.name,
                "steps_per_second": sharing.speed(name, gpu_type),
                "speed": _word_for(gpu_type, kind, measured),
                "target": _in_column(shares, column.name) / WHOLE,
                "beside": {
                    name.partition(BESIDE)[2]: share / WHOLE
                    for name, share in shares.items()
                    if share and BESIDE in name and column_of_place(name) == column.name
                },
                "received": time.received.get(column.name, 0) / span
                if time is not None and span > 0
                else None,
                "lag": _in_column(sharing.lags.get(workload, {}), column.name) / WHOLE,
                "turn": turns.index(mine) + 1 if mine in turns else None,
                "turns": len(turns),
                "picked": workload in sharing.picks and sharing.picks[workload].column == column.name,
            }
        )
    return rows


def job_told(
    sharing: Sharing,
    workload: WorkloadId,
    rows: list[dict[str, Any]],
    run_time: RunTimeTold | None,
    saved_step: int = 0,
) -> dict[str, Any]:
    """Return one job as JSON has it: its class, its steps, and its columns from `job_rows`.

    run_time     as predicted; None: not known
    saved_step   of the attempt that runs, which the queue's image does not have
    """
    job = sharing.jobs[workload]
    expected = None if run_time is None or job.steps else steps_in(sharing, workload, run_time.duration)
    return {
        "job": workload,
        "class": job.kind,
        "steps": {
            "told": job.steps or None,
            "saved": max(job.saved_step, saved_step),
            "expected": expected,
            "by": None if expected is None or run_time is None else run_time.by,
        },
        "columns": rows,
    }


def _steps_text(told: int | None, saved: int, expected: int | None, by: PredictedBy | None) -> str:
    if told is not None and saved > told:
        return f"{saved} saved, more than the {told} that it told: it counts as having one left"
    if told is not None:
        return f"{saved} of {told} saved"
    if expected is None or by is None:
        return f"{saved} saved; it told none"
    return f"{saved} saved; it told none, and counts as having {expected}, to judge by {PREDICTED_BY[by]}"


def job_lines(told: dict[str, Any], width: int | None) -> list[str]:
    """Return one job, with its columns as a table; TURN is its place in the order in which the newest round was chosen."""
    cells = [
        (
            one["column"],
            f"{one['steps_per_second']:g}",
            one["speed"],
            f"{one['target']:.1%}",
            NOTHING if one["received"] is None else f"{one['received']:.1%}",
            f"{one['lag']:+.2f}",
            NOTHING if one["turn"] is None else f"{one['turn']} of {one['turns']}",
            "picked" if one["picked"] else "",
        )
        for one in told["columns"]
    ]
    heads = ("COLUMN", "STEPS/S", "SPEED", "TARGET", "RECEIVED", "LAG", "TURN", "")
    return [
        f"{told['job']}, of class {told['class']}",
        f"steps: {_steps_text(**told['steps'])}",
        "",
        *columns_text(heads, cells, width),
    ]


def _owed_text(owed: dict[str, float]) -> str:
    parts: Sequence[str] = [f"{column} {rounds:+.2f}" for column, rounds in sorted(owed.items()) if rounds]
    return ", ".join(parts) or NOTHING


def _in_column(by_place: Mapping[str, int], column: str) -> int:
    """Return the sum over the places of a column: alone, and beside jobs of each class."""
    return sum(value for name, value in by_place.items() if column_of_place(name) == column)


def _word_for(gpu_type: str, kind: SharedClass, measured: Measured | None) -> str:
    """Return whose word a speed is: that of checkpoints, of the user, or of nobody."""
    if measured is not None and gpu_type in measured.speeds:
        return MEASURED
    return TOLD if gpu_type in kind.speeds else GUESSED


def _class_of(sharing: Sharing, workload: WorkloadId) -> SharedClass:
    return sharing.classes[sharing.jobs[workload].kind]

"""Why a job of a shared pool is not in a round: the round's choice made once more, from the queue's image before the fact that began it.

The choice is that of the queue (core/rules/shared_rounds.py), so what it says of lags and of the order is what the queue went by. What the
log does not hold is left out: a region that did not answer and had no job at work, and one that refused a class. Where that made a
difference, the explanation says so.
"""

from collections.abc import Container, Mapping
from math import inf

from msgspec import Struct

from core.events.sharing import RoundBegun
from core.fact import Fact
from core.images import GlobalImage
from core.images.queue import WorkloadRow
from core.images.sharing import Sharing
from core.nouns.ids import WorkloadId
from core.nouns.instant import Instant
from core.nouns.sharing import WHOLE, ShareColumn
from core.nouns.workload import Phase
from core.rules.quota import has_spent
from core.rules.shared_rounds import Ahead, Scene, choice_of, next_round_at, owed_at, pooled_of, scene_of
from core.sharing.accounts import ROUND
from core.sharing.rounds import Run
from mizzen.views.phrases.text import time_text

SECTIONS = ("sharing", "workloads", "tenants", "usage")
"""Of the queue's image, that a choice reads."""
INDENT = "  "
NOT_ALIKE = (
    "worked out again from the queue's log alone, the round has other picks: a region did not answer, or refused jobs, "
    "which that log does not hold"
)
HOLDERS_MAX = 5
"""Jobs that are named for one column."""


class Turn(Struct, frozen=True, order=True):
    """A job's place in the order of a round, in one column; the least is served first."""

    waits_since: float
    """The number of a round; infinite unless the job is overdue."""
    minus_lag: float
    """Rounds, with those that staying is worth where it runs."""
    minus_target: int
    """Millionths of its time."""
    job: WorkloadId

    @property
    def lag(self) -> float:
        """Return the rounds that it was owed less those it had received, with those that staying is worth where it ran."""
        return -self.minus_lag


class ChosenRound(Struct, frozen=True):
    """A round that began, and its choice made again."""

    number: int
    sequence: int
    """Of the fact that began it."""
    began_at: Instant
    columns: dict[str, int]
    """GPUs by column."""
    widths: dict[WorkloadId, int]
    """GPUs of each job that could be picked."""
    turns: dict[tuple[WorkloadId, str], Turn]
    """By job and column, of all jobs that have a share there, in the order in which they were served."""
    stays: dict[WorkloadId, str]
    """The columns of those that were picked before."""
    picks: dict[WorkloadId, str]
    """The columns of those that the log says were picked."""
    is_alike: bool
    """Whether the choice made again has the same picks."""


class Holder(Struct, frozen=True):
    """A job that had GPUs in that round."""

    job: WorkloadId
    gpus: int
    before: float | None
    """Rounds of lag by which it stood before the job that is explained, less than 0 behind it; None: it was given GPUs that were idle."""
    is_staying: bool = False
    """Whether two of these rounds, or as many as are set, are for staying where it ran."""
    is_overdue: bool = False


class ColumnOutlook(Struct, frozen=True):
    """One column, for a job that is not in the round."""

    column: str
    gpus: int
    idle: int
    """GPUs that no pick had."""
    share: float
    """Of the job's time, that it is to have there."""
    lag: float
    """Rounds that it was owed there less those it had received."""
    holders: tuple[Holder, ...] = ()
    """The nearest before it first, at most `HOLDERS_MAX`."""
    more: int = 0
    """Further ones."""


class NotInRound(Struct, frozen=True):
    """Why a job is not in a round."""

    number: int
    sequence: int
    began_at: Instant
    next_at: Instant
    """When the next round begins."""
    gpus: int
    """Of the job."""
    came_after: bool
    """Whether it was submitted, or could run again, after the round had begun; until the next, jobs are given idle GPUs alone."""
    is_alike: bool
    columns: tuple[ColumnOutlook, ...]


def chosen_again(before: GlobalImage, fact: Fact) -> ChosenRound:
    """Return the round that the fact began.

    before   the queue's image in `SECTIONS`, up to the fact before
    """
    event, sharing = fact.event, before.sharing
    assert isinstance(event, RoundBegun), event
    scene = _scene(before, event, fact.at)
    resting = {job for job, row in sharing.jobs.items() if row.rests} - {*event.resumes} | {*event.rests}
    owed = owed_at(sharing, scene, event.number, fact.at, resting)
    stays = {job: pick.column for job, pick in sharing.picks.items()}
    picks = {job: column for job, column in stays.items() if job not in event.leaves}
    picks |= {job: event.columns[place].name for job, place in event.joins.items()}
    runs = choice_of(sharing, scene, owed)
    there = {job: column for job, column in picks.items() if job in scene.present.class_of}
    return ChosenRound(
        event.number,
        fact.sequence,
        fact.at,
        {column.name: gpus for column, gpus in zip(scene.columns, scene.present.problem.gpus, strict=True)},
        {WorkloadId(job): scene.present.width(job) for job in scene.present.class_of},
        _turns(sharing, scene, owed),
        stays,
        picks,
        _columns_of(runs, scene.columns) == there,
    )


def outlook_of(found: ChosenRound, sharing: Sharing, workload: WorkloadId) -> NotInRound | None:
    """Return why a job is not in the round that was chosen again; None: it is, or it is none of a shared pool.

    sharing   the newest image
    """
    job = sharing.jobs.get(workload)
    if job is None or workload in sharing.picks:
        return None
    kind = sharing.classes[job.kind]
    came_after = workload not in found.widths
    picks = {one: pick.column for one, pick in sharing.picks.items()} if came_after else found.picks
    columns = tuple(
        _outlook(found, sharing, workload, column.name, picks)
        for column in sharing.shares.columns
        if column.name in found.columns and kind.takes(column)
    )
    return NotInRound(
        found.number,
        found.sequence,
        found.began_at,
        next_round_at(sharing),
        kind.gpus,
        came_after,
        found.is_alike,
        columns,
    )


def _scene(before: GlobalImage, event: RoundBegun, at: Instant) -> Scene:
    """Return what the choice read, as far as the queue's log has it."""
    sharing, heard = before.sharing, {column.region for column in event.columns}
    told = dict(zip(sharing.shares.columns, sharing.shares.gpus, strict=True))
    columns = {column: told.get(column, 0) for column in event.columns}
    rows = before.workloads.rows
    spent = {
        tenant: has_spent(tenant, before.tenants, before.usage, at)
        for tenant in dict.fromkeys(rows[job].tenant for job in sharing.jobs)
    }
    jobs = tuple(
        job for job in sharing.jobs if not spent[rows[job].tenant] and _may_be_picked(rows[job], heard)
    )
    return scene_of(sharing, columns, pooled_of(sharing, columns, jobs, at))


def _may_be_picked(row: WorkloadRow, heard: Container[str]) -> bool:
    """Return whether a job may be picked: one in a region that is not heard keeps its pick, and is not chosen."""
    if row.is_cancel_requested or (row.phase == Phase.PENDING and row.is_held):
        return False
    return not row.is_active or row.region in heard


def _turns(sharing: Sharing, scene: Scene, owed: Ahead) -> dict[tuple[WorkloadId, str], Turn]:
    """Return the order of the round. It is that of core/sharing/rounds.py for jobs that run alone."""
    stay = sharing.settings.stay / ROUND
    runs_in = {job: run.column for run in scene.runs for job in run.jobs}
    found: dict[tuple[WorkloadId, str], Turn] = {}
    for job, places in scene.present.targets.items():
        since = owed.overdue(job)
        for place, target in places.items():
            if place.beside:
                continue
            stays = stay + scene.present.pause(job) if runs_in.get(job) == place.column else 0.0
            lag = owed.lag(job, place) + stays
            turn = Turn(inf if since is None else since, -lag, -round(target * WHOLE), WorkloadId(job))
            found[WorkloadId(job), scene.columns[place.column].name] = turn
    return dict(sorted(found.items(), key=lambda one: one[1]))


def _columns_of(runs: list[Run], columns: tuple[ShareColumn, ...]) -> dict[str, str]:
    return {job: columns[run.column].name for run in runs for job in run.jobs}


def _outlook(
    found: ChosenRound, sharing: Sharing, workload: WorkloadId, column: str, picks: Mapping[WorkloadId, str]
) -> ColumnOutlook:
    mine = found.turns.get((workload, column))
    # A tie is decided by target and id, which say nothing of rounds: the holder stood before it by none.
    holders = sorted(
        (
            _holder(found, sharing, mine, job, column)
            for job, where in picks.items()
            if where == column and job != workload
        ),
        key=lambda one: (one.before is None, one.before if one.before is not None else 0.0, one.job),
    )
    guests = {job for job, pick in sharing.picks.items() if pick.is_guest}
    used = sum(one.gpus for one in holders if one.job not in guests)
    return ColumnOutlook(
        column,
        found.columns[column],
        max(0, found.columns[column] - used),
        (sharing.targets_of(workload).get(column, 0) if mine is None else -mine.minus_target) / WHOLE,
        0.0 if mine is None else mine.lag,
        tuple(holders[:HOLDERS_MAX]),
        max(0, len(holders) - HOLDERS_MAX),
    )


def _holder(found: ChosenRound, sharing: Sharing, mine: Turn | None, job: WorkloadId, column: str) -> Holder:
    gpus = found.widths.get(job)
    if gpus is None and job in sharing.jobs:
        gpus = sharing.classes[sharing.jobs[job].kind].gpus
    theirs = found.turns.get((job, column))
    before = None
    if theirs is not None:
        before = theirs.lag - (0.0 if mine is None else mine.lag)
    return Holder(
        job,
        gpus or 0,
        before,
        found.stays.get(job) == column,
        theirs is not None and theirs.waits_since != inf,
    )


# For people.


def lines_of(found: NotInRound, now: Instant) -> list[str]:
    """Return why a job is not in a round: of each column where it may run, the jobs that have the GPUs."""
    when = f"the next round begins in {time_text(found.next_at - now)}"
    began = (
        f"round {found.number}, which began {time_text(now - found.began_at)} ago (global {found.sequence})"
    )
    if found.came_after:
        lines = [
            f"it came after {began}, or could not run then; {when}, and until then idle GPUs alone are given out:"
        ]
    else:
        lines = [f"why it is not in {began}; {when}:"]
    for one in found.columns:
        owed = "" if found.came_after else f", and was owed {one.lag:.2f} rounds"
        share = (
            f"it is to have {one.share:.1%} of its time there{owed}" if one.share else "it has no share there"
        )
        lines.append(f"{INDENT}{one.column}: {one.idle} of {one.gpus} GPUs idle; {share}")
        lines += [f"{INDENT * 2}{_holder_text(one, holder, found)}" for holder in one.holders]
        if one.more:
            lines.append(f"{INDENT * 2}and {one.more} more")
    if not found.columns:
        lines.append(f"{INDENT}no column of the round has a GPU type and a region that will do")
    if not found.is_alike:
        lines.append(f"{INDENT}{NOT_ALIKE}")
    return lines


def _holder_text(column: ColumnOutlook, holder: Holder, found: NotInRound) -> str:
    text = f"{holder.job} has {holder.gpus}"
    if found.came_after or not column.share:
        return text
    if holder.before is None:
        return f"{text}, which the shares left idle"
    if holder.is_overdue:
        return f"{text}: it was overdue"
    if holder.before < 0:
        few = f": it needs fewer than {found.gpus}" if holder.gpus < found.gpus else ""
        return f"{text}, and stood {-holder.before:.2f} rounds behind it{few}"
    staying = ", those for staying among them" if holder.is_staying else ""
    return f"{text}, and stood {holder.before:.2f} rounds before it{staying}"

"""Policies played over the same jobs on the same fleet, each in a process of its own beside the next."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from core.sharing.outcomes import HOUR, Summary, summary_of
from core.sharing.policies import POLICIES
from core.sharing.problem import BadProblem, Shares, SharingProblem
from core.sharing.replay import Chooser, NeverEnds, Replay
from mizzen.views.phrases.text import columns_text
from mizzen.views.policies.fleet import has_prices, prices_told
from mizzen.views.policies.inputs import plain
from mizzen.views.policies.setting import Setting
from runtime.errors import NotSolved
from runtime.planning.own_policies import SharingProcess
from runtime.solvers.sharing import solve_shares

WORKERS_MAX = 16
"""Processes that play at a time."""
NOTES_MAX = 3
"""Notes of a policy; the others are counted."""


TIMES = ("MEAN", "P50", "P99", "SPAN")
FIGURES = ("USE%", "KEPT%", "MOVES", "FAIR", "COST$")
LATE = "LATE"
"""Mean, median and 99th percentile of the time from submission to completion; the makespan; GPUs in use; leases that were extended; moves;
the worst finish-time fairness; dollars; where any job has one, the promises that were not kept."""
NAMED_MAX = 5
UNITS = ((3_600.0, "H"), (60.0, "MIN"), (1.0, "S"))
"""Times are told in the largest unit of which the longest makespan has ten."""
UNITS_LEAST = 10.0


class Comparison(Struct, frozen=True):
    """What each of the policies plays."""

    setting: Setting
    charge_seconds: float
    round_seconds: float
    fills: bool = True
    """Whether GPUs that the shares leave idle are given away."""


class Compared(Struct, frozen=True):
    """What came of one policy."""

    policy: str
    summary: Summary | None
    problem: str = ""
    """Why there is no summary, a sentence."""
    notes: tuple[str, ...] = ()
    """What the policy says of the whole problem, a sentence each."""


class Noting:
    """The shares of a policy, and what it said of the whole problem. What it says of one job changes from round to round, and is left out."""

    def __init__(self, shares: Callable[[SharingProblem], Shares]) -> None:
        """With nothing said yet."""
        self._shares = shares
        self._notes: dict[str, None] = {}

    def __call__(self, problem: SharingProblem) -> Shares:
        """Return the shares."""
        found = self._shares(problem)
        if found.notes:
            names = {one.name for one in problem.classes}
            of_all = (note for note in found.notes if note.partition(": ")[0] not in names)
            self._notes |= dict.fromkeys(of_all)
        return found

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what was said, in a few sentences."""
        more = len(self._notes) - NOTES_MAX
        told = tuple(self._notes)[:NOTES_MAX]
        return (*told, f"and {more} more notes") if more > 0 else told


def compared(what: Comparison, policies: Sequence[str], workers: int) -> Iterator[Compared]:
    """Yield what came of each policy, in their order."""
    count = min(workers, len(policies), WORKERS_MAX)
    if count <= 1:
        yield from map(partial(play, what), policies)
        return
    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        yield from pool.map(partial(play, what), policies)


def play(what: Comparison, policy: str) -> Compared:
    """Play one policy over all jobs; one of one's own is solved in a process that its file may hang or end."""
    if policy in POLICIES:
        one = POLICIES[policy]
        chooser = Chooser(
            partial(solve_shares, policy), one.is_by_job, what.setting.has_pairs, one.reads_entities
        )
        return _played(what, policy, chooser)
    path = Path(policy)
    with SharingProcess(path.parent) as process:
        return _played(what, policy, Chooser(partial(process.solve, path.name), True, what.setting.has_pairs))


def _played(what: Comparison, policy: str, chooser: Chooser) -> Compared:
    noting = Noting(chooser.shares)
    replay = Replay(
        what.setting.jobs,
        what.setting.fleet,
        replace(chooser, shares=noting),
        round_seconds=what.round_seconds,
        charge_seconds=what.charge_seconds,
        fills=what.fills,
    )
    try:
        return Compared(policy, summary_of(replay.play()), notes=noting.notes)
    except (BadProblem, NotSolved, NeverEnds) as error:
        return Compared(policy, None, plain(error, policy), noting.notes)


def told(what: Comparison, found: Sequence[Compared]) -> dict[str, Any]:  # Any: whatever JSON can hold
    """Return all of it; the cost is null where no price is known."""
    policies = msgspec.to_builtins(found)
    for one in policies:
        if one["summary"] is not None and not has_prices(what.setting.fleet.pools):
            one["summary"]["cost"] = None
    return {"jobs": len(what.setting.jobs), "notes": list(_notes(what)), "policies": policies}


def _notes(what: Comparison) -> tuple[str, ...]:
    return (*what.setting.notes, *prices_told(what.setting.fleet.pools))


def lines_of(what: Comparison, found: Sequence[Compared]) -> list[str]:
    """Return a line for each policy, then why others have none, and what there is to say."""
    longest = (
        max((one.summary.makespan_hours for one in found if one.summary is not None), default=0.0) * HOUR
    )
    seconds, name = next((unit for unit in UNITS if longest >= UNITS_LEAST * unit[0]), UNITS[-1])
    played = [(one.policy, one.summary) for one in found if one.summary is not None]
    has_promises = any(summary.promises for _, summary in played)
    figures = (*(f"{time} {name}" for time in TIMES), *FIGURES, *([LATE] if has_promises else []))
    is_priced = has_prices(what.setting.fleet.pools)
    cells = [(policy, *_cells(summary, seconds, is_priced=is_priced)) for policy, summary in played]
    rows = [row[: len(figures) + 1] for row in cells]
    return [
        *columns_text(("POLICY", *figures), rows, right=figures),
        *(_late(policy, summary) for policy, summary in played if summary.late),
        *(f"{one.policy}: {note}" for one in found for note in one.notes),
        *(f"{one.policy}: {one.problem}" for one in found if one.summary is None),
        *_notes(what),
    ]


def _cells(found: Summary, seconds: float, *, is_priced: bool) -> tuple[str, ...]:
    hours = (found.mean_hours, found.p50_hours, found.p99_hours, found.makespan_hours)
    parts = (found.utilisation, found.lease_share)
    return (
        *(f"{value * HOUR / seconds:.2f}" for value in hours),
        *(f"{100 * part:.1f}" for part in parts),
        f"{found.moves}",
        f"{found.fairness_worst:.2f}",
        f"{found.cost:.2f}" if is_priced else "-",
        f"{len(found.late)}/{found.promises}",
    )


def _late(policy: str, found: Summary) -> str:
    more = len(found.late) - NAMED_MAX
    names = ", ".join(found.late[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
    return f"{policy}: later than promised: {names}"

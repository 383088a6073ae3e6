"""Policies played over the same jobs on the same fleet, each in a process of its own beside the next."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from msgspec import Struct

from core.sharing.building import Pool
from core.sharing.jobs import SharingJob
from core.sharing.outcomes import HOUR, Summary, summary_of
from core.sharing.policies import POLICIES
from core.sharing.problem import BadProblem, Shares, SharingProblem
from core.sharing.replay import Chooser, Fleet, Replay
from core.sharing.speeds import SpeedTable
from mizzen.views.phrases.text import columns_text
from mizzen.views.policies.inputs import plain
from runtime.errors import NotSolved
from runtime.planning.own_policies import SharingProcess
from runtime.solvers.sharing import solve_shares

WORKERS_MAX = 16
"""Processes that play at a time."""


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

    jobs: tuple[SharingJob, ...]
    pools: tuple[Pool, ...]
    table: SpeedTable
    charge_seconds: float
    round_seconds: float
    has_pairs: bool


class Compared(Struct, frozen=True):
    """What came of one policy."""

    policy: str
    summary: Summary | None
    problem: str = ""
    """Why there is no summary, a sentence."""


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
        return _played(what, policy, partial(solve_shares, policy), is_by_job=POLICIES[policy].is_by_job)
    path = Path(policy)
    with SharingProcess(path.parent) as process:
        return _played(what, policy, partial(process.solve, path.name), is_by_job=True)


def _played(
    what: Comparison, policy: str, shares: Callable[[SharingProblem], Shares], *, is_by_job: bool
) -> Compared:
    chooser = Chooser(shares, is_by_job, what.has_pairs)
    fleet = Fleet(what.pools, what.table)
    replay = Replay(
        what.jobs, fleet, chooser, round_seconds=what.round_seconds, charge_seconds=what.charge_seconds
    )
    try:
        return Compared(policy, summary_of(replay.play()))
    except (BadProblem, NotSolved) as error:
        return Compared(policy, None, plain(error, policy))


def lines_of(found: Sequence[Compared]) -> list[str]:
    """Return a line for each policy, then why others have none."""
    longest = (
        max((one.summary.makespan_hours for one in found if one.summary is not None), default=0.0) * HOUR
    )
    seconds, name = next((unit for unit in UNITS if longest >= UNITS_LEAST * unit[0]), UNITS[-1])
    played = [(one.policy, one.summary) for one in found if one.summary is not None]
    has_promises = any(summary.promises for _, summary in played)
    figures = (*(f"{time} {name}" for time in TIMES), *FIGURES, *([LATE] if has_promises else []))
    rows = [(policy, *_cells(summary, seconds))[: len(figures) + 1] for policy, summary in played]
    return [
        *columns_text(("POLICY", *figures), rows, right=figures),
        *(_late(policy, summary) for policy, summary in played if summary.late),
        *(f"{one.policy}: {one.problem}" for one in found if one.summary is None),
    ]


def _cells(found: Summary, seconds: float) -> tuple[str, ...]:
    hours = (found.mean_hours, found.p50_hours, found.p99_hours, found.makespan_hours)
    parts = (found.utilisation, found.lease_share)
    return (
        *(f"{value * HOUR / seconds:.2f}" for value in hours),
        *(f"{100 * part:.1f}" for part in parts),
        f"{found.moves}",
        f"{found.fairness_worst:.2f}",
        f"{found.cost:.2f}",
        f"{len(found.late)}/{found.promises}",
    )


def _late(policy: str, found: Summary) -> str:
    more = len(found.late) - NAMED_MAX
    names = ", ".join(found.late[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
    return f"{policy}: later than promised: {names}"

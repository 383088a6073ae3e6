"""Jobs of a Poisson load played by our mechanism or by the published one, on fleets of three GPU types with the measured speeds."""

from collections.abc import Sequence

from msgspec import Struct

from bench.support.sharing.load import dice_of, poisson_load
from bench.support.sharing.tables import GAVEL_TYPES, gavel_table
from bench.support.sharing.yardstick import PLAIN_MAX_MIN, PUBLISHED_FIFO
from core.sharing.building import Pool
from core.sharing.jobs import SharingJob
from core.sharing.outcomes import Summary, summary_of
from core.sharing.policies import POLICIES
from core.sharing.problem import Shares, SharingProblem
from core.sharing.published_replay import PublishedReplay
from core.sharing.replay import ROUND_SECONDS, Chooser, Fleet, Replay
from core.sharing.speeds import with_shapes
from runtime.solvers.sharing import solve_shares

LOAD_GPUS = (36, 36, 36)


class Load(Struct, frozen=True):
    """A Poisson load."""

    per_hour: float
    jobs: int
    first: int
    last: int
    """The jobs that count, the last not among them."""
    has_widths: bool = False
    has_weights: bool = False

    def drawn(self, seed: int) -> tuple[list[SharingJob], list[str]]:
        """Return the jobs of a seed, and the ids of those that count."""
        jobs = poisson_load(
            self.jobs,
            self.per_hour,
            gavel_table(),
            has_widths=self.has_widths,
            has_weights=self.has_weights,
            **dice_of(seed),
        )
        return jobs, [job.id for job in jobs[self.first : self.last]]


LOADED = Load(2.6, 800, 300, 600, has_widths=True, has_weights=True)
"""The load of several GPUs that most benchmarks play, and in small."""
QUICK = Load(2.6, 24, 8, 24, has_widths=True, has_weights=True)


def ours(
    jobs: Sequence[SharingJob],
    gpus: Sequence[int],
    policy: str,
    counted: Sequence[str] = (),
    *,
    charge: float = 0.0,
    round_seconds: float = ROUND_SECONDS,
    has_pairs: bool = False,
) -> Summary:
    """Return the figures of the counted jobs by our mechanism."""
    fleet = fleet_of(gpus, jobs)
    replay = Replay(
        jobs,
        fleet,
        chooser(policy, has_pairs=has_pairs),
        round_seconds=round_seconds,
        charge_seconds=charge,
    )
    return summary_of(replay.play(counted), counted)


def published(
    jobs: Sequence[SharingJob], gpus: Sequence[int], counted: Sequence[str] = (), *, is_fifo: bool = False
) -> Summary:
    """Return the figures of the counted jobs by the published mechanism, and its max-min or FIFO."""
    policy = PUBLISHED_FIFO if is_fifo else PLAIN_MAX_MIN
    played = PublishedReplay(jobs, fleet_of(gpus, jobs), policy, is_fifo=is_fifo).play(counted)
    return summary_of(played, counted)


def chooser(policy: str, *, has_pairs: bool = False) -> Chooser:
    """Return a policy of ours as a replay calls it."""

    def shares(problem: SharingProblem) -> Shares:
        return solve_shares(policy, problem)

    return Chooser(shares, POLICIES[policy].is_by_job, has_pairs)


def fleet_of(gpus: Sequence[int], jobs: Sequence[SharingJob]) -> Fleet:
    """Return so many GPUs of each type, with the speeds of these jobs."""
    table, _ = with_shapes(gavel_table(), ((job.model, job.gpus) for job in jobs))
    pools = tuple(Pool("here", gpu_type, count) for gpu_type, count in zip(GAVEL_TYPES, gpus, strict=True))
    return Fleet(pools, table)

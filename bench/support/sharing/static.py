"""Jobs whose shares do not change, played round by round: how near each comes to the rounds that it is owed.

Jobs are drawn from the measured models, on a quarter as many GPUs of each of three types as they need of all. The shares are those of
max-min fairness, so that GPUs are short and many jobs divide their time among types, or partners.
"""

import random
from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from bench.support.sharing.tables import GAVEL_TYPES, gavel_table
from core.sharing.accounts import Accounts, Place
from core.sharing.building import JobProgress, Pool, built
from core.sharing.jobs import SharingJob
from core.sharing.published import PublishedRounds
from core.sharing.rounds import Present, Run, chosen
from runtime.solvers.sharing import solve_shares

JOBS = 24
PARTS = 4
GPUS_LEAST = 6
WEIGHTS = (1.0, 1.0, 2.0)
STEPS = 1e9
"""Of each job: max-min shares do not read them."""

Received = Counter[tuple[str, Place]]
"""Rounds by job and place; those in places without a target are left out."""


class Kind(Struct, frozen=True):
    """How the jobs of an instance are drawn."""

    widths: tuple[int, ...] = (1,)
    """GPUs of a job, each as likely."""
    models: int = 0
    """Models that the jobs are of; 0: all."""
    has_pairs: bool = False


class Error(Struct, frozen=True):
    """How far a job is from its targets, or from one of them, after so many rounds."""

    owed: float
    received: float

    @property
    def part(self) -> float:
        """Return the difference, as a part of the rounds owed."""
        return abs(self.owed - self.received) / self.owed


def instance(kind: Kind, seed: int) -> Present:
    """Return the jobs of a seed, with their shares."""
    dice = random.Random(f"{kind.widths}/{kind.models}/{seed}")
    table = gavel_table()
    names = table.models if not kind.models else sorted(dice.sample(table.models, kind.models))
    by_width = {
        width: [shape for shape in sorted(table.alone) if shape[0] in names and shape[1] == width]
        for width in kind.widths
    }
    jobs = []
    for number in range(JOBS):
        shapes = by_width[dice.choice(kind.widths)] or by_width[1]
        model, gpus = dice.choice(shapes)
        weight = dice.choice(WEIGHTS) if not kind.models else 1.0
        jobs.append(SharingJob(f"{number:02d}", model, gpus, STEPS, weight=weight))
    wanted = sum(job.gpus for job in jobs)
    widest = max(job.gpus for job in jobs)
    gpus = max(GPUS_LEAST, widest * -(-wanted // (PARTS * widest)))
    pools = tuple(Pool("here", name, gpus) for name in GAVEL_TYPES)
    progress = [JobProgress(job, job.steps) for job in jobs]
    found = built(progress, pools, table, has_pairs=kind.has_pairs)
    return Present(found.problem, found.members, solve_shares("max_min", found.problem))


def played(present: Present, rounds: int, stay: float) -> Iterator[Received]:
    """Yield what each job received, after each round by our mechanism."""
    accounts = Accounts()
    runs: list[Run] = []
    received: Received = Counter()
    for _ in range(rounds):
        accounts.owe(present.targets)
        runs = chosen(present, accounts, runs, stay)
        for run in runs:
            for job in run.jobs:
                place = present.place(run, job)
                accounts.receive(job, place, 1.0)
                if place in present.targets[job]:
                    received[job, place] += 1
        yield received


def played_as_published(present: Present, rounds: int, round_seconds: float) -> Iterator[Received]:
    """Yield the same by the published mechanism. Not for pairs."""
    mechanism = PublishedRounds(present.problem.gpus, round_seconds)
    columns = range(len(present.problem.columns))
    for job, number in present.class_of.items():
        mechanism.add(job, present.width(job), present.problem.speeds[number].tolist())
    mechanism.reset(
        0.0,
        {
            job: [places.get(Place(column), 0.0) for column in columns]
            for job, places in present.targets.items()
        },
    )
    received: Received = Counter()
    for _ in range(rounds):
        for job, column in mechanism.selected().items():
            mechanism.book(job, column, round_seconds)
            if Place(column) in present.targets[job]:
                received[job, Place(column)] += 1
        yield received


def shortfall(present: Present, received: Received, rounds: int) -> float:
    """Return the most rounds by which a job is short of what it is owed in a place."""
    return max(
        (
            rounds * target - received[job, place]
            for job, places in present.targets.items()
            for place, target in places.items()
        ),
        default=0.0,
    )


def errors(present: Present, received: Received, rounds: int) -> list[Error]:
    """Return the error of each job over all of its places."""
    return [
        Error(rounds * sum(places.values()), float(sum(received[job, place] for place in places)))
        for job, places in present.targets.items()
        if places
    ]


def place_errors(present: Present, received: Received, rounds: int) -> list[Error]:
    """Return the error of each job in each of its places."""
    return [
        Error(rounds * target, float(received[job, place]))
        for job, places in present.targets.items()
        for place, target in places.items()
    ]


def undelivered(present: Present, received: Received, rounds: int) -> float:
    """Return the part of all GPU-rounds owed that was not delivered."""
    owed = delivered = 0.0
    for job, places in present.targets.items():
        for place, target in places.items():
            gpus = present.width(job) / (2 if place.beside else 1)
            owed += rounds * target * gpus
            delivered += received[job, place] * gpus
    return 1.0 - delivered / owed

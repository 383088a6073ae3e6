"""Work of a shared pool: what a job file says under `share`, by which a policy divides the pool's GPUs among jobs.

Speeds are whole millionths of a step a second and weights thousandths, so that facts hold no floats.
"""

from msgspec import Struct

from core.nouns.ids import RegionName
from core.nouns.instant import SECOND, Nanoseconds

MICRO_STEPS = 1_000_000
"""Of one step."""
WEIGHT = 1_000
"""The weight of a job that names none."""


class ShareSpec(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One workload's `share`. It runs in a shared pool, for part of the time, and on whichever of its GPU types a policy gives it."""

    model: str = ""
    """Jobs of one model and as many GPUs are equally fast; empty: its family, the name without counters."""
    speeds: dict[str, int] = {}
    """By GPU type, millionths of a step that the whole job makes in a second; of a type that is not named it is not known."""
    steps: int = 0
    """In all; 0: not known."""
    weight: int = WEIGHT
    """Thousandths. With twice the weight a job is entitled to twice the speed."""
    entity: str = ""
    """Whom a hierarchy shares among first; empty: its tenant."""
    within: Nanoseconds = Nanoseconds(0)
    """From the submission, in which its steps should be done; 0: no promise."""
    beside: dict[str, int] = {}
    """By model, millionths of its speed that a job of one GPU keeps beside a job of that model on the same GPU; of others nothing is known."""


ROUND_SPAN: Nanoseconds = Nanoseconds(360 * SECOND)
STAY = 2_000_000
"""Millionths of a round by which a job is preferred where it runs (core/sharing/rounds.py)."""
WHOLE = 1_000_000
"""Millionths of a job's time, or of a round."""
ISOLATED = "isolated"
"""In place of a solver's name: the queue itself found these shares, an equal part for each job."""


class SharingSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What an operator sets of all shared pools together."""

    policy: str = "max_min"
    """One of core/sharing/policies/."""
    round_span: Nanoseconds = ROUND_SPAN
    stay: int = STAY
    has_pairs: bool = False
    """Whether two jobs may share the same GPUs."""
    entity_weights: dict[str, int] = {}
    """Thousandths, by entity, where it is not by what its tenant is entitled to."""


class ShareColumn(Struct, frozen=True):
    """A choice of hardware: the nodes of one GPU type in the shared pool of one region."""

    region: RegionName
    gpu_type: str

    @property
    def name(self) -> str:
        """Return its name, for people and as a key."""
        return f"{self.region}/{self.gpu_type}"


BESIDE = " beside "


def place_name(column: str, beside: str = "") -> str:
    """Return the name of a place: a column by its name, or the places beside jobs of a class there."""
    return f"{column}{BESIDE}{beside}" if beside else column


def column_of_place(name: str) -> str:
    """Return the name of the column of a place."""
    return name.partition(BESIDE)[0]


def type_of_place(name: str) -> str:
    """Return what places of several regions have in common where jobs are equally fast: GPU type, and class of the job beside."""
    return name.partition("/")[2]


class ClassShares(Struct, frozen=True):
    """Of like jobs, what part of its time each should spend in each column."""

    name: str
    shares: tuple[tuple[int, int], ...]
    """Each column in which it has a share, ascending, and the millionths of the time of one job."""
    beside: tuple[tuple[int, str, int], ...] = ()
    """Shares beside a job of another class on the same GPU: column, name of that class, and the millionths of the time of one job."""


class PoolShares(Struct, frozen=True):
    """Shares of all classes, as they were found together."""

    revision: int = 0
    """Grows with each that are recorded."""
    columns: tuple[ShareColumn, ...] = ()
    gpus: tuple[int, ...] = ()
    """(columns,) GPUs that may be used."""
    classes: tuple[ClassShares, ...] = ()
    by: str = ""
    """The solver, or `ISOLATED`."""
    changes: int = -1
    """What had changed in shared pools when the solver was asked; -1: no solver was."""

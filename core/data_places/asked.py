"""A problem of data in whole numbers and names, as a planner asks its solver for it: two that are equal are the same problem."""

import numpy as np
from msgspec import Struct

from core.data_places.actions import ADD_COPY, DROP_COPY, MOVE_HOME, Plan
from core.data_places.figures import Figures
from core.data_places.price import UNPROTECTED
from core.data_places.problem import DataProblem
from core.nouns.data import BANDS, HIGH_BAND, LEVELS, ActionKind, DataFigures, PlannedAction
from core.nouns.ids import DatasetName, RegionName
from core.nouns.quantities import MILLI

KINDS = {MOVE_HOME: ActionKind.MOVE, ADD_COPY: ActionKind.COPY, DROP_COPY: ActionKind.DROP}
MILLIONTHS = 1_000_000
COPY_PRICE = 0.01
"""Chosen: plans five minutes apart, on demand of some tens of workloads, moved the same homes to and fro for gains of less by byte, while a
daily plan of a large fleet has nearly none (`python -m bench balance`). Less than a byte's protection by a copy elsewhere is worth."""
assert COPY_PRICE < 0.5 * UNPROTECTED


class AskedTable(Struct, frozen=True, array_like=True):
    """One dataset."""

    name: DatasetName
    size: int
    """Bytes; 0: unknown."""
    home: int
    """Region, or `NO_HOME`."""
    copies: int
    """Bits of the regions that hold it, its home among them."""
    is_pinned: bool
    revision: int


class AskedJob(Struct, frozen=True, array_like=True):
    """The demand of all work that reads the same datasets, wants the same hardware and is of the same level band."""

    tables: tuple[int, ...]
    gpu_type: int
    band: int
    gpu_milli: int


class AskedData(Struct, frozen=True):
    """All that a solver needs."""

    regions: tuple[RegionName, ...]
    gpu_types: tuple[str, ...]
    """Node types."""
    storage: tuple[int, ...]
    """(regions,) bytes, or `UNSTATED`."""
    used_elsewhere: tuple[int, ...]
    """(regions,) bytes of copies that are being deleted."""
    supply: tuple[tuple[int, ...], ...]
    """(regions, types) open GPU milli."""
    tables: tuple[AskedTable, ...]
    jobs: tuple[AskedJob, ...]
    bytes_max: int
    """Bytes that the actions of the plan may copy."""
    actions_max: int
    extra_permille: int
    has_disaster_copies: bool

    @property
    def problem(self) -> DataProblem:
        """Return the problem as arrays."""
        lengths = np.array([0, *(len(job.tables) for job in self.jobs)], dtype=np.int64)
        shape = (len(self.regions), len(self.gpu_types))
        return DataProblem(
            regions=self.regions,
            gpu_types=self.gpu_types,
            bands=BANDS,
            high_band=HIGH_BAND,
            sizes=np.array([table.size for table in self.tables], dtype=np.int64),
            home=np.array([table.home for table in self.tables], dtype=np.int64),
            copies=np.array([table.copies for table in self.tables], dtype=np.uint64),
            pinned=np.array([table.is_pinned for table in self.tables], dtype=np.bool_),
            storage=np.array(self.storage, dtype=np.int64),
            job_starts=np.cumsum(lengths),
            job_tables=np.array([table for job in self.jobs for table in job.tables], dtype=np.int64),
            job_type=np.array([job.gpu_type for job in self.jobs], dtype=np.int64),
            job_band=np.array([job.band for job in self.jobs], dtype=np.int64),
            job_demand=np.array([job.gpu_milli for job in self.jobs], dtype=np.float64) / MILLI,
            supply=np.array(self.supply, dtype=np.float64).reshape(shape) / MILLI,
            bytes_max=self.bytes_max,
            used_elsewhere=np.array(self.used_elsewhere, dtype=np.int64),
            extra_storage_permille=self.extra_permille,
            disaster_copies=self.has_disaster_copies,
            actions_max=self.actions_max,
            copy_price=COPY_PRICE,
        )

    def answer(self, plan: Plan) -> "PlannedData":
        """Return a plan for the problem by names, in whole numbers."""
        levels = [0] * len(self.tables)
        for job in self.jobs:
            for table in job.tables:
                levels[table] = max(levels[table], LEVELS[job.band])
        unit = MILLIONTHS / (plan.before.objective or 1.0)
        columns = (plan.kinds, plan.tables, plan.sources, plan.targets, plan.bytes, plan.gains, plan.keeps)
        actions = []
        for kind, place, source, target, size, gain, keeps in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            table = self.tables[place]
            actions.append(
                PlannedAction(
                    KINDS[kind],
                    table.name,
                    self.regions[source],
                    RegionName("") if kind == DROP_COPY else self.regions[target],
                    size,
                    round(gain * unit),
                    levels[place],
                    keeps,
                    table.revision,
                )
            )
        gain = round((plan.before.objective - plan.after.objective) * unit)
        figures = _told(plan.before), _told(plan.after)
        return PlannedData(tuple(actions), gain, plan.bytes_total, *figures)


class PlannedData(Struct, frozen=True):
    """What a solver found."""

    actions: tuple[PlannedAction, ...]
    gain: int
    """Millionths of the objective before."""
    bytes: int
    before: DataFigures
    after: DataFigures


def _told(figures: Figures) -> DataFigures:
    """Return figures as whole numbers; the load of a region that has no supply for its demand is bounded."""
    return DataFigures(
        worst=_thousandths(figures.worst),
        spread=_thousandths(figures.std),
        home_rate=_thousandths(figures.home_rate),
        collocation=_thousandths(figures.collocation),
        extra_storage=_thousandths(figures.extra_storage),
        storage_over=round(figures.storage_over),
    )


def _thousandths(figure: float) -> int:
    return round(1_000 * figure)

"""Days of workloads that read tables, drawn before any plan: which come again, which read known sets, which read new ones.

    first days    a month of workloads, those of drawn.py, is what the first plan knows
    workloads     as many a day as in that month, at any hour
    recurring     0.3 of all: one first-time workload in 70 comes again each day, for 30 days in the mean, with the same tables and hardware
    first-time    0.7 of all: of a team by what it submitted in the last 30 days, times how busy the team is; GPU type and priority are drawn
    reused        0.85 of first-time ones: the tables that a workload of the team read in the last 30 days
    new           the others: 1 to 5 tables of the team by how many read them, each with a chance (`cross`) of being any team's instead
    busy          of a team: lognormal, sigma 0.5, and 0.9 of its logarithm is left after a day
    new tables    0.002 of all a day: of a team by its tables; the team puts each at its V0 home and reads it from that day on
    supply        such that high priority asks for 0.8 of each GPU type over all days

Shares of workloads are published, or the specification's guess (0.85); the other figures are chosen.

source    MAST (OSDI 2024), sections 3.1 and 5.1; spec/mast-twine.md, section 4 and E7
"""

from functools import cached_property

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bench.support.data_places.drawn import (
    HIGH,
    HIGH_LOAD,
    JOB_TABLES_MAX,
    LOW,
    LOW_LOAD,
    TEAM_TABLES,
    TYPE_SHARES,
    TYPES,
    Draw,
    attempts,
    drawn_problem,
    drawn_readers,
    drawn_sizes,
)
from core.data_places.problem import DataProblem, Floats, Ints

MONTH = 30
"""Days of workloads before the first plan, and days for which a set of tables is read anew."""
RECURRING, REUSED, NEW_SET, CROSS_SET = 0, 1, 2, 3
"""Kinds of workloads; of those with new sets, the last read another team's table too."""
FIRST_TIME_SHARE, REUSED_SHARE = 0.7, 0.85
RECURRING_DAYS = 30
NEW_TABLES_A_DAY = 0.002
"""Of all tables: half as many again in eight months."""
BUSY_SIGMA, BUSY_LEFT = 0.5, 0.9
DAY_SECONDS, DAY_HOURS = 86_400.0, 24.0


class Stream(Struct, frozen=True, dict=True):
    """Workloads in the order in which they are submitted, and tables in the order in which they are written."""

    problem: DataProblem
    """All tables that there ever are, at their V0 homes, with the storage and the supply in GPUs; its jobs are those of the first month."""
    days: int
    """From 0; the month before them has the days -30 to -1."""
    table_day: Ints
    """(tables,) on which the table is written; -30: before all days."""
    set_starts: Ints
    """(sets + 1,) positions in `set_tables`."""
    set_tables: Ints
    hour: Floats
    """(workloads,) of submission, from the start of day 0."""
    kind: Ints
    """(workloads,) `RECURRING` and others; of the first month `REUSED`."""
    sets: Ints
    """(workloads,) the set of tables that it reads."""
    gpu_type: Ints
    band: Ints
    gpus: Floats
    seconds: Floats
    """(workloads,) of the run."""
    closures: tuple[tuple[int, int, int], ...]
    """Region, and the hours from and until which it is closed."""

    @cached_property
    def rows(self) -> Ints:
        """(workloads,) which reading each counts in: one for a set, GPU type and band, numbered as they first come."""
        keys = (self.sets * len(TYPES) + self.gpu_type) * 2 + self.band
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        order = np.argsort(np.argsort(first, kind="stable"), kind="stable")
        return order[inverse]

    @cached_property
    def row_first(self) -> Ints:
        """(rows,) the first workload of each."""
        return np.unique(self.rows, return_index=True)[1]

    def span_of(self, day: int) -> tuple[int, int]:
        """Return the workloads of a day: the first, and the one after the last."""
        first, end = np.searchsorted(self.hour, [day * DAY_HOURS, (day + 1) * DAY_HOURS])
        return int(first), int(end)

    def tables_at(self, day: int) -> int:
        """Return how many tables were written before a day."""
        return int(np.searchsorted(self.table_day, day))


def drawn_stream(draw: Draw, days: int, closed: tuple[int, int], closed_hours: int) -> Stream:
    """Return the workloads of some days.

    closed         days between which a region is closed once: the first, and the one after the last
    closed_hours   for how long; 0: no region is
    """
    base = drawn_problem(draw)
    dice = np.random.default_rng([draw.seed, days])
    tables = _Tables(base, days, dice)
    drawn = _Drawing(draw, base, tables, dice)
    for day in range(days):
        drawn.add_day(day)
    return drawn.stream(days, _closures(closed, closed_hours, len(base.regions), dice))


def _closures(
    between: tuple[int, int], hours: int, regions: int, dice: np.random.Generator
) -> tuple[tuple[int, int, int], ...]:
    """Return the one region that is closed, any of them at any hour."""
    first, end = (int(day * DAY_HOURS) for day in between)
    region, begin = int(dice.integers(regions)), int(dice.integers(first, max(first + 1, end - hours)))
    return ((region, begin, begin + hours),) if hours else ()


class _Tables:
    """All tables by team, and how many read each."""

    def __init__(self, base: DataProblem, days: int, dice: np.random.Generator) -> None:
        old = len(base.sizes)
        each = max(1, round(NEW_TABLES_A_DAY * old))
        new = each * days
        team = np.arange(old) // TEAM_TABLES
        self.team: Ints = np.concatenate([team, team[dice.integers(old, size=new)]])
        self.day: Ints = np.concatenate([np.full(old, -MONTH), np.repeat(np.arange(days), each)])
        self.sizes: Ints = np.concatenate([base.sizes, drawn_sizes(new, dice)])
        self.home: Ints = np.concatenate([base.home, base.home[self.team[old:] * TEAM_TABLES]])
        readers = np.concatenate([np.bincount(base.job_tables, minlength=old), drawn_readers(new, dice)])
        self._by_team = np.argsort(self.team, kind="stable")
        self._readers = readers[self._by_team]
        self._ends = np.searchsorted(self.team[self._by_team], np.arange(team[-1] + 2))

    def read(self, teams: Ints, day: int, dice: np.random.Generator) -> Ints:
        """Return a table of each team by how many read it, of those written by the day; team -1: any table."""
        total = np.append(0.0, np.cumsum(self._readers * (self.day[self._by_team] <= day)))
        begin = np.where(teams < 0, 0.0, total[self._ends[teams]])
        end = np.where(teams < 0, total[-1], total[self._ends[teams + 1]])
        place = np.searchsorted(total, begin + (end - begin) * dice.random(len(teams)), side="right") - 1
        found: Ints = self._by_team[np.minimum(place, len(self._by_team) - 1)]
        return found


class _Drawing:
    """The workloads drawn so far, day by day."""

    def __init__(self, draw: Draw, base: DataProblem, tables: _Tables, dice: np.random.Generator) -> None:
        self.draw, self.base, self.tables, self.dice = draw, base, tables, dice
        jobs = len(base.job_type)
        self.a_day = max(1, round(jobs / MONTH))
        self.known: dict[tuple[int, ...], int] = {}
        starts, read = base.job_starts.tolist(), base.job_tables.tolist()
        sets = [self._set(tuple(read[starts[job] : starts[job + 1]])) for job in range(jobs)]
        self.hours: list[Floats] = [(np.sort(dice.random(jobs)) - 1.0) * MONTH * DAY_HOURS]
        self.columns: dict[str, list[Ints]] = {
            "kind": [np.full(jobs, REUSED)],
            "sets": [np.array(sets)],
            "team": [base.job_tables[base.job_starts[:-1] + base.lengths // 2] // TEAM_TABLES],
            "gpu_type": [base.job_type],
            "band": [base.job_band],
        }
        # The jobs of the base lie by team, and are submitted in any order.
        order = dice.permutation(jobs)
        self.base_order = order
        for name in ("sets", "team", "gpu_type", "band"):
            self.columns[name] = [self.columns[name][0][order]]
        first = round((1.0 - FIRST_TIME_SHARE) * self.a_day)
        again = dice.integers(jobs, size=first)
        self.recurring = {name: self.columns[name][0][again] for name in ("sets", "team", "gpu_type", "band")}
        self.busy = BUSY_SIGMA * dice.standard_normal(tables.team.max() + 1)

    def add_day(self, day: int) -> None:
        """Draw the workloads of a day."""
        dice, again = self.dice, len(self.recurring["sets"])
        count = round(FIRST_TIME_SHARE * self.a_day)
        prior = self._prior(day, count)
        team = np.concatenate(self.columns["team"])[prior]
        sets = np.concatenate(self.columns["sets"])[prior]
        kind = np.full(count, REUSED)
        for place in np.flatnonzero(dice.random(count) >= REUSED_SHARE).tolist():
            sets[place], kind[place] = self._new_set(int(team[place]), day)
        high = dice.random(count) < HIGH_LOAD / (HIGH_LOAD + LOW_LOAD)
        fresh = {
            "sets": sets,
            "team": team,
            "gpu_type": dice.choice(len(TYPES), count, p=TYPE_SHARES),
            "band": np.where(high, HIGH, LOW),
        }
        order = dice.permutation(again + count)
        for name, values in fresh.items():
            self.columns[name].append(np.concatenate([self.recurring[name], values])[order])
        self.columns["kind"].append(np.concatenate([np.full(again, RECURRING), kind])[order])
        self.hours.append((day + np.sort(dice.random(again + count))) * DAY_HOURS)
        stays = dice.random(again) >= 1.0 / RECURRING_DAYS
        comes = dice.random(count) < (1.0 / FIRST_TIME_SHARE - 1.0) / RECURRING_DAYS
        for name, values in fresh.items():
            self.recurring[name] = np.concatenate([self.recurring[name][stays], values[comes]])
        self.busy = BUSY_LEFT * self.busy + BUSY_SIGMA * np.sqrt(1.0 - BUSY_LEFT**2) * dice.standard_normal(
            len(self.busy)
        )

    def _prior(self, day: int, count: int) -> Ints:
        """Return workloads of the last month whose teams submit again."""
        hours = np.concatenate(self.hours)
        first = int(np.searchsorted(hours, (day - MONTH) * DAY_HOURS))
        weight = np.cumsum(np.exp(self.busy)[np.concatenate(self.columns["team"])[first:]])
        found: Ints = first + np.searchsorted(weight, weight[-1] * self.dice.random(count), side="right")
        return found

    def _new_set(self, team: int, day: int) -> tuple[int, int]:
        """Return a set of tables, and the kind of workload that reads it."""
        dice = self.dice
        places = int(dice.integers(1, JOB_TABLES_MAX + 1))
        teams = np.where(dice.random(places) < self.draw.cross, -1, team)
        read = self.tables.read(teams, day, dice)
        is_own = (self.tables.team[read] == team).all()
        return self._set(tuple(np.unique(read).tolist())), NEW_SET if is_own else CROSS_SET

    def _set(self, read: tuple[int, ...]) -> int:
        return self.known.setdefault(read, len(self.known))

    def stream(self, days: int, closures: tuple[tuple[int, int, int], ...]) -> Stream:
        """Return all that was drawn, each workload with its attempt."""
        tables, base = self.tables, self.base
        columns = {name: np.concatenate(parts) for name, parts in self.columns.items()}
        lengths = [len(one) for one in self.known]
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        read = np.array([table for one in self.known for table in one], dtype=np.int64)
        by_set = np.add.reduceat(tables.sizes[read].astype(np.float64), starts[:-1])
        seconds, gpus = self._attempts(by_set[columns["sets"]])
        month = len(base.job_type)
        problem = replace(
            base,
            sizes=tables.sizes,
            home=tables.home,
            copies=np.uint64(1) << tables.home.astype(np.uint64),
            pinned=np.zeros(len(tables.sizes), dtype=np.bool_),
            storage=(base.storage * (tables.sizes.sum() / base.all_bytes)).astype(np.int64),
            supply=_supply(
                base, days, columns["gpu_type"][month:], columns["band"][month:], (gpus * seconds)[month:]
            ),
        )
        return Stream(
            problem=problem,
            days=days,
            table_day=tables.day,
            set_starts=starts,
            set_tables=read,
            hour=np.concatenate(self.hours),
            kind=columns["kind"],
            sets=columns["sets"],
            gpu_type=columns["gpu_type"],
            band=columns["band"],
            gpus=gpus,
            seconds=seconds,
            closures=closures,
        )

    def _attempts(self, read: Floats) -> tuple[Floats, Floats]:
        """Return (workloads,) seconds and GPUs of each run.

        read   (workloads,) bytes
        """
        month = len(self.base.job_type)
        # Of the first month the ranks are those of the demand by which teams got their homes.
        first = np.argsort(self.base.job_demand[self.base_order], kind="stable")
        seconds, gpus = np.empty(len(read)), np.empty(len(read))
        _, seconds[first], gpus[first] = attempts(self.draw.correlation, read[:month], self.dice)
        later, of_later, gpus_of_later = attempts(self.draw.correlation, read[month:], self.dice)
        seconds[month + later], gpus[month + later] = of_later, gpus_of_later
        return seconds, gpus


def _supply(base: DataProblem, days: int, types: Ints, band: Ints, work: Floats) -> Floats:
    """Return (regions, types) GPUs: of each type so many that high priority asks for its load."""
    high = np.bincount(types, work * (band == HIGH), len(TYPES)) / (days * DAY_SECONDS)
    found: Floats = base.supply / base.supply.sum(axis=0) * high / HIGH_LOAD
    return found

"""A section of the queue's image: shared pools, with the shares of their jobs, which job is to run where, and what each is owed.

What a job is owed is kept by core/sharing/accounts.py. Each round that begins owes every job its shares. What a job received is counted from
the time when all of its tasks run until its attempt is over.
"""

from collections.abc import Container

from msgspec import Struct, field
from msgspec.structs import replace

from core.events.queue import (
    AttemptClosed,
    AwardReturned,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadSubmitted,
)
from core.events.sharing import PicksAdded, PolicySet, RoundBegun, SharesSet, SpeedMeasured
from core.events.tenants import EntitlementSet
from core.fact import Fact
from core.images.base import Section
from core.nouns.fleet import will_do
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.sharing import (
    MICRO_STEPS,
    WHOLE,
    PoolShares,
    ShareColumn,
    SharingSettings,
    column_of_place,
    place_name,
    type_of_place,
)
from core.nouns.workload import EndCause, Kind
from core.sharing.accounts import LAG_MAX, Accounts
from core.sharing.classes import class_of, entity_of, gpus_of, model_of, speed_key_of

UNKNOWN_SPEED = 1.0
"""Of a job of which nobody knows a speed: then it is equally fast on all types that will do."""
ROUNDS_OWED_MAX = int(LAG_MAX)
"""Of rounds that nobody began, because the queue was down, the most that are owed at once: a lag holds no more."""


MEASURED_MAX = 1_000
"""Kinds of jobs whose measured speeds and pauses are kept, also while no such job is there; the longest unused goes first."""
PAUSES_AVERAGED = 4
"""A new pause counts for one part of so many of the moving average."""


class PickRow(Struct):
    """A job that is to run in a column."""

    column: str
    """Its name (`ShareColumn.name`)."""
    counted_at: int = 0
    """Up to when its time there is counted; 0: it does not run there yet."""
    is_awarded: bool = False
    """Whether an award in the column stands."""
    beside: WorkloadId = WorkloadId("")
    """The job with which it shares a GPU; empty: it runs alone."""
    is_guest: bool = False
    """Whether it came beside that job, or comes; else the other did."""


class Measured(Struct):
    """What the work of jobs with one key has shown (`speed_key_of`)."""

    speeds: dict[str, int] = field(default_factory=dict)
    """By GPU type, millionths of a step in a second."""
    pause: int = 0
    """Nanoseconds from the order to stop until such a job runs in another column, a moving average; 0: none was seen."""
    together: dict[str, dict[str, int]] = field(default_factory=dict)
    """By GPU type and the key of the jobs beside which they ran, millionths of a step in a second."""


class SharedClass(Struct):
    """Jobs that a policy by class cannot tell apart (core/sharing/classes.py)."""

    model: str
    gpus: int
    """Of the whole job."""
    tasks: int
    """That may lie on different nodes; all tasks of a packed job count as one."""
    node_types: tuple[str, ...]
    """That will do."""
    regions: tuple[RegionName, ...]
    """In which they may run; empty: in any."""
    weight: int
    """Thousandths."""
    entity: str
    speeds: dict[str, int]
    """By GPU type, millionths of a step in a second, as the newest of the jobs told; of a type that is not there none is known."""
    speed_key: str = ""
    """Of its jobs (core/sharing/classes.py)."""
    beside: dict[str, int] = field(default_factory=dict)
    """By model, millionths of its speed that a job keeps beside one of that model, as the newest of the jobs told."""
    jobs: int = 0
    """How many have not ended."""

    @property
    def may_pair(self) -> bool:
        """Return whether its jobs may share a GPU with another: those of one GPU."""
        return self.gpus == self.tasks == 1

    def takes(self, column: ShareColumn) -> bool:
        """Return whether the jobs may run in a column."""
        is_there = not self.regions or column.region in self.regions
        return is_there and will_do(column.gpu_type, self.node_types, is_for_gpus=True)


class SharedJob(Struct):
    """A job that has not ended."""

    kind: str
    """Its class."""
    number: int
    submitted_at: int
    steps: int
    """In all; 0: not known."""
    within: int
    """Nanoseconds from its submission in which it should be done; 0: no promise."""
    saved_step: int = 0
    """Of its newest attempt that has closed."""
    rests: bool = False
    """Whether it is owed nothing, for it may not run, whatever room there is (`RoundBegun.rests`)."""
    left_at: int = 0
    """When it was told to leave for another column, in which it does not run yet; 0: it was not."""


class Sharing(Section):
    """All shared pools together."""

    FOLDS = {
        PolicySet: "_policy_set",
        SharesSet: "_shares_set",
        SpeedMeasured: "_speed_measured",
        EntitlementSet: "_entitlement_set",
        RoundBegun: "_round_begun",
        PicksAdded: "_picks_added",
        WorkloadSubmitted: "_submitted",
        WorkloadAwarded: "_awarded",
        AwardReturned: "_returned",
        WorkloadBound: "_bound",
        AttemptClosed: "_closed",
        WorkloadCancelled: "_cancelled",
    }

    settings: SharingSettings = SharingSettings()
    revision: int = 0
    """Of the settings."""
    shares: PoolShares = PoolShares()
    """The newest; its classes are in `targets`."""
    policy: str = ""
    """By which these were found."""
    isolated_at: int = -1
    """What had changed when shares were last recorded, by whoever found them."""
    solved_in: int = 0
    """The round in which they were recorded."""
    targets: dict[str, dict[str, int]] = field(default_factory=dict)
    """By class, or by id of a job, and name of a column: millionths of the time of one job."""
    jobs: dict[WorkloadId, SharedJob] = field(default_factory=dict)
    """All that have not ended, in the order of submission."""
    classes: dict[str, SharedClass] = field(default_factory=dict)
    """Of these jobs."""
    measured: dict[str, Measured] = field(default_factory=dict)
    """By key of jobs (`speed_key_of`), the least recently changed first."""
    changes: int = 0
    """Grows with everything that makes shares old: jobs that come and end, speeds, settings, entitlements."""
    picks: dict[WorkloadId, PickRow] = field(default_factory=dict)
    leaving: dict[WorkloadId, str] = field(default_factory=dict)
    """Jobs that were told to leave, until their attempt is over, each with the name of the column that it leaves."""
    number: int = 0
    """Of the newest round; in a pool without jobs none begins, and the one in which its first job comes counts as begun."""
    lags: dict[str, dict[str, int]] = field(default_factory=dict)
    """By job and name of a column, the millionths of a round that it is owed."""
    waits: dict[str, int] = field(default_factory=dict)
    """Of jobs that are owed a round and do not run, the count of rounds when that began."""
    rounds: int = 0
    """How many rounds were owed so far."""

    def targets_of(self, workload: WorkloadId) -> dict[str, int]:
        """Return the shares of a job by name of column; empty: none are known."""
        own = self.targets.get(workload)
        return own if own is not None else self.targets.get(self.jobs[workload].kind, {})

    def has_targets(self, workload: WorkloadId) -> bool:
        """Return whether shares of a job were recorded, be they none."""
        return workload in self.targets or self.jobs[workload].kind in self.targets

    def speeds_of(self, kind: str) -> dict[str, int]:
        """Return the known speeds of a class by GPU type, millionths of a step in a second: as measured, or else as told."""
        one = self.classes[kind]
        measured = self.measured.get(one.speed_key)
        return one.speeds if measured is None else one.speeds | measured.speeds

    def speed(self, kind: str, gpu_type: str) -> float:
        """Return a class's steps a second on a type: of an unknown type, those on the slowest known one, or `UNKNOWN_SPEED`."""
        known = self.speeds_of(kind)
        slowest = min(known.values(), default=0) / MICRO_STEPS or UNKNOWN_SPEED
        return known[gpu_type] / MICRO_STEPS if gpu_type in known else slowest

    def speed_beside(self, kind: str, other: str, gpu_type: str) -> float:
        """Return a class's steps a second on a type beside a job of another class: as measured, or else as told; 0: not known."""
        one, beside = self.classes[kind], self.classes[other]
        measured = self.measured.get(one.speed_key)
        if measured is not None and beside.speed_key in measured.together.get(gpu_type, {}):
            return measured.together[gpu_type][beside.speed_key] / MICRO_STEPS
        return self.speed(kind, gpu_type) * one.beside.get(beside.model, 0) / WHOLE

    def pause_of(self, kind: str) -> int:
        """Return the nanoseconds for which a job of the class does not run when it changes its column, as measured; 0: not known."""
        measured = self.measured.get(self.classes[kind].speed_key)
        return 0 if measured is None else measured.pause

    def accounts(self) -> Accounts:
        """Return the accounts, which change this section in place."""
        return Accounts(column_of_place, type_of_place, self.lags, self.waits, self.rounds)

    def at_round(self, number: int, at: int, resting: Container[WorkloadId]) -> "Sharing":
        """Return what this section will be once a round has begun, before anybody joins or leaves.

        resting   jobs that will be owed nothing then
        """
        ahead = Sharing(
            self.settings,
            targets=self.targets,
            jobs={
                workload: job if job.rests is (workload in resting) else replace(job, rests=not job.rests)
                for workload, job in self.jobs.items()
            },
            picks={workload: replace(pick) for workload, pick in self.picks.items()},
            number=self.number,
            lags={job: dict(lags) for job, lags in self.lags.items()},
            waits=dict(self.waits),
            rounds=self.rounds,
        )
        ahead._begin(number, at)
        return ahead

    @property
    def overdue(self) -> dict[str, int]:
        """Return, of each job that is overdue, since which round it waits."""
        accounts = self.accounts()
        found = {job: accounts.overdue(job) for job in self.waits}
        return {job: since for job, since in found.items() if since is not None}

    def _begin(self, number: int, at: int) -> None:
        """Count what everybody received, and owe everybody the round."""
        for workload in self.picks:
            self._count(workload, at)
        accounts = self.accounts()
        owed: dict[str, dict[str, float]] = {
            workload: {column: share / WHOLE for column, share in self.targets_of(workload).items() if share}
            for workload, job in self.jobs.items()
            if not job.rests
        }
        for _ in range(min(number - self.number, ROUNDS_OWED_MAX) if self.number else 1):
            accounts.owe(owed)
        self.rounds, self.number = accounts.number, number

    def _policy_set(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, PolicySet)
        if self.number and event.settings.round_span != self.settings.round_span:
            for workload in self.picks:
                self._count(workload, fact.at)
            self.number = fact.at // event.settings.round_span
        self.settings, self.revision = event.settings, event.revision
        self.changes += 1

    def _shares_set(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, SharesSet)
        if not event.is_more:
            self.targets = {}
        shares = event.shares
        names = [column.name for column in shares.columns]
        for one in shares.classes:
            self.targets[one.name] = {names[column]: share for column, share in one.shares} | {
                place_name(names[column], other): share for column, other, share in one.beside
            }
        if event.is_more:
            return
        self.isolated_at = self.changes
        self.shares = PoolShares(
            shares.revision, shares.columns, shares.gpus, by=shares.by, changes=shares.changes
        )
        self.policy, self.solved_in = event.policy, self.number

    def _entitlement_set(self, fact: Fact) -> None:
        """Entities are tenants, and weigh as much as they are entitled to."""
        assert isinstance(fact.event, EntitlementSet)
        if self.jobs:
            self.changes += 1

    def _speed_measured(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, SpeedMeasured)
        row = self._measured(event.speed_key)
        if event.beside:
            row.together.setdefault(event.gpu_type, {})[event.beside] = event.speed
        else:
            row.speeds[event.gpu_type] = event.speed
        self.changes += 1

    def _measured(self, key: str) -> Measured:
        """Return the row of jobs with this key, as the one that was changed last."""
        row = self.measured[key] = self.measured.pop(key) if key in self.measured else Measured()
        if len(self.measured) > MEASURED_MAX:
            del self.measured[next(iter(self.measured))]
        return row

    def _round_begun(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, RoundBegun)
        for workload in (*event.rests, *event.resumes):
            self._rest(workload, rests=workload in event.rests)
        self._begin(event.number, fact.at)
        for workload in event.leaves:
            self._part(workload)
            pick, job = self.picks.pop(workload, None), self.jobs.get(workload)
            if pick is not None and pick.is_awarded:
                self.leaving[workload] = pick.column
            if job is None:
                continue  # Of a log that should not be: an auditor tells of it.
            if workload not in event.joins:
                job.left_at = 0
            elif pick is not None and pick.counted_at:
                job.left_at = fact.at
        self._join(event)

    def _picks_added(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, PicksAdded)
        self._join(event)

    def _join(self, event: RoundBegun | PicksAdded) -> None:
        for workload, column in event.joins.items():
            self._rest(workload, rests=False)
            self.picks[workload] = PickRow(event.columns[column].name)
        if isinstance(event, RoundBegun):
            for guest, host in event.beside.items():
                self.picks[guest].beside, self.picks[guest].is_guest = host, True
                self.picks[host].beside = guest

    def _rest(self, workload: WorkloadId, *, rests: bool) -> None:
        job = self.jobs.get(workload)
        if job is not None and job.rests is not rests:
            job.rests = rests
            self.changes += 1
            if rests:  # Else it would be overdue when it may run again, and served before all others.
                self.waits.pop(workload, None)

    def _part(self, workload: WorkloadId) -> None:
        """Record that the job beside this one runs on alone."""
        pick = self.picks.get(workload)
        if pick is not None and pick.beside:
            other = self.picks[pick.beside]
            other.beside, other.is_guest = WorkloadId(""), False
            pick.beside, pick.is_guest = WorkloadId(""), False

    def _submitted(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadSubmitted)
        spec, share = event.spec, event.spec.share
        if spec.kind is not Kind.SHARED or share is None:
            return
        if not self.jobs:
            self.number = fact.at // self.settings.round_span
        name, (job,) = class_of(spec), spec.jobs
        self.jobs[event.workload] = SharedJob(name, event.number, fact.at, share.steps, share.within)
        known = self.classes.get(name)
        if known is None:
            known = self.classes[name] = SharedClass(
                model_of(spec),
                gpus_of(spec),
                job.tasks // job.tasks_together,
                job.node_types,
                tuple(sorted(spec.regions)),
                share.weight,
                entity_of(spec),
                {},
                speed_key_of(spec),
            )
        known.speeds |= share.speeds
        known.beside |= share.beside
        known.jobs += 1
        self.changes += 1

    def _awarded(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadAwarded)
        pick = self.picks.get(event.workload)
        if pick is not None:
            pick.is_awarded = True

    def _returned(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AwardReturned)
        self._let_go(event.workload)

    def _let_go(self, workload: WorkloadId) -> None:
        """Record that no award of a job stands."""
        self.leaving.pop(workload, None)
        pick = self.picks.get(workload)
        if pick is not None:
            pick.counted_at, pick.is_awarded = 0, False

    def _bound(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadBound)
        pick = self.picks.get(event.workload)
        if pick is None or not pick.is_awarded:
            return  # It was picked for another column before it came to run in the one that it is to leave.
        pick.counted_at = fact.at
        job = self.jobs[event.workload]
        if job.left_at:
            row = self._measured(self.classes[job.kind].speed_key)
            pause = min(fact.at - job.left_at, self.settings.round_span)
            row.pause += (pause - row.pause) // PAUSES_AVERAGED if row.pause else pause
            job.left_at = 0

    def _closed(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AttemptClosed)
        if event.workload not in self.jobs:
            return
        self._count(event.workload, fact.at)
        pick = self.picks.get(event.workload)
        if pick is not None and pick.beside and event.cause is not EndCause.ROUND_OVER:
            # Its GPU is the other's alone by now, so it waits until it is picked again.
            self._part(event.workload)
            del self.picks[event.workload]
        self._let_go(event.workload)
        self.jobs[event.workload].saved_step = event.saved_step
        if event.phase.is_terminal:
            self._forget(event.workload)

    def _cancelled(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadCancelled)
        self._forget(event.workload)

    def _count(self, workload: WorkloadId, at: int) -> None:
        """Count what a job had since it was last counted."""
        pick = self.picks.get(workload)
        if pick is not None and pick.counted_at:
            rounds = (at - pick.counted_at) / self.settings.round_span
            self.accounts().receive(workload, self._place_of(workload, pick), rounds)
            pick.counted_at = at

    def _place_of(self, workload: WorkloadId, pick: PickRow) -> str:
        """Return the name of the place where a job is picked, as its shares have it: beside a class, or beside a job."""
        if not pick.beside:
            return pick.column
        kind = self.jobs[pick.beside].kind
        by_class = place_name(pick.column, kind)
        return by_class if by_class in self.lags.get(workload, {}) else place_name(pick.column, pick.beside)

    def _forget(self, workload: WorkloadId) -> None:
        job = self.jobs.pop(workload, None)
        if job is None:
            return
        self.changes += 1
        self.classes[job.kind].jobs -= 1
        if not self.classes[job.kind].jobs:
            del self.classes[job.kind]
        self._part(workload)
        self.picks.pop(workload, None)
        self.leaving.pop(workload, None)
        self.accounts().forget(workload)

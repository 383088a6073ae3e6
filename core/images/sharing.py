"""A section of the queue's image: shared pools, with the shares of their jobs, which job is to run where, and what each is owed.

What a job is owed is kept by core/sharing/accounts.py. Each round that begins owes every job its shares. What a job received is counted from
the time when all of its tasks run until its attempt is over.
"""

from msgspec import Struct, field
from msgspec.structs import replace

from core.events.queue import AttemptClosed, WorkloadBound, WorkloadCancelled, WorkloadSubmitted
from core.events.sharing import PicksAdded, PolicySet, RoundBegun, SharesSet
from core.fact import Fact
from core.images.base import Section
from core.nouns.ids import WorkloadId
from core.nouns.sharing import WHOLE, PoolShares, SharingSettings
from core.nouns.workload import Kind
from core.sharing.accounts import LAG_MAX, Accounts
from core.sharing.classes import class_of

ROUNDS_OWED_MAX = int(LAG_MAX)
"""Of rounds that nobody began, because the queue was down, the most that are owed at once: a lag holds no more."""


class PickRow(Struct):
    """A job that is to run in a column."""

    column: str
    """Its name (`ShareColumn.name`)."""
    counted_at: int = 0
    """Up to when its time there is counted; 0: it does not run there yet."""


class Sharing(Section):
    """All shared pools together."""

    FOLDS = {
        PolicySet: "_policy_set",
        SharesSet: "_shares_set",
        RoundBegun: "_round_begun",
        PicksAdded: "_picks_added",
        WorkloadSubmitted: "_submitted",
        WorkloadBound: "_bound",
        AttemptClosed: "_closed",
        WorkloadCancelled: "_cancelled",
    }

    settings: SharingSettings = SharingSettings()
    revision: int = 0
    """Of the settings."""
    shares: PoolShares = PoolShares()
    """The newest; its classes are in `targets`."""
    targets: dict[str, dict[str, int]] = field(default_factory=dict)
    """By class, or by id of a job, and name of a column: millionths of the time of one job."""
    jobs: dict[WorkloadId, str] = field(default_factory=dict)
    """The class of each job that has not ended, in the order of submission."""
    picks: dict[WorkloadId, PickRow] = field(default_factory=dict)
    number: int = 0
    """Of the round; 0: none began yet."""
    lags: dict[str, dict[str, int]] = field(default_factory=dict)
    """By job and name of a column, the millionths of a round that it is owed."""
    waits: dict[str, int] = field(default_factory=dict)
    """Of jobs that are owed a round and do not run, the count of rounds when that began."""
    rounds: int = 0
    """How many rounds were owed so far."""

    def targets_of(self, workload: WorkloadId) -> dict[str, int]:
        """Return the shares of a job by name of column; empty: none are known."""
        own = self.targets.get(workload)
        return own if own is not None else self.targets.get(self.jobs[workload], {})

    def accounts(self) -> Accounts:
        """Return the accounts, which change this section in place."""
        return Accounts(str, self.lags, self.waits, self.rounds)

    def at_round(self, number: int, at: int) -> "Sharing":
        """Return what this section will be once a round has begun, before anybody joins or leaves."""
        ahead = Sharing(
            self.settings,
            targets=self.targets,
            jobs=self.jobs,
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
            for workload in self.jobs
        }
        for _ in range(min(number - self.number, ROUNDS_OWED_MAX) if self.number else 1):
            accounts.owe(owed)
        self.rounds, self.number = accounts.number, number

    def _policy_set(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, PolicySet)
        self.settings, self.revision = event.settings, event.revision

    def _shares_set(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, SharesSet)
        if not event.is_more:
            self.targets = {}
        names = [column.name for column in event.shares.columns]
        for one in event.shares.classes:
            self.targets[one.name] = {names[column]: share for column, share in one.shares}
        self.shares = PoolShares(
            event.shares.revision, event.shares.columns, event.shares.gpus, by=event.shares.by
        )

    def _round_begun(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, RoundBegun)
        self._begin(event.number, fact.at)
        for workload in event.leaves:
            self.picks.pop(workload, None)
        self._join(event)

    def _picks_added(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, PicksAdded)
        self._join(event)

    def _join(self, event: RoundBegun | PicksAdded) -> None:
        for workload, column in event.joins.items():
            self.picks[workload] = PickRow(event.columns[column].name)

    def _submitted(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadSubmitted)
        if event.spec.kind is Kind.SHARED:
            self.jobs[event.workload] = class_of(event.spec)

    def _bound(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadBound)
        pick = self.picks.get(event.workload)
        if pick is not None:
            pick.counted_at = fact.at

    def _closed(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AttemptClosed)
        if event.workload not in self.jobs:
            return
        self._count(event.workload, fact.at)
        pick = self.picks.get(event.workload)
        if pick is not None:
            pick.counted_at = 0
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
            self.accounts().receive(workload, pick.column, rounds)
            pick.counted_at = at

    def _forget(self, workload: WorkloadId) -> None:
        self.jobs.pop(workload, None)
        self.picks.pop(workload, None)
        self.accounts().forget(workload)

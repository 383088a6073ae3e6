"""The preemption section of a region's image: how victims are chosen, what promises may destroy, and what was destroyed lately.

What a promise may destroy counts from when it is made: as a *pledge* on each victim, until that has ended, or is spared because
the promise was withdrawn before it was told; what its end did destroy counts then, for an hour.
"""

from msgspec import Struct, field

from core.events.log import LogOpened
from core.events.region import (
    AttemptEnded,
    AwardDeclined,
    ClaimGranted,
    ClaimPromised,
    NodesJoined,
    PreemptionSet,
    PromiseRevised,
    StopOrdered,
)
from core.fact import Fact
from core.images.base import Section
from core.nouns.ids import AttemptKey, WorkloadId
from core.nouns.instant import SECOND, Instant
from core.nouns.limits import (
    CLAIM_DESTROYS_MIN,
    CLAIM_DESTROYS_SECONDS,
    HOUR_DESTROYS_MIN,
    HOUR_DESTROYS_SECONDS,
)
from core.nouns.preemption import DEFAULT_PREEMPTION, PreemptionSettings
from core.nouns.quantities import MILLI
from core.nouns.workload import EndCause

MINUTE = 60 * SECOND
HOUR_MINUTES = 60
HELD_TO = {
    "claim_destroys_min": CLAIM_DESTROYS_MIN,
    "claim_destroys_seconds": CLAIM_DESTROYS_SECONDS,
    "hour_destroys_min": HOUR_DESTROYS_MIN,
    "hour_destroys_seconds": HOUR_DESTROYS_SECONDS,
}


class PromiseRow(Struct):
    """One promise that stands."""

    at: int
    ask_span: int
    spent: int = 0
    """GPU-seconds that ends of its victims have destroyed so far."""

    @property
    def asked_until(self) -> Instant:
        """Return the time at which the victims are stopped without their controllers' answers."""
        return Instant(self.at + self.ask_span)


class Pledge(Struct):
    """What a victim's end will destroy at most, in GPU-seconds."""

    by: WorkloadId
    by_epoch: int
    gpu_seconds: int
    is_told: bool = False
    """Whether it was ordered to stop."""


class Preemption(Section):
    """Settings, promises, pledges, and a meter of the last hour."""

    FOLDS = {
        LogOpened: "_opened",
        NodesJoined: "_joined",
        PreemptionSet: "_set",
        ClaimPromised: "_promised",
        PromiseRevised: "_revised",
        AwardDeclined: "_declined",
        ClaimGranted: "_granted",
        StopOrdered: "_stop",
        AttemptEnded: "_ended",
    }

    settings: PreemptionSettings = DEFAULT_PREEMPTION
    revision: int = 0
    """Grows with every change: a command names the one that it was given for."""
    held_to: dict[str, int] = field(default_factory=dict)
    """The limits that this term is held to; older terms had none."""
    gpu_milli: int = 0
    """Of all nodes."""
    promises: dict[WorkloadId, dict[int, PromiseRow]] = field(default_factory=dict)
    pledges: dict[WorkloadId, dict[int, Pledge]] = field(default_factory=dict)
    """By victim."""
    offered: dict[WorkloadId, int] = field(default_factory=dict)
    """Epochs, by workload, of attempts in place of which a substitute was offered: one offer an attempt."""
    spent: list[tuple[int, int]] = field(default_factory=list)
    """What was destroyed, in GPU-seconds, by minutes of this log's time: those of the last hour."""
    destroyed: int = 0
    """GPU-seconds since the log began."""
    preempted: int = 0
    """Attempts that were."""

    # Reading.

    def promise(self, workload: WorkloadId, epoch: int) -> PromiseRow | None:
        """One promise."""
        return self.promises.get(workload, {}).get(epoch)

    def pledge(self, workload: WorkloadId, epoch: int) -> Pledge | None:
        """What is pledged on one victim."""
        return self.pledges.get(workload, {}).get(epoch)

    @property
    def claim_cap(self) -> int:
        """GPU-seconds that one claim may destroy."""
        return self.settings.claim_max or self._by_size("claim")

    @property
    def hour_cap(self) -> int:
        """GPU-seconds that all claims of an hour may destroy."""
        return self.settings.hour_max or self._by_size("hour")

    def _by_size(self, what: str) -> int:
        least, each = (self._held_to(f"{what}_destroys_{name}") for name in ("min", "seconds"))
        return max(least, self.gpu_milli // MILLI * each)

    def _held_to(self, name: str) -> int:
        return self.held_to.get(name, HELD_TO[name])

    def metered(self, now: int) -> int:
        """GPU-seconds destroyed in the hour before, and pledged."""
        since = now // MINUTE - HOUR_MINUTES
        spent = sum(amount for minute, amount in self.spent if minute > since)
        return spent + sum(one.gpu_seconds for epochs in self.pledges.values() for one in epochs.values())

    def left(self, now: int) -> int:
        """GPU-seconds that a claim may destroy now."""
        return max(0, min(self.claim_cap, self.hour_cap - self.metered(now)))

    # Folding.

    def _opened(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, LogOpened)
        self.held_to = {name: event.settings[name] for name in HELD_TO if name in event.settings}

    def _joined(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, NodesJoined)
        self.gpu_milli += sum(group.count * group.total.gpu_milli for group in event.inventory.groups)

    def _set(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, PreemptionSet)
        self.settings, self.revision = event.settings, event.revision

    def _promised(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, ClaimPromised)
        row = PromiseRow(fact.at, event.ask_span)
        self.promises.setdefault(event.workload, {})[event.epoch] = row
        self._pledge((event.workload, event.epoch), event.claim.victims, event.destroyed)

    def _revised(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, PromiseRevised)
        workload, epoch = event.spared
        self.offered[workload] = epoch
        self._release((event.workload, event.epoch))
        self._pledge((event.workload, event.epoch), event.victims, event.destroyed)

    def _pledge(self, by: AttemptKey, victims: tuple[AttemptKey, ...], destroyed: tuple[int, ...]) -> None:
        for (workload, epoch), amount in zip(victims, destroyed, strict=False):  # Older logs have no figures.
            if self.pledge(workload, epoch) is None:
                self.pledges.setdefault(workload, {})[epoch] = Pledge(*by, amount)

    def _declined(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AwardDeclined)
        self._over((event.workload, event.epoch))

    def _granted(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, ClaimGranted)
        self._over((event.workload, event.epoch))

    def _over(self, by: AttemptKey) -> None:
        workload, epoch = by
        epochs = self.promises.get(workload, {})
        if epochs.pop(epoch, None) is not None:
            self._release(by)
            if not epochs:
                del self.promises[workload]

    def _release(self, by: AttemptKey) -> None:
        """Release the promise's victims that were not told to stop."""
        for workload, epochs in list(self.pledges.items()):
            for epoch in [e for e, one in epochs.items() if (one.by, one.by_epoch) == by and not one.is_told]:
                self._drop(workload, epoch)

    def _drop(self, workload: WorkloadId, epoch: int) -> None:
        epochs = self.pledges.get(workload, {})
        if epochs.pop(epoch, None) is not None and not epochs:
            del self.pledges[workload]

    def _stop(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, StopOrdered)
        pledge = self.pledge(event.workload, event.epoch)
        if pledge is not None:
            pledge.is_told = True

    def _ended(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AttemptEnded)
        pledge = self.pledge(event.workload, event.epoch)
        promise = self.promise(pledge.by, pledge.by_epoch) if pledge is not None else None
        if promise is not None:
            promise.spent += event.destroyed
        self._drop(event.workload, event.epoch)
        if self.offered.get(event.workload) == event.epoch:
            del self.offered[event.workload]
        if event.cause is EndCause.PREEMPTED:
            self.preempted += 1
            self.destroyed += event.destroyed
            self._spend(fact.at // MINUTE, event.destroyed)

    def _spend(self, minute: int, amount: int) -> None:
        while self.spent and self.spent[0][0] <= minute - HOUR_MINUTES:
            del self.spent[0]
        if self.spent and self.spent[-1][0] >= minute:
            self.spent[-1] = (self.spent[-1][0], self.spent[-1][1] + amount)
        elif amount:
            self.spent.append((minute, amount))

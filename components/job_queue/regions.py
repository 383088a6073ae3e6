"""Silent regions: since when a region is silent, and consent that its workloads start elsewhere.

Silence alone frees no award. An operator may abandon a region (`mizzen region abandon`), and a workload may state
beforehand how long it waits for a silent region (`on_region_loss`). Both are recorded consent that two attempts may
run. The store of the silent region stops the older attempt once the store has read the consent
(components/placement_store/abandoned.py), and checkpoints that are saved after the consent do not count.
"""

from collections import Counter
from collections.abc import Callable

from components.job_queue.state.queue_state import BusHeard, QueueState, RegionSilent
from components.replies import answered, refused
from core.component import Decision
from core.events.regions import RegionAbandoned, RegionReadmitted
from core.fact import Fact
from core.images.queue import WorkloadRow
from core.images.region import AttemptPhase
from core.messages.base import BusBack, BusLost, Envelope, LogHeard, LogSilent, Message
from core.messages.regions import (
    AbandonRegion,
    ListedRegion,
    ListRegions,
    ReadmitRegion,
    RegionAnswered,
    RegionsListed,
)
from core.nouns.ids import RegionName, WorkloadId, region_of
from core.nouns.instant import Instant, Nanoseconds, after
from core.nouns.limits import HEAD_SILENCE_MAX, NAME_LENGTH_MAX
from core.nouns.reasons import Reason
from core.nouns.workload import Consent

HEARD_OF_REGIONS: tuple[type[Message], ...] = (AbandonRegion, ReadmitRegion, ListRegions)


class RegionRecords:
    """The queue's deciders for requests about regions, and for reports that a log or the bus is silent."""

    def __init__(self) -> None:
        self.deciders: dict[type[Message], Callable[[QueueState, Envelope], Decision]] = {
            AbandonRegion: self._abandon,
            ReadmitRegion: self._readmit,
            ListRegions: self._list,
            LogSilent: self._silence,
            LogHeard: self._silence,
            BusLost: self._bus,
            BusBack: self._bus,
        }

    def _abandon(self, state: QueueState, envelope: Envelope) -> Decision:
        """Abandon a silent region. Without force, an answering region is refused: its nodes can be drained."""
        message = envelope.message
        assert isinstance(message, AbandonRegion)
        refusal = self._against(state, message.region, message.revision, message.by, is_abandoned=True)
        if refusal is not None:
            return refusal
        if not message.is_forced and _may_answer(state, message.region, envelope.at):
            return refused(Reason.REGION_ANSWERS)
        event = RegionAbandoned(message.region, message.revision + 1, message.by)
        return answered(RegionAnswered(message.region, event.revision), event)

    def _readmit(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, ReadmitRegion)
        refusal = self._against(state, message.region, message.revision, message.by, is_abandoned=False)
        if refusal is not None:
            return refusal
        event = RegionReadmitted(message.region, message.revision + 1, message.by)
        return answered(RegionAnswered(message.region, event.revision), event)

    def _against(
        self, state: QueueState, region: RegionName, revision: int, by: str, *, is_abandoned: bool
    ) -> Decision | None:
        """Return the answer to an invalid, repeated or outdated request; None: the request is to be recorded."""
        if region not in state.regions:
            return refused(Reason.UNKNOWN_REGION, (f"region: {region} is not in the fleet",))
        if len(by) > NAME_LENGTH_MAX:
            return refused(Reason.INVALID, (f"by: {NAME_LENGTH_MAX} characters are the most",))
        regions = state.image.regions
        newest = regions.revisions.get(region, 0)
        if (region in regions.abandoned) == is_abandoned and revision in (newest, newest - 1):
            return answered(RegionAnswered(region, newest))
        if revision != newest:
            return refused(Reason.SUPERSEDED, (f"revision: it is {newest} now",))
        return None

    def _list(self, state: QueueState, envelope: Envelope) -> Decision:
        rows = state.image.workloads.rows.values()
        standing = Counter(row.region for row in rows if row.is_active)
        behind: Counter[RegionName] = Counter()
        for workload, award in state.image.awards.rows.items():
            behind.update(
                region
                for epoch, region in award.abandoned.items()
                if may_still_run(state, region, workload, epoch)
            )
        regions = state.image.regions
        listed = [
            ListedRegion(
                region,
                image is not None,
                _silent_for(state, region, envelope.at),
                region in regions.abandoned,
                regions.revisions.get(region, 0),
                image.hardware.nodes if image is not None else 0,
                standing[region],
                behind[region],
            )
            for region, image in sorted(state.regions.items())
        ]
        return answered(RegionsListed(tuple(listed)))

    def _silence(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, LogSilent | LogHeard)
        silent = RegionSilent(region_of(message.log), is_silent=isinstance(message, LogSilent))
        return Decision(events=(silent,))

    def _bus(self, state: QueueState, envelope: Envelope) -> Decision:
        """Note that the bus is lost or back. Silence counts only while the bus works."""
        return Decision(events=(BusHeard(isinstance(envelope.message, BusBack)),))


def consent_of(state: QueueState, row: WorkloadRow, now: Instant) -> tuple[Consent, Instant | None]:
    """Return the consent that an awarded workload starts elsewhere, and the time at which silence will give it."""
    if row.region in state.image.regions.abandoned:
        return Consent.OPERATOR, None
    since = state.silent_since.get(row.region)
    if since is None or not row.spec.move_after:
        return Consent.NOBODY, None
    at = after(since, row.spec.move_after)
    return (Consent.NOBODY, at) if at > now else (Consent.WORKLOAD, None)


def may_still_run(state: QueueState, region: RegionName, workload: WorkloadId, epoch: int) -> bool:
    """Return whether an abandoned attempt may still run in its region, as far as the queue knows."""
    image = state.regions[region]
    if image is None or state.silent.get(region, True):
        return True
    attempt = image.attempts.row(workload, epoch)
    return attempt is not None and (attempt.phase.is_live or attempt.phase == AttemptPhase.PROMISED)


def is_remembered(state: QueueState, workload: WorkloadId) -> bool:
    """Return whether a region may still hold an attempt of a workload, so that the queue may not forget it."""
    award = state.image.awards.rows.get(workload)
    if award is None:
        return False  # No region was ever told of it.
    for region, image in state.regions.items():
        # Earlier attempts may have been in any region.
        if (
            workload in image.attempts.rows
            if image is not None
            else award.epoch > 1 or award.region == region
        ):
            return True
    left = award.abandoned.items()
    return any(may_still_run(state, region, workload, epoch) for epoch, region in left)


def index_regions(state: QueueState, fact: Fact) -> None:
    """Update awards, reservations and auctions after a region was abandoned or readmitted."""
    event = fact.event
    if not isinstance(event, RegionAbandoned | RegionReadmitted):
        return
    state.auctions.forget_memos()
    state.open_at = fact.at
    look_at_awards(state, event.region, fact.at)
    for workload, promise in state.image.start_promises.rows.items():
        if promise.region == event.region:
            state.starts.due.put(workload, fact.at)


def note_silence(state: QueueState, region: RegionName, at: Instant, *, is_silent: bool) -> None:
    """Record that a region's log is silent, or heard again."""
    state.silent[region] = is_silent
    if not is_silent:
        state.silent_since.pop(region, None)
        state.fill_at = at
    elif state.hears_bus and region not in state.silent_since:
        state.silent_since[region] = at
        look_at_awards(state, region, at)


def note_bus(state: QueueState, at: Instant, *, is_back: bool) -> None:
    """Record that the bus is lost or back. Every region's silence is counted from the return of the bus."""
    state.hears_bus = is_back
    state.silent_since.clear()
    if is_back:
        for region in state.regions:
            if state.silent.get(region, True):
                note_silence(state, region, at, is_silent=True)


def look_at_awards(state: QueueState, region: RegionName, at: Instant) -> None:
    """Schedule a look at every active award of a region."""
    rows = state.image.workloads.rows
    for workload in state.awarded_at:
        if rows[workload].region == region:
            state.awards_due.put(workload, at)


def _may_answer(state: QueueState, region: RegionName, now: Instant) -> bool:
    """Return whether a region is heard, or was listened to for less than `HEAD_SILENCE_MAX`."""
    is_silent = state.silent.get(region)
    if is_silent is None:
        return after(state.silent_since.get(region, now), HEAD_SILENCE_MAX) > now
    return not is_silent


def _silent_for(state: QueueState, region: RegionName, now: Instant) -> Nanoseconds:
    if not state.silent.get(region, True):
        return Nanoseconds(-1)
    return Nanoseconds(max(0, now - state.silent_since.get(region, now)))

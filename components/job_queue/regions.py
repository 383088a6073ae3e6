"""Regions that do not answer: how long they are silent, and who agreed that what stands there goes on elsewhere.

Silence alone frees no award. An operator may give a region up (`mizzen region abandon`), and a workload may say beforehand how
long it waits for a silent one (`on_region_loss`). Both are recorded consent that two attempts may run: the older one is told to
stop when its region's store reads of it (components/placement_store/component.py), and nothing that it saves from then on counts.
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
    """The queue's deciders for regions that are lost, and for word of those that are not heard."""

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
        """A region that answers can be emptied without anything running twice, so it is not given up by mistake."""
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
        """The answer where nothing is to be recorded; a repeat finds what it asked for."""
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
                sum(row.nodes for row in image.hardware.rows.values()) if image is not None else 0,
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
        """Whoever hears nobody does not know who is silent: it counts from its own return."""
        return Decision(events=(BusHeard(isinstance(envelope.message, BusBack)),))


def consent_of(state: QueueState, row: WorkloadRow, now: Instant) -> tuple[Consent, Instant | None]:
    """Whether it is agreed that a standing award goes on elsewhere, by whom; and when it will be, if its region stays silent."""
    if row.region in state.image.regions.abandoned:
        return Consent.OPERATOR, None
    since = state.silent_since.get(row.region)
    if since is None or not row.spec.move_after:
        return Consent.NOBODY, None
    at = after(since, row.spec.move_after)
    return (Consent.NOBODY, at) if at > now else (Consent.WORKLOAD, None)


def may_still_run(state: QueueState, region: RegionName, workload: WorkloadId, epoch: int) -> bool:
    """Whether an attempt that was given up may run there still, as far as is known."""
    image = state.regions[region]
    if image is None or state.silent.get(region, True):
        return True
    attempt = image.attempts.row(workload, epoch)
    return attempt is not None and (attempt.phase.is_live or attempt.phase == AttemptPhase.PROMISED)


def is_remembered(state: QueueState, workload: WorkloadId) -> bool:
    """Whether some region may still have something of it, so that it is not forgotten yet."""
    if any(image is None or workload in image.attempts.rows for image in state.regions.values()):
        return True
    award = state.image.awards.rows.get(workload)
    left = award.abandoned.items() if award is not None else ()
    return any(may_still_run(state, region, workload, epoch) for epoch, region in left)


def index_regions(state: QueueState, fact: Fact) -> None:
    """What it means for awards, starts and auctions that a region is given up, or is not any more."""
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
    """It is heard no more, or again."""
    state.silent[region] = is_silent
    if not is_silent:
        state.silent_since.pop(region, None)
    elif state.hears_bus and region not in state.silent_since:
        state.silent_since[region] = at
        look_at_awards(state, region, at)


def note_bus(state: QueueState, at: Instant, *, is_back: bool) -> None:
    """Nobody is heard, so nobody's silence counts; or everybody's does from now on."""
    state.hears_bus = is_back
    state.silent_since.clear()
    if is_back:
        for region in state.regions:
            if state.silent.get(region, True):
                note_silence(state, region, at, is_silent=True)


def look_at_awards(state: QueueState, region: RegionName, at: Instant) -> None:
    """Every award that stands in a region is looked at."""
    rows = state.image.workloads.rows
    for workload in state.awarded_at:
        if rows[workload].region == region:
            state.awards_due.put(workload, at)


def _may_answer(state: QueueState, region: RegionName, now: Instant) -> bool:
    """Whether it is heard, or was not listened to for as long as a region that is well may be silent."""
    is_silent = state.silent.get(region)
    if is_silent is None:
        return after(state.silent_since.get(region, now), HEAD_SILENCE_MAX) > now
    return not is_silent


def _silent_for(state: QueueState, region: RegionName, now: Instant) -> Nanoseconds:
    if not state.silent.get(region, True):
        return Nanoseconds(-1)
    return Nanoseconds(max(0, now - state.silent_since.get(region, now)))

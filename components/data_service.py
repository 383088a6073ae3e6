"""The data service of a region: has datasets copied, hashed and deleted there as the queue's log orders it, and reports.

The service keeps no log. Orders are found in the queue's log: a copy to this region, once its hash is known; the hash of a dataset that
is copied from here; the deletion of a copy that no attempt reads any more. Each is an effect of the doer beside the service
(runtime/data/), which outlives the service's lives on its disk, and each end is reported until the log shows it. An order that does not
stand any more is ended, and the part of a copy that was made is deleted.
"""

from collections.abc import Iterable

from msgspec import Struct

from core.component import NOTHING, Decision, Effect, Follow, ImageAdopted, Images
from core.effects import CopyData, DropData, ForgetCopy, HashData
from core.fact import NO_LOG, Fact, Note
from core.images import GlobalImage
from core.images.copies import Copies
from core.messages.base import Envelope, Message, Woken
from core.messages.copies import CopyChanged, DataDropped, DataHashed, ReportCopy, ReportDrop, ReportHash
from core.nouns.ids import GLOBAL_LOG, DatasetName, LogName, RegionName
from core.nouns.instant import Instant, after
from core.nouns.limits import COMMAND_SAY_AGAIN

ORDERS = frozenset(Copies.FOLDS)
"""Facts that may bring work for this region."""


class Begun(Note, frozen=True):
    """The doer was asked for copies, hashes and deletions, and to forget orders; reports were repeated."""

    copies: tuple[int, ...] = ()
    hashes: tuple[int, ...] = ()
    drops: tuple[DatasetName, ...] = ()
    forgotten: tuple[int, ...] = ()
    again_at: Instant | None = None
    """When reports are repeated."""


class Ended(Note, frozen=True):
    """The doer has told an end, which is reported until the log shows it."""

    report: ReportCopy | ReportHash | ReportDrop


class Due(Struct, frozen=True):
    """Orders of the log for this region for which the doer was not asked."""

    copies: tuple[int, ...]
    hashes: tuple[int, ...]
    drops: tuple[DatasetName, ...]
    forgotten: tuple[int, ...]
    """Copies for which the doer was asked, of orders that do not stand any more."""

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to ask for."""
        return not (self.copies or self.hashes or self.drops or self.forgotten)


class DataServiceState:
    """The queue's orders, those for which the doer was asked, and the ends to report."""

    def __init__(self) -> None:
        self.queue = GlobalImage.empty(("copies",))
        self.copies: set[int] = set()
        """Orders of copies for which the doer was asked."""
        self.hashes: set[int] = set()
        """Orders of hashes for which the doer was asked."""
        self.drops: set[DatasetName] = set()
        """Datasets that the doer was asked to delete."""
        self.copied: dict[int, ReportCopy] = {}
        self.hashed: dict[int, ReportHash] = {}
        self.dropped: dict[DatasetName, ReportDrop] = {}
        self.look_at: Instant | None = None


class DataService:
    """The data service of one region."""

    noun = "data"
    keeps: LogName | None = None
    hears: tuple[type[Message], ...] = (CopyChanged, DataHashed, DataDropped)
    follows = (Follow(GLOBAL_LOG, ("copies",), is_required=False),)

    def __init__(self, region: RegionName) -> None:
        self.region = region
        self.name = f"data.{region}"
        self.scope: tuple[str, ...] = (region,)

    def initial(self, images: Images) -> DataServiceState:
        """Return the state at a start: nothing was asked for yet, so all that the log orders is."""
        state = DataServiceState()
        for image, _ in images.followed.values():
            assert isinstance(image, GlobalImage)
            state.queue = image
        state.look_at = images.at
        return state

    def due(self, state: DataServiceState) -> Instant | None:
        """Return when to look for orders, or to repeat reports."""
        return state.look_at

    def decide(self, state: DataServiceState, envelope: Envelope) -> Decision:
        """Begin orders, and report the words of the doer."""
        match envelope.message:
            case Woken():
                return self._woken(state, envelope.at)
            case CopyChanged(copy, moved, is_over, reason):
                report = ReportCopy(self.region, copy, moved, is_over, reason)
                if copy not in state.copies:
                    return NOTHING  # An earlier life asked for it.
                return Decision((Ended(report),) if is_over else (), (report,))
            case DataHashed(copy, dataset, digest, size, reason) if copy in state.hashes:
                hashed = ReportHash(self.region, copy, dataset, digest, size, reason)
                return Decision((Ended(hashed),), (hashed,))
            case DataDropped(dataset) if dataset in state.drops:
                dropped = ReportDrop(self.region, dataset)
                return Decision((Ended(dropped),), (dropped,))
        return NOTHING

    def evolve(self, state: DataServiceState, fact: Fact) -> DataServiceState:
        """Fold a fact of the queue, or a note."""
        match fact.event:
            case Begun() as begun:
                _note_begun(state, self.region, begun)
            case Ended(report):
                _note_ended(state, report, fact.at)
            case ImageAdopted(_, image, _):
                assert isinstance(image, GlobalImage)
                state.queue = image
                state.look_at = fact.at
        if fact.log != NO_LOG:
            state.queue.fold(fact)
            if type(fact.event) in ORDERS:
                state.look_at = fact.heard_at
        return state

    def _woken(self, state: DataServiceState, now: Instant) -> Decision:
        due = self._due(state)
        orders = state.queue.copies.orders
        effects: list[Effect] = [ForgetCopy(copy) for copy in due.forgotten]
        effects += [HashData(copy, orders[copy].dataset, orders[copy].bytes) for copy in due.hashes]
        effects += [DropData(dataset) for dataset in due.drops]
        for copy in due.copies:
            order = orders[copy]
            effects.append(CopyData(copy, order.dataset, order.source, order.bytes, order.rate, order.hash))
        reports = tuple(self._reports(state)) if due.is_empty else ()
        is_asking = bool(state.copied or state.hashed or state.dropped)
        begun = Begun(
            due.copies,
            due.hashes,
            due.drops,
            due.forgotten,
            after(now, COMMAND_SAY_AGAIN) if is_asking else None,
        )
        return Decision((begun,), reports, tuple(effects))

    def _due(self, state: DataServiceState) -> Due:
        orders, drops = state.queue.copies.orders, state.queue.copies.drops
        mine = [copy for copy, order in orders.items() if order.target == self.region]
        return Due(
            tuple(copy for copy in mine if orders[copy].hash and copy not in state.copies),
            tuple(
                copy
                for copy, order in orders.items()
                if order.source == self.region and not order.hash and copy not in state.hashes
            ),
            tuple(
                dataset
                for dataset, regions in drops.items()
                if regions.get(self.region) and dataset not in state.drops
            ),
            tuple(sorted(state.copies.difference(mine))),
        )

    def _reports(self, state: DataServiceState) -> Iterable[Message]:
        """Return the reports of ends that the log does not show yet."""
        orders, drops = state.queue.copies.orders, state.queue.copies.drops
        yield from (report for copy, report in state.copied.items() if copy in orders)
        yield from (
            report for copy, report in state.hashed.items() if copy in orders and not orders[copy].hash
        )
        yield from (
            report for dataset, report in state.dropped.items() if self.region in drops.get(dataset, ())
        )


def _note_begun(state: DataServiceState, region: RegionName, begun: Begun) -> None:
    """Remember the orders for which the doer was asked, and forget those that the log has settled."""
    orders = state.queue.copies.orders
    drops = [name for name, regions in state.queue.copies.drops.items() if region in regions]
    state.copies.update(begun.copies)
    state.copies.difference_update(begun.forgotten)
    state.hashes.update(begun.hashes)
    state.hashes.intersection_update(orders)
    state.drops.update(begun.drops)
    state.drops.intersection_update(drops)
    state.copied = {copy: report for copy, report in state.copied.items() if copy in orders}
    state.hashed = {copy: report for copy, report in state.hashed.items() if copy in state.hashes}
    state.dropped = {name: report for name, report in state.dropped.items() if name in state.drops}
    state.look_at = begun.again_at


def _note_ended(state: DataServiceState, report: ReportCopy | ReportHash | ReportDrop, at: Instant) -> None:
    match report:
        case ReportCopy():
            state.copied[report.copy] = report
        case ReportHash():
            state.hashed[report.copy] = report
        case ReportDrop():
            state.dropped[report.dataset] = report
    soon = after(at, COMMAND_SAY_AGAIN)
    state.look_at = soon if state.look_at is None else min(soon, state.look_at)

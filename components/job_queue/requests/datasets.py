"""Requests about data: operators set where datasets are, storage, links and the policy, and users list datasets."""

from collections import Counter
from collections.abc import Callable, Sequence

from components.job_queue.copies.candidates import expected_in
from components.job_queue.state.queue_state import QueueState
from components.replies import answered, refused
from core.codec import encode
from core.component import Decision
from core.events.copies import CopyFailed
from core.events.data import DataPolicySet, DatasetSet, LinkSet, StorageSet
from core.images.datasets import DatasetRow
from core.messages.base import Envelope, Message
from core.messages.data import (
    DatasetAnswered,
    DatasetsListed,
    DataSettingAnswered,
    ListDatasets,
    ListedDataset,
    SetDataPolicy,
    SetDataset,
    SetLink,
    SetStorage,
)
from core.nouns.data import UNSTATED, CopyFailure
from core.nouns.ids import DatasetName, RegionName
from core.nouns.instant import Instant
from core.nouns.limits import DATASETS_MAX, LISTED_BYTES_MAX, LISTED_MAX
from core.nouns.reasons import Reason
from core.nouns.workload import Phase
from core.rules.data.datasets import problems_of_amount, problems_of_dataset, problems_of_policy

HEARD_OF_DATA: tuple[type[Message], ...] = (SetDataset, ListDatasets, SetStorage, SetLink, SetDataPolicy)


class DataRecords:
    """The queue's deciders for requests about datasets."""

    def __init__(self) -> None:
        self.deciders: dict[type[Message], Callable[[QueueState, Envelope], Decision]] = {
            SetDataset: self._set,
            SetStorage: self._set_storage,
            SetLink: self._set_link,
            SetDataPolicy: self._set_policy,
            ListDatasets: self._list,
        }

    def _set(self, state: QueueState, envelope: Envelope) -> Decision:
        """Set where a dataset is. A repeat is answered again; a refusal names all problems, unknown regions included.

        What is so already is recorded again if copies of the dataset failed, which lets them be tried at once, or are under way, which ends them. Without a size or a
        hash those known stay; a hash that was computed of other content goes with a new size.
        """
        message = envelope.message
        assert isinstance(message, SetDataset)
        rows = state.image.datasets.rows
        row = rows.get(message.dataset, DatasetRow())
        problems = problems_of_dataset(message)
        if message.dataset not in rows and len(rows) >= DATASETS_MAX:
            problems.append(f"dataset: there are {DATASETS_MAX} already, and more cannot be")
        leaving = state.image.copies.drops.get(message.dataset, {})
        problems += [
            f"regions: the copy in {region} is being deleted; name {region} when that is done"
            for region in message.regions
            if region in leaving and region in state.data.services
        ]
        is_new = message.hash and message.hash != row.hash
        if is_new and not message.size and (row.hash or not row.size):
            problems.append("size: state the bytes of what has this hash")
        unknown = _unknown(state, message.regions)
        if problems or unknown:
            return refused(Reason.INVALID if problems else Reason.UNKNOWN_REGION, (*problems, *unknown))
        size = message.size or row.size
        is_same = message.hash in ("", row.hash)
        if row.is_measured and is_same and size < row.size:
            return refused(Reason.BELOW_STORED, (f"size: {row.size} bytes are there",))
        told = message.hash or (row.hash if size == row.size else "")
        wanted = (tuple(sorted(message.regions)), message.home, size, message.is_pinned, told)
        is_so = wanted == (row.regions, row.home, row.size, row.is_pinned, row.hash)
        standing = _ended(state, message.dataset)
        if is_so and (standing or state.image.copies.failed_of(message.dataset)):
            is_so = message.revision != row.revision
        if is_so and row.revision and message.revision in (row.revision, row.revision - 1):
            return answered(DatasetAnswered(message.dataset, row.revision))
        if message.revision != row.revision:
            return refused(Reason.SUPERSEDED, (f"revision: it is {row.revision} now",))
        event = DatasetSet(
            message.dataset,
            row.revision + 1,
            message.regions,
            message.home,
            message.by,
            size,
            message.is_pinned,
            told,
        )
        return answered(DatasetAnswered(message.dataset, event.revision), *standing, event)

    def _set_storage(self, state: QueueState, envelope: Envelope) -> Decision:
        """Set how many bytes of datasets a region may hold: no fewer than are there or on their way."""
        message = envelope.message
        assert isinstance(message, SetStorage)
        settings = state.image.data_settings
        newest = settings.storage_revision(message.region)
        problems = problems_of_amount("bytes", message.bytes, UNSTATED, message.by)
        unknown = _unknown(state, (message.region,))
        if problems or unknown:
            return refused(Reason.INVALID if problems else Reason.UNKNOWN_REGION, (*problems, *unknown))
        if message.bytes != UNSTATED and message.region not in state.data.services:
            return refused(Reason.NO_DATA_SERVICE, (f"region: {message.region}",))
        used = state.data.stored[message.region] + expected_in(state, message.region)
        if UNSTATED < message.bytes < used:
            return refused(
                Reason.BELOW_STORED, (f"bytes: {used} are in {message.region}, or on their way there",)
            )
        is_so = newest and settings.storage_of(message.region) == message.bytes
        event = StorageSet(message.region, newest + 1, message.bytes, message.by)
        return _recorded(event, newest, message.revision, is_so=bool(is_so))

    def _set_link(self, state: QueueState, envelope: Envelope) -> Decision:
        """Set how fast copies may go from one region to another. Copies under way go on as they are."""
        message = envelope.message
        assert isinstance(message, SetLink)
        settings, ends = state.image.data_settings, (message.source, message.target)
        newest = settings.link_revision(*ends)
        problems = problems_of_amount("rate", message.rate, 0, message.by)
        if message.source == message.target:
            problems.append("target: a link goes to another region")
        unknown = _unknown(state, ends)
        if problems or unknown:
            return refused(Reason.INVALID if problems else Reason.UNKNOWN_REGION, (*problems, *unknown))
        is_so = newest and settings.rate_of(*ends) == message.rate
        event = LinkSet(*ends, newest + 1, message.rate, message.by)
        return _recorded(event, newest, message.revision, is_so=bool(is_so))

    def _set_policy(self, state: QueueState, envelope: Envelope) -> Decision:
        """Set the limits of the plane's own actions on data."""
        message = envelope.message
        assert isinstance(message, SetDataPolicy)
        settings = state.image.data_settings
        problems = problems_of_policy(message.policy, message.by)
        if problems:
            return refused(Reason.INVALID, tuple(problems))
        newest = settings.policy_revision
        event = DataPolicySet(newest + 1, message.policy, message.by)
        is_so = bool(newest) and settings.policy == message.policy
        return _recorded(event, newest, message.revision, is_so=is_so)

    def _list(self, state: QueueState, envelope: Envelope) -> Decision:
        """Return a page of datasets: all that an operator ever set, even to no region, and all that pending workloads read."""
        message = envelope.message
        assert isinstance(message, ListDatasets)
        rows = state.image.datasets.rows
        waiting = Counter(
            name
            for row in state.image.workloads.rows.values()
            if row.phase == Phase.PENDING
            for name in row.spec.data
        )
        demand = _demand(state, envelope.at)
        copying: dict[DatasetName, list[RegionName]] = {}
        for order in state.image.copies.orders.values():
            copying.setdefault(order.dataset, []).append(order.target)
        readers: Counter[DatasetName] = Counter()
        for (name, _), count in state.data.readers.items():
            readers[name] += count
        count_max = min(max(1, message.count_max), LISTED_MAX)
        listed: list[ListedDataset] = []
        bytes_left = LISTED_BYTES_MAX
        for name in sorted(rows.keys() | waiting.keys()):
            row = rows.get(name, DatasetRow())
            if name <= message.after:
                continue
            line = ListedDataset(
                name,
                row.regions,
                row.home,
                row.revision,
                waiting[name],
                row.size,
                row.is_pinned,
                readers[name],
                demand[name],
                tuple(sorted(copying.get(name, ()))),
                tuple(sorted(state.image.copies.drops.get(name, ()))),
            )
            bytes_left -= len(encode(line))
            if listed and (len(listed) == count_max or bytes_left < 0):
                return answered(DatasetsListed(tuple(listed), listed[-1].dataset))
            listed.append(line)
        return answered(DatasetsListed(tuple(listed), DatasetName("")))


def _ended(state: QueueState, dataset: DatasetName) -> list[CopyFailed]:
    """Return the ends of the copies of a dataset that are under way, which an operator's word ends; the day has the other bytes back."""
    return [
        CopyFailed(
            number, dataset, order.target, CopyFailure.DATASET_CHANGED, state.data.moved.get(number, 0)
        )
        for number, order in state.image.copies.orders.items()
        if order.dataset == dataset
    ]


def _unknown(state: QueueState, regions: Sequence[RegionName]) -> list[str]:
    """Return a problem for each region that is not in the fleet."""
    return [f"regions: {region} is not in the fleet" for region in regions if region not in state.regions]


def _recorded(
    event: StorageSet | LinkSet | DataPolicySet, newest: int, seen: int, *, is_so: bool
) -> Decision:
    """Record a setting that was asked for at its newest revision. A repeat is answered again."""
    if is_so and seen in (newest, newest - 1):
        return answered(DataSettingAnswered(newest))
    if seen != newest:
        return refused(Reason.SUPERSEDED, (f"revision: it is {newest} now",))
    return answered(DataSettingAnswered(event.revision), event)


def _demand(state: QueueState, now: Instant) -> Counter[DatasetName]:
    """Return the GPU milli of the work that reads each dataset."""
    readings = state.image.readings
    found: Counter[DatasetName] = Counter()
    for row in readings.rows.values():
        gpus = readings.gpus_of(row, now)
        for name in row.data:
            found[name] += gpus
    return found

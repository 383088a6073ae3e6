"""Requests about datasets: operators set the regions that hold each dataset, and users list them."""

from collections import Counter
from collections.abc import Callable

from components.job_queue.state.queue_state import QueueState
from components.replies import answered, refused
from core.codec import encode
from core.component import Decision
from core.events.data import DatasetSet
from core.images.datasets import DatasetRow
from core.messages.base import Envelope, Message
from core.messages.data import DatasetAnswered, DatasetsListed, ListDatasets, ListedDataset, SetDataset
from core.nouns.ids import DatasetName
from core.nouns.limits import DATASETS_MAX, LISTED_BYTES_MAX, LISTED_MAX
from core.nouns.reasons import Reason
from core.nouns.workload import Phase
from core.rules.datasets import problems_of_dataset

HEARD_OF_DATA: tuple[type[Message], ...] = (SetDataset, ListDatasets)


class DataRecords:
    """The queue's deciders for requests about datasets."""

    def __init__(self) -> None:
        self.deciders: dict[type[Message], Callable[[QueueState, Envelope], Decision]] = {
            SetDataset: self._set,
            ListDatasets: self._list,
        }

    def _set(self, state: QueueState, envelope: Envelope) -> Decision:
        """Set a dataset's regions and home. A repeat is answered again; a refusal names all problems, unknown regions included."""
        message = envelope.message
        assert isinstance(message, SetDataset)
        rows = state.image.datasets.rows
        row = rows.get(message.dataset, DatasetRow())
        problems = problems_of_dataset(message.dataset, message.regions, message.home, message.by)
        if message.dataset not in rows and len(rows) >= DATASETS_MAX:
            problems.append(f"dataset: there are {DATASETS_MAX} already, and more cannot be")
        unknown = [
            f"regions: {region} is not in the fleet"
            for region in message.regions
            if region not in state.regions
        ]
        if problems or unknown:
            return refused(Reason.INVALID if problems else Reason.UNKNOWN_REGION, (*problems, *unknown))
        is_so = (row.regions, row.home) == (tuple(sorted(message.regions)), message.home)
        if is_so and row.revision and message.revision in (row.revision, row.revision - 1):
            return answered(DatasetAnswered(message.dataset, row.revision))
        if message.revision != row.revision:
            return refused(Reason.SUPERSEDED, (f"revision: it is {row.revision} now",))
        event = DatasetSet(message.dataset, row.revision + 1, message.regions, message.home, message.by)
        return answered(DatasetAnswered(message.dataset, event.revision), event)

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
        count_max = min(max(1, message.count_max), LISTED_MAX)
        listed: list[ListedDataset] = []
        bytes_left = LISTED_BYTES_MAX
        for name in sorted(rows.keys() | waiting.keys()):
            row = rows.get(name, DatasetRow())
            if name <= message.after:
                continue
            line = ListedDataset(name, row.regions, row.home, row.revision, waiting[name])
            bytes_left -= len(encode(line))
            if listed and (len(listed) == count_max or bytes_left < 0):
                return answered(DatasetsListed(tuple(listed), listed[-1].dataset))
            listed.append(line)
        return answered(DatasetsListed(tuple(listed), DatasetName("")))

"""Answers to operators about copies, the plan, storage, links and the policy."""

from collections import Counter
from collections.abc import Callable
from itertools import islice

from components.job_queue.copies.candidates import expected_in
from components.job_queue.state.queue_state import QueueState
from components.replies import answered, refused
from core.component import Decision
from core.messages.base import Envelope, Message
from core.messages.copies import (
    CopiesListed,
    DataPlanShown,
    FailedCopy,
    LeavingCopy,
    ListCopies,
    ListedCopy,
    ShowDataPlan,
)
from core.messages.data import DataSettingsShown, ShowDataSettings, ShownLink, ShownStorage
from core.nouns.ids import DatasetName, RegionName
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.limits import LISTED_MAX, NAME_LENGTH_MAX
from core.nouns.reasons import Reason
from core.rules.data.copies import day_limit, spent_now

ASKED_OF_COPIES: tuple[type[Message], ...] = (ListCopies, ShowDataPlan, ShowDataSettings)


class CopyQueries:
    """The queue's deciders for questions about copies."""

    def __init__(self) -> None:
        self.deciders: dict[type[Message], Callable[[QueueState, Envelope], Decision]] = {
            ListCopies: self._list,
            ShowDataPlan: self._plan,
            ShowDataSettings: self._settings,
        }

    def _list(self, state: QueueState, envelope: Envelope) -> Decision:
        """Return the copies under way, those that failed, and those that are being deleted; refuse a dataset that no operator placed."""
        message = envelope.message
        assert isinstance(message, ListCopies)
        copies, now, wanted = state.image.copies, envelope.at, message.dataset
        if wanted and wanted not in state.image.datasets.rows:
            return refused(Reason.UNKNOWN_DATASET, (f"dataset: {wanted[:NAME_LENGTH_MAX]}",))
        leaving = (
            LeavingCopy(dataset, region, is_cleared)
            for dataset, regions in copies.drops.items()
            for region, is_cleared in regions.items()
            if wanted in ("", dataset)
        )
        return answered(
            CopiesListed(
                copies_of(state, (wanted,) if wanted else None, now),
                failures_of(state, (wanted,) if wanted else None, now),
                tuple(islice(leaving, LISTED_MAX)),
                len(copies.actions),
                sum(action.bytes for action in copies.actions.values()),
            )
        )

    def _plan(self, state: QueueState, _: Envelope) -> Decision:
        """Return the newest plan and its actions that are left."""
        copies = state.image.copies
        plan, left = copies.plan, copies.actions.values()
        return answered(
            DataPlanShown(
                plan.number,
                Instant(plan.at),
                plan.actions,
                plan.gain,
                plan.bytes,
                plan.before,
                plan.after,
                len(left),
                sum(action.bytes for action in left),
                tuple(islice(left, LISTED_MAX)),
            )
        )

    def _settings(self, state: QueueState, envelope: Envelope) -> Decision:
        """Return storage, links and policy."""
        settings, copies = state.image.data_settings, state.image.copies
        limit = day_limit(settings.policy, state.data.total)
        under_way = Counter((order.source, order.target) for order in copies.orders.values())
        regions = sorted(state.regions)
        storage = tuple(
            ShownStorage(
                region,
                settings.storage_of(region),
                settings.storage_revision(region),
                state.data.stored[region],
                expected_in(state, region),
                region in state.data.services,
            )
            for region in regions
        )
        links = tuple(
            ShownLink(
                source,
                target,
                settings.rate_of(source, target),
                settings.link_revision(source, target),
                under_way[source, target],
            )
            for source in regions
            for target in regions
            if source != target
        )
        return answered(
            DataSettingsShown(
                storage,
                links,
                settings.policy,
                settings.policy_revision,
                state.data.total,
                limit,
                spent_now(copies, envelope.at, limit),
            )
        )


def copies_of(
    state: QueueState, datasets: tuple[DatasetName, ...] | None, now: Instant
) -> tuple[ListedCopy, ...]:
    """Return the copies under way of these datasets, or of all, the first `LISTED_MAX`."""
    orders = (
        ListedCopy(
            number,
            order.dataset,
            order.source,
            order.target,
            order.bytes,
            order.rate,
            state.data.moved.get(number, 0),
            Nanoseconds(max(0, now - order.ordered_at)),
            order.is_move,
            bool(order.hash),
            order.wanted_by,
            order.level,
        )
        for number, order in state.image.copies.orders.items()
        if datasets is None or order.dataset in datasets
    )
    return tuple(islice(orders, LISTED_MAX))


def failures_of(
    state: QueueState, datasets: tuple[DatasetName, ...] | None, now: Instant
) -> tuple[FailedCopy, ...]:
    """Return the copies of these datasets, or of all, that failed and were not made since, the newest first, `LISTED_MAX` at most."""
    named = (
        (DatasetName(key.partition(">")[0]), RegionName(key.partition(">")[2]), one)
        for key, one in reversed(state.image.copies.failures.items())
    )
    found = (
        FailedCopy(dataset, target, one.times, one.reason, Nanoseconds(now - one.at))
        for dataset, target, one in named
        if datasets is None or dataset in datasets
    )
    return tuple(islice(found, LISTED_MAX))

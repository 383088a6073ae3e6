"""Waiting work that reads data: a fact a minute, by which the planner hears of waits.

A group of workloads waits for `no_data` or `data_not_fresh` if that is why no region with the hardware is asked; else for the reason why
the regions that have its data refuse it.
"""

from collections import Counter

from components.job_queue.copies.candidates import WaitingGroup, waiting_groups
from components.job_queue.state.asked_shape import AskedShape
from components.job_queue.state.copy_notes import ReadsLooked
from components.job_queue.state.queue_state import QueueState
from core.component import NOTHING, Decision
from core.events.data import DataWaited, WaitingReads
from core.images.readings import types_of
from core.nouns.data import band_of
from core.nouns.ids import DatasetName
from core.nouns.instant import Instant, after
from core.nouns.limits import WAITING_READS_INTERVAL, WAITING_READS_MAX
from core.nouns.placement import gpu_milli_of
from core.nouns.reasons import LASTING, Reason

Key = tuple[tuple[DatasetName, ...], tuple[str, ...], int, str]
"""Datasets, node types, band and reason."""


def note_waiting_reads(state: QueueState, now: Instant) -> Decision:
    """Return the fact of waiting work that reads data, once in `WAITING_READS_INTERVAL` while there is some."""
    data = state.data
    if data.reads_at is None or data.reads_at > now:
        return NOTHING
    if not data.pending and not state.image.readings.waiting:
        return Decision(events=(ReadsLooked(None),))
    workloads: Counter[Key] = Counter()
    gpus: Counter[Key] = Counter()
    counted: set[str] = set()
    """Shapes: a shape counts once, in its first group, with all of its workloads."""
    for group in waiting_groups(state, now):
        reason = None if group.row.shape in counted else _reason(state, group)
        if reason is not None:
            counted.add(group.row.shape)
            spec = group.row.spec
            key = tuple(sorted(spec.data)), types_of(spec.jobs), band_of(group.level), str(reason)
            count = state.shapes[group.row.shape]
            workloads[key] += count
            gpus[key] += count * gpu_milli_of(spec.jobs)
    most = sorted(gpus, key=lambda key: (-gpus[key], key))[:WAITING_READS_MAX]
    rows = tuple(WaitingReads(*key, workloads[key], gpus[key]) for key in most)
    looked = ReadsLooked(after(now, WAITING_READS_INTERVAL))
    if not rows and not state.image.readings.waiting:
        return Decision(events=(looked,))
    return Decision(events=(DataWaited(rows, is_cut=len(gpus) > len(most)), looked))


def _reason(state: QueueState, group: WaitingGroup) -> Reason | None:
    """Return why a group waits, as far as that has to do with data; None: a region may still take it, or only the queue's own rules bar it."""
    reasons = group.reasons.values()
    if None not in reasons:
        return next((one for one in (Reason.NO_DATA, Reason.DATA_NOT_FRESH) if one in reasons), None)
    said = [state.auctions.refused_by(asked) for asked in _asked(state, group)]
    refused = {region: Reason(one.reason) for answers in said for region, one in answers.items()}
    asked_in = [region for region, reason in group.reasons.items() if reason is None]
    if not all(region in refused for region in asked_in):
        return None
    return next((refused[region] for region in asked_in if refused[region] in LASTING), None)


def _asked(state: QueueState, group: WaitingGroup) -> list[AskedShape]:
    """Return the requests that were made for the group's shape at its level."""
    shapes = state.auctions.shapes.get(group.row.shape, {})
    return [shape for shape in shapes if shape.level == group.level]

"""Rules of copies: bytes of a day, retries after failures, and how a plan is cut into facts.

Bytes of a day: the copies ordered in one day (UTC) have at most `day_permille` of the bytes of all datasets, or `day_bytes_min`. A copy that is larger than
a whole day's bytes may be ordered in a day without others; the following days pay for that. So the copies of any n days have at most n
days' bytes and those of the largest dataset.
"""

from collections.abc import Iterator, Sequence

from core.codec import encode
from core.images.copies import Copies, FailedCopies, copy_key, day_of
from core.images.datasets import DatasetRow, Datasets
from core.nouns.data import ActionKind, DataPolicy, PlannedAction
from core.nouns.ids import DatasetName, RegionName
from core.nouns.instant import SECOND, Instant, Nanoseconds, after
from core.nouns.limits import COPY_RETRY, COPY_RETRY_MAX, COPY_TRIES_MAX, COPY_TRY_AGAIN, PLAN_PART_BYTES_MAX

PLAN_PART = 3, 4
"""Part of a day's bytes that copies of the plan may have in its first hour; the rest is kept for copies that work waits for, and an equal part
of the rest is given to the plan with each hour, as less time is left in which work may need that."""
HOUR, HOURS = 3_600 * SECOND, 24


def bytes_of(datasets: Datasets) -> int:
    """Return the bytes of all datasets that are somewhere, one copy of each."""
    return sum(row.size for row in datasets.rows.values() if row.regions)


def day_limit(policy: DataPolicy, all_bytes: int) -> int:
    """Return the bytes that the copies of one day may have."""
    return max(policy.day_bytes_min, all_bytes * policy.day_permille // 1000)


def spent_now(copies: Copies, now: Instant, limit: int) -> int:
    """Return the bytes that count in the present day."""
    return copies.spent_on(max(day_of(now), copies.day), limit)


def fits_day(spent: int, size: int, limit: int) -> bool:
    """Return whether a copy of so many bytes may be ordered in a day of which so many are spent.

    limit   `day_limit`, or `planned_limit` for a copy that no work waits for
    """
    return limit > 0 and (spent == 0 or spent + size <= limit)


def planned_limit(limit: int, now: Instant) -> int:
    """Return the part of a day's bytes that copies of the plan may have by now."""
    part, whole = PLAN_PART
    hour = now // HOUR % HOURS
    return limit * part // whole + limit * (whole - part) * hour // (whole * HOURS)


def may_try(copies: Copies, dataset: DatasetName, target: RegionName, now: Instant) -> bool:
    """Return whether a copy may be tried again after its failures: soon, and after `COPY_TRIES_MAX` in a row later and later."""
    known = copies.failures.get(copy_key(dataset, target))
    return known is None or now >= tried_again_at(known)


def tried_again_at(failed: FailedCopies) -> Instant:
    """Return when a copy that failed is tried again."""
    if failed.times < COPY_TRIES_MAX:
        return after(Instant(failed.at), Nanoseconds(COPY_TRY_AGAIN * failed.times))
    wait = min(COPY_RETRY << min(failed.times - COPY_TRIES_MAX, 16), COPY_RETRY_MAX)
    return after(Instant(failed.at), Nanoseconds(wait))


def next_chance(copies: Copies, now: Instant) -> Instant:
    """Return when time alone may allow an order: the next hour, with the next day, or the next try of a copy that failed."""
    tries = (tried_again_at(failed) for failed in copies.failures.values())
    return min((Instant((now // HOUR + 1) * HOUR), *(at for at in tries if at > now)))


def is_carried_out(action: PlannedAction, row: DatasetRow) -> bool:
    """Return whether a dataset lies as a planned action wants."""
    match action.kind:
        case ActionKind.DROP:
            return action.source not in row.regions
        case ActionKind.COPY:
            return action.target in row.regions
    return row.home == action.target


def parts_of(actions: Sequence[PlannedAction]) -> Iterator[tuple[PlannedAction, ...]]:
    """Yield a plan's actions in parts of at most `PLAN_PART_BYTES_MAX`; one empty part for none."""
    part: list[PlannedAction] = []
    size = 0
    for action in actions:
        length = len(encode(action))
        if part and size + length > PLAN_PART_BYTES_MAX:
            yield tuple(part)
            part, size = [], 0
        part.append(action)
        size += length
    yield tuple(part)

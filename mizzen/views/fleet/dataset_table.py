"""Data as tables: where each dataset is and who reads it, storage and links of regions, copies under way, and the plan."""

from collections.abc import Iterable

from core.messages.copies import CopiesListed, DataPlanShown, ListedCopy
from core.messages.data import DataSettingsShown, ListedDataset
from core.messages.planning import ConcernShown
from core.nouns.data import DAY_SECONDS, UNSTATED, ActionKind, DataFigures, DataPolicy
from core.nouns.instant import SECOND, Instant
from core.nouns.tenant import FRESH_LEVEL
from mizzen.jobs.values import span_text
from mizzen.views.phrases.copy_text import failure_text
from mizzen.views.phrases.durations import short_text
from mizzen.views.phrases.planner_text import planner_text
from mizzen.views.phrases.text import bytes_text, columns_text

COLUMNS = ("DATASET", "SIZE", "HOME", "REGIONS", "READERS", "WAITING", "GPUS")
RIGHT = ("SIZE", "READERS", "WAITING", "GPUS")
NOWHERE = "-"
SHOWN_MAX = 20
"""Steps of a plan in its table."""


def table_of(rows: Iterable[ListedDataset], width: int | None) -> list[str]:
    """A line for each, by name."""
    return columns_text(COLUMNS, [_cells(row) for row in rows], width, RIGHT)


def _cells(row: ListedDataset) -> tuple[object, ...]:
    there = [
        *row.regions,
        *(f"+{region}" for region in row.copying),
        *(f"-{region}" for region in row.leaving),
    ]
    return (
        f"{row.dataset}*" if row.is_pinned else row.dataset,
        bytes_text(row.size) if row.size else NOWHERE,
        row.home or NOWHERE,
        ",".join(there) or NOWHERE,
        row.readers,
        row.waiting,
        f"{row.gpu_milli / 1000:.3g}" if row.gpu_milli else 0,
    )


def storage_lines(shown: DataSettingsShown, width: int | None) -> list[str]:
    """Storage by region."""
    rows = [
        (
            one.region,
            NOWHERE if one.bytes == UNSTATED else bytes_text(one.bytes),
            bytes_text(one.used),
            bytes_text(one.expected),
            "yes" if one.has_service else "no",
        )
        for one in shown.storage
    ]
    columns = ("REGION", "STORAGE", "USED", "COMING", "SERVICE")
    return columns_text(columns, rows, width, ("STORAGE", "USED", "COMING"))


def link_lines(shown: DataSettingsShown, width: int | None) -> list[str]:
    """Links between regions, with the rate of all copies together."""
    rows = [
        (one.source, one.target, f"{bytes_text(one.rate)}/s", "" if one.revision else "default", one.copies)
        for one in shown.links
    ]
    return columns_text(("FROM", "TO", "RATE", "SET", "COPIES"), rows, width, ("RATE", "COPIES"))


def policy_lines(shown: DataSettingsShown) -> list[str]:
    """The policy, with today's bytes."""
    return [
        *_policy(shown.policy),
        f"today         {bytes_text(shown.day_bytes)} of {bytes_text(shown.day_limit)} ordered",
    ]


def _policy(policy: DataPolicy) -> list[str]:
    return [
        f"automatic     {'on' if policy.is_automatic else 'off'}",
        f"per day       {policy.day_permille / 10:g} % of the bytes of all datasets, {bytes_text(policy.day_bytes_min)} at least",
        f"extra         {policy.extra_permille / 10:g} % of them, for copies beyond one of each",
        f"disaster      {'a copy of each outside its home' if policy.has_disaster_copies else 'no copies for it'}",
        f"plans         a day apart{_sooner(policy)}",
    ]


def _sooner(policy: DataPolicy) -> str:
    """Return when plans are made before a day is over."""
    if policy.replan_seconds >= DAY_SECONDS:
        return ""
    return f", or {span_text(policy.replan_seconds * SECOND)} where demand, waits or GPUs moved"


def copy_lines(listed: CopiesListed, width: int | None) -> list[str]:
    """Copies under way, failures, deletions, and the rest of the plan."""
    lines = columns_text(
        ("COPY", "DATASET", "FROM", "TO", "SIZE", "DONE", "LEFT", "FOR"),
        [_copy(one) for one in listed.orders],
        width,
        ("COPY", "SIZE", "DONE", "LEFT"),
    )
    lines += [failure_text(one) for one in listed.failed]
    lines += [
        f"{one.dataset} leaves {one.region}"
        + ("" if one.is_cleared else ", when no attempt reads it any more")
        for one in listed.leaving
    ]
    if listed.left:
        lines.append(
            f"{listed.left} steps of the plan are left, with {bytes_text(listed.left_bytes)} to copy"
        )
    return lines


def _copy(one: ListedCopy) -> tuple[object, ...]:
    done = f"{100 * one.moved // one.bytes}%" if one.bytes else NOWHERE
    left = short_text(SECOND * max(0, one.bytes - one.moved) // one.rate)
    why = one.wanted_by or ("move" if one.is_move else "plan")
    if not one.is_hashed:
        return one.copy, one.dataset, one.source, one.target, bytes_text(one.bytes), "hashing", left, why
    return one.copy, one.dataset, one.source, one.target, bytes_text(one.bytes), done, left, why


def plan_lines(
    shown: DataPlanShown, planner: ConcernShown | None, now: Instant, width: int | None
) -> list[str]:
    """The newest plan, what it gains, its next steps, and why there is none that is newer.

    planner   of the concern for data; None: no planner answers
    """
    why = planner_text(planner)
    if not shown.number:
        if not why and planner is not None and planner.again_in >= 0:
            why = f"the planner looks in {short_text(planner.again_in)}"
        return [f"there is no plan yet{': ' if why else ''}{why}"]
    age = short_text(max(0, now - shown.at))
    lines = [
        f"plan {shown.number}, {age} ago: {shown.actions} steps, {bytes_text(shown.bytes)} to copy",
        *columns_text(
            ("", "WORST", "SPREAD", "AT HOME", "WITH GPU", "EXTRA"),
            [("before", *_figures(shown.before)), ("after", *_figures(shown.after))],
            width,
            ("WORST", "SPREAD", "AT HOME", "WITH GPU", "EXTRA"),
        ),
        f"but for EXTRA these count work at levels {FRESH_LEVEL} and above",
        f"{shown.left} steps are left, with {bytes_text(shown.left_bytes)} to copy",
    ]
    if shown.next:
        rows = [
            (
                action.kind.value,
                action.dataset,
                action.source,
                NOWHERE if action.kind is ActionKind.DROP else action.target,
                bytes_text(action.bytes),
                action.level,
            )
            for action in shown.next[:SHOWN_MAX]
        ]
        lines += columns_text(("STEP", "DATASET", "FROM", "TO", "COPIES", "LEVEL"), rows, width, ("COPIES",))
    return [*lines, *([why] if why else [])]


def _figures(figures: DataFigures) -> tuple[str, ...]:
    return (
        f"{figures.worst / 1000:.2f}",
        f"{figures.spread / 1000:.2f}",
        f"{figures.home_rate / 10:.1f}%",
        f"{figures.collocation / 10:.1f}%",
        f"{figures.extra_storage / 10:.0f}%",
    )

"""What operators set of data beside the datasets: storage of regions, links between them, and the policy."""

from collections.abc import Callable

from msgspec.structs import replace

from bus.port import Bus
from core.messages.base import Message
from core.messages.copies import DataPlanShown, ShowDataPlan
from core.messages.data import (
    DataSettingAnswered,
    DataSettingsShown,
    SetDataPolicy,
    SetLink,
    SetStorage,
    ShowDataSettings,
)
from core.messages.planning import ConcernShown, ShowConcern
from core.nouns.data import UNSTATED, DataPolicy
from core.nouns.ids import RegionName
from core.nouns.instant import SECOND
from core.nouns.limits import DATA_BYTES_MAX, DATA_LOOK, DATA_LOOK_MAX, EXTRA_PERMILLE_MAX
from core.nouns.pool import PERMILLE
from mizzen.actions.workloads import TRIES_MAX, before_try
from mizzen.connect.plane import ask, ask_on_revision, submitter
from mizzen.jobs.values import Unreadable, decimal_of, exact_bytes_of, span_of, span_text
from mizzen.terminal.output import MISUSED, CommandError

NONE = "none"
"""In place of an amount of storage: nobody says how much there is."""


async def settings_of(bus: Bus) -> DataSettingsShown:
    """Return all that is set. Raises CommandError."""
    return await ask(bus, ShowDataSettings(), DataSettingsShown)


async def newest_plan(bus: Bus) -> tuple[DataPlanShown, ConcernShown | None]:
    """Return the newest plan for data, and the state of the planner; None: no planner answers. Raises CommandError."""
    shown = await ask(bus, ShowDataPlan(), DataPlanShown)
    try:
        return shown, await ask(bus, ShowConcern("data"), ConcernShown)
    except CommandError:
        return shown, None


async def set_storage(bus: Bus, region: str, amount: str) -> DataSettingsShown:
    """State how many bytes of datasets a region may hold. Raises CommandError."""
    size = UNSTATED if amount == NONE else size_of(amount, "size")
    where = RegionName(region)

    def message(shown: DataSettingsShown) -> Message:
        newest = next((one.revision for one in shown.storage if one.region == where), 0)
        return SetStorage(where, size, newest, submitter())

    return await _set(bus, message)


async def set_link(bus: Bus, source: str, target: str, rate: str) -> DataSettingsShown:
    """State how fast copies may go from one region to another. Raises CommandError."""
    count = size_of(rate.removesuffix("/s"), "rate")
    ends = RegionName(source), RegionName(target)

    def message(shown: DataSettingsShown) -> Message:
        newest = next((one.revision for one in shown.links if (one.source, one.target) == ends), 0)
        return SetLink(*ends, count, newest, submitter())

    return await _set(bus, message)


async def set_policy(bus: Bus, wish: Callable[[DataPolicy], DataPolicy]) -> DataSettingsShown:
    """Set the fields of the policy that the wish changes. Raises CommandError."""
    return await _set(
        bus, lambda shown: SetDataPolicy(wish(shown.policy), shown.policy_revision, submitter())
    )


def wish_of(
    *, automatic: str, per_day: str, at_least: str, extra: str, disaster: str, replan: str
) -> Callable[[DataPolicy], DataPolicy] | None:
    """Return what the options make of a policy; None: they name nothing. Raises CommandError."""
    fields: dict[str, bool | int] = {}
    for name, text, field in (
        ("automatic", automatic, "is_automatic"),
        ("disaster", disaster, "has_disaster_copies"),
    ):
        if text and text not in ("on", "off"):
            raise CommandError(f"{name}: {text[:80]} is neither on nor off", MISUSED)
        if text:
            fields[field] = text == "on"
    for name, text, field, most in (
        ("per_day", per_day, "day_permille", PERMILLE),
        ("extra", extra, "extra_permille", EXTRA_PERMILLE_MAX),
    ):
        if text:
            fields[field] = _permille(name, text, most)
    if at_least:
        fields["day_bytes_min"] = size_of(at_least, "at_least")
    if replan:
        try:
            span = span_of(replan)
        except Unreadable as error:
            raise CommandError(f"replan: {error}", MISUSED) from error
        if not DATA_LOOK <= span <= DATA_LOOK_MAX:
            text = f"replan: from {span_text(DATA_LOOK)} to {span_text(DATA_LOOK_MAX)}, and not {replan[:80]}"
            raise CommandError(text, MISUSED)
        fields["replan_seconds"] = span // SECOND
    return (lambda policy: replace(policy, **fields)) if fields else None


def size_of(text: str, field: str) -> int:
    """Return an amount of bytes: none, or one up to an exbibyte. Raises CommandError."""
    try:
        amount = exact_bytes_of(text)
    except Unreadable as error:
        raise CommandError(f"{field}: {error}", MISUSED) from error
    if 0 < amount < 1:
        raise CommandError(f"{field}: {text[:80]} is less than a byte", MISUSED)
    if amount > DATA_BYTES_MAX:
        raise CommandError(f"{field}: {text[:80]} is more than an exbibyte", MISUSED)
    return int(amount)


def _permille(name: str, text: str, most: int) -> int:
    """Return a percentage in thousandths. Raises CommandError."""
    try:
        permille = int(10 * decimal_of(text.removesuffix("%").strip(), 1))
    except Unreadable as error:
        raise CommandError(f"{name}: {error}", MISUSED) from error
    if not 0 <= permille <= most:
        raise CommandError(f"{name}: from 0 to {most // 10} percent, and not {text[:80]}", MISUSED)
    return permille


async def _set(bus: Bus, message: Callable[[DataSettingsShown], Message]) -> DataSettingsShown:
    """Record a setting on what is set now; once more when somebody else was quicker. Raises CommandError."""
    for number in range(TRIES_MAX):
        await before_try(number)
        if await ask_on_revision(bus, message(await settings_of(bus)), DataSettingAnswered) is not None:
            return await settings_of(bus)
    raise CommandError("others set this all the time; try again in a moment")

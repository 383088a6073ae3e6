"""What operators set of a tenant: its level, what it may hold of GPU types, its budget. Each is a fact of its own."""

import re
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from bus.port import Bus
from core.images import GlobalImage
from core.images.tenants import TenantRow
from core.messages.base import Message
from core.messages.tenants import (
    ListedTenant,
    ListTenants,
    SetBudget,
    SetDeadlineBudget,
    SetEntitlement,
    SetTenant,
    TenantAnswered,
    TenantsListed,
)
from core.nouns.harvest import HarvestUse
from core.nouns.ids import GLOBAL_LOG, TenantName
from core.nouns.instant import Nanoseconds
from core.nouns.tenant import UNLIMITED, Budget
from mizzen.actions.workloads import TRIES_MAX
from mizzen.connect.plane import RequestRefused, ask, ask_on_revision, fetch_image, submitter
from mizzen.jobs.values import Unreadable, span_of
from mizzen.terminal.output import MISUSED, CommandError
from runtime.yaml_tree import shown

_COUNT = re.compile(r"[0-9]{1,12}")
NONE = "none"
SETTING_TEXTS = {
    "level": "level",
    "run_min": "shortest run",
    "pending_max": "ceiling",
    "harvest": "use of harvested capacity",
}


class Wish(Struct, frozen=True):
    """What is to be set; None: as it is."""

    gpus: tuple[tuple[str, int], ...] = ()
    """By GPU type, what is guaranteed."""
    borrow_max: int | None = None
    """Of each of these types."""
    is_lent: bool | None = None
    level: int | None = None
    run_min: Nanoseconds | None = None
    pending_max: int | None = None
    budget: Budget | None = None
    has_no_budget: bool = False
    is_forced: bool = False
    harvest: HarvestUse | None = None


def wish_of(
    gpus: Sequence[str],
    *,
    borrow: str,
    lend: str,
    level: str,
    run_min: str,
    budget: str,
    is_forced: bool,
    pending_max: str = "",
) -> Wish:
    """What is meant by the options; an empty one says nothing. Raises CommandError with everything that is wrong."""
    problems: list[str] = []
    counts: dict[str, int] = {}
    for text in gpus:
        name, _, count = text.partition("=")
        if not name or not _COUNT.fullmatch(count):
            problems.append(f"{shown(text)} is no count of GPUs; write for example H100=64")
        elif name in counts:
            problems.append(f"{shown(text)}: {name} is named twice")
        else:
            counts[name] = int(count)
    if borrow and borrow != "all" and not _COUNT.fullmatch(borrow):
        problems.append(
            f"--borrow: {shown(borrow)} is no count of GPUs; write --borrow 16, or all for no limit"
        )
    if lend not in ("", "yes", "no"):
        problems.append(f"--lend: {shown(lend)} is neither yes nor no")
    if (borrow or lend) and not gpus:
        problems.append("--borrow and --lend are of GPU types; name them, as in H100=64")
    if level and not _COUNT.fullmatch(level):
        problems.append(f"--level: {shown(level)} is no level; write --level 4, and 6 for the highest")
    if pending_max and not _COUNT.fullmatch(pending_max):
        problems.append(f"--pending-max: {shown(pending_max)} is no number of workloads")
    least = _read(lambda: span_of(run_min), "--min-run", problems) if run_min else None
    hours, _, period = budget.partition("/")
    span = None
    if budget and budget != NONE:
        if not _COUNT.fullmatch(hours) or not period:
            problems.append(
                f"--budget: {shown(budget)} is no budget; write GPU-hours and for how long, as in 10000/7d"
            )
        else:
            span = _read(lambda: span_of(period), "--budget", problems)
    if not any((gpus, level, run_min, pending_max, budget)):
        problems.append("say what is to be set: TYPE=COUNT, --level, --min-run, --pending-max or --budget")
    if problems:
        if len(problems) == 1:
            raise CommandError(problems[0], MISUSED)
        raise CommandError(f"{len(problems)} things are wrong; nothing was asked for", MISUSED, problems)
    return Wish(
        tuple(counts.items()),
        None if not borrow else UNLIMITED if borrow == "all" else int(borrow),
        None if not lend else lend == "yes",
        int(level) if level else None,
        least,
        int(pending_max) if pending_max else None,
        Budget(int(hours), span) if span is not None else None,
        budget == NONE,
        is_forced,
    )


class DeadlineWish(Struct, frozen=True):
    """How much of a tenant's work may be under deadlines; no budget: as much as it likes."""

    budget: Budget | None


def deadline_budget_of(gpu_hours: str, period: str) -> DeadlineWish | None:
    """What is meant by the options, None by none. Raises CommandError with everything that is wrong."""
    if not gpu_hours and not period:
        return None
    if gpu_hours == NONE and not period:
        return DeadlineWish(None)
    problems: list[str] = []
    if gpu_hours == NONE:
        problems.append("--period: without a limit there is no period; write --gpu-hours none alone")
    elif not gpu_hours:
        problems.append("--gpu-hours: say how many in a period, as in --gpu-hours 500")
    elif not _COUNT.fullmatch(gpu_hours):
        problems.append(f"--gpu-hours: {shown(gpu_hours)} is no whole number; write --gpu-hours 500, or none")
    if not period:
        problems.append("--period: say for how long that is, as in --period 7d")
    span = _read(lambda: span_of(period), "--period", problems) if period else None
    if len(problems) == 1:
        raise CommandError(problems[0], MISUSED)
    if problems or span is None:
        raise CommandError(f"{len(problems)} things are wrong; nothing was asked for", MISUSED, problems)
    return DeadlineWish(Budget(int(gpu_hours), span))


async def set_deadline_budget(bus: Bus, tenant: TenantName, wish: DeadlineWish) -> ListedTenant:
    """Let so much of a tenant's work be under deadlines from now on. Raises CommandError."""
    by = submitter()
    await _set(bus, tenant, lambda row: SetDeadlineBudget(tenant, wish.budget, row.revision, by))
    return await tenant_listed(bus, tenant)


async def set_harvest(bus: Bus, tenant: TenantName, use: HarvestUse) -> ListedTenant:
    """Set how far a tenant's functions use harvested capacity. Raises CommandError, also where nobody made the tenant."""
    if not (await tenant_listed(bus, tenant)).revision:
        raise CommandError(_no_tenant(tenant))
    return await set_quota(bus, tenant, Wish(harvest=use))


def _no_tenant(tenant: TenantName) -> str:
    return f"there is no tenant {tenant}; `mizzen tenants` lists them, and `mizzen quota set {tenant} --level 3` makes it"


async def tenant_listed(bus: Bus, tenant: TenantName) -> ListedTenant:
    """Return one tenant as listed. Raises CommandError."""
    row = next((row for row in await tenants_of(bus) if row.tenant == tenant), None)
    if row is None:
        raise CommandError(_no_tenant(tenant))
    return row


def _read(read: Callable[[], Nanoseconds], option: str, problems: list[str]) -> Nanoseconds | None:
    try:
        return read()
    except Unreadable as error:
        problems.append(f"{option}: {error}")
        return None


async def set_quota(bus: Bus, tenant: TenantName, wish: Wish) -> ListedTenant:
    """Record all of it; what is not wished for stays as it is.

    Raises CommandError, with every refusal, when something was refused; what was not is set all the same, and named.
    """
    done, refused = [], []
    last = None
    for name, make in _steps(tenant, wish):
        try:
            await _set(bus, tenant, make)
            done.append(name)
        except RequestRefused as error:
            last = error
            refused.append(f"{name}: {error}")
    if len(refused) == 1 and last is not None and not done:
        raise last
    if refused:
        named = f"only {', '.join(done)} of {tenant} is set" if done else f"nothing of {tenant} is set"
        raise CommandError(f"{named}; mend the refused options, and ask again", problems=refused)
    return next(row for row in await tenants_of(bus) if row.tenant == tenant)


def _steps(tenant: TenantName, wish: Wish) -> list[tuple[str, Callable[[TenantRow], Message]]]:
    """What is said to the queue, on what it has of the tenant then."""
    by = submitter()
    steps: list[tuple[str, Callable[[TenantRow], Message]]] = []
    wished = {
        "level": wish.level,
        "run_min": wish.run_min,
        "pending_max": wish.pending_max,
        "harvest": wish.harvest,
    }
    named = {name: value for name, value in wished.items() if value is not None}
    if named:

        def settings(row: TenantRow) -> Message:
            return SetTenant(tenant, replace(row.settings, **named), row.revision, by)

        steps.append((" and ".join(SETTING_TEXTS[name] for name in named), settings))
    for kind, gpus in wish.gpus:

        def entitlement(row: TenantRow, kind: str = kind, gpus: int = gpus) -> Message:
            was = row.of(kind)
            wanted = replace(
                was,
                gpus=gpus,
                borrow_max=was.borrow_max if wish.borrow_max is None else wish.borrow_max,
                is_lent=was.is_lent if wish.is_lent is None else wish.is_lent,
            )
            return SetEntitlement(tenant, kind, wanted, row.revision, by, wish.is_forced)

        steps.append((kind, entitlement))
    if wish.budget is not None or wish.has_no_budget:
        steps.append(("budget", lambda row: SetBudget(tenant, wish.budget, row.revision, by)))
    return steps


async def _set(bus: Bus, tenant: TenantName, make: Callable[[TenantRow], Message]) -> None:
    for _ in range(TRIES_MAX):
        image, _ = await fetch_image(bus, GLOBAL_LOG, ("tenants",))
        assert isinstance(image, GlobalImage)
        row = image.tenants.rows.get(tenant) or TenantRow()
        if await ask_on_revision(bus, make(row), TenantAnswered) is not None:
            return
    raise CommandError("others set this tenant all the time; try again in a moment")


async def tenants_of(bus: Bus) -> list[ListedTenant]:
    """All of them, by name. Raises CommandError."""
    return list((await tenants_listed(bus)).rows)


async def tenants_listed(bus: Bus) -> TenantsListed:
    """Return all tenants by name in one answer, and what all of them have together. Raises CommandError."""
    rows: list[ListedTenant] = []
    after = TenantName("")
    while True:
        page = await ask(bus, ListTenants(after), TenantsListed)
        rows += page.rows
        if not page.next:
            return replace(page, rows=tuple(rows))
        after = page.next

"""How nodes follow the needs of a region's pools: the policy for plans, and the newest plan applied by hand."""

import re
from collections.abc import Iterable
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from bus.port import Bus
from core.images.pools import Pools
from core.messages.base import Message
from core.messages.pools import (
    ApplyPools,
    PoolingPolicyAnswered,
    PoolsAnswered,
    SetPoolingPolicy,
)
from core.nouns.ids import RegionName
from core.nouns.pool import PERMILLE, percent_text
from core.nouns.pooling import PoolingPolicy
from core.nouns.reasons import Reason
from mizzen.actions.node_scopes import region_of
from mizzen.actions.workloads import TRIES_MAX, before_try
from mizzen.connect.plane import RequestRefused, ask, ask_on_revision, submitter
from mizzen.terminal.node_options import PlaceOptions
from mizzen.terminal.output import MISUSED, CommandError
from mizzen.views.fleet.pool_plans import MoveProgress, progress_of
from mizzen.views.phrases.pool_text import applied_by, nodes_count, staying_text
from mizzen.views.phrases.text import columns_text
from mizzen.views.plane_reads import region_image, region_images, regions_of
from runtime.yaml_tree import shown

SECTIONS = ("capacity", "pools")
_PERCENT = re.compile(r"(\d{1,3})(?:\.(\d))?%", re.ASCII)
Answered = TypeVar("Answered", bound=Message)


class PolicyWish(Struct, frozen=True):
    """Fields of a policy that are to be set; None: as it is."""

    is_automatic: bool | None = None
    at_once: int | None = None
    """Permille of the region's nodes."""


class RegionPolicy(Struct, frozen=True):
    """How nodes of one region follow needs."""

    region: RegionName
    policy: PoolingPolicy


class Applied(Struct, frozen=True):
    """What applying a plan has come to, in nodes."""

    region: RegionName
    number: int
    was_applied: bool
    """Whether the plan was applied before."""
    progress: MoveProgress
    """Of all moves together."""


# The policy.


def policy_wish_of(automatic: str, at_once: str) -> PolicyWish | None:
    """Return the wish that the options make; None: they name nothing. Raises CommandError with everything that is wrong."""
    problems = []
    if automatic and automatic not in ("on", "off"):
        problems.append(f"--automatic: {shown(automatic)} is neither on nor off")
    share = permille_of(at_once)
    if at_once and share is None:
        problems.append(f"--at-once: {shown(at_once)} is no share of a region's nodes; write --at-once 10%")
    refuse(problems)
    if not (automatic or at_once):
        return None
    return PolicyWish(automatic == "on" if automatic else None, share)


def permille_of(text: str) -> int | None:
    """Return a share such as `95%` or `97.5%` in permille; None unless it is above 0 and 100% at most."""
    found = _PERCENT.fullmatch(text)
    share = int(found[1]) * 10 + int(found[2] or 0) if found else 0
    return share if 0 < share <= PERMILLE else None


async def policies_of(bus: Bus, region: str) -> tuple[list[RegionPolicy], list[tuple[RegionName, str]]]:
    """Return the policy of each chosen region, and the regions without an answer, each with the reason. Raises CommandError."""
    images, silent = await region_images(bus, region, ("pools",))
    return [RegionPolicy(name, image.pools.policy) for name, image in images], silent


async def set_policy(bus: Bus, wish: PolicyWish, region: str = "") -> RegionPolicy:
    """Record the fields of the policy that the wish names. Raises CommandError."""
    where = region_of((), PlaceOptions(region=region), await regions_of(bus))
    said = {name: value for name in wish.__struct_fields__ if (value := getattr(wish, name)) is not None}
    for number in range(TRIES_MAX):
        await before_try(number)
        pools = (await region_image(bus, where, ("pools",))).pools
        message = SetPoolingPolicy(where, replace(pools.policy, **said), pools.revision, submitter())
        answer = await asked_on_revision(bus, message, PoolingPolicyAnswered)
        if answer is not None:
            return RegionPolicy(where, answer.policy)
    raise CommandError("others set pools of this region all the time; try again in a moment")


def policy_table(policies: Iterable[RegionPolicy], width: int | None) -> list[str]:
    """Return policies as a table."""
    rows = [(one.region, applied_by(one.policy), percent_text(one.policy.at_once)) for one in policies]
    return columns_text(("REGION", "PLANS ARE APPLIED", "AT ONCE"), rows, width, ("AT ONCE",))


# Plans.


async def apply_plan(bus: Bus, number: int | None, region: str = "") -> Applied:
    """Apply a region's newest plan, and return how far its moves are then. Raises CommandError.

    number   the number of the plan that was looked at; None: whichever is the newest
    """
    where = region_of((), PlaceOptions(region=region), await regions_of(bus))
    for attempt in range(TRIES_MAX):
        await before_try(attempt)
        pools = (await region_image(bus, where, ("pools",))).pools
        _check_number(where, number, pools)
        if not pools.is_applied:
            try:
                await ask(bus, ApplyPools(where, pools.plan.number, submitter()), PoolsAnswered)
            except RequestRefused as refused:
                if refused.reason != Reason.SUPERSEDED:
                    raise refusal_in_lines(refused) from refused
                newest = (await region_image(bus, where, ("pools",))).pools
                if newest.plan.number != pools.plan.number:
                    continue  # A planner was quicker.
                why = refused.problems_told[0].removeprefix("plan: ")
                raise CommandError(f"{_plan(where, pools.plan.number)} is superseded: {why}") from refused
        return Applied(where, pools.plan.number, pools.is_applied, await _progress(bus, where, pools))
    raise CommandError("planners plan pools of this region all the time; try again in a moment")


def applied_text(done: Applied) -> str:
    """Return what applying a plan has come to, as a sentence."""
    start = f"{_plan(done.region, done.number)} is applied{' already' if done.was_applied else ''}"
    moved, waiting, staying = done.progress.moved, done.progress.waiting, done.progress.staying
    if not moved + waiting + staying:
        return f"{start}: it moves no node"
    wait = "wait" if waiting > 1 else "waits"
    parts = [f"{nodes_count(moved)} moved", f"{nodes_count(waiting)} {wait} to be vacant"]
    return f"{start}: {', '.join([*parts, *([staying_text(staying)] if staying else [])])}"


def _check_number(region: RegionName, number: int | None, pools: Pools) -> None:
    """Raise CommandError unless the newest plan is the one that is meant."""
    newest = pools.plan.number
    if not newest:
        raise CommandError(f"there is no plan of {region}; `mizzen pools plan --region {region}` tells why")
    if number is None or number == newest:
        return
    if number > newest:
        raise CommandError(f"there is no {_plan(region, number)}; the newest is {newest}")
    text = f"{_plan(region, number)} is superseded: the newest is {newest}"
    raise CommandError(f"{text}; `mizzen pools plan --region {region}` shows it")


async def _progress(bus: Bus, region: RegionName, pools: Pools) -> MoveProgress:
    """Return how far the moves of a plan are once the reader of the region's log knows that they have begun."""
    for attempt in range(TRIES_MAX):
        await before_try(attempt)
        image = await region_image(bus, region, SECTIONS)
        if image.pools.plan.number != pools.plan.number or image.pools.is_applied:
            break
    each = progress_of(image.capacity, pools.plan.moves)
    return MoveProgress(
        sum(one.moved for one in each), sum(one.waiting for one in each), sum(one.staying for one in each)
    )


def _plan(region: RegionName, number: int) -> str:
    return f"plan {number} of {region}"


# Refusals.


async def asked_on_revision(bus: Bus, message: Message, expected: type[Answered]) -> Answered | None:
    """Ask as `ask_on_revision` does, and raise every problem of a refusal on a line of its own. Raises CommandError."""
    try:
        return await ask_on_revision(bus, message, expected)
    except RequestRefused as refused:
        raise refusal_in_lines(refused) from refused


def refusal_in_lines(refused: RequestRefused) -> CommandError:
    """Return a refusal as its problems, which say all that its sentence says."""
    problems = refused.problems_told
    if not problems:
        return refused
    if len(problems) == 1:
        return CommandError(problems[0], refused.exit_code)
    return CommandError(f"{len(problems)} things are wrong; nothing was set", refused.exit_code, problems)


def refuse(problems: list[str]) -> None:
    """Raise CommandError if there are problems, with a line for each."""
    if len(problems) == 1:
        raise CommandError(problems[0], MISUSED)
    if problems:
        raise CommandError(f"{len(problems)} things are wrong; nothing was set", MISUSED, problems)

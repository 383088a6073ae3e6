"""What operators set of a region's pools: by which rules each is searched, and what of it stays free."""

import re

from msgspec import Struct
from msgspec.structs import replace

from bus.port import Bus
from core.messages.pools import PoolAnswered, SetPool
from core.nouns.ids import RegionName
from core.nouns.pool import PERMILLE, PoolSettings
from mizzen.actions.node_scopes import region_of
from mizzen.actions.workloads import TRIES_MAX
from mizzen.connect.plane import ask_on_revision, submitter
from mizzen.terminal.node_options import PlaceOptions
from mizzen.terminal.output import MISUSED, CommandError
from mizzen.views.plane_reads import region_image, regions_of
from runtime.yaml_tree import shown

_PERCENT = re.compile(r"(\d{1,3})(?:\.(\d))?%")


class Wish(Struct, frozen=True):
    """What is to be set; None: as it is."""

    rules: str | None = None
    reserve: int | None = None
    limit: int | None = None
    """Permille."""


class Done(Struct, frozen=True):
    """What a pool is set to now."""

    region: RegionName
    pool: str
    settings: PoolSettings


def wish_of(rules: str, reserve: str, limit: str) -> Wish:
    """What is meant by the options; an empty one says nothing. Raises CommandError with everything that is wrong."""
    problems = []
    if reserve and not (reserve.isascii() and reserve.isdigit() and len(reserve) < 10):
        problems.append(f"--reserve: {shown(reserve)} is no count of nodes; write --reserve 4")
    permille = _PERCENT.fullmatch(limit)
    share = int(permille[1]) * 10 + int(permille[2] or 0) if permille else 0
    if limit and not 0 < share <= PERMILLE:
        problems.append(
            f"--limit: {shown(limit)} is no share of a pool; write --limit 95%, and 100% for none"
        )
    if not (rules or reserve or limit):
        problems.append("say what is to be set: --rules, --reserve or --limit")
    if problems:
        if len(problems) == 1:
            raise CommandError(problems[0], MISUSED)
        raise CommandError(f"{len(problems)} things are wrong; nothing was asked for", MISUSED, problems)
    return Wish(rules or None, int(reserve) if reserve else None, share if limit else None)


async def set_pool(bus: Bus, pool: str, wish: Wish, region: str = "") -> Done:
    """Record it; what is not wished for stays as it is. Raises CommandError."""
    where = region_of((), PlaceOptions(region=region, pool=pool), await regions_of(bus))
    for _ in range(TRIES_MAX):
        pools = (await region_image(bus, where, ("pools",))).pools
        said = {name: value for name in wish.__struct_fields__ if (value := getattr(wish, name)) is not None}
        settings = replace(pools.of(pool), **said)
        message = SetPool(where, pool, settings, pools.revision, submitter())
        answer = await ask_on_revision(bus, message, PoolAnswered)
        if answer is not None:
            return Done(where, answer.pool, answer.settings)
    raise CommandError("others set pools of this region all the time; try again in a moment")

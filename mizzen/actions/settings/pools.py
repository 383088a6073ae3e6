"""What operators set of a region's pools: by which rules each is searched, what of it stays free, and what it needs."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from bus.port import Bus
from core.images import RegionImage
from core.images.pools import Pools
from core.messages.pools import PoolAnswered, SetPool
from core.nouns.fleet import gpu_type_of, node_type_of
from core.nouns.ids import RegionName
from core.nouns.pool import POOLS, PoolSettings, Survives
from core.nouns.pooling import PoolingPolicy
from core.rules.pool_needs import gpus_by_domain, problems_of_needs
from mizzen.actions.node_scopes import region_of
from mizzen.actions.settings.harvest import HarvestWish, harvest_wish_of, harvested_by, held_price_of
from mizzen.actions.settings.pooling import PolicyWish, asked_on_revision, permille_of, refuse, set_policy
from mizzen.actions.workloads import TRIES_MAX
from mizzen.connect.plane import submitter
from mizzen.terminal.harvest_options import UNSAID, HarvestOptions
from mizzen.terminal.node_options import PlaceOptions
from mizzen.terminal.output import CommandError
from mizzen.views.phrases.pool_text import needs_text
from mizzen.views.plane_reads import region_image, regions_of
from runtime.yaml_tree import shown

NONE = "none"
"""In place of needs: the pool needs nothing any more."""
EMULATED = " (emulated)"
"""Behind a GPU type, for emulated nodes where the region also has nodes of the type that run programs."""
DIGITS_MAX = 10

_NEED = re.compile(r"(?P<type>[^=]+)=(?P<gpus>-?[0-9]+)")


class Wish(Struct, frozen=True):
    """What is to be set; None: as it is."""

    rules: str | None = None
    reserve: int | None = None
    limit: int | None = None
    """Permille."""
    needs: tuple[tuple[str, int], ...] | None = None
    """GPUs by type, as operators write types: 0 takes a type out, and types that are not named stay. Empty: no type is needed any more."""
    survives: Survives | None = None
    harvest: HarvestWish | None = None
    price: int | None = None
    """Of a held GPU-hour, in millionths."""


class Done(Struct, frozen=True):
    """What a pool is set to now."""

    region: RegionName
    pool: str
    settings: PoolSettings
    policy: PoolingPolicy = PoolingPolicy()
    """Of the region: how nodes follow needs."""
    has_needs: bool = False
    """Whether any pool of the region needs anything."""
    was_so: bool = False
    """Whether the pool had these settings before."""


def wish_of(rules: str, reserve: str, limit: str, harvest: HarvestOptions = UNSAID) -> Wish:
    """What is meant by the options; an empty one says nothing. Raises CommandError with everything that is wrong."""
    problems: list[str] = []
    if reserve and not (reserve.isascii() and reserve.isdigit() and len(reserve) < DIGITS_MAX):
        problems.append(f"--reserve: {shown(reserve)} is no count of nodes; write --reserve 4")
    share = permille_of(limit)
    if limit and share is None:
        problems.append(
            f"--limit: {shown(limit)} is no share of a pool; write --limit 95%, and 100% for none"
        )
    harvested, price = harvest_wish_of(harvest, problems), held_price_of(harvest, problems)
    if not (rules or reserve or limit or harvest != UNSAID):
        problems.append("say what is to be set: --rules, --reserve, --limit, --harvest or another option")
    refuse(problems)
    return Wish(rules or None, int(reserve) if reserve else None, share, harvest=harvested, price=price)


def need_of(words: Sequence[str], survives: str) -> Wish:
    """Return the wish for needs: of words as in `H100=400`, or of `none`. Raises CommandError with everything that is wrong."""
    problems = []
    needs: list[tuple[str, int]] = []
    for word in words if NONE not in words else ():
        match = _NEED.fullmatch(word)
        if match is None or len(match["gpus"].lstrip("-")) > DIGITS_MAX:
            problems.append(f"needs: {shown(word)} is no need; write a GPU type and a count, as in H100=400")
        else:
            needs.append((match["type"].strip(), int(match["gpus"])))
    if NONE in words and len(words) > 1:
        problems.append(f"needs: {NONE} takes all needs away, and stands alone")
    problems += _twice(name for name, _ in needs)
    if survives and survives not in set(Survives):
        problems.append(f"--survives: {shown(survives)} is neither {' nor '.join(Survives)}")
    if not (words or survives):
        problems.append(f"say what the pool needs, as in H100=400, or {NONE}; or say --survives")
    refuse(problems)
    return Wish(needs=tuple(needs) if words else None, survives=Survives(survives) if survives else None)


async def set_pool(bus: Bus, pool: str, wish: Wish, region: str = "", *, by_hand: bool = False) -> Done:
    """Record it; what is not wished for stays as it is. Raises CommandError.

    by_hand   plans of the region are applied by hand from then on, and before the pool is set
    """
    where = region_of((), PlaceOptions(region=region, pool=pool), await regions_of(bus))
    if not by_hand:
        return await _set(bus, pool, wish, where)
    image = await region_image(bus, where, ("capacity", "pools"))
    refuse(_problems_before(where, pool, settings_of(image, pool, wish), image))
    await set_policy(bus, PolicyWish(is_automatic=False), where)
    try:
        return await _set(bus, pool, wish, where)
    except CommandError as error:
        text = f"{error}; plans of {where} are applied by hand from now on all the same"
        raise CommandError(text, error.exit_code, error.problems) from error


async def _set(bus: Bus, pool: str, wish: Wish, where: RegionName) -> Done:
    for _ in range(TRIES_MAX):
        sections = ("pools",) if wish.needs is None else ("capacity", "pools")
        image = await region_image(bus, where, sections)
        pools, settings = image.pools, settings_of(image, pool, wish)
        message = SetPool(where, pool, settings, pools.revision, submitter())
        answer = await asked_on_revision(bus, message, PoolAnswered)
        if answer is not None:
            has_needs = bool(settings.needs) or _others_need(pools, pool)
            was_so = settings == pools.of(pool)
            return Done(where, answer.pool, answer.settings, pools.policy, has_needs, was_so)
    raise CommandError("others set pools of this region all the time; try again in a moment")


def settings_of(image: RegionImage, pool: str, wish: Wish) -> PoolSettings:
    """Return the settings that a wish makes of a pool's present ones. Raises CommandError for types that cannot be told."""
    settings = image.pools.of(pool)
    said = {name: value for name in wish.__struct_fields__ if (value := getattr(wish, name)) is not None}
    if wish.harvest is not None:
        said["harvest"] = harvested_by(pool, settings, wish.harvest)
    if wish.needs:
        said["needs"] = _needs_of(wish.needs, settings, set(gpus_by_domain(image.capacity)))
    return replace(settings, **said)


# Needs.


def need_lines(done: Done, *, is_by_hand: bool) -> list[str]:
    """Return what a pool needs now, and what happens next.

    is_by_hand   whether plans are applied by hand from now on
    """
    lines = [f"{done.pool} of {done.region} {needs_text(done.settings)}"]
    if is_by_hand:
        lines.append(f"plans of {done.region} are applied by hand from now on")
    if not done.has_needs:
        return [*lines, f"no pool of {done.region} has needs any more, so no node moves"]
    plan = f"`mizzen pools plan --region {done.region}`"
    if done.was_so:
        return [*lines, f"it needed that before; {plan} shows the newest plan"]
    if done.policy.is_automatic:
        return [*lines, f"a plan comes within a minute and moves nodes by itself; {plan} shows it"]
    apply = f"`mizzen pools apply --region {done.region}`"
    return [*lines, f"a plan comes within a minute; {plan} shows it, and {apply} moves the nodes"]


def _needs_of(
    words: Iterable[tuple[str, int]], settings: PoolSettings, there: set[str]
) -> tuple[tuple[str, int], ...]:
    """Return needs by node type, from the types as an operator writes them. Raises CommandError.

    there   node types of the region
    """
    problems: list[str] = []
    named: list[tuple[str, int]] = []
    known = there.union(node_type for node_type, _ in settings.needs)
    for word, gpus in words:
        types = node_types_meant(word, known)
        if len(types) > 1:
            real, emulated = (shown_type(one) for one in (node_type_of(word, runs_programs=True), word))
            problems.append(
                f"needs: the region has {word} that run programs and emulated ones; write '{real}={gpus}' or '{emulated}={gpus}'"
            )
        elif not types and not gpus:
            problems.append(f"needs: the region has no {shown(word)}; it has {', '.join(sorted(there))}")
        else:
            # The store refuses a type that there is not, and says which there are.
            named.append((types[0] if types else word, gpus))
    problems += _twice(node_type for node_type, _ in named)
    refuse(problems)
    needs = {**dict(settings.needs), **dict(named)}
    return tuple(sorted((node_type, gpus) for node_type, gpus in needs.items() if gpus))


def node_types_meant(word: str, known: set[str]) -> list[str]:
    """Return the known node types that a word may mean: `H100` either sort, `H100 (real)` and `H100 (emulated)` one each."""
    if word.endswith(EMULATED):
        meant = [word.removesuffix(EMULATED)]
    elif gpu_type_of(word)[1]:
        meant = [word]
    else:
        meant = [node_type_of(word, runs_programs=runs) for runs in (False, True)]
    return [one for one in meant if one in known]


def shown_type(node_type: str) -> str:
    """Return how an operator writes a node type so that it means no other."""
    return node_type if gpu_type_of(node_type)[1] else f"{node_type}{EMULATED}"


def _twice(names: Iterable[str]) -> list[str]:
    return [
        f"needs: {shown(name)} is named {count} times" for name, count in Counter(names).items() if count > 1
    ]


def _others_need(pools: Pools, pool: str) -> bool:
    return any(one.needs for name, one in pools.settings.items() if name != pool)


def _problems_before(region: RegionName, pool: str, settings: PoolSettings, image: RegionImage) -> list[str]:
    """Return the problems for which the store will refuse needs: known before the policy is set, so that it stays as it was."""
    groups = [group for row in image.capacity.workers.values() for group in row.inventory.groups]
    there = sorted({*(group.pool for group in groups), *image.pools.settings})
    problems = problems_of_needs(settings, pool, image.pools, image.capacity)
    if pool not in there and not (settings.needs and pool in POOLS):
        problems.insert(0, f"pool: there is no {shown(pool)} in {region}; there are {', '.join(there)}")
    return problems

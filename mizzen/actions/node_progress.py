"""What `mizzen drain` and `mizzen maintain` have in common: telling how far it is, once or until it is over."""

import shutil
import sys
from collections.abc import Sequence

from bus.port import Bus
from core.nouns.ids import RegionName
from core.nouns.maintenance import ClosureKind
from core.nouns.operation import DRAIN
from mizzen.actions.nodes import region_with
from mizzen.terminal.node_options import PlaceOptions
from mizzen.terminal.output import FAILED, CommandError, tell_json, tell_lines, tell_problem
from mizzen.views.nodes import drain_text as emptying_text
from mizzen.views.nodes import drain_watch as emptying_watch
from mizzen.views.nodes.drain_progress import builtins_of
from mizzen.views.nodes.drain_watch import Key, Look
from mizzen.views.plane_reads import chosen_regions
from runtime.clock import wall_now

NAMES = {ClosureKind.DRAIN: "drain", ClosureKind.MAINTENANCE: "maintenance"}


def is_over(look: Look) -> bool:
    """Whether there is nothing more to wait for: a drain's nodes are empty, a maintenance is no more."""
    progress = look.progress
    return progress is None or (progress.kind is ClosureKind.DRAIN and progress.is_done)


async def show(
    bus: Bus, names: Sequence[str], place: PlaceOptions, kind: ClosureKind, *, is_watched: bool, is_json: bool
) -> int:
    """Tell of those that are named, or of all; the exit code. Raises CommandError."""
    if not names and not is_watched:
        return await _show_all(bus, place, kind, is_json=is_json)
    if names:
        keys = [(await region_with(bus, name, place, kind), name) for name in dict.fromkeys(names)]
    else:
        keys = await _all_keys(bus, place, kind)
        if not keys:
            raise CommandError(f"there is no {NAMES[kind]} to watch")
    if is_watched:
        return await follow(bus, keys, is_json=is_json)
    looks = [await emptying_watch.look(bus, *key) for key in keys]
    if is_json:
        tell_json([emptying_watch.json_of(look) for look in looks])
    else:
        tell_lines(_lines(looks))
    return FAILED if any(look.progress is None for look in looks) else 0


async def follow(bus: Bus, keys: Sequence[Key], *, is_json: bool) -> int:
    """Tell until all are over; fails if a drain was lifted before its nodes were empty. Raises CommandError."""
    looks = await emptying_watch.watch(bus, keys, is_over, is_json=is_json)
    lifted = [look for look in looks if look.progress is None and look.source.startswith(DRAIN)]
    for look in lifted:
        text = f"{look.source} of {look.region} was lifted before its nodes were seen empty"
        tell_problem(text, is_json=is_json)
    return FAILED if lifted else 0


async def _show_all(bus: Bus, place: PlaceOptions, kind: ClosureKind, *, is_json: bool) -> int:
    found, silent = await emptying_watch.all_of(bus, await chosen_regions(bus, place.region), kind)
    if is_json:
        tell_json([builtins_of(one) for one in found])
    elif found or not silent:
        tell_lines(emptying_text.overview_of(found, wall_now(), _width()))
    for why in silent:
        tell_problem(why, is_json=is_json)
    return FAILED if silent else 0


async def _all_keys(bus: Bus, place: PlaceOptions, kind: ClosureKind) -> list[tuple[RegionName, str]]:
    """Those that are not over. Raises CommandError when a region does not tell: it may have one."""
    found, silent = await emptying_watch.all_of(bus, await chosen_regions(bus, place.region), kind)
    if silent:
        raise CommandError(silent[0])
    return [(one.region, one.source) for one in found]


def _lines(looks: Sequence[Look]) -> list[str]:
    lines: list[str] = []
    for look in looks:
        lines += [*([""] if lines else []), *emptying_watch.text_of(look, _width())]
    return lines


def _width() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None

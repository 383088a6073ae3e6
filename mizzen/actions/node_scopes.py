"""Nodes as operators name them, made into what a region's store is asked for.

Everything that is wrong is collected, with what there is instead: whoever types this at night has one try in them.
"""

import re
from collections.abc import Iterable, Sequence

from core.images.capacity import Capacity
from core.nouns.fleet import NodeGroup
from core.nouns.ids import RegionName
from core.nouns.limits import NODE_NUMBERS_MAX
from core.nouns.maintenance import Scope, ScopeKind
from core.nouns.placement import runs_of
from core.rules.scopes import nodes_in
from mizzen.terminal.node_options import PlaceOptions
from mizzen.terminal.output import MISUSED, CommandError
from mizzen.views.phrases.text import nodes_text
from runtime.yaml_tree import shown

Runs = tuple[tuple[int, int], ...]
NAMES_SHOWN_MAX = 12
"""Names of what there is, beside one of what there is not."""
_KINDS = {
    "--rack": ScopeKind.RACK,
    "--power-domain": ScopeKind.POWER_DOMAIN,
    "--zone": ScopeKind.ZONE,
    "--pool": ScopeKind.POOL,
    "--worker": ScopeKind.WORKER,
}
_WAYS = "nodes (as in eu-7), --rack, --power-domain, --zone, --pool, --worker or --all"
_LISTED = re.compile(r"[0-9]{1,9}(?:-[0-9]{1,9})?(?:,[0-9]{1,9}(?:-[0-9]{1,9})?)*")


class BadPlace(Exception):
    """Nodes that cannot be found; each problem says what there is."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


def problems_of(words: Sequence[str], place: PlaceOptions) -> list[str]:
    """Whether nodes are named in one way: none is no way, and two could mean both or either."""
    ways = [*(["nodes by name"] if words else []), *place.named]
    if not ways:
        return [f"which nodes? name them by one of {_WAYS}"]
    return [f"name nodes in one way only: {' and '.join(ways)} are given"] if len(ways) > 1 else []


def region_of(words: Sequence[str], place: PlaceOptions, regions: Sequence[RegionName]) -> RegionName:
    """The region that is meant: the one that is said, the nodes' own, or the only one there is. Raises CommandError."""
    if place.region and place.region not in regions:
        text = f"there is no region {place.region}; there are {', '.join(regions)}"
        raise CommandError(text, MISUSED)
    own = list(dict.fromkeys(name for word in words if (name := _split(word, regions)[0])))
    if place.region:
        strangers = [name for name in own if name != place.region]
        if strangers:
            text = f"--region says {place.region}, and there are nodes of {', '.join(strangers)} too"
            raise CommandError(f"{text}; name nodes of one region at a time", MISUSED)
        return RegionName(place.region)
    if len(own) > 1:
        raise CommandError(
            f"nodes of {', '.join(own)} are named; name those of one region at a time", MISUSED
        )
    if own:
        return RegionName(own[0])
    if len(regions) == 1:
        return regions[0]
    if not regions:
        raise CommandError("the fleet has no regions yet")
    strange = next((word for word in words if _split(word, regions)[1] is None), "")
    names = ", ".join(regions)
    if strange:
        text = f"{shown(strange)} is no node of {names}; name one as in {regions[0]}-7"
        raise CommandError(text, MISUSED)
    raise CommandError(f"say which region by --region; there are {names}", MISUSED)


def scope_of(
    words: Sequence[str], place: PlaceOptions, region: RegionName, capacity: Capacity
) -> tuple[Scope, list[int]]:
    """What is named, and its nodes. Raises BadPlace."""
    problems = problems_of(words, place)
    if problems:
        raise BadPlace(problems)
    if words:
        scope = Scope(ScopeKind.NODE, tuple(str(node) for node in _nodes(words, region, capacity)))
    elif place.all_:
        scope = Scope(ScopeKind.ZONE, tuple(_names(capacity, ScopeKind.ZONE)))
    else:
        ((option, said),) = place.named.items()
        kind = _KINDS[option]
        scope = Scope(kind, tuple(_found(kind, said, region, capacity)))
    nodes, _ = nodes_in(capacity, scope)
    if not nodes:
        raise BadPlace([f"{region} has no nodes yet"])
    return scope, nodes


def all_nodes(capacity: Capacity) -> list[int]:
    """The numbers of a region's nodes, ascending."""
    return [node for node in range(len(capacity.node_type)) if capacity.has_node(node)]


# Nodes by their names.


def _nodes(words: Sequence[str], region: RegionName, capacity: Capacity) -> list[int]:
    problems: list[str] = []
    missing: list[tuple[int, int]] = []
    found: dict[int, None] = {}
    size = len(capacity.node_type)
    for word in words:
        _, runs = _split(word, [region])
        if runs is None:
            problems.append(f"{shown(word)} is no node; name them as in {region}-7 or {region}-[0-3,7]")
            continue
        for first, last in runs:
            here = [node for node in range(first, min(last + 1, size)) if capacity.has_node(node)]
            found.update(dict.fromkeys(here))
            missing += _gaps(first, last, here)
    if missing:
        names = nodes_text(region, tuple(missing))
        has = nodes_text(region, runs_of(all_nodes(capacity)))
        has = has if len(has) <= 80 else f"{len(all_nodes(capacity))} nodes; `mizzen nodes` lists them"
        problems.append(f"there is no {names}; {region} has {has}")
    if problems:
        raise BadPlace(problems)
    return sorted(found)


def _gaps(first: int, last: int, here: list[int]) -> list[tuple[int, int]]:
    """What of a run is not there."""
    gaps = []
    for node in here:
        if node > first:
            gaps.append((first, node - 1))
        first = node + 1
    return [*gaps, (first, last)] if first <= last else gaps


def _split(word: str, regions: Sequence[str]) -> tuple[str, Runs | None]:
    """The region that a node's name begins with, if it does, and the numbers; None if they are none.

    Regions' names may hold `-` and digits: the longest that leaves numbers is meant, and `0-3` alone is numbers unless there is
    a region `0`.
    """
    for region in sorted(regions, key=len, reverse=True):
        rest = word.removeprefix(f"{region}-")
        if rest == word:
            continue
        listed = rest[1:-1] if rest[:1] == "[" and rest[-1:] == "]" else rest
        if listed != rest or rest.isdecimal():
            runs = _runs(listed)
            if runs is not None:
                return region, runs
    listed = word[1:-1] if word[:1] == "[" and word[-1:] == "]" else word
    return "", _runs(listed)


def _runs(text: str) -> Runs | None:
    """`0-3,7` as runs; None when it is none, or runs backwards."""
    if not _LISTED.fullmatch(text):
        return None
    runs = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        run = (int(first), int(last or first))
        if run[1] < run[0] or run[1] >= NODE_NUMBERS_MAX:
            return None
        runs.append(run)
    return tuple(runs)


# Racks, zones and the rest.


def _found(kind: ScopeKind, said: str, region: RegionName, capacity: Capacity) -> list[str]:
    """The names that are meant, if the region has all of them."""
    names = _names(capacity, kind)
    wanted: dict[str, None] = {}
    unknown: list[str] = []
    for word in (part.strip() for part in said.split(",")):
        runs = _runs(word) if kind is ScopeKind.RACK else None
        if runs is None:
            if word in names:
                wanted[word] = None
            else:
                unknown.append(word)
            continue
        for first, last in runs:
            here = [int(name) for name in names if first <= int(name) <= last]
            wanted.update(dict.fromkeys(str(rack) for rack in here))
            unknown += [str(a) if a == b else f"{a}-{b}" for a, b in _gaps(first, last, here)]
    if unknown:
        what = str(kind).replace("_", " ")
        there = _shortened(_listed(names) if kind is ScopeKind.RACK else names)
        raise BadPlace([f"{region} has no {what} {shown(one)}; it has {there}" for one in unknown])
    return list(wanted)


def _names(capacity: Capacity, kind: ScopeKind) -> list[str]:
    """All names of a kind that nodes of the region have, in their order."""
    if kind is ScopeKind.RACK:
        racks = {capacity.rack[node] for node in all_nodes(capacity)}
        return [str(rack) for rack in sorted(racks)]
    if kind is ScopeKind.WORKER:
        return sorted(capacity.workers)
    groups = [group for row in capacity.workers.values() for group in row.inventory.groups]
    return sorted({name for group in groups if (name := _name(group, kind))})


def _name(group: NodeGroup, kind: ScopeKind) -> str:
    if kind is ScopeKind.ZONE:
        return group.zone
    return group.power_domain if kind is ScopeKind.POWER_DOMAIN else group.pool


def _listed(racks: Iterable[str]) -> list[str]:
    runs = runs_of(int(rack) for rack in racks)
    return [str(first) if first == last else f"{first}-{last}" for first, last in runs]


def _shortened(names: list[str]) -> str:
    more = len(names) - NAMES_SHOWN_MAX
    text = ", ".join(names[:NAMES_SHOWN_MAX]) or "none"
    return f"{text} and {more} more" if more > 0 else text

"""What operators ask of a region's nodes: drain and undrain them, plan and cancel work on them, let them out of the quarantine.

What carries a revision is asked for first, and once more when somebody else was quicker.
"""

import uuid
from collections.abc import Iterable, Sequence

from msgspec import Struct

from bus.port import Bus
from core.images import RegionImage
from core.images.capacity import Capacity
from core.messages.nodes import (
    CancelMaintenance,
    DrainNodes,
    NodesAnswered,
    PlanMaintenance,
    ReleaseNodes,
    UndrainNodes,
)
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.maintenance import ClosureKind, MaintenanceKind, MaintenancePhase, Scope, ScopeKind
from core.nouns.operation import DRAIN
from core.nouns.placement import numbers_in, runs_of
from core.nouns.reasons import Reason
from mizzen.actions.node_scopes import BadPlace, all_nodes, problems_of, region_of, scope_of
from mizzen.actions.workloads import TRIES_MAX, before_try
from mizzen.connect.plane import RequestRefused, ask, ask_on_revision, submitter
from mizzen.terminal.node_options import PlaceOptions
from mizzen.terminal.output import MISUSED, CommandError
from mizzen.views.nodes.drain_progress import SECTIONS, sources_of
from mizzen.views.nodes.occupants import occupants
from mizzen.views.plane_reads import region_image, region_image_at, regions_of

Runs = tuple[tuple[int, int], ...]


class Done(Struct, frozen=True):
    """What became of it."""

    region: RegionName
    name: str
    """Of the drain or the maintenance; of the drains that were lifted, joined by commas."""
    node_runs: Runs
    nodes: int
    tasks: int = 0
    """That were on those nodes just before."""
    workloads: tuple[WorkloadId, ...] = ()
    starts_in: int = 0
    still_closed: dict[str, Runs] = {}
    """By what else, those of the nodes that nothing new is placed on all the same."""


class Meant(Struct, frozen=True):
    """Nodes that were named, in the region as it was just then."""

    scope: Scope
    nodes: list[int]
    image: RegionImage
    sequence: int
    """Of the region's log, that the image is folded to."""


class Window(Struct, frozen=True):
    """When a maintenance is to be, in nanoseconds."""

    starts_in: int
    lasts: int
    lead: int


async def meant(
    bus: Bus, words: Sequence[str], place: PlaceOptions, region: RegionName, problems: Iterable[str] = ()
) -> Meant:
    """The nodes that are named. Raises CommandError for that and for whatever else is wrong with the command, at once."""
    image, sequence = await region_image_at(bus, region, SECTIONS)
    found = list(problems)
    try:
        scope, nodes = scope_of(words, place, region, image.capacity)
    except BadPlace as error:
        raise _misused([*found, *error.problems]) from error
    if found:
        raise _misused(found)
    return Meant(scope, nodes, image, sequence)


async def _region_meant(
    bus: Bus, words: Sequence[str], place: PlaceOptions, problems: Sequence[str] = ()
) -> RegionName:
    """Asked for only once nodes are named in one way. Raises CommandError."""
    named = problems_of(words, place)
    if named:
        raise _misused([*problems, *named])
    return region_of(words, place, await regions_of(bus))


def _misused(problems: Sequence[str]) -> CommandError:
    if len(problems) == 1:
        return CommandError(problems[0], MISUSED)
    return CommandError(f"{len(problems)} things are wrong; nothing was asked for", MISUSED, problems)


def _check_something_stays(meant: Meant, region: RegionName, *, is_sure: bool) -> None:
    """A region of which no node is left takes nothing; that is seldom meant. Raises CommandError."""
    capacity = meant.image.capacity
    closing = set(meant.nodes)
    rest = [node for node in all_nodes(capacity) if node not in closing]
    if is_sure or any(capacity.is_open(node) for node in rest):
        return
    text = f"it leaves {region} without a node that is open" if rest else f"it is every node of {region}"
    raise CommandError(f"{text}; if that is meant, say --yes", MISUSED)


# Drains.


async def drain(
    bus: Bus,
    words: Sequence[str],
    place: PlaceOptions,
    reason: str,
    deadline: int,
    *,
    is_sure: bool,
    problems: Sequence[str] = (),
) -> Done:
    """Nothing new there, and what is there leaves. Raises CommandError."""
    region = await _region_meant(bus, words, place, problems)
    key = uuid.uuid4().hex
    for number in range(TRIES_MAX):
        await before_try(number)
        found = await meant(bus, words, place, region, problems)
        _check_something_stays(found, region, is_sure=is_sure)
        done = await _drain(bus, region, found, reason, deadline, key)
        if done is not None:
            return done
    raise _others_are_quicker()


async def set_deadline(bus: Bus, name: str, place: PlaceOptions, reason: str, deadline: int) -> Done:
    """Drain the nodes of a drain again, with a deadline: the nearest counts. Raises CommandError."""
    region = await region_with(bus, name, place, ClosureKind.DRAIN)
    key = uuid.uuid4().hex
    for number in range(TRIES_MAX):
        await before_try(number)
        found = await _nodes_of_drain(bus, region, name)
        why = reason or found.image.capacity.closures[name].reason
        done = await _drain(bus, region, found, why, deadline, key)
        if done is not None:
            return done
    raise _others_are_quicker()


async def _drain(
    bus: Bus, region: RegionName, found: Meant, reason: str, deadline: int, key: str
) -> Done | None:
    """None when somebody was quicker. Raises CommandError."""
    revision = found.image.maintenance.revision
    message = DrainNodes(region, found.scope, reason, revision, deadline, submitter(), key=key)
    answer = await ask_on_revision(bus, message, NodesAnswered)
    return _done(region, answer.source, found) if answer is not None else None


async def undrain(bus: Bus, words: Sequence[str], place: PlaceOptions) -> Done:
    """Lift every drain of these nodes, or the one that is named and no other. Raises CommandError."""
    name = _drain_in(words, place)
    if name:
        region = await region_with(bus, name, place, ClosureKind.DRAIN)
    else:
        region = await _region_meant(bus, words, place)
    for number in range(TRIES_MAX):
        await before_try(number)
        if name:
            found = await _nodes_of_drain(bus, region, name)
        else:
            found = await meant(bus, words, place, region)
        scope = Scope(ScopeKind.NODE, ()) if name else found.scope
        message = UndrainNodes(region, scope, found.image.maintenance.revision, submitter(), name)
        try:
            answer = await ask_on_revision(bus, message, NodesAnswered)
        except RequestRefused as refused:
            if refused.reason != Reason.NOT_DRAINED:
                raise
            raise CommandError(
                "none of these nodes is drained; `mizzen drain` lists drained nodes"
            ) from refused
        if answer is not None:
            return _done(region, answer.source, found, is_lifted=True)
    raise _others_are_quicker()


async def _nodes_of_drain(bus: Bus, region: RegionName, name: str) -> Meant:
    image, sequence = await region_image_at(bus, region, SECTIONS)
    if name not in image.capacity.closures:
        raise CommandError(f"there is no drain {name} in {region} any more")
    nodes = numbers_in(image.capacity.closures[name].nodes)
    return Meant(Scope(ScopeKind.NODE, tuple(str(node) for node in nodes)), nodes, image, sequence)


def _drain_in(words: Sequence[str], place: PlaceOptions) -> str:
    """The drain that is named; empty if nodes are. Raises CommandError."""
    names = [word for word in words if is_name(word, DRAIN)]
    if not names:
        return ""
    if len(words) > 1 or place.named:
        text = f"{names[0]} is a drain; lift one at a time by its name, or name nodes and no drain"
        raise CommandError(text, MISUSED)
    return names[0]


def is_name(word: str, opening: str) -> bool:
    """Whether it is a drain's or a maintenance's, `d-7` or `m-7`."""
    number = word.removeprefix(opening)
    return number != word and number.isascii() and number.isdigit()


async def region_with(bus: Bus, name: str, place: PlaceOptions, kind: ClosureKind) -> RegionName:
    """The region that has a drain or a maintenance of this name. Raises CommandError."""
    regions = await regions_of(bus)
    if place.region:
        regions = [region_of((), place, regions)]
    images = {region: await region_image(bus, region, SECTIONS) for region in regions}
    having = [region for region, image in images.items() if name in sources_of(image, kind)]
    if len(having) == 1:
        return having[0]
    what = "drain" if kind is ClosureKind.DRAIN else "maintenance"
    if having:
        raise CommandError(
            f"{' and '.join(having)} have a {what} {name} each; say which by --region", MISUSED
        )
    raise CommandError(_unknown(name, what, images, kind))


def _unknown(name: str, what: str, images: dict[RegionName, RegionImage], kind: ClosureKind) -> str:
    """What became of it, if there ever was one; else what there is."""
    number = int(name[2:])
    for region, image in images.items():
        count = image.maintenance.drains if kind is ClosureKind.DRAIN else image.maintenance.planned
        if 0 < number <= count:
            told = f"`mizzen log region.{region} --about {name}` tells what became of it"
            return f"there is no {what} {name} in {region} any more; {told}"
    names = [f"{one} of {region}" for region, image in images.items() for one in sources_of(image, kind)]
    return f"there is no {what} {name}; there is {', '.join(names) or 'none'}"


# Maintenance and quarantine.


async def plan(
    bus: Bus,
    words: Sequence[str],
    place: PlaceOptions,
    kind: str,
    window: Window,
    reason: str,
    *,
    is_sure: bool,
    problems: Sequence[str] = (),
) -> Done:
    """Work on these nodes, in a window. Raises CommandError."""
    region = await _region_meant(bus, words, place, problems)
    key = uuid.uuid4().hex
    for number in range(TRIES_MAX):
        await before_try(number)
        found = await meant(bus, words, place, region, problems)
        _check_something_stays(found, region, is_sure=is_sure)
        message = PlanMaintenance(
            region,
            found.scope,
            MaintenanceKind(kind),
            window.starts_in,
            window.lasts,
            window.lead,
            found.image.maintenance.planned,
            reason,
            submitter(),
            key,
        )
        answer = await ask_on_revision(bus, message, NodesAnswered)
        if answer is not None:
            return _done(region, answer.source, found, starts_in=window.starts_in)
    raise _others_are_quicker()


async def cancel(bus: Bus, name: str, place: PlaceOptions, reason: str) -> tuple[RegionName, bool]:
    """It does not take place; or is over early, which is told. Raises CommandError."""
    region = await region_with(bus, name, place, ClosureKind.MAINTENANCE)
    image = await region_image(bus, region, ("maintenance",))
    row = image.maintenance.rows.get(name)
    was_open = row is not None and row.phase is MaintenancePhase.OPEN
    await ask(bus, CancelMaintenance(region, name, reason, submitter()), NodesAnswered)
    return region, was_open


async def release(bus: Bus, words: Sequence[str], place: PlaceOptions, reason: str) -> Done:
    """Let these nodes out of the quarantine. Raises CommandError."""
    region = await _region_meant(bus, words, place)
    for number in range(TRIES_MAX):
        await before_try(number)
        found = await meant(bus, words, place, region)
        try:
            message = ReleaseNodes(region, found.scope, reason, submitter(), found.sequence)
            await ask(bus, message, NodesAnswered)
        except RequestRefused as refused:
            if refused.reason != Reason.SUPERSEDED:
                raise
            continue
        inside = _closed_by(found.image.capacity, ClosureKind.QUARANTINE)
        nodes = [node for node in found.nodes if node in inside]
        left = Meant(found.scope, nodes, found.image, found.sequence)
        return _done(region, str(ClosureKind.QUARANTINE), left, is_lifted=True)
    raise _others_are_quicker()


def _closed_by(capacity: Capacity, kind: ClosureKind) -> set[int]:
    closures = [closure for closure in capacity.closures.values() if closure.kind is kind]
    return {node for closure in closures for node in numbers_in(closure.nodes)}


def _done(
    region: RegionName,
    name: str,
    found: Meant,
    *,
    is_lifted: bool = False,
    starts_in: int = 0,
) -> Done:
    """With who is on those nodes; or, where something was lifted, with what else keeps work away from them."""
    capacity, nodes = found.image.capacity, set(found.nodes)
    runs = runs_of(found.nodes)
    if is_lifted:
        over = name.split(",")
        closed = {
            source: runs_of(mine)
            for source, closure in capacity.closures.items()
            if source not in over and (mine := nodes.intersection(numbers_in(closure.nodes)))
        }
        if lost := [node for node in found.nodes if capacity.is_lost[node]]:
            closed["lost"] = runs_of(lost)
        return Done(region, name, runs, len(nodes), still_closed=closed)
    there = [one for one in occupants(found.image) if one.is_there and one.node in nodes]
    workloads = tuple(dict.fromkeys(one.key[0] for one in there))
    return Done(region, name, runs, len(nodes), sum(one.tasks for one in there), workloads, starts_in)


def _others_are_quicker() -> CommandError:
    return CommandError("others ask for the same all the time; try again when they have come to an end")

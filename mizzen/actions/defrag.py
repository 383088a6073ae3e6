"""What is asked of a region so that whole nodes or racks come free: a plan of moves, and having one carried out.

A plan is made from the region's image as its reader serves it, and changes nothing. To carry it out is to drain the nodes that
are to come free, for a while: whatever is there is asked to leave like anything else, and stays if it does not agree.
"""

from pathlib import Path

import msgspec
from msgspec import Struct

from bus.port import Bus
from core.defrag.plan import SECTIONS, planned
from core.defrag.revalidation import Revalidation
from core.messages.nodes import DrainNodes, NodesAnswered
from core.nouns.defragmentation import PLAN_VERSION, Freeing, Plan
from core.nouns.ids import RegionName
from core.nouns.instant import Nanoseconds
from core.nouns.limits import DEFRAGMENTATION_SPAN, SCOPE_NAMES_MAX
from core.nouns.maintenance import Scope, ScopeKind
from core.nouns.placement import runs_of
from core.placing.diagnosis.fragmentation import nodes_with_gpus
from mizzen.actions.node_scopes import Runs, region_of
from mizzen.actions.workloads import TRIES_MAX, before_try
from mizzen.connect.plane import ask_on_revision, submitter
from mizzen.terminal.node_options import PlaceOptions
from mizzen.terminal.output import MISUSED, CommandError
from mizzen.views.plane_reads import region_image_at, regions_of
from runtime.clock import wall_now

REASON = "to free whole {}"


class Wish(Struct, frozen=True):
    """What is to come free."""

    freeing: Freeing = Freeing.NODES
    count: int = 0
    """The most; 0: as many as can."""
    gpu_type: str = ""


class Executed(Struct, frozen=True):
    """What became of a plan's word."""

    region: RegionName
    name: str
    """Of the drain; empty: nothing of the plan stands any more."""
    node_runs: Runs
    nodes: int
    moves: int
    """That are asked for now."""
    lasts: int
    """Nanoseconds after which the drain lifts itself."""
    skipped: tuple[tuple[Runs, str], ...]
    """Nodes that do not come free, and why."""


async def region_meant(bus: Bus, region: str) -> RegionName:
    """The one that is named, or the only one. Raises CommandError."""
    return region_of((), PlaceOptions(region=region, all_=True), await regions_of(bus))


async def plan(bus: Bus, region: str, wish: Wish) -> Plan:
    """What to move, as the region is now. Raises CommandError."""
    where = await region_meant(bus, region)
    image, sequence = await region_image_at(bus, where, SECTIONS)
    if wish.gpu_type and not nodes_with_gpus(image.capacity, wish.gpu_type):
        raise CommandError(
            f"{where} has no nodes with {wish.gpu_type}; `mizzen nodes` shows what it has", MISUSED
        )
    return planned(image, where, sequence, wall_now(), wish.freeing, count=wish.count, gpu_type=wish.gpu_type)


def read_plan(path: Path) -> Plan:
    """One that was kept in a file. Raises CommandError."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Plan)
    except OSError as error:
        raise CommandError(
            f"{path} cannot be read: {(error.strerror or str(error)).lower()}", MISUSED
        ) from error
    except msgspec.MsgspecError as error:
        text = f"{path} is no plan ({error}); `mizzen defrag --plan --out {path}` makes one"
        raise CommandError(text, MISUSED) from error
    if found.version != PLAN_VERSION:
        raise CommandError(f"{path} is a plan of another build; make a new one", MISUSED)
    return found


async def execute(bus: Bus, made: Plan, region: str, lasts: Nanoseconds = DEFRAGMENTATION_SPAN) -> Executed:
    """Ask for what still stands of it. Raises CommandError."""
    if region and region != made.region:
        raise CommandError(f"the plan is of {made.region}, not of {region}", MISUSED)
    where = await region_meant(bus, made.region)
    for number in range(TRIES_MAX):
        await before_try(number)
        image, sequence = await region_image_at(bus, where, SECTIONS)
        if image.attempts.log_id != made.log_id:
            raise CommandError(
                f"the plan is of another {where}, whose log was another one; make a new one", MISUSED
            )
        standing = Revalidation(image, wall_now())
        nodes: list[int] = []
        moves = 0
        skipped: list[tuple[Runs, str]] = []
        for freed in made.freed:
            is_too_many = len(nodes) + len(freed.nodes) > SCOPE_NAMES_MAX
            why = f"{SCOPE_NAMES_MAX} nodes are the most at once" if is_too_many else standing.take(freed)
            if why:
                skipped.append((runs_of(freed.nodes), why))
            else:
                nodes.extend(freed.nodes)
                moves += len(freed.moves)
        runs = runs_of(nodes)
        if not nodes:
            return Executed(where, "", runs, 0, 0, lasts, tuple(skipped))
        scope = Scope(ScopeKind.NODE, tuple(str(node) for node in sorted(set(nodes))))
        reason = REASON.format(made.freeing)
        revision = image.maintenance.revision
        message = DrainNodes(where, scope, reason, revision, 0, submitter(), lasts, sequence)
        answer = await ask_on_revision(bus, message, NodesAnswered)
        if answer is not None:
            return Executed(where, answer.source, runs, answer.nodes, moves, lasts, tuple(skipped))
    raise CommandError("the work there changes all the time; try again, or make a new plan with --count")

"""What operators set of a region's agents: view, strategy, partitions, rounds, full agents and tries."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from bus.port import Bus
from core.messages.agents import AgentsAnswered, AgentsShown, SetAgents, ShowAgents
from core.nouns.agents import AgentSettings
from core.nouns.ids import RegionName
from core.rules.agents.settings import problems_with
from mizzen.actions.workloads import TRIES_MAX
from mizzen.connect.plane import ask, ask_on_revision, submitter
from mizzen.jobs.values import Unreadable, span_of
from mizzen.terminal.output import MISUSED, CommandError
from mizzen.views.plane_reads import regions_of
from runtime.yaml_tree import shown

DIGITS_MAX = 9
Wish = dict[str, Any]  # Any: a value of each field that is to be set
"""Fields of `AgentSettings`."""


class Done(Struct, frozen=True):
    """How a region's agents see it now."""

    region: RegionName
    settings: AgentSettings


def wish_of(
    *, view: str, placing: str, partitions: str, sync_every: str, rotation: str, full: str, tries: str
) -> tuple[Wish, list[str]]:
    """Return the fields that the options set, and all that is wrong with them; an empty option sets nothing."""
    texts = {"view": view, "placing": placing, "rotation": rotation}
    wish: Wish = {name: text for name, text in texts.items() if text}
    problems: list[str] = []
    for name, text in (("partitions", partitions), ("full", full), ("tries", tries)):
        if text and not (text.isascii() and text.lstrip("-").isdigit() and len(text) <= DIGITS_MAX):
            problems.append(f"{name}: {shown(text)} is no count; write --{name} 4")
        elif text:
            wish[name] = int(text)
    if sync_every:
        try:
            wish["sync_every"] = span_of(sync_every)
        except Unreadable as error:
            problems.append(f"sync_every: {error}")
    if not wish and not problems:
        problems.append(
            "say what is to be set: --view, --placing, --partitions, --sync-every, --rotation, --full or --tries"
        )
    return wish, problems


async def set_agents(bus: Bus, region: str, wish: Wish, problems: list[str]) -> Done:
    """Record it; settings that are not wished for stay. Raises CommandError with everything that is wrong."""
    regions = await regions_of(bus)
    if region not in regions:
        known = f"there are {', '.join(regions)}" if regions else "the plane has none yet"
        _refuse([f"region: there is no region {region[:80]}; {known}", *problems])
    where = RegionName(region)
    for _ in range(TRIES_MAX):
        known_agents = await ask(bus, ShowAgents(where), AgentsShown)
        settings = replace(known_agents.settings, **wish)
        _refuse([*problems, *problems_with(settings, len(known_agents.agents))])
        message = SetAgents(where, settings, len(known_agents.agents), known_agents.revision, submitter())
        answer = await ask_on_revision(bus, message, AgentsAnswered)
        if answer is not None:
            return Done(where, answer.settings)
    raise CommandError("others set the agents of this region all the time; try again in a moment")


def _refuse(problems: list[str]) -> None:
    """Raise CommandError if there are problems."""
    if len(problems) == 1:
        raise CommandError(problems[0], MISUSED)
    if problems:
        raise CommandError(f"{len(problems)} things are wrong; nothing was set", MISUSED, problems)

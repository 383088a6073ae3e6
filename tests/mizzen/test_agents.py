"""How agents are set and listed: asked of a real store and a real broker."""

from typing import Any

import pytest

from core.events.agents import AgentsSet
from core.messages.agents import AgentFigures, AgentShown, AgentsShown
from core.nouns.agents import AgentSettings
from core.nouns.ids import AgentName
from core.nouns.instant import Nanoseconds, seconds
from mizzen.actions.settings.agents import set_agents, wish_of
from mizzen.terminal.output import MISUSED, CommandError
from mizzen.views.fleet.agent_table import agents_of, agents_of_plane, lines_of, settings_text
from tests.builders import EU, EU_LOG
from tests.mizzen.half_plane import HalfPlane, awarded, half_plane
from tests.mizzen.nodes_scene import nodes
from tests.runtime.aids import Place, virtual

PARSYNC = AgentSettings("parsync", "adaptive", 32, seconds(4), full=1)


def wished(**texts: str) -> tuple[dict[str, Any], list[str]]:
    """The options that are said."""
    names = ("view", "placing", "partitions", "sync_every", "rotation", "full", "tries")
    return wish_of(**{name: texts.get(name, "") for name in names})


async def plane_of(place: Place) -> HalfPlane:
    """A region with its store, and a broker that knows three agents."""
    return await half_plane(place, (nodes("w0", 0),), *awarded(), agents=3)


@virtual
async def test_agents_are_set_and_the_rest_stays(place: Place) -> None:
    """As a fact, with what was not said as it was."""
    plane = await plane_of(place)
    wish, problems = wished(view="parsync", placing="adaptive", partitions="32", sync_every="4s", full="1")
    assert PARSYNC == (await set_agents(plane.bus, EU, wish, problems)).settings
    done = await set_agents(plane.bus, EU, *wished(placing="tier-first"))
    assert ("parsync", "tier-first", 32) == (
        done.settings.view,
        done.settings.placing,
        done.settings.partitions,
    )
    assert 2 == len(await plane.events(EU_LOG, AgentsSet))


@virtual
async def test_every_problem_is_said_at_once(place: Place) -> None:
    """With its field, what cannot be read beside what cannot be."""
    plane = await plane_of(place)
    wish, problems = wished(
        view="cached", placing="luck", partitions="0", sync_every="-5s", full="many", tries="0"
    )
    with pytest.raises(CommandError) as error:
        await set_agents(plane.bus, EU, wish, problems)
    fields = [problem.partition(":")[0] for problem in error.value.problems]
    assert ["full", "sync_every", "view", "placing", "partitions", "tries"] == fields
    assert MISUSED == error.value.exit_code


@virtual
async def test_problem(place: Place) -> None:
    """One of them, as the whole error."""
    plane = await plane_of(place)
    cases: list[tuple[str, dict[str, str], str]] = [
        ("mars", {"view": "parsync"}, "there is no region mars; there are eu"),
        (EU, {}, "say what is to be set"),
        (EU, {"view": "parsync", "full": "3"}, "full: it is 3, and the region has 3 agents"),
    ]
    for region, texts, said in cases:
        with pytest.raises(CommandError, match=said):
            await set_agents(plane.bus, region, *wished(**texts))


@virtual
async def test_agents_are_listed(place: Place) -> None:
    """By region, with the settings."""
    plane = await plane_of(place)
    found, silent = await agents_of_plane(plane.bus)
    assert [] == silent
    assert [(EU, 3)] == [(one.region, len(one.agents)) for one in found]
    assert "a2" in "\n".join(lines_of(found, None))


def test_table_of_agents() -> None:
    """S13: conflict share, tries, waits, quality and ages; of what an agent has not told yet, a dash."""
    figures = AgentFigures("parsync", 200, 10, 110, 5, 100, 4_000, 90, 95_000, 100, 100, 3_500, 64)
    told = AgentsShown(
        (
            AgentShown(AgentName("a0"), AgentFigures(view="full"), Nanoseconds(1), True),
            AgentShown(AgentName("a1"), figures, Nanoseconds(1), False),
        ),
        PARSYNC,
        3,
    )
    found = agents_of(EU, told)
    head, titles, full, rows = lines_of([found], None)
    assert (
        "agents of eu see by parsync and place adaptive, 32 partitions at most, each owned once in 4 s; 1 fold every fact"
        == head
    )
    assert ["eu", "a0", "full", "0", "0", "0", "-", "-", "-", "-", "-", "-"] == full.split()
    assert [
        "eu",
        "a1",
        "parsync",
        "200",
        "10",
        "110",
        "4.5%",
        "1.10",
        "20ms",
        "0.95",
        "0.1s",
        "3.5s",
    ] == rows.split()
    assert titles.split()[:3] == ["REGION", "AGENT", "SEES"]
    assert 5 / 110 == found.conflict_share


def test_stream_needs_no_partitions() -> None:
    """They are not named."""
    assert "agents of eu see by stream" == settings_text(EU, AgentSettings())

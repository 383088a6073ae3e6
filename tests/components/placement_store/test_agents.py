"""How a region's agents see it is a fact; what is wrong with a setting is said all at once."""

from typing import Any

import pytest
from msgspec.structs import replace

from core.events.agents import AgentsSet
from core.messages.agents import AgentsAnswered, SetAgents
from core.messages.base import Refused
from core.nouns.agents import AgentSettings, AgentView, Placing
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.reasons import Reason
from core.rows import unpack_rows
from tests.builders import EU, EU_LOG, a_job
from tests.components.support.placement_store import Start, a_store, end, place
from tests.matching import facts, said_once

PARSYNC = AgentSettings(view=AgentView.PARSYNC, placing=Placing.ADAPTIVE, full=2)


def set_agents(
    machine: Any, settings: AgentSettings, *, present: int = 4, revision: int = 0, by: str = "olga"
) -> Any:
    """An operator sets it."""
    return machine.hear(SetAgents(EU, settings, present, revision, by))


def test_setting_is_a_fact(start: Start) -> None:
    """And the answer says so once it is durable; the same again records nothing."""
    machine = a_store(start)
    decision = set_agents(machine, PARSYNC)
    assert [AgentsSet(PARSYNC, "olga")] == facts(decision)
    assert AgentsAnswered(PARSYNC, 1) == said_once(decision, AgentsAnswered)
    again = set_agents(machine, PARSYNC, revision=1)
    assert [] == facts(again)
    assert AgentsAnswered(PARSYNC, 1) == said_once(again, AgentsAnswered)


def test_old_revision_is_refused(start: Start) -> None:
    """Somebody else was quicker."""
    machine = a_store(start)
    set_agents(machine, PARSYNC)
    refused = said_once(set_agents(machine, AgentSettings(), revision=0), Refused)
    assert (Reason.SUPERSEDED, ("revision: it is 1 now",)) == (refused.reason, refused.problems)


def test_every_problem_is_said_at_once(start: Start) -> None:
    """Each with its field."""
    bad = AgentSettings("cached", "luck-first", 0, Nanoseconds(-1), "twisted", 0, 0)
    refused = said_once(set_agents(a_store(start), bad, by="o" * 200), Refused)
    assert Reason.INVALID == refused.reason
    fields = [problem.partition(":")[0] for problem in refused.problems]
    assert ["view", "placing", "rotation", "partitions", "sync_every", "full", "tries", "by"] == fields


@pytest.mark.parametrize(
    ("settings", "present", "problem"),
    [
        (PARSYNC, 2, "full: it is 2, and the region has 2 agents: none would be left with partitions"),
        (PARSYNC, 0, "region: it has no agents"),
        (replace(PARSYNC, sync_every=seconds(61)), 4, "sync_every: it is more than 0, and 60 s at most"),
        (replace(PARSYNC, partitions=5_000), 4, "partitions: it is from 1 to 4096"),
        (replace(PARSYNC, tries=101), 4, "tries: it is from 1 to 100"),
        (
            replace(PARSYNC, placing="x" * 90),
            4,
            f"placing: there is no {'x' * 40!r}; there are tier-first, latency-first, quality-first, adaptive",
        ),
    ],
)
def test_problem(start: Start, settings: AgentSettings, present: int, problem: str) -> None:
    """Said so that it can be mended."""
    assert (problem,) == said_once(set_agents(a_store(start), settings, present=present), Refused).problems


def test_more_full_agents_than_there_are_do_no_harm_in_a_stream(start: Start) -> None:
    """All fold every fact there."""
    machine = a_store(start)
    assert [AgentsSet(AgentSettings(full=9), "olga")] == facts(set_agents(machine, AgentSettings(full=9)))


# What rows tell of nodes that agents with partitions leave alone.


def kept(machine: Any, first: int) -> dict[int, int]:
    """By node of the rows since a sequence, whether it is kept."""
    rows = unpack_rows(machine.component.packed_rows(machine.state, first)).tolist()
    return {row[0]: row[6] for row in rows}


def test_rows_tell_of_work_that_is_alone(start: Start) -> None:
    """From its grant until its end."""
    machine = a_store(start)
    alone = (replace(a_job(2, 1), is_alone=True),)
    first = machine.sequence(EU_LOG) + 1
    place(machine, "w-1", {0: 1, 2: 1}, jobs=alone)
    assert {0: 1, 2: 1} == kept(machine, first)
    then = machine.sequence(EU_LOG) + 1
    end(machine, "w-1")
    assert {0: 0, 2: 0} == kept(machine, then)

"""A unit's process with a mistake planted in it, as scenarios start one: an agent fails on jobs of one name."""

from collections.abc import Sequence
from typing import Any

from components.allocation_agent.component import AllocationAgent
from core.component import Decision
from core.messages.agents import FindBid
from core.messages.base import Envelope
from scenarios.worlds.processes import unit_main

POISON = "poison"
"""The name of the jobs on which agents fail."""

_decide = AllocationAgent.decide


def _failing(agent: AllocationAgent, state: Any, envelope: Envelope) -> Decision:
    message = envelope.message
    if isinstance(message, FindBid) and message.request.jobs[0].name == POISON:
        raise OverflowError("value too large to convert to int32_t")
    return _decide(agent, state, envelope)


def main(arguments: Sequence[str]) -> int:
    """Be a unit of a plane, as `mizzen start` is."""
    AllocationAgent.decide = _failing  # type: ignore[method-assign, assignment]  # the mistake
    return unit_main.main(arguments)

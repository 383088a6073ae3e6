"""The placement store's record of how the region's agents see it."""

from collections.abc import Callable

from components.placement_store.state import StoreState
from components.replies import answered, refused
from core.component import Decision
from core.events.agents import AgentsSet
from core.messages.agents import AgentsAnswered, SetAgents
from core.messages.base import Envelope, Message
from core.nouns.limits import NAME_LENGTH_MAX
from core.nouns.reasons import Reason
from core.rules.agents.settings import problems_with

HEARD_OF_AGENTS: tuple[type[Message], ...] = (SetAgents,)


class AgentRecords:
    """The store's decider for settings of agents."""

    def __init__(self) -> None:
        self.deciders: dict[type[Message], Callable[[StoreState, Envelope], Decision]] = {
            SetAgents: self._set
        }

    def _set(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, SetAgents)
        agents = state.image.agents
        problems = problems_with(message.settings, message.present)
        if len(message.by) > NAME_LENGTH_MAX:
            problems.append(f"by: {NAME_LENGTH_MAX} characters are the most")
        if problems:
            return refused(Reason.INVALID, tuple(problems))
        if message.revision != agents.revision:
            return refused(Reason.SUPERSEDED, (f"revision: it is {agents.revision} now",))
        if message.settings == agents.settings:
            return answered(AgentsAnswered(message.settings, agents.revision))
        changed = AgentsSet(message.settings, message.by)
        return answered(AgentsAnswered(message.settings, agents.revision + 1), changed)

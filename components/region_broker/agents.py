"""Which agents can search for a request, where most agents take in rows alone; and how agents are shown to operators."""

from collections.abc import Sequence

from components.region_broker.state import BrokerState
from core.messages.agents import AgentShown, AgentsShown
from core.messages.broker import ExecuteAward, SolicitBid
from core.nouns.ids import AgentName
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.workload import JobSpec
from core.placing.partitions import full_of
from core.rules.agents.full import needs_full, shape_of


def needs_full_agent(state: BrokerState, wanting: SolicitBid | ExecuteAward) -> bool:
    """Return whether only an agent that folds every fact can search for this.

    That agent also knows which nodes are reserved for a workload with a promised start: to others they are kept for someone.
    """
    if wanting.workload in state.image.starts.rows:
        return True
    if isinstance(wanting, ExecuteAward):
        return needs_full(wanting, wanting.victims)
    return needs_full(wanting) or wanting.wants_prospect or wanting.spares_all


def able_agents(
    state: BrokerState,
    agents: Sequence[AgentName],
    jobs: tuple[JobSpec, ...],
    now: Instant,
    *,
    is_for_full: bool,
) -> Sequence[AgentName]:
    """Return the agents that can search for these jobs: those with partitions, unless only a full one can."""
    full = full_of(state.image.agents.settings, agents)
    by_rows = agents[len(full) :]
    if is_for_full or not by_rows:
        return full
    until = state.handed_back.get(shape_of(jobs)) if state.handed_back else None
    return full if until is not None and now < until else by_rows


def agents_shown(state: BrokerState, agents: Sequence[AgentName], now: Instant) -> AgentsShown:
    """Return the agents that are present, which are given by number, ascending."""
    known = state.image.agents
    full = full_of(known.settings, agents)
    shown = tuple(
        AgentShown(agent, state.figures[agent], Nanoseconds(now - state.agents[agent]), agent in full)
        for agent in agents
    )
    return AgentsShown(shown, known.settings, known.revision)

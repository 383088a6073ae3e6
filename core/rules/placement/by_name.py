"""The first by name: no chance where nodes are equal, so that work fills one after the other."""

from core.rules.placement.rule import TieBreak


class ByName(TieBreak):
    """The node of the lowest number, of which its name is made; of a gang's units, the first in the order of the topology.

    Agents that choose so at one time choose the same: it is for one agent, or for agents that are kept apart by stripes.
    """

    name = "by_name"

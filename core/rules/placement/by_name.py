"""The first by name: no chance among equal nodes, so that work fills one node after the other."""

from core.rules.placement.rule import TieBreak


class ByName(TieBreak):
    """The node of the lowest number, from which its name is made; for a gang, the first unit in topology order.

    Agents that choose by name at the same time choose the same node: suits one agent, or agents kept apart by stripes.
    """

    name = "by_name"

"""A rule set made ready for use: its rules by what they judge, and where each score stands in a node's key."""

from collections.abc import Callable, Sequence
from operator import attrgetter

import numpy as np
from msgspec import Struct

from core.rules.placement.rule import (
    ClusterPreference,
    ClusterValidator,
    Level,
    NodePreference,
    NodeValidator,
    Preference,
    Refinement,
    Request,
    Rule,
    TieBreak,
    UnitPreference,
)

KEY_BITS = 31


class KeyPart(Struct, frozen=True):
    """A preference by node, and where its score stands in a key."""

    shift: np.uint32
    rule: NodePreference


class Plan:
    """A rule set made ready: which rules look at clusters, at nodes and at units, and where scores stand in a key."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self.cluster_validators = [rule for rule in rules if isinstance(rule, ClusterValidator)]
        self.node_validators = [rule for rule in rules if isinstance(rule, NodeValidator)]
        self.tie_breaks = [rule for rule in rules if isinstance(rule, TieBreak)]
        self.is_by_name = bool(self.tie_breaks)
        """Whether the first of equals is taken, and none is drawn."""
        self.refinements = [rule for rule in rules if isinstance(rule, Refinement)]
        self.node_parts: list[KeyPart] = []
        self.in_order: list[tuple[int, NodePreference | ClusterPreference | UnitPreference]] = []
        """All preferences below clusters, the most important one first, each with its place in a key."""
        self.cluster_parts: list[tuple[int, ClusterPreference]] = []
        self.units: dict[Level, list[tuple[int, UnitPreference]]] = {}
        kept = _kept(rules)
        problem = self.problem_of(rules)
        if problem:
            raise ValueError(problem)
        shift = sum(bits_of(rule) for rule in kept if rule.level is not Level.CLUSTER)
        cluster_shift = 0
        for rule in kept:
            bits = bits_of(rule)
            if isinstance(rule, UnitPreference) and rule.level is Level.CLUSTER:
                # Clusters are compared before nodes: the first rule has the highest bits among them too.
                cluster_shift += bits
                self.units.setdefault(Level.CLUSTER, []).append((31 - cluster_shift, rule))
                continue
            shift -= bits
            self.in_order.append((shift, rule))
            if isinstance(rule, UnitPreference):
                self.units.setdefault(rule.level, []).append((shift, rule))
            elif isinstance(rule, ClusterPreference):
                self.cluster_parts.append((shift, rule))
            else:
                self.node_parts.append(KeyPart(np.uint32(shift), rule))
        node_rules: list[Rule] = [*self.node_validators, *(part.rule for part in self.node_parts)]
        shared = {rule.traits for rule in node_rules if "need" not in rule.traits}
        self.shared = sorted(shared, key=sorted)
        """Traits by which what rules say is kept once for all classes that are equal in them."""
        self.own_validators = [rule for rule in self.node_validators if "need" in rule.traits]
        self.own_parts = [part for part in self.node_parts if "need" in part.rule.traits]
        traits = sorted(
            {"need", "tasks_per_node", "together", *(trait for rule in rules for trait in rule.traits)}
        )
        self.class_of: Callable[[Request], object] = attrgetter(*traits)
        """What of a request its class depends on."""

    @staticmethod
    def problem_of(rules: Sequence[Rule]) -> str:
        """Why these cannot be one plan; empty when they can."""
        kept = _kept(rules)
        for what, bits in (
            ("nodes", sum(bits_of(rule) for rule in kept if rule.level is not Level.CLUSTER)),
            ("clusters", sum(bits_of(rule) for rule in kept if rule.level is Level.CLUSTER)),
        ):
            if bits > KEY_BITS:
                return f"preferences among {what} take {bits} bits, and {KEY_BITS} are the most: make their steps fewer"
        return ""


def _kept(rules: Sequence[Rule]) -> list[NodePreference | ClusterPreference | UnitPreference]:
    """Preferences that are not off."""
    kinds = (NodePreference, ClusterPreference, UnitPreference)
    return [rule for rule in rules if isinstance(rule, kinds) and rule.steps > 1]


def bits_of(rule: Preference) -> int:
    """How many its scores take."""
    return (rule.steps - 1).bit_length()

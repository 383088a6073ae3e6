"""A rule set prepared for use: rules by kind, and the position of each score in a node's key."""

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
NO_KEY = 1 << KEY_BITS
"""Below this lies every key of a node with capacity, whichever bits of it are masked; from this on none does."""


class KeyPart(Struct, frozen=True):
    """A node preference, and the shift of its score in a key, in bits."""

    shift: np.uint32
    rule: NodePreference


class Plan:
    """A rule set prepared for use: rules on clusters, nodes and units, each with the position of its score in a key."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self.cluster_validators = [rule for rule in rules if isinstance(rule, ClusterValidator)]
        self.node_validators = [rule for rule in rules if isinstance(rule, NodeValidator)]
        self.tie_breaks = [rule for rule in rules if isinstance(rule, TieBreak)]
        self.is_by_name = bool(self.tie_breaks)
        """True if the first of equal nodes by name is taken; otherwise one is drawn."""
        self.refinements = [rule for rule in rules if isinstance(rule, Refinement)]
        self.node_parts: list[KeyPart] = []
        self.in_order: list[tuple[int, NodePreference | ClusterPreference | UnitPreference]] = []
        """All preferences among nodes, the most important first, each with its shift in a key."""
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
                # Clusters are compared before nodes, by codes of their own, in which the first rule has the highest bits too.
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
        self.tier_shift = self._tier_shift()
        """Shift of a key that leaves the tier: the scores of the first preferences, as long as they are about the task itself."""
        self.mask_of_empty = np.uint32(
            sum(_bits_at(shift, rule) for shift, rule in self.in_order if rule.is_about_empty)
        )
        """Bits of a key that say whether the task would break into an empty node."""
        self.mask_in_partition = np.uint32(0xFFFFFFFF ^ self._bits_beyond_racks())
        """Bits of a key that follow from the node and its rack alone: a partition is racks, and tells of no larger unit."""
        node_rules: list[Rule] = [*self.node_validators, *(part.rule for part in self.node_parts)]
        shared = {rule.traits for rule in node_rules if "need" not in rule.traits}
        self.shared = sorted(shared, key=sorted)
        """Sets of traits without `need`: results of the rules that read one set are kept once for all classes equal in the set."""
        self.own_validators = [rule for rule in self.node_validators if "need" in rule.traits]
        self.own_parts = [part for part in self.node_parts if "need" in part.rule.traits]
        traits = sorted(
            {"need", "tasks_per_node", "together", *(trait for rule in rules for trait in rule.traits)}
        )
        self.class_of: Callable[[Request], object] = attrgetter(*traits)
        """Function from a request to the traits that decide its class."""

    def _tier_shift(self) -> int:
        tier_shift = KEY_BITS
        for shift, rule in self.in_order:
            if not rule.is_about_task:
                break
            tier_shift = shift
        return tier_shift

    def _bits_beyond_racks(self) -> int:
        beyond = [*self.units.get(Level.POD, ()), *self.units.get(Level.DOMAIN, ())]
        return sum(_bits_at(shift, rule) for shift, rule in beyond)

    @staticmethod
    def problem_of(rules: Sequence[Rule]) -> str:
        """Return why the rules cannot be one plan; empty if they can."""
        kept = _kept(rules)
        for what, bits in (
            ("nodes", sum(bits_of(rule) for rule in kept if rule.level is not Level.CLUSTER)),
            ("clusters", sum(bits_of(rule) for rule in kept if rule.level is Level.CLUSTER)),
        ):
            if bits > KEY_BITS:
                return f"preferences among {what} take {bits} bits, and {KEY_BITS} are the most: make their steps fewer"
        return ""


def _kept(rules: Sequence[Rule]) -> list[NodePreference | ClusterPreference | UnitPreference]:
    """Return the preferences that are not off: one step is off."""
    kinds = (NodePreference, ClusterPreference, UnitPreference)
    return [rule for rule in rules if isinstance(rule, kinds) and rule.steps > 1]


def _bits_at(shift: int, rule: Preference) -> int:
    return (1 << bits_of(rule)) - 1 << shift


def bits_of(rule: Preference) -> int:
    """Return the number of bits that the rule's scores take."""
    return (rule.steps - 1).bit_length()

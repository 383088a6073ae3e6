"""Scenarios of the swarm in which hosts decide messages by various policies, and decisions take time.

Drawn over whatever else a seed has, by dice of its own, so that nothing else is drawn otherwise.
"""

import random

from msgspec.structs import replace

from core.dispatch.policies import POLICIES
from core.nouns.dispatch import DEFAULT_POLICY, UrgencyClass
from scenarios.fault import Fault
from scenarios.faults.dashboards import Dashboards
from scenarios.scenario import ScenarioSpec
from scenarios.schema.dispatch import DispatchSpec

OF_DISPATCH: tuple[type[Fault], ...] = (Dashboards,)
"""Faults that are drawn here alone."""
DASHBOARDS_SHARE = 0.2
"""Of seeds in which decisions take time."""
DEFAULT_SHARE = 0.4
"""Of all seeds, by the default policy; of the others each has its part."""
PACED_SHARE = 0.5
"""Of all seeds, those in which decisions take time."""
DECISION_MS = (0.1, 0.5, 2.0)
SLOW = (
    "find-bid",
    "list-starts",
    "place-award",
    "solicit-bid",
    "submit-claim",
    "submit-workload",
    "worker-beat",
    "worker-report",
)
"""Messages of which the decisions take longer, in some seeds."""
SLOW_MS = (5.0, 20.0, 60.0)
SHORT_SHARE = 0.5
"""Of seeds in which decisions take time, those with a class that may wait for a few milliseconds only."""


def with_dispatch(spec: ScenarioSpec, dice: random.Random) -> ScenarioSpec:
    """Return the same scenario with a policy, and with decisions that take time."""
    policy = DEFAULT_POLICY if dice.random() < DEFAULT_SHARE else dice.choice(sorted(POLICIES))
    quantum_ms = dice.choice((0.0, 0.0, 5.0))
    drawn = DispatchSpec(policy=policy, quantum_ms=quantum_ms, rate=dice.choice((1, 20)))
    if dice.random() < PACED_SHARE:
        slow = {tag: dice.choice(SLOW_MS) for tag in dice.sample(SLOW, dice.randint(0, 2))}
        drawn = replace(drawn, decision_ms=dice.choice(DECISION_MS), decisions_ms=slow)
        if dice.random() < SHORT_SHARE:
            within = dice.choice((1.0, 10.0))
            waits = (within, within * dice.choice((1.0, 3.0)))
            sorts = dice.sample(list(UrgencyClass), dice.randint(1, 3))
            drawn = replace(drawn, targets_ms={str(sort): waits for sort in sorts})
        if dice.random() < DASHBOARDS_SHARE:
            looks = Dashboards(
                dashboards=dice.randint(1, 4),
                lists_per_second=dice.choice((0.5, 4.0)),
                for_seconds=(5.0, 30.0),
            )
            spec = replace(spec, faults=(*spec.faults, looks))
    return replace(spec, dispatch=drawn)

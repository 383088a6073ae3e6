"""Scenarios of the swarm in which users submit pipelines beside their other work.

Drawn over whatever else a seed has, by dice of its own, so that nothing else is drawn otherwise.
"""

import random

from msgspec.structs import replace

from core.nouns.pipeline import OnLate
from core.nouns.pool import SHARED_POOL
from core.nouns.ranking import DeadlinePolicy
from scenarios.scenario import CalmSpec, ScenarioSpec
from scenarios.schema.fleet import emulated_regions, parts_of
from scenarios.schema.tenants import BudgetSpec, RankingSpec, TenantSpec
from scenarios.workload import gpus_of
from scenarios.workloads.pipelines import Pipelines

PIPELINES_SHARE = 0.12
"""Of all seeds."""
PIPELINES_MAX = 12
GPUS_MAX = 8
POLICIES = (DeadlinePolicy.LLF, DeadlinePolicy.LLF, DeadlinePolicy.EDF, DeadlinePolicy.OFF)
WINDOW_HOURS = 23.0
"""How long windows last, so that a stage misses none for a day: each is closed for an hour alone, before it opens."""
BUDGET_SHARE = 0.3
"""Of tenants, those with a budget of work under deadlines."""
CALM_MINUTES = 60.0
"""Five stages of two minutes each may follow each other, and each may be tried three times."""


def has_pipelines(dice: random.Random) -> bool:
    """Draw whether a scenario has pipelines."""
    return dice.random() < PIPELINES_SHARE


def with_pipelines(spec: ScenarioSpec, dice: random.Random) -> ScenarioSpec:
    """Return the same scenario with pipelines of the same tenants as other work. They may read what other work reads."""
    like = spec.workload[0]
    parts = [part for region in emulated_regions(spec.fleet).values() for part in parts_of(region)]
    narrowest = min(gpus_of(part) for part in parts if part.pool != SHARED_POOL)
    data = tuple(sorted({name for load in spec.workload for name in load.data}))
    stages_min, earlier_runs = dice.randint(1, 3), dice.choice((0, 0, 2))
    load = Pipelines(
        pipelines=dice.randint(3, PIPELINES_MAX),
        templates=dice.randint(1, 4),
        stages_min=stages_min,
        stages_max=dice.randint(stages_min, 5),
        burst_share=dice.choice((0.0, 0.7, 1.0)),
        bursts=dice.randint(1, 3),
        slack_min=1.0,
        slack_max=dice.choice((1.5, 4.0, 20.0)),
        no_deadline_share=dice.choice((0.0, 0.0, 0.3, 1.0)),
        on_late=dice.choice(list(OnLate)),
        together=dice.random() < 0.7,
        minutes_median=round(dice.uniform(0.5, 4.0), 2),
        minutes_max=6.0,
        gpus_max=min(GPUS_MAX, narrowest),
        long_share=dice.choice((0.0, 0.3)),
        tells_size=dice.random() < 0.5,
        told=dice.random() < 0.3,
        earlier_runs=earlier_runs,
        earlier_hours=like.hours / 2,
        hours=like.hours / 2 if earlier_runs else like.hours,
        window_share=dice.choice((0.0, 0.0, 0.3)),
        window_hours=WINDOW_HOURS * like.compression,
        fails_share=dice.choice((0.0, 0.05, 0.2)),
        cancels_share=dice.choice((0.0, 0.1, 0.3)),
        holds_share=dice.choice((0.0, 0.1, 0.3)),
        requeues_share=dice.choice((0.0, 0.1, 0.2)),
        unsaved_share=dice.choice((0.0, 0.2, 1.0)),
        change_minutes=dice.choice((2.0, 10.0, 60.0)),
        tenants=like.tenants,
        data=data if dice.random() < 0.5 else (),
        move_after_seconds=like.move_after_seconds,
        compression=like.compression,
    )
    policy = dice.choice(POLICIES)
    return replace(
        spec,
        workload=(*spec.workload, load),
        tenants={name: _with_budget(tenant, dice) for name, tenant in spec.tenants.items()},
        ranking=spec.ranking if policy is DeadlinePolicy.LLF else RankingSpec(deadlines=policy),
        calm=CalmSpec(max(CALM_MINUTES, spec.calm.minutes)),
    )


def _with_budget(tenant: TenantSpec, dice: random.Random) -> TenantSpec:
    has_budget = dice.random() < BUDGET_SHARE
    return replace(tenant, deadline_budget=BudgetSpec(1, dice.choice((1.0, 24.0)))) if has_budget else tenant

"""Problems of pools for tests: by hand, and drawn small ones."""

from collections.abc import Sequence
from random import Random

from core.pooling.problem import NodeClass, PoolingProblem

SIZES = ((8,), (8,), (4,), (4, 8), (1, 3, 8))
"""GPUs of nodes of one type, of which one set is drawn for each type."""


def like(
    count: int,
    pool: int,
    domain: int = 0,
    *,
    going: int = -1,
    is_in_use: bool = False,
    gpus: int = 8,
    node_type: int = 0,
    zone: int = 0,
) -> NodeClass:
    """Return a class of nodes that stay in their pool unless they are going to another."""
    return NodeClass(node_type, zone, domain, pool, pool if going < 0 else going, is_in_use, gpus, count)


def problem_of(
    classes: Sequence[NodeClass],
    needs: Sequence[Sequence[int]],
    *,
    survives: Sequence[bool] = (),
    spreads: Sequence[bool] = (),
    wants: Sequence[Sequence[int]] = (),
    free: int = -1,
    moves_max: int = 1 << 31,
) -> PoolingProblem:
    """Return a problem of as many pools and types as needs has. No pool survives, spreads or wants unless asked for otherwise."""
    pools, types = len(needs), len(needs[0])
    return PoolingProblem(
        tuple(f"pool{number}" for number in range(pools)),
        tuple(f"type{number}" for number in range(types)),
        tuple(f"zone{number}" for number in range(1 + max((one.zone for one in classes), default=0))),
        tuple(f"domain{number}" for number in range(1 + max((one.domain for one in classes), default=0))),
        tuple(tuple(row) for row in needs),
        tuple(survives) or (False,) * pools,
        tuple(spreads) or (False,) * pools,
        tuple(tuple(row) for row in wants) or ((0,) * types,) * pools,
        tuple(classes),
        free,
        moves_max,
    )


def drawn(seed: int) -> PoolingProblem:
    """Return a small problem of up to four pools, two types and five domains, of which some can be solved without a shortage."""
    dice = Random(seed)
    pools, types, domains = dice.randint(2, 4), dice.randint(1, 2), dice.randint(1, 5)
    free = dice.choice((-1, pools - 1))
    fullness = dice.choice((0.4, 0.7, 1.1))
    classes = [
        like(
            dice.randint(1, 6),
            pool,
            domain,
            going=dice.randrange(pools) if dice.random() < 0.2 else -1,
            is_in_use=pool != free and dice.random() < 0.6,
            gpus=gpus,
            node_type=node_type,
            zone=dice.randrange(2),
        )
        for node_type in range(types)
        for gpus in dice.choice(SIZES)
        for domain in range(domains)
        for pool in range(pools)
        for _ in range(dice.randint(0, 2))
    ] or [like(3, 0)]
    all_gpus = [
        sum(one.gpus * one.count for one in classes if one.node_type == kind) for kind in range(types)
    ]
    needy = [pool for pool in range(pools) if pool != free]
    needs = [[0] * types for _ in range(pools)]
    wants = [[0] * types for _ in range(pools)]
    for pool in needy:
        for kind, gpus in enumerate(all_gpus):
            needs[pool][kind] = (
                int(dice.random() * 2 * fullness * gpus / len(needy)) if dice.random() < 0.8 else 0
            )
            wants[pool][kind] = dice.randint(1, 40) if dice.random() < 0.3 else 0
    return problem_of(
        classes,
        needs,
        survives=[dice.random() < 0.6 for _ in range(pools)],
        spreads=[dice.random() < 0.4 for _ in range(pools)],
        wants=wants,
        free=free,
        moves_max=dice.choice((1 << 31, 1 << 31, 3, 8)),
    )

"""The service of Twine's figure 14: 15,000 shards of three replicas on 1,000 tasks, and the switchboard that fails.

The figure tells how many tasks went at once, and so how large the zones were; where replicas lie it does not tell. Each
shard here has them in three of the four zones, each on any task of its zone, all with equal odds.
"""

import numpy as np

from mizzen.control.shards import Shards

SHARDS = 15_000
REPLICAS = 3
ZONES = (274, 250, 240, 236)
"""Tasks of each zone; tasks are numbered zone by zone."""
TASKS = sum(ZONES)
DOMAIN_TASKS = 50
"""Tasks behind one switchboard; the last of a zone may have fewer."""
LOST_ZONE = 1
"""Where the switchboard fails: not where the first batch is, or more than a batch would be lost with it."""

UPDATE_SECONDS = 240
LOST_AT_SECONDS = 120
BACK_AT_SECONDS = 415


def build_shards(seed: int) -> Shards:
    """Where the replicas lie."""
    dice = np.random.default_rng(seed)
    starts = np.concatenate(([0], np.cumsum(ZONES)[:-1]))
    # Of a random order of the zones the first three.
    chosen = dice.random((SHARDS, len(ZONES))).argsort(axis=1)[:, :REPLICAS]
    replicas = starts[chosen] + (dice.random((SHARDS, REPLICAS)) * np.array(ZONES)[chosen]).astype(np.int64)
    return Shards(replicas, zones=zones(), domains=domains())


def zones() -> dict[int, int]:
    """The zone of each task."""
    return dict(enumerate(np.repeat(range(len(ZONES)), ZONES).tolist()))


def domains() -> dict[int, str]:
    """The switchboard of each task: those of a zone are filled one after the other."""
    return {
        task: f"{zone}-{place // DOMAIN_TASKS}"
        for zone, first in enumerate((0, *np.cumsum(ZONES)[:-1].tolist()))
        for place, task in enumerate(range(first, first + ZONES[zone]))
    }


def lost_tasks(zone: int = LOST_ZONE) -> list[int]:
    """The tasks of the switchboard that fails: the first of a zone."""
    return [task for task, domain in domains().items() if domain == f"{zone}-0"]

"""One little life of a harvester, and the part of a store's life in which capacity is harvested (see tests/components/support/scenes.py)."""

from collections.abc import Callable
from typing import Any

from core.events.harvest import HarvestOffered
from core.events.pools import NodesPooled, PoolChanged
from core.events.tenants import TenantSet
from core.messages.pools import SetPool
from core.nouns.harvest import HarvestPart, HarvestSettings, HarvestUse
from core.nouns.harvest_limits import ODDS_INTERVAL
from core.nouns.ids import GLOBAL_LOG, TenantName
from core.nouns.instant import seconds
from core.nouns.pool import PoolSettings
from core.nouns.quantities import NOTHING, Amount
from core.nouns.tenant import TenantSettings
from tests.builders import EU, EU_LOG, a_claim, granted
from tests.components.support.harvest import (
    GRACE,
    ON,
    POOL,
    a_harvester,
    gpus,
    lend,
    offer,
    recall,
    release,
    show,
    sized,
)
from tests.components.support.machine import Machine
from tests.components.support.placement_store import end, place

Start = Callable[..., Machine[Any]]


def of_the_harvester(start: Start) -> Machine[Any]:
    """Nodes that are offered, granted in part and given back; settings that change."""
    machine = a_harvester(start)
    machine.wait(seconds(12))
    machine.fact(EU_LOG, HarvestOffered(1, (HarvestPart(((0, 3),), gpus(8), pool=POOL),), GRACE))
    machine.wake()
    sized(machine, {0: gpus(2)})
    machine.fact(EU_LOG, granted(a_claim("w-1", placed={0: 8})))
    machine.wake()
    sized(machine, {0: NOTHING})
    show(machine)
    bounded = TenantSettings(harvest=HarvestUse(risk_max=1_000))
    machine.fact(GLOBAL_LOG, TenantSet(TenantName("ml"), 1, bounded))
    machine.fact(
        EU_LOG, PoolChanged(POOL, PoolSettings(harvest=HarvestSettings(is_on=True, grace=seconds(5))))
    )
    machine.wait(seconds(1))
    machine.fact(EU_LOG, PoolChanged(POOL, PoolSettings()))
    machine.fact(EU_LOG, NodesPooled(((3, 3),), "service"))
    machine.wait(ODDS_INTERVAL)
    return machine


def capacity_is_harvested(machine: Machine[Any]) -> None:
    """Offered, granted, given back and not given back; lent, and wanted back; recalled because settings changed."""
    set_pool(machine, ON)
    offer(machine, {2: gpus(8), 3: gpus(8)})
    place(machine, "w-40", {2: 4})
    release(machine, 2)
    set_pool(machine, PoolSettings())
    recall(machine, {3: gpus(4)})
    machine.wait(seconds(36))
    release(machine, 3)
    set_pool(machine, ON)
    lend(machine, "w-40", 2, Amount(2_000), 1)
    lend(machine, "w-40", 2, NOTHING, 2)
    release(machine, 2)
    end(machine, "w-40")
    set_pool(machine, PoolSettings())
    recall(machine, {2: NOTHING, 3: NOTHING})
    release(machine, 2, 3)


def set_pool(machine: Machine[Any], settings: PoolSettings) -> None:
    """An operator sets the pool."""
    machine.hear(SetPool(EU, POOL, settings, machine.state.image.pools.revision, "olga"))

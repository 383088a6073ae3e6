"""What an operator sets of a pool: by which rules it is searched, what is kept free in each of its zones, and what it needs."""

from enum import StrEnum

from msgspec import Struct

from core.nouns.harvest import KEEPS, LENDS, HarvestSettings

PERMILLE = 1000
SHARED_POOL = "shared"
"""Its nodes are shared by policy, in rounds, among jobs of kind `shared`: these run nowhere else, and nothing else runs there."""

HARVEST_POOL = "harvest"
"""What is free in it is lent to functions unless an operator says otherwise."""
FREE_POOL = "free"
"""Of nodes that no pool was given: failed nodes of other pools are replaced from it, before any other pool is asked."""
POOLS = ("training", "service", HARVEST_POOL, SHARED_POOL, FREE_POOL)
"""Pools that may have needs before they have a node (DESIGN §4)."""

SHARED_GPUS = f"{SHARED_POOL}/"
"""What the name of a shared pool's GPUs begins with where others are named by their type: in charges, and in what tenants hold."""


def shared_name(gpu_type: str) -> str:
    """Return the name under which GPUs of this type in a shared pool are charged: they are apart from all quota."""
    return f"{SHARED_GPUS}{gpu_type}"


class Survives(StrEnum):
    """Which loss a pool is to have what it needs after."""

    POWER_DOMAIN = "power_domain"
    """Of any one power domain, or zone where nodes name no domain."""
    NOTHING = "none"


class PoolSettings(Struct, frozen=True):
    """Of one pool. The reserve and the limit hold for each of its zones alone."""

    rules: str = ""
    """A rule set's name, or rules by comma; empty: the default set."""
    reserve: int = 0
    """The number of nodes that are kept with all GPUs free. Only recovering work may take them."""
    limit: int = PERMILLE
    """Permille of the GPU milli of open nodes that may be in use; work that heals may go over it."""
    needs: tuple[tuple[str, int], ...] = ()
    """GPUs that the pool is to have in all zones together, by node type, ascending by type."""
    survives: Survives = Survives.POWER_DOMAIN
    harvest: HarvestSettings | None = None
    """Whether functions may use what is free; None: in the pool `harvest`, and in no other."""
    price: int = 0
    """Of a GPU-hour that is held, in millionths of the operator's unit; of a core-hour where nodes have no GPUs."""

    @property
    def keeps_something_free(self) -> bool:
        """Whether there is anything that a request could break."""
        return self.reserve > 0 or self.limit < PERMILLE

    def room_under_limit(self, open_gpu_milli: int, used_gpu_milli: int) -> int:
        """GPU milli that may be taken still, of a zone that has so much on open nodes, and so much of that in use."""
        return max(0, open_gpu_milli * self.limit // PERMILLE - used_gpu_milli)


UNSET = PoolSettings()


def harvest_of(pool: str, settings: PoolSettings) -> HarvestSettings:
    """Return how a pool lends what is free."""
    if settings.harvest is not None:
        return settings.harvest
    return LENDS if pool == HARVEST_POOL else KEEPS


def percent_text(permille: int) -> str:
    """A share as people write it: `95%`, `97.5%`."""
    return f"{permille * 100 / PERMILLE:g}%"

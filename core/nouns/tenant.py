"""What operators set of a tenant: its level, what it may hold of each GPU type, and how many GPU-hours it may use."""

from msgspec import Struct

from core.nouns.harvest import USES_ALL, HarvestUse
from core.nouns.instant import Nanoseconds
from core.nouns.limits import TENANT_PENDING_MAX

LEVEL_MIN, LEVEL_MAX = 0, 6
"""The lowest and the highest, as of a workload's priority."""
UNLIMITED = -1
FRESH_LEVEL = 5
"""From this level on, work that needs fresh data has it; below, a copy will do where home has no room (MAST §3.1)."""
OVER_LEVEL = LEVEL_MIN - 1
"""Of work that is over quota, in its region: whatever is within quota may push it out."""


class TenantSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Of a tenant as a whole."""

    level: int = 3
    """Of its work that is within its entitlement."""
    run_min: Nanoseconds = Nanoseconds(0)
    """How long work of it runs at least before it may be a victim."""
    pending_max: int = TENANT_PENDING_MAX
    """Pending workloads of the tenant beyond which its submissions are refused."""
    harvest: HarvestUse = USES_ALL
    """How far its functions may use harvested capacity."""


class Entitlement(Struct, frozen=True, forbid_unknown_fields=True):
    """What a tenant may hold of one GPU type, over all regions."""

    gpus: int = 0
    """Guaranteed to it, whole GPUs."""
    borrow_max: int = UNLIMITED
    """Whole GPUs that it may hold beyond those while others do not use them; -1: as many as there are."""
    is_lent: bool = True
    """Whether others may hold what it does not use of those."""

    @property
    def gpus_max(self) -> int:
        """The most that it may hold; -1: as many as there are."""
        return UNLIMITED if self.borrow_max == UNLIMITED else self.gpus + self.borrow_max


NO_ENTITLEMENT = Entitlement()
"""The entitlement to a type without a setting: no GPUs are guaranteed, and all idle ones may be borrowed."""


class Budget(Struct, frozen=True, forbid_unknown_fields=True):
    """So many GPU-hours in each period, of all types and in all regions together."""

    gpu_hours: int
    period: Nanoseconds


class TypeUse(Struct, frozen=True):
    """What a tenant has to do with one GPU type. All but the entitlement is in GPU milli."""

    entitlement: Entitlement
    held: int
    """By its attempts that were granted and have not ended."""
    borrowed: int
    """Of these, what goes beyond what is guaranteed."""
    lent: int
    """Of what is guaranteed and not held, what others have borrowed."""
    stays: int = 0
    """The borrowed part that interactive work holds: such work is never preempted, so that this part stays until the work ends."""

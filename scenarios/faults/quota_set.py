"""An operator sets what a tenant may hold otherwise, in the middle of it all."""

from typing import ClassVar

from core.nouns.ids import TenantName
from core.nouns.tenant import UNLIMITED, Entitlement
from scenarios.fault import Fault, Stage
from scenarios.play.operators import Operators
from scenarios.schema.parts import Count
from scenarios.schema.tenants import Borrowing


class QuotaSet(Fault, frozen=True):
    """Of one of the scenario's tenants, drawn if none is named: more or less, whatever it holds."""

    is_misfortune: ClassVar[bool] = False
    tenant: str = ""
    gpu_type: str = ""
    """One of those to which it is entitled, drawn, if this is not said."""
    gpus: Count | None = None
    """Guaranteed to it from then on; drawn up to twice what it was at the start, if this is not said."""
    borrow_max: Borrowing = UNLIMITED
    is_lent: bool = True

    @property
    def of_tenants(self) -> tuple[str, ...]:
        """The one that it names."""
        return (self.tenant,) if self.tenant else ()

    async def strike(self, stage: Stage) -> None:
        """It is so until somebody sets it otherwise."""
        entitled = [
            (name, kind, one.gpus)
            for name, tenant in stage.tenants.items()
            for kind, one in tenant.entitled.items()
            if self.tenant in ("", name) and self.gpu_type in ("", kind)
        ]
        stage.has_struck = bool(entitled)
        if not entitled:
            return
        name, kind, before = entitled[stage.dice.randrange(len(entitled))]
        gpus = stage.dice.randint(0, 2 * before) if self.gpus is None else self.gpus
        wanted = Entitlement(gpus, self.borrow_max, self.is_lent)
        refused = await Operators(stage.users).entitle(TenantName(name), kind, wanted)
        if refused:
            stage.problems.append(refused)

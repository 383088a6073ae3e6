"""What operators do to a region's nodes, to tenants and to other people's work: as commands do it, through the bus, and insisting.

A word that another can undo names what the operator saw; whoever was too slow looks again.
"""

from collections.abc import Callable
from functools import partial

from core.defrag.plan import SECTIONS, planned
from core.images import GlobalImage, RegionImage
from core.images.fetch import ImageFetch
from core.messages.base import Message, Refused
from core.messages.control import OperateTasks
from core.messages.data import DatasetAnswered, DatasetsListed, ListDatasets, SetDataset
from core.messages.dispatch import DispatchAnswered, SetDispatch, ShowDispatchSettings
from core.messages.nodes import (
    CancelMaintenance,
    DrainNodes,
    NodesAnswered,
    PlanMaintenance,
    ReleaseNodes,
    UndrainNodes,
)
from core.messages.preemption import PreemptionAnswered, SetPreemption
from core.messages.regions import AbandonRegion, ListRegions, ReadmitRegion, RegionAnswered, RegionsListed
from core.messages.sharing import PolicyAnswered, SetPolicy
from core.messages.tenants import (
    ListedTenant,
    ListTenants,
    RankingAnswered,
    SetBudget,
    SetDeadlineBudget,
    SetEntitlement,
    SetRanking,
    SetTenant,
    ShowRanking,
    TenantAnswered,
    TenantsListed,
)
from core.nouns.defragmentation import Freeing, Plan
from core.nouns.dispatch import DispatchSettings
from core.nouns.ids import GLOBAL_LOG, AttemptKey, DatasetName, LogName, RegionName, TenantName, region_log
from core.nouns.instant import Instant, seconds
from core.nouns.limits import NAME_LENGTH_MAX
from core.nouns.maintenance import ClosureKind, MaintenanceKind, Scope, ScopeKind
from core.nouns.operation import OperationKind
from core.nouns.placement import numbers_in
from core.nouns.preemption import PreemptionSettings
from core.nouns.ranking import RankingSettings
from core.nouns.reasons import Reason
from core.nouns.sharing import SharingSettings
from core.nouns.tenant import Entitlement
from core.rules.placement.eviction_cost import told_until
from scenarios.schema.tenants import Tenants, TenantSpec
from scenarios.users import Users

OPERATOR = "olga"
TRIES_MAX = 100
"""Times that somebody else may be quicker, or the image that was looked at too old."""
LOOK_AGAIN_SECONDS = 1.0


class Operators:
    """All operators of one run."""

    def __init__(self, users: Users) -> None:
        self._users = users

    async def image(self, region: RegionName, *sections: str) -> RegionImage:
        """Some of what the region's log folds to, as its reader serves it."""
        image, _ = await self._image_at(region, *sections)
        return image

    async def _image_at(self, region: RegionName, *sections: str) -> tuple[RegionImage, int]:
        fetch = await self._fetched(region_log(region), *sections)
        assert isinstance(fetch.image, RegionImage), region
        assert fetch.head is not None, region
        return fetch.image, fetch.head.sequence

    async def _fetched(self, log: LogName, *sections: str) -> ImageFetch:
        fetch = ImageFetch(log, sections)
        while (wanted := fetch.wanted()) is not None:
            if not fetch.take(await self._users.insist(wanted)):  # A reader that has only just started.
                await self._users.world.sleep(LOOK_AGAIN_SECONDS)
            elif fetch.is_whole:
                fetch.decode()
        return fetch

    async def drain(self, region: RegionName, scope: Scope, reason: str, deadline: float = 0.0) -> str:
        """Have these nodes emptied. Returns the drain's name; empty: it was refused."""
        span, key = seconds(deadline), self._key(scope)
        return await self._ask(
            region,
            lambda image: DrainNodes(
                region, scope, reason, image.maintenance.revision, span, OPERATOR, key=key
            ),
        )

    async def undrain(self, region: RegionName, scope: Scope) -> str:
        """Lift whatever drains them."""
        return await self._ask(
            region, lambda image: UndrainNodes(region, scope, image.maintenance.revision, OPERATOR)
        )

    async def free(self, region: RegionName, freeing: Freeing, lasts: float) -> tuple[Plan, str]:
        """Plan moves that free whole nodes or racks, and ask for all of them. Returns the drain's name too; empty: there was none."""
        for _ in range(TRIES_MAX):
            image, sequence = await self._image_at(region, *SECTIONS)
            now = max((told_until(held) for _, _, held in image.capacity.live()), default=0)
            made = planned(image, region, sequence, Instant(now), freeing)
            nodes = tuple(str(node) for freed in made.freed for node in freed.nodes)
            if not nodes:
                return made, ""
            scope, revision = Scope(ScopeKind.NODE, nodes), image.maintenance.revision
            reason = f"to free whole {freeing}"
            answer = await self._users.insist(
                DrainNodes(region, scope, reason, revision, 0, OPERATOR, seconds(lasts), sequence)
            )
            if isinstance(answer, NodesAnswered):
                return made, answer.source
            await self._users.world.sleep(LOOK_AGAIN_SECONDS)
        return made, ""

    async def plan(
        self,
        region: RegionName,
        scope: Scope,
        kind: MaintenanceKind,
        *,
        starts_in: float,
        lasts: float,
        lead: float,
    ) -> str:
        """Work on these nodes. Returns the maintenance's name; empty: it was refused."""
        spans, key = (seconds(starts_in), seconds(lasts), seconds(lead)), self._key(scope)
        return await self._ask(
            region,
            lambda image: PlanMaintenance(
                region, scope, kind, *spans, image.maintenance.planned, f"{kind} work", OPERATOR, key
            ),
        )

    async def cancel(self, region: RegionName, maintenance: str) -> None:
        """It is over, or does not take place."""
        await self._users.insist(CancelMaintenance(region, maintenance, "called off", OPERATOR))

    async def release_quarantined(self, region: RegionName) -> None:
        """Look at all nodes in quarantine, find nothing wrong, and let them out."""
        why = "nothing is wrong with them"
        for _ in range(TRIES_MAX):
            image, sequence = await self._image_at(region, "capacity")
            nodes = [
                str(node)
                for closure in image.capacity.closures.values()
                if closure.kind is ClosureKind.QUARANTINE
                for node in numbers_in(closure.nodes)
            ]
            if not nodes:
                return
            scope = Scope(ScopeKind.NODE, tuple(nodes))
            answer = await self._users.insist(ReleaseNodes(region, scope, why, OPERATOR, sequence))
            if not isinstance(answer, Refused) or answer.reason != Reason.SUPERSEDED:
                return
            await self._users.world.sleep(LOOK_AGAIN_SECONDS)

    async def operate(
        self, region: RegionName, key: AttemptKey, kind: OperationKind, reason: str, requester: str
    ) -> bool:
        """Ask for something to be done to all tasks of an attempt. Whether it was taken."""
        for _ in range(TRIES_MAX):
            image = await self.image(region, "control")
            row = image.control.spec_of(*key)
            if row is None or row.is_ended:
                return False
            wanted = OperateTasks(
                region, *key, kind, (), reason, requester=requester, first=row.next_operation
            )
            answer = await self._users.insist(wanted)
            if not isinstance(answer, Refused):
                return True
            if answer.reason != Reason.SUPERSEDED:
                return False
            await self._users.world.sleep(LOOK_AGAIN_SECONDS)
        return False

    # Tenants.

    async def set_tenants(self, tenants: Tenants) -> list[str]:
        """Make all of them, with what they are entitled to and their budgets. Returns what was refused for good."""
        found = []
        for name, spec in tenants.items():
            found += await self._set_tenant(TenantName(name), spec)
        return found

    async def _set_tenant(self, tenant: TenantName, spec: TenantSpec) -> list[str]:
        made: list[Callable[[int], Message]] = [
            lambda revision: SetTenant(tenant, spec.settings, revision, OPERATOR)
        ]
        for kind, one in spec.entitled.items():
            wanted = one.entitlement
            made.append(partial(SetEntitlement, tenant, kind, wanted, by=OPERATOR))
        if spec.budget is not None:
            made.append(partial(SetBudget, tenant, spec.budget.told, by=OPERATOR))
        if spec.deadline_budget is not None:
            made.append(partial(SetDeadlineBudget, tenant, spec.deadline_budget.told, by=OPERATOR))
        refused = [await self._set_of_tenant(tenant, make) for make in made]
        return [text for text in refused if text]

    async def entitle(self, tenant: TenantName, gpu_type: str, entitlement: Entitlement) -> str:
        """It may hold so much from now on, also if it holds more. Returns why that was refused; empty: it was not."""
        return await self._set_of_tenant(
            tenant,
            partial(SetEntitlement, tenant, gpu_type, entitlement, by=OPERATOR, is_forced=True),
        )

    async def _set_of_tenant(self, tenant: TenantName, make: Callable[[int], Message]) -> str:
        answer: Message | None = None
        for _ in range(TRIES_MAX):
            answer = await self._users.insist(make(await self._revision_of(tenant)))
            if isinstance(answer, TenantAnswered):
                return ""
            assert isinstance(answer, Refused), answer
            # Nodes whose type nobody has seen yet may join still.
            if answer.reason not in (Reason.SUPERSEDED, Reason.NO_SUCH_HARDWARE):
                break
            await self._users.world.sleep(LOOK_AGAIN_SECONDS)
        return f"{tenant} was not set: {answer}"

    async def _revision_of(self, tenant: TenantName) -> int:
        return next((row.revision for row in await self.tenants() if row.tenant == tenant), 0)

    async def datasets(self) -> list[DatasetName]:
        """All of which somebody said something, or which somebody waits for."""
        listed = await self._users.insist(ListDatasets())
        assert isinstance(listed, DatasetsListed), listed
        return [row.dataset for row in listed.rows]

    async def place_dataset(
        self, dataset: DatasetName, regions: tuple[RegionName, ...], home: RegionName | None
    ) -> list[str]:
        """Its files are put in these regions, and it is there from now on, but where its copy is being deleted. Returns why that was
        refused; empty: it was not.
        """
        answer: Message | None = None
        for _ in range(TRIES_MAX):
            listed = await self._users.insist(ListDatasets())
            assert isinstance(listed, DatasetsListed), listed
            row = next((row for row in listed.rows if row.dataset == dataset), None)
            leaving = row.leaving if row is not None else ()
            there = tuple(region for region in regions if region not in leaving)
            said_home = home if home in there else next(iter(there), None)
            for region in there:
                self._users.world.put_data(region, dataset)
            revision = row.revision if row is not None else 0
            answer = await self._users.insist(
                SetDataset(dataset, there, said_home if home else None, revision, OPERATOR)
            )
            if isinstance(answer, DatasetAnswered):
                return []
            assert isinstance(answer, Refused), answer
            if answer.reason not in (Reason.SUPERSEDED, Reason.INVALID):
                break
            if answer.reason == Reason.INVALID:
                await self._users.world.sleep(
                    LOOK_AGAIN_SECONDS
                )  # A copy is being deleted since it was looked.
        return [f"{dataset} was not placed: {answer}"]

    async def abandon(self, region: RegionName) -> list[str]:
        """Give it up, whether it answers or not. Returns why that was refused; empty: it was not."""
        return await self._set_region(
            region, lambda revision: AbandonRegion(region, revision, is_forced=True, by=OPERATOR)
        )

    async def readmit(self, region: RegionName) -> list[str]:
        """Have work placed there again. Returns why that was refused; empty: it was not."""
        return await self._set_region(region, lambda revision: ReadmitRegion(region, revision, OPERATOR))

    async def _set_region(self, region: RegionName, made: Callable[[int], Message]) -> list[str]:
        answer: Message | None = None
        for _ in range(TRIES_MAX):
            listed = await self._users.insist(ListRegions())
            assert isinstance(listed, RegionsListed), listed
            revision = next((row.revision for row in listed.rows if row.region == region), 0)
            answer = await self._users.insist(made(revision))
            if isinstance(answer, RegionAnswered):
                return []
            assert isinstance(answer, Refused), answer
            if answer.reason != Reason.SUPERSEDED:
                break
        return [f"{region} was not set: {answer}"]

    async def tenants(self) -> list[ListedTenant]:
        """All of them, by name, with what they may hold and hold."""
        rows: list[ListedTenant] = []
        after = TenantName("")
        while True:
            listed = await self._users.insist(ListTenants(after))
            assert isinstance(listed, TenantsListed), listed
            rows += listed.rows
            after = listed.next
            if not after:
                return rows

    async def rank_by(self, settings: RankingSettings) -> str:
        """Rank by these rules from now on. Returns why that was refused; empty: it was not."""
        for _ in range(TRIES_MAX):
            shown = await self._users.insist(ShowRanking())
            assert isinstance(shown, RankingAnswered), shown
            answer = await self._users.insist(SetRanking(settings, shown.revision, OPERATOR))
            if isinstance(answer, RankingAnswered):
                return ""
            assert isinstance(answer, Refused), answer
            if answer.reason != Reason.SUPERSEDED:
                return f"the rules were not set: {answer}"
        return "the rules were not set: somebody else was always quicker"

    async def dispatch_by(self, settings: DispatchSettings) -> str:
        """Decide messages in this order from now on. Returns why that was refused; empty: it was not."""
        for _ in range(TRIES_MAX):
            shown = await self._users.insist(ShowDispatchSettings())
            assert isinstance(shown, DispatchAnswered), shown
            answer = await self._users.insist(SetDispatch(settings, shown.revision, OPERATOR))
            if isinstance(answer, DispatchAnswered):
                return ""
            assert isinstance(answer, Refused), answer
            if answer.reason != Reason.SUPERSEDED:
                return f"the order of messages was not set: {answer}"
        return "the order of messages was not set: somebody else was always quicker"

    async def share_by(self, settings: SharingSettings) -> str:
        """Divide shared pools by these settings from now on. Returns why that was refused; empty: it was not."""
        for _ in range(TRIES_MAX):
            image = (await self._fetched(GLOBAL_LOG, "sharing")).image
            assert isinstance(image, GlobalImage)
            answer = await self._users.insist(SetPolicy(settings, image.sharing.revision, OPERATOR))
            if isinstance(answer, PolicyAnswered):
                return ""
            assert isinstance(answer, Refused), answer
            if answer.reason != Reason.SUPERSEDED:
                return f"the policy of shared pools was not set: {answer}"
            await self._users.world.sleep(LOOK_AGAIN_SECONDS)
        return "the policy of shared pools was not set: somebody else was always quicker"

    async def preempt_by(self, region: RegionName, settings: PreemptionSettings) -> str:
        """Choose victims by these rules from now on. Returns why that was refused; empty: it was not."""
        for _ in range(TRIES_MAX):
            known = (await self.image(region, "preemption")).preemption
            answer = await self._users.insist(SetPreemption(region, settings, known.revision, OPERATOR))
            if isinstance(answer, PreemptionAnswered):
                return ""
            assert isinstance(answer, Refused), answer
            if answer.reason != Reason.SUPERSEDED:
                return f"preemption was not set: {answer}"
            await self._users.world.sleep(LOOK_AGAIN_SECONDS)
        return "preemption was not set: somebody else was always quicker"

    def _key(self, scope: Scope) -> str:
        """Return a key that this request has alone, however often it is repeated."""
        return f"{self._users.world.now():.9f} {scope.kind} {' '.join(scope.names)}"[:NAME_LENGTH_MAX]

    async def _ask(self, region: RegionName, made: Callable[[RegionImage], Message]) -> str:
        for _ in range(TRIES_MAX):
            answer = await self._users.insist(made(await self.image(region, "maintenance")))
            if isinstance(answer, NodesAnswered):
                return answer.source
            if not isinstance(answer, Refused) or answer.reason != Reason.SUPERSEDED:
                return ""
            await self._users.world.sleep(
                LOOK_AGAIN_SECONDS
            )  # Somebody was quicker, or the image is not as new as that.
        return ""

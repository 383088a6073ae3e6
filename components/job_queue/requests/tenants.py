"""Requests about tenants: operators set levels, entitlements, budgets and the ranking, and users list them."""

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from components.job_queue.ordering import bring_up
from components.job_queue.quota.classification import over_by
from components.job_queue.state.queue_state import QueueState
from components.replies import answered, refused
from core.codec import encode
from core.component import Decision
from core.events.tenants import BudgetSet, DeadlineBudgetSet, EntitlementSet, RankingSet, TenantSet
from core.images import RegionImage
from core.images.tenants import TenantRow
from core.messages.base import Envelope, Message
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
from core.nouns.ids import TenantName
from core.nouns.instant import SECOND, Instant, Nanoseconds
from core.nouns.limits import (
    ENTITLEMENTS_MAX,
    LISTED_BYTES_MAX,
    LISTED_MAX,
    NAME_LENGTH_MAX,
    TENANTS_MAX,
)
from core.nouns.reasons import Reason
from core.nouns.tenant import TypeUse
from core.nouns.workload import NEVER
from core.ranking.scan import TenantState
from core.rules.quota import may_be_over
from core.rules.tenancy import (
    Held,
    gpus_by_type,
    held_by_tenant,
    is_below_held,
    problems_of_budget,
    problems_of_deadline_budget,
    problems_of_entitlement,
    problems_of_name,
    problems_of_ranking,
    problems_of_settings,
    uses_by_tenant,
)

HEARD_OF_TENANTS: tuple[type[Message], ...] = (
    SetTenant,
    SetEntitlement,
    SetBudget,
    SetDeadlineBudget,
    ListTenants,
    SetRanking,
    ShowRanking,
)


class TenantRecords:
    """The queue's deciders for requests about tenants."""

    def __init__(self) -> None:
        self.deciders: dict[type[Message], Callable[[QueueState, Envelope], Decision]] = {
            SetTenant: self._set,
            SetEntitlement: self._set_entitlement,
            SetBudget: self._set_budget,
            SetDeadlineBudget: self._set_deadline_budget,
            ListTenants: self._list,
            SetRanking: self._set_ranking,
            ShowRanking: self._show_ranking,
        }

    def _set(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, SetTenant)
        tenants = state.image.tenants
        row = tenants.rows.get(message.tenant)
        problems = [
            *problems_of_name(message.tenant),
            *problems_of_settings(message.settings),
            *_problems_of_requester(message.by),
        ]
        if row is None and len(tenants.rows) >= TENANTS_MAX:
            problems.append(f"tenant: there are {TENANTS_MAX} already, and more cannot be")
        if problems:
            return refused(Reason.INVALID, tuple(problems))
        if row is not None and _is_so(row, message.revision, row.settings == message.settings):
            return answered(TenantAnswered(message.tenant, row.revision))
        revision = tenants.revision_of(message.tenant)
        event = TenantSet(message.tenant, revision + 1, message.settings, message.by)
        return _recorded(message, revision, event)

    def _set_entitlement(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, SetEntitlement)
        wanted, gpu_type = message.entitlement, message.gpu_type
        row = state.image.tenants.rows.get(message.tenant)
        problems = [*problems_of_entitlement(gpu_type, wanted), *_problems_of_requester(message.by)]
        if row is not None and gpu_type not in row.entitlements and len(row.entitlements) >= ENTITLEMENTS_MAX:
            problems.append(f"gpu_type: {ENTITLEMENTS_MAX} types are the most for one tenant")
        if row is None:
            return _unknown(message.tenant, problems)
        if _is_so(row, message.revision, row.entitlements.get(gpu_type) == wanted) and not problems:
            return answered(TenantAnswered(message.tenant, row.revision))
        reason = Reason.INVALID
        if not message.is_forced:
            # The first problem gives the reason; problems with the fleet and with held GPUs are listed as well.
            for here, problem in _against_what_is(state, message, row):
                reason = reason if problems else here
                problems.append(problem)
        if problems:
            return refused(reason, tuple(problems))
        event = EntitlementSet(
            message.tenant, row.revision + 1, gpu_type, wanted, message.by, message.is_forced
        )
        decided = _recorded(message, row.revision, event)
        if not decided.events:
            return decided
        over = over_by(state, message.tenant, gpu_type, wanted, envelope.at)
        return Decision((*over, *decided.events), decided.messages)

    def _set_budget(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, SetBudget)
        row = state.image.tenants.rows.get(message.tenant)
        problems = _problems_of_requester(message.by)
        if message.budget is not None:
            problems = [*problems_of_budget(message.budget), *problems]
        if row is None:
            return _unknown(message.tenant, problems)
        if problems:
            return refused(Reason.INVALID, tuple(problems))
        if _is_so(row, message.revision, row.budget == message.budget):
            return answered(TenantAnswered(message.tenant, row.revision))
        event = BudgetSet(message.tenant, row.revision + 1, message.budget, message.by)
        return _recorded(message, row.revision, event)

    def _set_deadline_budget(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, SetDeadlineBudget)
        row = state.image.tenants.rows.get(message.tenant)
        problems = _problems_of_requester(message.by)
        if message.budget is not None:
            problems = [*problems_of_deadline_budget(message.budget), *problems]
        if row is None:
            return _unknown(message.tenant, problems)
        if problems:
            return refused(Reason.INVALID, tuple(problems))
        if _is_so(row, message.revision, row.deadlines == message.budget):
            return answered(TenantAnswered(message.tenant, row.revision))
        event = DeadlineBudgetSet(message.tenant, row.revision + 1, message.budget, message.by)
        return _recorded(message, row.revision, event)

    def _set_ranking(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, SetRanking)
        tenants = state.image.tenants
        revision = tenants.ranking_revision
        if message.settings == tenants.ranking and message.revision in (revision, revision - 1):
            return answered(RankingAnswered(tenants.ranking, revision))
        problems = [*problems_of_ranking(message.settings), *_problems_of_requester(message.by)]
        if problems:
            return refused(Reason.INVALID, tuple(problems))
        if message.revision != revision:
            return refused(Reason.SUPERSEDED, (f"revision: it is {revision} now",))
        event = RankingSet(revision + 1, message.settings, message.by)
        return answered(RankingAnswered(message.settings, revision + 1), event)

    def _show_ranking(self, state: QueueState, envelope: Envelope) -> Decision:
        assert isinstance(envelope.message, ShowRanking)
        tenants = state.image.tenants
        return answered(RankingAnswered(tenants.ranking, tenants.ranking_revision))

    def _list(self, state: QueueState, envelope: Envelope) -> Decision:
        """Return a page of tenants. Held GPUs are counted again for each page, by a walk over all attempts."""
        message = envelope.message
        assert isinstance(message, ListTenants)
        tenants, images = state.image.tenants, _known(state)
        held = _held(state, images)
        uses = uses_by_tenant(tenants, held, gpus_by_type(images))
        count_max = min(max(1, message.count_max), LISTED_MAX)
        counts, ranking = state.remembered, tenants.ranking
        listed: list[ListedTenant] = []
        bytes_left = LISTED_BYTES_MAX
        more = TenantName("")
        for name in sorted({*uses, *counts.pending}):
            if name <= message.after:
                continue
            line = self._line(state, name, _with_stays(state, name, uses.get(name, {})), envelope.at)
            bytes_left -= len(encode(line))
            if listed and (len(listed) == count_max or bytes_left < 0):
                more = listed[-1].tenant
                break
            listed.append(line)
        ceilings = counts.pending_in_all, ranking.pending_max, counts.ended_in_all, ranking.remembered_max
        return answered(TenantsListed(tuple(listed), more, *ceilings))

    def _line(
        self, state: QueueState, name: TenantName, uses: dict[str, TypeUse], now: Instant
    ) -> ListedTenant:
        bring_up(state, now)
        row = state.image.tenants.rows.get(name) or TenantRow()
        usage = state.image.usage.rows.get(name)
        everybody = state.order.tenants()
        mine = everybody.get(name, TenantState())
        promised = state.image.pipelines.uses.get(name)
        return ListedTenant(
            name,
            row.settings,
            row.revision,
            row.budget,
            uses,
            used_gpu_milli_seconds=usage.used_at(now) // SECOND if usage is not None else 0,
            period_left=(
                Nanoseconds(usage.began_at(now) + usage.period - now)
                if usage is not None and row.budget is not None
                else NEVER
            ),
            share_permille=_permille(mine.use, sum(one.use for one in everybody.values())),
            share_entitled_permille=_permille(
                sum(mine.entitled.values()), sum(sum(one.entitled.values()) for one in everybody.values())
            ),
            placed=len(state.ledger.by_tenant.get(name, {})),
            pending=state.remembered.pending.get(name, 0),
            lag=state.image.usage.lag(name, now),
            deadlines=row.deadlines,
            deadlines_gpu_milli_seconds=promised.used_at(now) if promised is not None else 0,
            deadlines_left=(
                Nanoseconds(promised.began_at(now) + promised.period - now) if promised is not None else NEVER
            ),
        )


def _with_stays(state: QueueState, tenant: TenantName, uses: dict[str, TypeUse]) -> dict[str, TypeUse]:
    """Return the uses with `stays`: the borrowed part that cannot be reclaimed, because interactive work holds that part."""
    stays: Counter[str] = Counter()
    for workload in state.ledger.over.get(tenant, ()):
        if not may_be_over(state.image.workloads.rows[workload].spec.kind):
            stays.update(state.ledger.awards[workload].amounts)
    return {kind: replace(use, stays=stays[kind]) if stays[kind] else use for kind, use in uses.items()}


def _permille(part: int, whole: int) -> int:
    return 1_000 * part // whole if whole else 0


def _held(state: QueueState, images: Sequence[RegionImage]) -> Held:
    """Return the GPU milli that tenants hold in these regions, by tenant and GPU type."""
    has_pairs = state.image.sharing.settings.has_pairs
    return held_by_tenant(state.image.workloads.rows, images, has_pairs=has_pairs)


def _known(state: QueueState) -> list[RegionImage]:
    """Return the images of the known regions."""
    return [image for image in state.regions.values() if image is not None]


def _against_what_is(state: QueueState, message: SetEntitlement, row: TenantRow) -> list[tuple[Reason, str]]:
    """Return problems that a forced request overrides. Hardware is missing only once every region is known."""
    found: list[tuple[Reason, str]] = []
    images = _known(state)
    there = gpus_by_type(images)
    if len(images) == len(state.regions) and there and message.gpu_type not in there:
        text = f"gpu_type: there is no {message.gpu_type[:NAME_LENGTH_MAX]}; there are {', '.join(sorted(there))}"
        found.append((Reason.NO_SUCH_HARDWARE, text))
    held = _held(state, images)
    mine = held.get(message.tenant, {}).get(message.gpu_type, 0)
    if is_below_held(row.of(message.gpu_type), message.entitlement, mine):
        text = f"gpus: {message.tenant} holds {mine / 1000:g} of {message.gpu_type}"
        found.append((Reason.BELOW_HELD, text))
    return found


def _is_so(row: TenantRow, revision: int, is_same: bool) -> bool:
    """Return whether a request is fulfilled already: when the operator looked, or by a copy that the bus repeated."""
    return is_same and revision in (row.revision, row.revision - 1)


def _recorded(
    message: SetTenant | SetEntitlement | SetBudget | SetDeadlineBudget,
    revision: int,
    event: TenantSet | EntitlementSet | BudgetSet | DeadlineBudgetSet,
) -> Decision:
    """Return the decision to record an event, unless the request names an outdated revision."""
    if message.revision != revision:
        return refused(Reason.SUPERSEDED, (f"revision: it is {revision} now",))
    return answered(TenantAnswered(message.tenant, event.revision), event)


def _unknown(tenant: TenantName, problems: list[str]) -> Decision:
    text = f"tenant: nobody made {tenant[:NAME_LENGTH_MAX]}; set its level first"
    return refused(Reason.UNKNOWN_TENANT, (text, *problems))


def _problems_of_requester(by: str) -> list[str]:
    return [f"by: {NAME_LENGTH_MAX} characters are the most"] if len(by) > NAME_LENGTH_MAX else []

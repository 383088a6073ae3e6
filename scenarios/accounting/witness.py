"""The witness: sees every fact as it becomes durable, checks it at once, and keeps the run's accounts.

It stands outside the plane: the plane's own auditor can be killed, and hears of facts late. What it folds is what the logs
hold, whatever the keepers believe. Now and then it checks everything anew, as the plane's auditor does.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from components.auditor.component import Audited, Auditor
from core.component import Images
from core.fact import NO_LOG, Fact
from core.images import GlobalImage, Image, RegionImage, empty_image
from core.invariants.consistency import Violation
from core.nouns.ids import LogName, RegionName, TenantName, WorkloadId
from core.nouns.instant import SECOND, Instant, seconds
from core.nouns.workload import Phase
from runtime.wiring import Plan
from scenarios.accounting.attempts import Accounting
from scenarios.accounting.consent import Consent
from scenarios.accounting.pipelines import PipelinesKept
from scenarios.accounting.pools import PoolsHeld
from scenarios.accounting.quotas import Quotas
from scenarios.accounting.reservations import KeptStarts
from scenarios.accounting.shared_pools import SharedPools

NAME = "witness"


class Witness:
    """Sees facts. `sees` wants each log's in their order, and may take the logs in any."""

    def __init__(self, plan: Plan) -> None:
        self._auditor = Auditor(plan.region_names())
        self.logs: tuple[LogName, ...] = tuple(follow.log for follow in self._auditor.follows)
        empty = {
            follow.log: (empty_image(follow.log, follow.sections), 0) for follow in self._auditor.follows
        }
        self.audit = self._auditor.initial(Images(Instant(0), None, empty))
        self.images: dict[LogName, Image] = {log: empty_image(log) for log in self.logs}
        """Each log as far as it was seen; the auditor's own wait for a consistent cut."""
        self.facts: Counter[LogName] = Counter()
        self.accounting = Accounting()
        self.consent = Consent()
        self.starts = KeptStarts()
        self.quotas = Quotas()
        self.shared_pools = SharedPools()
        self.pools = PoolsHeld()
        self.pipelines = PipelinesKept()
        self.watchers: list[Callable[[Fact], None]] = []
        """Who else is told of each fact, before anything is made of it."""
        self.known_before = 0
        """Workloads of a history from which the plane started."""
        self._now = Instant(0)

    @property
    def violations(self) -> list[Violation]:
        """Whatever was ever broken."""
        return self.audit.violations

    @property
    def submitted_at(self) -> dict[WorkloadId, float]:
        """When each workload was accepted."""
        return self.accounting.submitted_at

    @property
    def ended(self) -> dict[WorkloadId, Phase]:
        """How each workload ended; the images forget it after a day."""
        return self.accounting.ended

    @property
    def lost_seconds(self) -> dict[str, float]:
        """GPU-seconds that ran and do not count, by the cause of the attempt's end."""
        return self.accounting.lost_seconds

    @property
    def queue(self) -> GlobalImage:
        """The queue's log, folded."""
        image = self.images[self.logs[0]]
        assert isinstance(image, GlobalImage), self.logs
        return image

    def region(self, region: RegionName) -> RegionImage:
        """A region's log, folded."""
        image = self.images[LogName(f"region.{region}")]
        assert isinstance(image, RegionImage), region
        return image

    def see(self, facts: Iterable[Fact], at: float | None = None) -> None:
        """These facts are durable, since `at` (seconds, from anywhere; none: since the times that they say)."""
        for fact in facts:
            seen_at = fact.at / SECOND if at is None else at
            self.facts[fact.log] += 1
            for tell in self.watchers:
                tell(fact)
            self.accounting.take(fact, seen_at)
            self.starts.take(fact, seen_at)
            self.consent.take(fact, seen_at, self.images[fact.log], self.images)
            self.quotas.take(fact, seen_at, self.images)
            self.shared_pools.take(fact)
            self.pools.take(fact, seen_at, self.images[fact.log])
            self.pipelines.take(fact)
            self.images[fact.log].fold(fact)
            self.audit = self._auditor.evolve(self.audit, fact)
            self._now = max(self._now, Instant(seconds(seen_at)))
            due = self._auditor.audit_due(self.audit)
            if due is not None and due <= self._now:
                self.check_all()

    def check_all(self) -> None:
        """Check everything anew, worked out from scratch. What is broken is a violation."""
        found = Audited(tuple(self._auditor.full_check(self.audit)))
        self.audit = self._auditor.evolve(self.audit, Fact(NO_LOG, 0, self._now, "", NAME, found))

    def figures(self, at: float) -> dict[str, float]:
        """What it can say of a run that ends then (scenarios/schema/expectations.py)."""
        consent = self.consent.figures(at, self.images)
        starts, quotas = self.starts.figures(at), self.quotas.figures(at, self.images)
        facts = {"facts": float(sum(self.facts.values()))}
        others = {
            **self.shared_pools.figures(),
            **self.pools.figures(at, self.images),
            **self.pipelines.figures(),
        }
        return {**self.accounting.figures(at), **consent, **starts, **quotas, **others, **facts}

    def figures_of(self, tenant: TenantName, level: int | None, at: float) -> dict[str, float]:
        """The same of one tenant's work alone, or of what of it was submitted at one priority."""
        only = self.accounting.works_of(tenant, level)
        borrowed = {"borrowed_gpu_seconds": self.quotas.borrowed(at, only)}
        return {**self.accounting.figures_of(only, at), **borrowed}

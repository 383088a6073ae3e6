"""Harvested capacity in a run: offers, recalls, releases and calls there by the facts of its regions, and by its nodes how long tasks waited."""

from collections.abc import Iterable

from msgspec import Struct, field

from core.events.control import TasksUp
from core.events.functions import FunctionsCounted
from core.events.harvest import HarvestOffered, HarvestReleased
from core.events.region import GangStarted
from core.fact import Fact
from core.images.harvest import Harvest
from core.images.region import RegionImage
from core.nouns.ids import GLOBAL_LOG, LogName
from core.nouns.instant import SECOND
from core.nouns.placement import numbers_in
from scenarios.accounting.attempts import percentile


class HarvestKept:
    """Told of every fact."""

    def __init__(self) -> None:
        self._offered = self._unconfirmed = self._lost = self._starts = 0
        self._reclaims: list[float] = []
        """Seconds from recalls to their releases, or to the starts that ended them."""
        self._images: dict[LogName, RegionImage] = {}
        """What is harvested, by log."""
        self._harvested = self._retried = 0
        """Calls, as routers counted them."""

    def take(self, fact: Fact) -> None:
        """A fact that became durable."""
        if fact.log != GLOBAL_LOG:
            self._fold(self._images.setdefault(fact.log, RegionImage.empty(("harvest",))), fact)
        match fact.event:
            case HarvestOffered(_, parts):
                self._offered += sum(len(numbers_in(part.nodes)) for part in parts)
            case HarvestReleased(parts):
                for part in parts:
                    self._lost += part.lost
                    if part.is_confirmed:
                        self._reclaims.append(part.after / SECOND)
                    else:
                        self._unconfirmed += 1
            case FunctionsCounted() as counted:
                for one in counted.counts:
                    self._harvested += one.harvested
                    self._retried += one.retried

    def _fold(self, image: RegionImage, fact: Fact) -> None:
        """Fold a fact, and count the recalls that a start ends: they are released without a fact of their own."""
        harvest = image.harvest
        nodes = harvest.touched_by(fact) if isinstance(fact.event, GangStarted | TasksUp) else ()
        before = {node: _recalled_at(harvest, node) for node in nodes}
        image.fold(fact)
        for node, at in before.items():
            now = _recalled_at(harvest, node)
            if at and len(now) < len(at):
                over = [one for revision, one in at.items() if revision not in now]
                self._reclaims.append((fact.at - min(over)) / SECOND)
                self._starts += 1

    def figures(self) -> dict[str, float]:
        """Return the figures of a run that ends now."""
        return {
            "harvest_offers": float(self._offered),
            "harvest_releases": float(len(self._reclaims) - self._starts),
            "harvest_unconfirmed": float(self._unconfirmed),
            "harvest_lost": float(self._lost),
            "p99_reclaim_seconds": percentile(sorted(self._reclaims), 0.99),
            "calls_harvested": float(self._harvested),
            "calls_retried": float(self._retried),
        }


def _recalled_at(harvest: Harvest, node: int) -> dict[int, int]:
    """Return when the recalls of a node began, by revision."""
    return {one.revision: one.at for one in harvest.nodes[node].recalls}


class ClearingFigures(Struct):
    """How soon the shares of one worker had what executors used of its nodes."""

    killed: int = 0
    """Executors that the worker ended."""
    waits: list[float] = field(default_factory=list)
    """Seconds, of shares that had to wait for executors."""
    problems: list[str] = field(default_factory=list)
    """Shares that waited on when their grace was over."""


def figures_of_clearing(workers: Iterable[ClearingFigures]) -> dict[str, float]:
    """Return the figures of all workers of a world together."""
    every = list(workers)
    waits = [wait for one in every for wait in one.waits]
    return {
        "executors_killed": float(sum(one.killed for one in every)),
        "tasks_waited_for_executors": float(len(waits)),
        "wait_for_executors_seconds_max": max(waits, default=0.0),
    }

"""Every claim that was granted in a simulated run, chosen once more at the sequence of its view."""

from collections import Counter, defaultdict
from collections.abc import Iterable

import structlog
from msgspec import Struct, field
from msgspec.structs import replace

from core.events.region import ClaimGranted, ClaimPromised
from core.fact import Fact
from core.images import RegionImage
from core.nouns.ids import GLOBAL_LOG, AttemptKey, LogName
from core.nouns.placement import Claim, jobs_wanted
from core.placing.diagnosis.replay_choice import Outcome, Unit, retraced
from core.placing.placer import SECTIONS
from runtime.virtual_loop import VirtualLoop
from scenarios.play.simulated import simulated_run
from scenarios.scenario import ScenarioSpec
from scenarios.worlds.simulated.world import START, SimulatedWorld
from store.rows import facts_of


class Grant(Struct, frozen=True):
    """A claim as it was granted, and over whom it had been promised."""

    log: LogName
    sequence: int
    claim: Claim
    victims: tuple[AttemptKey, ...]


class Tally(Struct):
    """What came of choosing again."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    agents: set[str] = field(default_factory=set)
    units: Counter[Unit] = field(default_factory=Counter)
    with_learnt: int = 0
    in_partitions: int = 0
    by_rows_everywhere: int = 0
    with_owners: int = 0
    with_victims: int = 0
    tried_again: int = 0
    """Claims that were made after another had met a conflict."""
    by_another: int = 0
    """Claims of what another agent had bid."""


def logs_of(spec: ScenarioSpec, seed: int) -> dict[LogName, list[Fact]]:
    """Each region's, of a run that was played to its end."""
    loop = VirtualLoop(START)
    try:
        run = simulated_run(spec, seed, loop)
        assert isinstance(run.world, SimulatedWorld)
        store = run.world.store
        with structlog.testing.capture_logs():
            loop.run_until_complete(run.play())
        files = {log: store.disk(log).file(log) for log in store.logs() if log != GLOBAL_LOG}
        return {
            log: facts_of(log, file.rows[: file.durable]) for log, file in files.items() if file is not None
        }
    finally:
        loop.cancel_all()
        loop.close()


def grants_in(log: LogName, facts: Iterable[Fact]) -> list[Grant]:
    """Every one of a region's log."""
    promised: dict[AttemptKey, tuple[AttemptKey, ...]] = {}
    found = []
    for fact in facts:
        event = fact.event
        if isinstance(event, ClaimPromised):
            promised[event.workload, event.epoch] = event.claim.victims
        elif isinstance(event, ClaimGranted):
            victims = promised.get((event.workload, event.epoch), ())
            claim = replace(event.claim, jobs=jobs_wanted(event.claim.jobs, event.unplaced))
            found.append(Grant(log, fact.sequence, claim, victims))
    return found


def retrace(log: LogName, facts: list[Fact], tally: Tally, *, forgets: Iterable[str] = ()) -> None:
    """Choose each again, or each as if its view had nothing in these fields."""
    by_view: dict[int, list[Grant]] = defaultdict(list)
    for grant in grants_in(log, facts):
        by_view[grant.claim.view.sequence].append(grant)
    image = RegionImage.empty(SECTIONS)
    for fact in facts:
        image.fold(fact)
        for grant in by_view.pop(fact.sequence, ()):
            _retrace(image, _without(grant, forgets), tally)
    assert not by_view, "a view is of no sequence of the log"


def _without(grant: Grant, fields: Iterable[str]) -> Grant:
    view = replace(grant.claim.view, **dict.fromkeys(fields, ()))
    return replace(grant, claim=replace(grant.claim, view=view))


def _retrace(image: RegionImage, grant: Grant, tally: Tally) -> None:
    claim = grant.claim
    again = retraced(image, claim, grant.victims)
    tally.outcomes[again.outcome] += 1
    tally.agents.add(f"{grant.log} {claim.agent}")
    tally.with_learnt += bool(claim.view.learnt)
    tally.in_partitions += claim.view.partition >= 0
    tally.by_rows_everywhere += bool(claim.view.placing) and claim.view.partition < 0
    tally.with_owners += bool(claim.view.owners)
    tally.with_victims += bool(grant.victims)
    tally.tried_again += not claim.claim.endswith(".1")
    tally.by_another += f".{claim.agent}" not in claim.view.seed
    tally.units.update(choice.unit for choice in again.choices)
    if again.outcome is not Outcome.EQUAL:
        tally.problems.append(f"{grant.log} {grant.sequence} {claim.claim}: {again.why}")

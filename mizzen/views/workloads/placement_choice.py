"""Why an attempt is on the nodes where it is: its claim's choice, made once more from the region's log at the claim's view."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from bus.port import Bus
from core.events.region import ClaimGranted, ClaimPromised
from core.fact import Fact
from core.images import RegionImage
from core.nouns.agents import PlacedBy
from core.nouns.ids import AttemptKey, LogName, RegionName, region_log
from core.nouns.placement import Claim, jobs_wanted
from core.placing.diagnosis.replay_choice import (
    BEST,
    DRAW,
    KEPT_FREE,
    LARGE_ENOUGH,
    PARTITION,
    ROOM,
    STRIPE,
    TIGHTEST,
    JobChoice,
    Outcome,
    Retraced,
    Step,
    Unit,
    retraced,
    what_is_missing,
)
from core.placing.placer import SECTIONS
from mizzen.terminal.output import CommandError
from mizzen.views.logs import image_view
from mizzen.views.workloads.story import Attempt

WORDS = {
    ROOM: "capacity for a task",
    KEPT_FREE: "the capacity that its pool keeps free",
    LARGE_ENOUGH: "capacity for all tasks",
    PARTITION: "the agent's partition",
    STRIPE: "the agent's own pods",
    BEST: "the agent's best few",
    TIGHTEST: "the tightest fit",
    DRAW: "chance",
}
"""What narrows a choice down and is no rule."""


class Chosen(Struct, frozen=True):
    """An attempt's choice."""

    log: LogName
    retraced: Retraced


async def chosen(
    bus: Bus, attempt: Attempt, facts: Iterable[Fact], directory: Path | None = None
) -> Chosen | None:
    """Choose again; None where nothing was claimed.

    directory   where the plane keeps its logs' files, if that is here
    """
    found = _claim_of(attempt, facts)
    if found is None:
        return None
    claim, victims = found
    log, sequence = region_log(attempt.region), claim.view.sequence
    missing = what_is_missing(claim)
    if missing:
        return Chosen(log, Retraced(Outcome.UNKNOWN, sequence, missing))
    try:
        image = await image_view.image_at(bus, log, sequence, SECTIONS, directory)
    except CommandError as error:
        return Chosen(log, Retraced(Outcome.UNKNOWN, sequence, str(error)))
    assert isinstance(image, RegionImage), log
    return Chosen(log, retraced(image, claim, victims))


def _claim_of(attempt: Attempt, facts: Iterable[Fact]) -> tuple[Claim, tuple[AttemptKey, ...]] | None:
    """As it was promised, or else granted: what is changed of it later was chosen anew."""
    for fact in facts:
        event = fact.event
        if fact.log != region_log(attempt.region) or not isinstance(event, (ClaimPromised, ClaimGranted)):
            continue
        if event.epoch == attempt.epoch:
            unplaced = event.unplaced if isinstance(event, ClaimGranted) else ()
            # It was chosen for all of its tasks.
            return replace(event.claim, jobs=jobs_wanted(event.claim.jobs, unplaced)), event.claim.victims
    return None


# For people.


def lines_of(region: RegionName, found: Chosen, indent: str) -> list[str]:
    """What decided, by job."""
    again = found.retraced
    why = f": {again.why}" if again.why else ""
    lines = ["", f"how it was chosen, recomputed from {found.log} {again.sequence}: {again.outcome}{why}"]
    if again.beside is not None:
        workload, epoch = again.beside
        lines.append(
            f"{indent}it was paired with {workload} (attempt {epoch}), on whose device it was placed"
        )
    if again.placing:
        lines.append(f"{indent}{_why_there(again)}")
    for choice in again.choices:
        lines.append(f"{indent}{_sentence(region, choice)}")
        lines.append(f"{indent * 2}nodes left by {_steps_text(choice.steps)}")
        if choice.units:
            lines.append(f"{indent * 2}{choice.unit}s left by {_steps_text(choice.units)}")
    return lines


WHY_THERE = {
    PlacedBy.TIER_FIRST: "the freshest of the partitions with the best tier for the task, the agent's own ones first",
    PlacedBy.LATENCY_FIRST: "the freshest partition, the agent's own ones first",
    PlacedBy.QUALITY_FIRST: "the partition with the best mean score for the task",
    PlacedBy.ADAPTIVE_IN_TIME: "the partition with the best mean score for the task, as no request had waited for long",
    PlacedBy.ADAPTIVE_LATE: "the freshest partition, the agent's own ones first, as requests had waited for long",
    PlacedBy.OWN_RACK: "the tightest rack of the agent's own partitions that holds the gang",
}
"""Why a partition came first."""


def _why_there(again: Retraced) -> str:
    if again.partition < 0:
        return "no partition of the agent had a place: the whole region was searched, after all rows were taken in"
    why = {by.value: text for by, text in WHY_THERE.items()}.get(
        again.placing, "the partition that came first"
    )
    return f"it was searched for in partition {again.partition} as of {again.sequence}, by {again.placing}: {why}"


def _sentence(region: RegionName, choice: JobChoice) -> str:
    what = _named(region, choice, choice.chosen)
    text = f"{choice.job} went to {what} of pool {choice.pool}: "
    text += f"{_word(choice.decided_by)} decided" if choice.decided_by else "no rule decided"
    if choice.drawn_among > 1:
        text += f", and of {choice.drawn_among} that were equal it was drawn"
    if choice.runner_up:
        runner_up = _named(region, choice, choice.runner_up)
        text += f"; the runner-up was {runner_up}, which lost by {_word(choice.lost_by)}"
    return text


def _named(region: RegionName, choice: JobChoice, name: str) -> str:
    if choice.unit is Unit.NODE:
        return f"{region}-{name}"
    return f"{choice.unit} {name}" if choice.unit is not Unit.POOL else "nodes in several clusters"


def _word(rule: str) -> str:
    return WORDS.get(rule, rule)


def _steps_text(steps: Sequence[Step]) -> str:
    return ", ".join(f"{step.rule} {step.left}" for step in steps)

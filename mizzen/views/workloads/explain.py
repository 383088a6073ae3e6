"""Why a workload waits, runs where it runs, or ended: one explanation, for people and as JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from bus.port import Bus
from core.events.queue import RankedBid
from core.messages.copies import ListedCopy
from core.messages.queue import Holder, RegionOutlook, RunTimeTold, WorkloadExplained
from core.nouns.fleet import ANY_TYPE
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.instant import SECOND
from core.nouns.placement import PAPER_PART, SCORE_PARTS, VICTIM_PARTS, Shortage
from core.nouns.quantities import MILLI
from core.nouns.reasons import Reason
from core.nouns.tenant import LEVEL_MAX, OVER_LEVEL
from core.nouns.workload import JobSpec, Kind, Phase, WorkloadSpec
from mizzen.terminal.output import CommandError
from mizzen.views.phrases.copy_text import failure_text, obstacle_text
from mizzen.views.phrases.durations import short_text
from mizzen.views.phrases.pipeline_text import place_text, waiting_text
from mizzen.views.phrases.quota_text import held_to_text, level_text, standing_text
from mizzen.views.phrases.reservation_text import promised_text, unbounded_text
from mizzen.views.phrases.text import bytes_text, columns_text, gpus_text, instant_text, like_text, nodes_text
from mizzen.views.policies import round_choice as rounds
from mizzen.views.policies.pool_history import not_in_round
from mizzen.views.policies.round_choice import NotInRound
from mizzen.views.workloads import placement_choice as choosing
from mizzen.views.workloads.end_causes import Link, chain_of, lately_of
from mizzen.views.workloads.lookup import Known, known
from mizzen.views.workloads.placement_choice import Chosen, chosen
from mizzen.views.workloads.start_estimates import run_time_text, start_text
from mizzen.views.workloads.story import Attempt, Story
from runtime.clock import wall_now

INDENT = "  "
NOT_ASKED = (
    Reason.OVER_QUOTA,
    Reason.BORROWED_ALL,
    Reason.AHEAD_OF_DUE,
    Reason.QUOTA_KEPT,
    Reason.QUOTA_DRAINS,
    Reason.BUDGET_SPENT,
    Reason.WAITS_FOR_ROUND,
    Reason.WAITS_FOR_STAGE,
    Reason.WAITS_FOR_WINDOW,
)
"""Nobody is asked, whatever is free."""


class RankedOffer(Struct, frozen=True):
    """A bid as the queue compared it."""

    region: RegionName
    score: dict[str, int]
    """Its parts by name, in the order in which they are compared; lower is better."""
    lost_on: str = ""
    """The first part in which the winner was better; empty for the winner."""


class Award(Struct, frozen=True):
    """Why the newest attempt is where it is."""

    epoch: int
    region: RegionName
    state: str
    rank: int
    awarded_at: int
    award_sequence: int
    """Of the queue's log."""
    bids: tuple[RankedOffer, ...]
    agent: str = ""
    claim: str = ""
    claim_sequence: int = 0
    """Of the region's log: the fact that promised or granted it."""
    view_sequence: int = 0
    """Of the region's log, as the agent knew it."""
    is_merged: bool = False
    victims: tuple[tuple[WorkloadId, int], ...] = ()
    node_runs: tuple[tuple[int, int], ...] = ()


class Explanation(Struct, frozen=True):
    """All of it."""

    workload: WorkloadId
    name: str
    phase: Phase
    verdict: str
    """One sentence."""
    waiting: WorkloadExplained | None = None
    """What stands in the way of each region now, while it is pending."""
    award: Award | None = None
    """The newest, also of one that has ended."""
    lately: tuple[Link, ...] = ()
    """What happened last to the tasks of the one that stands, newest first."""
    because: tuple[Link, ...] = ()
    """Why it, or its last attempt, ended; each for the reason of the next."""
    chosen: Chosen | None = None
    """Why that attempt is on its nodes: as its agent chose, once more."""
    run_time: RunTimeTold | None = None
    """How long it runs, as predicted; only of what has not ended."""
    round: NotInRound | None = None
    """Why a job of a shared pool, that waits for a round, is not in the newest."""


async def explained(
    bus: Bus, workload: WorkloadId, directory: Path | None = None
) -> tuple[Explanation, Known]:
    """Raises CommandError.

    directory   where the plane keeps its logs' files, if that is here
    """
    found = await known(bus, workload)
    story, live = found.telling.story, found.live
    links = tuple(await chain_of(bus, found.telling))
    if live is not None and live.phase != story.phase:
        live = None  # It went on between the two answers, and the logs' is the newer one.
    is_waiting = story.phase == Phase.PENDING
    explanation = Explanation(
        story.workload,
        story.name,
        story.phase,
        _verdict(story, live, links),
        live if is_waiting else None,
        None if story.newest is None or is_waiting else _award(story.newest),
        () if is_waiting or story.phase.is_terminal else tuple(lately_of(found.telling)),
        links,
        None
        if story.newest is None or is_waiting
        else await chosen(bus, story.newest, found.telling.facts, directory),
        None if live is None else live.run_time,
        await _not_in_round(bus, found, live, directory) if is_waiting else None,
    )
    return explanation, found


async def _not_in_round(
    bus: Bus, found: Known, live: WorkloadExplained | None, directory: Path | None
) -> NotInRound | None:
    story = found.telling.story
    if story.spec.kind is not Kind.SHARED or (live is not None and live.reason != Reason.WAITS_FOR_ROUND):
        return None
    try:
        return await not_in_round(bus, directory, story.workload)
    except CommandError as error:
        found.notes.append(f"why it is not in the newest round is missing: {error}")
        return None


def _award(attempt: Attempt) -> Award:
    placed = attempt.placement
    best = attempt.bids[0] if attempt.bids else None
    return Award(
        epoch=attempt.epoch,
        region=attempt.region,
        state=attempt.state,
        rank=attempt.rank,
        awarded_at=attempt.awarded_at,
        award_sequence=attempt.award_sequence,
        bids=tuple(offer_of(bid, attempt.bids, best) for bid in attempt.bids),
        agent=placed.agent if placed else "",
        claim=placed.claim if placed else "",
        claim_sequence=placed.sequence if placed else 0,
        view_sequence=placed.view_sequence if placed else 0,
        is_merged=placed.is_merged if placed else False,
        victims=placed.victims if placed else (),
        node_runs=placed.node_runs if placed else (),
    )


AWAY = "datasets newer elsewhere"
"""Between whom a bid pushes out and all else: the queue adds it, for agents do not know where data is."""
GATHERED = "room gathered for another"
"""Before all else: the queue adds it, for agents do not know for whom room is gathered."""


def score_of(score: tuple[int, ...]) -> dict[str, int]:
    """A score's parts by name; those that this build has no name for, by their place."""
    return dict(_parts_of(score))


def _parts_of(score: tuple[int, ...]) -> list[tuple[str, int]]:
    """Without those that count nothing by the paper's rule, which is seen by a first part that no priority comes near."""
    names = [*SCORE_PARTS, *(f"part {place}" for place in range(len(SCORE_PARTS), len(score)))]
    parts = list(zip(names, score, strict=False))
    if score and score[0] > LEVEL_MAX + 1:
        parts[:VICTIM_PARTS] = [(PAPER_PART, score[0])]
    return parts


def compared(bid: RankedBid, bids: Sequence[RankedBid]) -> dict[str, int]:
    """All by which the queue compared a bid, in its order: also where data is, if that is elsewhere for one of them."""
    parts = _parts_of(bid.score)
    if any(one.away for one in bids):
        parts.insert(len(parts) - len(bid.score[VICTIM_PARTS:]), (AWAY, bid.away))
    if any(one.gathered for one in bids):
        parts.insert(0, (GATHERED, bid.gathered))
    return dict(parts)


def offer_of(bid: RankedBid, bids: Sequence[RankedBid], best: RankedBid | None) -> RankedOffer:
    """As it is shown, with what it lost on."""
    parts = compared(bid, bids)
    if best is None or bid is best:
        return RankedOffer(bid.region, parts)
    for (name, mine), theirs in zip(parts.items(), compared(best, bids).values(), strict=False):
        if mine != theirs:
            return RankedOffer(bid.region, parts, f"{name}: {mine} against {theirs}")
    return RankedOffer(bid.region, parts, f"its name: alike in all, and {best.region} comes first")


def _verdict(story: Story, live: WorkloadExplained | None, links: tuple[Link, ...]) -> str:
    newest, phase = story.newest, story.phase
    if phase == Phase.PENDING:
        if live is None:
            return f"{story.workload} is PENDING; ask again for the reason"
        return f"{story.workload} is PENDING ({live.reason}): {live.sentence}"
    if phase.is_terminal:
        return f"{story.workload} is {links[0].text if links else phase}"
    assert newest is not None, story.workload
    where = f"in {newest.region} (attempt {newest.epoch})"
    if newest.state == "promised" and newest.placement is not None:
        victims = ", ".join(f"{workload} (attempt {epoch})" for workload, epoch in newest.placement.victims)
        return f"{story.workload} waits {where} for {victims} to stop"
    is_best = f"whose bid was the best of {len(newest.bids)}" if len(newest.bids) > 1 else "which alone bid"
    text = f"{story.workload} is {phase} {where}, {is_best}"
    if live is not None and live.reason:
        text += f"; {live.sentence}"
    if live is not None and live.level == OVER_LEVEL:
        text += f"; it is {standing_text(live, story.spec)}"
    return text


# For people.


def builtins_of(explanation: Explanation) -> dict[str, Any]:  # Any: whatever JSON can hold
    """As JSON has it; bids of regions that bid now have their scores by name."""
    told: dict[str, Any] = msgspec.to_builtins(explanation, str_keys=True)
    if explanation.waiting is not None:
        for shown, region in zip(told["waiting"]["regions"], explanation.waiting.regions, strict=True):
            shown["score"] = score_of(region.score)
    return told


def lines_of(explanation: Explanation, story: Story) -> list[str]:
    """For people."""
    lines = [explanation.verdict]
    if explanation.run_time is not None:
        lines.append(f"{INDENT}it is predicted to run {run_time_text(explanation.run_time)}")
    if explanation.waiting is not None:
        lines += waiting_lines(explanation.waiting, story.spec)
    if explanation.round is not None:
        lines += ["", *rounds.lines_of(explanation.round, wall_now())]
    if explanation.award is not None:
        lines += _award_lines(explanation.award)
        if explanation.chosen is not None:
            lines += choosing.lines_of(explanation.award.region, explanation.chosen, INDENT)
    lines += _links_lines("what happened to it lately:", explanation.lately)
    is_over = explanation.phase.is_terminal
    return lines + _links_lines(
        "why it ended:" if is_over else "why its last attempt ended:", explanation.because
    )


def _links_lines(head: str, links: tuple[Link, ...]) -> list[str]:
    if not links:
        return []
    return [
        "",
        head,
        *(
            f"{INDENT}{instant_text(one.at)}  {one.log} {one.sequence} {one.type}: {one.text}"
            for one in links
        ),
    ]


def waiting_lines(waiting: WorkloadExplained, spec: WorkloadSpec) -> list[str]:
    """How it stands, its turn, and what stands in the way of each region."""
    told = (standing_text(waiting, spec), held_to_text(waiting, spec.jobs))
    lines = [f"{INDENT}it is {text}" for text in told if text]
    if waiting.stage is not None:
        lines.insert(0, f"{INDENT}it is {place_text(waiting.stage)}")
        waits = waiting_text(waiting.stage)
        lines += [f"{INDENT}it {waits}"] if waits else []
    if waiting.rank == 0:
        lines.append(f"{INDENT}it is the first in the queue")
    elif waiting.rank > 0:
        nearest = ", ".join(waiting.ahead[::-1])
        lines.append(f"{INDENT}{waiting.rank} ahead of it in the queue, nearest first: {nearest}")
    if waiting.start is not None:
        lines.append(f"{INDENT}it is estimated to start {start_text(waiting.start)}")
    if waiting.asking:
        lines.append(f"{INDENT}it is the turn of {', '.join(waiting.asking)}")
    if waiting.gathered_in:
        lines.append(
            f"{INDENT}{waiting.gathered_in} is being drained for it: other work over quota is held back there"
        )
    if waiting.promised is not None:
        lines.append(f"{INDENT}its start is reserved: {promised_text(waiting.promised)}")
    lines += [f"{INDENT}{_copy_text(copy)}" for copy in waiting.copies]
    lines += [f"{INDENT}the copy of {failure_text(failed)}" for failed in waiting.failed_copies]
    table = columns_text(("REGION", "OUTLOOK", "WHY"), outlook_rows(waiting, spec))
    return [*lines, "", *(f"{INDENT}{line}" for line in table)]


def outlook_rows(waiting: WorkloadExplained, spec: WorkloadSpec) -> list[tuple[str, str, str]]:
    """What each region says to it now, in a word and why."""
    return [
        (one.region, _outlook_word(one, waiting), _outlook_text(one, waiting.workload, spec))
        for one in waiting.regions
    ]


def _copy_text(copy: ListedCopy) -> str:
    """How far a copy of its data is, and when it will be there."""
    left = short_text(SECOND * max(0, copy.bytes - copy.moved) // copy.rate)
    how_far = f"{100 * copy.moved // copy.bytes} % of " if copy.bytes else ""
    begins = "" if copy.is_hashed else ", once the hash at its source is known"
    return f"{copy.dataset} is being copied from {copy.source} to {copy.target}: {how_far}{bytes_text(copy.bytes)}, about {left} left{begins}"


def _outlook_word(outlook: RegionOutlook, waiting: WorkloadExplained) -> str:
    if outlook.score:
        return "bid"
    if outlook.reason:
        return outlook.reason
    if outlook.is_asked:
        return "asked"
    return "not asked" if waiting.reason in NOT_ASKED else "would be asked"


def _outlook_text(outlook: RegionOutlook, workload: WorkloadId, spec: WorkloadSpec) -> str:
    """One line: what was needed and what there was."""
    parts = []
    if outlook.score:
        parts.append(", ".join(f"{name} {value}" for name, value in score_of(outlook.score).items()))
    jobs = {job.name: job for job in spec.jobs}
    if outlook.shortage is not None:
        parts.append(_shortage_text(outlook.shortage, jobs.get(outlook.shortage.job)))
    elif outlook.reason:
        parts.append(outlook.sentence.rstrip("."))
    if outlook.reason == "no_such_hardware":
        parts += [text for text in (_hardware_text(outlook, spec),) if text]
    if outlook.reason == Reason.NO_DATA:
        parts.append(f"it lacks {', '.join(outlook.missing_data)}")
        parts += [obstacle_text(outlook.no_copy)] * bool(outlook.no_copy)
    if outlook.missing_gpu_milli > 1:
        parts.append(
            f"{gpus_text(outlook.missing_gpu_milli)} more GPUs must be freed before it is asked again"
        )
    if outlook.missing_cpu_milli > 1:
        cpus = f"{outlook.missing_cpu_milli / MILLI:g}"
        parts.append(f"{cpus} more CPUs must be freed before it is asked again")
    if outlook.holders:
        holders = ", ".join(
            f"{one.workload} ({_held_text(one)}, {level_text(one.priority)})" for one in outlook.holders
        )
        parts.append(f"most is held by {holders}")
    if outlook.kept_for:
        parts.append(f"kept for {', '.join(outlook.kept_for)}")
    if unbounded := unbounded_text(outlook):
        parts.append(unbounded)
    if outlook.agent:
        for_whom = f" for {outlook.refused}" if outlook.refused != workload else ""
        parts.append(
            f"said{for_whom} by agent {outlook.agent}, which knew the log up to {outlook.view_sequence}"
        )
    if noted := _noted_text(outlook):
        parts.append(noted)
    return "; ".join(parts)


def _noted_text(outlook: RegionOutlook) -> str:
    """For how long each lasting reason of a region held, the present one first; empty if the queue's log has none."""
    parts, before = [], outlook.noted
    if before and before[0].reason == outlook.reason:
        parts.append(f"so for {short_text(before[0].held)}")
        before = before[1:]
    parts += [f"before that {one.reason} for {short_text(one.held)}" for one in before]
    return ", ".join(parts)


def _held_text(holder: Holder) -> str:
    return f"{holder.cpu_milli / MILLI:g} CPUs" if holder.cpu_milli else f"{gpus_text(holder.gpu_milli)} GPUs"


def _shortage_text(shortage: Shortage, job: JobSpec | None) -> str:
    """Needed, free, and the largest free piece."""
    if job is None:
        return f"no capacity for job {shortage.job}{_changes_text(shortage)}"
    need = like_text(job.need, job.need)
    return (
        f"{shortage.job} needs {shortage.tasks} x {need} and there is capacity for {shortage.tasks_fit}: "
        f"{like_text(shortage.free, job.need)} free on {shortage.nodes} nodes of {_types_text(job)}, "
        f"at most {like_text(shortage.largest, job.need)} on one{_changes_text(shortage)}"
    )


def _changes_text(shortage: Shortage) -> str:
    """What would help."""
    return f"; it would fit with {', or '.join(shortage.changes)}" if shortage.changes else ""


def _hardware_text(outlook: RegionOutlook, spec: WorkloadSpec) -> str:
    """What GPUs the region has of what it asks for, were they all free; empty where it asks for none."""
    parts = []
    for job in spec.jobs:
        mine = [one for one in outlook.hardware if job.takes(one.node_type)]
        if not mine:
            parts.append(f"{job.name} needs {_types_text(job)}, and there is none")
            continue
        if not job.need.gpu_milli:
            continue  # The shortage tells of its CPUs and memory.
        needs = f"{job.name} needs {job.tasks} x {gpus_text(job.need.gpu_milli)} GPUs of {_types_text(job)}"
        has = ", or ".join(
            f"{gpus_text(one.gpu_milli)}{'' if job.has_one_type else f' of {one.node_type}'} on {one.nodes} nodes, "
            f"at most {gpus_text(one.gpu_milli_max)} on one"
            for one in mine
        )
        parts.append(f"{needs}, and there are {has}")
    return "; ".join(parts)


def _types_text(job: JobSpec) -> str:
    """The node types that will do."""
    return job.type_text if job.gpu_type == ANY_TYPE else " or ".join(job.node_types)


def _award_lines(award: Award) -> list[str]:
    when = f"at {instant_text(award.awarded_at)} (global {award.award_sequence})"
    lines = [
        f"{INDENT}attempt {award.epoch} was awarded to {award.region} {when}, when {award.rank} stood ahead of it"
    ]
    if award.agent:
        how = "the view was still right"
        if award.victims:
            how = "promised, and granted once its victims had ended"
        elif award.is_merged:
            how = "merged: the view was old, and it still fitted"
        lines.append(
            f"{INDENT}agent {award.agent} claimed {nodes_text(award.region, award.node_runs)} knowing the log up to "
            f"{award.view_sequence}; region.{award.region} {award.claim_sequence}, {how}"
        )
    if award.victims:
        victims = ", ".join(f"{workload} (attempt {epoch})" for workload, epoch in award.victims)
        lines.append(f"{INDENT}it preempted {victims}")
    if award.bids:
        names = list(award.bids[0].score)
        rows = [(bid.region, *bid.score.values(), bid.lost_on or "won") for bid in award.bids]
        table = columns_text(("BID", *names, "LOST ON"), rows, None, names)
        lines += ["", *(f"{INDENT}{line}" for line in table)]
    return lines

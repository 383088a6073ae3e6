"""A run in real processes in figures: what its checks found, what came of the jobs that it names, what was missing."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from core.events.queue import AttemptClosed
from core.events.region import ClaimGranted, ClaimPromised
from core.invariants.consistency import Violation
from core.nouns.ids import GLOBAL_LOG, LogName, WorkloadId
from core.nouns.workload import Kind, Phase
from scenarios.accounting.claims import RegionClaims, claims_in, lines_of_claims
from scenarios.accounting.preemption import Negotiated, lines_of_negotiated, negotiated_in
from scenarios.play.live import LiveRun, TenantsAt
from scenarios.play.live_data import DataRead, data_read, lines_of_data
from scenarios.play.live_functions import CallsMade, lines_of_calls
from scenarios.play.live_harvest import HarvestedIn, harvested_in, lines_of_harvest
from scenarios.play.live_pipelines import PipelineRan, lines_of_pipelines, pipelines_ran
from scenarios.play.live_turns import TurnsOf, turns_of
from scenarios.schema.expectations import Met
from store.sqlite import facts_in


class Gang(Struct, frozen=True):
    """How the first job trained."""

    loss_first: float
    loss_last: float
    saved_step: int
    """The newest checkpoint that counted when its first attempt ended."""
    resumed_step: int
    """The step from which its second attempt went on."""
    drain_waited_seconds: float = 0.0
    """From the drain of its nodes until its controller let it leave; 0: nothing was drained."""


class Summary(Struct, frozen=True):
    """One run in figures."""

    scenario: str
    seed: int
    seconds: float
    workloads_submitted: int
    workloads_ended: int
    workloads_lost: int
    """Accepted, and neither ended nor known at the end."""
    invariant_violations: int
    conflict_share: float
    """Of all claims, those that met a conflict."""
    kills: int
    restarts: int
    """Processes that were started again."""
    gang: Gang | None
    facts: int
    digests: dict[LogName, str]
    """Of the image to which each log folds."""
    violations: list[Violation]
    problems: list[str]
    skipped: dict[str, str]
    """Faults that real processes cannot have, and why."""
    expectations: list[Met]
    directory: str
    tenants: list[TenantsAt] = []
    """When most was held, and when everything had ended; empty: the scenario has none."""
    negotiated: list[Negotiated] = []
    """Attempts that were pushed out."""
    turns: list[TurnsOf] = []
    """Of the jobs of a shared pool; empty: the scenario names none."""
    claims: list[RegionClaims] = []
    """By region."""
    data: list[DataRead] = []
    """Datasets that the jobs named."""
    pipelines: list[PipelineRan] = []
    """Job files with stages."""
    calls: list[CallsMade] = []
    """By programs that call functions."""
    harvest: list[HarvestedIn] = []
    """By region; empty: nothing was harvested."""

    @property
    def is_good(self) -> bool:
        """Whether nothing was wrong."""
        is_met = all(met.is_met for met in self.expectations)
        return is_met and not (self.violations or self.problems or self.workloads_lost)


def summary_of(run: LiveRun, seed: int, seconds: float, directory: Path) -> Summary:
    """Of a run that has ended, its plane stopped."""
    outcome, witness = run.run.outcome, run.witness
    rows = witness.queue.workloads.rows
    accepted = run.users.accepted
    lost = [
        workload
        for workload in accepted.values()
        if workload not in witness.ended and (workload not in rows or not rows[workload].phase.is_terminal)
    ]
    gang = _gang(run, directory)
    negotiated = negotiated_in(directory, witness.logs)
    turns = _turns(run, directory)
    data = _data(run, directory)
    pipelines = pipelines_ran(facts_in(directory, GLOBAL_LOG), run.users.pipelines.values())
    problems = [
        *outcome.problems,
        *_missing(run, gang),
        *_not_pushed_out(run, negotiated),
        *_not_in_turn(run, turns),
        *_not_in_time(run, pipelines),
        *(f"{row.dataset} of {row.name} ({row.workload}): {row.problem}" for row in data if row.problem),
        *(f"calls of `{made.program}`: {made.problem}" for made in run.look.calls if made.problem),
    ]
    online = run.audit.count if run.audit is not None else 0
    if online > len(outcome.violations):
        problems.append(f"the auditor found {online} violations while it ran, and the logs show fewer")
    return Summary(
        scenario=run.spec.name,
        seed=seed,
        seconds=round(seconds, 1),
        workloads_submitted=round(outcome.figures["submitted"]),
        workloads_ended=sum(outcome.ended.values()),
        workloads_lost=len(lost),
        invariant_violations=len(outcome.violations),
        conflict_share=round(outcome.figures["conflicts_share"], 4),
        kills=outcome.kills,
        restarts=run.world.plane.supervisor.restarts,
        gang=gang,
        facts=outcome.facts,
        digests={log: image.digest() for log, image in witness.images.items()},
        violations=outcome.violations,
        problems=problems,
        skipped=outcome.skipped,
        expectations=outcome.expectations,
        directory=str(directory),
        tenants=[at for at in (run.most_held, run.tenants_in_calm) if at is not None],
        negotiated=negotiated,
        turns=turns,
        claims=claims_in(directory, witness.logs),
        data=data,
        pipelines=pipelines,
        calls=run.look.calls,
        harvest=harvested_in(witness.images, [plan.region for plan in run.spec.plan.regions]),
    )


def _missing(run: LiveRun, gang: Gang | None) -> list[str]:
    """What the scenario names and what did not come about: jobs that did not complete, no training, faults that did not strike."""
    problems = []
    for number, job in enumerate(run.jobs):
        workload = run.users.accepted.get(f"job-{number}")
        phase = run.witness.ended.get(workload) if workload is not None else None
        end = Phase.CANCELLED if job.when.calls else Phase.COMPLETED
        if phase is not None and phase != end:
            problems.append(f"{job.spec.name} ({workload}) ended {phase}")
    if run.jobs and gang is None:
        problems.append(f"{run.jobs[0].spec.name} told no loss")
    if gang is not None and gang.loss_last >= gang.loss_first:
        problems.append(f"the loss did not fall: {gang.loss_first} → {gang.loss_last}")
    if run.jobs and run.jobs[0].when.drain_after_seconds and not run.drain_waited:
        problems.append(f"{run.jobs[0].spec.name} never left the nodes that were drained under it")
    if run.jobs and (run.jobs[0].when.requeue_after_seconds or run.jobs[0].when.drain_after_seconds):
        told = run.look.gangs[0].resumed_step
        steps = (gang.saved_step, gang.resumed_step, told) if gang is not None else (0,)
        if len(set(steps)) != 1 or not steps[0]:
            problems.append(f"saved, awarded and resumed steps are not one: {steps}")
    outcome = run.run.outcome
    wanted = sum(fault.times for fault in run.spec.faults)
    struck = sum(outcome.strikes.values()) + round(outcome.figures["skipped"])
    if struck != wanted:
        problems.append(f"{struck} of {wanted} faults struck or were skipped")
    restarts = run.world.plane.supervisor.restarts
    if restarts < outcome.kills:
        problems.append(f"{outcome.kills} processes were killed, and {restarts} came back")
    return problems


def _not_pushed_out(run: LiveRun, negotiated: Sequence[Negotiated]) -> list[str]:
    """What a job that was to push out the first did not do, or not as it should be."""
    first = run.users.accepted.get("job-0")
    problems = []
    for number, job in enumerate(run.jobs):
        by = run.users.accepted.get(f"job-{number}")
        if not job.when.pushes_out_after_seconds or by is None:
            continue
        mine = [one for one in negotiated if (one.workload, one.by) == (first, by)]
        if not mine:
            problems.append(f"{job.spec.name} ({by}) never pushed {first} out")
        for one in mine:
            if one.number and not one.answer:
                problems.append(f"{first} was asked to make room for {by}, and its controller said nothing")
            if one.saved_step != one.resumed_step:
                problems.append(f"{first} saved step {one.saved_step}, and went on at {one.resumed_step}")
    return problems


def _turns(run: LiveRun, directory: Path) -> list[TurnsOf]:
    accepted = run.users.accepted
    gangs = {
        accepted[f"job-{number}"]: run.look.gangs[number]
        for number, job in enumerate(run.jobs)
        if job.spec.kind is Kind.SHARED and f"job-{number}" in accepted
    }
    return turns_of(facts_in(directory, GLOBAL_LOG), gangs)


def _data(run: LiveRun, directory: Path) -> list[DataRead]:
    accepted = run.users.accepted
    gangs = {
        accepted[f"job-{number}"]: (run.look.gangs[number], job.spec.data)
        for number, job in enumerate(run.jobs)
        if job.spec.data and f"job-{number}" in accepted
    }
    return data_read(facts_in(directory, GLOBAL_LOG), gangs) if gangs else []


def _not_in_time(run: LiveRun, pipelines: Sequence[PipelineRan]) -> list[str]:
    """What pipelines did not do: be accepted, and meet their deadlines with every stage started in time."""
    missing = len(run.pipelines) - len(pipelines)
    return [f"{missing} of {len(run.pipelines)} pipelines were not accepted"] * bool(missing) + [
        f"{row.name} ({row.pipeline}): {row.problem}" for row in pipelines if row.problem
    ]


def _not_in_turn(run: LiveRun, turns: Sequence[TurnsOf]) -> list[str]:
    """What jobs of a shared pool did not do: take turns, and go on at the step that they had saved."""
    wanted = sum(job.spec.kind is Kind.SHARED for job in run.jobs)
    problems = (
        []
        if len(turns) == wanted
        else [f"{len(turns)} of {wanted} jobs of the shared pool ran beside the others"]
    )
    if wanted > 1 and all(one.attempts < 2 for one in turns):
        problems.append("no job of the shared pool was stopped for another")
    return problems + [
        f"{one.name} ({one.workload}) made {one.steps_lost} steps again" for one in turns if one.steps_lost
    ]


def _gang(run: LiveRun, directory: Path) -> Gang | None:
    workload = run.users.accepted.get("job-0")
    if workload is None or not run.look.gangs[0].curve:
        return None
    saved, resumed = _checkpoints(run.witness.logs, directory, workload)
    curve = run.look.gangs[0].curve
    return Gang(curve[0].loss, curve[-1].loss, saved, resumed, round(run.drain_waited, 1))


def _checkpoints(logs: Sequence[LogName], directory: Path, gang: WorkloadId) -> tuple[int, int]:
    """What counted when the first attempt ended, and what the second went on from; 0: nothing."""
    saved: list[int] = []
    resumed: list[int] = []
    for log in logs:
        for fact in facts_in(directory, log):
            match fact.event:
                case ClaimGranted(claim=claim) | ClaimPromised(claim=claim) if claim.workload == gang:
                    if claim.resume_epoch:
                        resumed.append(claim.resume_step)
                case AttemptClosed(workload=workload, saved_step=step) if workload == gang:
                    saved.append(step)
    return next(iter(saved), 0), next(iter(resumed), 0)


def lines_of(summary: Summary) -> Sequence[tuple[str, str]]:
    """The figures for people."""
    gang = summary.gang
    ended = f"{summary.workloads_ended} ended, {summary.workloads_lost} lost"
    return (
        ("good", "yes" if summary.is_good else "no"),
        ("seconds", f"{summary.seconds:.1f}"),
        ("workloads", f"{summary.workloads_submitted} submitted, {ended}"),
        ("gang", _trained(gang)),
        *((("drain", _left(gang)),) if gang is not None and gang.drain_waited_seconds else ()),
        *lines_of_negotiated(summary.negotiated),
        *((f"{one.name} ({one.workload})", _turned(one)) for one in summary.turns),
        *lines_of_data(summary.data),
        *lines_of_pipelines(summary.pipelines),
        *lines_of_calls(summary.calls),
        *lines_of_harvest(summary.harvest),
        ("kills", f"{summary.kills} by kill -9, {summary.restarts} processes started again"),
        ("conflicts", f"{100 * summary.conflict_share:.1f} % of claims"),
        *lines_of_claims(summary.claims),
        ("violations", str(summary.invariant_violations)),
        ("problems", "; ".join(summary.problems) or "none"),
        ("facts", f"{summary.facts} in {len(summary.digests)} logs"),
        *((f"skipped: {name}", why) for name, why in summary.skipped.items()),
        *(
            ("expected", f"{met.expectation}, it is {met.value:g}{'' if met.is_met else ': MISSED'}")
            for met in summary.expectations
        ),
    )


def _trained(gang: Gang | None) -> str:
    if gang is None:
        return "none"
    loss = f"loss {gang.loss_first:.3f} → {gang.loss_last:.3f}"
    return f"{loss}, saved at step {gang.saved_step}, resumed at step {gang.resumed_step}"


def _left(gang: Gang) -> str:
    """How it left the nodes that were drained under it."""
    waited = f"{gang.drain_waited_seconds:.1f} s"
    return f"its controller let it leave {waited} later, after the checkpoint of step {gang.saved_step}"


def _turned(one: TurnsOf) -> str:
    """What a job of a shared pool received."""
    steps = ", ".join(map(str, one.resumed_at))
    went = f"resumed at step {steps}" if steps else "was never stopped"
    parts = f"{100 * one.received_part:.1f} % of all time received, {100 * one.owed_part:.1f} % owed"
    return f"{parts}; {one.attempts} attempts, {went}, {one.steps_lost} steps made again"

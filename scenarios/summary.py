"""What a run in real processes left behind, read from its logs: every fact checked anew, and the run in figures."""

import json
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from components import Auditor
from core.component import Images
from core.events.queue import AttemptClosed
from core.events.region import AwardDeclined, ClaimGranted, ClaimPromised
from core.fact import Event, Note
from core.images import GlobalImage, Image, RegionImage, empty_image
from core.invariants import Violation, check_ledger
from core.nouns.ids import GLOBAL_LOG, LogName, WorkloadId, region_log, region_of
from core.nouns.instant import Instant
from core.nouns.limits import CLAIM_TRIES_MAX
from core.nouns.reasons import Reason
from core.nouns.workload import Phase
from runtime.plane import PROCESSES
from runtime.wiring import Plan
from scenarios.live import LiveRun
from store.sqlite import facts_in


class Gang(Struct, frozen=True):
    """How the first job trained."""

    loss_first: float
    loss_last: float
    saved_step: int
    """The newest checkpoint that counted when its first attempt ended."""
    resumed_step: int
    """The step from which its second attempt went on."""


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
    directory: str

    @property
    def is_good(self) -> bool:
        """Whether nothing was wrong."""
        return not (self.violations or self.problems or self.workloads_lost)


def summary_of(run: LiveRun, seed: int, seconds: float, directory: Path) -> Summary:
    """Of a run that has ended, its plane stopped."""
    found = _Found(run.plan, directory)
    queue = found.queue()
    rows = queue.workloads.rows
    lost = [
        workload
        for workload in run.accepted.values()
        if workload not in rows or not rows[workload].phase.is_terminal
    ]
    gang = _gang(run, found)
    problems = [
        *run.problems,
        *found.problems,
        *_differing(found.images, directory / PROCESSES),
        *_missing(run, queue, gang),
    ]
    online = run.audit.count if run.audit is not None else 0
    if online > len(found.violations):
        problems.append(f"the auditor found {online} violations while it ran, and the logs show fewer")
    return Summary(
        scenario=run.spec.name,
        seed=seed,
        seconds=round(seconds, 1),
        workloads_submitted=len(run.accepted),
        workloads_ended=sum(row.phase.is_terminal for row in rows.values()),
        workloads_lost=len(lost),
        invariant_violations=len(found.violations),
        conflict_share=round(found.conflict_share(), 4),
        kills=sum(text.endswith("killed") for text in run.look.kills),
        restarts=run.plane.supervisor.restarts,
        gang=gang,
        facts=found.facts,
        digests={log: image.digest() for log, image in found.images.items()},
        violations=found.violations,
        problems=problems,
        directory=str(directory),
    )


def _differing(images: dict[LogName, Image], outputs: Path) -> list[str]:
    """Keepers that said, when they stopped, something else than what their logs fold to; or nothing."""
    said: dict[str, str] = {}
    for path in sorted(outputs.glob("*.log")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if '"keeper_stopped"' in line:
                stopped = json.loads(line)
                said[stopped["log"]] = stopped["digest"]
    return [
        f"{log} folds to {image.digest()}, and its keeper said {said.get(log, 'nothing')} when it stopped"
        for log, image in images.items()
        if said.get(log) != image.digest()
    ]


def _missing(run: LiveRun, queue: GlobalImage, gang: Gang | None) -> list[str]:
    """What the scenario names and what did not come about: jobs that did not complete, no training, kills of nobody."""
    problems = []
    for number, job in enumerate(run.jobs):
        workload = run.accepted.get(f"job-{number}")
        row = queue.workloads.rows.get(workload) if workload is not None else None
        if row is not None and row.phase != Phase.COMPLETED:
            problems.append(f"{job.spec.name} ({workload}) ended {row.phase}")
    if run.jobs and gang is None:
        problems.append(f"{run.jobs[0].spec.name} told no loss")
    if gang is not None and gang.loss_last >= gang.loss_first:
        problems.append(f"the loss did not fall: {gang.loss_first} → {gang.loss_last}")
    if run.jobs and run.jobs[0].when.requeue_after_seconds:
        steps = (gang.saved_step, gang.resumed_step, run.look.resumed_step) if gang is not None else (0,)
        if len(set(steps)) != 1 or not steps[0]:
            problems.append(f"saved, awarded and resumed steps are not one: {steps}")
    wanted = len(run.spec.misfortune.kills)
    killed = sum(text.endswith("killed") for text in run.look.kills)
    if killed != wanted or run.plane.supervisor.restarts < killed:
        problems.append(
            f"{killed} of {wanted} kills hit, and {run.plane.supervisor.restarts} processes came back"
        )
    return problems


def _gang(run: LiveRun, found: "_Found") -> Gang | None:
    workload = run.accepted.get("job-0")
    if workload is None or not run.look.curve:
        return None
    saved, resumed = found.checkpoints(workload)
    curve = run.look.curve
    return Gang(curve[0].loss, curve[-1].loss, saved, resumed)


class _Found:
    """The logs of a plane, folded and audited from their first facts on."""

    def __init__(self, plan: Plan, directory: Path) -> None:
        self.logs: list[LogName] = [GLOBAL_LOG, *(region_log(region) for region in plan.region_names())]
        self.images: dict[LogName, Image] = {log: empty_image(log) for log in self.logs}
        self.problems: list[str] = []
        self.facts = 0
        self._claims = self._conflicts = 0
        self._saved: dict[WorkloadId, int] = {}
        self._resumed: dict[WorkloadId, int] = {}
        auditor = Auditor(plan.region_names())
        state = auditor.initial(Images(Instant(0), None, {log: (empty_image(log), 0) for log in self.logs}))
        for log in self.logs:
            for fact in facts_in(directory, log):
                self.images[log].fold(fact)
                state = auditor.evolve(state, fact)
                self._count(fact.event)
        self.violations = list(state.violations)
        if state.waiting:
            self.problems.append(f"{state.waiting} facts rest on facts of other logs that are not there")
        self._check_what_is_left()

    def queue(self) -> GlobalImage:
        """The queue's image."""
        image = self.images[GLOBAL_LOG]
        assert isinstance(image, GlobalImage)
        return image

    def conflict_share(self) -> float:
        """Of all claims, those that met a conflict."""
        return self._conflicts / self._claims if self._claims else 0.0

    def checkpoints(self, workload: WorkloadId) -> tuple[int, int]:
        """What counted when the first attempt ended, and what the second went on from; 0: nothing."""
        return self._saved.get(workload, 0), self._resumed.get(workload, 0)

    def _count(self, event: Event | Note) -> None:
        self.facts += 1
        match event:
            case ClaimGranted(claim=claim) | ClaimPromised(claim=claim):
                tries = int(claim.claim.rpartition(".")[2])
                self._claims += tries
                self._conflicts += tries - 1
                if claim.resume_epoch:
                    self._resumed.setdefault(claim.workload, claim.resume_step)
            case AttemptClosed(workload=workload, saved_step=step):
                self._saved.setdefault(workload, step)
            case AwardDeclined(reason=Reason.CONFLICTS_EXHAUSTED):
                self._claims += CLAIM_TRIES_MAX
                self._conflicts += CLAIM_TRIES_MAX

    def _check_what_is_left(self) -> None:
        for log, image in self.images.items():
            if not isinstance(image, RegionImage):
                continue
            region = region_of(log)
            self.problems += [f"{region}: {text}" for text in check_ledger(image.capacity)]
            self.problems += [
                f"{region}: {workload} still holds capacity" for workload in image.capacity.holdings
            ]


def lines_of(summary: Summary) -> Sequence[tuple[str, str]]:
    """The figures for people."""
    gang = summary.gang
    trained = (
        f"loss {gang.loss_first:.3f} → {gang.loss_last:.3f}, saved at step {gang.saved_step}, "
        f"resumed at step {gang.resumed_step}"
        if gang is not None
        else "none"
    )
    ended = f"{summary.workloads_ended} ended, {summary.workloads_lost} lost"
    return (
        ("good", "yes" if summary.is_good else "no"),
        ("seconds", f"{summary.seconds:.1f}"),
        ("workloads", f"{summary.workloads_submitted} submitted, {ended}"),
        ("gang", trained),
        ("kills", f"{summary.kills} by kill -9, {summary.restarts} processes started again"),
        ("conflicts", f"{100 * summary.conflict_share:.1f} % of claims"),
        ("violations", str(summary.invariant_violations)),
        ("problems", "; ".join(summary.problems) or "none"),
        ("facts", f"{summary.facts} in {len(summary.digests)} logs"),
    )

"""What a tenant is told of one of its workloads: what the queue answers, for the logs hold everybody's work.

So the times and causes of earlier attempts, the bids, and how nodes were chosen are missing, and it is said that they are.
"""

from typing import Any

import msgspec
from msgspec import Struct

from bus.port import Bus
from core.messages.queue import (
    ExplainWorkload,
    ListedWorkload,
    ListWorkloads,
    ShowWorkload,
    WorkloadExplained,
    WorkloadShown,
    WorkloadsListed,
)
from core.nouns.ids import WorkloadId
from core.nouns.workload import Phase, WorkloadSpec
from mizzen.connect.plane import ask
from mizzen.views.phrases.pipeline_text import place_text, waiting_text
from mizzen.views.phrases.quota_text import priority_text, standing_text
from mizzen.views.phrases.text import blame_text, nodes_text, time_text
from mizzen.views.workloads import show_text
from mizzen.views.workloads.explain import Explanation, waiting_lines

UNTOLD = "a tenant is told what the queue knows now; earlier attempts and how nodes were chosen stand in the plane's logs, for operators"


class OwnWork(Struct):
    """One workload, as the queue has it."""

    shown: WorkloadShown
    spec: WorkloadSpec
    listed: ListedWorkload | None
    """None when it left between two answers."""
    live: WorkloadExplained

    @property
    def phase(self) -> Phase:
        """Where it is in its life."""
        return Phase(self.shown.phase)


async def own_work(bus: Bus, workload: WorkloadId) -> OwnWork:
    """Raises CommandError, also for what is not the tenant's own, and for what the queue has forgotten."""
    shown = await ask(bus, ShowWorkload(workload, wants_spec=True), WorkloadShown)
    assert shown.spec is not None, shown
    live = await ask(bus, ExplainWorkload(workload), WorkloadExplained)
    number = int(workload.removeprefix("w-"))
    page = await ask(bus, ListWorkloads((), number - 1, 1), WorkloadsListed)
    listed = next((row for row in page.rows if row.workload == workload), None)
    return OwnWork(shown, shown.spec, listed, live)


# Shown.


def shown_builtins(own: OwnWork) -> dict[str, Any]:  # Any: whatever JSON can hold
    """All that is known, under the names that `mizzen show` has for it elsewhere."""
    told: dict[str, Any] = msgspec.to_builtins(own.shown, str_keys=True)
    del told["type"]
    told["blame"] = blame_text(own.shown.last_cause, "")
    told["rank"] = own.live.rank
    if own.listed is not None:
        listed = own.listed
        told |= {"waited": listed.waited, "ran": listed.ran, "saved_step": listed.saved_step}
        told["node_runs"] = [list(run) for run in listed.node_runs]
    return told


def shown_lines(own: OwnWork) -> list[str]:
    """For people."""
    shown, spec, listed = own.shown, own.spec, own.listed
    fields = [
        ("state", _state(own)),
        ("tenant", spec.tenant),
        ("priority", f"{priority_text(spec, own.live)}; {spec.kind}"),
        ("regions", ", ".join(spec.regions) or "any"),
    ]
    quota = "" if own.phase.is_terminal else standing_text(own.live, spec)
    if quota:
        fields.append(("stands", quota))
    if shown.is_held and not own.phase.is_terminal:
        fields.append(("held", f"yes; `mizzen release {shown.workload}` lets it run"))
    if shown.stage is not None:
        fields.append(("pipeline", place_text(shown.stage)))
        fields += [("waits", text.removeprefix("waits "))] if (text := waiting_text(shown.stage)) else []
    if shown.spec_revision:
        fields.append(("changed", f"revision {shown.spec_revision}"))
    if listed is not None:
        fields.append(("waited", time_text(listed.waited)))
        if listed.ran:
            fields.append(("ran", time_text(listed.ran)))
        if listed.node_runs:
            fields.append(("nodes", nodes_text(listed.region, listed.node_runs)))
        if listed.saved_step:
            fields.append(("saved", f"step {listed.saved_step}"))
    if shown.last_cause:
        blame = blame_text(shown.last_cause, "")
        fields.append(("last ended", f"{shown.last_cause}{f' ({blame})' if blame else ''}"))
    fields += show_text.limits_of(spec)
    return [f"{shown.workload} {shown.name}", *show_text.field_lines(fields), *show_text.job_lines(spec)]


def _state(own: OwnWork) -> str:
    shown = own.shown
    text = shown.phase
    if shown.region:
        text += f" in {shown.region}, attempt {shown.epoch}"
    elif shown.epoch:
        text += f", attempts so far {shown.epoch}"
    return f"{text} ({shown.reason}): {shown.sentence}" if shown.reason else text


# Explained.


def explanation_of(own: OwnWork) -> Explanation:
    """As elsewhere, without what only logs tell."""
    waiting = own.live if own.live.phase == Phase.PENDING else None
    return Explanation(own.shown.workload, own.shown.name, own.live.phase, _verdict(own), waiting)


def explained_lines(own: OwnWork) -> list[str]:
    """For people."""
    explanation = explanation_of(own)
    if explanation.waiting is None:
        return [explanation.verdict]
    return [explanation.verdict, *waiting_lines(explanation.waiting, own.spec)]


def _verdict(own: OwnWork) -> str:
    live = own.live
    text = f"{live.workload} is {live.phase}"
    if live.phase.is_terminal:
        return f"{text}; its last attempt ended by {own.shown.last_cause}" if own.shown.last_cause else text
    if live.region:
        text += f" in {live.region} (attempt {live.epoch})"
    return f"{text} ({live.reason}): {live.sentence}" if live.reason else text

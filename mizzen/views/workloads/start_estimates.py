"""The lines of `mizzen queue --start` and `mizzen submit --test-only`: when work starts, how sure that is, and how sure it was."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from bus.port import Bus
from core.estimating.bands import StartEstimate
from core.estimating.prediction import PredictedBy
from core.messages.queue import RunTimeTold
from core.messages.starts import ListedStart, ListStarts, PredictionError, StartsListed, SubmissionTested
from core.nouns.instant import SECOND
from core.nouns.quantities import MILLI
from core.nouns.tenant import OVER_LEVEL
from mizzen.connect.plane import ask
from mizzen.views.phrases.prediction_text import PREDICTED_BY
from mizzen.views.phrases.text import columns_text, gpus_text, time_text
from mizzen.views.workloads.queue_lines import NO_LEVEL, OVER, sentence_of

COLUMNS = ("ID", "NAME", "TENANT", "PRIO", "GPUS", "START", "IN", "BAND", "RUNS", "REASON")
FIGURES = ("PRIO", "GPUS", "IN", "BAND", "RUNS")


async def starts(bus: Bus, tenant: str) -> StartsListed:
    """Of what waits, in the order in which it is served. Raises CommandError."""
    return await ask(bus, ListStarts(tenant), StartsListed)


def table_of(found: StartsListed, now: datetime, width: int | None) -> list[str]:
    """A line for each, and below how far such lines could be trusted."""
    lines = columns_text(COLUMNS, [_cells(row, now) for row in found.rows], width, FIGURES)
    if found.more:
        lines.append(f"and {found.more} more behind them")
    return [*lines, "", *trust_of(found)]


def trust_of(found: StartsListed) -> Iterable[str]:
    """How right estimates were."""
    if found.judged:
        share = round(100 * found.held / found.judged)
        yield f"bands held {share} % of the last {found.judged} starts; they are drawn to hold 80 %"
    else:
        yield "no start was estimated and came yet, so bands are wide"
    if found.errors:
        yield f"run times: half were predicted {errors_text(found.errors)}"
    hardware, data = found.hardware, found.data
    if hardware.count:
        yield f"GPUs: {hardware.right} of {hardware.count} recurring workloads asked for as many of the type as was predicted"
    if data.count or data.predicted:
        right = f"of {data.count} that recurring workloads read {data.right} were predicted"
        yield f"datasets: {right}, and {data.predicted - data.right} that they did not"


def errors_text(errors: dict[str, PredictionError]) -> str:
    """By what they were predicted from."""
    return ", ".join(
        f"within a factor of {error.factor_milli / MILLI:.2g} from {PREDICTED_BY[PredictedBy(kind)]} ({error.count})"
        if kind in set(PredictedBy)
        else f"within a factor of {error.factor_milli / MILLI:.2g} by {kind} ({error.count})"
        for kind, error in sorted(errors.items())
    )


def _cells(row: ListedStart, now: datetime) -> tuple[object, ...]:
    """A start that was promised is shown as such, whatever is estimated; of a job of a shared pool, the round that may pick it."""
    start, within, band = "-", "-", "-"
    if row.promised_in >= 0:
        start, within, band = _moment(now, row.promised_in), time_text(row.promised_in), "promised"
    elif row.round_in >= 0:
        start, within = _moment(now, row.round_in), time_text(row.round_in)
        band = "next round" if row.round_in else "this round"
    elif row.start is not None:
        middle = row.start.middle
        start, within, band = _moment(now, middle), time_text(middle), band_text(row.start)
    return (
        row.workload,
        row.name,
        row.tenant,
        NO_LEVEL if row.round_in >= 0 else OVER if row.priority == OVER_LEVEL else row.priority,
        gpus_text(row.gpu_milli),
        start,
        within,
        band,
        time_text(row.duration) if row.duration else "-",
        row.reason,
    )


def band_text(start: StartEstimate) -> str:
    """From when to when, counted from now: `4:00-40:00`."""
    return f"{time_text(start.low)}-{time_text(start.high)}"


def _moment(now: datetime, span: int) -> str:
    """In UTC, to the minute, for no estimate is better than that."""
    return f"{(now + timedelta(seconds=span // SECOND)).astimezone(UTC):%Y-%m-%dT%H:%MZ}"


def builtins_of(found: StartsListed) -> dict[str, Any]:  # Any: whatever JSON can hold
    """As JSON has it; spans are nanoseconds."""
    return {
        "starts": [{**msgspec.to_builtins(row), "sentence": sentence_of(row.reason)} for row in found.rows],
        "more": found.more,
        "bands": {"judged": found.judged, "held": found.held},
        "run_time_errors": msgspec.to_builtins(found.errors),
        "hardware": msgspec.to_builtins(found.hardware),
        "data": msgspec.to_builtins(found.data),
    }


def start_text(start: StartEstimate) -> str:
    """When, in words."""
    return f"in about {time_text(start.middle)}, four times of five in {band_text(start)}"


def run_time_text(told: RunTimeTold) -> str:
    """How long it runs, in words: as predicted at its submission, and since it runs, for how long work goes on that ran as long."""
    text = f"for about {time_text(told.duration)} in all, to judge by {PREDICTED_BY[told.by]}"
    return (
        f"{text}; work that has run as long goes on for about {time_text(told.left)} more"
        if told.left >= 0
        else text
    )


def _round_text(round_in: int) -> str:
    """When a job of a shared pool may start, in words."""
    return (
        "it would be accepted; idle GPUs of its pool would be given to it at once, and else it may be picked from the next round on, "
        f"which begins in {time_text(round_in)}"
    )


def outcome_of(tested: SubmissionTested) -> list[str]:
    """What would come of a submission."""
    if tested.start is None:
        when = (
            "it would be accepted; no region is heard that could hold it, so nothing can be said of its start"
        )
    else:
        when = f"it would start {start_text(tested.start)}"
    ahead = tested.ahead
    others = (
        "no workload waits" if not ahead else f"{ahead} workloads wait" if ahead > 1 else "1 workload waits"
    )
    lines = [f"{when}; {others} ahead of it"] if tested.round_in < 0 else [_round_text(tested.round_in)]
    if tested.standing:
        lines.append(f"it would be {tested.standing} its tenant's quota")
    prediction = tested.prediction
    lines.append(f"it would run {run_time_text(RunTimeTold(prediction.duration, prediction.by))}")
    if prediction.gpu_type:
        before = f"{gpus_text(prediction.gpu_milli)} GPUs of {prediction.gpu_type}"
        lines.append(f"its earlier runs most often asked for {before}")
    if prediction.data:
        lines.append(f"its earlier runs read {', '.join(prediction.data)}")
    if tested.regions:
        lines.append(f"it could run in {', '.join(sorted(tested.regions))}")
    return lines

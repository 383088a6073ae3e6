"""Expectations: a figure of a run, compared with a number. They make a scenario a test of service levels."""

import math
import operator
import re
from collections.abc import Callable, Mapping

from msgspec import Struct

from scenarios.schema.parts import FieldError, unknown

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
}

FIGURES = {
    "submitted": "workloads accepted",
    "completed": "workloads that ended COMPLETED",
    "failed": "workloads that ended FAILED",
    "cancelled": "workloads that ended CANCELLED",
    "completed_share": "of all that ended",
    "p50_start_seconds": "from a submission until all ranks are up for the first time, or until the end of the run if they "
    "never were and nobody cancelled it, the median; of a stage of a pipeline from when it waits neither for other stages nor for its window",
    "p90_start_seconds": "the same, 90th percentile",
    "p99_start_seconds": "the same, 99th percentile",
    "goodput_ratio": "GPU-seconds of work that counts, of all that attempts held",
    "gpu_seconds_held": "from each grant to the attempt's end",
    "gpu_seconds_lost": "ran after the last checkpoint that counted, of attempts that did not complete, and what workloads "
    "had saved that did not",
    "attempts_per_workload": "attempts that were granted, for each workload that was",
    "preemptions": "attempts that ended for a workload of higher priority",
    "copies_ordered": "copies of data that were ordered",
    "copies_made": "of these, those that were made and verified",
    "copies_failed": "of these, those that failed",
    "copies_dropped": "copies of data that were deleted",
    "conflicts_share": "of all claims, those that met a conflict",
    "claim_tries_max": "the most often that an award was claimed until it was granted or given up",
    "claims_given_up": "awards that were given back because each of their claims met a conflict",
    "awards_waited": "awards of which their region's log showed nothing for more than five seconds",
    "given_up_by_operators": "attempts that were given up with their region, because an operator said so",
    "given_up_by_workloads": "the same, because their workload had said beforehand that it moves on",
    "operations": "operations on tasks that were begun",
    "operations_acked": "of them, those to which a controller had agreed",
    "operations_forced": "of them, those whose deadline had come",
    "operations_healthy": "operations after which their task was healthy again",
    "operations_unasked": "operations that were begun although nobody had agreed and nothing forced them: never one",
    "early_stops": "operations that were forced before their deadline: never one",
    "windows": "windows of maintenance that began",
    "missed_windows": "of them, those in which something still ran on nodes that had to be empty, a minute after their beginning",
    "halts": "times that somebody was refused because it wanted more stopped than its budget allows",
    "victims_asked": "times that a controller was asked to make room for work of higher priority, or for an operator",
    "victims_agreed": "of them, those in which it agreed, at once or to be stopped later, and was stopped then",
    "victims_forced": "of them, those in which the deadline came",
    "victims_spared": "of them, those that were over before anything came of it: nobody needed the room, or another was offered",
    "offers_taken": "times that another workload was taken in place of a victim whose controller offered it",
    "destroyed_gpu_seconds": "of work that preemption destroyed, as regions count it",
    "destroyed_by_claim_max": "GPU-seconds that one claim could have destroyed at most, the largest of all that were promised",
    "promises": "starts that were promised, and reserved by their regions",
    "promises_kept": "of them, those whose workload was granted its capacity by then, there or elsewhere",
    "promises_replaced": "of them, those that ended before because a node was lost or closed, or for work of a higher level",
    "promises_broken": "of them, those that were neither kept nor replaced nor taken back by their user: never one",
    "reclaim_seconds_max": "the longest that work within quota waited while work over quota that could have been told to stop "
    "held whole nodes for it",
    "pushed_out_early": "attempts that were told to leave for others before they had run for their tenant's least time: never one",
    "pushed_out_over": "attempts over quota that were told to leave for others",
    "pushed_out_within": "the same, of attempts within quota",
    "borrowed_gpu_seconds": "that were held over quota",
    "moves": "moves of workloads that ran to other regions, which were planned",
    "moved_share": "of them, those that came to run where they were to go",
    "rounds": "rounds of shared pools that began",
    "round_leaves": "times that a job of a shared pool was told to leave, because another runs there in the round",
    "pairs": "times that a job was picked to come to the GPU of another",
    "shares_solved": "times that shares of a solver were recorded",
    "speeds_measured": "times that a speed of such jobs was recorded as measured",
    "speed_error_max": "the part by which a speed that was measured last differs from the emulated one, the largest of all",
    "pools_planned": "plans of which nodes belong to which pool",
    "nodes_pooled": "times that a node came into another pool",
    "needs_held_share": "of the time of all needs of pools, that in which a pool had the GPUs that it needs: nodes that are lost or take no work do "
    "not count. A need counts from when it was first met, or a minute after it was stated",
    "pipelines": "pipelines accepted",
    "pipelines_refused": "pipelines refused",
    "pipelines_met": "pipelines of which all stages completed, by the deadline if there was one",
    "pipelines_late": "pipelines that completed after their deadline",
    "pipelines_failed": "pipelines of which a stage failed",
    "pipelines_cancelled": "pipelines of which a stage was cancelled, and none failed",
    "deadlines_met_share": "of accepted pipelines with a deadline that were not cancelled, those that met it",
    "deadlines_dropped": "pipelines that were accepted without the deadline for which they asked",
    "stages_reprioritised": "times that start deadlines of stages were recorded anew",
    "calls": "calls of functions that were made",
    "calls_done": "calls that were done",
    "calls_failed": "calls that failed",
    "calls_lost": "calls that may be begun once, or are to begin in time, of which nobody knew any more how they ended",
    "calls_refused": "calls that were refused",
    "calls_left": "calls without an answer when their caller left",
    "calls_done_share": "of calls with an answer, those that were done",
    "calls_begun_again": "times that a call began that had begun before (simulated)",
    "calls_counted": "calls that were done, failed or lost by the counts in regions' logs",
    "calls_cold_share": "of these, those for which an executor was brought up",
    "calls_harvested": "calls that were done on harvested capacity, by the counts in regions' logs",
    "calls_retried": "runs that were lost there, of calls that were sent once more, by the same counts",
    "harvest_offers": "times that functions were offered more of a node",
    "harvest_releases": "times that a node was given back, and its function server said so",
    "harvest_unconfirmed": "times that a function server did not say so in time",
    "harvest_lost": "calls that were ended for that before they were done, as function servers told",
    "p99_reclaim_seconds": "from a recall to its release, 99th percentile",
    "executors_killed": "executors that workers killed, because they had not left when the grace of tasks was over (simulated)",
    "tasks_waited_for_executors": "times that tasks of a node waited for executors before they were prepared (simulated)",
    "wait_for_executors_seconds_max": "how long these waited, at most",
    "function_servers_p50": "servers that began calls of one function in the whole run, the median of all functions (simulated)",
    "function_servers_max": "the same, of the function with most servers",
    "p50_call_delay_seconds": "from when a call was made until it was done, without its run time, the median",
    "p99_call_delay_seconds": "the same, 99th percentile",
    "devices_taken_back": "times that tasks of a node wanted back devices that they had lent, and got them (simulated)",
    "devices_waited_for": "of these, times that executors had to leave first",
    "p99_wait_for_device_seconds": "how long these waited, 99th percentile",
    "wait_for_device_seconds_max": "the same, at most",
    "wait_for_nobody_seconds": "waits for devices that no executor used, all together",
    "prices": "times that the prices of a region were set",
    "kills": "processes killed",
    "kills_mid_award": "of them, keepers killed on purpose while they wrote, in a batch with an award (simulated)",
    "clock_words": "words of the operator on call to keepers that waited because of a clock",
    "hangs_ended": "processes that hung, and were ended by their supervisor for that",
    "strikes": "times that a fault struck",
    "skipped": "times that a fault could not be caused in this world",
    "calm_seconds": "from the end of the load and the misfortune until everything had ended",
    "messages": "messages delivered, heads and beats not counted (simulated)",
    "facts": "facts in all logs",
}
"""Each figure of a run, and what it is."""
OF_TENANTS = (
    "submitted",
    "completed",
    "completed_share",
    "p50_start_seconds",
    "p90_start_seconds",
    "p99_start_seconds",
    "gpu_seconds_held",
    "borrowed_gpu_seconds",
    "preemptions",
    "attempts_per_workload",
)
"""Those of which there are a tenant's own too: `FIGURE of TENANT`, and `FIGURE of TENANT at LEVEL` for what it submitted at one
priority.
"""
WHOLE_BELOW = 1e15
"""Numbers that are written without an exponent."""
_FORM = re.compile(
    r"\s*([a-z0-9_]+)(?:\s+of\s+([A-Za-z0-9_-]+)(?:\s+at\s+([0-6]))?)?\s*(<=|>=|==|<|>)\s*(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s*"
)


class Expectation(Struct, frozen=True):
    """One figure, and what is expected of it."""

    figure: str
    comparison: str
    number: float
    tenant: str = ""
    """Of whose work alone; empty: of everybody's."""
    level: int | None = None
    """Of what of that was submitted at this priority alone."""

    @property
    def key(self) -> str:
        """What the figure is called among those of a run."""
        whose = f" of {self.tenant}" if self.tenant else ""
        return self.figure + whose + (f" at {self.level}" if self.level is not None else "")

    def __str__(self) -> str:
        return f"{self.key} {self.comparison} {_digits(self.number)}"


class Met(Struct, frozen=True):
    """What came of an expectation."""

    expectation: str
    value: float
    is_met: bool


def read_expectation(text: object, path: tuple[str | int, ...]) -> Expectation:
    """From `p99 <= 60`, so to speak. Raises FieldError."""
    form = _FORM.fullmatch(text) if isinstance(text, str) else None
    if form is None:
        raise FieldError(path, f"{text!r} is not of the form `FIGURE <= NUMBER` (or >=, <, >, ==)")
    figure, tenant, level, comparison, number = form.groups()
    if figure not in FIGURES:
        raise FieldError(path, unknown(figure, FIGURES, what="figures"))
    if tenant and figure not in OF_TENANTS:
        raise FieldError(
            path, f"`{figure}` is of all together; of one tenant there are {', '.join(OF_TENANTS)}"
        )
    if not math.isfinite(float(number)):
        raise FieldError(path, f"{number} is too large")
    return Expectation(figure, comparison, float(number), tenant or "", int(level) if level else None)


def compared(expectation: Expectation, figures: Mapping[str, float]) -> Met:
    """What a run's figures make of it."""
    value = figures[expectation.key]
    is_met = COMPARISONS[expectation.comparison](value, expectation.number)
    return Met(str(expectation), value, is_met)


def _digits(number: float) -> str:
    """All of them, so that the same number is read from it."""
    return str(int(number)) if number.is_integer() and abs(number) < WHOLE_BELOW else repr(number)

"""The check of calls: every problem at once, each with a field."""

import re

from core.messages.functions import CallFunction, RunCalls, ServerReport
from core.messages.harvest import HarvestOdds, NodeSize
from core.nouns.function import FunctionSpec
from core.nouns.function_limits import (
    CALL_BATCH_BYTES,
    CALL_BYTES_MAX,
    CALLS_AT_ONCE_MAX,
    RANGES_TOLD_MAX,
)
from core.nouns.harvest import GRACE_MAX
from core.nouns.limits import NAME_LENGTH_MAX, NEED_MAX, NUMBER_MAX, SPAN_MAX

_NAME = re.compile(r"[A-Za-z0-9_.:<>-]{1,200}")
_DIGEST = re.compile(r"[0-9a-f]{8,64}")
_WORD = re.compile(r"[A-Za-z0-9_-]{1,128}")


def is_word(text: str) -> bool:
    """Return whether a name can be part of a subject."""
    return bool(_WORD.fullmatch(text))


def is_answerable(tenant: str, caller: str) -> bool:
    """Return whether a caller of this name can be answered: both are parts of the subject where the caller listens."""
    return is_word(tenant) and is_word(caller)


def is_run_well_formed(said: RunCalls) -> bool:
    """Return whether a server can take these runs. A router sends no others, but bytes may be spoiled on the way."""
    spec = said.function
    if spec is None or not said.runs:
        return not said.runs and 0 <= said.floor <= NUMBER_MAX
    return (
        0 <= said.floor <= NUMBER_MAX
        and not problems_of_function(spec)
        and all(
            0 < run.number <= NUMBER_MAX
            and 0 < run.call.number <= NUMBER_MAX
            and run.tenant == spec.tenant
            and is_answerable(run.tenant, run.caller)
            for run in said.runs
        )
    )


def is_report_well_formed(said: ServerReport) -> bool:
    """Return whether a router can believe this report. A server sends no others, but bytes may be spoiled on the way."""
    amounts = (said.size, *(amount for _, amount in (*said.used, *said.lent)))
    numbers = (said.number, said.slot, said.taken, said.place.node, *(one.number for one in said.ended))
    counts: list[int] = []
    for amount in amounts:
        counts += (amount.gpu_milli, amount.cpu_milli, amount.memory_bytes)
    for one in said.executors:
        counts += (one.idle, one.busy, one.starting)
    return (
        is_word(said.server)
        and all(0 <= number <= NUMBER_MAX for number in numbers)
        and all(0 <= count <= NEED_MAX for count in counts)
        and 0 <= said.leaves_in <= SPAN_MAX
        and all(0 <= one.ran <= SPAN_MAX for one in said.ended)
    )


def are_sizes_well_formed(sizes: tuple[NodeSize, ...]) -> bool:
    """Return whether a server can keep these sizes. A harvester sends no others, but bytes may be spoiled on the way."""
    amounts = [amount for one in sizes for amount in (one.total, one.size)]
    counts = [count for one in amounts for count in (one.gpu_milli, one.cpu_milli, one.memory_bytes)]
    return (
        len({one.node for one in sizes}) == len(sizes)
        and all(0 <= count <= NEED_MAX for count in counts)
        and all(0 <= one.node <= NUMBER_MAX and 0 <= one.within <= GRACE_MAX for one in sizes)
    )


def are_odds_well_formed(said: HarvestOdds) -> bool:
    """Return whether a router can believe these odds. A harvester tells no others, but bytes may be spoiled on the way."""
    return 0 <= said.recalls <= NUMBER_MAX and 0 <= said.grace <= GRACE_MAX


def problems_of_call(said: CallFunction) -> tuple[str, ...]:
    """Return the problems of calls that a caller says, apart from the size of the message; empty: well formed."""
    found = list(problems_of_function(said.function))
    if said.function.tenant != said.tenant:
        found.append(f"function.tenant: it is {said.function.tenant}'s, and {said.tenant} calls it")
    if not 0 < len(said.calls) <= CALLS_AT_ONCE_MAX:
        found.append(f"calls: there are {len(said.calls)}, and 1 to {CALLS_AT_ONCE_MAX} go in one message")
    if not all(0 < call.number <= NUMBER_MAX for call in said.calls):
        found.append("calls: they are numbered from 1 on")
    if len({call.number for call in said.calls}) < len(said.calls):
        found.append("calls: two have one number")
    if not 0 < said.floor <= NUMBER_MAX + 1:
        found.append("floor: calls are numbered from 1 on")
    if len(said.answered) > RANGES_TOLD_MAX or not all(
        0 < first <= last <= NUMBER_MAX for first, last in said.answered
    ):
        found.append(
            f"answered: there are at most {RANGES_TOLD_MAX} ranges, each with its first number and its last"
        )
    if not (0 < said.word <= NUMBER_MAX and 0 <= said.since <= SPAN_MAX):
        found.append("word, since: they are not between 0 and their ceilings")
    if not all(0 <= call.within <= SPAN_MAX for call in said.calls):
        found.append("within: it is not between 0 and a hundred years")
    sizes = [len(call.arguments) for call in said.calls]
    if max(sizes, default=0) > CALL_BYTES_MAX:
        found.append(f"arguments: {max(sizes)} bytes, and {CALL_BYTES_MAX} are the most; pass a file's name")
    elif len(sizes) > 1 and sum(sizes) > 2 * CALL_BATCH_BYTES:
        found.append(f"calls: {sum(sizes)} bytes in one message; at most {2 * CALL_BATCH_BYTES} go together")
    return tuple(found)


def problems_of_function(spec: FunctionSpec) -> tuple[str, ...]:
    """Return the problems of a function's description; empty: well formed."""
    found = []
    if not _NAME.fullmatch(spec.name):
        found.append("function.name: it has letters, digits and . : _ - alone, 200 at most")
    if not _DIGEST.fullmatch(spec.digest):
        found.append("function.digest: it is 8 to 64 hexadecimal digits")
    if not 0 < len(spec.tenant) <= NAME_LENGTH_MAX:
        found.append("function.tenant: there is none")
    needs = (spec.need.gpu_milli, spec.need.cpu_milli, spec.need.memory_bytes)
    if min(needs) < 0 or max(needs) > NEED_MAX or not any(needs):
        found.append("function.need: an executor needs something, and no more than a node could have")
    if not 0 <= spec.timeout <= SPAN_MAX:
        found.append("function.timeout: it is not between 0 and a hundred years")
    if spec.code.target and (":" not in spec.code.target or not spec.code.directory.startswith("/")):
        found.append("function.code: a target is module:name, in a directory that begins with /")
    return tuple(found)

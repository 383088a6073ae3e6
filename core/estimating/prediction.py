"""What a workload will be: how long it runs and on what, from what ran before.

Recurring work is predicted from its family. Work that is there for the first time is expected to run as long as
its user says, or else has the median of its tenant's families, then that
of all work with like GPU counts, then of everything, and before anything has ended a stated default. No prediction is longer than
the workload may run. On what it runs and which datasets it reads is predicted of recurring work alone (MAST, §3.1): so its data
can be known before it is submitted.
"""

from enum import StrEnum

from msgspec import Struct

from core.estimating.run_times import Family, KnownRuns, RunTimes, median_of, size_of
from core.nouns.ids import DatasetName, TenantName
from core.nouns.instant import Nanoseconds
from core.nouns.limits import RUN_TIME_DEFAULT
from core.nouns.placement import gpu_milli_of
from core.nouns.workload import NEVER, WorkloadSpec


class PredictedBy(StrEnum):
    """From what: the first of these that there is."""

    FAMILY = "family"
    """It ran before."""
    EXPECTED = "expected"
    """Its user said so."""
    TENANT = "tenant"
    """The median of its tenant's families."""
    SIZE = "size"
    """All work of like GPU counts."""
    FLEET = "fleet"
    """Everything."""
    DEFAULT = "default"
    """Nothing has ended yet."""


class Prediction(Struct, frozen=True):
    """What is expected of a workload."""

    duration: Nanoseconds
    """From when its gang is up until it has completed, interruptions not counted."""
    by: PredictedBy
    gpu_milli: int = 0
    """What its family asked for most often, of late; only where it is predicted from that."""
    gpu_type: str = ""
    data: tuple[DatasetName, ...] = ()
    """What half of the newest runs of its family read, or more of them; by name. The same."""


def predicted(runs: KnownRuns, spec: WorkloadSpec, name: str) -> Prediction:
    """From what has ended before.

    name   of its family
    """
    tenant = runs.tenants.get(spec.tenant)
    family = tenant.families.get(name) if tenant is not None else None
    if family is not None and (span := family.typical()) is not None:
        gpu_milli, gpu_type = _hardware(family)
        return Prediction(_capped(span, spec), PredictedBy.FAMILY, gpu_milli, gpu_type, family.usual_data())
    if spec.expected != NEVER:
        return Prediction(_capped(spec.expected, spec), PredictedBy.EXPECTED)
    if tenant is not None and (span := tenant.typical()) is not None:
        return Prediction(_capped(span, spec), PredictedBy.TENANT)
    alike = runs.sizes.get(size_of(gpu_milli_of(spec.jobs)))
    if alike is not None and (span := alike.median()) is not None:
        return Prediction(_capped(span, spec), PredictedBy.SIZE)
    if (span := runs.everything.median()) is not None:
        return Prediction(_capped(span, spec), PredictedBy.FLEET)
    return Prediction(_capped(RUN_TIME_DEFAULT, spec), PredictedBy.DEFAULT)


def _hardware(family: Family) -> tuple[int, str]:
    """The commonest of the newest runs; of equally common ones that which was asked for last."""
    asked = [(run.gpu_milli, run.gpu_type) for run in family.runs]
    return max(dict.fromkeys(reversed(asked)), key=asked.count)


def _capped(span: Nanoseconds, spec: WorkloadSpec) -> Nanoseconds:
    return min(span, spec.max_duration) if spec.max_duration != NEVER else span


def left_of(
    runs: KnownRuns, tenant: TenantName, family: str, gpu_milli: int, ran: Nanoseconds
) -> Nanoseconds:
    """How long something goes on that ran for so long already: half of what ran longer than that ended within it.

    Asked of the newest runs of its family first, then of wider circles. Where nothing is known to have run for longer, it goes
    on for as long again: the median of what is left under a tail of which half is left at twice the time.
    """
    until = _beyond(runs, tenant, family, gpu_milli, ran)
    return Nanoseconds(until - ran) if until is not None else max(ran, RUN_TIME_DEFAULT)


def _beyond(
    runs: KnownRuns, tenant: TenantName, family: str, gpu_milli: int, ran: Nanoseconds
) -> Nanoseconds | None:
    mine = runs.tenants.get(tenant)
    alike = mine.families.get(family) if mine is not None else None
    if alike is not None:
        longer = [run.ran for run in alike.runs if run.ran > ran]
        if 4 * len(longer) >= len(alike.runs):
            return median_of(longer)
    circles: tuple[RunTimes | None, ...] = (
        mine.times if mine is not None else None,
        runs.sizes.get(size_of(gpu_milli)),
        runs.everything,
    )
    for times in circles:
        if times is not None and (span := times.median_beyond(ran)) is not None:
            return span
    return None

"""Which tasks were asked for: counted by shape, bounded, and fading."""

from msgspec.structs import replace

from core.events.queue import WorkloadSubmitted
from core.images import GlobalImage
from core.images.demand import Demand
from core.nouns.ids import WorkloadId
from core.nouns.limits import DEMAND_COUNTED_MAX, DEMAND_SHAPES_MAX
from core.nouns.quantities import Amount
from core.nouns.workload import JobSpec, Kind
from tests.builders import EU, a_job, a_queue, a_spec


def asked(number: int, *jobs: JobSpec, **changes: object) -> WorkloadSubmitted:
    """A workload of these jobs."""
    spec = replace(a_spec(jobs[0]), jobs=jobs, **changes)
    return WorkloadSubmitted(WorkloadId(f"w-{number}"), number, spec, "ada")


def counts(demand: Demand) -> list[int]:
    """By shape, in order."""
    return [row.count for row in demand.rows.values()]


def of(cpu_milli: int, tasks: int = 1) -> JobSpec:
    """Tasks of a shape of their own."""
    return replace(a_job(tasks), need=Amount(1_000, cpu_milli, 1 << 30))


def test_tasks_are_counted_by_their_need() -> None:
    """All tasks of all jobs; alike ones together, whichever workload asks for them."""
    demand = a_queue(asked(1, of(1, 3), of(2, 4)), asked(2, of(1, 5))).demand
    assert [8, 4] == counts(demand)
    assert (12, 12) == (demand.counted, demand.arrived)
    assert of(1).need == next(iter(demand.rows.values())).need


def test_work_of_shared_pools_is_not_counted() -> None:
    """Prices are of the other nodes."""
    assert [3] == counts(a_queue(asked(1, of(1, 3)), asked(2, of(1, 5), kind=Kind.SHARED)).demand)


def test_tasks_that_may_run_in_some_regions_alone_are_counted_apart() -> None:
    """They are no demand for the others."""
    demand = a_queue(asked(1, of(1)), asked(2, of(1), regions=(EU,))).demand
    assert [(), (EU,)] == [row.regions for row in demand.rows.values()]


def test_of_too_many_shapes_the_rarest_goes() -> None:
    """And nothing of it stays in the sums but that it arrived."""
    events = [asked(number, of(number, 2)) for number in range(1, DEMAND_SHAPES_MAX)]
    image = a_queue(*events, asked(DEMAND_SHAPES_MAX, of(0, 1)), asked(DEMAND_SHAPES_MAX + 1, of(5_000, 1)))
    demand = image.demand
    assert DEMAND_SHAPES_MAX == len(demand.rows)
    assert [0, 1] == [sum(row.need.cpu_milli == cpu for row in demand.rows.values()) for cpu in (0, 5_000)]
    assert demand.counted == sum(counts(demand)) == demand.arrived - 1


def test_old_demand_fades() -> None:
    """Every count is halved once there are many; what is rarest is forgotten."""
    demand = a_queue(asked(1, of(1, 1), of(2, 8)), asked(2, of(3, DEMAND_COUNTED_MAX - 8))).demand
    assert [4, (DEMAND_COUNTED_MAX - 8) // 2] == counts(demand)
    assert demand.counted == sum(counts(demand)) <= DEMAND_COUNTED_MAX
    assert DEMAND_COUNTED_MAX + 1 == demand.arrived


def test_demand_survives_a_snapshot() -> None:
    """What is counted after it goes on from there."""
    image = a_queue(asked(1, of(1, 3), of(2, 4)))
    again = GlobalImage.decode(image.encode())
    assert image.demand == again.demand

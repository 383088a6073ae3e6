"""All policies, by name. Each is one file here, and one row in the list."""

from collections.abc import Callable

from msgspec import Struct

from core.sharing.policies.allox import allox
from core.sharing.policies.fifo import fifo
from core.sharing.policies.finish_time import finish_time
from core.sharing.policies.gandiva import gandiva
from core.sharing.policies.isolated import isolated
from core.sharing.policies.makespan import makespan
from core.sharing.policies.max_min import max_min, max_min_agnostic
from core.sharing.policies.max_throughput import max_throughput
from core.sharing.policies.min_cost import min_cost
from core.sharing.policies.sjf import sjf
from core.sharing.policies.strategy_proof import strategy_proof
from core.sharing.policies.water_filling import hierarchical_fair, hierarchical_fifo, water_filling
from core.sharing.problem import SharingProblem
from core.sharing.programmes import Steps


class Policy(Struct, frozen=True):
    """A way of sharing."""

    name: str
    steps: Callable[[SharingProblem], Steps]
    does: str
    """What an operator gets, for `mizzen policy list`."""
    is_by_job: bool = False
    """Whether it reads the steps, age, order or promise of a job: each class is then one job."""
    reads_prices: bool = False
    reads_entities: bool = False
    """Whether jobs of two entities are told apart where they are alike in all else."""
    is_whole: bool = False
    """Whether it gives a job all of its time in one column: like pools stay apart for it, as such a job is in one region."""


_LIST = (
    Policy(
        "allox",
        allox,
        "least mean completion time of jobs of one GPU, by matching",
        is_by_job=True,
        is_whole=True,
    ),
    Policy(
        "fifo",
        fifo,
        "first come, first served, each on its fastest type with room",
        is_by_job=True,
        is_whole=True,
    ),
    Policy(
        "finish_time",
        finish_time,
        "no job much later than on an equal part of the fleet",
        is_by_job=True,
    ),
    Policy("gandiva", gandiva, "random pairs that share GPUs where that pays, and equal time"),
    Policy(
        "hierarchical_fair",
        hierarchical_fair,
        "water-filling among entities by weight, then among jobs",
        reads_entities=True,
    ),
    Policy(
        "hierarchical_fifo",
        hierarchical_fifo,
        "water-filling among entities, first come first served in each",
        is_by_job=True,
        reads_entities=True,
    ),
    Policy("isolated", isolated, "an equal part of every type for every job"),
    Policy("makespan", makespan, "the last job ends as early as can be", is_by_job=True),
    Policy("max_min", max_min, "max-min fairness: the worst-off job is as fast as can be"),
    Policy("max_min_agnostic", max_min_agnostic, "the same, as if all GPUs were alike"),
    Policy("max_throughput", max_throughput, "the most steps a second in total, whoever makes them"),
    Policy(
        "min_cost",
        min_cost,
        "the most steps for a dollar, with promises kept",
        is_by_job=True,
        reads_prices=True,
    ),
    Policy(
        "sjf", sjf, "shortest job first, each on its fastest type with room", is_by_job=True, is_whole=True
    ),
    Policy("strategy_proof", strategy_proof, "proportional fairness under which no false speed pays"),
    Policy("water_filling", water_filling, "max-min fairness, then for the second-worst-off, and so on"),
)
POLICIES: dict[str, Policy] = {one.name: one for one in _LIST}

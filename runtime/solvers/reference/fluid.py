"""The fluid programme of prices as it is stated, with every set of shares that fits into a device: the oracle of the quick one."""

from collections.abc import Iterator, Sequence

import cvxpy

from core.nouns.mix import Mix, TypicalShape
from core.nouns.quantities import MILLI
from core.pricing.fluid import CORE_WORTH, GIB, NodeClass
from core.pricing.shapes import gpu_milli_of, may_run_on, share_of


def reference(classes: Sequence[NodeClass], mix: Mix, level: float) -> tuple[float, list[float]]:
    """What can be earned in all, and the duals of demand by shape, in GPUs."""
    shapes = mix.shapes
    shares = sorted({share for shape in shapes for share, _ in share_of(shape)})
    fillings = list(_fillings(shares, MILLI))
    tasks = cvxpy.Variable((len(shapes), len(classes)), nonneg=True)
    filled = cvxpy.Variable((len(fillings), len(classes)), nonneg=True)
    gpus = sum(one.count * one.gpus for one in classes)
    expected = level * gpus * MILLI / gpu_milli_of(shapes)
    demand = [cvxpy.sum(tasks[index, :]) <= shape.weight * expected for index, shape in enumerate(shapes)]
    limits = []
    for number, one in enumerate(classes):
        mine = tasks[:, number]
        limits += [
            mine @ [shape.cpu_milli / MILLI for shape in shapes] <= one.count * one.cpu_milli / MILLI,
            mine @ [shape.memory_bytes / GIB for shape in shapes] <= one.count * one.memory_bytes / GIB,
            cvxpy.sum(filled[:, number]) <= one.count * one.gpus,
        ]
        for position, share in enumerate(shares):
            taken = mine @ [dict(share_of(shape)).get(share, 0) for shape in shapes]
            limits.append(taken <= filled[:, number] @ [filling[position] for filling in fillings])
        for index, shape in enumerate(shapes):
            if not may_run_on(shape, one.node_type) or _devices(shape) > one.gpus:
                limits.append(mine[index] == 0)
        for block in sorted({_devices(shape) for shape in shapes} - {0, 1}):
            of_block = [float(_devices(shape) == block) for shape in shapes]
            limits.append(mine @ of_block <= one.count * (one.gpus // block))
    earned = sum(
        cvxpy.sum(tasks[index, :]) * (shape.gpu_milli / MILLI or CORE_WORTH * shape.cpu_milli / MILLI)
        for index, shape in enumerate(shapes)
    )
    problem = cvxpy.Problem(cvxpy.Maximize(earned), [*demand, *limits])
    problem.solve()
    return float(problem.value), [float(one.dual_value) for one in demand]


def _devices(shape: TypicalShape) -> int:
    return sum(count for _, count in share_of(shape))


def _fillings(shares: Sequence[int], room: int) -> Iterator[tuple[int, ...]]:
    """How many of each share: all sets that fit into a device."""
    if not shares:
        yield ()
        return
    for count in range(room // shares[0] + 1):
        for others in _fillings(shares[1:], room - count * shares[0]):
            yield (count, *others)

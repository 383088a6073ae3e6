"""Hot tables: which small tables every region should hold, whatever their home.

Each region and GPU type has a quota of bytes in proportion to its supply. A region's quota of a type is filled with the tables that have the
most demand for the type by byte, of those with more demand than the mean table. A job whose tables are all hot starts wherever its GPUs are.

Source: MAST (OSDI 2024), section 3.4.
"""

import numpy as np

from core.data_places.problem import DataProblem, Flags, Floats


def hot_wanted(problem: DataProblem, by_type: Floats) -> Flags:
    """Return (tables, regions) which hot tables each region should hold.

    by_type   (tables, types) demand of the table's readers, in shares of all demand
    """
    regions, types = problem.supply.shape
    wanted = np.zeros((len(problem.sizes), regions), dtype=np.bool_)
    quota = (
        problem.hot_permille / 1_000 * problem.all_bytes * problem.supply / max(problem.supply.sum(), 1e-300)
    )
    for gpu_type in range(types):
        demand = by_type[:, gpu_type]
        read = demand > 0
        if not read.any():
            continue
        hot = np.flatnonzero(read & (demand >= demand[read].mean()) & (problem.sizes > 0))
        hot = hot[np.argsort(-demand[hot] / problem.sizes[hot], kind="stable")]
        filled = np.cumsum(problem.sizes[hot])
        for region in range(regions):
            wanted[hot[filled <= quota[region, gpu_type]], region] = True
    return wanted

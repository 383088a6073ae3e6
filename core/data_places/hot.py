"""Hot and wide tables: which tables other regions than their home should hold, too.

Each region and GPU type has a quota of bytes in proportion to its supply. A region's quota of a type is filled with the tables that have the
most demand for the type by byte, and then with the smallest of those that nobody reads: somebody may tomorrow. A job whose tables are all hot
starts wherever its GPUs are.

A table is wide if its readers want more GPUs of a type than any region has. It is wanted in as many regions, those with the most first, as
have enough together. Readers that also read a table of unknown size are not counted: that table is not copied.

Source: MAST (OSDI 2024), section 3.4, for hot tables; wide ones are ours.
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
        hot = np.flatnonzero(problem.sizes > 0)
        hot = hot[np.lexsort((problem.sizes[hot], -by_type[hot, gpu_type] / problem.sizes[hot]))]
        filled = np.cumsum(problem.sizes[hot])
        for region in range(regions):
            wanted[hot[filled <= quota[region, gpu_type]], region] = True
    return wanted


def wide_wanted(problem: DataProblem) -> Flags:
    """Return (tables, regions) which wide tables each region should hold."""
    regions, types = problem.supply.shape
    wanted = np.zeros((len(problem.sizes), regions), dtype=np.bool_)
    known = np.bincount(problem.job_of, problem.sizes[problem.job_tables] == 0, len(problem.job_type)) == 0
    for gpu_type in range(types):
        demand = np.where(known & (problem.job_type == gpu_type), problem.job_demand, 0.0)
        readers = np.bincount(problem.job_tables, demand[problem.job_of], len(problem.sizes))
        most_first = np.argsort(-problem.supply[:, gpu_type], kind="stable")
        enough = np.cumsum(problem.supply[most_first, gpu_type])
        for table in np.flatnonzero(readers > enough[0]).tolist():
            count = int(np.searchsorted(enough, readers[table])) + 1
            wanted[table, most_first[:count]] = True
    found: Flags = wanted & (problem.supply.sum(axis=1) > 0)
    return found

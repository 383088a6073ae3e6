"""Measured figures of other schedulers, each named beside the figure of ours that is the same work.

Slurm and HyperQueue were run on two such cores, in turn with Mizzen. The work differs in what stands behind a start, so a figure is
comparable with one figure of the other side alone:

    emulated starts   nodes are emulated, no process runs: Slurm's array of jobs on fake nodes, which end when they are allocated
    grants            capacity is awarded to one client that asks and waits: Slurm's interactive allocation (`salloc`)
    real processes    a task is a process of the machine that writes its own first line: HyperQueue

Durability differs and no figure corrects it: here every step is synced to disk before it is told, Slurm saves its state in the
background, and HyperQueue ran without a journal.

source    spec/peer-baselines.md, its last table: Slurm 22.05.8 tuned, 1,000 fake nodes; HyperQueue 0.27, 16 workers. Slurm's burst of
          single jobs, 114 a second, is left out: there the submissions are the limit, and the array is the better figure of Slurm's.
          Rates of short tasks are of its first table, the highest of each system; the machine was busy with other work too
"""

from bench.support.report import Yardstick

SLURM = "Slurm 22.05.8 tuned, 1,000 fake nodes, one cluster, on two such cores"
DASK = "Dask 2026.8.0, 16 workers in one process, on two such cores beside other work"
RAY = "Ray 2.60.0, two nodes, processes reused, on two such cores beside other work"
HYPER_QUEUE = "HyperQueue 0.27, 16 workers, one cluster, no journal, on two such cores"


def slurm_array(beside: str) -> Yardstick:
    """Return the rate of emulated starts."""
    return Yardstick("Slurm array_of_5000_per_s", 407, f"{SLURM}; allocated only", beside)


def slurm_allocation(beside: str) -> Yardstick:
    """Return the median time until one client holds one GPU."""
    return Yardstick("Slurm interactive_allocation_p50_ms", 4.7, f"{SLURM}; p99 56 ms", beside)


def slurm_gang_allocation(beside: str) -> Yardstick:
    """Return the median time until one client holds a gang of 8×8."""
    return Yardstick("Slurm interactive_gang_p50_ms", 4.3, f"{SLURM}; p99 15.8 ms", beside)


def slurm_gangs(beside: str) -> Yardstick:
    """Return the rate at which 125 gangs of 8×8 fill 1,000 nodes."""
    return Yardstick("Slurm gangs_8x8_per_s", 311, f"{SLURM}; allocated only", beside)


def hyper_queue_start(beside: str) -> Yardstick:
    """Return the median time until a real process writes its first line."""
    return Yardstick("HyperQueue submit_to_start_p50_ms", 20.7, f"{HYPER_QUEUE}; p99 24.8 ms", beside)


def hyper_queue_burst(beside: str) -> Yardstick:
    """Return the rate at which 1,000 real processes start that were submitted at once."""
    return Yardstick("HyperQueue tasks_per_s", 493, HYPER_QUEUE, beside)


def hyper_queue_tasks(beside: str) -> Yardstick:
    """Return the rate of tasks of one job, each of which is a process."""
    return Yardstick(
        "HyperQueue tasks_of_one_job_per_s", 378, f"{HYPER_QUEUE}; 180 to 378 in four runs", beside
    )


def dask_tasks(beside: str) -> Yardstick:
    """Return the rate of tasks without work."""
    return Yardstick("Dask tasks_per_s", 615, f"{DASK}; 436 to 615 in two runs", beside)


def ray_tasks(beside: str) -> Yardstick:
    """Return the rate of tasks without work, each of which takes a GPU."""
    return Yardstick("Ray gpu_tasks_per_s", 259, f"{RAY}; 222 to 259 in two runs", beside)

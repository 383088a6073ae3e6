"""Memory of a queue, and the time until it is open, with a million workloads: a hundred thousand pending, the others ended.

The queue is a process of its own that opens its log as in life: the newest snapshot, a tail of as many facts as lie between two
snapshots, the indexes, and the first fact of the term. The reader beside the queue and an auditor are measured alike, one after the
other. The whole takes about three minutes on two idle cores, half of that to fold the facts behind the snapshot.

source    issue's own bars; DESIGN §12: 100,000 pending workloads, 1,000 tenants
"""

from pathlib import Path

from bench.support.remembered import opened, prepare
from bench.support.report import Findings, at_most
from bus.server import NatsServer

WORKLOADS, QUICK_WORKLOADS = 1_000_000, 4_000
PENDING, QUICK_PENDING = 100_000, 1_000
ROLES = ("job_queue", "reader", "auditor")


async def run(directory: Path, *, is_quick: bool) -> Findings:
    """One snapshot, opened by each role in turn."""
    workloads, pending = (QUICK_WORKLOADS, QUICK_PENDING) if is_quick else (WORKLOADS, PENDING)
    figures = await prepare(directory, workloads, pending)
    server = NatsServer({})
    access = await server.start()
    try:
        for role in ROLES:
            found = await opened(role, access.url, directory)
            name = "queue" if role == "job_queue" else role
            figures |= {
                f"{name}_gb": found.resident_gb,
                f"{name}_peak_gb": found.peak_gb,
                f"{name}_open_seconds": found.seconds,
                f"{name}_open_cpu_seconds": found.cpu_seconds,
            }
    finally:
        await server.stop()
    figures["queue_bytes_a_workload"] = 1e9 * figures["queue_gb"] / workloads
    figures["open_seconds"] = figures.pop("queue_open_seconds")
    return Findings(
        figures,
        [
            at_most("queue_gb", figures["queue_gb"], 3, "every workload keeps its whole spec"),
            at_most("open_seconds", figures["open_seconds"], 30, "rows are decoded and indexed one by one"),
        ],
    )

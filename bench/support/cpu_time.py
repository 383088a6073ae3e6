"""How much of the processors each role of a plane takes: what its processes spent, by the kernel's own count."""

import os
import time
from pathlib import Path

from runtime.plane import PlaneProcesses
from runtime.wiring import units_of

TICKS = os.sysconf("SC_CLK_TCK")


class ProcessorTime:
    """From when it is made."""

    def __init__(self, plane: PlaneProcesses) -> None:
        self._plane = plane
        self._begun = time.perf_counter()
        self._before = self._spent()

    def _spent(self) -> dict[tuple[str, int], float]:
        """Seconds, by role and process; those that died meanwhile are not counted."""
        found = {}
        for unit in units_of(self._plane.plan):
            pid = self._plane.supervisor.pid_of(unit.name)
            found[unit.role, pid] = seconds_of(pid)
        server = self._plane.server
        if server is not None and server.pid:
            found["nats", server.pid] = seconds_of(server.pid)
        found["client", os.getpid()] = seconds_of(os.getpid())
        return found

    def figures(self, count: int) -> dict[str, float]:
        """Milliseconds of one core for each of so many, by role; and how much of the cores that is."""
        spent: dict[str, float] = {}
        for (role, pid), now in self._spent().items():
            spent[role] = spent.get(role, 0.0) + now - self._before.get((role, pid), 0.0)
        span = time.perf_counter() - self._begun
        by_role = {f"{role}_ms_each": 1e3 * total / count for role, total in sorted(spent.items())}
        return {
            "processes": float(len(self._spent())),
            **by_role,
            "cores_busy": sum(spent.values()) / span,
        }


def seconds_of(pid: int) -> float:
    """User and system time of a process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS

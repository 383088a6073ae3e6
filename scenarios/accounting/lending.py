"""How soon emulated tasks had back the devices that they lent: figures of a simulated run."""

from collections.abc import Iterable

from core.nouns.instant import SECOND
from runtime.emulated.lending import LendingFigures


def figures_of(spools: Iterable[LendingFigures]) -> dict[str, float]:
    """Return the figures of all spools of a world together."""
    taken_back = for_nobody = 0
    waits: list[int] = []
    for one in spools:
        taken_back += one.taken_back
        waits += one.waits
        for_nobody += one.waited_for_nobody
    waits.sort()
    return {
        "devices_taken_back": float(taken_back),
        "devices_waited_for": float(len(waits)),
        "p99_wait_for_device_seconds": waits[int(0.99 * (len(waits) - 1))] / SECOND if waits else 0.0,
        "wait_for_device_seconds_max": waits[-1] / SECOND if waits else 0.0,
        "wait_for_nobody_seconds": for_nobody / SECOND,
    }

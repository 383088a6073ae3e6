"""What a run's witness knows of shared pools: how many rounds began, what they changed, and whether measured speeds are those of the work."""

from core.events.queue import WorkloadSubmitted
from core.events.sharing import RoundBegun, SharesSet, SpeedMeasured
from core.fact import Fact
from core.nouns.sharing import ISOLATED
from core.sharing.classes import speed_key_of


class SharedPools:
    """Told of each fact, in the order of its log."""

    def __init__(self) -> None:
        self._rounds = self._left = self._pairs = self._solved = self._measured = 0
        self._speeds: dict[tuple[str, str], int] = {}
        """Of emulated work by key of jobs and GPU type, millionths of a step in a second."""
        self._known: dict[tuple[str, str], int] = {}
        """As measured last."""

    def take(self, fact: Fact) -> None:
        """A fact that became durable."""
        match fact.event:
            case WorkloadSubmitted(spec=spec) if (
                spec.share is not None and spec.jobs[0].emulation is not None
            ):
                key = speed_key_of(spec)
                self._speeds |= {(key, gpu_type): speed for gpu_type, speed in spec.jobs[0].emulation.speeds}
            case RoundBegun(leaves=leaves, beside=beside):
                self._rounds += 1
                self._left += len(leaves)
                self._pairs += len(beside)
            case SharesSet(shares=shares, is_more=False):
                self._solved += shares.by != ISOLATED
            case SpeedMeasured(speed_key=key, gpu_type=gpu_type, speed=speed, beside=""):
                self._measured += 1
                self._known[key, gpu_type] = speed

    def figures(self) -> dict[str, float]:
        """What it can say of a run (scenarios/schema/expectations.py)."""
        errors = [
            abs(speed / self._speeds[key] - 1) for key, speed in self._known.items() if key in self._speeds
        ]
        return {
            "rounds": float(self._rounds),
            "round_leaves": float(self._left),
            "pairs": float(self._pairs),
            "shares_solved": float(self._solved),
            "speeds_measured": float(self._measured),
            "speed_error_max": max(errors, default=0.0),
        }

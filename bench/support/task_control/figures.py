"""`python -m bench.support.task_control.figures`: draws docs/results/task_control.svg, Twine's figure 14 on a whole simulated plane."""

from pathlib import Path

import structlog

from bench.support.plots import Curve, Mark, drawn
from bench.support.task_control.plane import Timeline, release
from bench.support.task_control.setup import BACK_AT_SECONDS, LOST_AT_SECONDS, build_shards
from mizzen.control.replica_aware import ReplicaAware
from mizzen.control.shards import Shards

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "results"
SEED = 0


def figure(timeline: Timeline, shards: Shards) -> str:
    """Shards with one and with two replicas down, and tasks that are updated, from the release on."""
    one: list[tuple[float, float]] = [(0.0, 0.0)]
    two: list[tuple[float, float]] = [(0.0, 0.0)]
    updated: list[tuple[float, float]] = [(0.0, 0.0)]
    for moment in timeline.moments:
        lost = shards.lost(shards.flags(moment.down))
        one.append((moment.at_seconds, float((lost == 1).sum())))
        two.append((moment.at_seconds, float((lost > 1).sum())))
        updated.append((moment.at_seconds, 10.0 * moment.updated))
    return drawn(
        "A release of 1,000 tasks with 15,000 shards, and a switchboard that fails (Twine, figure 14)",
        "seconds since the release",
        "shards; tasks × 10",
        [
            Curve("shards with one replica down", one),
            Curve("shards with two replicas down", two),
            Curve("tasks updated × 10", updated),
        ],
        [Mark(LOST_AT_SECONDS, "switchboard lost"), Mark(BACK_AT_SECONDS, "and back")],
    )


def main() -> None:
    """Draw it."""
    shards = build_shards(SEED)
    with structlog.testing.capture_logs():
        timeline = release(ReplicaAware(shards), SEED)
    path = FOLDER / "task_control.svg"
    path.write_text(figure(timeline, shards))
    print(f"wrote {path.relative_to(FOLDER.parents[1])}")


if __name__ == "__main__":
    main()

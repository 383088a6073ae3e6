"""`python -m bench.support.task_control.figures [PATH]`: draws Twine's figure 14 on a whole simulated plane.

Without a path it draws docs/results/task_control.svg.
"""

import argparse
from pathlib import Path

import structlog

from bench.support.task_control.plane import Timeline, release
from bench.support.task_control.setup import BACK_AT_SECONDS, LOST_AT_SECONDS, build_shards
from mizzen.control.replica_aware import ReplicaAware
from mizzen.control.shards import Shards
from mizzen.views.plots import Curve, Mark, draw_curves, figure_path

PAGE_FIGURE = Path(__file__).resolve().parents[3] / "docs" / "results" / "task_control.svg"
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
    return draw_curves(
        "A release of 1,000 tasks with 15,000 shards, and a switchboard that fails (Twine, figure 14)",
        "time since the release (seconds)",
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
    parser = argparse.ArgumentParser(prog="python -m bench.support.task_control.figures")
    parser.add_argument("path", type=figure_path, nargs="?", default=str(PAGE_FIGURE))
    path = parser.parse_args().path
    shards = build_shards(SEED)
    with structlog.testing.capture_logs():
        timeline = release(ReplicaAware(shards), SEED)
    path.write_text(figure(timeline, shards), encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()

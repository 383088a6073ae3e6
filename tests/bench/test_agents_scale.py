"""The figures of agents by view, and of ways to keep agents apart, in small."""

from pathlib import Path

import pytest

from bench import agents_scale, conflicts
from bench.commit import Steady
from core.nouns.agents import AgentView
from runtime.loop import run


@pytest.mark.processes
def test_views_are_measured_in_one_run(tmp_path: Path) -> None:
    """S13: real agents by both views; with four of them no bar is judged."""

    async def measured() -> dict[str, float]:
        found = await agents_scale.run(tmp_path, is_quick=True)
        assert [] == found.bars
        return found.figures

    figures = run(measured())
    for view in ("stream", "parsync"):
        assert figures[f"grants_per_s_{view}_4"] > 0
        assert figures[f"conflict_share_{view}_4"] < 0.5
    assert {"throughput_4_over_4", "parsync_over_stream_4", "handed_back_share_4"} <= figures.keys()


def test_bars_are_of_sixteen_agents_over_four() -> None:
    """As the issue of more agents has it: 16 by rows over 4 by facts."""

    def steady(rate: float, tries: int = 100) -> list[Steady]:
        return [Steady(rate, tries, 100, 0, 0, 1.0, 2.0, {})]

    stream, parsync = AgentView.STREAM, AgentView.PARSYNC
    found = agents_scale.findings_of(
        {
            (4, stream): steady(1_000),
            (4, parsync): steady(1),
            (16, stream): steady(600),
            (16, parsync): steady(900, 101),
        },
        {},
        (4, 16),
    )
    assert 0.9 == found.figures["throughput_16_over_4"]
    assert 1.5 == found.figures["parsync_over_stream_16"]
    assert [True, True, True] == [bar.met for bar in found.bars]


def test_ways_are_played(tmp_path: Path) -> None:
    """E-P3: each way, and the packing that it costs beside one agent that knows everything."""
    found = conflicts.run(tmp_path, is_quick=True)
    for way in conflicts.WAYS:
        assert 0 <= found.figures[f"conflict_share_{way}_4_10"] <= 1
        assert found.figures[f"empty_lost_{way}_4_10"] < 1


def test_partitions_keep_agents_apart() -> None:
    """S11, E-P3: of agents that want the same nodes hardly one meets a conflict, where ties cost a tenth of the claims."""
    apart = conflicts.played("partitions", 1_024, 6, 50, 500, seed=1)
    same = conflicts.played("ties", 1_024, 6, 50, 300, seed=1)
    assert apart.conflict_share <= 0.02 < same.conflict_share

"""Regions of the benchmarks of agents: how many attempts they hold, and how the cost of decisions is summed up."""

import pytest

from bench.agent import weight_of
from bench.decision import spent
from bench.support.agents.region import ATTEMPTS_A_NODE, AgentRegion
from core.nouns.ids import WorkloadId
from core.nouns.quantities import MILLI


def test_region_holds_more_attempts_than_nodes() -> None:
    """1.3 attempts a node, each on one node, and no node holds more GPUs than it has."""
    region = AgentRegion(1_000)
    capacity = region.state.image.capacity
    assert ATTEMPTS_A_NODE == len(capacity.live()) / region.nodes
    held = [sum(milli for _, milli in pairs) for pairs in by_node(region).values()]
    assert max(held) == 8 * MILLI
    assert 0.84 == pytest.approx(sum(held) / MILLI / 8 / region.nodes, abs=0.05)
    assert {1, 2} == {len(pairs) for pairs in by_node(region).values()}


def test_image_weighs_more_with_attempts() -> None:
    """The weight is that of the image which a reader sends: some hundred bytes an attempt."""
    figures = weight_of(AgentRegion(1_000))
    assert 1.3 == figures["attempts_a_node"]
    assert 50 < figures["image_megabytes"] * 1e6 / 1_300 < 2_000


def test_decisions_are_told_by_means_too() -> None:
    """A mean is not a median, refusals have their own, and the mean of all decisions counts each once."""
    figures = spent({"free": [1.0, 1.0, 7.0], "preempt": [], "refuse": [11.0]})
    assert (3, 0, 1) == tuple(figures[f"{look}_count"] for look in ("free", "preempt", "refuse"))
    assert (3.0, 1.0, 7.0) == tuple(figures[f"free_{kind}_ms"] for kind in ("mean", "p50", "p99"))
    assert (11.0, 5.0) == (figures["refuse_mean_ms"], figures["made_mean_ms"])
    assert "preempt_mean_ms" not in figures


def by_node(region: AgentRegion) -> dict[int, list[tuple[WorkloadId, int]]]:
    """Return the attempts of each node, with the GPU milli of each."""
    found: dict[int, list[tuple[WorkloadId, int]]] = {}
    for workload, _, holding in region.state.image.capacity.live():
        (spread,) = holding.claim.spreads
        (node,) = spread.nodes
        found.setdefault(node, []).append((workload, holding.claim.jobs[0].need.gpu_milli))
    return found

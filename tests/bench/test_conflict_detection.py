"""Detection by sequence, which is measured and never done."""

from bench.support.store.conflict_detection import detected, figures


def test_more_would_be_conflicts_by_sequence() -> None:
    """L2: on one stream of claims each that no longer fits has a node that changed, and many that have one fit all the same."""
    found = detected(nodes=512, agents=8, lag=16, requests=400, stripes=False)
    assert 400 <= found.claims
    assert 0 < found.by_fit < found.by_sequence
    assert found.ratio > 1


def test_figures_of_a_benchmark() -> None:
    """L2: the ratio, and that agents who look at pods of their own hardly meet, though most of what they see is old."""
    told = figures(is_quick=True)
    assert told["sequence_conflicts_ratio"] > 1
    assert told["fit_conflicts_share"] <= 0.01 < told["sequence_conflicts_share"]

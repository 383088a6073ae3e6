"""Twine's figure 14: that the benchmark plays what it says, and that the controllers reach what was published."""

from pathlib import Path

import numpy as np
import pytest

from bench.support.report import Findings
from bench.support.task_control.setup import TASKS, ZONES, build_shards, domains, lost_tasks, zones
from bench.task_control import AtRandom, Player, run
from mizzen.control.replica_aware import ReplicaAware


@pytest.fixture(scope="module")
def findings() -> Findings:
    """One seed."""
    return run(Path("nowhere"), is_quick=True)


def test_the_service_is_the_published_one() -> None:
    """15,000 shards of three replicas, each in three of four zones of the published sizes, the same for the same seed."""
    shards = build_shards(7)
    assert (15_000, 3) == shards.table.shape
    assert list(range(TASKS)) == shards.tasks.tolist()
    assert list(ZONES) == np.bincount(list(zones().values())).tolist()
    of_each = np.sort(np.array([zones()[task] for task in range(TASKS)])[shards.table], axis=1)
    assert (np.diff(of_each, axis=1) > 0).all()
    assert (build_shards(7).table == shards.table).all()
    assert (build_shards(8).table != shards.table).any()


def test_the_switchboard_is_in_one_zone() -> None:
    """50 tasks, and not where the first batch is."""
    lost = lost_tasks()
    assert 50 == len(lost)
    assert {1} == {zones()[task] for task in lost}
    assert 1 == len({domains()[task] for task in lost})
    assert max(np.unique(list(domains().values()), return_counts=True)[1]) == 50


def test_the_published_run_is_reached(findings: Findings) -> None:
    """T21: 274 at once, no shard with two down by plan or after the first batch, all done in the published time."""
    figures = findings.figures
    assert 274 == figures["first_batch"]
    assert 11_000 < figures["one_down_min"] < 12_264
    assert 1_292 < figures["two_down_at_loss_min"] < 1_700
    assert 0 == figures["two_down_after_batch_1"]
    assert 200 == figures["second_batch"]
    assert figures["done_at_seconds"] <= 1_030


def test_a_bound_on_the_loss_costs_little_time(findings: Findings) -> None:
    """T21: a tenth of the shards that the loss strikes, in no less time than any controller needs and at most half as much again."""
    figures = findings.figures
    assert figures["two_down_ratio"] <= 0.1
    least = figures["careful_done_at_least_seconds"]
    assert least < figures["careful_done_at_seconds"] < 1.5 * least


def test_every_missed_bar_says_why(findings: Findings) -> None:
    """The careful controller cannot be as fast as the plain one, and its bar tells what stands in the way."""
    missed = [bar for bar in findings.bars if not bar.met]
    assert "careful_done_at_seconds" in {bar.name for bar in missed}
    assert all(bar.limited_by for bar in missed)


async def test_controller_without_the_replicas_loses_many() -> None:
    """As many at once, at random, leaves nearly three thousand shards with two replicas down at once."""
    shards = build_shards(0)
    found = await Player(AtRandom(274, 0), shards, lost_tasks()).play()
    assert 2_500 < found.two_down_first < 3_000
    assert 274 == found.batch(0)


async def test_updates_that_take_different_times_keep_the_zones_together() -> None:
    """The last of a zone to come back do not let single tasks of all other zones go: it is as fast but for their delay."""
    shards = build_shards(0)
    found = await Player(ReplicaAware(shards), shards, lost_tasks(), jitter=15).play()
    assert 0 == found.two_down_after
    assert found.done_at <= 1_030

"""Benchmarks of harvested capacity on real planes, in small."""

import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench import harvest_idle_cost, reclaim_live
from bench.support.functions.executors_seen import ExecutorsSeen, clock_of_files
from bench.support.harvest.planet_day import Facts, facts_of_planet
from core.nouns.ids import TenantName
from core.nouns.quantities import NOTHING
from runtime.tasks.book import EXECUTOR_MARK, BookFiles, ExecutorUse
from tests.bench.small import small


def test_reclaims_are_judged_by_the_grace() -> None:
    """And by the median over an empty node; no round of a sort is no figure."""
    spans = {
        "alone": [0.1, 0.1],
        "idle": [0.14, 0.14],
        "busy": [2.0, 3.5],
        "stopped": [2.1, 2.1],
        "plane": [],
        "worker": [0.1],
    }
    found = reclaim_live.findings(spans, reclaim_live.Seen(two_on_one_slot=1))
    assert 40 == round(found.figures["idle_added_p50_ms"])
    assert "plane_p99_seconds" not in found.figures
    assert {"busy_p99_seconds", "two_on_one_slot"} == {one.name for one in found.bars if not one.met}


def test_order_of_rounds_is_drawn_from_the_seed() -> None:
    """All rounds of the sorts are played, in another order from another seed."""
    orders = [reclaim_live.FULL.order(reclaim_live.SORTS[2:], seed) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert [{"busy": 10, "stopped": 6, "plane": 4, "worker": 2}] * 3 == [{**Counter(one)} for one in orders]


@contextmanager
def _sleeping(words: str, mark: str) -> Iterator[int]:
    """Keep processes up, and tell the first one's number once they run."""
    command = ["sh", "-c", words]
    with subprocess.Popen(command, env={EXECUTOR_MARK: mark}, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "up\n" == process.stdout.readline()
        yield process.pid
        process.kill()


@pytest.mark.processes
def test_executor_that_outlives_the_first_line_of_a_gang_is_counted(tmp_path: Path) -> None:
    """H-1: by the book; one that has died before is not."""
    book = BookFiles(tmp_path / "book")
    seen = ExecutorsSeen(book, tmp_path)
    with _sleeping("echo up; exec sleep 60", "") as pid:
        book.use([ExecutorUse(pid, pid, TenantName("t"), (), (), NOTHING)])
        assert 1 == seen.look()
        begun = clock_of_files()
        assert 0 == seen.seen_after(begun)
        while clock_of_files() <= begun:
            pass
        assert 1 == seen.look()
        assert 1 == seen.seen_after(begun)
    died = clock_of_files()
    assert 0 == seen.look()
    assert 0 == seen.seen_after(died)


@pytest.mark.processes
def test_executor_that_no_book_has_is_found_by_its_mark(tmp_path: Path) -> None:
    """The warm parent, whose own parent has no mark, is none."""
    seen = ExecutorsSeen(BookFiles(tmp_path / "book"), tmp_path)
    with _sleeping("sleep 5 & echo up; wait", f"{tmp_path}/server/0"):
        assert 0 == seen.look()
        assert 1 == seen.search()
        assert 1 == seen.look()


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.timeout(180)
def test_reclaim_live_in_small(tmp_path: Path) -> None:
    """H-1, H-10: real tasks have their slots back from real executors, with the function server stopped, or the plane dead too."""
    figures = small("reclaim_live", tmp_path)
    assert 0 == figures["two_on_one_slot"]
    assert 4 == figures["idle_executors_least"]
    assert 1.5 < figures["busy_p50_seconds"] < 10
    assert 1.5 < figures["stopped_p50_seconds"] < 10
    assert 1.0 < figures["plane_p50_seconds"] < 10
    assert figures["worker_p50_seconds"] < 10


@pytest.mark.slow
def test_facts_of_a_planet_are_counted_by_type() -> None:
    """A planet that lends has facts of that, most of all its facts are others, and the seed decides all of them."""
    found, again = (facts_of_planet(harvest_idle_cost.QUICK.day, 1) for _ in range(2))
    assert 0 < found.of_harvest < found.count / 2
    assert found.of_harvest < found.of_regions < found.count
    assert found.by_type == again.by_type


def test_shares_of_facts_are_of_all_seeds() -> None:
    """Facts about harvested capacity, of all logs and of regions, and for one start."""
    ones = {lends: {sort: [1.0, 1.0] for sort in harvest_idle_cost.SORTS} for lends in (True, False)}
    days = [
        Facts(1.0, Counter({"HarvestOffered": 1, "GangStarted": 2, "CheckpointCommitted": 7}), 9),
        Facts(2.0, Counter({"HarvestReleased": 2, "WorkloadSubmitted": 18}), 11),
    ]
    told = harvest_idle_cost.findings(ones, {True: Counter({True: 1, False: 3}), False: Counter()}, 4, days)
    expected = {"": 3 / 30, "_regions": 3 / 20}
    assert expected == {name: told.figures[f"harvest_facts_share_day{name}"] for name in expected}
    assert (1.5, 7 / 30, 3.0) == tuple(
        told.figures[name]
        for name in ("harvest_facts_per_start_day", "checkpoint_facts_share_day", "hours_day")
    )


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.timeout(180)
def test_harvest_idle_cost_in_small(tmp_path: Path) -> None:
    """All sorts of starts are measured both ways, and facts are told apart. Ten minutes of a planet have no checkpoint."""
    figures = small("harvest_idle_cost", tmp_path)
    assert all(value > 0 for name, value in figures.items() if name != "checkpoint_facts_share_day")
    assert figures["facts_per_start_on"] > figures["facts_per_start_off"]

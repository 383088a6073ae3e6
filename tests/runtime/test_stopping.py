"""The last word of a keeper that ends in order: its head, and the digest of what is durable."""

import asyncio
from typing import Any

from structlog.testing import capture_logs

from core.nouns.ids import GLOBAL_LOG
from core.nouns.instant import seconds
from runtime.process import Ground, run_unit
from runtime.shutdown_digest import log_stop
from runtime.wiring import OpenUnit, Unit
from scenarios.schema.fleet import plan_of
from tests.runtime.aids import Place, count, virtual
from tests.worlds.plane import SMALL

QUEUE = Unit("job_queue")


async def _said_at_the_end(place: Place, *, is_killed_while_it_syncs: bool) -> dict[str, Any]:
    """What is logged when a counter is stopped, at rest or with a batch on its way to the disk."""
    running = await place.keep()
    kept = running.host._kept
    assert kept is not None
    life = OpenUnit(QUEUE, running.host, None, [kept.log], kept)
    await place.ask(count("a"))
    if is_killed_while_it_syncs:
        place.sync = seconds(60)
        place.client.say(count("b"))
        await place.moment()
    running.kill()
    if is_killed_while_it_syncs:
        place.disk.crash(name=GLOBAL_LOG)  # The batch is lost, and memory has it.
    with capture_logs() as lines:
        await life.close()
        await log_stop(life, place.store)
    (line,) = lines
    return dict(line)


@virtual
async def test_keeper_at_rest(place: Place) -> None:
    """Memory is what the log says."""
    said = await _said_at_the_end(place, is_killed_while_it_syncs=False)
    assert ("keeper_stopped", GLOBAL_LOG, 1, 2) == tuple(
        said[name] for name in ("event", "log", "term", "sequence")
    )
    assert (await place.folded()).digest() == said["digest"]
    assert place.file.hash_at(2).hex() == said["hash"]


@virtual
async def test_keeper_that_lost_its_last_batch(place: Place) -> None:
    """It reports its durable state, not the one that it remembers."""
    said = await _said_at_the_end(place, is_killed_while_it_syncs=True)
    assert 2 == said["sequence"]
    assert (await place.folded()).digest() == said["digest"]
    assert ["a"] == list((await place.folded()).regions.sequences)


@virtual
async def test_only_a_keeper_that_is_told_to_end_logs_it(place: Place) -> None:
    """Once, when it is cancelled; a follower and one that dies have no such line."""

    async def end(unit: Unit) -> list[str]:
        task = place.loop.create_task(
            run_unit(plan_of(SMALL, "fleet"), unit, Ground(place.network.endpoint, place.store))
        )
        await place.sleep(1)
        task.cancel()
        with capture_logs() as lines:
            await asyncio.wait([task])
        return [line["event"] for line in lines if line["log_level"] == "info"]

    assert ["keeper_stopped"] == await end(QUEUE)
    assert [] == await end(Unit("auditor"))

"""A region's followers start together, over a real server and a real log that moves: the benchmark `boot` in small."""

import asyncio
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from bench.support.boot.parts import LOG, ROLES, Listener, followed
from bench.support.boot.region import FLEET, BusyRegion
from bus.nats import NatsConnection
from bus.port import Bus
from bus.server import NatsServer
from core.fact import Fact
from core.nouns.instant import Instant
from core.nouns.limits import IMAGES_ENCODED_MAX
from runtime.catch_up import encoded_images
from runtime.clock import Clock, wall_now
from runtime.following import Following
from runtime.images import load_image
from runtime.reader import Reader
from runtime.telling import announcements
from store.rows import row_of
from store.sqlite import SqliteLog, SqliteStore

NODES = 400
PAGE_BYTES = 8 * 1024
"""So that a small region has as many pages as a large one."""
FACTS_AT_ONCE = 20


async def append_forever(life: Iterator[Fact], log: SqliteLog, bus: Bus, is_over: asyncio.Event) -> None:
    """As a keeper's host: append, and announce what is durable."""
    while not is_over.is_set():
        rows = [row_of(fact) for fact in islice(life, FACTS_AT_ONCE)]
        before = log.head
        for told in announcements(rows, before, await log.append(rows, 1), 1, b""):
            bus.say(told)
        await asyncio.sleep(0.02)


@pytest.mark.processes
async def test_all_sets_of_sections_come_up_together_on_a_moving_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every role's followers are up with one encoding, and what they know is what the log says."""
    monkeypatch.setattr(encoded_images, "IMAGE_PAGE_BYTES", PAGE_BYTES)
    region = BusyRegion(LOG, NODES)
    store = SqliteStore(tmp_path)
    log = await store.open(LOG, "bench")
    await log.append([row_of(fact) for fact in region.beginning()], 1)
    server = NatsServer({}, tmp_path / "nats")
    connection = await NatsConnection.connect((await server.start()).url, FLEET, "all")

    def clock() -> Clock:
        return Clock(asyncio.get_running_loop(), wall_now(), Instant(0))

    log_reader = await store.reader(LOG)
    reader = Reader(LOG, log_reader, connection.endpoint(f"reader.{LOG}"), clock())
    listeners = [Listener(role, log.head.sequence) for role in (*ROLES, "agent", "agent")]
    followings = [
        Following(followed(ROLES[one.role]()), connection.endpoint(f"{one.role}.{number}"), clock(), one)
        for number, one in enumerate(listeners)
    ]
    is_over = asyncio.Event()
    try:
        async with asyncio.TaskGroup() as group:
            serving = [group.create_task(task) for _, task in reader.tasks()]
            life = append_forever(region.life(), log, connection.endpoint("keeper"), is_over)
            appending = group.create_task(life)
            await asyncio.sleep(0.1)
            serving += [group.create_task(following.keep_up()) for following in followings]
            async with asyncio.timeout(30):
                await asyncio.gather(*(one.is_up.wait() for one in listeners))
                is_over.set()
                await appending
                while any(one.sequence < log.head.sequence for one in listeners):
                    await asyncio.sleep(0.01)
            for task in serving:
                task.cancel()
        image, head, _ = await load_image(log_reader, LOG)
    finally:
        reader.close()
        await log_reader.close()
        await log.close()
        await connection.close()
        await server.stop()
    assert 1 <= len(reader.images.kept) <= IMAGES_ENCODED_MAX
    assert all(one.images == 1 for one in listeners)
    assert log.head == head
    for one in listeners:
        assert one.image is not None
        sections = followed(ROLES[one.role]()).sections
        assert image.encode(sections) == one.image.encode(sections)

"""`python -m tests.golden.make_history`: keeps the logs of this build's release for all later ones, and never overwrites any.

They come from a scenario whose faults bring about nearly every event. The next release adds a file of its own, and a line to
`digests.json`: what each log folds to, as the build that wrote it has it.
"""

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import structlog

from core.images import empty_image
from core.nouns.ids import LogName
from runtime.virtual_loop import VirtualLoop
from runtime.wiring import BUILD
from scenarios.play.simulated import simulated_run
from scenarios.scenario import HISTORIES, load_scenario
from scenarios.schema.history import keep_history
from scenarios.worlds.simulated.world import START, SimulatedWorld
from store.memory_disk import MemoryDisk
from store.rows import facts_of
from tests.golden.shapes import Shape, digest_in, shapes_of_this_build

SCENARIO = "lossy_hour"
SEED = 1
MINUTES = 45
"""Of the hour: an upgrade does not wait until everything has ended."""
SUFFIX = ".logs"
DIGESTS = Path(__file__).parent / "digests.json"
"""By history and log, the digest of the image that its facts fold to."""
SHAPES = Path(__file__).parent / "shapes.json"
"""By history, what images were made of in the build that wrote it: of what came later its digests know nothing."""


def logs_of_this_build() -> dict[LogName, MemoryDisk]:
    """Of the scenario, cut while work is still under way."""
    loop = VirtualLoop(START)
    try:
        run = simulated_run(load_scenario(SCENARIO), SEED, loop)
        assert isinstance(run.world, SimulatedWorld)
        store = run.world.store
        with suppress(TimeoutError), structlog.testing.capture_logs():
            loop.run_until_complete(asyncio.wait_for(run.play(), 60 * MINUTES))
        return {log: store.disk(log) for log in store.logs()}
    finally:
        loop.cancel_all()
        loop.close()


def digests_of(disks: Mapping[LogName, MemoryDisk], shapes: dict[str, Shape]) -> dict[str, str]:
    """What each log folds to, from its first fact on, as far as a build with images of these shapes knows it."""
    digests: dict[str, str] = {}
    for log, disk in sorted(disks.items()):
        file = disk.file(log)
        assert file is not None, log
        image = empty_image(log)
        for fact in facts_of(log, file.rows[: file.durable]):
            image.fold(fact)
        digests[log] = digest_in(shapes, log, image)
    return digests


def main() -> None:
    """Keep them, unless they are kept."""
    path = HISTORIES / f"{BUILD}{SUFFIX}"
    if path.exists():
        print(f"{path.name} is there; a release is kept once")
        return
    disks = logs_of_this_build()
    known = json.loads(DIGESTS.read_text(encoding="utf-8")) if DIGESTS.exists() else {}
    HISTORIES.mkdir(exist_ok=True)
    keep_history(path, disks)
    shapes = shapes_of_this_build()
    text = json.dumps({**known, path.name: digests_of(disks, shapes)}, indent=2, sort_keys=True)
    DIGESTS.write_text(text + "\n", encoding="utf-8")
    known = json.loads(SHAPES.read_text(encoding="utf-8")) if SHAPES.exists() else {}
    text = json.dumps({**known, path.name: shapes}, indent=1)
    SHAPES.write_text(text + "\n", encoding="utf-8")
    print(f"wrote {path.name}, {path.stat().st_size} bytes, and its digests")


if __name__ == "__main__":
    main()

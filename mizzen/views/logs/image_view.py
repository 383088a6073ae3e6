"""An image as people ask for it: at a sequence, one section or one thing of it."""

from pathlib import Path
from typing import Any

import msgspec

from bus.port import Bus
from core.images import GlobalImage, Image, RegionImage, empty_image
from core.images.capacity import Capacity, Columns
from core.images.versions import VERSIONS
from core.nouns.ids import GLOBAL_LOG, LogName
from mizzen.connect.plane import fetch_image
from mizzen.terminal.output import MISUSED, CommandError, explained
from mizzen.views.logs.log_source import SUFFIX, image_name_of
from mizzen.views.logs.replay import folded
from mizzen.views.plane_reads import check_log, each_from
from store.errors import LogError
from store.sqlite import SqliteStore

FACTS_MAX = 200_000
"""Facts of a log that are folded for one answer, where the log's file is not here: some seconds' worth."""


def sections_of(log: str, section: str) -> tuple[str, ...]:
    """The sections that are meant; none means all. Raises CommandError."""
    if not section:
        return ()
    known = GlobalImage.SECTIONS if log == GLOBAL_LOG else RegionImage.SECTIONS
    if section not in known:
        raise CommandError(f"log {log} has no section {section}; it has {', '.join(known)}", MISUSED)
    return (section,)


async def image_in_file(path: Path, at: int, sections: tuple[str, ...]) -> tuple[Image, int]:
    """The image at a sequence, or at the head, from the newest snapshot if that is not beyond. Raises CommandError."""
    log = image_name_of(path)
    image, sequence = empty_image(log), 0
    reader = await SqliteStore(path.parent).reader(log)
    try:
        with explained(LogError):
            snapshot = await reader.snapshot()
    finally:
        await reader.close()
    if snapshot is not None and (not at or snapshot.head.sequence <= at):
        kept = VERSIONS.image_of(log, snapshot.image, snapshot.made_of)
        if kept is not None:  # Of one that this build cannot go on from, the facts say it all.
            image, sequence = kept, snapshot.head.sequence
    image, sequence = folded(path, at, image, sequence)
    return type(image)({name: image.sections[name] for name in sections or image.sections}), sequence


async def image_at(
    bus: Bus, log: LogName, sequence: int, sections: tuple[str, ...], directory: Path | None
) -> Image:
    """Return these sections at a sequence of a running plane's log. Raises CommandError.

    directory   where the plane keeps its logs' files, if that is here
    """
    path = directory / f"{log}{SUFFIX}" if directory is not None else None
    if path is not None and path.is_file() and sequence:
        image, _ = await image_in_file(path, sequence, sections)
        return image
    check_count(log, sequence)
    image = empty_image(log, sections)
    if sequence:
        async for fact in each_from(bus, log, 1, sequence):
            image.fold(fact)
    return image


def check_count(log: LogName, count: int) -> None:
    """Raise CommandError if so many facts of a log, whose file is not here, are too many to be asked for."""
    if count > FACTS_MAX:
        raise CommandError(f"the file of {log} is not here, and {count} facts are too many to ask for")


async def image_on_plane(bus: Bus, log: str, sections: tuple[str, ...]) -> tuple[Image, int]:
    """The newest. Raises CommandError."""
    return await fetch_image(bus, await check_log(bus, log), sections)


def view_of(log: str, image: Image, sequence: int, thing: str) -> dict[str, Any]:  # Any: whatever JSON holds
    """All of it, or what it has of one thing. Raises CommandError when it has nothing of it."""
    sections = {name: msgspec.to_builtins(section, str_keys=True) for name, section in image.sections.items()}
    if thing:
        sections = {name: part for name, one in sections.items() if (part := _part(image, name, one, thing))}
        if not sections:
            text = f"the image of {log} at {sequence} has nothing of {thing}; `mizzen log {log} --about {thing}` may"
            raise CommandError(text)
    return {"log": log, "sequence": sequence, "sections": sections}


def _part(image: Image, name: str, section: dict[str, Any], thing: str) -> dict[str, Any]:
    """Every table's row of this name, and the node of this number."""
    found = {
        field: rows[thing] for field, rows in section.items() if isinstance(rows, dict) and thing in rows
    }
    capacity = image.sections[name]
    number = thing.rpartition("-")[2]
    if isinstance(capacity, Capacity) and not found and number.isdigit() and capacity.has_node(int(number)):
        found["node"] = _node(capacity, int(number))
    return found


def _node(capacity: Capacity, node: int) -> dict[str, Any]:
    return {
        "node": node,
        "node_type": capacity.node_type[node],
        "rack": capacity.rack[node],
        "worker": capacity.worker_of[node],
        "is_lost": capacity.is_lost[node],
        "changed": capacity.changed[node],
        "gpu": _resource(capacity.gpu, node),
        "cpu": _resource(capacity.cpu, node),
        "memory": _resource(capacity.memory, node),
    }


def _resource(columns: Columns, node: int) -> dict[str, int]:
    return {
        "total": columns.total[node],
        "free": columns.free[node],
        "held": columns.held[node],
        "ending": columns.ending[node],
        "reserved": columns.reserved[node],
    }

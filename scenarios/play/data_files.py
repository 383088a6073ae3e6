"""Datasets as files, for a run in real processes: each region that keeps files has a directory, and each dataset is text."""

import sysconfig
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

from msgspec.structs import replace

from runtime.fleet_file import DataSpec, FleetFile
from scenarios.schema.data import GB, DataFleetSpec

PART_BYTES = 1_000_000
"""Of one file of a dataset, at most."""


def with_files(file: FleetFile, spec: DataFleetSpec | None, base: Path) -> FleetFile:
    """Make the directories and the datasets in them, and return the fleet file that names them.

    base  an absolute path: each region's directory lies in it, under the region's name

    Raises OSError.
    """
    if spec is None or not spec.directories:
        return file
    directories = {region: base / region for region in spec.directories}
    for directory in directories.values():
        directory.mkdir(parents=True)
    for name, one in spec.named().items():
        for region in (one.home, *one.copies):
            write_text(directories[region] / name, round(one.gb * GB))
    regions = {
        region: replace(one, data=DataSpec(str(directories[region]))) if region in directories else one
        for region, one in file.regions.items()
    }
    return replace(file, regions=regions)


def write_text(dataset: Path, size: int) -> None:
    """Write a dataset of so many bytes: a directory of numbered files, with the sources of Python's standard library again and again."""
    dataset.mkdir()
    sources = _sources()
    text = b""
    for number, first in enumerate(range(0, size, PART_BYTES)):
        count = min(PART_BYTES, size - first)
        while len(text) < count:
            text += next(sources)
        (dataset / f"part-{number:04}.txt").write_bytes(text[:count])
        text = text[count:]


def _sources() -> Iterator[bytes]:
    paths = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    return (path.read_bytes() for path in cycle(paths))

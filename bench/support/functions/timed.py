"""What each system's program found (programs/timing.py), over several rounds: rates are medians, spans are those of all rounds."""

import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.support.functions.programs.timing import Work
from bench.support.functions.running import told_by
from bench.support.percentiles import percentile

PEERS = {"ray": "ray", "dask": "distributed", "hyper_queue": "hyperqueue"}
"""Other systems, with the module that an interpreter has if it has the system."""
SECONDS_MAX = 1_800.0
"""Of one program."""


class Timed(Struct, frozen=True):
    """One round of one system: by form, the fastest of which counts."""

    version: str
    map_per_s: dict[str, float]
    chunks_per_s: dict[str, float]
    call_per_s: dict[str, float]
    call_ms: dict[str, list[float]]


RATES = ("map_per_s", "chunks_per_s", "call_per_s")


async def timed(system: str, work: Work, directory: Path, python: str) -> Timed:
    """Time one system. Raises ProgramFailed."""
    words = msgspec.json.encode(work._asdict()).decode()
    return await told_by(
        f"{system}_calls", words, told=Timed, directory=directory, seconds_max=SECONDS_MAX, python=python
    )


def peers_of(python: str) -> list[str]:
    """Return the systems that an interpreter has."""
    return [name for name, module in PEERS.items() if _has(python, module)]


def _has(python: str, module: str) -> bool:
    done = subprocess.run(
        [python, "-c", f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"],
        check=False,
        capture_output=True,
    )
    return not done.returncode


def forms_of(rounds: Sequence[Timed]) -> dict[str, dict[str, float]]:
    """Return each figure of one system, by form."""
    found = {
        rate: {
            form: statistics.median(getattr(one, rate)[form] for one in rounds)
            for form in getattr(rounds[0], rate)
        }
        for rate in RATES
    }
    for share in (50, 99):
        found[f"call_p{share}_ms"] = {
            form: percentile([span for one in rounds for span in one.call_ms[form]], share)
            for form in rounds[0].call_ms
        }
    return {figure: forms for figure, forms in found.items() if forms}


def fastest(figure: str, forms: dict[str, float]) -> str:
    """Return the form that counts: the one with the highest rate, or the shortest span."""
    return (max if figure in RATES else min)(forms, key=forms.__getitem__)

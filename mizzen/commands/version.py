"""`mizzen version`: what this is, and what it runs on."""

import asyncio
import importlib.metadata
import os
import platform
import sqlite3
import subprocess

from bus.errors import BusError
from bus.server import URL_VARIABLE, Access, find_server
from mizzen.terminal.options import Json
from mizzen.terminal.output import tell_json


def version(*, json: Json = False) -> None:
    """Tell which build this is, and which Python, NATS server and SQLite it finds."""
    found = {
        "mizzen": importlib.metadata.version("mizzen"),
        "python": platform.python_version(),
        **_nats_server(),
        "sqlite": sqlite3.sqlite_version,
    }
    if json:
        tell_json(found)
        return
    # Plain lines, because loading what draws tables takes longer than all the rest.
    for name, value in found.items():
        print(f"{name.replace('_', ' '):<12} {value}")


def _nats_server() -> dict[str, str]:
    """The server that is configured, without its password, or the one that would be started, or why there is none."""
    url = os.environ.get(URL_VARIABLE, "")
    if url:
        return {"nats_server": f"{Access(url).address}, by {URL_VARIABLE}"}
    try:
        program = asyncio.run(find_server(os.environ))
    except BusError as error:
        return {"nats_server": f"none: {error}"}
    said = subprocess.run(
        [program, "--version"], capture_output=True, text=True, check=False, timeout=10
    ).stdout
    return {"nats_server": str(program), "nats_version": said.strip().rpartition("v")[2]}

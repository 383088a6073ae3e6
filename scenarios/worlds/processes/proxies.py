"""The ways of all processes of a plane to its bus (scenarios/worlds/processes/proxy.py), by what they are called there."""

import random
from collections.abc import Sequence
from urllib.parse import urlsplit

from bus.faults import named
from bus.server import LOOPBACK
from runtime.wiring import Unit, bus_name_of
from scenarios.worlds.interface import CannotCause, Link
from scenarios.worlds.processes.proxy import BusProxy, Way

ALL = "*"


class Proxies:
    """One proxy for each process."""

    def __init__(self, units: Sequence[Unit], seed: int) -> None:
        self._proxies = {unit: BusProxy(random.Random(f"proxy/{seed}/{unit.name}")) for unit in units}

    async def start(self) -> None:
        """All listen."""
        for proxy in self._proxies.values():
            await proxy.start()

    async def stop(self) -> None:
        """None is there any more."""
        for proxy in self._proxies.values():
            await proxy.stop()

    def url_of(self, unit: Unit, url: str) -> str:
        """Under which a process reaches the server of this url through its proxy, as whom it is let in there."""
        server = urlsplit(url)
        assert server.hostname is not None, "we started it"
        assert server.port is not None, "the same"
        proxy = self._proxies[unit]
        proxy.lead_to(server.hostname, server.port)
        return f"nats://{server.netloc.rpartition('@')[0]}@{LOOPBACK}:{proxy.port}"

    def ways(self, link: Link) -> list[Way]:
        """All that a link goes through. Raises CannotCause if it is not between some processes and all that there are."""
        if ALL in link.others:
            struck = self._called(link.ones)
            there, back = [proxy.said for proxy in struck], [proxy.heard for proxy in struck]
        elif ALL in link.ones:
            struck = self._called(link.others)
            there, back = [proxy.heard for proxy in struck], [proxy.said for proxy in struck]
        else:
            raise CannotCause(
                "real processes share one bus: one can be cut from it, and not from some of the others"
            )
        is_everybody = ALL in link.ones and ALL in link.others
        return there if link.is_one_way or is_everybody else there + back

    def _called(self, names: Sequence[str]) -> list[BusProxy]:
        is_meant = named(names)
        found = [proxy for unit, proxy in self._proxies.items() if is_meant(bus_name_of(unit))]
        if not found:
            raise CannotCause(f"no process is called {' or '.join(names)} on the bus")
        return found

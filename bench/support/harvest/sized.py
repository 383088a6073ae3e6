"""One run at one rate on harvested workers whose core counts change, as the harvester says."""

from collections.abc import Sequence

from bench.support.functions.load import CallLoad
from bench.support.functions.region import SIZE, Region, Setup, Spans
from bench.support.harvest.machines import Harvester, as_sources, machine_books, machine_names
from bench.support.harvest.sizes import CORES_MAX, Sizes
from core.nouns.quantities import MILLI, Amount
from core.routing.mws import MinWorkerSet


class SizedRegion(Region):
    """A region of harvested workers alone, whose memory stays: each has that of a server of `mws`, unless it is told otherwise."""

    def __init__(
        self,
        sizes: Sequence[Sizes],
        load: CallLoad,
        rate: float,
        spans: Spans,
        memory_bytes: int = SIZE.memory_bytes,
    ) -> None:
        names = machine_names(len(sizes))
        super().__init__(
            Setup(MinWorkerSet()),
            load,
            rate,
            spans,
            lambda clock: as_sources(machine_books(clock, len(sizes))),
        )
        most = max(CORES_MAX, *(cores for one in sizes for _, cores in one.steps))
        total = Amount(0, MILLI * most, memory_bytes)
        self._harvester = Harvester(self, dict.fromkeys(names, total), recalls=lambda: 0)
        for name, one in zip(names, sizes, strict=True):
            for at, cores in one.steps:
                amount = Amount(0, MILLI * cores, memory_bytes)
                self.loop.call_later(at, self._harvester.offer, {name: amount})

"""The data of all regions of an emulated world: which disk holds which dataset, how fast links are, and the faults of both.

Content is a hash and a number of bytes. A dataset that was never put anywhere is on the disk of every region that an order names as its
source, with a hash made of its name, until it is deleted there. Faults act at once, on copies under way too.
"""

from collections import Counter
from collections.abc import Callable
from hashlib import blake2b
from typing import Protocol

from msgspec import Struct, field

from core.nouns.ids import DatasetName, RegionName

USUAL = 1000
"""Thousandths of a link's rate, while nothing is wrong with the link."""
DIGEST_BYTES = 32

Link = tuple[RegionName, RegionName]
"""From the first to the second."""


class Content(Struct, frozen=True):
    """A whole dataset."""

    hash: str
    bytes: int


class Partial(Struct):
    """An unfinished copy."""

    dataset: DatasetName
    moved: int = 0


class EmulatedDisk(Struct):
    """One region's disk. It outlives the region's data service."""

    contents: dict[DatasetName, Content | None] = field(default_factory=dict)
    """Whole datasets; None: deleted here."""
    incoming: dict[int, Partial] = field(default_factory=dict)
    """Unfinished copies, by the order's number."""
    made: dict[DatasetName, str] = field(default_factory=dict)
    """Hashes of the datasets that orders brought here, not of those that were put here."""
    is_full: bool = False

    def holds(self, dataset: DatasetName) -> bool:
        """Return whether a dataset was put or copied here, and not deleted since."""
        return self.contents.get(dataset) is not None


class Mover(Protocol):
    """The doer of one region's data service."""

    def stop(self) -> None:
        """Move nothing any more: another doer serves the region."""

    def settle(self) -> None:
        """Write down how far copies are, before something changes."""

    def look_again(self) -> None:
        """Go on as disks and links are now."""


def hash_of(dataset: DatasetName) -> str:
    """Return the hash of a dataset of which nothing else is known."""
    return blake2b(dataset.encode(), digest_size=DIGEST_BYTES).hexdigest()


def _unknown(_: DatasetName) -> int:
    return 0


class DataWorld:
    """The disks and links of a world."""

    def __init__(self, size_of: Callable[[DatasetName], int] = _unknown) -> None:
        """`size_of` tells the bytes of a dataset that was never put anywhere, as operators stated them."""
        self._size_of = size_of
        self._disks: dict[RegionName, EmulatedDisk] = {}
        self._movers: dict[RegionName, Mover] = {}
        self._parts: dict[Link, int] = {}
        """Thousandths of their rates that links have; 0: cut."""
        self._corrupt: Counter[Link | DatasetName] = Counter()
        """Copies, the next ones over a link or of a dataset, that arrive with another hash."""

    # Disks.

    def disk(self, region: RegionName) -> EmulatedDisk:
        """Return a region's disk."""
        return self._disks.setdefault(region, EmulatedDisk())

    def put(self, region: RegionName, dataset: DatasetName, size: int, hash: str = "") -> None:  # noqa: A002  # as in facts
        """Have a region hold a dataset of so many bytes, as an operator puts files there."""
        disk = self.disk(region)
        disk.contents[dataset] = Content(hash or hash_of(dataset), size)
        disk.made.pop(dataset, None)

    def take_away(self, region: RegionName, dataset: DatasetName) -> None:
        """Have a region not hold a dataset any more."""
        disk = self.disk(region)
        disk.contents[dataset] = None
        disk.made.pop(dataset, None)

    def put_back(self, region: RegionName, dataset: DatasetName) -> None:
        """Have a region hold a dataset again that was deleted there, as an operator puts files back; one that is there stays."""
        if not self.disk(region).holds(dataset):
            self.disk(region).contents.pop(dataset, None)

    def content(self, region: RegionName, dataset: DatasetName, stated: int | None = None) -> Content | None:
        """Return a dataset that an order says is in a region, of so many bytes; None if it was deleted there."""
        known = self.disk(region).contents
        if dataset in known:
            return known[dataset]
        return Content(hash_of(dataset), self._size_of(dataset) if stated is None else stated)

    # Faults.

    def cut_link(self, source: RegionName, target: RegionName) -> None:
        """Move nothing over a link until it is restored."""
        self.slow_link(source, target, 0)

    def restore_link(self, source: RegionName, target: RegionName) -> None:
        """Have a link be as fast as orders say."""
        self.slow_link(source, target, USUAL)

    def slow_link(self, source: RegionName, target: RegionName, permille: int) -> None:
        """Let copies over a link have so many thousandths of their rates."""
        assert permille >= 0, permille
        self._change(lambda: self._parts.__setitem__((source, target), permille))

    def corrupt_link(self, source: RegionName, target: RegionName, copies: int = 1) -> None:
        """Have the next copies over a link arrive with another hash."""
        self._corrupt[source, target] += copies

    def corrupt_dataset(self, dataset: DatasetName, copies: int = 1) -> None:
        """Have the next copies of a dataset, to wherever they go, arrive with another hash."""
        self._corrupt[dataset] += copies

    def fill_disk(self, region: RegionName) -> None:
        """Leave no room on a disk: copies to the region fail."""
        self._change(lambda: setattr(self.disk(region), "is_full", True))

    def free_disk(self, region: RegionName) -> None:
        """Have room on a disk again."""
        self._change(lambda: setattr(self.disk(region), "is_full", False))

    # For doers.

    def serve(self, region: RegionName, mover: Mover) -> None:
        """Have a doer move a region's copies; the one before it stops."""
        before = self._movers.get(region)
        if before is not None and before is not mover:
            before.stop()
        self._movers[region] = mover

    def rate_over(self, source: RegionName, target: RegionName, rate: int) -> int:
        """Return the bytes a second that a copy has over a link; 0: the link is cut."""
        part = self._parts.get((source, target), USUAL)
        return max(1, rate * part // USUAL) if part else 0

    def arrives_corrupt(self, source: RegionName, target: RegionName, dataset: DatasetName) -> bool:
        """Return whether this copy arrives with another hash; so many as were to be are used up."""
        for key in ((source, target), dataset):
            if self._corrupt[key]:
                self._corrupt[key] -= 1
                return True
        return False

    def _change(self, change: Callable[[], object]) -> None:
        movers = [self._movers[region] for region in sorted(self._movers)]
        for mover in movers:
            mover.settle()
        change()
        for mover in movers:
            mover.look_again()

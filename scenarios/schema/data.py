"""The data of a fleet in a scenario: regions get data services, and operators state all this at the start."""

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct, field

from core.nouns.data import DataPolicy

Gigabytes = Annotated[float, Meta(gt=0, le=1e9)]
Megabytes = Annotated[float, Meta(gt=0, le=1e9)]
Permille = Annotated[int, Meta(ge=0, le=1000)]
Extra = Annotated[int, Meta(ge=0, le=64_000)]
GB, MB = 10**9, 10**6


class DatasetSpec(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One dataset, or several that are alike."""

    home: Annotated[str, Meta(min_length=1)]
    gb: Gigabytes = 1.0
    copies: tuple[str, ...] = ()
    """Other regions that hold it."""
    pinned: bool = False
    count: Annotated[int, Meta(ge=1, le=10_000)] = 1
    """Of more than one, each has its number behind the name: `clicks-0`, `clicks-1`, and so on."""


class DataFleetSpec(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Storage, links, policy and datasets."""

    directories: tuple[str, ...] = ()
    """Regions that keep datasets as files in a directory of the run; no other region has a data service. Simulation emulates their
    datasets too. Empty: every region has a data service and emulates datasets.
    """
    storage_gb: Gigabytes = 1e6
    """Of each region."""
    link_mb_per_second: Megabytes = 1000.0
    """Of each link, in all."""
    automatic: bool = True
    day_permille: Permille = 20
    day_gb_min: Annotated[float, Meta(ge=0, le=1e9)] = 1000.0
    """That copies may have in a day however few bytes all datasets have."""
    extra_permille: Extra = 1250
    disaster_copies: bool = False
    replan_minutes: Annotated[int, Meta(ge=5, le=1440)] = 5
    datasets: dict[str, DatasetSpec] = field(default_factory=dict)

    @property
    def policy(self) -> DataPolicy:
        """Return the policy as the plane is told."""
        least = round(self.day_gb_min * GB)
        return DataPolicy(
            self.automatic,
            self.day_permille,
            self.extra_permille,
            least,
            self.disaster_copies,
            60 * self.replan_minutes,
        )

    def named(self) -> dict[str, DatasetSpec]:
        """Return every dataset by its name."""
        return {
            f"{name}-{number}" if one.count > 1 else name: one
            for name, one in self.datasets.items()
            for number in range(one.count)
        }

    def served(self, regions: Iterable[str]) -> list[str]:
        """Return those of a fleet's regions that have a data service."""
        return [region for region in regions if not self.directories or region in self.directories]

    def unknown_regions(self, regions: frozenset[str]) -> list[tuple[str, str]]:
        """Return the datasets that name a region that there is not, with that region."""
        return [
            (name, region)
            for name, one in self.datasets.items()
            for region in (one.home, *one.copies)
            if region not in regions
        ]

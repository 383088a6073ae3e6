"""The shape of a request to regions: the key of a refusal."""

from hashlib import blake2b

from msgspec import Struct

from core.rules.quota import Narrowing


class AskedShape(Struct, frozen=True, order=True, cache_hash=True):
    """The request for a workload at a level; equal for requests that the same regions would refuse."""

    level: int
    """Level of the request; `OVER_LEVEL` if the workload borrows."""
    shape: str
    """The workload's shape, whatever the level."""
    base: str
    """The shape without the number of tasks; empty for several jobs."""
    tasks: int
    """Number of tasks of a workload of one job; 0 for several jobs."""
    types: Narrowing
    """GPU types to which each job is restricted: those with headroom in the tenant's quota, or that others lend."""

    @property
    def family(self) -> tuple[str, Narrowing] | None:
        """Equal for requests that differ in level and number of tasks alone; None for several jobs.

        A refusal does not say which of several jobs found no capacity.
        """
        return (self.base, self.types) if self.base else None

    @property
    def text(self) -> str:
        """The shape as users and messages spell it."""
        return f"{self.level}|{self.shape}" + "".join(f"|{','.join(mine)}" for mine in self.types)

    @property
    def digest(self) -> str:
        """The name of the request in facts, where the text may be too long."""
        return digest(self.text)


def digest(text: str) -> str:
    """Return the name of a shape or request in facts."""
    return blake2b(text.encode(), digest_size=8).hexdigest()

"""The jobs that a policy is compared on: of a trace, or of a plane's own log."""

from msgspec import Struct


class SharingJob(Struct, frozen=True):
    """One job, as it was submitted."""

    id: str
    model: str
    """Which speeds it has; of jobs of a plane, the family."""
    gpus: int
    steps: float
    """All that it does, at the speeds of its model."""
    arrival: float = 0.0
    """Seconds from the begin of the trace."""
    weight: float = 1.0
    within: float = 0.0
    """Seconds after its arrival within which it is promised to be done (SLO); 0: no promise."""
    entity: str = ""

"""The value of capacity to the tasks that are expected to come, which the rule `priced_value` reads.

Tables of values follow from this by arithmetic alone (core/pricing/), so that an agent and a later explanation of its choice have
the same ones. A solver computed the shadow prices of shapes, as floats; here they are rounded.
"""

from msgspec import Struct

from core.nouns.mix import NO_MIX, Mix

MICRO = 1_000_000
"""Of one GPU, or of one."""


class Prices(Struct, frozen=True):
    """Of one region, as they were found together."""

    revision: int = 0
    """Grows with each solution that is set."""
    mix: Mix = NO_MIX
    """The shapes, in the order of `rents`."""
    rents: tuple[tuple[int, ...], ...] = ()
    """For each level of demand that was solved for, by shape: millionths of a GPU that one more task of it would be worth for
    the reason alone that tasks of it are few. What a shape pays for its room is its GPUs less this."""
    scarcity: tuple[tuple[str, int], ...] = ()
    """Scarcity by node type, ascending: for each shape that names the type, its share in all demand over the share of the GPUs that
    it accepts in all GPUs; summed, in millionths, at most 2."""
    arrivals: int = 0
    """Tasks that the mix was counted from."""

    def __bool__(self) -> bool:
        return bool(self.mix)


NO_PRICES = Prices()

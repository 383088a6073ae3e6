"""Closures that change by themselves: the phases of a maintenance, and drains that lift themselves."""

from core.images import RegionImage
from core.images.maintenance import MaintenanceRow
from core.messages.base import Message
from core.messages.nodes import LiftDrain, MoveMaintenance
from core.nouns.ids import RegionName
from core.nouns.instant import Instant, Nanoseconds, after
from core.nouns.limits import COMMAND_SAY_AGAIN
from core.nouns.maintenance import MaintenancePhase
from core.rules.scopes import lifts_itself


def next_phase(
    region: RegionName, name: str, planned: MaintenanceRow, keepers: Instant, now: Instant
) -> tuple[list[Message], Instant]:
    """Return the message by which a maintenance enters its next phase, if it is time; and when to look again.

    keepers   estimated time on the keeper's clock
    """
    phase, at = {
        MaintenancePhase.PLANNED: (MaintenancePhase.NOTICED, planned.starts_at - planned.lead),
        MaintenancePhase.NOTICED: (MaintenancePhase.OPEN, planned.starts_at),
        MaintenancePhase.OPEN: (MaintenancePhase.OVER, planned.starts_at + planned.lasts),
    }[planned.phase]
    if at > keepers:
        return [], after(now, Nanoseconds(at - keepers))
    return [MoveMaintenance(region, name, phase)], after(now, COMMAND_SAY_AGAIN)


def lift(
    region: RegionName, image: RegionImage, drain: str, keepers: Instant, now: Instant
) -> tuple[list[Message], Instant | None]:
    """Return the message that lifts a drain which ends by itself, if nodes are vacant or the time is over; and when to look again.

    Facts about tasks that leave the nodes make the drain due earlier.
    """
    closure = image.capacity.closures.get(drain)
    if closure is None or not closure.lasts:
        return [], None
    if lifts_itself(image, drain, keepers):
        return [LiftDrain(region, drain)], after(now, COMMAND_SAY_AGAIN)
    return [], after(now, Nanoseconds(closure.at + closure.lasts - keepers))

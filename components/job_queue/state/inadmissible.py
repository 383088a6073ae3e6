"""Of whom nobody can be asked for as things stand: bands and shapes that need not be looked at again before something changes.

A memo of the auctioneer's: of a long queue most is refused everywhere, and looking through all of it each time an auction closes would
cost more than the auctions. What it remembers is forgotten by whatever could change it:

a refusal passes                     what is of that shape, and what was refused for it
somebody comes, goes or stands       what is of the bands and shapes that the tenant's work has there
otherwise in a tenant's line
tenants hold more, or less           what is over quota
anything else                        everything
"""

from collections.abc import Iterable, Iterator

from components.job_queue.state.refusal_dominance import width_of
from core.ranking.scan import Group, QuotaClass


class Unaskable:
    """Bands and shapes, as last looked at."""

    def __init__(self) -> None:
        self._shapes: dict[Group, str | None] = {}
        self._groups: dict[str, dict[Group, None]] = {}
        """By the shape for which regions would be asked."""
        self._families: dict[str, dict[str, int]] = {}
        """Of these the shapes of one job, each with how many tasks it has."""

    def __iter__(self) -> Iterator[Group]:
        return iter(self._shapes)

    def put(self, group: Group, shape: str | None) -> None:
        """Nobody of these can be asked for.

        shape   for which regions would be asked; None: whatever regions say
        """
        self.drop(group)
        self._shapes[group] = shape
        if shape is None:
            return
        self._groups.setdefault(shape, {})[group] = None
        width = width_of(shape)
        if width is not None:
            self._families.setdefault(width.family, {})[shape] = width.tasks

    def drop(self, group: Group) -> None:
        """Look at these again."""
        shape = self._shapes.pop(group, None)
        if shape is None:
            return
        groups = self._groups[shape]
        del groups[group]
        if groups:
            return
        del self._groups[shape]
        width = width_of(shape)
        if width is not None:
            del self._families[width.family][shape]
            if not self._families[width.family]:
                del self._families[width.family]

    def drop_all(self, groups: Iterable[Group]) -> None:
        """Look at all of these again."""
        for group in groups:
            self.drop(group)

    def drop_over(self) -> None:
        """Who may be lent something is another question now."""
        self.drop_all([group for group in self._shapes if group[0][1] is QuotaClass.BORROWING])

    def drop_shape(self, shape: str) -> None:
        """Whoever is of this shape may be asked for now."""
        self.drop_all(tuple(self._groups.get(shape, ())))

    def drop_wider(self, shape: str, below: int) -> None:
        """A region refuses this shape no more, nor for it those that want more of the same, up to so many tasks."""
        width = width_of(shape)
        family = self._families.get(width.family, {}) if width is not None else {}
        wider = [one for one, tasks in family.items() if width is not None and width.tasks <= tasks < below]
        for one in wider:
            self.drop_shape(one)

    def clear(self) -> None:
        """Look at everything again."""
        self._shapes.clear()
        self._groups.clear()
        self._families.clear()

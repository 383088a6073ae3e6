"""Operators say of a dataset that it is in other regions, or nowhere, and after a while that it is everywhere."""

from typing import ClassVar

from core.nouns.ids import DatasetName
from scenarios.fault import Fault, Stage
from scenarios.play.operators import Operators
from scenarios.schema.parts import Range


class DatasetSet(Fault, frozen=True):
    """Whoever waits for it waits until it is where its hardware is; what runs stays where it is."""

    is_misfortune: ClassVar[bool] = False
    dataset: str = ""
    """One of those of which somebody said something, drawn, if this is not said."""
    for_seconds: Range = (5.0, 60.0)
    """Until it is everywhere."""

    async def strike(self, stage: Stage) -> None:
        """In some regions that are drawn, or in none; then in all."""
        operators = Operators(stage.users)
        names = [DatasetName(self.dataset)] if self.dataset else await operators.datasets()
        stage.has_struck = bool(names)
        if not names:
            return
        name = names[stage.dice.randrange(len(names))]
        everywhere = tuple(stage.world.plan.region_names())
        some = tuple(region for region in everywhere if stage.dice.random() < 0.5)
        home = some[stage.dice.randrange(len(some))] if some else None
        try:
            stage.problems += await operators.place_dataset(name, some, home)
            await stage.wait(self.for_seconds)
        finally:
            await stage.undo(lambda: operators.place_dataset(name, everywhere, home))

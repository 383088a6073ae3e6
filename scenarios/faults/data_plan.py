"""A plan for data is recorded, as the planner sends one, but drawn: homes move, copies are added, copies are dropped."""

import random
from collections.abc import Sequence
from typing import ClassVar

from core.messages.data import DatasetsListed, ListDatasets, ListedDataset
from core.nouns.data import ActionKind, PlannedAction
from core.nouns.ids import RegionName
from runtime.wiring import Unit
from scenarios.fault import Fault, Stage
from scenarios.faults.data_link import no_service, served_regions
from scenarios.play.data_settings import plan_data
from scenarios.schema.fleet import FleetSpec
from scenarios.schema.parts import FieldError, Share

KINDS = (ActionKind.MOVE, ActionKind.MOVE, ActionKind.COPY, ActionKind.DROP)
"""Among which an action is drawn: most bugs of copies are bugs of moves."""
NO_REGION = RegionName("")


class DataPlan(Fault, frozen=True):
    """One action for each of a share of the datasets that have a home; the queue carries out those that are possible."""

    is_misfortune: ClassVar[bool] = False
    share: Share = 0.7

    async def strike(self, stage: Stage) -> None:
        """Replace the plan before."""
        listed = await stage.users.insist(ListDatasets())
        assert isinstance(listed, DatasetsListed), listed
        regions = served_regions(stage)
        actions = tuple(
            drawn_action(row, row.home, regions, stage.dice)
            for row in listed.rows
            if row.home is not None and stage.dice.random() < self.share
        )
        stage.has_struck = bool(actions)
        if actions:
            stage.problems += await plan_data(stage.users, actions)

    def problem(
        self, fleet: FleetSpec, units: Sequence[Unit], path: tuple[str | int, ...]
    ) -> FieldError | None:
        """That fewer than two regions have a data service."""
        return no_service(units, path)


def drawn_action(
    row: ListedDataset, home: RegionName, regions: Sequence[RegionName], dice: random.Random
) -> PlannedAction:
    """Return an action for a dataset with a home; a region that is drawn may have the dataset already, or may not."""
    kind = dice.choice(KINDS)
    if kind is ActionKind.DROP:
        source, target, size = dice.choice(row.regions), NO_REGION, 0
    else:
        target = dice.choice([region for region in regions if region != home])
        source, size = home, 0 if target in row.regions else row.size
    return PlannedAction(
        kind, row.dataset, source, target, size, level=dice.randint(0, 6), revision=row.revision
    )

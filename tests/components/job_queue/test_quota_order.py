"""What is kept of a tenant's standing awards, against the rule worked out over all of them."""

import random

from components.job_queue.state.quota_ledger import QuotaLedger
from core.images.queue import WorkloadRow
from core.images.tenants import TenantRow, Tenants
from core.nouns.ids import TenantName, WorkloadId
from core.nouns.quantities import MILLI
from core.nouns.tenant import OVER_LEVEL, Entitlement
from core.rules.quota import Amounts, Running
from tests.builders import a_spec

ML = TenantName("ml")
KINDS = ("A100", "H100", "L4")
"""The last is not under quota."""
STEPS = 150


class Life:
    """Of one tenant's awards."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        entitlements = {kind: Entitlement(self.dice.choice((8, 24, 60))) for kind in KINDS[:2]}
        self.tenants = Tenants(rows={ML: TenantRow(entitlements=entitlements)})
        self.ledger = QuotaLedger()
        self.ledger.set_quota(self.tenants)
        self.levels = self.dice.choice((1, 2, 4))
        self.number = self.displacing = self.risen = 0

    def award(self) -> None:
        """One that has room at its level; whoever must stand otherwise beside it does from then on."""
        self.number += 1
        level, amounts = self.dice.randrange(self.levels), self.amounts()
        workload, room = WorkloadId(f"w-{self.number}"), self.ledger.headroom(ML, level, self.tenants)
        is_within = all(count <= room[kind] for kind, count in amounts.items() if kind in room)
        if is_within:
            also = Running(workload, self.number, level, level, amounts)
            expected = self.ledger.standings(ML, self.tenants, is_spent=False, also=also)
            found = self.ledger.displaced(ML, self.tenants, amounts)
            assert expected == found
            self.displacing += bool(expected)
            self.risen += any(one != OVER_LEVEL for one in expected.values())
            self.stand(expected)
        self.put(workload, level, level if is_within else OVER_LEVEL, amounts)
        assert {} == self.ledger.standings(ML, self.tenants, is_spent=False)

    def end(self) -> None:
        """One of them; what comes free is somebody else's."""
        self.ledger.drop(self.dice.choice(list(self.ledger.awards)))

    def prioritise(self) -> None:
        """One of them, within quota or over it, asks for another level."""
        workload = self.dice.choice(list(self.ledger.awards))
        one, asked = self.ledger.awards[workload], self.dice.randrange(self.levels)
        level = OVER_LEVEL if one.level == OVER_LEVEL else asked
        self.put(workload, asked, level, one.amounts, one.number)

    def settle(self) -> None:
        """Until nobody must stand otherwise; what is asked first says whether anybody must."""
        while changed := self.ledger.standings(ML, self.tenants, is_spent=False):
            assert self.ledger.may_stand_otherwise(ML, self.tenants) or self.is_out_of_order()
            self.stand(changed)
        assert not self.ledger.may_stand_otherwise(ML, self.tenants)

    def is_out_of_order(self) -> bool:
        """Whether somebody over quota asks for more than somebody within it: only a new priority does that, and then all are asked."""
        over = [one.asked for one in self.ledger.awards.values() if one.level == OVER_LEVEL]
        within = [one.asked for one in self.ledger.awards.values() if one.level != OVER_LEVEL]
        return bool(over and within) and max(over) > min(within)

    def stand(self, levels: dict[WorkloadId, int]) -> None:
        """As they are told to."""
        for workload, level in levels.items():
            one = self.ledger.awards[workload]
            self.put(workload, one.asked, level, one.amounts, one.number)

    def put(self, workload: WorkloadId, asked: int, level: int, amounts: Amounts, number: int = 0) -> None:
        """As the queue does when it folds."""
        row = WorkloadRow(1, a_spec(tenant=ML), "ada", "", 0)
        row.level, row.award_sequence = level, number or self.number
        self.ledger.put(workload, row, asked, amounts)

    def amounts(self) -> dict[str, int]:
        """Of none, one or several types."""
        kinds = self.dice.sample(KINDS, self.dice.choice((0, 1, 1, 1, 2, 3)))
        return {kind: self.dice.choice((1, 2, 4, 4, 8, 16)) * MILLI for kind in kinds}


def test_displaced_awards_follow_the_rule() -> None:
    """M8, M19: beside each award within quota, and every award that may move up when something ends or asks for another level."""
    lives = [Life(seed) for seed in range(8)]
    for life in lives:
        for _ in range(STEPS):
            life.award()
            if life.dice.random() < 0.4:
                life.end()
                life.settle()
            if life.ledger.awards and life.dice.random() < 0.1:
                life.prioritise()
                life.settle()
    assert any(life.displacing for life in lives)
    assert any(life.risen for life in lives), "what one leaves is enough for a smaller one below it"

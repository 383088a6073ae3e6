"""A controller that also bounds what the loss of a power domain would do."""

import random

import numpy as np
import pytest

from mizzen.control.failure_aware import FailureAware, Risks
from mizzen.control.harness import ControllerHarness
from mizzen.control.shards import Shards
from tests.mizzen.releasing import Misfortune


def layout(seed: int) -> Shards:
    """Twelve tasks in three zones, behind six switchboards, and up to twenty shards in places of each zone."""
    dice = random.Random(seed)
    table = [[zone * 4 + dice.randrange(4) for zone in range(3)] for _ in range(dice.randrange(4, 20))]
    return Shards(
        table,
        zones={task: task // 4 for task in range(12)},
        domains={task: f"power-{task // 2}" for task in range(12)},
    )


def worst(shards: Shards, down: set[int]) -> int:
    """Shards with two replicas down when the worst switchboard is lost: counted one by one."""
    return max(
        int((shards.lost(shards.flags(down | {2 * domain, 2 * domain + 1})) >= 2).sum())
        for domain in range(6)
    )


def test_damage_of_a_loss_is_counted_right() -> None:
    """The fast count is the slow one, whichever tasks are down."""
    for seed in range(50):
        shards = layout(seed)
        down = set(random.Random(seed).sample(range(12), 4))
        assert worst(shards, down) == int(Risks(shards).at_loss(shards.flags(down)).max())


def test_misfortune_never_makes_it_break_its_bound() -> None:
    """T21: whoever is let go, the worst loss leaves no more shards with two replicas down than was allowed."""
    stopped = 0
    for seed in range(80):
        shards, bound = layout(seed), 1 + seed % 6

        def judge(
            gone: set[int], beside: set[int], shards: Shards = shards, bound: int = bound, seed: int = seed
        ) -> None:
            if any(shards.holds(task) for task in gone):
                assert worst(shards, gone | beside) <= bound, f"seed {seed}"

        run = Misfortune(
            lambda shards=shards, bound=bound: FailureAware(shards, two_down_max=bound).decide,  # type: ignore[misc]
            12,
            judge,
            seed,
        )
        try:
            run.play()
        except AssertionError as error:
            # A task that alone breaks a low bound is never let go: that is what was asked for.
            if "still waiting" not in str(error):
                raise
            alone = [task for task in run.waiting() if worst(shards, {task}) <= bound]
            assert [] == alone, f"seed {seed}"
        stopped += run.stopped
    assert stopped > 500, "it does let tasks go"


def test_more_risk_is_more_speed() -> None:
    """The higher the bound, the more go at once, up to a whole zone; each batch keeps its bound."""
    dice = np.random.default_rng(2)
    table = [[zone * 30 + int(dice.integers(30)) for zone in range(3)] for _ in range(600)]
    shards = Shards(
        table,
        zones={task: task // 30 for task in range(90)},
        domains={task: task // 6 for task in range(90)},
    )
    everybody, nobody = np.ones(90, dtype=np.bool_), np.zeros(90, dtype=np.bool_)
    sizes = []
    for bound in (10, 20, 40, 80, 600):
        fit = FailureAware(shards, two_down_max=bound).fit(everybody, nobody)
        assert Risks(shards).at_loss(fit).max() <= bound
        sizes.append(int(fit.sum()))
    assert sorted(sizes) == sizes
    assert sizes[0] < sizes[-1] // 5
    assert 30 == sizes[-1]


def test_nothing_optional_goes_while_failures_alone_exceed_the_bound() -> None:
    """A switchboard is out already: what would take a healthy task down waits until its tasks are back."""
    shards = layout(1)
    controller = FailureAware(shards, two_down_max=1)
    lost = shards.flags([0, 1, 2, 3])
    assert Risks(shards).at_loss(lost).max() > 1
    everybody = np.ones(len(shards.tasks), dtype=np.bool_)
    assert not controller.admit(everybody & ~lost, lost).any()


def test_without_power_domains_the_loss_is_unknown() -> None:
    """The controller raises an error, rather than to promise what it cannot know."""
    with pytest.raises(ValueError, match="power domain"):
        FailureAware(Shards([[0, 1, 2]]), two_down_max=5)


async def test_with_the_rules_of_a_region() -> None:
    """T21: all are updated, and a loss at any moment of it would have kept the bound."""
    shards = layout(3)
    bound = 2 + max(worst(shards, {task}) for task in range(12))
    harness = ControllerHarness(
        FailureAware(shards, two_down_max=bound), tasks=12, unavailable_max=12, takes_seconds=60
    )
    await harness.change()
    await harness.until(lambda: not harness.operations)
    assert all(harness.run_of(task) == 1 for task in range(12))
    assert all(worst(shards, set(moment.unavailable)) <= bound for moment in harness.timeline)

"""Gandiva: random pairs, kept where they are worth it, and equal time."""

import random
from collections import Counter

import numpy as np
import pytest
from msgspec.structs import replace

from core.sharing.policies.gandiva import ALONE, teams_of
from core.sharing.problem import PairSpeeds, SharingProblem
from runtime.solvers.reference.gandiva import Team, gandiva, together
from runtime.solvers.sharing import solve_shares
from tests.core.sharing.instances import BATCHES, assert_possible, drawn, job_speeds, of_speeds


def as_teams(problem: SharingProblem) -> list[Team]:
    """The classes of each team that was drawn."""
    return [(first,) if pair == ALONE else (first, second) for pair, first, second in teams_of(problem)]


@pytest.mark.parametrize("seeds", BATCHES)
def test_speeds_are_those_of_the_reference(seeds: range) -> None:
    """G11, G12: every job is in one team, two in a team are as wide and worth it somewhere, and all teams have equal time."""
    is_paired = 0
    for seed in seeds:
        problem = drawn(seed, jobs=12, has_pairs=True)
        teams = as_teams(problem)
        assert [one.count for one in problem.classes] == [
            count for _, count in sorted(Counter(job for team in teams for job in team).items())
        ]
        for team in teams:
            assert len({problem.classes[job].gpus for job in team}) == 1
            if len(team) > 1:
                is_paired += 1
                assert any(together(problem, team, column) for column in range(len(problem.columns)))
        shares = solve_shares("gandiva", problem)
        assert_possible(problem, shares)
        assert gandiva(problem, teams) == pytest.approx(job_speeds(problem, shares), rel=1e-4)
    assert is_paired > len(seeds)


def paired(keeps: float, gpus: int = 1) -> SharingProblem:
    """Four like jobs on one V100 and one K80, each of which keeps so much of its speed beside another."""
    alone = np.array([[40.0, 10.0]])
    problem = of_speeds(alone.tolist(), [gpus, gpus], count=[4])
    return replace(problem, pairs=(PairSpeeds(0, 0, np.repeat(alone * keeps, 2, axis=0)),))


def test_pairs_are_kept_while_worth_it() -> None:
    """Pairs with .5 of the speed each are kept; with .4 each runs alone; and so does each where there are GPUs for all."""
    shares = solve_shares("gandiva", paired(0.5))
    assert ([[0, 0]], [[1_000_000, 1_000_000]]) == (shares.alone.tolist(), shares.together.tolist())
    shares = solve_shares("gandiva", paired(0.4))
    assert ([[250_000, 250_000]], [[0, 0]]) == (shares.alone.tolist(), shares.together.tolist())
    shares = solve_shares("gandiva", paired(0.5, gpus=2))
    assert ([[500_000, 500_000]], [[0, 0]]) == (shares.alone.tolist(), shares.together.tolist())


def test_jobs_of_a_width_are_drawn_beside_each_other() -> None:
    """G11: of two jobs of each of 40 widths every one has its partner, though in a draw of all 80 two of a width are seldom neighbours."""
    widths = [width for width in range(1, 41) for _ in range(2)]
    problem = of_speeds([[1.0]] * len(widths), [40], gpus=widths)
    pairs = tuple(PairSpeeds(first, first + 1, np.full((2, 1), 0.5)) for first in range(0, len(widths), 2))
    teams = as_teams(replace(problem, pairs=pairs))
    assert [(first, first + 1) for first in range(0, len(widths), 2)] == sorted(
        tuple(sorted(team)) for team in teams
    )


def test_two_take_turns_where_they_cannot_share() -> None:
    """G13: on the K80, where the pair has no speed, each of the two has half of the pair's time alone."""
    problem = paired(0.5)
    problem.pairs[0].speeds[:, 1] = 0.0
    shares = solve_shares("gandiva", problem)
    assert ([[0, 250_000]], [[1_000_000, 0]]) == (shares.alone.tolist(), shares.together.tolist())


def test_draw_depends_on_names_alone() -> None:
    """The same jobs are drawn alike, in whatever order they are named; other names are drawn otherwise."""
    dice = random.Random(1)
    order = list(range(12))
    dice.shuffle(order)
    names = [f"j{index}" for index in range(12)]

    def drawn_pairs(names: list[str], order: list[int]) -> list[list[str]]:
        problem = of_speeds([[1.0]] * 12, [2])
        classes = tuple(replace(problem.classes[0], name=names[index]) for index in order)
        pairs = tuple(
            PairSpeeds(first, second, np.ones((2, 1))) for second in range(12) for first in range(second)
        )
        teams = as_teams(replace(problem, classes=classes, pairs=pairs))
        return sorted(sorted(classes[job].name for job in team) for team in teams)

    plain = drawn_pairs(names, list(range(12)))
    assert [2] * 6 == [len(team) for team in plain]
    assert plain == drawn_pairs(names, order)
    others = drawn_pairs([name.replace("j", "k") for name in names], order)
    assert [[name.replace("j", "k") for name in team] for team in plain] != others

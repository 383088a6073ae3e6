"""What agents chose is chosen once more from the logs of whole runs."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from core.placing.diagnosis.replay_choice import Outcome
from scenarios.scenario import ScenarioSpec, load_scenario, parse_scenario
from tests.scenarios.retraced import Tally, logs_of, retrace

TEXT = """
name: NAME
survives: Many agents of one region bid at once for more than there is room for, and some of them die.
fleet: {regions: 2, nodes: 24, workers: 4, nodes_per_rack: 4, agents: 6}
workload:
  - steady: {workloads: MOST, hours: HOURS, compression: 10, minutes_median: 10, minutes_max: 60, gpus_max: 64, priority: 2}
  - steady: {workloads: SMALL, hours: HOURS, compression: 10, minutes_median: 5, minutes_max: 30, gpus_max: 2, priority: 2, alone_share: 0.5}
faults:
  - message_loss: {share: 0.05}
  - message_reorder: {share: 0.2}
  - crash_each: {times: 6, down_seconds: [0.1, 10]}
  - node_crash: {times: 6, down_seconds: [1, 60]}
  - submission_storm: {after_seconds: WHEN, workloads: URGENT, seconds: 3, priority: 6, minutes_median: 0.5, minutes_max: 2, gpus_max: 16}
calm: {minutes: 300}
"""


def crowd(name: str, **counts: str) -> ScenarioSpec:
    """So much of it."""
    text = TEXT.replace("NAME", name)
    for word, count in counts.items():
        text = text.replace(word, count)
    return parse_scenario(text, f"{name}.yaml")


CROWDED = crowd("crowded", MOST="120", SMALL="60", HOURS="0.5", WHEN="[150, 200]", URGENT="40")
BY_ROWS = parse_scenario(
    TEXT.replace("NAME", "by_rows")
    .replace("agents: 6}", "agents: 6, agent_settings: {view: parsync, sync_seconds: 2}}")
    .replace("MOST", "70")
    .replace("SMALL", "40")
    .replace("HOURS", "0.3")
    .replace("WHEN", "[80, 105]")
    .replace("URGENT", "25"),
    "by_rows.yaml",
)
"""The same where most agents take in rows alone."""
LESS_CROWDED = crowd("less_crowded", MOST="70", SMALL="40", HOURS="0.3", WHEN="[80, 105]", URGENT="25")
CROWDS = {one.name: one for one in (CROWDED, LESS_CROWDED, BY_ROWS)}
RUNS = [(LESS_CROWDED.name, 9), (BY_ROWS.name, 1), ("pair_ends_early", 1), ("upgrade_old_log", 1)]
"""The last begins with what an earlier build left behind."""
MORE_RUNS = [
    *((name, 1) for name in ("thundering_herd", "everything_at_once", "preemption_storm")),
    *((CROWDED.name, seed) for seed in range(1, 13)),
    ("prices_follow_demand", 1),
    (BY_ROWS.name, 2),
    ("agents_come_and_go", 1),
    ("view_switched_under_load", 1),
    ("upgrade_old_log", 2),
]


def tally_of(name: str, seed: int) -> tuple[Tally, Tally, Tally, Tally]:
    """As the views say, without the rows that they name, without the owners, and without whom they spare. For a pool of processes."""
    logs = logs_of(CROWDS.get(name) or load_scenario(name), seed)
    whole, without_rows, without_owners, without_spared = Tally(), Tally(), Tally(), Tally()
    for log, facts in logs.items():
        retrace(log, facts, whole)
        retrace(log, facts, without_rows, forgets=("learnt",))
        retrace(log, facts, without_owners, forgets=("owners",))
        retrace(log, facts, without_spared, forgets=("spared",))
    return whole, without_rows, without_owners, without_spared


@pytest.mark.parametrize("runs", [RUNS, pytest.param(MORE_RUNS, marks=pytest.mark.slow)])
def test_every_claim_of_a_run_is_chosen_again_as_it_was(runs: list[tuple[str, int]]) -> None:
    """P27: of each placement of each run, replay at its sequence chooses the same nodes.

    Among them are claims of guests beside their hosts, made after conflicts, over victims, on rows that only the agent knew, beside tenants that share
    nodes with nobody, and of one agent's bid by another. Without the rows that the views name, without the owners, or
    without whom they spare, some would come out otherwise.
    """
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        tallies = list(pool.map(tally_of, *zip(*runs, strict=True)))
    wholes = [whole for whole, *_ in tallies]
    assert [] == [problem for whole in wholes[:-1] for problem in whole.problems]
    *new, old = (set(whole.outcomes) for whole in wholes)
    assert [{Outcome.EQUAL}] * len(new) == new
    assert {Outcome.EQUAL, Outcome.UNKNOWN} == old
    for what in ("with_learnt", "with_owners", "with_victims", "tried_again", "in_partitions"):
        assert sum(getattr(whole, what) for whole in wholes) >= 10, what
    assert sum(whole.by_another for whole in wholes) >= 1
    assert sum(whole.by_rows_everywhere for whole in wholes) >= 1
    assert max(len(whole.agents) for whole in wholes) == 12
    assert len({unit for whole in wholes for unit in whole.units}) >= 3
    for least, blinds in ((10, 1), (1, 2), (1, 3)):
        assert sum(len(tally[blinds].problems) for tally in tallies) >= least, blinds

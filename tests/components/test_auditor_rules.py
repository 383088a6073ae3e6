"""Every rule of core/invariants/ reaches the auditor: each has a broken history here, and is found by that rule alone.

A rule that is deleted, or that the auditor no longer calls, makes its history pass; a rule without a history is named.
"""

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

import core.invariants
from components.auditor.component import Auditor, AuditorState
from core.component import Images
from core.events.control import MaintenancePlanned, OperationsBegun, OperationsRequested
from core.events.harvest import HarvestOffered
from core.events.moves import MovePlanned
from core.events.pipelines import PipelineSubmitted, SubmittedStage
from core.events.pools import NodesPooled, PoolChanged
from core.events.queue import (
    AttemptClosed,
    RegionAdded,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadsForgotten,
)
from core.events.region import AttemptsForgotten, ClaimPromised, GangStarted, PreemptionSet, StopOrdered
from core.events.sharing import RoundBegun
from core.events.starts import StartReserved
from core.events.tenants import EntitlementSet, TenantSet
from core.fact import NO_LOG, Event, Fact
from core.images import empty_image
from core.messages.base import Envelope, Woken
from core.nouns.harvest import HarvestPart
from core.nouns.ids import GLOBAL_LOG, DatasetName, LogName, PipelineId, TenantName, WorkerName, WorkloadId
from core.nouns.instant import Instant, seconds
from core.nouns.maintenance import MaintenanceKind, Scope, ScopeKind
from core.nouns.moving import MoveCost
from core.nouns.operation import BegunBy, ControlSpec, OperationKind
from core.nouns.preemption import PreemptionSettings
from core.nouns.sharing import WHOLE, ShareColumn, ShareSpec
from core.nouns.tenant import Entitlement
from core.nouns.workload import Consent, EndCause, Kind, Phase
from tests.builders import (
    EU,
    EU_LOG,
    START,
    US,
    US_LOG,
    a_claim,
    a_fact,
    a_job,
    a_spec,
    a_spread,
    attempt,
    granted,
    joined,
    opened,
    submitted,
)
from tests.components.support.harvest import ON, gpus
from tests.components.support.shared_pool import pool_nodes

Step = tuple[LogName, Event] | Callable[[AuditorState], None]
"""The next fact of a log, or something that is changed in the auditor's images behind its back."""

W1, W2, ML = WorkloadId("w-1"), WorkloadId("w-2"), TenantName("ml")
CHAIN = PipelineSubmitted(
    PipelineId("p-1"), 1, "nightly", ML, (SubmittedStage("a", W1), SubmittedStage("b", W2, (0,))), "ada"
)
BEFORE: tuple[Step, ...] = (
    *((GLOBAL_LOG, event) for event in (RegionAdded(EU), RegionAdded(US), submitted(1))),
    (EU_LOG, opened()),
    (EU_LOG, joined()),
    (US_LOG, joined()),
)
AWARDED: Step = (GLOBAL_LOG, WorkloadAwarded(W1, 1, EU, 0, ()))
"""Fact 4 of the queue's log."""
CLAIM = a_claim("w-1", award_sequence=4)
GRANTED: tuple[Step, ...] = (AWARDED, (EU_LOG, granted(CLAIM)))
SERVICE = replace(CLAIM, kind=Kind.SERVICE, control=ControlSpec("shards"))
SHARED = replace(a_spec(kind=Kind.SHARED), share=ShareSpec("m"))
COLUMN = ShareColumn(EU, "H100")
POOL: Step = (EU_LOG, pool_nodes(1, 1, "H100", first=8))
POOLED = a_claim("w-1", placed={8: 1}, award_sequence=4, kind=Kind.SHARED)
PARTS = a_claim("w-1", jobs=(a_job(1, 0.6),), spreads=(a_spread({0: 1}),), award_sequence=4)


PLANNED = MaintenancePlanned(
    "m-1", MaintenanceKind.REBOOT, Scope(ScopeKind.NODE, ("0",)), ((0, 0),), -1, seconds(1), 0
)


def a_start(workload: str) -> StartReserved:
    """Of one task on node 9, which is not there."""
    job, spread = a_job(1, 8), a_spread({9: 1})
    return StartReserved(WorkloadId(workload), 1, seconds(9), 3, Kind.TRAINING, ML, (job,), (spread,), 3)


def held_more(state: AuditorState) -> None:
    """A GPU is held on node 3 for no attempt."""
    gpu = state.regions[EU].capacity.gpu
    gpu.held[3] += 1000
    gpu.free[3] -= 1000


def overcommitted(state: AuditorState) -> None:
    """More of a shared device is held than there is."""
    state.regions[EU].capacity.devices.by_node[0].used = {0: 1200}


def torn(state: AuditorState) -> None:
    """A host does not know its guest."""
    host = state.regions[EU].capacity.holding(W1, 1)
    assert host is not None
    host.guest = None


def closed_once_more(state: AuditorState) -> None:
    """A node is closed by nothing."""
    state.regions[EU].capacity.closed[3] = 1


def unknown_tasks(state: AuditorState) -> None:
    """The tasks of all attempts are forgotten."""
    state.regions[EU].control.specs.clear()


def owed_by_nobody(state: AuditorState) -> None:
    """A class has a target that no shares gave it."""
    assert state.queue is not None
    state.queue.sharing.targets["a class that is gone"] = {"eu/H100": WHOLE}


def received_for_nothing(state: AuditorState) -> None:
    """The lag of a job is to fall at the next round, though the job ran nowhere."""
    assert state.queue is not None
    sharing = state.queue.sharing
    sharing.picks[W2].counted_at, sharing.lags[W2] = 1, {"eu/H100": 5 * WHOLE}


def runs_nowhere(state: AuditorState) -> None:
    """A workload runs that was never awarded."""
    assert state.queue is not None
    state.queue.workloads.rows[W1].phase = Phase.RUNNING


def in_two_pools(state: AuditorState) -> None:
    """A worker's inventory names a node twice."""
    row = state.regions[EU].capacity.workers[WorkerName("w0")]
    (group,) = row.inventory.groups
    row.inventory = replace(row.inventory, groups=(group, replace(group, count=1, pool="free")))


BROKEN: dict[str, tuple[int, str, tuple[Step, ...]]] = {
    "check_abandoned": (
        3,
        "nobody agreed to that",
        (
            AWARDED,
            (
                GLOBAL_LOG,
                AttemptClosed(W1, 1, EndCause.ABANDONED, Phase.PENDING, EU, 2, 0, 0, Consent.OPERATOR),
            ),
        ),
    ),
    "check_border": (
        2,
        "w-1.1: shared work is placed on nodes of the pool training",
        (AWARDED, (EU_LOG, granted(replace(CLAIM, kind=Kind.SHARED)))),
    ),
    "check_closures": (6, "node 3: closed 1 times, by 0", (closed_once_more,)),
    "check_control": (6, "w-1.1: holds room, and nothing is known of its tasks", (*GRANTED, unknown_tasks)),
    "check_control_fact": (
        6,
        "w-1.1: operation 1 begins without its ack",
        (
            AWARDED,
            (EU_LOG, granted(SERVICE)),
            (EU_LOG, GangStarted(*attempt())),
            (
                EU_LOG,
                OperationsRequested(
                    *attempt(), 1, OperationKind.RESTART, (0,), "because", requester="user:ada"
                ),
            ),
            (EU_LOG, OperationsBegun(*attempt(), (1,), BegunBy.ACK, "user:ada")),
        ),
    ),
    "check_data": (
        2,
        "w-2 reads clicks, and is awarded to eu, where that is not",
        (
            (GLOBAL_LOG, submitted(2, a_spec(data=[DatasetName("clicks")]))),
            (GLOBAL_LOG, WorkloadAwarded(W2, 1, EU, 0, ())),
        ),
    ),
    "check_devices": (
        1,
        "milli are held on its shared devices",
        (AWARDED, (EU_LOG, granted(PARTS)), overcommitted, (EU_LOG, GangStarted(*attempt()))),
    ),
    "check_forgotten_attempts": (
        3,
        "w-1.1: forgotten, and it is granted",
        (*GRANTED, (EU_LOG, AttemptsForgotten((attempt(),), 4))),
    ),
    "check_forgotten_workloads": (
        3,
        "w-1: forgotten, and it is PENDING",
        ((GLOBAL_LOG, WorkloadsForgotten((W1,))),),
    ),
    "check_global_fact": (
        3,
        "w-1: WorkloadBound of epoch 9, standing is 1",
        (AWARDED, (GLOBAL_LOG, WorkloadBound(W1, 9, EU, 1))),
    ),
    "check_grant": (
        1,
        "w-2.1: granted without room on node 0",
        (
            *GRANTED,
            (GLOBAL_LOG, submitted(2)),
            (GLOBAL_LOG, WorkloadAwarded(W2, 1, EU, 0, ())),
            (EU_LOG, granted(a_claim("w-2", placed={0: 8}, award_sequence=6))),
        ),
    ),
    "check_harvest_fact": (
        1,
        "node 0: offered, and pool training is not harvested",
        ((EU_LOG, HarvestOffered(1, (HarvestPart(((0, 0),), gpus(8), pool="training"),), seconds(30))),),
    ),
    "check_harvested": (
        1,
        "of it is harvested, and",
        (
            *GRANTED,
            (EU_LOG, PoolChanged("training", ON)),
            (EU_LOG, HarvestOffered(1, (HarvestPart(((0, 0),), gpus(8), pool="training"),), seconds(30))),
        ),
    ),
    "check_ledger": (1, "node 3: gpu held or ending is not what attempts hold there", (held_more,)),
    "check_move": (
        3,
        "w-1: a move of attempt 2 is planned, and it is AWARDED, attempt 1",
        (AWARDED, (GLOBAL_LOG, MovePlanned(W1, 1, 2, US, MoveCost(seconds(1), seconds(1), 1)))),
    ),
    "check_node_fact": (6, "m-1: its window begins in the past", ((EU_LOG, PLANNED),)),
    "check_nodes_balance": (
        1,
        "node 0: gpu free -1000 + held 9000 + ending 0 is not 8000",
        (
            *GRANTED,
            (GLOBAL_LOG, submitted(2)),
            (GLOBAL_LOG, WorkloadAwarded(W2, 1, EU, 0, ())),
            (EU_LOG, granted(a_claim("w-2", placed={0: 8}, award_sequence=6))),
        ),
    ),
    "check_one_live": (
        3,
        "w-1: live attempts eu:1, us:2",
        (
            *GRANTED,
            (GLOBAL_LOG, WorkloadAwarded(W1, 2, US, 0, ())),
            (US_LOG, granted(a_claim("w-1", 2, award_sequence=5))),
        ),
    ),
    "check_pair_fact": (
        1,
        "w-1.1: granted beside w-2.1, which holds nothing",
        (POOL, AWARDED, (EU_LOG, granted(replace(POOLED, beside=attempt("w-2"))))),
    ),
    "check_pairs": (
        1,
        "w-2.1: lies beside w-1.1, which is not its host",
        (
            POOL,
            AWARDED,
            (EU_LOG, granted(POOLED)),
            (GLOBAL_LOG, submitted(2)),
            (GLOBAL_LOG, WorkloadAwarded(W2, 1, EU, 0, ())),
            (EU_LOG, granted(replace(POOLED, workload=W2, award_sequence=6, beside=attempt()))),
            torn,
        ),
    ),
    "check_preemption_fact": (
        5,
        "w-1.1: preempted for w-2, which has no promise over it",
        (*GRANTED, (EU_LOG, StopOrdered(*attempt(), EndCause.PREEMPTED, W2))),
    ),
    "check_quota": (
        4,
        "ml: 9 H100 held within quota, and 8 are its entitlement",
        (
            (GLOBAL_LOG, TenantSet(ML, 1)),
            (GLOBAL_LOG, EntitlementSet(ML, 2, "H100", Entitlement(8))),
            (GLOBAL_LOG, WorkloadAwarded(W1, 1, EU, 0, (), tenant=ML, level=3, charge={"H100": 9000})),
        ),
    ),
    "check_received": (
        4,
        "w-2: its lag fell by",
        (
            (GLOBAL_LOG, submitted(2, SHARED)),
            (GLOBAL_LOG, RoundBegun(1, (COLUMN,), {W2: 0}, (), seconds(60))),
            received_for_nothing,
            (GLOBAL_LOG, RoundBegun(2, (COLUMN,), {}, (), seconds(60))),
        ),
    ),
    "check_pool_fact": (
        1,
        "node 0 comes into pool free, and no plan says so",
        ((EU_LOG, NodesPooled(((0, 0),), "free")),),
    ),
    "check_pools": (1, "node 0 is in pool training and in pool free", (in_two_pools,)),
    "check_region_fact": (
        3,
        "w-1.1: granted in us without a standing award",
        (AWARDED, (US_LOG, granted(CLAIM))),
    ),
    "check_sharing": (
        4,
        "w-2: told to leave, and it has no pick",
        (
            (GLOBAL_LOG, submitted(2, SHARED)),
            (GLOBAL_LOG, RoundBegun(1, (COLUMN,), {}, (W2,), seconds(60))),
        ),
    ),
    "check_start_fact": (
        1,
        "w-1: a start is reserved on node 9, which is not there",
        ((EU_LOG, a_start("w-1")),),
    ),
    "check_stop": (
        6,
        "w-1.1: stopped by completed at nobody's charge",
        (*GRANTED, (EU_LOG, StopOrdered(*attempt(), EndCause.COMPLETED))),
    ),
    "check_stop_of_abandoned": (
        3,
        "w-1.1: stopped as given up, and its award stands",
        (*GRANTED, (EU_LOG, StopOrdered(*attempt(), EndCause.ABANDONED))),
    ),
    "check_targets": (
        4,
        "a class that is gone: a round begins with its target, and the newest shares give it none",
        (owed_by_nobody, (GLOBAL_LOG, RoundBegun(1, (COLUMN,), {}, (), seconds(60)))),
    ),
    "check_pipeline_fact": (
        3,
        "w-2: it is awarded before a has completed",
        (
            (GLOBAL_LOG, submitted(2)),
            (GLOBAL_LOG, CHAIN),
            (GLOBAL_LOG, WorkloadAwarded(W2, 1, EU, 0, ())),
        ),
    ),
    "check_workloads": (3, "w-1: RUNNING, and its award does not stand", (runs_nowhere,)),
}
"""By rule: its number in DESIGN §11, its words, and a history in which the rule is broken."""


def found(steps: tuple[Step, ...]) -> list[tuple[int, str]]:
    """What an auditor finds, at each fact and in the full check that follows the last."""
    auditor = Auditor((EU, US))
    empty = {follow.log: (empty_image(follow.log, follow.sections), 0) for follow in auditor.follows}
    state = auditor.initial(Images(START, None, empty))
    sequences = dict.fromkeys(empty, 0)
    for step in (*BEFORE, *steps):
        if isinstance(step, tuple):
            log, told = step
            sequences[log] += 1
            state = auditor.evolve(state, a_fact(told, sequences[log], log=log))
        else:
            step(state)
    assert 0 == state.waiting
    woken = Envelope(Woken(), "auditor", "", Instant(START + seconds(3600)))
    for event in auditor.decide(state, woken).events:
        state = auditor.evolve(state, Fact(NO_LOG, 0, woken.at, "", "auditor", event))
    return [(violation.rule, violation.text) for violation in state.violations]


def rules() -> dict[str, Any]:  # Any: each takes what it checks
    """Every rule: the public functions `check_...` of core/invariants/."""
    known: dict[str, Any] = {}
    for module in pkgutil.iter_modules(core.invariants.__path__, "core.invariants."):
        members = inspect.getmembers(importlib.import_module(module.name), inspect.isfunction)
        known |= {
            name: rule
            for name, rule in members
            if name.startswith("check_") and rule.__module__ == module.name
        }
    return known


def silence(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a rule find nothing, wherever the auditor and the other rules call it."""
    rule = rules()[name]
    for module_name, module in sorted(sys.modules.items()):
        is_ours = module_name.startswith(("core.invariants.", "components.auditor"))
        if is_ours and getattr(module, name, None) is rule:
            monkeypatch.setattr(module, name, lambda *_, **__: [])


def test_every_rule_has_a_broken_history() -> None:
    """A new rule without one could be deleted again, and no test would notice."""
    assert sorted(rules()) == sorted(BROKEN)


def test_nothing_is_found_before_anything_is_broken() -> None:
    """Else a history would show what others broke."""
    assert [] == found(())


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_broken_history_is_found_by_its_rule(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The auditor finds it, under the number of DESIGN §11, and finds it no more once the rule is gone."""
    number, words, steps = BROKEN[name]
    assert {number} == {rule for rule, text in found(steps) if words in text}
    silence(name, monkeypatch)
    assert [] == [text for _, text in found(steps) if words in text]


def test_caps_on_lost_work_are_checked_at_each_promise() -> None:
    """Of one claim, and of an hour; and no promise is without figures of what it destroys."""
    key = attempt()
    over = replace(a_claim("w-2", placed={0: 8}, award_sequence=6), victims=(key,), priority=5)
    before: tuple[Step, ...] = (
        *GRANTED,
        (EU_LOG, GangStarted(*key)),
        (GLOBAL_LOG, submitted(2)),
        (GLOBAL_LOG, WorkloadAwarded(W2, 1, EU, 0, ())),
    )
    for caps, destroyed, words in (
        (
            PreemptionSettings(claim_max=10, hour_max=20),
            (11,),
            "w-2.1: destroys 11 GPU-seconds, and 10 is the most",
        ),
        (
            PreemptionSettings(claim_max=20, hour_max=10),
            (11,),
            "w-2.1: 11 GPU-seconds are destroyed in an hour, and 10",
        ),
        (PreemptionSettings(), (), "w-2.1: 0 figures of 1 victims"),
    ):
        promise = ClaimPromised(W2, 1, over, destroyed, seconds(60))
        steps = (*before, (EU_LOG, PreemptionSet(1, caps)), (EU_LOG, promise))
        assert (5, words) in [(rule, text[: len(words)]) for rule, text in found(steps)]


# A fact that cannot be folded.


@pytest.mark.parametrize(
    ("log", "event"),
    [(EU_LOG, GangStarted(*attempt("w-9"))), (GLOBAL_LOG, WorkloadBound(WorkloadId("w-9"), 1, EU, 1))],
)
def test_fact_that_cannot_be_folded_is_told(log: LogName, event: Event) -> None:
    """The auditor lives on: its log is checked no longer, and another one that cites it goes on being checked."""
    stop: Step = (US_LOG, StopOrdered(*attempt("w-7"), EndCause.COMPLETED))
    told = found(((log, event), (log, event), (US_LOG, granted(a_claim("w-2", award_sequence=3))), stop))
    (impossible,) = [one for one in told if "cannot be folded (KeyError('w-9'" in one[1]]
    assert (7, "the log is not checked from here on") == (impossible[0], impossible[1].split("; ")[1])
    assert any("w-2.1" in text for _, text in told) is (log != GLOBAL_LOG)

"""What a run in real processes tells people."""

from msgspec.structs import replace

from scenarios.summary import Gang, Summary, lines_of

GANG = Gang(loss_first=4.2, loss_last=1.5, saved_step=400, resumed_step=400)
SUMMARY = Summary(
    scenario="first_light",
    seed=1,
    seconds=60.0,
    workloads_submitted=401,
    workloads_ended=401,
    workloads_lost=0,
    invariant_violations=0,
    conflict_share=0.0,
    kills=3,
    restarts=3,
    gang=GANG,
    facts=2000,
    digests={},
    violations=[],
    problems=[],
    skipped={},
    expectations=[],
    directory="runs/first_light",
)


def test_gang_that_was_drained() -> None:
    """T11, T21: how long its nodes waited for its controller's word, and for which checkpoint, has a line of its own."""
    told = dict(lines_of(replace(SUMMARY, gang=replace(GANG, drain_waited_seconds=0.8))))
    assert "loss 4.200 → 1.500, saved at step 400, resumed at step 400" == told["gang"]
    assert "its controller let it leave 0.8 s later, after the checkpoint of step 400" == told["drain"]


def test_run_without_a_drain() -> None:
    """Or without a gang: nothing is said of what was not."""
    assert "drain" not in dict(lines_of(SUMMARY))
    assert "none" == dict(lines_of(replace(SUMMARY, gang=None)))["gang"]

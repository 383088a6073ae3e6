"""`share` in a job file: work of a shared pool, and one sentence for each mistake."""

import pytest

from core.nouns.instant import SECOND, Nanoseconds
from core.nouns.sharing import ShareSpec
from core.nouns.workload import Kind
from mizzen.views.phrases.text import share_text
from tests.mizzen.test_job_file import problems, read

SHARED = """
name: bert-7
run: python3 train.py
resources: {gpus: [V100:2, K80:2]}
checkpoint: {grace: 30s}
"""


def test_share_is_read() -> None:
    """Speeds are millionths of a step a second and weights thousandths; the kind becomes `shared`, whichever of the two it is."""
    line = "share: {model: bert, speeds: {V100: 9.1, K80: 0.25}, steps: 90000, weight: 1.5, entity: nlp, slo: 2h}"
    spec = read(SHARED + line)
    speeds = {"V100": 9_100_000, "K80": 250_000}
    assert ShareSpec("bert", speeds, 90_000, 1_500, "nlp", Nanoseconds(7_200 * SECOND)) == spec.share
    assert Kind.SHARED == spec.kind == read(f"{SHARED}{line}\nkind: batch").kind
    assert ShareSpec() == read(SHARED + "share: {}").share


def test_share_is_told() -> None:
    """In one line, as it was written; of a job that told nothing, its weight."""
    line = "share: {model: bert, speeds: {V100: 9.1}, steps: 90000, weight: 1.5, entity: nlp, slo: 2h}"
    expected = (
        "model bert, 9.1 steps/s on V100, 90000 steps, weight 1.5, entity nlp, to be done within 2:00:00"
    )
    assert expected == share_text(read(SHARED + line).share or ShareSpec())
    assert "weight 1, keeps 0.8 beside bert" == share_text(ShareSpec(beside={"bert": 800_000}))


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        (
            "share: {speeds: {A100: 1}}",
            "share.speeds: it may not run on A100; name that type in resources.gpus too",
        ),
        ("share: {speeds: {V100: 0}}", "share.speeds.V100: 0 is no speed"),
        ("share: {speeds: {V100: fast}}", "share.speeds.V100: fast is no number"),
        ("share: {speeds: {V100: 0.0000001}}", "share.speeds.V100: 0.0000001 has more than 6 digits"),
        ("share: {weight: 0}", "share.weight: a weight of 0 would have it wait for ever"),
        ("share: {slo: soon}", "share.slo: soon is no span"),
        ("share: {stepps: 3}", "share: unknown field 'stepps'; did you mean 'steps'?"),
        ("share: {}\nkind: service", "share: service work is not stopped round after round"),
        ("share: {}\nkind: interactive", "share: interactive work is not stopped round after round"),
        ("share: {}\npriority: 6", "priority: in a shared pool weights decide"),
        ("kind: shared", "kind: shared is no kind of work"),
    ],
)
def test_mistake_is_told_at_its_line(more: str, wanted: str) -> None:
    """Each in one sentence, and nothing else."""
    found = problems(SHARED + more)
    assert [] == [one for one in found if wanted not in one], found


def test_what_cannot_be_stopped_is_refused() -> None:
    """Without a time to save, with several jobs, and with a part of a GPU."""
    text = "name: a\nrun: x\nresources: {gpus: V100:0.5}\nshare: {}\n"
    grace, gpus = problems(text)
    assert "resources.gpus: a policy shares whole GPUs" in gpus + grace
    assert "it is stopped round after round; say how long it needs to save" in gpus + grace
    job = "{run: x, resources: {gpus: V100:1}}"
    (several,) = problems(f"name: a\njobs: {{a: {job}, b: {job}}}\nshare: {{}}\ncheckpoint: {{grace: 9s}}")
    assert "share: a workload of several jobs cannot be stopped as one" in several


def test_emulated_steps() -> None:
    """In place of a length: how long it takes follows from its fastest type; half of the two is told."""
    text = "name: a\nresources: {gpus: [V100:1, K80:1]}\n"
    spec = read(text + "emulate: {steps: 900, speeds: {V100: 9, K80: 3}}")
    emulation = spec.jobs[0].emulation
    assert emulation is not None
    assert (900, 100 * SECOND) == (emulation.steps, emulation.work)
    for line in ("{steps: 9}", "{speeds: {V100: 9}}"):
        (one,) = problems(f"{text}emulate: {line}")
        assert "steps and speeds must both be there" in one
    (both,) = problems(text + "emulate: {work: 9s, steps: 9, speeds: {V100: 1}}")
    assert "how long it takes follows from its steps and speeds" in both

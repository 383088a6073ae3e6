"""The options of `mizzen policy`: prices, nodes, weights of entities, pairs that were not measured, and idle GPUs; on a trace and a log."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from core.sharing import replay
from core.sharing.building import Pool
from core.sharing.jobs import SharingJob
from core.sharing.problem import Shares, SharingProblem
from core.sharing.speeds import SpeedTable
from mizzen.cli import main
from mizzen.views.policies.estimates import with_pairs
from mizzen.views.policies.inputs import Input
from runtime.solvers.sharing import solve_shares
from tests.builders import a_job, a_spec, submitted
from tests.mizzen.policy_trace import SPEEDS, Captured, five_jobs, told
from tests.mizzen.test_logged_jobs import ran, written


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """Five jobs, and a file of speeds beside them."""
    return five_jobs(tmp_path)


def test_prices_are_given_or_asked_for(trace: str, capsys: Captured) -> None:
    """`@` is dollars of one GPU for an hour; with none known there is no cost, and a note says how to give them; with some, which lack."""
    Path(trace).with_name("speeds.yaml").write_text(
        "{slow: {h100: 10, b200: 8}, fast: {h100: {1: 20, 2: 36}}}"
    )
    words = ("compare", trace, "--policies", "fifo", "--workers", "1", "--gpus")
    unpriced = told(capsys, *words, "h100=2,b200=1").splitlines()
    assert ["COST$", "-"] == [line.split()[-1] for line in unpriced[:2]]
    assert ["no prices are known: say the dollars of one GPU for an hour in --gpus, as in H100=64@2.50"] == [
        line for line in unpriced[2:] if "prices" in line
    ]
    found = json.loads(told(capsys, *words, "h100=2,b200=1", "--json"))
    assert found["policies"][0]["summary"]["cost"] is None
    costs = []
    for gpus in ("h100=2@2.50,b200=1@1", "h100=2@5,b200=1@2.0"):
        found = json.loads(told(capsys, *words, gpus, "--json"))
        costs.append(found["policies"][0]["summary"]["cost"])
        assert not any("price" in note for note in found["notes"])
    assert 0 < costs[0]
    assert 2 * costs[0] == pytest.approx(costs[1])
    assert "no price is known of b200, which count nothing under COST$" in told(
        capsys, *words, "H100=2@2.5,b200=1"
    )


def test_known_prices_are_found_in_capitals(trace: str, capsys: Captured) -> None:
    """Speeds on `V100` cost as those on `v100` do."""
    words = ("compare", trace, "--gpus", "v100=2,k80=2", "--policies", "fifo", "--workers", "1")
    small = told(capsys, *words)
    Path(trace).with_name("speeds.yaml").write_text(
        SPEEDS.upper().replace("SLOW", "slow").replace("FAST", "fast")
    )
    assert small == told(capsys, *words)


SPREAD_SPEEDS = """
slow: {v100: 10, k80: 8}
fast: {v100: {1: 20, 2: 36}, v100/spread: {2: 9}, k80: {1: 4, 2: 7}}
"""


def test_spread_speeds_change_the_shares(trace: str, capsys: Captured) -> None:
    """G27: where the file has speeds of spread jobs a type has two columns, and a job wider than a node is never packed."""
    words = ("solve", trace, "--json", "--gpus")
    plain = json.loads(told(capsys, *words, "v100=4x1,k80=2"))
    assert ["here/v100", "here/k80"] == list(plain["classes"][0]["shares"])
    Path(trace).with_name("speeds.yaml").write_text(SPREAD_SPEEDS)
    found = {gpus: json.loads(told(capsys, *words, gpus)) for gpus in ("v100=4x1,k80=2", "v100=2x2,k80=2")}
    of_wide = {
        gpus: next(row["shares"] for row in one["classes"] if row["class"] == "fast x2")
        for gpus, one in found.items()
    }
    assert ["here/v100/packed", "here/v100/spread", "here/k80"] == list(of_wide["v100=2x2,k80=2"])
    # It does 36 steps a second packed, 9 spread, and 7 on K80s.
    assert 0 == of_wide["v100=4x1,k80=2"]["here/v100/packed"] < of_wide["v100=2x2,k80=2"]["here/v100/packed"]
    assert 0 < of_wide["v100=4x1,k80=2"]["here/v100/spread"] + of_wide["v100=4x1,k80=2"]["here/k80"]
    # Without that speed the job would have been as fast on the V100 as packed.
    wide = next(row["shares"] for row in plain["classes"] if row["class"] == "fast x2")
    assert wide["here/v100"] > 0


def test_placement_counts_in_a_comparison(trace: str, capsys: Captured) -> None:
    """A job wider than the nodes is slower, and ends later; one without a speed there is taken to be as fast, which is said."""
    words = ("compare", trace, "--policies", "max_min", "--workers", "1", "--json", "--gpus")
    Path(trace).with_name("speeds.yaml").write_text(SPREAD_SPEEDS)
    spans, notes = [], []
    for gpus in ("v100=4", "v100=2x2", "v100=4x1"):
        found = json.loads(told(capsys, *words, gpus))
        spans.append(found["policies"][0]["summary"]["makespan_hours"])
        notes.append(found["notes"])
    assert spans[0] == spans[1] < spans[2]
    assert [[], [], []] == notes
    path = Path(trace)
    path.write_text(
        path.read_text(encoding="utf-8").replace(
            "slow\tpython3 main.py\t.\t-n\t0\t36000\t1", "slow\tpython3 main.py\t.\t-n\t0\t36000\t2"
        )
    )
    found = json.loads(told(capsys, *words, "v100=4x1"))
    expected = "wider than a node, with no speed where spread: slow with 2 GPUs on v100: taken to be as fast as packed"
    assert expected in found["notes"]


LOGGED = (
    (0, submitted(1, a_spec(name="bert-1", tenant="ads"))),
    (0, submitted(2, a_spec(name="bert-2", tenant="maps"))),
    (0, submitted(3, a_spec(a_job(2), name="gpt-1", tenant="maps"))),
    *ran(1, 60, 40_060),
    *ran(2, 60, 20_060),
    *ran(3, 60, 20_060, "A100", 2),
)


def test_entities_have_weights(tmp_path: Path, capsys: Captured) -> None:
    """Of a plane's log they are the tenants: three times the weight is three times the speed; other policies read no weights."""
    log = str(written(tmp_path, *LOGGED))
    words: tuple[str, ...] = ("solve", log, "--gpus", "H100=1", "--json", "--policy", "hierarchical_fair")
    (tmp_path / "speeds.yaml").write_text("{bert: {H100: 2}, gpt: {A100: 2}}")
    words = (*words, "--speeds", str(tmp_path / "speeds.yaml"))

    def shares(*more: str) -> list[float]:
        return [row["shares"]["here/H100"] for row in json.loads(told(capsys, *words, *more))["classes"]]

    assert pytest.approx([0.5, 0.5], abs=1e-5) == shares()
    assert pytest.approx([0.75, 0.25], abs=1e-5) == shares("--entities", "ads=3")
    assert pytest.approx([0.2, 0.8], abs=1e-5) == shares("--entities", "ads=.5,maps=2")
    found = told(capsys, "solve", log, "--gpus", "H100=2", "--entities", "ads=2")
    assert (
        "the weights of entities change nothing here: hierarchical_fair and hierarchical_fifo read them"
        in found
    )
    for text, said in {
        "adds=2": "no job is of adds; they are of ads, maps",
        "ads": "'ads' is no weight above 0 of an entity; write for example ads=2,maps=1",
        "ads=0": "'ads=0' is no weight above 0",
        "ads=inf": "'ads=inf' is no weight above 0",
        "ads=1,ads=2": "ads stands twice",
    }.items():
        assert 2 == main(["policy", *words, "--entities", text])
        assert f"--entities: {said}" in capsys.readouterr().err


def test_weights_of_entities_count_in_a_comparison(tmp_path: Path, capsys: Captured) -> None:
    """Of two jobs on one GPU the shorter ends the sooner the more its entity weighs, and with it the mean."""
    log = str(written(tmp_path, *LOGGED))
    (tmp_path / "speeds.yaml").write_text("{bert: {H100: 2}, gpt: {A100: 2}}")
    words: tuple[str, ...] = (
        "compare",
        log,
        "--gpus",
        "H100=1",
        "--policies",
        "hierarchical_fair,hierarchical_fifo",
    )
    words = (*words, "--speeds", str(tmp_path / "speeds.yaml"), "--workers", "1", "--json", "--entities")
    less, more = (
        [one["summary"]["mean_hours"] for one in json.loads(told(capsys, *words, text))["policies"]]
        for text in ("ads=4", "maps=4")
    )
    assert all(one > other + 1 for one, other in zip(less, more, strict=True))


def test_log_with_all_options(tmp_path: Path, capsys: Captured) -> None:
    """A plane's log is compared with prices, nodes, weights, pairs and idle GPUs left; types are found however they are written."""
    log = str(written(tmp_path, *LOGGED))
    (tmp_path / "speeds.yaml").write_text(
        "{bert: {H100: 2, A100: 1}, gpt: {H100: {2: 5}, H100/spread: {2: 2}}}"
    )
    words: tuple[str, ...] = (
        "compare",
        log,
        "--gpus",
        "h100=2x1@2.5,eu/a100=1@1",
        "--speeds",
        str(tmp_path / "speeds.yaml"),
    )
    words = (
        *words,
        "--entities",
        "ads=2",
        "--pairs",
        "--idle",
        "leave",
        "--charge",
        "30s",
        "--workers",
        "1",
        "--json",
    )
    found = json.loads(
        told(capsys, *words, "--policies", "max_min,min_cost,strategy_proof,hierarchical_fair")
    )
    assert [3] * 4 == [one["summary"]["jobs"] for one in found["policies"]]
    assert all(one["summary"]["cost"] > 0 for one in found["policies"])
    assert "no speeds of pairs are known of these jobs, so that no two share GPUs" in found["notes"]


def test_notes_of_policies_are_told(trace: str, capsys: Captured) -> None:
    """What a policy says of the whole problem stands below the table, once; what it says of one job in some round does not."""
    path = Path(trace)
    path.write_text(path.read_text(encoding="utf-8").replace("\t-1\t", "\t0.6\t", 1), encoding="utf-8")
    speeds = "{slow: {v100: 10, h100: 8, b200: 7, l4: 6, a10: 5}, fast: {v100: 20, h100: 30}}"
    path.with_name("speeds.yaml").write_text(speeds)
    words = ("compare", trace, "--workers", "1", "--policies", "fifo,min_cost", "--gpus")
    lines = told(capsys, *words, "v100=2,h100=2").splitlines()
    note = "min_cost: h100 in here: its price is not known, so one GPU for an hour counts as 0.74 dollars, as much as the dearest"
    assert [note] == [line for line in lines if line.startswith("min_cost: ") and "price" in line]
    assert not any("cannot be kept" in line for line in lines)
    found = json.loads(told(capsys, *words, "v100=1,h100=2,b200=1,l4=1,a10=1", "--json"))["policies"]
    assert ([], 4) == (found[0]["notes"], len(found[1]["notes"]))
    assert "and 1 more notes" == found[1]["notes"][-1]


def test_idle_gpus_can_stay_idle(trace: str, capsys: Captured) -> None:
    """What strategy-proof sharing takes is not given back, and the cheapest shares stay cheap."""
    words = ("compare", trace, "--gpus", "v100=2@9,k80=2@1", "--policies", "strategy_proof,min_cost,fifo")
    given, left = (
        [one["summary"] for one in json.loads(told(capsys, *words, "--json", "--idle", idle))["policies"]]
        for idle in ("give", "leave")
    )
    assert left[0]["utilisation"] < 0.8 * given[0]["utilisation"]
    assert left[1]["cost"] < 0.9 * given[1]["cost"]
    assert left[2]["makespan_hours"] >= given[2]["makespan_hours"]


def test_false_speeds_do_not_pay_where_idle_gpus_stay_idle() -> None:
    """G11: by strategy-proof shares a job that tells three times its speed on one type ends sooner if idle GPUs are given away, and
    not sooner if they are left.
    """
    true = ((5.2, 3.8), (4.5, 4.1), (8.2, 5.1))
    table = SpeedTable({(f"m{one}", 1): {"a": a, "b": b} for one, (a, b) in enumerate(true)}, {})
    hardware = replay.Fleet((Pool("eu", "a", 1), Pool("eu", "b", 1)), table)
    jobs = [SharingJob(f"j{one}", f"m{one}", 1, 360.0 * 520.0 if one == 0 else 1e12) for one in range(3)]

    def ended(factor: float, *, fills: bool) -> float:
        def shares(problem: SharingProblem) -> Shares:
            told = problem.speeds.copy()
            told[0, 0] *= factor
            return solve_shares("strategy_proof", replace(problem, speeds=told))

        played = replay.Replay(jobs, hardware, replay.Chooser(shares), fills=fills).play(["j0"])
        return played.ended

    assert ended(3.0, fills=True) < 0.95 * ended(1.0, fills=True)
    assert ended(3.0, fills=False) > ended(1.0, fills=False)


def test_policy_that_never_ends_is_one_sentence(
    trace: str, capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With idle GPUs left, a policy that gives nothing does not end; the others are told all the same."""
    monkeypatch.setattr(replay, "IDLE_ROUNDS_MAX", 3)
    mine = tmp_path / "nothing.py"
    mine.write_text(
        "def objective(shares):\n    return -sum(shares.gpus @ shares.time_in)\n", encoding="utf-8"
    )
    words = ("compare", trace, "--gpus", "v100=2,k80=2", "--workers", "1", "--policies", f"fifo,{mine}")
    lines = told(capsys, *words, "--idle", "leave").splitlines()
    assert f"{mine}: 5 jobs never complete: no job has run for 3 rounds" == lines[-1]
    assert lines[1].startswith("fifo")


KEEPS = {"slow": 8.0, "fast": 7.0, "third": 8.1, "fourth": 7.0}
"""Steps a second beside any other; alone each does 10."""


def pairs_table(*, lacks: bool) -> str:
    """Speeds in Gavel's form, of four models; the pair of the first two was not measured, if it lacks."""
    table: dict[str, dict[str, object]] = {}
    for first, mine in KEEPS.items():
        row = table[f"('{first}', 1)"] = {"null": 10.0}
        for second, theirs in KEEPS.items():
            if not (lacks and {first, second} == {"slow", "fast"}):
                row[f"('{second}', 1)"] = [mine, theirs]
    return json.dumps({"v100": table})


def test_few_estimates_are_named() -> None:
    """Five models are named, and the others counted."""
    shapes = [(f"m{one}", 1) for one in range(9)]
    alone = {shape: {"v100": 10.0} for shape in shapes}
    pair = {"v100": (8.0, 8.0)}
    # The first two ran beside all, and the others beside none but those.
    together = {
        (one, other): pair for one in shapes for other in shapes if one in shapes[:2] or other in shapes[:2]
    }
    jobs = tuple(SharingJob(name, name, 1, 1.0) for name, _ in shapes)
    found = with_pairs(Input(jobs, SpeedTable(alone, together)), ["v100"])
    assert (6, "and 2 more models with estimated speeds beside others") == (len(found.notes), found.notes[-1])
    assert 81 == len(found.table.together)


ONE_EACH = (
    (0, submitted(1, a_spec(name="slow-1"))),
    (0, submitted(2, a_spec(name="fast-1"))),
    *ran(1, 60, 160, "v100"),
    *ran(2, 60, 160, "v100"),
)


def test_pairs_that_were_not_measured_are_estimated(trace: str, capsys: Captured) -> None:
    """G28: with `--pairs` their speeds are as those of the models that are most alike, which is said; measured ones are left alone."""
    path = Path(trace)
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join((lines[0], lines[-1])), encoding="utf-8")
    speeds = path.with_name("speeds.json")
    words = (
        "solve",
        trace,
        "--gpus",
        "v100=1",
        "--speeds",
        str(speeds),
        "--json",
        "--policy",
        "max_throughput",
    )
    objectives, notes = [], []
    for lacks in (False, True):
        speeds.write_text(pairs_table(lacks=lacks), encoding="utf-8")
        found = json.loads(told(capsys, *words, "--pairs"))
        objectives.append(found["objective"])
        notes.append(found["notes"])
    assert [pytest.approx(15.0)] * 2 == objectives
    assert [] == notes[0]
    assert [
        "fast with 1 GPU: its speeds beside 1 model are estimated, as it is most like fourth",
        "slow with 1 GPU: its speeds beside 1 model are estimated, as it is most like third",
    ] == sorted(notes[1])
    log = str(written(path.parent, *ONE_EACH))
    logged = ("solve", log, *words[2:])
    found = json.loads(told(capsys, *logged, "--pairs"))
    assert (notes[1], pytest.approx(15.0)) == (found["notes"], found["objective"]), "of a log too"
    found = json.loads(told(capsys, *words))
    assert ([], pytest.approx(10.0)) == (found["notes"], found["objective"]), (
        "nothing is estimated without --pairs"
    )

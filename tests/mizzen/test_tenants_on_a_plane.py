"""A tenant at a plane that runs: its own work as an operator does it, nobody else's, and one clear line for the rest."""

import json
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from bus.server_users import users_in
from core.messages.base import Refused
from core.messages.output import FindOutput, OutputFound, ReadOutput
from core.nouns.ids import TenantName, WorkerName, WorkloadId
from core.nouns.instant import seconds
from core.nouns.reasons import SENTENCES, Reason
from core.nouns.workload import Phase
from mizzen.cli import main
from mizzen.connect.plane import read_plane
from mizzen.views.plane_reads import on_plane
from mizzen.views.tasks import tenant_output as own_output
from tests.mizzen.asking import As, Captured, cancel, refused
from tests.mizzen.asking import ask as said
from tests.mizzen.asking import ask_json as told
from tests.mizzen.running import HERE, RunningPlane
from tests.worlds.plane import work

pytestmark = pytest.mark.processes
Patch = pytest.MonkeyPatch
PATIENCE = seconds(10)
ML, BIO = TenantName("ml"), TenantName("bio")


@contextmanager
def theirs(plane: RunningPlane, tenant: str = ML) -> Iterator[WorkloadId]:
    """One of this tenant's that runs in r0."""
    workload = plane.submit(
        replace(work("endless", milliseconds=600_000, region="r0"), tenant=TenantName(tenant))
    )
    plane.until(workload, Phase.RUNNING)
    try:
        yield workload
    finally:
        cancel(plane, workload)


def test_credentials_are_secret(let_in: As, tmp_path: Path, plane: RunningPlane, capsys: Captured) -> None:
    """They lie in a file for its owner's eyes alone, are never printed, and are the same when they are granted again."""
    shown = said(capsys, "tenants grant ml") + said(capsys, "tenants grant ml --json --output again.json")
    files = [tmp_path / "ml.credentials.json", tmp_path / "again.json"]
    assert [0o600, 0o600] == [stat.S_IMODE(path.stat().st_mode) for path in files]
    assert 1 == len({path.read_text() for path in files})
    found = read_plane(files[0])
    assert ("ml", "", plane.world.plan.fleet) == (found.tenant, found.directory, found.fleet)
    secret = found.url.partition("tenant.ml:")[2].partition("@")[0]
    assert len(secret) > 30
    assert secret not in shown
    assert "tenant.ml" in [user.user for user in users_in(plane.world.server.directory)]


def test_tenant_works_as_itself(let_in: As, tmp_path: Path, plane: RunningPlane, capsys: Captured) -> None:
    """Submitted without a word on whose account, seen, held, let go, changed, started anew and ended: as by an operator."""
    let_in(ML)
    (tmp_path / "job.yaml").write_text("name: mine\nrun: sleep 600\nresources: {gpus: 'H100:8'}\ntasks: 4\n")
    file = "name: mine\nregions: [here]\nrun: sleep 600\nresources: {gpus: 'cpu:1'}\n"
    (tmp_path / "job.yaml").write_text(file)
    mine = WorkloadId(said(capsys, "submit job.yaml").strip())
    row = next(row for row in told(capsys, "queue")["workloads"] if row["workload"] == mine)
    assert "ml" == row["tenant"]
    for words in (f"hold {mine}", f"release {mine}"):
        said(capsys, words)
    plane.until(mine, Phase.RUNNING)
    said(capsys, f"requeue {mine}")
    (tmp_path / "job.yaml").write_text(file.replace("600", "500"))
    said(capsys, f"update {mine} job.yaml")
    said(capsys, f"cancel -w {mine}")
    assert "CANCELLED" == told(capsys, f"show {mine}")["phase"]
    let_in("")
    story = told(capsys, f"show {mine}")
    assert story["submitter"].startswith("ml/")
    assert story["cancelled_by"] == story["submitter"]


def test_tenant_is_told_the_facts_of_the_queue(let_in: As, plane: RunningPlane, capsys: Captured) -> None:
    """Where its work is, or why it waits, and which parts are for operators."""
    with theirs(plane) as mine, theirs(plane, BIO):
        wide = plane.submit(replace(work("wide", tasks=4, region="r0"), tenant=ML))
        let_in(ML)
        capsys.readouterr()
        assert 0 == main(["show", mine])
        out, err = capsys.readouterr()
        assert f"{mine} endless\n  state         RUNNING in r0, attempt 1\n  tenant        ml\n" in out
        assert "earlier attempts and how nodes were chosen stand in the plane's logs, for operators" in err
        assert f"{mine} is RUNNING in r0 (attempt 1)\n" == said(capsys, f"explain {mine}")
        assert "no_capacity" in said(capsys, f"explain {wide}") or "waiting_turn" in said(
            capsys, f"explain {wide}"
        )
        assert wide == told(capsys, f"explain {wide}")["waiting"]["workload"]
        as_json = told(capsys, f"show {mine}")
        assert ("RUNNING", "r0", "ml", 1) == (
            as_json["phase"], as_json["region"], as_json["spec"]["tenant"], len(as_json["node_runs"]),
        )  # fmt: skip
        cancel(plane, wide)


def test_others_work_is_not_theirs(let_in: As, tmp_path: Path, plane: RunningPlane, capsys: Captured) -> None:
    """Whatever they ask, one line says whose it is not; nothing of it is in their lists, and nothing happens to it."""
    (tmp_path / "job.yaml").write_text("name: mine\nrun: sleep 600\nresources: {gpus: 'H100:8'}\n")
    not_theirs = SENTENCES[Reason.NOT_YOURS]
    with theirs(plane) as mls:
        let_in(BIO)
        for words in ("show", "explain", "logs", "tasks", "restart", "move"):
            assert not_theirs == refused(capsys, f"{words} {mls}")
        for words in ("cancel", "hold", "release", "requeue"):
            assert f"{mls}: {not_theirs}" == refused(capsys, f"{words} {mls}")
        assert not_theirs == refused(capsys, f"resize {mls} --tasks 2")
        assert f"nothing was changed: {not_theirs}" == refused(capsys, f"update {mls} job.yaml")
        assert mls not in said(capsys, "queue --all")
        assert 1 == main(["submit", "job.yaml", "--tenant", "ml"])
        assert "these are the credentials of bio" in capsys.readouterr().err
        let_in("")
        shown = told(capsys, f"show {mls}")
        assert ("RUNNING", False, 0, 1) == (
            shown["phase"], shown["is_held"], shown["spec_revision"], len(shown["attempts"]),
        )  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        "nodes", "pools", "prices", "controllers", "maintain", "defrag plan", "drain r0-0", "log global", "state global",
        "quota set bio --level 6", "quota set bio H100=64", "tenants grant bio", "tenants revoke ml",
        "controller credentials web --tenant bio",
    ],
)  # fmt: skip
def test_operators_commands_are_not_theirs(let_in: As, capsys: Captured, words: str) -> None:
    """One line says so, before anything is asked."""
    let_in(BIO)
    assert "only the plane's operators" in refused(capsys, words)


def test_tenants_and_their_use_are_no_secret(let_in: As, plane: RunningPlane, capsys: Captured) -> None:
    """As with Slurm by default: what each tenant may hold, and holds."""
    with theirs(plane):
        every = [(row["tenant"], row["uses"]) for row in told(capsys, "tenants")]
        let_in(BIO)
        assert every == [(row["tenant"], row["uses"]) for row in told(capsys, "tenants")]
        assert "ml" in said(capsys, "quota show ml")


def test_output_is_its_tenants(let_in: As, plane: RunningPlane, capsys: Captured, monkeypatch: Patch) -> None:
    """Found at the worker that has it, also of an attempt that is over; another tenant is refused there too, by name or by guess."""
    monkeypatch.setattr(own_output, "MORE_SPAN", seconds(0.05))  # There is one worker.
    program = plane.program("prints", "echo mine $RANK", tasks=2)
    done = plane.submit(replace(program, tenant=ML))
    let_in(ML)
    lines = said(capsys, f"logs {done} -f --rank all").splitlines()
    assert ["[0] mine 0", "[1] mine 1"] == sorted(lines)  # Which of them came first is chance.
    assert "mine 1\n" == said(capsys, f"logs {done} --rank 1")
    assert "mine 0\n" == said(capsys, f"logs {done} --attempt 1 --tail 1")
    assert "job main has no rank 2" in refused(capsys, f"logs {done} --rank 2", 2)
    monkeypatch.setattr(own_output, "FIND_SPAN", seconds(0.05))
    assert "no worker tells of output of attempt 9" in refused(capsys, f"logs {done} --attempt 9")
    assert "last attempt ended by completed" in said(capsys, f"explain {done}")
    found = FindOutput(HERE, done, 1, "main")
    asked = ReadOutput(HERE, WorkerName("w0"), done, 1, "main", 0, 0, 100)
    assert OutputFound(WorkerName("w0"), ((0, True), (1, True))) == on_plane(
        lambda bus, _: bus.ask(found, PATIENCE)
    )
    let_in(BIO)
    for question in (found, asked):
        no = on_plane(lambda bus, _, question=question: bus.ask(question, PATIENCE))  # type: ignore[misc]
        assert isinstance(no, Refused)
        assert Reason.NOT_YOURS == no.reason


def test_revoked_is_cut_off(let_in: As, plane: RunningPlane, capsys: Captured) -> None:
    """At once, and its work goes on; let in again it has another secret."""
    with theirs(plane) as mine:
        let_in(ML)
        first = read_plane(Path("ml.credentials.json"))
        let_in("")
        assert "tenant ml is let in no longer\n" == said(capsys, "tenants revoke ml")
        assert "tenant ml has no credentials to revoke" == refused(capsys, "tenants revoke ml")
        let_in(ML)
        assert first.url != read_plane(Path("ml.credentials.json")).url
        Path("ml.credentials.json").write_text(json.dumps({"url": first.url, "fleet": first.fleet}))
        assert "does not let tenant ml in" in refused(capsys, "queue")
        let_in("")
        assert "RUNNING" == told(capsys, f"show {mine}")["phase"]


def test_user_of_a_foreign_server_is_told_the_permissions_to_grant(
    tmp_path: Path, monkeypatch: Patch, capsys: Captured
) -> None:
    """Its users are for its operator to change."""
    monkeypatch.setenv("MIZZEN_NATS_URL", "nats://operator:secret@nats.example:4222")
    monkeypatch.delenv("MIZZEN_CREDENTIALS", raising=False)
    monkeypatch.chdir(tmp_path)
    assert 0 == main(["tenants", "grant", "ml"])
    out, err = capsys.readouterr()
    for text in ('"user": "tenant.ml"', '"mizzen.queue.cancel_workload/ml"', '"_INBOX.tenant.ml.>"'):
        assert text in out
    assert "MIZZEN_NATS_URL=nats://tenant.ml:PASSWORD@HOST:PORT" in err
    assert "secret" not in out + err
    assert 1 == main(["tenants", "revoke", "ml"])
    assert "remove its user tenant.ml there" in capsys.readouterr().err
    monkeypatch.setenv("MIZZEN_CREDENTIALS", "missing.json")
    assert 1 == main(["queue"])
    assert "missing.json cannot be read" in capsys.readouterr().err
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["", "a b", "a.b", "a/b", "*", "a" * 129])
def test_bad_names_are_refused(let_in: As, capsys: Captured, name: str) -> None:
    """They would be somebody else's signature, or everybody's."""
    assert 2 == main(["tenants", "grant", name])
    assert "cannot be part of a subject" in capsys.readouterr().err

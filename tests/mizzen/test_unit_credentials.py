"""`mizzen credentials`: the files of a plane's units, written once and again, and what `mizzen start` makes of one."""

import json
import stat
from pathlib import Path

import pytest

from bus.server_users import Allowed, Permissions, ServerUser, put_user, users_in
from mizzen.cli import main
from mizzen.connect.plane import CREDENTIALS_VARIABLE, read_plane
from mizzen.connect.unit_credentials import OPERATOR_FILE, SERVER_FILE
from mizzen.terminal.output import MISUSED

Captured = pytest.CaptureFixture[str]


def fleet(path: Path, text: str) -> str:
    """Write a fleet file."""
    path.write_text(text)
    return str(path)


def test_files_are_of_the_units_and_for_nobody_else(tmp_path: Path, capsys: Captured) -> None:
    """The directory is its user's alone, and each file names one user, who has a password of its own."""
    directory = tmp_path / "secrets"
    assert 0 == main(
        ["credentials", str(directory), "--server", "bus:4333", "--reach", "192.0.2.7:4333", "--json"]
    )
    units = json.loads(capsys.readouterr().out)["units"]
    assert 12 == len(units)
    assert 0o700 == stat.S_IMODE(directory.stat().st_mode)
    urls = {name: read_plane(directory / f"{name}.json").url for name in units}
    passwords = {url.partition("@")[0].rpartition(":")[2] for url in urls.values()}
    assert len(units) == len(passwords)
    assert urls["worker.here.w0"].startswith("nats://unit.worker.here.w0:")
    assert urls["worker.here.w0"].endswith("@bus:4333")
    assert urls["operator"].endswith("@192.0.2.7:4333")
    assert 'listen: "0.0.0.0:4333"' in (directory / SERVER_FILE).read_text()
    assert {user.user for user in users_in(directory)} == {f"unit.{name}" for name in units}
    assert all(user.permissions is not None for user in users_in(directory))


def test_written_again_for_a_fleet_that_changed(tmp_path: Path, capsys: Captured) -> None:
    """Passwords stay, new units get one, users of units that are gone go, and those of tenants stay as they are."""
    directory = tmp_path / "secrets"
    one = fleet(
        tmp_path / "one.yaml", "regions: {eu: {nodes: 4, gpu_type: H100}, us: {nodes: 4, gpu_type: A100}}"
    )
    two = fleet(tmp_path / "two.yaml", "regions: {eu: {nodes: 4, gpu_type: H100, agents: 3}}")
    assert 0 == main(["credentials", str(directory), "--fleet", one])
    before = {user.user: user.password for user in users_in(directory)}
    tenant = ServerUser("tenant.apps", "kept", Permissions(Allowed(("a",)), Allowed(("b",))))
    put_user(directory, tenant)
    capsys.readouterr()
    assert 0 == main(["credentials", str(directory), "--fleet", two])
    assert "removed" in capsys.readouterr().out
    after = {user.user: user for user in users_in(directory)}
    assert tenant == after["tenant.apps"]
    assert "unit.allocation_agent.eu.a2" in after.keys() - before.keys()
    assert {name for name in before if ".us" in name} == before.keys() - after.keys()
    assert all(after[name].password == password for name, password in before.items() if name in after)
    files = {path.stem for path in directory.glob("*.json")}
    assert {name.removeprefix("unit.") for name in after if name != "tenant.apps"} == files


@pytest.mark.parametrize("address", ["nats", ":4222", "nats:port", "user:pw@nats:4222", "nats:4222/x", ""])
def test_address_that_is_none(tmp_path: Path, address: str, capsys: Captured) -> None:
    """It is refused, and nothing is written."""
    assert MISUSED == main(["credentials", str(tmp_path / "secrets"), f"--server={address}"])
    assert "is no address of a server" in capsys.readouterr().err
    assert not (tmp_path / "secrets").exists()


def test_start_refuses_credentials_of_another_fleet(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says which fleets; a file that cannot be read is named too, and without any the ways to name a server are told."""
    monkeypatch.delenv("MIZZEN_NATS_URL", raising=False)
    other = fleet(tmp_path / "other.yaml", "{fleet: other, regions: {eu: {nodes: 4, gpu_type: H100}}}")
    assert 0 == main(["credentials", str(tmp_path / "secrets"), "--fleet", other])
    monkeypatch.setenv(CREDENTIALS_VARIABLE, str(tmp_path / "secrets" / OPERATOR_FILE))
    assert MISUSED == main(["start", "auditor"])
    assert "is for the fleet other, and this is the fleet mizzen" in capsys.readouterr().err
    # Processes of `mizzen up` are told the address, and inherit the environment of a user who may be a tenant.
    monkeypatch.setenv("MIZZEN_NATS_URL", "no address")
    assert MISUSED == main(["start", "auditor"])
    assert "the address of the NATS server cannot be used" in capsys.readouterr().err
    monkeypatch.delenv("MIZZEN_NATS_URL")
    monkeypatch.setenv(CREDENTIALS_VARIABLE, str(tmp_path / "nowhere.json"))
    assert 0 != main(["start", "auditor"])
    assert "nowhere.json cannot be read" in capsys.readouterr().err
    monkeypatch.delenv(CREDENTIALS_VARIABLE)
    assert MISUSED == main(["start", "auditor"])
    assert CREDENTIALS_VARIABLE in capsys.readouterr().err

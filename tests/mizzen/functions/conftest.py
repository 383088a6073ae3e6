"""One plane for all tests of a file, found from where each test stands."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mizzen.functions.session import close
from runtime.logs import set_up_logs
from tests.mizzen.functions.running import FLEET, FunctionsPlane, functions_plane


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FunctionsPlane]:
    """The one plane."""
    set_up_logs({}, default="error")
    with functions_plane(tmp_path_factory.mktemp("functions")) as plane:
        yield plane
        close()


@pytest.fixture
def plane(shared: FunctionsPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FunctionsPlane:
    """The plane is found from where the test stands: a directory with nothing else."""
    for name in ("MIZZEN_CREDENTIALS", "MIZZEN_LOG"):
        monkeypatch.delenv(name, raising=False)
    set_up_logs({}, default="error")
    monkeypatch.setenv("MIZZEN_NATS_URL", shared.url)
    monkeypatch.setenv("MIZZEN_FLEET", FLEET)
    monkeypatch.chdir(tmp_path)
    return shared

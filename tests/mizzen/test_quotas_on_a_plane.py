"""An operator makes a tenant on a plane that runs, by the commands, as they are typed."""

import pytest

from tests.mizzen.asking import Captured, ask, ask_json, refused
from tests.mizzen.running import RunningPlane

pytestmark = pytest.mark.processes


def test_tenant_is_made_and_listed(plane: RunningPlane, capsys: Captured) -> None:
    """What was set is listed, and what is wrong is told with what to do next."""
    assert "nobody made research" in refused(capsys, "quota set research H100=4")
    assert "there is no tenant research" in refused(capsys, "quota show research")
    assert "say what is to be set" in refused(capsys, "quota set research", 2)
    assert "level: 7 is not between 0 and 6" in refused(capsys, "quota set research --level 7", 2)
    said = ask(capsys, "quota set research H100=4 --borrow 2 --level 4 --budget 1000/7d --force").split()
    assert ["research", "H100", "4", "2", "yes", "0", "0"] == said[8:15]
    assert ["research", "5", "4"] == ask(capsys, "quota set research --level 5").splitlines()[1].split()[:3]
    (row,) = [row for row in ask_json(capsys, "tenants") if row["tenant"] == "research"]
    assert (4, 5, 1000) == (row["revision"], row["settings"]["level"], row["budget"]["gpu_hours"])
    assert " 1000/7d" in ask(capsys, "tenants")
    left = row.pop("period_left")
    (again,) = ask_json(capsys, "quota show research")
    assert left > again.pop("period_left") > 0
    assert row == again
    assert "research" in ask(capsys, "quota")
    assert row["uses"] in [one["uses"] for one in ask_json(capsys, "quota")]

"""An operator makes a tenant on a plane that runs, by the commands, as they are typed."""

from pathlib import Path

import pytest

from core.nouns.workload import Phase
from mizzen.cli import main
from tests.mizzen.asking import ENDLESS, Captured, ask, ask_json, cancel, refused
from tests.mizzen.running import RunningPlane
from tests.worlds.plane import work

pytestmark = pytest.mark.processes


def test_tenant_is_made_and_listed(plane: RunningPlane, capsys: Captured) -> None:
    """What was set is listed, and what is wrong is told with what to do next."""
    assert "nobody made research" in refused(capsys, "quota set research H100=4")
    assert "there is no tenant research" in refused(capsys, "quota show research")
    assert "say what is to be set" in refused(capsys, "quota set research", 2)
    assert "level: 7 is not between 0 and 6" in refused(capsys, "quota set research --level 7", 2)
    said = ask(capsys, "quota set research H100=4 --borrow 2 --level 4 --budget 1000/7d --force").split()
    assert ["research", "H100", "4", "2", "yes", "0", "0", "0"] == said[13:21]
    assert ["100%", "0h", "1000h"] == said[22:25]
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


def test_work_is_steered_within_its_tenants_level(plane: RunningPlane, capsys: Captured) -> None:
    """What is wrong is told with what to do next: an unknown tenant, a level above its tenant's, no level at all."""
    ask(capsys, "quota set default --level 3")
    ask(capsys, "quota set art H100=8 --level 2 --force")
    workload = plane.submit(work("steered", milliseconds=ENDLESS, region="r0"))
    for name in ("arts", "default"):
        Path(f"{name}.yaml").write_text(f"name: a\nrun: echo\nresources: {{gpus: cpu:1}}\ntenant: {name}\n")
    said = told(capsys, "submit arts.yaml")
    assert "arts.yaml:4:9: tenant: there is no arts; name one of art, default" in said
    assert "priority: 5 is above 3, the level of default" in told(capsys, "submit default.yaml --priority 5")
    assert "priority: 4 is above 3, the level of default" in told(capsys, f"priority 4 {workload}")
    assert f"{workload} its priority is 1 from now on\n" == ask(capsys, f"priority 1 {workload}")
    (done,) = ask_json(capsys, f"priority tenant {workload}")
    assert (workload, "its priority is that of its tenant from now on") == (done["workload"], done["text"])
    plane.until(workload, Phase.RUNNING)
    (line,) = [line.split() for line in ask(capsys, "queue").splitlines() if "steered" in line]
    assert [workload, "steered", "default", "over", "RUNNING"] == line[:5]
    assert "it is over the quota of default: it may hold capacity that other tenants leave unused" in ask(
        capsys, f"explain {workload}"
    )
    ask(capsys, "quota set default H100=8 --force")
    shown = ask(capsys, f"show {workload}")
    assert "  priority      3, its tenant's; training\n" in shown
    assert "  stands        within the quota of default, at level 3\n" in shown
    assert "is no level; write 0 to 6 or tenant" in refused(capsys, f"priority {workload} 4", 2)
    assert "name a workload" in refused(capsys, "priority 4", 2)
    cancel(plane, workload)


def test_ranking_is_shown_and_set(plane: RunningPlane, capsys: Captured) -> None:
    """As a table, and as JSON; bad figures are refused."""
    lines = [line.split()[:3] for line in ask(capsys, "quota ranking").splitlines()]
    assert ["walk", "level", "credit"] in lines
    done = ask_json(capsys, "quota ranking --paper --half-life 12h")
    assert (1, False) == (done["revision"], done["settings"]["walks_by_level"])
    assert ask_json(capsys, "quota ranking") == done
    assert "half_life: it is not between" in refused(capsys, "quota ranking --half-life 0", 2)
    ask(
        capsys,
        "quota ranking --walk level --share-by entitlement --quota-patience 10m --borrowed-counts no --order events"
        " --pass 10s",
    )


def told(capsys: Captured, words: str) -> str:
    """All that a command says instead."""
    capsys.readouterr()
    assert main(words.split())
    return capsys.readouterr().err

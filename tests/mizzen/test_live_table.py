"""What people see of a run: a line where there is no terminal, and a curve of blocks."""

import pytest
from msgspec.structs import replace

from core.messages.tenants import ListedTenant
from core.nouns.ids import RegionName, TenantName
from core.nouns.tenant import Entitlement, TenantSettings, TypeUse
from mizzen.views.live_table import LiveTable, line_of, sparkline, tenants_told
from scenarios.play.live import Look, TenantsAt
from scenarios.play.live_gangs import GangLook, Point

EAST = RegionName("east")


def a_look(seconds: float = 12.3) -> Look:
    """Half way."""
    counts = {"COMPLETED": 3, "FAILED": 1, "RUNNING": 2, "PENDING": 4}
    curve = [Point(1, 10 * number, 4.0 - number) for number in range(4)]
    return Look(
        seconds=seconds,
        submitted=10,
        wanted=10,
        counts=counts,
        waiting={"no_capacity": 4},
        held={EAST: 16_000},
        total={EAST: 64_000},
        gangs=[GangLook("charlm", curve=curve)],
    )


def with_tenant(look: Look) -> Look:
    """Half of what it holds is borrowed."""
    uses = {"H100": TypeUse(Entitlement(8), 16_000, 8_000, 0)}
    return replace(look, tenants=[ListedTenant(TenantName("ml"), TenantSettings(), 1, None, uses)])


def test_line() -> None:
    """All that matters, in one."""
    wanted = " 12.3 s  4/10 ended, 2 running, 4 pending, 16 GPUs held, loss 1.000 at step 30"
    assert wanted == line_of(a_look())


def test_line_of_several_gangs() -> None:
    """The newest loss of each that told one, by its name."""
    (gang,) = a_look().gangs
    other = GangLook("heavy", curve=[Point(2, 90, 0.5)])
    told = line_of(replace(a_look(), gangs=[gang, GangLook("silent"), other]))
    assert told.endswith("loss 1.000 at step 30 of charlm, loss 0.500 at step 90 of heavy")


def test_line_of_a_run_with_tenants() -> None:
    """What of all that is held is borrowed, too."""
    assert "16 GPUs held, 8 borrowed, loss" in line_of(with_tenant(a_look()))


def test_tenants_of_a_run_when_it_is_over() -> None:
    """When they held most, and what they had used in the end; nothing, where there are none."""
    rows = with_tenant(a_look()).tenants
    told = tenants_told([TenantsAt(9.4, rows), TenantsAt(52.1, [replace(rows[0], uses={})])])
    assert ["", "tenants after 9.4 s, when most was held:"] == told[:2]
    assert told[3].split()[:8] == ["ml", "H100", "8", "all", "yes", "16", "8", "0"]
    assert "tenants after 52.1 s, when everything had ended:" == told[5]
    assert [] == tenants_told([])


def test_curve_falls_from_left_to_right() -> None:
    """The highest block for the highest loss; as many blocks as fit."""
    assert "█▆▃▁" == sparkline(a_look().gangs[0].curve)
    assert "" == sparkline([])
    assert "▁▁" == sparkline([Point(1, 1, 2.0), Point(1, 2, 2.0)])
    assert 10 == len(sparkline([Point(1, step, float(step)) for step in range(100)], width=10))


def test_without_a_terminal_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    """Not one for each look; and none at all when it is to be quiet."""
    with LiveTable() as table:
        for seconds in (0.0, 1.0, 4.9, 5.0, 6.0):
            table(a_look(seconds))
    with LiveTable(is_quiet=True) as table:
        table(a_look())
    out, err = capsys.readouterr()
    assert ("", 2) == (out, err.count("\n"))


def test_on_a_terminal_a_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Regions with their GPUs, tenants, who waits and why, the loss."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    with LiveTable() as table:
        table(with_tenant(a_look()))
    shown = capsys.readouterr().err
    for text in ("east", "16", "64", "BORROWED", "4 no_capacity", "3 COMPLETED, 1 FAILED", "at step 30"):
        assert text in shown

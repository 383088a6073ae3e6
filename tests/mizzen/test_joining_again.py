"""A worker that joined before starts again: it stays what it was, and its nodes stay in the pools into which plans moved them."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from core.events.pools import NodesPooled
from mizzen.connect import join
from mizzen.connect.join import region_to_join
from mizzen.connect.plane import Plane
from mizzen.terminal.output import MISUSED, CommandError
from mizzen.terminal.worker_options import SpotOptions
from runtime.plane import spool_of
from tests.builders import EU
from tests.mizzen.pools_scene import plane_of
from tests.runtime.aids import FLEET, Place, in_virtual_time

STAYS = "changes nothing; `mizzen pools need` moves nodes\n"


@pytest.mark.parametrize(
    ("moved", "spot", "said"),
    [
        ((4, 7), SpotOptions(), ""),
        ((4, 7), SpotOptions(pool="service"), ""),
        ((4, 7), SpotOptions(pool="training", rack=2, power_domain="power-1"), "pool service of region eu, and stay there: --pool training"),
        ((4, 5), SpotOptions(pool="training"), "pools service, training of region eu, and stay there: --pool training"),
    ],
)  # fmt: skip
def test_pool_that_is_named_again_is_no_reason_to_refuse_a_worker(
    moved: tuple[int, int],
    spot: SpotOptions,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its nodes stay in the pool in which they are, and a line says so where another is named."""
    spool_of(tmp_path, EU, "w1").mkdir(parents=True)

    async def body(place: Place) -> None:
        plane = await plane_of(place, NodesPooled((moved,), "service", 1))
        monkeypatch.setattr(join, "client_of", lambda *_: nullcontext(plane.bus))
        assert EU == await region_to_join(Plane("", FLEET), "", "w1", tmp_path, spot)

    in_virtual_time(body)
    told = f"mizzen: note: the nodes of worker w1 are in {said} {STAYS}" if said else ""
    assert told == capsys.readouterr().err


def test_other_differences_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what it joined with; the pool is none of them."""
    spool_of(tmp_path, EU, "w1").mkdir(parents=True)

    async def body(place: Place) -> None:
        plane = await plane_of(place, NodesPooled(((4, 7),), "service", 1))
        monkeypatch.setattr(join, "client_of", lambda *_: nullcontext(plane.bus))
        spot = SpotOptions(zone="zone-7", pool="training", rack=3)
        with pytest.raises(CommandError) as raised:
            await region_to_join(Plane("", FLEET), "", "w1", tmp_path, spot)
        assert (
            MISUSED,
            "worker w1 joined region eu with --zone zone-1, --rack 2; say that or nothing, or join again under another --member",
        ) == (raised.value.exit_code, str(raised.value))

    in_virtual_time(body)
    assert "the nodes of worker" not in capsys.readouterr().err

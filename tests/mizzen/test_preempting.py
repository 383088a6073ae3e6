"""Having workloads make room, and how regions choose who does: asked of a real store, judged by it, and told as it stands."""

from typing import Any

import pytest

from core.events.control import OperationsBegun, OperationsRequested
from core.events.region import GangStarted, PreemptionSet, StopOrdered
from core.images import RegionImage
from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import Instant, Nanoseconds, seconds
from core.nouns.operation import WHOLE, BegunBy, OperationKind
from core.nouns.preemption import BidScore, PreemptionSettings, VictimOrder
from core.nouns.workload import EndCause, Kind
from mizzen.actions.settings.preemption import set_preemption, wish_of
from mizzen.actions.task_operations import Wish, lines_of, operate
from mizzen.connect.plane import RequestRefused, submitter
from mizzen.terminal.output import MISUSED, CommandError
from mizzen.views.fleet.preemption_table import preemption_text, row_of, rows_of_plane, table_of
from tests.builders import EU, EU_LOG, START, a_claim, a_region, a_spec, attempt, granted, joined
from tests.mizzen.half_plane import HalfPlane, awarded, half_plane
from tests.mizzen.nodes_scene import gang, nodes, service
from tests.runtime.aids import Place, virtual

W1 = WorkloadId("w-1")
NODES = nodes("w0", 0)
PREEMPT = OperationKind.PREEMPT
MINUTE = seconds(60)
SPEC = a_spec(tenant=TenantName("ml"))


async def plane_of(place: Place, *events: Any) -> HalfPlane:  # Any: events
    """The workload runs there."""
    return await half_plane(place, (NODES, *events), *awarded(), spec=SPEC)


async def preempted(plane: HalfPlane, workload: WorkloadId = W1, deadline: Nanoseconds = MINUTE) -> list[str]:
    """An operator asks for it, and is told this."""
    return lines_of(await operate(plane.bus, workload, Wish(PREEMPT, deadline=deadline), plane.now))


@virtual
async def test_controller_is_asked_and_the_deadline_holds(place: Place) -> None:
    """In the operator's name, who has a budget; at the deadline it is stopped, and goes back to its place."""
    plane = await plane_of(place, *gang("w-1", {0: 2}, "trainer"))
    assert [
        "w-1: preempt of its gang is asked for",
        "  it waits for the word of controller trainer, for 59s at the most",
        "`mizzen tasks w-1 -w` follows it",
    ] == await preempted(plane)
    (asked,) = await plane.events(EU_LOG, OperationsRequested)
    wanted = (PREEMPT, (WHOLE,), "an operator wants its capacity", f"operator:{submitter()}")
    assert wanted == (asked.kind, asked.tasks, asked.reason, asked.requester)
    await place.sleep(58)
    assert [] == await plane.events(EU_LOG, StopOrdered)
    await place.sleep(4)
    assert [BegunBy.DEADLINE] == [event.by for event in await plane.events(EU_LOG, OperationsBegun)]
    assert [EndCause.PREEMPTED] == [event.cause for event in await plane.events(EU_LOG, StopOrdered)]


@virtual
async def test_now(place: Place) -> None:
    """Nobody's word is waited for."""
    plane = await plane_of(place, *gang("w-1", {0: 2}, "trainer"))
    await preempted(plane, deadline=Nanoseconds(1_000_000))
    await place.sleep(2)
    assert [EndCause.PREEMPTED] == [event.cause for event in await plane.events(EU_LOG, StopOrdered)]


@virtual
async def test_workload_without_a_controller_is_stopped_at_once(place: Place) -> None:
    """Whatever the deadline."""
    plane = await plane_of(place, *gang("w-1", {0: 2}))
    await preempted(plane)
    await place.sleep(2)
    assert [EndCause.PREEMPTED] == [event.cause for event in await plane.events(EU_LOG, StopOrdered)]


@virtual
async def test_service_goes_whole(place: Place) -> None:
    """All of its tasks at once, by one word."""
    plane = await plane_of(place, *service("w-1", {0: 1, 1: 1}, "replicas"))
    assert [
        "w-1: preempt of all of it is asked for",
        "  it waits for the word of controller replicas, for 59s at the most",
    ] == (await preempted(plane))[:2]


@virtual
async def test_interactive_work_is_refused(place: Place) -> None:
    """With what to do instead."""
    claim = a_claim("w-1", placed={0: 1}, kind=Kind.INTERACTIVE)
    plane = await plane_of(place, granted(claim), GangStarted(*attempt()))
    with pytest.raises(RequestRefused) as caught:
        await preempted(plane)
    assert "interactive work is never preempted; requeue it" in str((caught.value, caught.value.__dict__))
    assert [] == await plane.events(EU_LOG, OperationsRequested)


@virtual
async def test_workload_of_which_nothing_runs(place: Place) -> None:
    """It waits, is not known, or leaves already."""
    plane = await half_plane(place, [NODES])
    with pytest.raises(CommandError, match="w-1 is PENDING, so nothing of it runs"):
        await preempted(plane)
    with pytest.raises(RequestRefused, match="No workload of this id is known"):
        await preempted(plane, WorkloadId("w-9"))


@virtual
async def test_workload_that_leaves_already(place: Place) -> None:
    """There is nothing to touch."""
    plane = await plane_of(place, *gang("w-1", {0: 2}), StopOrdered(W1, 1, EndCause.CANCELLED))
    with pytest.raises(RequestRefused, match="so there is nothing to touch"):
        await preempted(plane)


# Settings.


def wish(**said: str) -> dict[str, Any]:  # Any: as each field has it
    """What these options mean."""
    words = {"order": "", "score": "", "ask": "", "claim_max": "", "hour_max": "", **said}
    return wish_of(**words, is_paper=False)


@virtual
async def test_preemption_is_set_and_the_rest_stays(place: Place) -> None:
    """In the operator's name; the table shows it, with the caps that hold."""
    plane = await plane_of(place)
    await set_preemption(plane.bus, wish(order="paper", claim_max="50"))
    await set_preemption(plane.bus, wish(ask="30s"))
    first = PreemptionSettings(VictimOrder.PAPER, claim_max=50 * 3_600)
    second = PreemptionSettings(VictimOrder.PAPER, ask_span=seconds(30), claim_max=50 * 3_600)
    by = submitter()
    assert [PreemptionSet(1, first, by), PreemptionSet(2, second, by)] == await plane.events(
        EU_LOG, PreemptionSet
    )
    rows, silent = await rows_of_plane(plane.bus, "")
    assert [] == silent
    assert [
        "REGION  ORDER  SCORE   ASK  CLAIM MAX  HOUR MAX  THIS HOUR  IN ALL  PREEMPTED",
        "eu      paper  vector  30s       50.0     500.0        0.0     0.0          0",
    ] == table_of(rows, None)


@virtual
async def test_preemption_that_cannot_be_set_so(place: Place) -> None:
    """The store says why, and nothing is recorded."""
    plane = await plane_of(place)
    with pytest.raises(CommandError, match=r"ask_span: it is from 0 to 75 s|not well formed"):
        await set_preemption(plane.bus, wish(ask="10m"))
    with pytest.raises(CommandError, match="there is no region mars"):
        await set_preemption(plane.bus, wish(ask="10s"), "mars")
    assert [] == await plane.events(EU_LOG, PreemptionSet)


def test_wishes() -> None:
    """The paper's order and score together, caps in GPU-hours, and those that go by the region's size again."""
    paper = {"order": VictimOrder.PAPER, "score": BidScore.PAPER}
    nothing = dict.fromkeys(("order", "score", "ask", "claim_max", "hour_max"), "")
    assert paper == wish_of(**nothing, is_paper=True)
    assert {**paper, "score": BidScore.VECTOR} == wish_of(**{**nothing, "score": "vector"}, is_paper=True)
    assert {"claim_max": 0, "hour_max": 7_200} == wish(claim_max="auto", hour_max="2")


def test_wishes_that_mean_nothing() -> None:
    """All that is wrong at once."""
    with pytest.raises(CommandError, match="5 things are wrong") as caught:
        wish(order="newest", score="sum", ask="soon", claim_max="-1", hour_max="many")
    assert MISUSED == caught.value.exit_code
    with pytest.raises(CommandError, match="--order: newest is neither cost nor paper"):
        wish(order="newest")


def test_caps_grow_with_the_region() -> None:
    """A hundred and five hundred GPU-hours at least; of 20,000 GPUs a twentieth and a tenth of an hour of all of them."""
    small, large = a_region(joined()), a_region(joined("w0", 0, 2_500))
    figures = [(row.claim_max, row.hour_max) for row in map(row, (small, large))]
    assert [(360_000, 1_800_000), (3_600_000, 7_200_000)] == figures


def row(image: RegionImage) -> Any:  # Any: a row of the table
    """As the table has it."""
    return row_of(EU, image, Instant(START))


def test_settings_in_a_sentence() -> None:
    """As the log tells them."""
    text = "order cost, score vector, controllers are asked for 1m, at most a claim by its size, 500.0 GPU-hours an hour"
    assert text == preemption_text(PreemptionSettings(hour_max=1_800_000))

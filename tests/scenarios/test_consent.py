"""The accounts of consent count what should never be: what nobody agreed to, and what was forced too early."""

import pytest
from msgspec.structs import replace

from core.events.control import ControlAnswered, OperationsBegun, OperationsRequested
from core.events.region import GangStarted
from core.fact import Event
from core.images import RegionImage
from core.nouns.instant import SECOND, seconds
from core.nouns.operation import Ack, BegunBy, ControlSpec, OperationKind
from core.nouns.placement import Claim
from core.nouns.workload import Kind
from scenarios.accounting.consent import Consent
from tests.builders import EU_LOG, a_claim, attempt, facts_of, granted, joined

W1 = attempt()
SERVICE = replace(a_claim(placed={0: 2}, kind=Kind.SERVICE), control=ControlSpec("shards"), spec_revision=3)
ALONE = replace(SERVICE, control=ControlSpec())
ACK = ControlAnswered(*W1, 4, (Ack(1),))


def figures_of(claim: Claim, deadline: int, *events: Event) -> dict[str, float]:
    """Of a restart of one of two tasks, asked for with that deadline; and then these, a second after the other."""
    asked = OperationsRequested(*W1, 1, OperationKind.RESTART, (0,), "because", "", deadline, "user:ada")
    consent, image, at = Consent(), RegionImage.empty(), 0.0
    for fact in facts_of((joined(), granted(claim), GangStarted(*W1), asked, *events)):
        at = fact.at / SECOND
        consent.take(fact, at, image, {EU_LOG: image})
        image.fold(fact)
    return consent.figures(at, {EU_LOG: image})


def begun(by: BegunBy) -> Event:
    """It begins."""
    return OperationsBegun(*W1, (1,), by, "user:ada")


@pytest.mark.parametrize(
    ("figures", "unasked", "early"),
    [
        pytest.param(figures_of(SERVICE, 0, ACK, begun(BegunBy.ACK)), 0, 0, id="agreed to"),
        pytest.param(figures_of(SERVICE, 0, begun(BegunBy.ACK)), 1, 0, id="nobody had answered"),
        pytest.param(figures_of(SERVICE, 0, begun(BegunBy.LIMITS)), 1, 0, id="its controller was not asked"),
        pytest.param(figures_of(ALONE, 0, begun(BegunBy.LIMITS)), 0, 0, id="there is no controller"),
        pytest.param(figures_of(SERVICE, SECOND, begun(BegunBy.DEADLINE)), 0, 0, id="its time had come"),
        pytest.param(figures_of(SERVICE, seconds(9), begun(BegunBy.DEADLINE)), 0, 1, id="too early"),
        pytest.param(figures_of(SERVICE, 0, begun(BegunBy.DEADLINE)), 0, 1, id="it had no deadline"),
    ],
)
def test_operations_that_began(figures: dict[str, float], unasked: int, early: int) -> None:
    """By whose word, and whether that was so."""
    assert 1 == figures["operations"]
    assert (unasked, early) == (figures["operations_unasked"], figures["early_stops"])

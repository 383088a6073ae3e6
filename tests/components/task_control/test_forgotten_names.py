"""Attempts and controllers come and go for ever: a task control remembers requests and answers only while they can matter."""

from components.task_control.state import ControlState
from core.messages.store import RecordEnd
from core.nouns.ids import TenantName
from core.nouns.instant import Instant
from core.nouns.limits import CONTROL_RETENTION, CONTROLLERS_KEPT_MAX
from core.nouns.operation import OperationKind
from core.nouns.workload import EndCause
from tests.builders import EU, attempt
from tests.components.support.task_control import Pair, Start, a_service, t


def test_requests_are_forgotten_with_their_attempt(start: Start) -> None:
    """Its controller never answers, and is no longer asked an hour after the end of the attempt: nothing is left of the requests."""
    pair = Pair(start)
    pair.grant(a_service())
    pair.operate(OperationKind.RESTART, t(0))
    assert {attempt()} == set(pair.control.state.asked)
    pair.hear(RecordEnd(EU, *attempt(), EndCause.CANCELLED))
    pair.wait(CONTROL_RETENTION)
    pair.wait(CONTROL_RETENTION)
    assert pair.store.state.image.control.row(*attempt()) is None
    assert {} == pair.control.state.asked


def test_controllers_are_bounded() -> None:
    """Of more controllers than are remembered, the one that is silent for longest is forgotten."""
    state = ControlState(Instant(0))
    tenant = TenantName("t")
    for number in range(CONTROLLERS_KEPT_MAX + 5):
        state.of_controller((tenant, f"c{number}")).ignored += 1
        state.of_controller((tenant, "c0")).ignored += 1
    assert CONTROLLERS_KEPT_MAX == len(state.controllers)
    assert CONTROLLERS_KEPT_MAX + 6 == state.controllers[tenant, "c0"].ignored
    assert (tenant, "c5") not in state.controllers
